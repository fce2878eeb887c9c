//! The table's column for writes, as a definition. There is one course only: nothing races.

use std::collections::BTreeSet;

use plan::Failure;
use scope::{Plan, Site};

use crate::driver::{Course, Final, Items};
use crate::last_if_hopeless;
use crate::read::amount;
use crate::world::{Nature, World};

#[derive(Clone, Debug, PartialEq)]
enum End {
    At(Site),
    /// At one of them, which sees to the others.
    AtAll(BTreeSet<Site>),
    /// Provably without effect.
    Fails(Failure),
    /// Whatever is around it.
    Stops(Failure),
}

struct Writing<'w> {
    world: &'w World,
    /// There is no other site: what it answers is the answer.
    alone: bool,
    executed: Vec<Site>,
    /// The first wait that nothing but time ended, in the innermost `within`: how many had executed it
    /// then, and what is known when that time is up.
    waited: Option<(usize, End)>,
}

pub(crate) fn permitted(plan: &Plan, world: &World) -> Course {
    let (mut sites, mut groups) = (BTreeSet::new(), 0);
    targets(plan, world, &mut sites, &mut groups);
    let alone = sites.len() + groups == 1;
    let mut writing = Writing { world, alone, executed: Vec::new(), waited: None };
    let end = match writing.end(plan, &plan.sites().into_iter().collect()) {
        End::At(site) => Final::Answer { answer: Items::Of(site), partial: false },
        End::AtAll(sites) => Final::Answer { answer: Items::Replicas(sites), partial: false },
        End::Fails(failure) | End::Stops(failure) => Final::fail(failure),
    };
    Course { end, executed: writing.executed }
}

impl Writing<'_> {
    /// Of a plan of which only some sites are open.
    fn end(&mut self, plan: &Plan, open: &BTreeSet<Site>) -> End {
        match plan {
            Plan::Site(site) if !open.contains(site) => End::Fails(Failure::NotFound),
            Plan::Site(site) => self.at(site),
            Plan::Within(_, inner) => {
                let around = self.waited.take();
                let end = self.end(inner, open);
                match std::mem::replace(&mut self.waited, around) {
                    None => end,
                    Some((executed, end)) => {
                        self.executed.truncate(executed);
                        end
                    }
                }
            }
            Plan::Otherwise(plans) => self.in_order(&plans.iter().collect::<Vec<_>>(), open),
            Plan::Any(plans) => self.in_order(&last_if_hopeless(plans, self.world), open),
            Plan::One(plans) => self.exactly_one(plans, open),
            Plan::All(_, plans) if plans.len() == 1 => self.end(&plans[0], open),
            Plan::All(_, plans) => self.at_all(replicas(plans, self.world)),
        }
    }

    fn at(&mut self, site: &Site) -> End {
        let nature = self.world[site];
        if nature.executes() {
            self.executed.push(site.clone());
        }
        match nature {
            Nature::Has
            | Nature::HasNot
            | Nature::Taken
            | Nature::Forbids
            | Nature::Moody
            | Nature::Vacant => End::At(site.clone()),
            Nature::Broken | Nature::Busy | Nature::Full if self.alone => End::At(site.clone()),
            Nature::Down | Nature::Cut | Nature::Busy | Nature::Full | Nature::Undone => {
                End::Fails(Failure::Unavailable)
            }
            Nature::Broken | Nature::Lost | Nature::Unsettled => End::Stops(Failure::Unknown),
            Nature::Silent => {
                self.waits(End::Stops(Failure::Unknown));
                End::Stops(Failure::Unknown)
            }
        }
    }

    /// The first that can be reached takes it.
    fn at_all(&mut self, sites: BTreeSet<Site>) -> End {
        let Some(taker) = sites.iter().find(|site| self.world[*site] != Nature::Cut) else {
            return End::Fails(Failure::Unavailable);
        };
        match self.at(taker) {
            End::At(_) if sites.len() > 1 => End::AtAll(sites),
            end => end,
        }
    }

    fn waits(&mut self, end: End) {
        self.waited.get_or_insert((self.executed.len(), end));
    }

    fn in_order(&mut self, plans: &[&Plan], open: &BTreeSet<Site>) -> End {
        let mut failures = Vec::new();
        for plan in plans {
            match self.end(plan, open) {
                End::Fails(failure) => failures.push(failure),
                end => return end,
            }
        }
        End::Fails(amount(&failures))
    }

    fn exactly_one(&mut self, plans: &[Plan], open: &BTreeSet<Site>) -> End {
        let sites: BTreeSet<Site> =
            plans.iter().flat_map(Plan::sites).filter(|site| open.contains(site)).collect();
        let are = |nature: Nature| -> BTreeSet<Site> {
            sites.iter().filter(|site| self.world[*site] == nature).cloned().collect()
        };
        let (has, has_not, silent) = (are(Nature::Has), are(Nature::HasNot), are(Nature::Silent));
        let taken = are(Nature::Taken);
        if has.len() > 1 {
            return End::Stops(Failure::Conflict);
        }
        if !silent.is_empty() {
            self.waits(End::Fails(Failure::TimedOut));
        }
        if sites.is_empty() || has.len() + has_not.len() + taken.len() < sites.len() {
            return End::Fails(Failure::Missing);
        }
        if has.is_empty() && !taken.is_empty() {
            return End::Stops(Failure::Reserved);
        }
        let open = if has.is_empty() { sites } else { has };
        let chosen = plans.iter().find(|plan| plan.sites().iter().any(|site| open.contains(site)));
        self.end(chosen.unwrap(), &open)
    }
}

