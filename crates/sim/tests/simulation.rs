//! Runs of simulated sites.
#![allow(clippy::unwrap_used, reason = "the helpers of a test fail the test, as the test itself does")]

use std::process::Command;

use sim::app;
use sim::disk::Mood;
use sim::isle::Identities;
use sim::run::run;
use sim::schedule::{Act, Ask, Dues, Fault, Hurries, Level, Schedule, Step, What};
use sim::versions::{NEXT, TOO_NEW};

/// What a process of its own says of a seed.
fn said_of(seed: u64) -> String {
    let seed = seed.to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_archipel-sim")).args(["--seed", &seed]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn one_number_replays_a_run_to_the_byte_in_another_process() {
    for seed in [1, 2, 3, 5, 8] {
        let (first, second) = (said_of(seed), said_of(seed));
        assert!(first.lines().count() > 50, "{first}");
        let differs = first.lines().zip(second.lines()).position(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}, at that line of\n{first}");
        assert_eq!(first, second);
    }
}

#[test]
fn two_seeds_are_two_runs() {
    assert_ne!(said_of(1), said_of(2));
}

#[test]
fn some_runs_keep_every_promise() {
    let identities = Identities::make();
    for seed in 0..12 {
        let report = run(&Schedule::of(seed), &identities);
        assert!(report.violations.is_empty(), "{}", report.trace.join("\n"));
        assert!(report.requests.contains_key("done"));
    }
}

/// Services that keep the names of operations go on with what nobody waits for any more, and nothing runs twice.
#[test]
fn services_that_tell_what_they_did_execute_nothing_twice() {
    let identities = Identities::make();
    for seed in 0..3 {
        let report = run(&Schedule { probes: true, ..Schedule::busy(seed) }, &identities);
        assert!(report.violations.is_empty(), "{}", report.trace.join("\n"));
    }
}

/// A run of three sites without faults, in which the third starts when the others have been there for two seconds.
fn membership(steps: &[(u64, What)]) -> Vec<String> {
    let steps = steps.iter().map(|(at, what)| Step { at: *at, what: what.clone() }).collect();
    let report = run(
        &Schedule {
            seed: 7,
            sites: 3,
            late: Some(2),
            steps,
            dues: Dues::new(),
            hurries: Hurries::new(),
            probes: false,
            counts: false,
        },
        &Identities::make(),
    );
    assert!(report.violations.is_empty(), "{}", report.trace.join("\n"));
    report.trace
}

fn make(number: usize, site: usize, members: &[usize]) -> What {
    let (zone, level) = (members.is_empty().then_some(0), Level::Eventual);
    What::Ask(Ask {
        number,
        site,
        act: Act::Create { members: members.to_vec(), level, zone, refused: false },
    })
}

/// What a request was told, without the time.
fn told(trace: &[String], number: usize) -> &str {
    let name = format!(" w{number}: ");
    let line = trace.iter().find(|line| line.contains(&name)).unwrap();
    line.split_once(&name).unwrap().1
}

#[test]
fn a_site_that_starts_late_is_asked_once_it_is_known_and_sets_a_zone_for_all() {
    let trace = membership(&[
        (1_000, make(0, 0, &[0, 2])),
        (2_000, What::Break(Fault::Start(2))),
        (6_000, make(1, 0, &[0, 2])),
        (7_000, make(2, 0, &[])),
        (8_000, What::Break(Fault::Zone(2, 1))),
        (12_000, make(3, 0, &[])),
    ]);
    assert!(told(&trace, 0).contains("Refused"), "{}", trace.join("\n"));
    assert!(told(&trace, 1).contains("\"C\";"), "{}", trace.join("\n"));
    assert!(told(&trace, 2).contains("Done") && !told(&trace, 2).contains("\"C\";"), "{}", trace.join("\n"));
    assert!(told(&trace, 3).contains("Done") && told(&trace, 3).contains("\"C\";"), "{}", trace.join("\n"));
}

