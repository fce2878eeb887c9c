//! A client's write becomes an entry of the log, and entries of the log become turns.

use order::{Needs, Refusal};

use super::{Line, Ordered, Purpose, Ruling, Turn, Waiting, group};
use crate::event::{Effect, Reply, Subject, Ticket, Timer, Write};
use crate::machine::Machine;
use crate::map::{Naming, ReplicaMap};
use crate::operation::{Class, Level, LocalId, Meta, OpId, Operation};
use crate::record::{self, Stage};
use crate::version::Version;

impl Machine {
    /// Asks for a place in the order, or refuses the write with no effect anywhere.
    pub(crate) fn accept_ordered(&mut self, ticket: Ticket, write: Write) {
        let map = match self.ordered_map(&write) {
            Ok(map) => map,
            Err(reply) => return self.call.effects.push(Effect::Answer { ticket, op: None, reply }),
        };
        let id = self.next_op();
        self.counter = id.counter;
        self.call.site = true;
        let operation = Operation {
            id: id.clone(),
            resource: map.meta.clone(),
            class: write.class,
            doubt: write.doubt,
            // The log says what comes before what.
            seen: Version::default(),
            stamp: self.clock.tick(self.call.wall_ms),
            on_behalf_of: write.on_behalf_of,
            body: Some(write.body),
        };
        let needs = if map.level == Level::Strong { Needs::All } else { Needs::Majority };
        let (group, purpose) = (group(&map), Purpose::Write(Box::new(operation.clone())));
        let (resource, long) = (map.meta.clone(), write.long.then(|| (group.clone(), needs)));
        let waiting = Waiting { resource, index: None, verdict: None, ticks: 0, long };
        self.ordering.waiting.insert(id.clone(), waiting);
        self.asked.insert(id.clone(), ticket);
        self.senders.insert(id);
        let bytes = record::encode(&Line::Write { map, operation });
        let ticket = self.ordering.ticket(purpose);
        self.order(order::Event::Propose { ticket, group, bytes, needs });
    }

    /// Where the replicas of what is written are, or will be.
    fn ordered_map(&mut self, write: &Write) -> Result<ReplicaMap, Reply> {
        let named = match &write.subject {
            Subject::Existing(meta) | Subject::New { naming: Naming::Chosen(meta), .. } => Some(meta),
            Subject::New { naming: Naming::FirstReplica | Naming::Allocated(_), .. } => None,
        };
        if let Some(meta) = named.filter(|meta| self.ordering.entries.contains_key(meta)) {
            return self.taking_map(meta).ok_or(Reply::NotGood);
        }
        let Subject::New { naming, level, sites } = &write.subject else { return Err(Reply::NoResource) };
        if write.class != Class::Create || !sites.contains(&self.here) {
            return Err(Reply::Senseless);
        }
        if sites.len() < 2 {
            return Err(Reply::NoOrder);
        }
        let (meta, chosen) = match naming {
            Naming::Chosen(meta) => (meta.clone(), true),
            // It was never given before. What has this name all the same is something else.
            Naming::Allocated(meta) if self.map(meta).is_some() => return Err(Reply::Unavailable),
            Naming::Allocated(meta) => (meta.clone(), false),
            Naming::FirstReplica => (self.provisional(), false),
        };
        let stamp = self.clock.tick(self.call.wall_ms);
        Ok(ReplicaMap::new(meta, *level, chosen, sites, stamp, &self.here))
    }

    /// The map of a resource whose writes are taken here, or by another once that leads: a leader that waits for an operator has
    /// another lead.
    fn taking_map(&mut self, meta: &Meta) -> Option<ReplicaMap> {
        if self.ordering.entries.get(meta)?.is_asking() {
            self.hand_over(meta);
        }
        let entry = self.ordering.entries.get(meta)?;
        let alone = entry.is_asking() && self.ordering.orders.leads(&entry.group());
        (entry.is_good() && !alone).then(|| entry.map.clone())
    }

