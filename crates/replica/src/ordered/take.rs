//! The turns of a resource are taken, one at a time: executed, decided about, finished.

use order::Needs;
use scope::Site;

use super::{Line, Ordered, Purpose, Ruling, Tried, Turn};
use crate::event::{Authority, Effect, Message, Outcome, Reply};
use crate::machine::Machine;
use crate::map::ReplicaMap;
use crate::operation::{Class, Level, LocalId, Meta, OpId, Operation};
use crate::record::{self, Condition, Running, Stage};
use crate::resource::{Execution, How};

impl Machine {
    /// Goes on with a resource as far as it can.
    pub(crate) fn take(&mut self, meta: &Meta) {
        self.touch_ordered(meta);
        while let Some(entry) = self.ordering.entries.get(meta) {
            let Some((_, turn)) = entry.first().filter(|_| entry.running.is_none() && entry.is_good()) else {
                break;
            };
            match (&turn.verdict, &turn.tried) {
                (Some(Ruling::Execute { .. }), Some(Tried::Done { .. })) => self.finish(meta, true),
                (Some(Ruling::Execute { .. }), _) => {
                    self.begin_turn(meta);
                    break;
                }
                // It has an effect here that nobody else will have.
                (Some(_), Some(Tried::Done { status, .. })) => {
                    let (op, status) = (turn.operation.id.clone(), *status);
                    self.diverge_ordered(meta, &op, status);
                    break;
                }
                (Some(_), _) => self.finish(meta, false),
                (None, _) => {
                    self.decide(meta);
                    break;
                }
            }
        }
        self.answer_writers(meta);
        self.serve_readers(meta);
        self.note_busy(meta);
    }

    /// The leader decides about the first turn: by what its service says.
    fn decide(&mut self, meta: &Meta) {
        let Some(entry) = self.ordering.entries.get(meta) else { return };
        let Some((index, turn)) = entry.first() else { return };
        let group = entry.group();
        if entry.proposed.is_some() || !self.ordering.orders.leads(&group) {
            return;
        }
        let verdict = verdict(&entry.map, turn).or_else(|| {
            // At `@strong` nobody executes it before everybody has it: then every replica knows that its
            // reads have to wait.
            let all = entry.map.level != Level::Strong || self.ordering.orders.given_to_all(&group) > index;
            (!all).then_some(Ruling::Withdraw)
        });
        let (op, tried) = (turn.operation.id.clone(), turn.tried.is_some());
        match verdict {
            None => self.begin_turn(meta),
            Some(_) if !tried && entry.waited <= self.settings.order.patience => {}
            Some(verdict) => self.propose_verdict(meta, &op, verdict),
        }
    }

    /// Asks for a place for what is decided about the first turn.
    fn propose_verdict(&mut self, meta: &Meta, op: &OpId, verdict: Ruling) {
        let Some(entry) = self.ordering.entries.get_mut(meta) else { return };
        entry.proposed = Some(op.clone());
        let group = entry.group();
        let bytes = record::encode(&Line::Ruling { resource: meta.clone(), op: op.clone(), verdict });
        let ticket = self.ordering.ticket(Purpose::Ruling(meta.clone(), op.clone()));
        self.order(order::Event::Propose { ticket, group, bytes, needs: Needs::Majority });
    }

    /// What a site that led executed, and could not decide about any more, it tells the leader: it may be the
    /// only good replica, and the leader's own not be good.
    pub(super) fn tell_tried(&mut self, meta: &Meta) {
        let Some(entry) = self.ordering.entries.get(meta) else { return };
        let Some((_, turn)) = entry.first().filter(|(_, turn)| turn.verdict.is_none()) else { return };
        let Some(verdict) = verdict(&entry.map, turn).filter(|v| matches!(v, Ruling::Execute { .. })) else {
            return;
        };
        let (resource, op) = (meta.clone(), turn.operation.id.clone());
        let leader = self.ordering.orders.leader(&entry.group());
        if let Some(leader) = leader.filter(|leader| *leader != self.here) {
            self.send(&leader, Message::Tried { resource, op, verdict });
        }
    }

