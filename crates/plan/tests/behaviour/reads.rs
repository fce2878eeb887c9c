//! `A`, `A ; B`, `A | B` and `A & B` on reads and lists.

use plan::{Event, Request, Sent, Why};

use crate::stage::Stage;

#[test]
fn one_site_is_forwarded_whatever_it_answers() {
    for status in [200, 302, 403, 404, 410, 413, 429, 500, 503, 504] {
        let mut stage = Stage::read("A");
        assert_eq!(stage.did(), "send A");
        assert_eq!(stage.answers("A", status), "answer A");
    }
}

#[test]
fn one_site_that_cannot_be_reached_is_a_503() {
    let mut stage = Stage::read("A");
    assert_eq!(stage.did(), "send A");
    assert_eq!(stage.unreachable("A"), "fail 503 Unavailable");
}

#[test]
fn one_site_that_does_not_answer_is_a_504() {
    let mut stage = Stage::read("A");
    assert_eq!(stage.after(9_999), "send A");
    assert_eq!(stage.after(1), "cancel A, fail 504 TimedOut");
}

#[test]
fn otherwise_asks_the_next_site_only_where_the_first_fails() {
    for status in [404, 410, 413, 429, 500, 503] {
        let mut stage = Stage::read("A ; B");
        assert_eq!(stage.did(), "send A");
        assert_eq!(stage.answers("A", status), "cancel A, send B");
        assert_eq!(stage.answers("B", 200), "answer B");
    }
    for why in [Why::Unreachable, Why::Refused, Why::Reset, Why::Protocol, Why::TimedOut] {
        let mut stage = Stage::read("A ; B");
        assert_eq!(stage.did(), "send A");
        assert_eq!(stage.fails("A", Sent::Maybe, why), "send B");
    }
}

#[test]
fn a_fallback_never_shops_for_a_site_that_says_yes() {
    for status in [200, 304, 400, 401, 403, 409, 422] {
        for location in ["A ; B", "A | B", "A & B"] {
            let mut stage = Stage::read(location);
            assert_eq!(stage.did(), "send A");
            assert_eq!(stage.answers("A", status), "answer A");
        }
    }
}

#[test]
fn otherwise_keeps_its_order_whatever_the_distance() {
    let mut stage = Stage::new("C ; A", Request::Read, "C");
    assert_eq!(stage.did(), "send C");
    assert_eq!(stage.unreachable("C"), "send A");
}

#[test]
fn otherwise_goes_on_when_a_leg_takes_too_long() {
    let mut stage = Stage::read("A ; B");
    assert_eq!(stage.after(10_000), "send A, cancel A, send B");
    assert_eq!(stage.answers("B", 404), "cancel B, fail 504 TimedOut");
}

#[test]
fn only_when_every_site_said_404_it_is_a_404() {
    let mut stage = Stage::read("A ; B ; C");
    assert_eq!(stage.did(), "send A");
    assert_eq!(stage.answers("A", 404), "cancel A, send B");
    assert_eq!(stage.answers("B", 410), "cancel B, send C");
    assert_eq!(stage.answers("C", 404), "cancel C, fail 404 NotFound");

    let mut stage = Stage::read("A ; B");
    assert_eq!(stage.did(), "send A");
    assert_eq!(stage.answers("A", 500), "cancel A, send B");
    assert_eq!(stage.answers("B", 404), "cancel B, fail 503 Unavailable");

    let mut stage = Stage::read("A ; B");
    assert_eq!(stage.did(), "send A");
    assert_eq!(stage.answers("A", 504), "cancel A, send B");
    assert_eq!(stage.unreachable("B"), "fail 504 TimedOut");
}

#[test]
fn any_asks_the_nearest_and_hedges_one_by_one() {
    let mut stage = Stage::read("C | B | A");
    // The round trip to A is 10 ms, and 100 ms are allowed on top.
    assert_eq!(stage.after(109), "send A");
    assert_eq!(stage.after(1), "send B");
    assert_eq!(stage.after(119), "");
    assert_eq!(stage.after(1), "send C");
    assert_eq!(stage.answers("B", 200), "cancel A, cancel C, answer B");
}

#[test]
fn any_asks_the_next_at_once_where_one_fails() {
    let mut stage = Stage::read("A | B | C");
    assert_eq!(stage.after(50), "send A");
    assert_eq!(stage.answers("A", 503), "cancel A, send B");
    // The hedge that was due for A is not B's.
    assert_eq!(stage.after(100), "");
    assert_eq!(stage.after(20), "send C");
    assert_eq!(stage.unreachable("C"), "");
    assert_eq!(stage.unreachable("B"), "fail 503 Unavailable");
}

#[test]
fn any_waits_for_a_hedged_site_that_may_still_succeed() {
    let mut stage = Stage::read("A | B");
    assert_eq!(stage.after(110), "send A, send B");
    assert_eq!(stage.answers("B", 404), "cancel B");
    assert_eq!(stage.answers("A", 200), "answer A");
}

#[test]
fn any_asks_unavailable_sites_last_and_not_never() {
    let mut stage = Stage::new("A | B | E", Request::Read, "A");
    assert_eq!(stage.did(), "send B");
    assert_eq!(stage.unreachable("B"), "send E");
    assert_eq!(stage.unreachable("E"), "send A");
    assert_eq!(stage.answers("A", 200), "answer A");
}

#[test]
fn a_list_is_read_like_a_resource_where_one_site_answers_it() {
    let mut stage = Stage::list("A | B");
    assert_eq!(stage.after(110), "send A, send B");
    assert_eq!(stage.answers("B", 200), "cancel A, answer B");
}

#[test]
fn a_read_of_all_is_from_the_nearest_that_answers_and_is_not_hedged() {
    let mut stage = Stage::read("B & A");
    assert_eq!(stage.after(5_000), "send A");
    assert_eq!(stage.unreachable("A"), "send B");
    assert_eq!(stage.answers("B", 200), "answer B");
}

#[test]
fn a_client_that_is_gone_cancels_all() {
    let mut stage = Stage::read("A | B");
    assert_eq!(stage.after(110), "send A, send B");
    assert!(!stage.run.has_ended());
    assert_eq!(stage.on(Event::ClientGone), "cancel A, cancel B, fail 499 ClientGone");
    assert!(stage.run.has_ended());
}

#[test]
fn what_comes_after_the_end_changes_nothing() {
    let mut stage = Stage::read("A ; B");
    assert_eq!(stage.did(), "send A");
    assert_eq!(stage.answers("A", 200), "answer A");
    assert_eq!(stage.answers("A", 500), "");
    assert_eq!(stage.unreachable("A"), "");
    assert_eq!(stage.on(Event::ClientGone), "");
    assert_eq!(stage.after(60_000), "");
}
