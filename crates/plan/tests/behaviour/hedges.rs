//! When `|` asks the next site too, and what that costs.

use plan::{Event, Request};

use crate::stage::{LIST, Stage};

#[test]
fn a_site_is_late_when_it_takes_longer_than_it_usually_does() {
    let mut stage = Stage::usually("A | B", Request::Read, &[("A", 15)]);
    assert_eq!(stage.after(14), "send A");
    assert_eq!(stage.after(1), "send B");
}

#[test]
fn a_slow_pace_is_waited_for_too() {
    let mut stage = Stage::usually("A | B | C", Request::Read, &[("A", 700), ("B", 50)]);
    assert_eq!(stage.after(699), "send A");
    assert_eq!(stage.after(1), "send B");
    assert_eq!(stage.after(50), "send C");
}

#[test]
fn a_group_of_which_all_are_needed_is_late_with_its_slowest() {
    for (location, request) in [("(A & B) | D", LIST), ("(A ^ B) | D", Request::Read)] {
        let mut stage = Stage::usually(location, request, &[("A", 300), ("B", 40)]);
        assert_eq!(stage.after(299), "send A, send B");
        assert_eq!(stage.after(1), "send D");
    }
}

#[test]
fn of_sites_as_near_the_quicker_is_asked_first() {
    let mut stage = Stage::usually("E | F", Request::Read, &[("E", 30), ("F", 20)]);
    assert_eq!(stage.after(20), "send F, send E");
}

#[test]
fn a_timer_is_a_hedge_only_while_it_would_send_one() {
    let mut stage = Stage::read("A | B | C");
    assert_eq!(stage.did(), "send A");
    let timer = stage.timer_after(110);
    assert!(stage.run.hedges(timer));
    assert!(!stage.run.hedges(stage.timer_after(10_000)), "that of the leg");
    assert_eq!(stage.unreachable("A"), "send B");
    assert!(!stage.run.hedges(timer), "B is not late yet");
    assert_eq!(stage.on(Event::Fired { timer }), "");
    let timer = stage.timer_after(120);
    assert!(stage.run.hedges(timer));
    assert_eq!(stage.answers("B", 200), "answer B");
    assert!(!stage.run.hedges(timer));
}

#[test]
fn without_a_budget_the_first_site_is_waited_for_and_the_next_asked_when_it_fails() {
    let mut stage = Stage::read("A | B");
    assert_eq!(stage.did(), "send A");
    // The hedge is not reported, so nothing happens.
    assert_eq!(stage.answers("A", 500), "cancel A, send B");
    assert_eq!(stage.answers("B", 200), "answer B");
}

#[test]
fn what_was_sent_in_vain_is_counted() {
    let mut stage = Stage::read("A | B | C");
    assert_eq!(stage.did(), "send A");
    stage.sent("A");
    assert_eq!(stage.after(110), "send B");
    stage.sent("B");
    assert_eq!(stage.after(120), "send C");
    // C was not sent yet.
    assert_eq!(stage.answers("B", 200), "cancel A, cancel C, answer B");
    assert_eq!(stage.run.wasted(), 1);
}

#[test]
fn what_failed_or_was_needed_is_not_waste() {
    let mut stage = Stage::read("A ; within(1s, B) ; C");
    assert_eq!(stage.did(), "send A");
    stage.sent("A");
    assert_eq!(stage.answers("A", 404), "cancel A, send B");
    stage.sent("B");
    assert_eq!(stage.after(1_000), "cancel B, send C");
    assert_eq!(stage.answers("C", 200), "answer C");
    assert_eq!(stage.run.wasted(), 0);

    let mut stage = Stage::list("A & B");
    assert_eq!(stage.did(), "send A, send B");
    stage.sent("A");
    stage.sent("B");
    assert_eq!(stage.answers("A", 403), "");
    assert_eq!(stage.answers("B", 200), "cancel A, merge partial (B)");
    assert_eq!(stage.run.wasted(), 0);
}

#[test]
fn a_group_that_loses_is_wasted_with_what_it_had() {
    let mut stage = Stage::list("(A & B) | D");
    assert_eq!(stage.did(), "send A, send B");
    stage.sent("A");
    stage.sent("B");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.after(120), "send D");
    stage.sent("D");
    assert_eq!(stage.answers("D", 200), "cancel A, cancel B, answer D");
    assert_eq!(stage.run.wasted(), 2);
}
