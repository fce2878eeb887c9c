//! `A & B` and `A ^ B` on lists.

use plan::{Sent, Why};

use crate::stage::{LIST, Stage};

#[test]
fn all_are_asked_at_once_and_merged_in_the_order_of_the_plan() {
    let mut stage = Stage::list("C & A & B");
    assert_eq!(stage.did(), "send C, send A, send B");
    assert_eq!(stage.answers("B", 200), "");
    assert_eq!(stage.answers("A", 206), "");
    assert_eq!(stage.answers("C", 200), "merge (C & A & B)");
    assert_eq!(stage.nearest, "ABC");
}

#[test]
fn a_list_without_a_site_is_partial_however_it_failed() {
    for status in [404, 410, 413, 429, 500, 503] {
        let mut stage = Stage::list("A & B");
        assert_eq!(stage.did(), "send A, send B");
        assert_eq!(stage.answers("A", status), "cancel A");
        assert_eq!(stage.answers("B", 200), "merge partial (B)");
    }
    let mut stage = Stage::list("A & B & C");
    assert_eq!(stage.did(), "send A, send B, send C");
    assert_eq!(stage.unreachable("B"), "");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.after(10_000), "cancel C, merge partial (A)");
}

#[test]
fn a_site_with_nothing_of_what_was_looked_up_is_not_missing() {
    for strict in [false, true] {
        let stage = |plan| if strict { Stage::strict(plan) } else { Stage::list(plan) };
        let mut mixed = stage("A & B");
        assert_eq!(mixed.did(), "send A, send B");
        assert_eq!(mixed.answers("A", 299), "cancel A");
        assert_eq!(mixed.answers("B", 200), "merge (B)");
        let mut none = stage("(A & B) ; C");
        assert_eq!(none.did(), "send A, send B");
        assert_eq!(none.answers("B", 299), "cancel B");
        assert_eq!(none.answers("A", 299), "cancel A, send C");
        assert_eq!(none.answers("C", 299), "cancel C, fail 404 Nothing");
    }
}

#[test]
fn a_strict_list_without_a_site_is_a_504_unless_there_is_a_fallback() {
    let mut stage = Stage::strict("A & B");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.unreachable("A"), "");
    assert_eq!(stage.answers("B", 200), "cancel B, fail 504 Partial");

    let mut stage = Stage::strict("(A & B) ; C");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.unreachable("A"), "");
    assert_eq!(stage.answers("B", 200), "cancel B, send C");
    assert_eq!(stage.answers("C", 404), "cancel C, fail 504 Partial");
}

#[test]
fn a_strict_list_is_whole_where_an_operand_found_a_way() {
    let mut stage = Stage::strict("A & (B ; C)");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.unreachable("B"), "send C");
    assert_eq!(stage.answers("C", 200), "");
    assert_eq!(stage.answers("A", 200), "merge (A & C)");
}

#[test]
fn only_when_every_site_said_404_a_list_is_a_404() {
    for stage in [Stage::list, Stage::strict] {
        let mut not_found = stage("A & B");
        assert_eq!(not_found.did(), "send A, send B");
        assert_eq!(not_found.answers("A", 404), "cancel A");
        assert_eq!(not_found.answers("B", 410), "cancel B, fail 404 NotFound");

        let mut unavailable = stage("A & B");
        assert_eq!(unavailable.did(), "send A, send B");
        assert_eq!(unavailable.answers("A", 404), "cancel A");
        assert_eq!(unavailable.unreachable("B"), "fail 503 Unavailable");

        let mut late = stage("A & B");
        assert_eq!(late.did(), "send A, send B");
        assert_eq!(late.answers("A", 500), "cancel A");
        assert_eq!(late.after(10_000), "cancel B, fail 504 TimedOut");
    }
}

#[test]
fn what_refuses_is_missing_from_a_list_that_others_answered() {
    for status in [304, 302, 400, 401, 403] {
        let mut stage = Stage::list("A & B");
        assert_eq!(stage.did(), "send A, send B");
        assert_eq!(stage.answers("A", status), "");
        assert_eq!(stage.answers("B", 200), "cancel A, merge partial (B)");
    }
}

#[test]
fn where_no_site_succeeded_the_first_refusal_is_the_answer_and_no_fallback_shops() {
    for stage in [Stage::list, Stage::strict] {
        let mut stage = stage("(A & B & C) ; D");
        assert_eq!(stage.did(), "send A, send B, send C");
        assert_eq!(stage.answers("C", 401), "");
        assert_eq!(stage.answers("B", 403), "");
        assert_eq!(stage.unreachable("A"), "cancel C, answer B");
    }
}

#[test]
fn a_strict_list_that_a_site_refused_does_not_shop_either() {
    let mut stage = Stage::strict("(A & B) ; C");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.answers("B", 403), "cancel A, cancel B, fail 504 Partial");
}

#[test]
fn a_choice_inside_a_list_is_hedged_and_its_loser_cancelled() {
    let mut stage = Stage::list("A & (B | C)");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.after(120), "send C");
    assert_eq!(stage.answers("C", 200), "cancel B, merge (A & C)");
}

