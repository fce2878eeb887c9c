//! A run ends as the reference says and writes where the reference says, for any nesting and whatever
//! each site does: compared with a second, plain reading of the operators' table that has no events.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail the test, as the test itself does"
)]

mod driver;
mod plans;
mod read;
mod world;
mod write;

use std::collections::BTreeSet;

use plan::{Request, Rules, Run};
use proptest::prelude::*;
use scope::Plan;

use crate::driver::{Choices, Course, run};
use crate::world::{Nature, World};

const NAMED: Request = Request::Write { chosen_name: true };

/// All that may come of it.
fn permitted(plan: &Plan, request: Request, world: &World) -> BTreeSet<Course> {
    match request {
        Request::Write { .. } => BTreeSet::from([write::permitted(plan, world)]),
        Request::Read | Request::List { .. } => read::permitted(plan, request, world),
    }
}

fn check(plan: &Plan, request: Request, world: &World, schedules: &[Choices]) -> BTreeSet<Course> {
    if matches!(request, Request::Write { .. }) && !write::makes_sense(plan) {
        let refused = Run::new(plan, request, &Rules::default(), world).is_err();
        assert!(refused, "{request:?} of {plan:?} makes no sense");
        return BTreeSet::new();
    }
    let permitted = permitted(plan, request, world);
    for choices in schedules {
        let course = run(plan, request, world, *choices);
        assert!(
            permitted.contains(&course),
            "{request:?} of {plan:?}\nin {world:?}\nin the order {choices:?}\nwas {course:?}\nnot {permitted:?}"
        );
    }
    permitted
}

/// Every plan up to a size, in every world, in some orders of events. Returns what kinds of ends there
/// were: a test in which nothing happens would pass too.
fn exhaust(plans: &[Plan], request: Request) -> String {
    let mut kinds = BTreeSet::new();
    for plan in plans {
        for world in world::every(plan, request) {
            let permitted =
                check(plan, request, &world, &[Choices::First, Choices::Last, Choices::Seeded(7)]);
            kinds.extend(permitted.iter().map(Course::kind));
        }
    }
    kinds.into_iter().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_small_read_ends_as_the_reference_says() {
    let kinds = exhaust(&plans::small(), Request::Read);
    assert_eq!(kinds, "Conflict Missing NotFound Nothing TimedOut Unavailable answer");
}

#[test]
fn every_small_list_ends_as_the_reference_says() {
    let kinds = exhaust(&plans::small(), Request::List { strict: false });
    assert_eq!(kinds, "Missing NotFound Nothing TimedOut Unavailable answer merge partial");
}

#[test]
fn every_small_strict_list_ends_as_the_reference_says() {
    let kinds = exhaust(&plans::small(), Request::List { strict: true });
    assert_eq!(kinds, "Missing NotFound Nothing Partial TimedOut Unavailable answer merge");
}

#[test]
fn every_small_write_ends_as_the_reference_says_and_is_executed_where_it_says() {
    let kinds = exhaust(&plans::small(), NAMED);
    assert_eq!(kinds, "Conflict Missing Reserved TimedOut Unavailable Unknown answer replicas");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_read_ends_as_the_reference_says(
        plan in plans::random(), world in world::random(), seed in any::<u64>(),
    ) {
        check(&plan, Request::Read, &world, &[Choices::Seeded(seed)]);
    }

    #[test]
    fn a_list_ends_as_the_reference_says(
        plan in plans::random(), world in world::random(), seed in any::<u64>(), strict in any::<bool>(),
    ) {
        check(&plan, Request::List { strict }, &world, &[Choices::Seeded(seed)]);
    }

    #[test]
    fn a_write_ends_as_the_reference_says_and_is_executed_where_it_says(
        plan in plans::random(), world in world::random(), seed in any::<u64>(),
    ) {
        check(&plan, NAMED, &world, &[Choices::Seeded(seed)]);
    }
}

/// Whatever is sure to fail, as is known beforehand, is asked after the others where there is a choice.
fn last_if_hopeless<'p>(plans: &'p [Plan], world: &World) -> Vec<&'p Plan> {
    let mut sorted: Vec<&Plan> = plans.iter().collect();
    sorted.sort_by_key(|plan| hopeless(plan, world));
    sorted
}

fn hopeless(plan: &Plan, world: &World) -> bool {
    match plan {
        Plan::Site(site) => world[site] == Nature::Cut,
        Plan::Within(_, inner) => hopeless(inner, world),
        Plan::One(plans) => plans.iter().any(|plan| hopeless(plan, world)),
        Plan::All(_, plans) | Plan::Any(plans) | Plan::Otherwise(plans) => {
            plans.iter().all(|plan| hopeless(plan, world))
        }
    }
}
