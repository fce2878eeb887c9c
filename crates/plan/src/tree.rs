//! A plan as nodes, each with the state of its operator, and operands in the order in which they are
//! asked.
//!
//! A node comes before its operands and these are next to each other, so all that is below a node is
//! one range.

use std::ops::{Index, IndexMut, Range};
use std::time::Duration;

use scope::{Plan, Site};

use crate::event::{Failure, Leg};
use crate::request::{Knowledge, Request, Rules};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(usize);

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) parent: Option<NodeId>,
    /// The first node that is not below this one.
    end: usize,
    pub(crate) state: State,
    pub(crate) operator: Operator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Running,
    Done,
}

/// What a node does. It depends on the request too: `|` hedges a read, never a write.
#[derive(Debug)]
pub(crate) enum Operator {
    Site {
        site: Site,
        /// A `^` around it found the resource elsewhere: it must not be created here.
        barred: bool,
    },
    Within {
        limit: Duration,
        inner: NodeId,
    },
    InOrder(InOrder),
    Unique(Unique),
    Place(Place),
}

/// `;`, `|`, and `&` on a read: the next operand where one fails.
#[derive(Debug)]
pub(crate) struct InOrder {
    pub(crate) operands: Vec<Operand>,
    /// How many operands were begun.
    pub(crate) begun: usize,
    pub(crate) running: usize,
    /// What those that ended amount to.
    pub(crate) failure: Option<Failure>,
    /// The next operand also where one takes long.
    pub(crate) hedged: bool,
}

/// An operand, and how long it may take before the next is begun too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) node: NodeId,
    pub(crate) hedge_after: Duration,
}

/// `^` on a read.
#[derive(Debug)]
pub(crate) struct Unique {
    pub(crate) operands: Vec<NodeId>,
    pub(crate) running: usize,
    pub(crate) found: Option<Leg>,
    pub(crate) missing: bool,
}

/// `^` on a write: where it belongs is found out first.
#[derive(Debug)]
pub(crate) struct Place {
    /// Nearest first.
    pub(crate) operands: Vec<NodeId>,
    pub(crate) probes: usize,
    pub(crate) exists: Option<Site>,
    pub(crate) missing: bool,
}

/// How soon an operand can be expected to answer; the least is asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Reach {
    unavailable: bool,
    distance: Distance,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    Rtt(Duration),
    Unknown,
}

impl Reach {
    /// Of a group that has no site.
    const NONE: Reach = Reach { unavailable: true, distance: Distance::Unknown };
}

#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    pub(crate) const ROOT: NodeId = NodeId(0);

    pub(crate) fn new(plan: &Plan, request: Request, rules: &Rules, knowledge: &dyn Knowledge) -> Tree {
        let mut builder = Builder { tree: Tree { nodes: Vec::new() }, request, rules, knowledge };
        builder.add(plan, None);
        builder.tree
    }

    /// A node and all that is below it.
    pub(crate) fn under(&self, node: NodeId) -> Range<NodeId> {
        node..NodeId(self[node].end)
    }

    /// Ends all that is below a node, but not the node.
    pub(crate) fn close_below(&mut self, node: NodeId) {
        let below = node.0 + 1..self[node].end;
        for node in self.nodes.get_mut(below).into_iter().flatten() {
            node.state = State::Done;
        }
    }

    /// The sites in a range that may be asked, each once, in order.
    pub(crate) fn open_sites(&self, range: &Range<NodeId>) -> Vec<Site> {
        let mut seen = std::collections::BTreeSet::new();
        let nodes = self.nodes.get(range.start.0..range.end.0).into_iter().flatten();
        let sites = nodes.filter_map(|node| match &node.operator {
            Operator::Site { site, barred: false } => Some(site),
            _ => None,
        });
        sites.filter(|site| seen.insert(*site)).cloned().collect()
    }

    /// Leaves only this site open in a range.
    pub(crate) fn bar_all_but(&mut self, kept: &Site, range: &Range<NodeId>) {
        for node in self.nodes.get_mut(range.start.0..range.end.0).into_iter().flatten() {
            if let Operator::Site { site, barred } = &mut node.operator {
                *barred |= site != kept;
            }
        }
    }

    /// Whether there is one site only, so that there is nothing to decide between answers.
    pub(crate) fn has_one_site(&self) -> bool {
        self.open_sites(&self.under(Tree::ROOT)).len() == 1
    }
}