    /// The leader decides so, unless it has begun to find out itself. Its own replica may not be so far: one that
    /// is not good waits for the state of the sender's, which is given to nobody before this is decided.
    pub(crate) fn received_tried(&mut self, from: &Site, meta: &Meta, op: &OpId, verdict: Ruling) {
        self.touch_ordered(meta);
        let Some(entry) = self.ordering.entries.get(meta) else { return };
        let leads = self.ordering.orders.leads(&entry.group()) && entry.map.members().contains(from);
        let mut turns = entry.queue.turns.values();
        let open =
            turns.any(|turn| turn.operation.id == *op && turn.verdict.is_none() && turn.tried.is_none());
        let begun = entry.running.as_ref().is_some_and(|running| running.execution.op == *op);
        if leads && open && !begun && entry.proposed.is_none() {
            self.propose_verdict(meta, op, verdict);
        }
    }

    /// Starts to execute the first turn.
    fn begin_turn(&mut self, meta: &Meta) {
        let Some(entry) = self.ordering.entries.get(meta) else { return };
        let Some((place, turn)) = entry.first() else { return };
        let execution = Execution { op: turn.operation.id.clone(), how: how(&turn.operation.class) };
        let doubted = self.may_have_made_before(entry, place, turn);
        if let Some(entry) = self.ordering.entries.get_mut(meta) {
            entry.running = Some(Running { execution, stage: Stage::Sent, doubted, attempts: 0 });
        }
        if doubted {
            return self.doubt_turn(meta);
        }
        self.execute_turn(meta);
    }

    /// Asks the service for what is running.
    pub(super) fn execute_turn(&mut self, meta: &Meta) {
        let Some(entry) = self.ordering.entries.get(meta) else { return };
        let Some((running, (_, turn))) = entry.running.as_ref().zip(entry.first()) else { return };
        let operation = turn.operation.clone();
        let (execution, local) = (running.execution.clone(), entry.map.local(&self.here));
        let authority = match (turn.verdict.is_none(), self.senders.remove(&operation.id)) {
            (false, _) => Authority::Site,
            (true, true) => Authority::Sender,
            (true, false) => Authority::Unproven,
        };
        self.call.effects.push(Effect::Execute { operation, execution, local, authority });
    }

    /// The service answered, or did not.
    pub(crate) fn executed_turn(&mut self, meta: &Meta, execution: &Execution, outcome: Outcome) {
        self.touch_ordered(meta);
        let Some(entry) = self.ordering.entries.get(meta) else { return };
        let Some((running, (_, turn))) = entry.running.as_ref().zip(entry.first()) else { return };
        if running.execution != *execution || running.stage != Stage::Sent {
            return;
        }
        let (op, doubted, verdict) = (execution.op.clone(), running.doubted, turn.verdict.clone());
        let (first, dropped) =
            (verdict.is_none(), matches!(verdict, Some(Ruling::Refuse { .. } | Ruling::Withdraw)));
        match outcome {
            Outcome::Done { status, local } => self.turn_done(meta, status, local),
            Outcome::Begun { .. } if dropped => self.erase_doubt(meta, &op),
            // What becomes of it is decided when it is over.
            Outcome::Begun { .. } => self.turn_begun(meta),
            // It is gone, as it should be; only the first execution says to a client that it never was.
            Outcome::Refused { status: status @ (404 | 410) }
                if execution.how == How::Delete && (doubted || !first) && !dropped =>
            {
                self.turn_done(meta, status, None);
            }
            Outcome::Refused { status } if (first || dropped) && !doubted => {
                self.tried(meta, Tried::Refused { status });
            }
            // The attempt before may have been executed, and nobody else will.
            Outcome::Refused { .. } | Outcome::NotExecuted | Outcome::Unknown if dropped && doubted => {
                self.erase_doubt(meta, &op);
            }
            // The attempt before may have been executed, and be the reason for the refusal.
            Outcome::Refused { .. } if first => self.ask_about_turn(meta),
            Outcome::Refused { status } => self.diverge_ordered(meta, &op, status),
            Outcome::NotExecuted if (first || dropped) && !doubted => self.tried(meta, Tried::NotExecuted),
            Outcome::NotExecuted => self.wait_turn(meta),
            Outcome::Unknown if dropped => {
                self.erase_doubt(meta, &op);
            }
            Outcome::Unknown => {
                self.give_up_waiting(&op);
                self.doubt_turn(meta);
            }
        }
        self.take(meta);
    }

