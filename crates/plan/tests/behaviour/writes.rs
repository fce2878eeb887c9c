//! `A`, `A ; B` and `A | B` on writes: a write never runs twice.

use plan::{Sent, Why};

use crate::stage::{Stage, UNNAMED};

#[test]
fn one_site_is_forwarded_whatever_it_answers() {
    for status in [201, 404, 409, 423, 429, 500, 503] {
        let mut stage = Stage::write("A");
        assert_eq!(stage.did(), "send A");
        assert_eq!(stage.answers("A", status), "answer A");
    }
}

#[test]
fn one_site_that_is_lost_after_sending_is_unknown() {
    let mut stage = Stage::write("A");
    assert_eq!(stage.did(), "send A");
    assert_eq!(stage.fails("A", Sent::Maybe, Why::Reset), "fail 504 Unknown");
}

#[test]
fn the_next_site_is_tried_where_the_first_was_not_reached() {
    for location in ["A ; B", "B | A"] {
        let mut stage = Stage::write(location);
        assert_eq!(stage.did(), "send A");
        assert_eq!(stage.unreachable("A"), "send B");
        assert_eq!(stage.answers("B", 201), "answer B");
    }
}

#[test]
fn the_next_site_is_tried_where_a_status_proves_that_nothing_happened() {
    let mut stage = Stage::write("A ; B");
    assert_eq!(stage.did(), "send A");
    assert_eq!(stage.answers("A", 503), "cancel A, send B");
    assert_eq!(stage.answers("B", 423), "cancel B, fail 503 Unavailable");
}

#[test]
fn a_5xx_proves_nothing() {
    let mut stage = Stage::write("A ; B");
    assert_eq!(stage.did(), "send A");
    assert_eq!(stage.answers("A", 500), "cancel A, fail 504 Unknown");
}

#[test]
fn a_write_lost_after_sending_stops() {
    for location in ["A ; B", "A | B"] {
        let mut stage = Stage::write(location);
        assert_eq!(stage.did(), "send A");
        assert_eq!(stage.fails("A", Sent::Maybe, Why::Reset), "fail 504 Unknown");
    }
}

#[test]
fn another_4xx_is_the_answer_404_and_429_too() {
    for status in [400, 401, 403, 404, 410, 413, 429] {
        let mut stage = Stage::write("A ; B");
        assert_eq!(stage.did(), "send A");
        assert_eq!(stage.answers("A", status), "answer A");
    }
}

#[test]
fn any_never_hedges_a_write() {
    let mut stage = Stage::new("A | B | C", UNNAMED, "A");
    assert_eq!(stage.after(9_999), "send B");
    assert_eq!(stage.unreachable("B"), "send C");
    assert_eq!(stage.unreachable("C"), "send A");
}

#[test]
fn a_write_that_was_sent_and_takes_too_long_is_unknown() {
    let mut stage = Stage::write("A ; B");
    assert_eq!(stage.did(), "send A");
    stage.sent("A");
    assert_eq!(stage.after(10_000), "cancel A, fail 504 Unknown");
}

#[test]
fn a_write_that_takes_too_long_goes_on_only_once_the_driver_says_it_was_not_sent() {
    let mut stage = Stage::write("A ; B");
    assert_eq!(stage.after(60_000), "send A, cancel A");
    assert_eq!(stage.fails("A", Sent::No, Why::Cancelled), "send B");

    let mut stage = Stage::write("A ; B");
    assert_eq!(stage.after(60_000), "send A, cancel A");
    assert_eq!(stage.fails("A", Sent::Maybe, Why::Cancelled), "fail 504 Unknown");
}

#[test]
fn an_answer_that_crosses_its_cancellation_still_counts_as_proof() {
    let mut stage = Stage::write("A ; B");
    assert_eq!(stage.after(10_000), "send A, cancel A");
    assert_eq!(stage.answers("A", 503), "send B");

    let mut stage = Stage::write("A ; B");
    assert_eq!(stage.after(10_000), "send A, cancel A");
    assert_eq!(stage.answers("A", 201), "fail 504 Unknown");
}

#[test]
fn a_refused_stream_is_proof_even_after_bytes_left() {
    let mut stage = Stage::write("A ; B");
    assert_eq!(stage.did(), "send A");
    stage.sent("A");
    assert_eq!(stage.fails("A", Sent::No, Why::Refused), "send B");
}

#[test]
fn nothing_reached_is_a_503_and_one_too_slow_to_reach_a_504() {
    let mut stage = Stage::write("A ; B");
    assert_eq!(stage.did(), "send A");
    assert_eq!(stage.unreachable("A"), "send B");
    assert_eq!(stage.unreachable("B"), "fail 503 Unavailable");

    let mut stage = Stage::write("A ; B");
    assert_eq!(stage.did(), "send A");
    assert_eq!(stage.fails("A", Sent::No, Why::TimedOut), "send B");
    assert_eq!(stage.unreachable("B"), "fail 504 TimedOut");
}