#[test]
fn a_list_of_all_is_as_far_as_its_farthest_site() {
    let mut stage = Stage::list("(A & D) | C");
    assert_eq!(stage.after(130), "send C, send A, send D");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.answers("D", 200), "cancel C, merge (A & D)");
}

#[test]
fn a_list_in_time_or_another_site() {
    let mut stage = Stage::list("within(1s, A & B) ; C");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.after(1_000), "cancel A, cancel B, send C");
    assert_eq!(stage.answers("C", 200), "answer C");

    let mut stage = Stage::list("within(1s, A) & within(1s, B)");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.after(1_000), "cancel B, merge partial (A)");
}

#[test]
fn groups_inside_each_other_are_one_list_and_a_site_is_in_it_once() {
    let mut stage = Stage::list("((A & B) ; D) & (A ; C)");
    assert_eq!(stage.did(), "send A, send B, send A");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.answers("B", 200), "");
    assert_eq!(stage.first_answers("A", 200), "cancel A, merge (A & B)");
}

#[test]
fn an_answer_that_is_cut_off_while_the_others_are_awaited_is_missing_from_the_list() {
    let mut stage = Stage::list("((A & D) ; C) & B");
    assert_eq!(stage.did(), "send A, send D, send B");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.answers("D", 200), "");
    assert_eq!(stage.fails("A", Sent::Maybe, Why::Reset), "");
    assert_eq!(stage.answers("B", 200), "merge partial (D & B)");

    let mut stage = Stage::strict("A & B");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.fails("A", Sent::Maybe, Why::Reset), "");
    assert_eq!(stage.answers("B", 200), "cancel B, fail 504 Partial");
}

#[test]
fn a_refusal_that_is_cut_off_is_none() {
    let mut stage = Stage::list("A & B");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.answers("A", 403), "");
    assert_eq!(stage.fails("A", Sent::Maybe, Why::Reset), "");
    assert_eq!(stage.answers("B", 404), "cancel B, fail 503 Unavailable");
}

#[test]
fn unique_items_need_every_answer() {
    let mut stage = Stage::list("B ^ A");
    assert_eq!(stage.did(), "send B, send A");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.answers("B", 200), "merge (B ^ A)");
    assert_eq!(stage.nearest, "AB");

    let mut stage = Stage::list("A ^ B");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.unreachable("B"), "");
    assert_eq!(stage.answers("A", 200), "cancel A, fail 503 Missing");
}

#[test]
fn a_site_without_the_list_has_none_of_its_items() {
    let mut stage = Stage::list("A ^ B");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.answers("B", 404), "cancel B");
    assert_eq!(stage.answers("A", 200), "merge (A)");

    let mut stage = Stage::list("A ^ B");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.answers("B", 404), "cancel B");
    assert_eq!(stage.answers("A", 404), "cancel A, fail 404 NotFound");
}

#[test]
fn what_is_unique_cannot_be_told_from_a_partial_list() {
    let mut stage = Stage::list("(A & B) ^ C");
    assert_eq!(stage.did(), "send A, send B, send C");
    for site in ["A", "B"] {
        assert_eq!(stage.answers(site, 200), "");
    }
    assert_eq!(stage.answers("C", 200), "merge ((A & B) ^ C)");

    let mut stage = Stage::list("(A & B) ^ C");
    assert_eq!(stage.did(), "send A, send B, send C");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.unreachable("B"), "cancel A");
    assert_eq!(stage.answers("C", 200), "cancel C, fail 503 Missing");
}

#[test]
fn a_refusal_is_the_answer_to_what_is_unique() {
    let mut stage = Stage::list("((A & B) ^ C) ; D");
    assert_eq!(stage.did(), "send A, send B, send C");
    assert_eq!(stage.answers("C", 200), "");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.answers("B", 403), "cancel A, cancel C, answer B");
}

#[test]
fn unique_items_beside_those_of_another_site() {
    let mut stage = Stage::list("(A ^ B) & C");
    assert_eq!(stage.did(), "send A, send B, send C");
    for site in ["A", "B"] {
        assert_eq!(stage.answers(site, 200), "");
    }
    assert_eq!(stage.answers("C", 200), "merge ((A ^ B) & C)");

    let mut stage = Stage::list("(A ^ B) & C");
    assert_eq!(stage.did(), "send A, send B, send C");
    for site in ["A", "B"] {
        assert_eq!(stage.answers(site, 200), "");
    }
    assert_eq!(stage.fails("A", Sent::Maybe, Why::Reset), "");
    assert_eq!(stage.answers("C", 200), "cancel B, merge partial (C)");
}

#[test]
fn a_list_at_a_weaker_level_is_the_same_list() {
    let mut stage = Stage::new("(A & B) @weak", LIST, "");
    assert_eq!(stage.did(), "send A, send B");
    assert_eq!(stage.answers("A", 200), "");
    assert_eq!(stage.answers("B", 200), "merge (A & B)");
}