    /// The service here took what is running, and it is not over: it is asked for again.
    fn turn_begun(&mut self, meta: &Meta) {
        let running = self.ordering.entries.get_mut(meta).and_then(|entry| entry.running.as_mut());
        if let Some(running) = running {
            running.doubted = true;
        }
        self.wait_turn(meta);
    }

    /// The service here executed what is running.
    pub(super) fn turn_done(&mut self, meta: &Meta, status: u16, local: Option<LocalId>) {
        let here = self.here.clone();
        let Some(entry) = self.ordering.entries.get_mut(meta) else { return };
        let creates = entry.first().is_some_and(|(_, turn)| turn.operation.class == Class::Create);
        if creates && !entry.map.chosen {
            // A resource without an id can be neither read nor written: somebody has to look.
            let Some(local) = local.clone() else { return self.ask_about_turn(meta) };
            entry.map.set_local(&here, local);
        }
        self.tried(meta, Tried::Done { status, local });
    }

    /// What is running came to an end.
    fn tried(&mut self, meta: &Meta, tried: Tried) {
        let Some(entry) = self.ordering.entries.get_mut(meta) else { return };
        entry.running = None;
        if let Some(mut turn) = entry.queue.turns.first_entry() {
            turn.get_mut().tried = Some(tried);
        }
    }

    /// The first turn is over here: executed, or to be executed by nobody.
    fn finish(&mut self, meta: &Meta, executed: bool) {
        let Some(entry) = self.ordering.entries.get_mut(meta) else { return };
        let Some((index, turn)) = entry.queue.turns.pop_first() else { return };
        entry.queue.done = index.saturating_add(1);
        (entry.waited, entry.handed_over, entry.proposed) = (0, (0, 0), None);
        if executed {
            match turn.operation.class {
                Class::Create | Class::Replace => entry.queue.exists = true,
                Class::Delete => entry.queue.exists = false,
                Class::Add | Class::Patch(_) | Class::Action { .. } => {}
            }
        }
        entry.queue.bodies.extend(turn.operation.body.map(|body| (index, body)));
        let (resource, op) = (meta.clone(), turn.operation.id.clone());
        self.call.effects.push(Effect::Finished { resource, op, place: index, executed });
        self.senders.remove(&turn.operation.id);
        self.tell_done(meta);
    }

    /// Tells the other sites how far the replica here is.
    pub(super) fn tell_done(&mut self, meta: &Meta) {
        let Some(entry) = self.ordering.entries.get(meta) else { return };
        self.ordering.unconfirmed.insert(meta.clone());
        let message = Message::Done { map: entry.map.clone(), done: entry.queue.done, asks: false };
        let others: Vec<_> =
            entry.map.members().into_iter().filter(|site| **site != self.here).cloned().collect();
        for site in others {
            self.send(&site, message.clone());
        }
    }

