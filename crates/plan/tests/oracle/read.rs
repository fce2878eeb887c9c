//! The table's columns for reads and lists, as a definition: the set of ends that are permitted.
//!
//! There is more than one where sites race. Time is in it in one way only: an end is *late* if it is
//! reached only once a site that never answers was given up.

use std::collections::BTreeSet;

use plan::{Failure, Request};
use scope::{Plan, Site};

use crate::driver::{Course, Final, Items};
use crate::last_if_hopeless;
use crate::world::{Nature, World};

#[derive(Clone, Debug, PartialEq)]
enum End {
    /// A 2xx, or several merged.
    Success {
        items: Items,
        partial: bool,
    },
    /// Another answer of a site that is not a failure.
    Refusal(Site),
    Fails(Failure),
    /// Whatever is around it.
    Stops(Failure),
}

#[derive(Clone, Debug, PartialEq)]
struct Possible {
    end: End,
    late: bool,
}

#[derive(Clone, Copy)]
struct Context<'w> {
    world: &'w World,
    request: Request,
    /// There is no other site: what it answers is the answer.
    alone: bool,
    /// Below a `^`.
    in_unique: bool,
}

pub(crate) fn permitted(plan: &Plan, request: Request, world: &World) -> BTreeSet<Course> {
    let context = Context { world, request, alone: plan.sites().len() == 1, in_unique: false };
    // Where a read is executed does not matter.
    let course = |possible: Possible| {
        let end = match possible.end {
            End::Success { items, partial } => Final::Answer { answer: items, partial },
            End::Refusal(site) => Final::Answer { answer: Items::Of(site), partial: false },
            End::Fails(failure) | End::Stops(failure) => Final::fail(failure),
        };
        Course { end, executed: Vec::new() }
    };
    ends(plan, context).into_iter().map(course).collect()
}

fn ends(plan: &Plan, context: Context<'_>) -> Vec<Possible> {
    let list = matches!(context.request, Request::List { .. });
    let below = |plans: &[Plan], context: Context<'_>| -> Vec<Vec<Possible>> {
        choices(plans.iter().map(|plan| ends(plan, context)).collect())
    };
    let possible: Vec<Possible> = match plan {
        Plan::Site(site) => vec![site_end(site, context)],
        Plan::Within(_, inner) => ends(inner, context).into_iter().map(in_time).collect(),
        Plan::Otherwise(plans) => below(plans, context).iter().map(|operands| otherwise(operands)).collect(),
        Plan::Any(plans) => below(plans, context).into_iter().flat_map(any).collect(),
        Plan::All(_, plans) if list && plans.len() > 1 => {
            below(plans, context).iter().flat_map(|operands| union(operands, context)).collect()
        }
        Plan::All(_, plans) => {
            let plans: Vec<Plan> = last_if_hopeless(plans, context.world).into_iter().cloned().collect();
            below(&plans, context).iter().map(|operands| otherwise(operands)).collect()
        }
        Plan::One(plans) => {
            let inside = Context { in_unique: true, ..context };
            let exactly_one = if list { unique_items } else { unique };
            below(plans, inside).iter().flat_map(|operands| exactly_one(operands)).collect()
        }
    };
    let mut once = Vec::new();
    for possible in possible {
        if !once.contains(&possible) {
            once.push(possible);
        }
    }
    once
}

/// One possible end of each operand, in every combination.
fn choices(operands: Vec<Vec<Possible>>) -> Vec<Vec<Possible>> {
    operands.into_iter().fold(vec![vec![]], |combinations, operand| {
        let with = |combination: &Vec<Possible>| {
            let combination = combination.clone();
            operand.clone().into_iter().map(move |end| [combination.clone(), vec![end]].concat())
        };
        combinations.iter().flat_map(with).collect()
    })
}

fn site_end(site: &Site, context: Context<'_>) -> Possible {
    let nature = context.world[site];
    let end = match nature {
        Nature::Has => End::Success { items: Items::Of(site.clone()), partial: false },
        Nature::Forbids => End::Refusal(site.clone()),
        Nature::HasNot
        | Nature::Taken
        | Nature::Broken
        | Nature::Busy
        | Nature::Full
        | Nature::Moody
        | Nature::Undone
        | Nature::Unsettled
        | Nature::Vacant
            if context.alone =>
        {
            End::Refusal(site.clone())
        }
        Nature::HasNot | Nature::Taken => End::Fails(Failure::NotFound),
        Nature::Vacant => End::Fails(Failure::Nothing),
        Nature::Broken
        | Nature::Busy
        | Nature::Full
        | Nature::Moody
        | Nature::Undone
        | Nature::Unsettled
        | Nature::Down
        | Nature::Lost
        | Nature::Cut => End::Fails(Failure::Unavailable),
        Nature::Silent => End::Fails(Failure::TimedOut),
    };
    Possible { end, late: nature == Nature::Silent }
}

fn in_time(possible: Possible) -> Possible {
    if possible.late { Possible { end: End::Fails(Failure::TimedOut), late: false } } else { possible }
}

/// What failures amount to: a 404 if all are, else a 503, or a 504 if one is.
pub(crate) fn amount(failures: &[Failure]) -> Failure {
    let of = |failure| failures.contains(&failure);
    if of(Failure::Partial) {
        Failure::Partial
    } else if of(Failure::TimedOut) {
        Failure::TimedOut
    } else if let [one] = failures {
        *one
    } else if failures.iter().all(|failure| *failure == Failure::Nothing) {
        Failure::Nothing
    } else if failures.iter().copied().all(is_absence) {
        Failure::NotFound
    } else {
        Failure::Unavailable
    }
}

