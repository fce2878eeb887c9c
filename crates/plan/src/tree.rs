//! A plan as nodes, each with the state of its operator, and operands in the order in which they are
//! asked.
//!
//! A node comes before its operands and these are next to each other, so all that is below a node is
//! one range.

use std::ops::{Index, IndexMut, Range};
use std::time::Duration;

use scope::{Level, Site};

use crate::build::Near;
use crate::event::{Failure, Leg};
use crate::merge::Merge;
use crate::request::Reach;

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
        near: Near,
    },
    /// `&` on a write.
    Replicas {
        /// Nearest first.
        sites: Vec<Site>,
        level: Level,
        /// Of the nearest.
        near: Near,
    },
    Within {
        limit: Duration,
        inner: NodeId,
    },
    InOrder(InOrder),
    Unique(Unique),
    Place(Place),
    Merge(Merge),
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

/// An operand of a group that takes them in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) node: NodeId,
    /// At least one of its sites is asked: it does not fail at once.
    pub(crate) asked: bool,
    /// How long it may take before the next is begun too.
    pub(crate) late_after: Duration,
}

/// `^` on a read of one resource.
#[derive(Debug)]
pub(crate) struct Unique {
    pub(crate) operands: Vec<NodeId>,
    pub(crate) running: usize,
    pub(crate) found: Option<Leg>,
    pub(crate) missing: bool,
}

/// `^` on a write: where it belongs is found out first. What is nowhere is reserved at every site, and looked for once
/// more: another request may have made it meanwhile.
#[derive(Debug)]
pub(crate) struct Place {
    /// Nearest first.
    pub(crate) operands: Vec<NodeId>,
    pub(crate) probes: usize,
    pub(crate) exists: Option<Site>,
    pub(crate) missing: bool,
    /// Where the name is still to be reserved, in one order for every request: the last is the next.
    pub(crate) unreserved: Vec<Site>,
}

#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    pub(crate) const ROOT: NodeId = NodeId(0);

    /// Adds a node, which does nothing until its place is filled: its operands come after it.
    pub(crate) fn reserve(&mut self, parent: Option<NodeId>) -> NodeId {
        let operator = Operator::InOrder(InOrder::new(Vec::new(), false));
        self.nodes.push(Node { parent, end: 0, state: State::Waiting, operator });
        NodeId(self.nodes.len() - 1)
    }

    /// Fills the place of a node whose operands are all there.
    pub(crate) fn fill(&mut self, node: NodeId, operator: Operator) {
        let end = self.nodes.len();
        let node = &mut self[node];
        node.end = end;
        node.operator = operator;
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

    /// The sites in a range that are not barred, each once, in order.
    pub(crate) fn open_sites(&self, range: &Range<NodeId>) -> Vec<(Site, Reach)> {
        let mut seen = std::collections::BTreeSet::new();
        let nodes = self.nodes.get(range.start.0..range.end.0).into_iter().flatten();
        let sites = nodes.filter_map(|node| match &node.operator {
            Operator::Site { site, barred: false, near } => Some((site, near.reach)),
            _ => None,
        });
        sites.filter(|(site, _)| seen.insert(*site)).map(|(site, reach)| (site.clone(), reach)).collect()
    }

    /// Leaves only this site open in a range.
    pub(crate) fn bar_all_but(&mut self, kept: &Site, range: &Range<NodeId>) {
        for node in self.nodes.get_mut(range.start.0..range.end.0).into_iter().flatten() {
            if let Operator::Site { site, barred, .. } = &mut node.operator {
                *barred |= site != kept;
            }
        }
    }

    /// Whether there is one site only, or one set of replicas, so that there is nothing to decide between answers.
    pub(crate) fn has_one_site(&self) -> bool {
        let groups = self.nodes.iter().filter(|node| matches!(node.operator, Operator::Replicas { .. }));
        self.open_sites(&self.under(Tree::ROOT)).len() + groups.count() == 1
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

impl InOrder {
    pub(crate) fn new(operands: Vec<Operand>, hedged: bool) -> InOrder {
        InOrder { operands, begun: 0, running: 0, failure: None, hedged }
    }
}