impl Index<NodeId> for Tree {
    type Output = Node;
    fn index(&self, node: NodeId) -> &Node {
        self.nodes.get(node.0).expect("ids are given to nodes of this tree, which are never removed")
    }
}

impl IndexMut<NodeId> for Tree {
    fn index_mut(&mut self, node: NodeId) -> &mut Node {
        self.nodes.get_mut(node.0).expect("ids are given to nodes of this tree, which are never removed")
    }
}

struct Builder<'b> {
    tree: Tree,
    request: Request,
    rules: &'b Rules,
    knowledge: &'b dyn Knowledge,
}

impl Builder<'_> {
    fn add(&mut self, plan: &Plan, parent: Option<NodeId>) -> (NodeId, Reach) {
        let id = NodeId(self.tree.nodes.len());
        // Its place is taken before its operands', and filled once these are known.
        let operator = Operator::InOrder(InOrder::new(Vec::new(), false));
        self.tree.nodes.push(Node { parent, end: 0, state: State::Waiting, operator });
        let (operator, reach) = self.operator(plan, id);
        let end = self.tree.nodes.len();
        let node = &mut self.tree[id];
        node.end = end;
        node.operator = operator;
        (id, reach)
    }

    fn operator(&mut self, plan: &Plan, id: NodeId) -> (Operator, Reach) {
        let write = self.request.is_write();
        match plan {
            Plan::Site(site) => {
                let distance = self.knowledge.rtt(site).map_or(Distance::Unknown, Distance::Rtt);
                let reach = Reach { unavailable: !self.knowledge.available(site), distance };
                (Operator::Site { site: site.clone(), barred: false }, reach)
            }
            Plan::Within(limit, inner) => {
                let (inner, reach) = self.add(inner, Some(id));
                (Operator::Within { limit: *limit, inner }, reach)
            }
            Plan::Otherwise(plans) => {
                let operands = self.operands(plans, id);
                // The first is what it waits for.
                let reach = operands.first().map_or(Reach::NONE, |(_, reach)| *reach);
                (self.in_order(operands, false), reach)
            }
            Plan::Any(plans) => self.nearest_first(plans, id, !write),
            Plan::All(_, plans) => self.nearest_first(plans, id, false),
            Plan::One(plans) => {
                let mut operands = self.operands(plans, id);
                // It waits for all of them, so for the farthest.
                let reach = operands.iter().map(|(_, reach)| *reach).max().unwrap_or(Reach::NONE);
                operands.sort_by_key(|(_, reach)| *reach);
                let operands = operands.into_iter().map(|(node, _)| node).collect();
                let operator = if write {
                    Operator::Place(Place { operands, probes: 0, exists: None, missing: false })
                } else {
                    Operator::Unique(Unique { operands, running: 0, found: None, missing: false })
                };
                (operator, reach)
            }
        }
    }

    fn operands(&mut self, plans: &[Plan], parent: NodeId) -> Vec<(NodeId, Reach)> {
        plans.iter().map(|plan| self.add(plan, Some(parent))).collect()
    }

    fn nearest_first(&mut self, plans: &[Plan], id: NodeId, hedged: bool) -> (Operator, Reach) {
        let mut operands = self.operands(plans, id);
        operands.sort_by_key(|(_, reach)| *reach);
        let reach = operands.first().map_or(Reach::NONE, |(_, reach)| *reach);
        (self.in_order(operands, hedged), reach)
    }

    fn in_order(&self, operands: Vec<(NodeId, Reach)>, hedged: bool) -> Operator {
        let operand = |(node, reach): (NodeId, Reach)| {
            let rtt = match reach.distance {
                Distance::Rtt(rtt) => rtt,
                Distance::Unknown => Duration::ZERO,
            };
            Operand { node, hedge_after: self.rules.hedge_after.saturating_add(rtt) }
        };
        Operator::InOrder(InOrder::new(operands.into_iter().map(operand).collect(), hedged))
    }
}

impl InOrder {
    fn new(operands: Vec<Operand>, hedged: bool) -> InOrder {
        InOrder { operands, begun: 0, running: 0, failure: None, hedged }
    }
}
