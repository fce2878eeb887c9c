//! What each operator does when it begins, when one of its operands ends, and when its time comes.

use std::collections::BTreeSet;

use crate::answer::{Answer, Won};
use crate::event::{Effect, Failure, Leg, Why};
use crate::leg::TimedOut;
use crate::run::{Outcome, Purpose, Run};
use crate::tree::{InOrder, NodeId, Operator, Place, State, Unique};
use crate::verdict::Presence;
use scope::Site;

impl Run<'_> {
    /// An operand of this node ended; returns how the node ends, if that settles it.
    pub(crate) fn operand_ended(
        &mut self,
        node: NodeId,
        operand: NodeId,
        outcome: Outcome,
        effects: &mut Vec<Effect>,
    ) -> Option<Outcome> {
        match self.tree[node].operator {
            Operator::InOrder(_) => self.in_order_ended(node, outcome, effects),
            Operator::Unique(_) => self.unique_ended(node, outcome, effects),
            Operator::Merge(_) => self.merge_ended(node, operand, outcome, effects),
            // The operand that a `^` chose for a write decides alone, and so does the one of `within`.
            Operator::Place(_)
            | Operator::Within { .. }
            | Operator::Site { .. }
            | Operator::Replicas { .. } => Some(outcome),
        }
    }

    /// Ends all that is below a node, but keeps some legs. Returns how many were sent in vain.
    pub(crate) fn abort_below(
        &mut self,
        node: NodeId,
        kept: &BTreeSet<Leg>,
        effects: &mut Vec<Effect>,
    ) -> usize {
        self.tree.close_below(node);
        self.cancel_under(&self.tree.under(node), kept, effects)
    }
}

/// `;`, `|`, and `&` on a read.
impl Run<'_> {
    fn in_order(&mut self, node: NodeId) -> Option<&mut InOrder> {
        match &mut self.tree[node].operator {
            Operator::InOrder(group) => Some(group),
            _ => None,
        }
    }

    /// Begins the next operand that does not fail at once. Returns what all of them amount to if none
    /// is left.
    pub(crate) fn begin_next(&mut self, node: NodeId, effects: &mut Vec<Effect>) -> Option<Failure> {
        loop {
            let group = self.in_order(node)?;
            let Some(operand) = group.operands.get(group.begun).copied() else {
                return match group.running {
                    0 => Some(group.failure.unwrap_or(Failure::Unavailable)),
                    _ => None,
                };
            };
            group.begun += 1;
            let failure = self.begin(operand.node, effects);
            let group = self.in_order(node)?;
            if let Some(failure) = failure {
                group.fails(failure);
                continue;
            }
            group.running += 1;
            let begun = group.begun;
            // What cannot be reached comes last, so if the next is not asked, none is.
            if group.hedged && group.operands.get(begun).is_some_and(|next| next.asked) {
                self.time(operand.late_after, Purpose::Hedge { node, begun }, effects);
            }
            return None;
        }
    }

    fn in_order_ended(
        &mut self,
        node: NodeId,
        outcome: Outcome,
        effects: &mut Vec<Effect>,
    ) -> Option<Outcome> {
        match outcome {
            Outcome::Won(_) => {
                self.wasted += self.abort_below(node, &outcome.legs(), effects);
                Some(outcome)
            }
            Outcome::Failed(failure) => {
                let group = self.in_order(node)?;
                group.running = group.running.saturating_sub(1);
                group.fails(failure);
                self.begin_next(node, effects).map(Outcome::Failed)
            }
            Outcome::Stopped(_) => Some(outcome),
        }
    }

    /// Whether the operand that was begun last, when so many were begun, is still the last.
    pub(crate) fn hedge_is_due(&self, node: NodeId, begun: usize) -> bool {
        let node = &self.tree[node];
        let waiting = matches!(&node.operator, Operator::InOrder(group) if group.begun == begun);
        waiting && node.state == State::Running
    }

    /// The operand begun last takes long.
    pub(crate) fn hedge(&mut self, node: NodeId, begun: usize, effects: &mut Vec<Effect>) {
        if !self.hedge_is_due(node, begun) {
            return;
        }
        if let Some(failure) = self.begin_next(node, effects) {
            self.settle(node, Outcome::Failed(failure), effects);
        }
    }
}

impl InOrder {
    fn fails(&mut self, failure: Failure) {
        self.failure = Some(self.failure.map_or(failure, |earlier| earlier.and(failure)));
    }
}