/// What there is to decide between: sites, and groups of replicas.
fn targets(plan: &Plan, world: &World, sites: &mut BTreeSet<Site>, groups: &mut usize) {
    match plan {
        Plan::Site(site) => {
            sites.insert(site.clone());
        }
        Plan::Within(_, inner) => targets(inner, world, sites, groups),
        Plan::All(_, plans) if plans.len() > 1 => match replicas(plans, world) {
            one if one.len() == 1 => sites.extend(one),
            _ => *groups += 1,
        },
        Plan::All(_, plans) | Plan::Any(plans) | Plan::One(plans) | Plan::Otherwise(plans) => {
            for plan in plans {
                targets(plan, world, sites, groups);
            }
        }
    }
}

/// The sites of a `&`: of each choice in it, what is not known to be out of reach.
fn replicas(plans: &[Plan], world: &World) -> BTreeSet<Site> {
    plans.iter().flat_map(|plan| chosen(plan, world)).collect()
}

fn chosen(plan: &Plan, world: &World) -> BTreeSet<Site> {
    match plan {
        Plan::Site(site) => BTreeSet::from([site.clone()]),
        Plan::All(_, plans) => replicas(plans, world),
        Plan::Any(plans) | Plan::Otherwise(plans) => {
            let usable = |sites: &BTreeSet<Site>| sites.iter().any(|site| world[site] != Nature::Cut);
            let choices: Vec<_> = plans.iter().map(|plan| chosen(plan, world)).collect();
            choices.iter().find(|sites| usable(sites)).unwrap_or(&choices[0]).clone()
        }
        Plan::Within(..) | Plan::One(_) => unreachable!("it is refused"),
    }
}

/// Whether a write on it says what to do: a `&` has sites, and is not what exactly one site is to have.
pub(crate) fn makes_sense(plan: &Plan) -> bool {
    fn is_choice(plan: &Plan) -> bool {
        match plan {
            Plan::Site(_) => true,
            Plan::All(_, plans) | Plan::Any(plans) | Plan::Otherwise(plans) => plans.iter().all(is_choice),
            Plan::Within(..) | Plan::One(_) => false,
        }
    }
    fn joins(plan: &Plan) -> bool {
        match plan {
            Plan::Site(_) => false,
            Plan::Within(_, inner) => joins(inner),
            Plan::All(_, plans) if plans.len() > 1 => true,
            Plan::All(_, plans) | Plan::Any(plans) | Plan::One(plans) | Plan::Otherwise(plans) => {
                plans.iter().any(joins)
            }
        }
    }
    match plan {
        Plan::Site(_) => true,
        Plan::Within(_, inner) => makes_sense(inner),
        Plan::All(_, plans) if plans.len() > 1 => plans.iter().all(is_choice),
        Plan::One(plans) => plans.iter().all(|plan| makes_sense(plan) && !joins(plan)),
        Plan::All(_, plans) | Plan::Any(plans) | Plan::Otherwise(plans) => plans.iter().all(makes_sense),
    }
}