    /// The log has no place for what was asked of it, and never will.
    pub(super) fn not_ordered(&mut self, purpose: Purpose, why: Refusal) {
        match purpose {
            Purpose::Write(operation) => {
                let reply = match why {
                    Refusal::Elsewhere(site) => Reply::Elsewhere(site),
                    Refusal::Missing(site) => Reply::Missing(site),
                    Refusal::NoMajority => Reply::NoMajority,
                    Refusal::NotInGroup => Reply::NoOrder,
                    Refusal::InDoubt => Reply::NotGood,
                    Refusal::Overtaken | Refusal::Full => Reply::Unavailable,
                };
                self.ordering.waiting.remove(&operation.id);
                self.senders.remove(&operation.id);
                self.answer(&operation.id, reply);
                self.call.effects.extend(operation.body.map(Effect::Erase));
            }
            Purpose::Ruling(meta, op) => {
                if let Some(entry) = self.ordering.entries.get_mut(&meta) {
                    entry.proposed.take_if(|proposed| *proposed == op);
                }
            }
            Purpose::Read(ticket) if why == Refusal::InDoubt => self.read_refused(ticket, Reply::NotGood),
            Purpose::Read(ticket) => self.read_refused(ticket, Reply::NoMajority),
        }
    }

    /// The next entry of a log.
    pub(super) fn ordered_line(&mut self, index: u64, bytes: &[u8]) {
        // What is not of this format was written by another version: every site skips it.
        match record::decode(bytes) {
            Ok(Line::Write { map, operation }) => self.queued(index, map, operation),
            Ok(Line::Ruling { resource, op, verdict }) => self.decided(&resource, &op, verdict),
            Err(_) => {}
        }
    }

    /// A write has its place.
    fn queued(&mut self, index: u64, map: ReplicaMap, operation: Operation) {
        let (meta, id) = (operation.resource.clone(), operation.id.clone());
        self.touch_ordered(&meta);
        self.call.site = true;
        if let Some(skew) = self.clock.see(self.call.wall_ms, operation.stamp) {
            self.call.effects.push(Effect::Skewed { site: id.site.clone(), ahead_ms: skew.ahead_ms });
        }
        if id.site == self.here {
            self.counter = self.counter.max(id.counter);
        }
        if let Some(waiting) = self.ordering.waiting.get_mut(&id) {
            waiting.index = Some(index);
        }
        if !self.is_ordered(&meta) {
            self.ordering.entries.insert(meta.clone(), Ordered::new(map));
            self.is_new_to_old_records(&meta, index);
        }
        let Some(entry) = self.ordering.entries.get_mut(&meta) else { return };
        // A state that was copied may have it already.
        if index >= entry.queue.done {
            entry.queue.turns.insert(index, Turn { operation, verdict: None, tried: None });
        }
        self.take(&meta);
    }

    /// It is decided what becomes of a write.
    fn decided(&mut self, meta: &Meta, op: &OpId, verdict: Ruling) {
        self.touch_ordered(meta);
        if let Some(waiting) = self.ordering.waiting.get_mut(op).filter(|waiting| waiting.verdict.is_none()) {
            waiting.verdict = Some(verdict.clone());
        }
        let Some(entry) = self.ordering.entries.get_mut(meta) else { return };
        entry.proposed.take_if(|proposed| proposed == op);
        let mut turns = entry.queue.turns.values_mut();
        let turn = turns.find(|turn| turn.operation.id == *op && turn.verdict.is_none());
        let Some(turn) = turn else { return self.take(meta) };
        turn.verdict = Some(verdict.clone());
        let meta = match verdict {
            Ruling::Execute { named, .. } => {
                let meta = match named {
                    Some(LocalId(name)) => self.rename_ordered(meta, Meta(name)),
                    None => meta.clone(),
                };
                self.outdone(&meta, op);
                meta
            }
            Ruling::Refuse { .. } | Ruling::Withdraw => {
                self.overruled(meta, op);
                meta.clone()
            }
        };
        self.take(&meta);
    }

    /// The first replica gave the resource its name.
    pub(super) fn rename_ordered(&mut self, from: &Meta, to: Meta) -> Meta {
        self.touch_ordered(&to);
        let Some(mut entry) = self.ordering.entries.remove(from) else { return to };
        entry.map = entry.map.named(to.clone());
        // Who was asked by a name that it did not know any more could not say by which id it has its own.
        entry.peers.clear();
        for turn in entry.queue.turns.values_mut() {
            turn.operation.resource = to.clone();
        }
        for waiting in self.ordering.waiting.values_mut().filter(|waiting| waiting.resource == *from) {
            waiting.resource = to.clone();
        }
        let retries = entry.running.as_ref().filter(|running| running.stage == Stage::Waiting);
        if let Some(attempts) = retries.map(|running| running.attempts) {
            self.wake(Timer::Retry(to.clone()), attempts);
        }
        self.ordering.busy.remove(from);
        self.ordering.entries.insert(to.clone(), entry);
        to
    }
}
