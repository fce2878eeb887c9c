//! Every plan up to a size, and random larger ones.
//!
//! Limits of `within` grow so fast with nesting that an outer one never expires while an inner one is
//! waited for, and the time of a leg is longer than all of them.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use scope::{Level, Plan, Site};

pub(crate) const SITES: [&str; 5] = ["A", "B", "C", "D", "E"];

/// Longer than any `within`, and each of these than many hedges.
pub(crate) const LEG_TIMEOUT: Duration = Duration::from_secs(SECONDS.pow(6));
pub(crate) const HEDGE_AFTER: Duration = Duration::from_millis(1);
const SECONDS: u64 = 20;

type Group = fn(Vec<Plan>) -> Plan;

fn all(plans: Vec<Plan>) -> Plan {
    Plan::All(Level::Eventual, plans)
}

fn site(name: &str) -> Plan {
    Plan::Site(Site::new(name).unwrap())
}

fn within(inner: Plan) -> Plan {
    fn height(plan: &Plan) -> u32 {
        match plan {
            Plan::Site(_) => 0,
            Plan::Within(_, inner) => 1 + height(inner),
            Plan::All(_, plans) | Plan::Any(plans) | Plan::One(plans) | Plan::Otherwise(plans) => {
                plans.iter().map(height).max().unwrap_or(0)
            }
        }
    }
    Plan::Within(Duration::from_secs(SECONDS.pow(height(&inner))), Box::new(inner))
}

/// Every shape of up to three sites and two levels of operators, with a `within` at no place or at any
/// one. Sites are named in their order: which site does what is up to the world.
pub(crate) fn small() -> Vec<Plan> {
    let groups: &[Group] = &[Plan::Otherwise, Plan::Any, Plan::One, all];
    let [a, b, c] = ["A", "B", "C"].map(site);
    let mut plans = vec![a.clone()];
    let mut crossed = Vec::new();
    for outer in groups {
        plans.push(outer(vec![a.clone(), b.clone()]));
        plans.push(outer(vec![a.clone(), b.clone(), c.clone()]));
        for inner in groups {
            plans.push(outer(vec![inner(vec![a.clone(), b.clone()]), c.clone()]));
            plans.push(outer(vec![a.clone(), inner(vec![b.clone(), c.clone()])]));
            // The same site twice.
            for other in groups {
                let other = other(vec![a.clone(), c.clone()]);
                crossed.push(outer(vec![inner(vec![a.clone(), b.clone()]), other]));
            }
        }
    }
    let limited: Vec<Plan> = plans.iter().flat_map(limited_somewhere).collect();
    [plans, crossed, limited].concat()
}

/// A plan with a `within` around one of its parts, for each of them.
fn limited_somewhere(plan: &Plan) -> Vec<Plan> {
    let mut limited = vec![within(plan.clone())];
    let (plans, group): (_, Group) = match plan {
        Plan::Site(_) | Plan::Within(..) => return limited,
        Plan::All(_, plans) => (plans, all),
        Plan::Any(plans) => (plans, Plan::Any),
        Plan::One(plans) => (plans, Plan::One),
        Plan::Otherwise(plans) => (plans, Plan::Otherwise),
    };
    for (at, operand) in plans.iter().enumerate() {
        for operand in limited_somewhere(operand) {
            let mut plans = plans.clone();
            plans[at] = operand;
            limited.push(group(plans));
        }
    }
    limited
}

pub(crate) fn random() -> impl Strategy<Value = Plan> {
    let plans = select(&SITES[..]).prop_map(site).prop_recursive(4, 16, 4, |inner| {
        let group = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            3 => group.clone().prop_map(Plan::Otherwise),
            2 => group.clone().prop_map(Plan::Any),
            3 => group.clone().prop_map(Plan::One),
            3 => group.prop_map(all),
            1 => inner.prop_map(within),
        ]
    });
    // One site alone is forwarded, whatever it answers: the small plans have that.
    plans.prop_filter("more than one site", |plan| plan.sites().len() > 1)
}
