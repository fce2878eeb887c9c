//! `A ^ B`: exactly one.

use std::time::Duration;

use plan::{Event, Finding, Leg, Sent, Why};

use crate::stage::{NAMED, Stage};

#[test]
fn a_read_asks_all_and_answers_with_the_only_one_that_has_it() {
    let mut stage = Stage::read("A ^ B ^ C");
    assert_eq!(stage.did(), "send A, send B, send C");
    assert_eq!(stage.answers("A", 404), "cancel A");
    assert_eq!(stage.answers("B", 200), "");
    assert_eq!(stage.answers("C", 410), "cancel C, answer B");
}

#[test]
fn a_read_found_twice_is_a_conflict_at_once() {
    let mut stage = Stage::read("A ^ B ^ C");
    assert_eq!(stage.did(), "send A, send B, send C");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.answers("B", 200), "cancel A, cancel B, cancel C, fail 409 Conflict");
}

#[test]
fn a_read_that_no_site_has_is_a_404() {
    let mut stage = Stage::read("A ^ B");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.answers("B", 404), "cancel B");
    assert_eq!(stage.answers("A", 404), "cancel A, fail 404 NotFound");
}

#[test]
fn a_read_without_every_answer_is_a_503() {
    let mut stage = Stage::read("A ^ B");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.unreachable("B"), "");
    assert_eq!(stage.answers("A", 200), "cancel A, fail 503 Missing");

    let mut stage = Stage::read("A ^ B");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.answers("A", 404), "cancel A");
    assert_eq!(stage.after(10_000), "cancel B, fail 503 Missing");
}

#[test]
fn a_refusal_is_the_answer() {
    let mut stage = Stage::read("A ^ B");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.answers("B", 403), "cancel A, answer B");
}

#[test]
fn an_answer_that_is_cut_off_while_the_others_are_awaited_is_missing() {
    let mut stage = Stage::read("(A ; D) ^ B");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.fails("A", Sent::Maybe, Why::Reset), "");
    assert_eq!(stage.answers("B", 404), "cancel B, fail 503 Missing");
}

#[test]
fn the_same_site_twice_is_one_site() {
    let mut stage = Stage::read("(A ; B) ^ (A ; C)");
    assert_eq!(stage.did(), "send A, send A");
    let first =
        Event::Answered { leg: Leg(0), status: 200, finding: Finding::Usual, elapsed: Duration::ZERO };
    assert_eq!(stage.on(first), "");
    assert_eq!(stage.answers("A", 200), "cancel A, answer A");
}

#[test]
fn a_write_goes_where_it_exists() {
    let mut stage = Stage::put("A ^ B ^ C");
    assert_eq!(stage.did(), "probe A, probe B, probe C");
    assert_eq!(stage.answers("A", 404), "");
    assert_eq!(stage.answers("C", 200), "");
    assert_eq!(stage.answers("B", 404), "send C");
    assert_eq!(stage.answers("C", 200), "answer C");
}

#[test]
fn a_write_of_what_exists_nowhere_goes_to_the_nearest() {
    let mut stage = Stage::new("A ^ B ^ C", NAMED, "A");
    assert_eq!(stage.did(), "probe A, probe B, probe C");
    assert_eq!(stage.absent_and_reserved("ABC"), "send B");
    assert_eq!(stage.unreachable("B"), "release, fail 503 Unavailable");
}

#[test]
fn a_write_of_what_exists_twice_is_a_conflict_and_nothing_is_sent() {
    let mut stage = Stage::put("A ^ B ^ C");
    assert_eq!(stage.did(), "probe A, probe B, probe C");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.answers("B", 200), "cancel C, fail 409 Conflict");
}

#[test]
fn a_write_without_every_answer_is_a_503_and_nothing_is_sent() {
    for status in [401, 403, 429, 500] {
        let mut stage = Stage::put("A ^ B");
        assert_eq!(stage.did(), "probe A, probe B");
        assert_eq!(stage.answers("A", status), "");
        assert_eq!(stage.answers("B", 404), "fail 503 Missing");
    }
    let mut stage = Stage::put("A ^ B");
    assert_eq!(stage.did(), "probe A, probe B");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.after(10_000), "cancel B, fail 503 Missing");
}

#[test]
fn a_write_asks_every_site_below_and_creates_at_none_but_the_one_that_has_it() {
    let mut stage = Stage::put("(A ; B) ^ C");
    assert_eq!(stage.did(), "probe A, probe B, probe C");
    assert_eq!(stage.answers("A", 404), "");
    assert_eq!(stage.answers("B", 200), "");
    assert_eq!(stage.answers("C", 404), "send B");
    assert_eq!(stage.unreachable("B"), "fail 503 Unavailable");
}