    /// Answers the clients whose writes have come far enough.
    pub(super) fn answer_writers(&mut self, meta: &Meta) {
        let here = &self.here;
        let Some(entry) = self.ordering.entries.get(meta) else { return };
        let mut replies = Vec::new();
        for (op, waiting) in self.ordering.waiting.iter().filter(|(_, waiting)| waiting.resource == *meta) {
            let (Some(index), Some(verdict)) = (waiting.index, &waiting.verdict) else { continue };
            let turn = entry.queue.turns.get(&index);
            let busy = entry.running.as_ref().is_some_and(|running| running.execution.op == *op);
            let ahead = matches!(turn.and_then(|turn| turn.tried.as_ref()), Some(Tried::Done { .. }));
            match verdict {
                Ruling::Execute { status, .. } => {
                    let members = entry.map.members();
                    let count = members.iter().filter(|site| finished(entry, here, site, index)).count();
                    let enough = match entry.map.level {
                        Level::Strong => count == members.len(),
                        _ => count > members.len() / 2,
                    };
                    if enough {
                        replies.push((op.clone(), Reply::Executed { status: *status }));
                    }
                }
                // It may have an effect here, until the state was copied anew.
                _ if busy => {}
                _ if ahead => replies.push((op.clone(), Reply::Unknown)),
                Ruling::Refuse { status } => replies.push((op.clone(), Reply::Refused { status: *status })),
                Ruling::Withdraw => replies.push((op.clone(), Reply::Unavailable)),
            }
        }
        for (op, reply) in replies {
            self.ordering.waiting.remove(&op);
            self.answer(&op, reply);
        }
    }

    /// The client is told that nobody knows; the write goes on.
    pub(super) fn give_up_waiting(&mut self, op: &OpId) {
        self.ordering.waiting.remove(op);
        self.answer(op, Reply::Unknown);
    }

    /// Keeps in mind whether time has something to do for a resource, and forgets one that is gone.
    pub(super) fn note_busy(&mut self, meta: &Meta) {
        let waits = self.ordering.waiting.values().any(|waiting| waiting.resource == *meta);
        let Some(entry) = self.ordering.entries.get(meta) else {
            self.ordering.busy.remove(meta);
            return;
        };
        let idle = entry.queue.turns.is_empty() && entry.queue.bodies.is_empty() && !entry.is_absent();
        if entry.is_gone(&self.here) && !waits {
            self.ordering.entries.remove(meta);
            self.ordering.busy.remove(meta);
        } else if idle && !waits {
            self.ordering.busy.remove(meta);
        } else {
            self.ordering.busy.insert(meta.clone());
        }
    }

    /// The service here has not what the others have.
    pub(super) fn diverge_ordered(&mut self, meta: &Meta, op: &OpId, status: u16) {
        let Some(entry) = self.ordering.entries.get_mut(meta) else { return };
        (entry.running, entry.condition) = (None, Condition::Diverged { status });
        entry.epoch = entry.epoch.saturating_add(1);
        self.call.effects.push(Effect::Diverged { resource: meta.clone(), op: op.clone(), status });
        self.copy_ordered(meta);
    }
}

/// What the service here says is to become of a write.
fn verdict(map: &ReplicaMap, turn: &Turn) -> Option<Ruling> {
    Some(match turn.tried.as_ref()? {
        Tried::Done { status, local } => {
            let names =
                turn.operation.class == Class::Create && !map.chosen && is_provisional(&turn.operation);
            Ruling::Execute { status: *status, named: local.clone().filter(|_| names) }
        }
        Tried::Refused { status } => Ruling::Refuse { status: *status },
        Tried::NotExecuted => Ruling::Withdraw,
    })
}

/// Whether a site has finished the write at this place.
fn finished(entry: &Ordered, here: &Site, site: &Site, index: u64) -> bool {
    let done = if site == here { Some(&entry.queue.done) } else { entry.peers.get(site) };
    done.is_some_and(|done| *done > index)
}

/// Whether the resource waits for its name.
fn is_provisional(operation: &Operation) -> bool {
    operation.resource.0.starts_with('~')
}

/// In one order each operation is executed as it is.
fn how(class: &Class) -> How {
    match class {
        Class::Create => How::Create,
        Class::Replace => How::Replace,
        Class::Delete => How::Delete,
        Class::Add => How::Add,
        Class::Patch(fields) => How::Patch(fields.clone()),
        Class::Action { .. } => How::Action,
    }
}