#[test]
fn a_site_that_left_is_no_site_until_it_is_back() {
    let trace = membership(&[
        (2_000, What::Break(Fault::Start(2))),
        (6_000, What::Break(Fault::Leave(2))),
        (9_000, make(0, 0, &[0, 2])),
        (10_000, What::Ask(Ask { number: 1, site: 2, act: Act::Local })),
        (12_000, What::Break(Fault::Return(2))),
        (15_000, make(2, 0, &[0, 2])),
    ]);
    assert!(told(&trace, 0).contains("Refused"), "{}", trace.join("\n"));
    assert!(told(&trace, 1).contains("Done"), "{}", trace.join("\n"));
    assert!(told(&trace, 2).contains("\"C\";"), "{}", trace.join("\n"));
}

#[test]
fn a_site_in_quarantine_is_not_asked() {
    let trace = membership(&[
        (2_000, What::Break(Fault::Start(2))),
        (6_000, What::Break(Fault::Quarantine { by: 1, site: 2, on: true })),
        (
            9_000,
            What::Ask(Ask { number: 0, site: 0, act: Act::Forward { sites: vec![2, 1], in_order: true } }),
        ),
    ]);
    assert!(told(&trace, 0).contains("\"B\";status=201"), "{}", trace.join("\n"));
    assert!(!told(&trace, 0).contains("\"C\";status"), "{}", trace.join("\n"));
}

#[test]
fn a_site_whose_identity_is_taken_back_is_out_for_good_and_the_others_go_on() {
    let ask = |number, site, act| What::Ask(Ask { number, site, act });
    let patch = Act::Patch { of: 0, refused: false };
    let trace = membership(&[
        (2_000, What::Break(Fault::Start(2))),
        (5_000, make(0, 0, &[0, 1, 2])),
        (7_000, What::Break(Fault::Revoke { by: 0, site: 2 })),
        (9_000, make(1, 1, &[1, 2])),
        (9_200, ask(2, 2, Act::Forward { sites: vec![0], in_order: true })),
        (9_400, ask(3, 2, patch.clone())),
        (9_600, ask(4, 2, Act::Local)),
        (9_800, ask(5, 0, patch)),
        (11_000, What::Break(Fault::Crash { site: 0, power: true })),
        (12_000, What::Break(Fault::Start(0))),
        (13_000, What::Break(Fault::Crash { site: 2, power: false })),
        (13_500, What::Break(Fault::Start(2))),
        (16_000, make(6, 0, &[0, 2])),
    ]);
    assert!(
        told(&trace, 1).contains("Refused") && told(&trace, 6).contains("Refused"),
        "{}",
        trace.join("\n")
    );
    assert!(told(&trace, 2).contains("Refused"), "{}", trace.join("\n"));
    assert!(told(&trace, 3).contains("Done") && told(&trace, 4).contains("Done"), "{}", trace.join("\n"));
    assert!(told(&trace, 5).contains("Done"), "{}", trace.join("\n"));
    // What only that site has is nowhere else, and the operator takes its replica away.
    let executed = |line: &&String| line.contains("PATCH") && line.contains("by=w3 200");
    assert_eq!(trace.iter().filter(executed).count(), 1, "{}", trace.join("\n"));
    assert!(trace.iter().any(|line| line.contains("the operator shrinks")), "{}", trace.join("\n"));
}

#[test]
fn sites_are_upgraded_one_by_one_while_they_are_used_and_a_version_too_far_ahead_is_refused() {
    let trace = membership(&[
        (2_000, What::Break(Fault::Start(2))),
        (4_000, make(0, 0, &[0, 1, 2])),
        (5_000, What::Break(Fault::Version(2, TOO_NEW))),
        (8_000, make(1, 0, &[0, 1])),
        (9_000, What::Ask(Ask { number: 2, site: 0, act: Act::Patch { of: 0, refused: false } })),
        (10_000, What::Ask(Ask { number: 3, site: 2, act: Act::Local })),
        (11_000, What::Ask(Ask { number: 4, site: 0, act: Act::Forward { sites: vec![2], in_order: true } })),
        (14_000, What::Break(Fault::Version(2, NEXT))),
        (16_000, What::Break(Fault::Version(0, NEXT))),
        (24_000, make(5, 2, &[0, 1, 2])),
    ]);
    assert!(told(&trace, 2).contains("\"C\";pending"), "{}", trace.join("\n"));
    assert!(told(&trace, 3).contains("Done"), "{}", trace.join("\n"));
    assert!(told(&trace, 4).contains("503 Refused protocol"), "{}", trace.join("\n"));
    assert!(told(&trace, 5).contains("Done"), "{}", trace.join("\n"));
    // Two of the three know the next version's question: it is asked, and of nobody else.
    let asked = trace.iter().find(|line| line.contains("asked in every version")).unwrap();
    assert!(!asked.ends_with("in the next: 0"), "{asked}");
}