/// `^` on a read of one resource.
impl Run<'_> {
    fn unique(&mut self, node: NodeId) -> Option<&mut Unique> {
        match &mut self.tree[node].operator {
            Operator::Unique(group) => Some(group),
            _ => None,
        }
    }

    /// Begins every operand. Returns what they amount to if all fail at once.
    pub(crate) fn begin_every(&mut self, node: NodeId, effects: &mut Vec<Effect>) -> Option<Failure> {
        let operands = self.unique(node)?.operands.clone();
        let mut running = 0;
        for operand in operands {
            match self.begin(operand, effects) {
                None => running += 1,
                Some(failure) => self.unique(node)?.missing |= !failure.is_absence(),
            }
        }
        self.unique(node)?.running = running;
        (running == 0).then_some(Failure::Missing)
    }

    fn unique_ended(&mut self, node: NodeId, outcome: Outcome, effects: &mut Vec<Effect>) -> Option<Outcome> {
        match outcome {
            Outcome::Won(won) => {
                let Answer::Leg(leg) = won.answer else { return Some(Outcome::Won(won)) };
                // A refusal is the answer here as elsewhere: it does not say whether the resource is
                // there, and what other sites say does not change it.
                if self.status(leg).is_some_and(|status| status >= 400) {
                    self.abort_below(node, &BTreeSet::from([leg]), effects);
                    return Some(Outcome::Won(won));
                }
                let found = self.unique(node)?.found;
                match found {
                    None => self.unique(node)?.found = Some(leg),
                    Some(found) if self.same_site(found, leg) => self.drop_leg(leg, effects),
                    Some(_) => return Some(Outcome::Stopped(Failure::Conflict)),
                }
            }
            Outcome::Failed(failure) if failure.is_absence() => {}
            Outcome::Failed(_) => self.unique(node)?.missing = true,
            Outcome::Stopped(_) => return Some(outcome),
        }
        let group = self.unique(node)?;
        group.running = group.running.saturating_sub(1);
        match (group.running, group.missing, group.found) {
            // Also when one is missing: two that have it are a conflict, whatever the missing one has.
            (1.., _, _) => None,
            (0, true, _) => {
                self.abort_below(node, &BTreeSet::new(), effects);
                Some(Outcome::Failed(Failure::Missing))
            }
            (0, false, Some(leg)) => Some(Outcome::Won(Won::of(leg))),
            (0, false, None) => Some(Outcome::Failed(Failure::NotFound)),
        }
    }

    /// An answer that was kept until the others are there was cut off.
    pub(crate) fn lost(&mut self, leg: Leg) {
        let Some((operand, node)) = self.awaited_by(leg) else { return };
        if let Some(group) = self.unique(node).filter(|group| group.found == Some(leg)) {
            group.found = None;
            group.missing = true;
        }
        self.lost_to_merge(node, operand, leg);
    }

    /// The operand of the running node above a leg that was answered, and that node.
    fn awaited_by(&self, leg: Leg) -> Option<(NodeId, NodeId)> {
        let mut operand = self.legs.get(leg.0)?.node;
        loop {
            let node = self.tree[operand].parent?;
            if self.tree[node].state == State::Running {
                return Some((operand, node));
            }
            operand = node;
        }
    }

    fn same_site(&self, one: Leg, other: Leg) -> bool {
        let site = |leg: Leg| self.legs.get(leg.0).map(|record| &record.site);
        site(one) == site(other)
    }

    fn drop_leg(&mut self, leg: Leg, effects: &mut Vec<Effect>) {
        if let Some(record) = self.legs.get_mut(leg.0) {
            record.cancel(leg, Why::Cancelled, effects);
        }
    }
}

