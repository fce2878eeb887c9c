//! `&` on a write: which sites are to have a replica.

use std::collections::BTreeSet;

use scope::{Level, Plan, Site};

use crate::build::Near;
use crate::request::Refused;

/// Whether a write on it has replicas. One site at the usual level is that site; at another, it is the first replica.
pub(crate) fn is_group(level: Level, operands: &[Plan]) -> bool {
    level != Level::Eventual || operands.len() != 1
}

/// Whether these operands of a `&` say which sites are written to.
pub(crate) fn check(level: Level, operands: &[Plan]) -> Result<(), Refused> {
    operands.iter().try_for_each(|operand| match operand {
        Plan::Site(_) => Ok(()),
        Plan::All(own, _) if *own != level => Err(Refused::TwoLevels),
        Plan::All(_, plans) | Plan::Any(plans) | Plan::Otherwise(plans) => check(level, plans),
        Plan::Within(..) | Plan::One(_) => Err(Refused::NoSites),
    })
}

/// Whether a write on this plan would be one on `&`, somewhere in it.
#[must_use]
pub fn is_in(plan: &Plan) -> bool {
    match plan {
        Plan::Site(_) => false,
        Plan::All(level, plans) => is_group(*level, plans) || plans.iter().any(is_in),
        Plan::Within(_, inner) => is_in(inner),
        Plan::One(plans) | Plan::Any(plans) | Plan::Otherwise(plans) => plans.iter().any(is_in),
    }
}

/// The level at which a read on this plan is to be confirmed, by which sites: none where it is not, or where these are
/// no sites.
#[must_use]
pub fn confirms(plan: &Plan) -> Option<(Level, BTreeSet<Site>)> {
    let Plan::All(level @ (Level::Quorum | Level::Strong), operands) = plan else { return None };
    check(*level, operands).ok()?;
    let mut sites = BTreeSet::new();
    for operand in operands {
        collect(operand, &mut sites);
    }
    Some((*level, sites))
}

fn collect(plan: &Plan, sites: &mut BTreeSet<Site>) {
    match plan {
        Plan::Site(site) => {
            sites.insert(site.clone());
        }
        Plan::Within(_, inner) => collect(inner, sites),
        Plan::All(_, plans) | Plan::Any(plans) | Plan::Otherwise(plans) | Plan::One(plans) => {
            for plan in plans {
                collect(plan, sites);
            }
        }
    }
}

/// The sites of a `&`, each once, nearest first, and how near the nearest is: it takes the write, and the others
/// may have it later. Of a choice, the nearest that can be reached; in order, the first that can be.
pub(crate) fn sites(plans: &[Plan], near: &dyn Fn(&Site) -> Near) -> Vec<(Near, Site)> {
    let mut sites: Vec<(Near, Site)> = plans.iter().flat_map(|plan| chosen(plan, near)).collect();
    sites.sort();
    sites.dedup();
    sites
}

fn chosen(plan: &Plan, near: &dyn Fn(&Site) -> Near) -> Vec<(Near, Site)> {
    let each = |plans: &[Plan]| plans.iter().map(|plan| chosen(plan, near)).collect::<Vec<_>>();
    let first = |sites: &Vec<(Near, Site)>| sites.first().map(|(near, _)| *near);
    match plan {
        Plan::Site(site) => vec![(near(site), site.clone())],
        Plan::All(_, plans) => sites(plans, near),
        Plan::Any(plans) => each(plans).into_iter().min_by_key(first).unwrap_or_default(),
        Plan::Otherwise(plans) => {
            let operands = each(plans);
            let asked = operands.iter().position(|sites| first(sites).is_some_and(Near::is_asked));
            operands.into_iter().nth(asked.unwrap_or(0)).unwrap_or_default()
        }
        // Refused before.
        Plan::Within(..) | Plan::One(_) => Vec::new(),
    }
}
