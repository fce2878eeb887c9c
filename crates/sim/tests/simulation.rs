//! Runs of simulated sites.
#![allow(clippy::unwrap_used, reason = "the helpers of a test fail the test, as the test itself does")]

use std::process::Command;

use sim::isle::Identities;
use sim::run::run;
use sim::schedule::Schedule;

/// What a process of its own says of a seed.
fn told(seed: u64) -> String {
    let seed = seed.to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_archipel-sim")).args(["--seed", &seed]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn one_number_replays_a_run_to_the_byte_in_another_process() {
    for seed in [1, 2, 3, 5, 8] {
        let (first, second) = (told(seed), told(seed));
        assert!(first.lines().count() > 50, "{first}");
        let differs = first.lines().zip(second.lines()).position(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}, at that line of\n{first}");
        assert_eq!(first, second);
    }
}

#[test]
fn two_seeds_are_two_runs() {
    assert_ne!(told(1), told(2));
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
