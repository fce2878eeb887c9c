//! Which sites a plan may ask for one answer, and how their answers are combined.

use std::collections::BTreeMap;

use merge::Merged;
use plan::{Answer, Leg};
use scope::{Plan, Site};

/// The sites that may be asked, each a source by its place.
#[derive(Default)]
pub(super) struct Sources {
    pub(super) sites: Vec<Site>,
    places: BTreeMap<Site, usize>,
}

impl Sources {
    pub(super) fn of(&self, site: &Site) -> Option<usize> {
        self.places.get(site).copied()
    }

    fn add(&mut self, site: &Site) -> usize {
        self.of(site).unwrap_or_else(|| {
            self.sites.push(site.clone());
            self.places.insert(site.clone(), self.sites.len() - 1);
            self.sites.len() - 1
        })
    }
}

/// Whether a plan asks several sites for one answer.
pub(super) fn joins(plan: &Plan) -> bool {
    match plan {
        Plan::Site(_) => false,
        Plan::Within(_, inner) => joins(inner),
        Plan::All(_, plans) | Plan::One(plans) if plans.len() > 1 => true,
        Plan::All(_, plans) | Plan::Any(plans) | Plan::One(plans) | Plan::Otherwise(plans) => {
            plans.iter().any(joins)
        }
    }
}

/// Every site that a plan may ask, and how their lists would be combined if all were.
pub(super) fn tree_of(plan: &Plan, sources: &mut Sources) -> Merged {
    match plan {
        Plan::Site(site) => Merged::Source(sources.add(site)),
        Plan::Within(_, inner) => tree_of(inner, sources),
        Plan::One(plans) => Merged::Unique(plans.iter().map(|plan| tree_of(plan, sources)).collect()),
        Plan::All(_, plans) | Plan::Any(plans) | Plan::Otherwise(plans) => {
            Merged::Union(plans.iter().map(|plan| tree_of(plan, sources)).collect())
        }
    }
}

/// The answer that a run chose, with sources for its legs.
pub(super) fn merged(answer: &Answer, places: &BTreeMap<Leg, usize>) -> Merged {
    match answer {
        // A source that is not there is one that has nothing.
        Answer::Leg(leg) => Merged::Source(places.get(leg).copied().unwrap_or(usize::MAX)),
        Answer::Union(parts) => Merged::Union(parts.iter().map(|part| merged(part, places)).collect()),
        Answer::Unique(parts) => Merged::Unique(parts.iter().map(|part| merged(part, places)).collect()),
    }
}

/// Whether a leg is below a `^`.
pub(super) fn is_unique(answer: &Answer, leg: Leg) -> bool {
    match answer {
        Answer::Leg(_) => false,
        Answer::Union(parts) => parts.iter().any(|part| is_unique(part, leg)),
        Answer::Unique(_) => answer.legs().contains(&leg),
    }
}

/// Whether several have what exactly one may have.
pub(super) fn has_conflict(answer: &Answer) -> bool {
    match answer {
        Answer::Leg(_) => false,
        Answer::Unique(parts) if parts.len() > 1 => true,
        Answer::Union(parts) | Answer::Unique(parts) => parts.iter().any(has_conflict),
    }
}
