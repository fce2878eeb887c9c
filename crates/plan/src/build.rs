//! From a plan to a tree: what each operator means for this request, and which operand is nearest.

use std::time::Duration;

use scope::{Level, Plan, Site};

use crate::merge::{How, Incomplete, Merge};
use crate::replicas;
use crate::request::{Knowledge, Reach, Request, Rules};
use crate::tree::{InOrder, NodeId, Operand, Operator, Place, Tree, Unique};

/// How soon a site, or a group of them, can be expected to answer; the least is asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Near {
    pub(crate) reach: Reach,
    distance: Distance,
    /// After which time its answer is late. Of two that are as near, the quicker is asked first.
    late_after: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    Rtt(Duration),
    Unknown,
}

impl Near {
    /// Of a group that has no site.
    const NONE: Near =
        Near { reach: Reach::Unreachable, distance: Distance::Unknown, late_after: Duration::MAX };

    pub(crate) fn is_asked(self) -> bool {
        self.reach.refusal().is_none()
    }
}

pub(crate) fn build(plan: &Plan, request: Request, rules: &Rules, knowledge: &dyn Knowledge) -> Tree {
    let tree = Tree::default();
    let mut builder = Builder { tree, request, rules, knowledge, in_unique: false };
    builder.add(plan, None);
    builder.tree
}

struct Builder<'b> {
    tree: Tree,
    request: Request,
    rules: &'b Rules,
    knowledge: &'b dyn Knowledge,
    /// What is added now is below a `^`.
    in_unique: bool,
}

impl Builder<'_> {
    fn add(&mut self, plan: &Plan, parent: Option<NodeId>) -> (NodeId, Near) {
        let id = self.tree.reserve(parent);
        let (operator, near) = self.operator(plan, id);
        self.tree.fill(id, operator);
        (id, near)
    }

    fn operator(&mut self, plan: &Plan, id: NodeId) -> (Operator, Near) {
        match plan {
            Plan::Site(site) => self.site(site),
            Plan::Within(limit, inner) => {
                let (inner, near) = self.add(inner, Some(id));
                (Operator::Within { limit: *limit, inner }, near)
            }
            Plan::Otherwise(plans) => {
                let operands = self.operands(plans, id);
                // The first that is asked is what it waits for.
                let asked = operands.iter().find(|(_, near)| near.is_asked());
                let near = asked.map_or(Near::NONE, |(_, near)| *near);
                (in_order(operands, false), near)
            }
            Plan::Any(plans) => self.nearest_first(plans, id, !self.request.is_write()),
            Plan::All(level, plans) if self.request.is_write() && replicas::is_group(*level, plans) => {
                self.replicas(*level, plans)
            }
            Plan::All(_, plans) => match self.request {
                Request::List { strict } if plans.len() > 1 => {
                    let incomplete = match (self.in_unique, strict) {
                        (true, _) => Incomplete::Unfounded,
                        (false, true) => Incomplete::Strict,
                        (false, false) => Incomplete::Partial,
                    };
                    let operands = self.operands(plans, id);
                    (Self::merge(How::Union(incomplete), &operands), farthest_asked(&operands))
                }
                _ => self.nearest_first(plans, id, false),
            },
            Plan::One(plans) => self.one(plans, id),
        }
    }

    fn site(&self, site: &Site) -> (Operator, Near) {
        let near = self.near(site);
        (Operator::Site { site: site.clone(), barred: false, near }, near)
    }

    /// One site alone, at the usual level, is that site.
    fn replicas(&self, level: Level, plans: &[Plan]) -> (Operator, Near) {
        let sites = replicas::sites(plans, &|site| self.near(site));
        if let (Level::Eventual, [(_, site)]) = (level, &sites[..]) {
            return self.site(site);
        }
        let near = sites.first().map_or(Near::NONE, |(near, _)| *near);
        let sites = sites.into_iter().map(|(_, site)| site).collect();
        (Operator::Replicas { sites, level, near }, near)
    }

    fn near(&self, site: &Site) -> Near {
        let rtt = self.knowledge.rtt(site);
        Near {
            reach: self.knowledge.reach(site),
            distance: rtt.map_or(Distance::Unknown, Distance::Rtt),
            late_after: self
                .knowledge
                .patience(site)
                .unwrap_or_else(|| self.rules.hedge_after.saturating_add(rtt.unwrap_or_default())),
        }
    }

    fn one(&mut self, plans: &[Plan], id: NodeId) -> (Operator, Near) {
        let around = std::mem::replace(&mut self.in_unique, true);
        let mut operands = self.operands(plans, id);
        self.in_unique = around;
        if self.request.is_list() {
            return (Self::merge(How::Unique, &operands), farthest(&operands));
        }
        let near = farthest(&operands);
        operands.sort_by_key(|(_, near)| *near);
        let operands = operands.into_iter().map(|(node, _)| node).collect();
        let operator = if self.request.is_write() {
            Operator::Place(Place {
                operands,
                probes: 0,
                exists: None,
                missing: false,
                unreserved: Vec::new(),
            })
        } else {
            Operator::Unique(Unique { operands, running: 0, found: None, missing: false })
        };
        (operator, near)
    }

    fn merge(how: How, operands: &[(NodeId, Near)]) -> Operator {
        Operator::Merge(Merge::new(how, operands.iter().map(|(node, _)| *node).collect()))
    }

    fn operands(&mut self, plans: &[Plan], parent: NodeId) -> Vec<(NodeId, Near)> {
        plans.iter().map(|plan| self.add(plan, Some(parent))).collect()
    }

    fn nearest_first(&mut self, plans: &[Plan], id: NodeId, hedged: bool) -> (Operator, Near) {
        let mut operands = self.operands(plans, id);
        operands.sort_by_key(|(_, near)| *near);
        let near = operands.first().map_or(Near::NONE, |(_, near)| *near);
        (in_order(operands, hedged), near)
    }
}

fn in_order(operands: Vec<(NodeId, Near)>, hedged: bool) -> Operator {
    let operand =
        |(node, near): (NodeId, Near)| Operand { node, asked: near.is_asked(), late_after: near.late_after };
    Operator::InOrder(InOrder::new(operands.into_iter().map(operand).collect(), hedged))
}

/// Of a group that needs all of its operands.
fn farthest(operands: &[(NodeId, Near)]) -> Near {
    let farthest = operands.iter().map(|(_, near)| *near).max();
    let late_after = operands.iter().map(|(_, near)| near.late_after).max();
    farthest.zip(late_after).map_or(Near::NONE, |(near, late_after)| Near { late_after, ..near })
}

/// Of a group that waits for all of its operands that are asked, and can do without the others.
fn farthest_asked(operands: &[(NodeId, Near)]) -> Near {
    let asked: Vec<_> = operands.iter().copied().filter(|(_, near)| near.is_asked()).collect();
    let near = farthest(&asked);
    // Without all of them it is a poorer answer: other groups are asked first.
    if asked.len() < operands.len() { Near { reach: near.reach.max(Reach::Unknown), ..near } } else { near }
}
