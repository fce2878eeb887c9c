//! A location with every name resolved: what the mesh carries out.

use std::time::Duration;

use crate::combine::inside;
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
        let too_much = |diagnostic: Diagnostic| diagnostic.or_at(location.span(), "all of this");
        let mut resolver = Resolver::new(view, service, limits);
        let node = resolver.location(location).map_err(too_much)?;
        if node.is_empty() {
            return Err(no_site(location));
        }
        resolver.spend(node.count()).map_err(too_much)?;
        let node =
            node.canonical(Level::default()).map_err(|fault| fault.diagnostic(location.span(), None))?;
        let sites = node.count();
        if sites > limits.sites {
            let message = format!("this location has {sites} sites, more than the limit of {}", limits.sites);
            return Err(Diagnostic::new(Code::Limit, message)
                .at(location.span(), "too many sites")
                .help("name fewer sites, or let the administrator raise the limit `sites`"));
        }
        Ok(Plan::of(node, Level::default(), view.members()))
    }

    /// `around` is the level of the `&` group in which the node stands.
    fn of(node: Node, around: Level, members: &[Site]) -> Plan {
        match node {
            Node::Site(site) => match members.get(site) {
                Some(site) => Plan::Site(site.clone()),
                None => unreachable!("a view finds sites among its own members"),
            },
            Node::Within(limit, inner) => {
                Plan::Within(limit, Box::new(Plan::of(*inner, Level::default(), members)))
            }
            Node::Group(group) => {
                let level = inside(&group, Some(around)).unwrap_or_default();
                let plans =
                    group.operands.into_iter().map(|operand| Plan::of(operand, level, members)).collect();
                match group.combination {
                    Combination::All => Plan::All(level, plans),
                    Combination::Any => Plan::Any(plans),
                    Combination::One => Plan::One(plans),
                    Combination::Otherwise => Plan::Otherwise(plans),
                }
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
