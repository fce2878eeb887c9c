//! `within(d, L)`: L, failed after d.

use plan::{Sent, Why};

use crate::stage::Stage;

#[test]
fn a_read_that_takes_longer_has_failed() {
    let mut stage = Stage::read("within(1s, A)");
    assert_eq!(stage.after(999), "send A");
    assert_eq!(stage.after(1), "cancel A, fail 504 TimedOut");
}

#[test]
fn a_read_that_answers_in_time_is_the_answer() {
    let mut stage = Stage::read("within(1s, A) ; B");
    assert_eq!(stage.after(999), "send A");
    assert_eq!(stage.answers("A", 200), "answer A");
    assert_eq!(stage.after(60_000), "");
}

#[test]
fn the_next_is_asked_when_time_is_up() {
    let mut stage = Stage::read("within(1s, A) ; B");
    assert_eq!(stage.after(1_000), "send A, cancel A, send B");
    assert_eq!(stage.answers("A", 200), "", "too late");
    assert_eq!(stage.answers("B", 200), "answer B");
}

#[test]
fn all_that_is_inside_is_cancelled_and_nothing_inside_goes_on() {
    let mut stage = Stage::read("within(200ms, A | B | C) ; D");
    assert_eq!(stage.after(110), "send A, send B");
    assert_eq!(stage.after(90), "cancel A, cancel B, send D");
    assert_eq!(stage.after(1_000), "");
}

#[test]
fn a_kept_answer_is_cancelled_too() {
    let mut stage = Stage::read("within(1s, A ^ B) ; C");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.after(1_000), "cancel A, cancel B, send C");
}

#[test]
fn a_write_that_was_sent_is_unknown_after_its_time() {
    let mut stage = Stage::write("within(1s, A) ; B");
    assert_eq!(stage.did(), "send A");
    stage.sent("A");
    assert_eq!(stage.after(1_000), "cancel A, fail 504 Unknown");
}

#[test]
fn a_write_that_was_not_sent_goes_on_once_the_driver_says_so() {
    let mut stage = Stage::write("within(1s, A ; C) ; B");
    assert_eq!(stage.after(1_000), "send A, cancel A");
    assert_eq!(stage.fails("A", Sent::No, Why::Cancelled), "send B");

    let mut stage = Stage::write("within(1s, A ; C) ; B");
    assert_eq!(stage.after(1_000), "send A, cancel A");
    assert_eq!(stage.fails("A", Sent::Maybe, Why::Cancelled), "fail 504 Unknown");
}

#[test]
fn an_outer_limit_takes_over_what_an_inner_one_waits_for() {
    let mut stage = Stage::write("within(2s, within(1s, A) ; B) ; C");
    assert_eq!(stage.after(3_000), "send A, cancel A");
    assert_eq!(stage.fails("A", Sent::No, Why::Cancelled), "send C");
}

#[test]
fn an_outer_limit_does_not_wait_for_a_write_that_turned_out_to_be_sent() {
    let mut stage = Stage::write("within(2s, within(1s, A) ; B) ; C");
    assert_eq!(stage.after(1_000), "send A, cancel A");
    stage.sent("A");
    assert_eq!(stage.after(1_000), "fail 504 Unknown");
}

#[test]
fn probes_that_take_too_long_have_sent_nothing() {
    let mut stage = Stage::put("within(1s, A ^ B) ; C");
    assert_eq!(stage.did(), "probe A, probe B");
    assert_eq!(stage.answers("A", 404), "");
    assert_eq!(stage.after(1_000), "cancel B, send C");
    assert_eq!(stage.answers("B", 404), "", "too late");
    assert_eq!(stage.answers("C", 201), "answer C");
}
