//! Operators inside operators.

use crate::stage::Stage;

#[test]
fn a_limited_site_then_whichever_is_nearest() {
    let mut stage = Stage::read("within(1s, A) ; C | B");
    assert_eq!(stage.after(1_000), "send A, cancel A, send B");
    assert_eq!(stage.after(120), "send C");
    assert_eq!(stage.answers("C", 200), "cancel B, answer C");
}

#[test]
fn exactly_one_and_otherwise_another() {
    let mut stage = Stage::read("(A ^ B) ; C");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.answers("A", 404), "cancel A");
    assert_eq!(stage.answers("B", 404), "cancel B, send C");

    let mut stage = Stage::read("(A ^ B) ; C");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.unreachable("B"), "cancel A, send C");
    assert_eq!(stage.answers("C", 404), "cancel C, fail 503 Unavailable");
}

#[test]
fn a_conflict_is_an_answer_and_no_fallback_hides_it() {
    let mut stage = Stage::read("(A ^ B) ; C");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.answers("B", 200), "cancel A, cancel B, fail 409 Conflict");
}

#[test]
fn whichever_and_otherwise_a_limited_site() {
    let mut stage = Stage::read("(A | B) ; within(2s, C)");
    assert_eq!(stage.after(110), "send A, send B");
    assert_eq!(stage.unreachable("A"), "");
    assert_eq!(stage.unreachable("B"), "send C");
    assert_eq!(stage.after(2_000), "cancel C, fail 504 TimedOut");
}

#[test]
fn a_group_that_wins_a_race_cancels_the_legs_of_the_other() {
    let mut stage = Stage::read("(A ^ B) | (C ; D)");
    // `^` needs both, so it is as far as B: 20 ms; and `;` as far as C: 30 ms.
    assert_eq!(stage.after(120), "send A, send B, send C");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.unreachable("C"), "send D");
    assert_eq!(stage.answers("D", 200), "cancel A, cancel B, answer D");
}

#[test]
fn a_write_goes_through_nested_groups_one_site_at_a_time() {
    let mut stage = Stage::write("(C | B) ; within(2s, A | D)");
    assert_eq!(stage.did(), "send B");
    assert_eq!(stage.unreachable("B"), "send C");
    assert_eq!(stage.unreachable("C"), "send A");
    assert_eq!(stage.unreachable("A"), "send D");
    assert_eq!(stage.answers("D", 500), "cancel D, fail 504 Unknown");
}

#[test]
fn a_write_to_exactly_one_and_otherwise_another() {
    let mut stage = Stage::put("(A ^ B) ; C");
    assert_eq!(stage.did(), "probe A, probe B");
    assert_eq!(stage.unreachable("A"), "");
    assert_eq!(stage.answers("B", 404), "send C");
    assert_eq!(stage.answers("C", 201), "answer C");
}

#[test]
fn a_limit_inside_exactly_one_holds_where_the_write_is_sent() {
    let mut stage = Stage::put("within(1s, A) ^ B");
    assert_eq!(stage.did(), "probe A, probe B");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.answers("B", 404), "send A");
    stage.sent("A");
    assert_eq!(stage.after(1_000), "cancel A, fail 504 Unknown");
}
