//! What holds for every plan and every order of events, however late, repeated or unknown.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail the test, as the test itself does"
)]

mod history;
mod invariant;
mod random;

use plan::Request;
use proptest::prelude::*;

use crate::history::{Drain, History};
use crate::random::{Step, drains, plans, requests, schedules, skies};

fn check(plan: &scope::Plan, request: Request, sky: &random::Sky, steps: &[Step], drain: Drain) {
    // What is refused asks nothing of any site; the behaviour tests say what that is.
    let Some(history) = History::of(plan, request, sky, steps, drain) else { return };
    invariant::invariant_it_always_ends(&history);
    invariant::invariant_there_is_exactly_one_final_effect(&history);
    invariant::invariant_nothing_comes_after_the_final_effect(&history);
    invariant::invariant_a_write_is_sent_again_only_where_it_provably_did_not_execute(&history);
    invariant::invariant_nothing_is_written_while_a_probe_is_out(&history);
    invariant::invariant_what_is_reserved_is_held_while_it_is_written_and_then_released(&history);
    invariant::invariant_the_answer_is_there_to_be_given(&history);
    invariant::invariant_every_leg_ends(&history);
    invariant::invariant_only_what_succeeded_is_merged_and_each_site_once(&history);
    invariant::invariant_a_plain_list_of_all_is_partial_exactly_where_a_site_is_missing(&history);
    invariant::invariant_a_leg_is_cancelled_at_most_once_and_while_it_lives(&history);
    invariant::invariant_only_sites_of_the_plan_are_asked(&history);
    invariant::invariant_what_cannot_be_reached_is_never_asked(&history);
    invariant::invariant_the_report_has_each_asked_site_once(&history);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_invariants_hold_for_any_plan_and_any_schedule(
        plan in plans(), request in requests(), sky in skies(), steps in schedules(), drain in drains(),
    ) {
        check(&plan, request, &sky, &steps, drain);
    }

    /// Most random plans hold something that a write refuses, so writes get plans of their own.
    #[test]
    fn the_invariants_hold_for_writes(
        plan in random::writable_plans(), sky in skies(), steps in schedules(), drain in drains(),
    ) {
        check(&plan, Request::Write { chosen_name: true }, &sky, &steps, drain);
    }

    #[test]
    fn the_invariants_hold_where_exactly_one_site_is_to_have_it(
        plan in random::unique_plans(), request in requests(), sky in skies(), steps in schedules(),
        drain in drains(),
    ) {
        check(&plan, request, &sky, &steps, drain);
    }

    #[test]
    fn the_invariants_hold_for_merged_lists(
        plan in random::merged_plans(), strict in any::<bool>(), sky in skies(), steps in schedules(),
        drain in drains(),
    ) {
        check(&plan, Request::List { strict }, &sky, &steps, drain);
    }

    #[test]
    fn the_same_events_give_the_same_effects(
        plan in plans(), request in requests(), sky in skies(), steps in schedules(), drain in drains(),
    ) {
        let run = || History::of(&plan, request, &sky, &steps, drain).map(|history| history.log);
        prop_assert_eq!(run(), run());
    }
}
