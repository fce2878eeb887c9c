//! A location with every name resolved: what the mesh carries out.

use std::time::Duration;

use crate::diagnostic::{Code, Diagnostic};
use crate::function;
use crate::limits::Limits;
use crate::resolve::{Node, Resolver, no_site};
use crate::span::Span;
use crate::syntax::{Argument, Combination, Group, Kind, Level, Location, without_repeats};
use crate::view::{Site, View};

/// Which sites a service of a request runs at, and how they are combined. It has at least one site,
/// is flat, and repeats no operand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plan {
    /// At this site.
    Site(Site),
    /// At every one of these.
    All(Level, Vec<Plan>),
    /// At the first available of these.
    Any(Vec<Plan>),
    /// At exactly one of these.
    One(Vec<Plan>),
    /// At the first of these, or the next if there is a problem.
    Otherwise(Vec<Plan>),
    /// As the plan inside, which has failed after this time.
    Within(Duration, Box<Plan>),
}

impl Plan {
    /// Resolves a location for one service.
    pub(crate) fn new(
        location: &Location,
        service: &str,
        view: &dyn View,
        limits: &Limits,
    ) -> Result<Plan, Diagnostic> {
        let node = Resolver::new(view, service, limits).location(location)?;
        if node.is_empty() {
            return Err(no_site(location));
        }
        let plan = Plan::of(node, Level::default(), view);
        let sites = plan.count();
        if sites > limits.sites {
            let message = format!("this location has {sites} sites, more than the limit of {}", limits.sites);
            return Err(Diagnostic::new(Code::Limit, message)
                .at(location.span(), "too many sites")
                .help("name fewer sites, or let the administrator raise the limit `sites`"));
        }
        Ok(plan)
    }

    /// `around` is the level of the `&` group in which the node stands.
    fn of(node: Node, around: Level, view: &dyn View) -> Plan {
        match node {
            Node::Site(site) => match view.members().get(site) {
                Some(site) => Plan::Site(site.clone()),
                None => unreachable!("sites are positions in this same view"),
            },
            Node::Within(limit, inner) => match Plan::of(*inner, Level::default(), view) {
                Plan::Within(sooner, plan) => Plan::Within(limit.min(sooner), plan),
                plan => Plan::Within(limit, Box::new(plan)),
            },
            Node::Group(group) => {
                let level = match group.combination {
                    Combination::All => group.level.unwrap_or(around),
                    _ => Level::default(),
                };
                let mut operands = Vec::with_capacity(group.operands.len());
                for operand in group.operands {
                    match (group.combination, Plan::of(operand, level, view)) {
                        (Combination::All, Plan::All(same, inner)) if same == level => operands.extend(inner),
                        (Combination::Any, Plan::Any(inner))
                        | (Combination::One, Plan::One(inner))
                        | (Combination::Otherwise, Plan::Otherwise(inner)) => operands.extend(inner),
                        (_, plan) => operands.push(plan),
                    }
                }
                Plan::combined(group.combination, level, around, without_repeats(operands))
            }
        }
    }

    fn combined(combination: Combination, level: Level, around: Level, mut operands: Vec<Plan>) -> Plan {
        if let [only] = operands.as_slice() {
            // One site with a level of its own is a group of one. On anything else, a level would
            // have nothing to order.
            let group_of_one =
                combination == Combination::All && level != around && matches!(only, Plan::Site(_));
            if !group_of_one {
                return operands.swap_remove(0);
            }
        }
        match combination {
            Combination::All => Plan::All(level, operands),
            Combination::Any => Plan::Any(operands),
            Combination::One => Plan::One(operands),
            Combination::Otherwise => Plan::Otherwise(operands),
        }
    }

    fn count(&self) -> usize {
        match self {
            Plan::Site(_) => 1,
            Plan::Within(_, plan) => plan.count(),
            Plan::All(_, plans) | Plan::Any(plans) | Plan::One(plans) | Plan::Otherwise(plans) => {
                plans.iter().map(Plan::count).sum()
            }
        }
    }

    /// Every site in it, each once, in order.
    #[must_use]
    pub fn sites(&self) -> Vec<Site> {
        fn collect(plan: &Plan, sites: &mut Vec<Site>) {
            match plan {
                Plan::Site(site) => sites.push(site.clone()),
                Plan::Within(_, plan) => collect(plan, sites),
                Plan::All(_, plans) | Plan::Any(plans) | Plan::One(plans) | Plan::Otherwise(plans) => {
                    for plan in plans {
                        collect(plan, sites);
                    }
                }
            }
        }
        let mut sites = Vec::new();
        collect(self, &mut sites);
        without_repeats(sites)
    }

    pub(crate) fn to_location(&self) -> Location {
        self.location_in(Level::default())
    }

    fn location_in(&self, around: Level) -> Location {
        let group = |combination, level, within: Level, plans: &[Plan]| {
            let operands = plans.iter().map(|plan| plan.location_in(within)).collect();
            Kind::Group(Group { combination, level, operands })
        };
        let kind = match self {
            Plan::Site(site) => Kind::Name(site.name().into()),
            Plan::All(level, plans) => {
                group(Combination::All, (*level != around).then_some(*level), *level, plans)
            }
            Plan::Any(plans) => group(Combination::Any, None, Level::default(), plans),
            Plan::One(plans) => group(Combination::One, None, Level::default(), plans),
            Plan::Otherwise(plans) => group(Combination::Otherwise, None, Level::default(), plans),
            Plan::Within(limit, plan) => {
                let inner = Argument::Location(plan.location_in(Level::default()));
                Kind::Call(function::deadline(), vec![Argument::Duration(*limit), inner])
            }
        };
        Location::new(kind, Span::default())
    }
}