/// What says that a site has none.
fn is_absence(failure: Failure) -> bool {
    matches!(failure, Failure::NotFound | Failure::Nothing)
}

fn failures(operands: &[Possible]) -> Vec<Failure> {
    let failure = |possible: &Possible| match possible.end {
        End::Fails(failure) => Some(failure),
        _ => None,
    };
    operands.iter().filter_map(failure).collect()
}

fn any_late(operands: &[Possible]) -> bool {
    operands.iter().any(|possible| possible.late)
}

fn otherwise(operands: &[Possible]) -> Possible {
    let first = operands.iter().position(|possible| !matches!(possible.end, End::Fails(_)));
    match first {
        Some(at) => Possible { end: operands[at].end.clone(), late: any_late(&operands[..=at]) },
        None => Possible { end: End::Fails(amount(&failures(operands))), late: any_late(operands) },
    }
}

/// Of what ends a group at once, any may be first, but nothing late before what is not.
fn first_of(deciding: Vec<Possible>) -> Vec<Possible> {
    let (late, in_time): (Vec<_>, Vec<_>) = deciding.into_iter().partition(|possible| possible.late);
    if in_time.is_empty() { late } else { in_time }
}

fn any(operands: Vec<Possible>) -> Vec<Possible> {
    let (failed, deciding): (Vec<_>, Vec<_>) =
        operands.into_iter().partition(|possible| matches!(possible.end, End::Fails(_)));
    if deciding.is_empty() {
        return vec![Possible { end: End::Fails(amount(&failures(&failed))), late: any_late(&failed) }];
    }
    first_of(deciding)
}

fn stops(operands: &[Possible]) -> Vec<Possible> {
    operands.iter().filter(|possible| matches!(possible.end, End::Stops(_))).cloned().collect()
}

fn refusal(operands: &[Possible]) -> Option<End> {
    operands.iter().map(|possible| &possible.end).find(|end| matches!(end, End::Refusal(_))).cloned()
}

/// The items of those that succeeded, in order.
fn successes(operands: &[Possible]) -> Vec<(Items, bool)> {
    let success = |possible: &Possible| match &possible.end {
        End::Success { items, partial } => Some((items.clone(), *partial)),
        _ => None,
    };
    operands.iter().filter_map(success).collect()
}

fn once_each(items: Vec<Items>) -> Vec<Items> {
    let mut once: Vec<Items> = Vec::new();
    for items in items {
        if !(matches!(items, Items::Of(_)) && once.contains(&items)) {
            once.push(items);
        }
    }
    once
}

/// `A & B` on a list.
fn union(operands: &[Possible], context: Context<'_>) -> Vec<Possible> {
    let stops = stops(operands);
    if !stops.is_empty() {
        return first_of(stops);
    }
    let (got, refusal) = (successes(operands), refusal(operands));
    let has_nothing = failures(operands).iter().filter(|failure| **failure == Failure::Nothing).count();
    let partial = got.len() + has_nothing < operands.len() || got.iter().any(|(_, partial)| *partial);
    let strict = context.request == Request::List { strict: true };
    let end = if got.is_empty() {
        refusal.unwrap_or_else(|| End::Fails(amount(&failures(operands))))
    } else if partial && context.in_unique {
        refusal.unwrap_or(End::Fails(Failure::Partial))
    } else if partial && strict {
        refusal.map_or(End::Fails(Failure::Partial), |_| End::Stops(Failure::Partial))
    } else {
        let flat = |(items, _)| match items {
            Items::Union(parts) => parts,
            items => vec![items],
        };
        End::Success { items: Items::Union(once_each(got.into_iter().flat_map(flat).collect())), partial }
    };
    vec![Possible { end, late: any_late(operands) }]
}

/// `A ^ B` on a list.
fn unique_items(operands: &[Possible]) -> Vec<Possible> {
    let stops = stops(operands);
    if !stops.is_empty() {
        return first_of(stops);
    }
    let got: Vec<Items> = successes(operands).into_iter().map(|(items, _)| items).collect();
    let end = match refusal(operands) {
        Some(refusal) => refusal,
        None if !failures(operands).iter().copied().all(is_absence) => End::Fails(Failure::Missing),
        None if got.is_empty() => End::Fails(Failure::NotFound),
        None => End::Success { items: Items::Unique(once_each(got)), partial: false },
    };
    vec![Possible { end, late: any_late(operands) }]
}

/// `A ^ B` on a read of one resource.
fn unique(operands: &[Possible]) -> Vec<Possible> {
    let refuses = |possible: &&Possible| matches!(possible.end, End::Refusal(_) | End::Stops(_));
    let mut deciding: Vec<Possible> = operands.iter().filter(refuses).cloned().collect();
    let found = |late: bool| -> BTreeSet<Items> {
        let counted = operands.iter().filter(|possible| late || !possible.late).cloned().collect::<Vec<_>>();
        successes(&counted).into_iter().map(|(items, _)| items).collect()
    };
    for late in [false, true] {
        if found(late).len() > 1 {
            deciding.push(Possible { end: End::Stops(Failure::Conflict), late });
        }
    }
    if !deciding.is_empty() {
        return first_of(deciding);
    }
    let end = if failures(operands).iter().copied().all(is_absence) {
        let only = found(true).into_iter().next();
        only.map_or(End::Fails(Failure::NotFound), |items| End::Success { items, partial: false })
    } else {
        End::Fails(Failure::Missing)
    };
    vec![Possible { end, late: any_late(operands) }]
}
