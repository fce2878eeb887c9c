//! What `Scope-Sites` is made of.

use plan::{Said, Sent, Why};

use crate::stage::Stage;

pub(crate) fn report(stage: &Stage) -> String {
    let entry = |asked: &plan::Asked| {
        let said = match asked.said {
            Said::Status(status) => status.to_string(),
            Said::Error(why) => why.word().to_owned(),
        };
        let ms = asked.elapsed.map_or("-".to_owned(), |elapsed| elapsed.as_millis().to_string());
        format!("{} {said} {ms}", asked.site)
    };
    stage.run.report().iter().map(entry).collect::<Vec<_>>().join(", ")
}

#[test]
fn only_sites_that_were_asked_are_in_it_in_that_order() {
    let mut stage = Stage::read("B ; A ; C");
    assert_eq!(stage.after(5), "send B");
    assert_eq!(report(&stage), "");
    assert_eq!(stage.fails("B", Sent::No, Why::Refused), "send A");
    assert_eq!(stage.after(7), "");
    assert_eq!(stage.answers("A", 200), "answer A");
    assert_eq!(report(&stage), "B refused 5, A 200 12");
}

#[test]
fn a_leg_that_was_no_longer_needed_is_cancelled() {
    let mut stage = Stage::read("A | B");
    assert_eq!(stage.after(110), "send A, send B");
    assert_eq!(stage.answers("B", 200), "cancel A, answer B");
    assert_eq!(report(&stage), "A cancelled -, B 200 110");
}

#[test]
fn a_leg_that_took_too_long_says_so() {
    let mut stage = Stage::read("A ; within(1s, B)");
    assert_eq!(stage.after(11_000), "send A, cancel A, send B, cancel B, fail 504 TimedOut");
    assert_eq!(report(&stage), "A timeout 10000, B timeout -");
}

#[test]
fn a_site_that_was_probed_and_written_to_is_in_it_once() {
    let mut stage = Stage::put("A ^ B");
    assert_eq!(stage.did(), "probe A, probe B");
    assert_eq!(stage.absent_and_reserved("AB"), "send A");
    assert_eq!(stage.answers("A", 201), "release, answer A");
    assert_eq!(report(&stage), "A 201 0, B 404 0");
}