#[test]
fn a_new_resource_may_fall_back_inside_the_nearest_operand() {
    let mut stage = Stage::put("(A ; B) ^ C");
    assert_eq!(stage.did(), "probe A, probe B, probe C");
    assert_eq!(stage.absent_and_reserved("ABC"), "send A");
    assert_eq!(stage.unreachable("A"), "send B");
    assert_eq!(stage.answers("B", 201), "release, answer B");
}

#[test]
fn a_new_name_is_reserved_at_every_site_in_the_order_of_their_names() {
    let mut stage = Stage::put("C ^ A ^ B");
    assert_eq!(stage.did(), "probe C, probe A, probe B");
    assert_eq!(stage.answers("C", 404), "");
    assert_eq!(stage.answers("A", 404), "");
    assert_eq!(stage.answers("B", 404), "reserve A");
    assert_eq!(stage.reserves("A", true), "reserve B");
    assert_eq!(stage.reserves("B", true), "reserve C");
    assert_eq!(stage.reserves("C", true), "probe C, probe A, probe B");
    for site in ["A", "B"] {
        assert_eq!(stage.answers(site, 404), "");
    }
    assert_eq!(stage.answers("C", 404), "send A");
    assert_eq!(stage.answers("A", 201), "release, answer A");
}

#[test]
fn a_name_that_another_request_reserved_is_a_409_and_nothing_is_sent() {
    let mut stage = Stage::put("(A ^ B) ; C");
    assert_eq!(stage.did(), "probe A, probe B");
    assert_eq!(stage.answers("A", 404), "");
    assert_eq!(stage.answers("B", 404), "reserve A");
    assert_eq!(stage.reserves("A", true), "reserve B");
    assert_eq!(stage.reserves("B", false), "release, fail 409 Reserved");
}

#[test]
fn a_site_that_does_not_reserve_is_missing() {
    for silent in [false, true] {
        let mut stage = Stage::put("A ^ B");
        assert_eq!(stage.did(), "probe A, probe B");
        assert_eq!(stage.answers("A", 404), "");
        assert_eq!(stage.answers("B", 404), "reserve A");
        let (ends, cancels) =
            if silent { (stage.after(10_000), "cancel A, ") } else { (stage.unreachable("A"), "") };
        assert_eq!(ends, format!("{cancels}release, fail 503 Missing"));
    }
}

#[test]
fn what_was_made_before_the_name_was_reserved_is_written_where_it_is() {
    let mut stage = Stage::put("A ^ B");
    assert_eq!(stage.did(), "probe A, probe B");
    assert_eq!(stage.answers("A", 404), "");
    assert_eq!(stage.answers("B", 404), "reserve A");
    assert_eq!(stage.reserves("A", true), "reserve B");
    assert_eq!(stage.reserves("B", true), "probe A, probe B");
    assert_eq!(stage.answers("A", 404), "");
    assert_eq!(stage.answers("B", 200), "send B");
    assert_eq!(stage.answers("B", 200), "release, answer B");
}

#[test]
fn a_name_stays_reserved_while_the_outcome_is_not_known() {
    let mut stage = Stage::put("A ^ B");
    assert_eq!(stage.did(), "probe A, probe B");
    assert_eq!(stage.absent_and_reserved("AB"), "send A");
    stage.sent("A");
    assert_eq!(stage.fails("A", Sent::Maybe, Why::Reset), "keep reserved, fail 504 Unknown");

    let mut stage = Stage::put("A ^ B");
    assert_eq!(stage.did(), "probe A, probe B");
    assert_eq!(stage.absent_and_reserved("AB"), "send A");
    assert_eq!(stage.on(Event::ClientGone), "cancel A, keep reserved, fail 499 ClientGone");
}

#[test]
fn a_group_within_a_group_is_reserved_once() {
    let mut stage = Stage::put("A ^ ((B ^ C) ; D)");
    assert_eq!(stage.did(), "probe A, probe B, probe C, probe D");
    assert_eq!(stage.absent_and_reserved("ABCD"), "send A");
    assert_eq!(stage.answers("A", 201), "release, answer A");
}

#[test]
fn a_second_answer_of_one_site_is_no_conflict_and_not_wanted() {
    let mut stage = Stage::read("A ^ (A ; B) ^ C");
    assert_eq!(stage.did(), "send A, send A, send C");
    assert_eq!(stage.first_answers("A", 200), "");
    assert_eq!(stage.answers("A", 200), "cancel A");
    assert_eq!(stage.answers("C", 404), "cancel C, answer A");
}
