//! Sites that are known not to be reachable, or not to be used.

use plan::Request;

use crate::report::report;
use crate::stage::{LIST, NAMED, STRICT, Stage, UNNAMED};

#[test]
fn one_site_that_cannot_be_reached_has_failed_at_once() {
    for request in [Request::Read, LIST, NAMED, UNNAMED] {
        let mut stage = Stage::cut("A", request, "A");
        assert_eq!(stage.did(), "fail 503 Unavailable");
        assert_eq!(report(&stage), "A unreachable -");
    }
}

#[test]
fn a_quarantined_site_is_not_asked_and_the_report_says_why() {
    let mut stage = Stage::cut("E ; A", UNNAMED, "E");
    assert_eq!(stage.did(), "send A");
    assert_eq!(stage.answers("A", 201), "answer A");
    assert_eq!(report(&stage), "E quarantined -, A 201 0");
}

#[test]
fn otherwise_skips_it_in_its_turn() {
    let mut stage = Stage::cut("A ; B ; C ; D", Request::Read, "BC");
    assert_eq!(stage.did(), "send A");
    assert_eq!(report(&stage), "");
    assert_eq!(stage.answers("A", 404), "cancel A, send D");
    assert_eq!(stage.answers("D", 404), "cancel D, fail 503 Unavailable");
    assert_eq!(report(&stage), "A 404 0, B unreachable -, C unreachable -, D 404 0");
}

#[test]
fn any_hedges_only_to_what_can_be_reached() {
    let mut stage = Stage::cut("A | B | C", Request::Read, "AB");
    assert_eq!(stage.after(5_000), "send C");
    assert_eq!(report(&stage), "");
    assert_eq!(stage.unreachable("C"), "fail 503 Unavailable");
    assert_eq!(report(&stage), "C unreachable 5000, A unreachable -, B unreachable -");
}

#[test]
fn a_fallback_is_as_far_as_its_first_site_that_is_asked() {
    let mut stage = Stage::cut("(A ; C) | B", Request::Read, "A");
    assert_eq!(stage.did(), "send B");
}

#[test]
fn a_list_without_it_is_partial_and_a_strict_one_fails() {
    let mut stage = Stage::cut("A & B", LIST, "A");
    assert_eq!(stage.did(), "send B");
    assert_eq!(stage.answers("B", 200), "merge partial (B)");
    assert_eq!(report(&stage), "A unreachable -, B 200 0");

    let mut stage = Stage::cut("A & B", STRICT, "A");
    assert_eq!(stage.did(), "send B");
    assert_eq!(stage.answers("B", 200), "cancel B, fail 504 Partial");
}

#[test]
fn a_list_that_can_only_be_partial_comes_after_a_whole_one() {
    let mut stage = Stage::cut("(A & B) | C", LIST, "A");
    assert_eq!(stage.after(130), "send C, send B");
    assert_eq!(stage.answers("B", 200), "cancel C, merge partial (B)");
}

#[test]
fn a_list_of_none_but_such_has_failed_at_once() {
    for location in ["A & B", "(A & E) ; within(1s, B)", "A ; B | E"] {
        let mut stage = Stage::cut(location, LIST, "ABE");
        assert_eq!(stage.did(), "fail 503 Unavailable", "{location}");
    }
    let mut stage = Stage::cut("A ^ B", LIST, "AB");
    assert_eq!(stage.did(), "fail 503 Missing");
}

#[test]
fn exactly_one_cannot_be_told_without_it() {
    let mut stage = Stage::cut("A ^ B", Request::Read, "A");
    assert_eq!(stage.did(), "send B");
    assert_eq!(stage.answers("B", 200), "cancel B, fail 503 Missing");

    let mut stage = Stage::cut("A ^ B", NAMED, "A");
    assert_eq!(stage.did(), "probe B");
    assert_eq!(stage.answers("B", 404), "fail 503 Missing");
    assert_eq!(report(&stage), "A unreachable -, B 404 0");

    let mut stage = Stage::cut("(A ^ B) ; C", NAMED, "AB");
    assert_eq!(stage.did(), "send C");
}