/// `^` on a write.
impl Run<'_> {
    fn place(&mut self, node: NodeId) -> Option<&mut Place> {
        match &mut self.tree[node].operator {
            Operator::Place(group) => Some(group),
            _ => None,
        }
    }

    /// Asks every site below, not every operand: in `(A ; B) ^ C` it may exist at B, and must then not
    /// be created at A.
    pub(crate) fn probe_every(&mut self, node: NodeId, effects: &mut Vec<Effect>) -> Option<Failure> {
        let mut probes = 0;
        let place = self.place(node)?;
        (place.exists, place.missing) = (None, false);
        for (site, reach) in self.tree.open_sites(&self.tree.under(node)) {
            match reach.refusal() {
                None => {
                    self.ask(node, &site, true, effects);
                    probes += 1;
                }
                Some(why) => {
                    self.skip(&site, why);
                    self.place(node)?.missing = true;
                }
            }
        }
        self.place(node)?.probes = probes;
        (probes == 0).then_some(Failure::Missing)
    }

    /// A site said whether it has the resource.
    pub(crate) fn probed(&mut self, leg: Leg, presence: Presence, effects: &mut Vec<Effect>) {
        let Some(record) = self.legs.get(leg.0) else { return };
        let (node, site) = (record.node, record.site.clone());
        let Some(place) = self.place(node) else { return };
        place.probes = place.probes.saturating_sub(1);
        match presence {
            Presence::Exists if place.exists.is_some() => {
                return self.settle(node, Outcome::Stopped(Failure::Conflict), effects);
            }
            Presence::Exists => place.exists = Some(site),
            Presence::Absent => {}
            Presence::Silent => place.missing = true,
        }
        if place.probes > 0 {
            return;
        }
        let failure = match (place.missing, place.exists.is_some()) {
            (true, _) => Some(Failure::Missing),
            (false, true) => self.put(node, effects),
            (false, false) => self.reserve_or_put(node, effects),
        };
        if let Some(failure) = failure {
            self.settle(node, Outcome::Failed(failure), effects);
        }
    }

    fn is_reserved(&self, site: &Site) -> bool {
        self.reserved.as_ref().is_some_and(|reserved| reserved.contains(site))
    }

    /// No site has it. Reserves the name where it is not reserved yet; then it is looked for again. All requests reserve
    /// in the order of the sites' names, so that of several that want one name one gets it.
    fn reserve_or_put(&mut self, node: NodeId, effects: &mut Vec<Effect>) -> Option<Failure> {
        let open = self.tree.open_sites(&self.tree.under(node));
        let mut sites: Vec<Site> =
            open.into_iter().map(|(site, _)| site).filter(|site| !self.is_reserved(site)).collect();
        if sites.is_empty() {
            return self.put(node, effects);
        }
        sites.sort_by(|one, other| other.cmp(one));
        self.place(node)?.unreserved = sites;
        self.reserve_next(node, effects)
    }

    fn reserve_next(&mut self, node: NodeId, effects: &mut Vec<Effect>) -> Option<Failure> {
        let group = self.place(node)?.unreserved.clone();
        match group.last().cloned() {
            Some(site) => self.reserve(node, site, group, effects),
            None => return self.probe_every(node, effects),
        }
        None
    }

    /// A site reserved the name, or another request has it there, or the site does not say.
    pub(crate) fn reserved_at(&mut self, leg: Leg, held: Option<bool>, effects: &mut Vec<Effect>) {
        let Some(record) = self.legs.get(leg.0) else { return };
        let (node, site) = (record.node, record.site.clone());
        let Some(place) = self.place(node) else { return };
        place.unreserved.retain(|unreserved| *unreserved != site);
        let outcome = match held {
            Some(true) => {
                self.reserved.get_or_insert_default().insert(site);
                self.reserve_next(node, effects).map(Outcome::Failed)
            }
            Some(false) => Some(Outcome::Stopped(Failure::Reserved)),
            None => Some(Outcome::Failed(Failure::Missing)),
        };
        if let Some(outcome) = outcome {
            self.settle(node, outcome, effects);
        }
    }

    /// Every site has answered: writes where it exists, or else at the nearest.
    fn put(&mut self, node: NodeId, effects: &mut Vec<Effect>) -> Option<Failure> {
        let place = self.place(node)?;
        let (operands, exists) = (place.operands.clone(), place.exists.clone());
        if let Some(site) = exists {
            self.tree.bar_all_but(&site, &self.tree.under(node));
        }
        let open = |operand: &NodeId| !self.tree.open_sites(&self.tree.under(*operand)).is_empty();
        match operands.into_iter().find(open) {
            Some(operand) => self.begin(operand, effects),
            None => Some(Failure::Missing),
        }
    }
}

/// `within`.
impl Run<'_> {
    /// Its time is up: what is inside has failed, unless a write in it may have been executed.
    pub(crate) fn within_expired(&mut self, node: NodeId, effects: &mut Vec<Effect>) {
        if self.tree[node].state != State::Running {
            return;
        }
        let below = self.tree.under(node);
        let mut outcome = Some(Outcome::Failed(Failure::TimedOut));
        for (number, record) in self.legs.iter_mut().enumerate() {
            if !below.contains(&record.node) {
                continue;
            }
            match record.time_out(Leg(number), effects) {
                TimedOut::Settled => {}
                TimedOut::Unknown => outcome = Some(Outcome::Stopped(Failure::Unknown)),
                TimedOut::Wait => {
                    // Its end is this node's business now: nothing inside goes on.
                    record.node = node;
                    outcome = None;
                }
            }
        }
        self.tree.close_below(node);
        if let Some(outcome) = outcome {
            self.settle(node, outcome, effects);
        }
    }
}