#[test]
fn a_copy_that_a_service_does_not_answer_for_is_settled_by_the_operator_and_made_once() {
    let lost = app::Mood { loses: 100, ..app::Mood::default() };
    let silent = app::Mood { mute: 100, ..app::Mood::default() };
    for (mood, made) in [(lost, true), (silent, false)] {
        let ask = |number, site, act| What::Ask(Ask { number, site, act });
        let trace = membership(&[
            (2_000, What::Break(Fault::Start(2))),
            (4_000, make(0, 0, &[0, 1])),
            (6_000, What::Break(Fault::App(2, mood))),
            (6_100, What::Break(Fault::Extend { by: 0, of: 0, to: 2 })),
            (6_300, ask(1, 1, Act::Add { of: 0 })),
            (20_000, What::Break(Fault::App(2, app::Mood::default()))),
            (24_000, ask(2, 0, Act::Patch { of: 0, refused: false })),
            (26_000, ask(3, 2, Act::Read { of: 0 })),
        ]);
        let settled = trace.iter().find(|line| line.contains("the operator settles the copy")).unwrap();
        assert!(settled.ends_with(&format!("at C: {made}")), "{}", trace.join("\n"));
        let copied = |line: &&String| line.contains("C: POST /images? 201");
        assert_eq!(trace.iter().filter(copied).count(), 1, "{}", trace.join("\n"));
        // Until then another replica is read.
        assert!(told(&trace, 3).contains("200 Done"), "{}", trace.join("\n"));
    }
}

fn upload(number: usize, site: usize, breaks_off: Option<usize>) -> What {
    What::Ask(Ask { number, site, act: Act::Upload { of: 0, bytes: 200_000, breaks_off } })
}

fn fetch(number: usize, site: usize) -> What {
    What::Ask(Ask { number, site, act: Act::Fetch { of: 0 } })
}

#[test]
fn a_long_file_reaches_every_replica_whole_also_one_without_power_or_room_for_a_while() {
    let trace = membership(&[
        (2_000, What::Break(Fault::Start(2))),
        (4_000, make(0, 0, &[0, 1, 2])),
        (6_000, upload(1, 0, None)),
        (6_030, What::Break(Fault::Crash { site: 1, power: true })),
        (8_000, What::Break(Fault::Start(1))),
        (13_000, What::Break(Fault::Disk(2, Mood::Full))),
        (13_500, upload(3, 2, None)),
        (14_000, upload(4, 0, None)),
        (16_000, upload(5, 1, Some(100_000))),
        (18_000, What::Break(Fault::Disk(2, Mood::Good))),
        (40_000, fetch(2, 1)),
        (40_000, fetch(6, 2)),
    ]);
    let shown = |number: usize| {
        trace.iter().any(|line| line.contains("PUT") && line.contains(&format!("by=w{number} 200")))
    };
    assert!(told(&trace, 2).contains("200 Done"), "{}", trace.join("\n"));
    assert!(told(&trace, 3).contains("507 Refused no-room"), "{}", trace.join("\n"));
    assert!(told(&trace, 5).contains("Refused"), "{}", trace.join("\n"));
    assert!(told(&trace, 6).contains("200 Done"), "{}", trace.join("\n"));
    assert!(shown(1) && !shown(3) && shown(4) && !shown(5), "{}", trace.join("\n"));
}
