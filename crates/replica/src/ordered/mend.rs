//! What is in doubt, and replicas that are given the state of another.

use scope::Site;

use super::{Copied, Ruling, Tried};
use crate::event::{Effect, Timer};
use crate::machine::Machine;
use crate::map::ReplicaMap;
use crate::operation::{Doubt, LocalId, Meta, OpId};
use crate::record::{Condition, Running, Stage};
use crate::resource::{Resource, Snapshot};

impl Machine {
    /// Takes up what was under way with an ordered resource.
    pub(crate) fn restart_ordered(&mut self, meta: &Meta) {
        self.touch_ordered(meta);
        let Some(entry) = self.ordering.entries.get_mut(meta) else { return };
        // The state of another replica takes the place of whatever was under way before the records were put back.
        let replaced = entry.condition == Condition::Suspect && !entry.may_be_made(&self.here);
        entry.running.take_if(|_| replaced);
        let stage = entry.running.as_ref().map(|running| running.stage);
        if entry.installing.is_some() {
            self.go_on_installing(meta);
        } else if entry.condition != Condition::Good {
            self.wake(Timer::Copy(meta.clone()), 1);
        }
        match stage {
            Some(Stage::Sent | Stage::Probing | Stage::InDoubt) => self.doubt_turn(meta),
            Some(Stage::Waiting) => self.wake(Timer::Retry(meta.clone()), 1),
            None => {}
        }
        self.take(meta);
    }

    /// Nobody knows whether what is running was executed: what its kind says is done about it.
    pub(super) fn doubt_turn(&mut self, meta: &Meta) {
        let Some(entry) = self.ordering.entries.get_mut(meta) else { return };
        let Some(operation) = entry.first().map(|(_, turn)| turn.operation.clone()) else { return };
        let local = entry.map.local(&self.here);
        let Some(running) = &mut entry.running else { return };
        running.doubted = true;
        let execution = running.execution.clone();
        // What was shown to the operator stays there: it may be shown because nothing else helped.
        if running.stage == Stage::InDoubt {
            return self.ask_about_turn(meta);
        }
        match operation.doubt {
            Doubt::Repeat => self.wait_turn(meta),
            Doubt::Probe => {
                running.stage = Stage::Probing;
                self.call.effects.push(Effect::Probe { operation, execution, local });
            }
            Doubt::Ask => self.ask_about_turn(meta),
        }
    }

    /// It was decided that all execute what is in doubt here: the state of one that did ends the doubt.
    pub(super) fn outdone(&mut self, meta: &Meta, op: &OpId) {
        let entry = self.ordering.entries.get(meta);
        let running = entry.and_then(|entry| entry.running.as_ref());
        if running.is_some_and(|running| running.execution.op == *op && running.stage == Stage::InDoubt) {
            self.erase_doubt(meta, op);
        }
    }

    pub(super) fn ask_about_turn(&mut self, meta: &Meta) {
        let entry = self.ordering.entries.get_mut(meta);
        let Some(running) = entry.and_then(|entry| entry.running.as_mut()) else { return };
        (running.stage, running.doubted) = (Stage::InDoubt, true);
        let op = running.execution.op.clone();
        self.call.effects.push(Effect::InDoubt { resource: meta.clone(), op: op.clone() });
        self.give_up_waiting(&op);
        self.hand_over(meta);
    }

    pub(super) fn wait_turn(&mut self, meta: &Meta) {
        let entry = self.ordering.entries.get_mut(meta);
        let Some(running) = entry.and_then(|entry| entry.running.as_mut()) else { return };
        running.stage = Stage::Waiting;
        running.attempts = running.attempts.saturating_add(1);
        let attempts = running.attempts;
        self.wake(Timer::Retry(meta.clone()), attempts);
    }

    /// A timer ran out: once more.
    pub(crate) fn retry_turn(&mut self, meta: &Meta) {
        self.touch_ordered(meta);
        let Some(entry) = self.ordering.entries.get_mut(meta) else { return };
        entry.running.take_if(|_| entry.condition == Condition::Suspect);
        let Some(running) = &mut entry.running else { return };
        if running.stage == Stage::Waiting {
            running.stage = Stage::Sent;
            self.execute_turn(meta);
        }
    }

    /// The operator has the service asked once more.
    pub(crate) fn probe_turn_again(&mut self, meta: &Meta, op: &OpId) {
        self.touch_ordered(meta);
        let Some(entry) = self.ordering.entries.get_mut(meta) else { return };
        let local = entry.map.local(&self.here);
        let Some(operation) = entry.first().map(|(_, turn)| turn.operation.clone()) else { return };
        let asked = |running: &&mut Running| running.stage == Stage::InDoubt && running.execution.op == *op;
        let Some(running) = entry.running.as_mut().filter(asked) else { return };
        let execution = running.execution.clone();
        running.stage = Stage::Probing;
        self.call.effects.push(Effect::Probe { operation, execution, local });
    }

    /// The probe or the operator says what became of it. What was not executed is executed now.
    pub(crate) fn learnt_turn(
        &mut self,
        meta: &Meta,
        op: &OpId,
        stage: Stage,
        executed: Option<bool>,
        local: Option<LocalId>,
    ) {
        self.touch_ordered(meta);
        let entry = self.ordering.entries.get_mut(meta);
        let Some(running) = entry.and_then(|entry| entry.running.as_mut()) else { return };
        if running.execution.op != *op || running.stage != stage {
            return;
        }
        match executed {
            Some(true) => self.turn_done(meta, 200, local),
            Some(false) => {
                (running.stage, running.doubted) = (Stage::Waiting, false);
                self.overruled(meta, op);
                self.retry_turn(meta);
            }
            None => self.ask_about_turn(meta),
        }
        self.take(meta);
    }

    /// It was decided that nobody executes what may be running here: then it does not run any more, or is shown to the operator.
    pub(super) fn overruled(&mut self, meta: &Meta, op: &OpId) {
        let Some(entry) = self.ordering.entries.get_mut(meta) else { return };
        let dropped = entry.first().is_some_and(|(_, turn)| {
            turn.operation.id == *op
                && turn.verdict.as_ref().is_some_and(|verdict| !matches!(verdict, Ruling::Execute { .. }))
        });
        let Some(running) = entry.running.as_ref().filter(|_| dropped) else { return };
        match running.stage {
            // What the service says next tells.
            Stage::Sent | Stage::Probing => {}
            Stage::Waiting if !running.doubted => entry.running = None,
            Stage::Waiting | Stage::InDoubt => self.erase_doubt(meta, op),
        }
    }

    /// Nobody else executes what may have an effect here: the state of the others erases that. Where only the
    /// operator can say what there is to erase, that is asked first.
    pub(super) fn erase_doubt(&mut self, meta: &Meta, op: &OpId) {
        let nameless = self.ordering.entries.get(meta).is_some_and(|entry| entry.is_nameless(&self.here));
        if nameless {
            self.ask_about_turn(meta);
        } else {
            self.diverge_ordered(meta, op, 0);
        }
    }

    /// Asks for the state of another replica: of one that can be reached, not always the same.
    pub(crate) fn copy_ordered(&mut self, meta: &Meta) {
        self.touch_ordered(meta);
        let Some(entry) = self.ordering.entries.get_mut(meta) else { return };
        // Before it is known what was ordered, it cannot be known which state is new enough.
        if self.ordering.orders.is_in_doubt(&entry.group()) {
            return;
        }
        if entry.condition == Condition::Suspect && entry.may_be_made(&self.here) {
            return self.copy_of_ordered_failed(meta);
        }
        if entry.is_good() || entry.fetching || (entry.installing.is_some() && !entry.stalled) {
            return;
        }
        let up = |site: &&Site| **site != self.here && self.links.get(*site).is_none_or(|link| !link.down);
        let reachable: Vec<_> = entry.map.members().into_iter().filter(up).collect();
        let turn = entry.copies.checked_rem(reachable.len()).unwrap_or(0);
        let from = reachable.get(turn).copied().cloned();
        entry.copies = entry.copies.wrapping_add(1);
        match from {
            Some(from) => {
                entry.fetching = true;
                self.call.effects.push(Effect::CopyState { resource: meta.clone(), from });
            }
            None => self.copy_of_ordered_failed(meta),
        }
    }

    /// It could not be fetched, or the service not be given it; once more, later.
    pub(crate) fn copy_of_ordered_failed(&mut self, meta: &Meta) {
        self.touch_ordered(meta);
        let Some(entry) = self.ordering.entries.get_mut(meta) else { return };
        (entry.fetching, entry.stalled) = (false, entry.installing.is_some());
        if !entry.is_good() {
            let attempts = u32::try_from(entry.copies).unwrap_or(u32::MAX);
            self.wake(Timer::Copy(meta.clone()), attempts);
        }
    }

    /// What another replica needs beside the state of this site's service.
    pub(crate) fn snapshot_ordered(&self, meta: &Meta) -> Option<(ReplicaMap, Snapshot)> {
        let entry = self.ordering.entries.get(meta)?;
        let quiet = entry.running.is_none() && entry.is_good() && !entry.is_ahead();
        let copied = Copied { done: entry.queue.done, exists: entry.queue.exists };
        let empty = Resource::new(entry.map.level).snapshot();
        quiet.then(|| (entry.map.clone(), Snapshot { ordered: Some(copied), ..empty }))
    }

    /// The state of another replica is here. From now on the service is between two states, until it has it.
    pub(crate) fn fetched_ordered(&mut self, map: &ReplicaMap, snapshot: &Snapshot) {
        let meta = map.meta.clone();
        self.touch_ordered(&meta);
        let Some(entry) = self.ordering.entries.get_mut(&meta).filter(|entry| entry.fetching) else { return };
        entry.map.merge(map);
        let stage = entry.running.as_ref().map(|running| running.stage);
        let making = self.makings.contains_key(&meta);
        let asked = entry.condition == Condition::Suspect && entry.may_be_made(&self.here);
        let busy = making || asked || matches!(stage, Some(Stage::Sent | Stage::Probing));
        let Some(copied) = snapshot.ordered.filter(|copied| !busy && copied.done >= entry.queue.done) else {
            return self.copy_of_ordered_failed(&meta);
        };
        // What was in doubt is erased with the state that it may have changed.
        (entry.fetching, entry.running, entry.installing) = (false, None, Some(copied));
        entry.stalled = false;
        self.install_ordered(&meta);
    }

    pub(crate) fn install_ordered(&mut self, meta: &Meta) {
        let local = self.ordering.entries.get(meta).and_then(|entry| entry.map.local(&self.here));
        self.call.effects.push(Effect::Install { resource: meta.clone(), local, made: false });
    }

    /// The service here has the state of another replica.
    pub(crate) fn installed_ordered(&mut self, meta: &Meta, local: Option<LocalId>) {
        self.touch_ordered(meta);
        let unmade = !self.makings.contains_key(meta);
        let Some(entry) = self.ordering.entries.get_mut(meta).filter(|_| unmade) else { return };
        let Some(copied) = entry.installing.take() else { return };
        if let Some(local) = local {
            entry.map.set_local(&self.here, local);
        }
        // It was fetched before it was known that the records here are old.
        if copied.done < entry.queue.done || self.ordering.orders.is_in_doubt(&entry.group()) {
            return self.wake(Timer::Copy(meta.clone()), 1);
        }
        (entry.condition, entry.copies) = (Condition::Good, 0);
        (entry.queue.done, entry.queue.exists) = (copied.done, copied.exists);
        // What the service here did with the others is not in the state that it has now.
        entry.queue.turns.values_mut().for_each(|turn| turn.tried = None);
        self.finish_before(meta, copied.done);
        self.tell_done(meta);
        self.take(meta);
    }

    /// The operator mended why the replica here has not what the others have.
    pub(crate) fn mended_ordered(&mut self, meta: &Meta) {
        self.touch_ordered(meta);
        let mute = self.ordering.entries.get(meta).is_some_and(|entry| self.is_mute(entry));
        if mute && !self.keeps_its_log(meta) {
            return;
        }
        if let Some(entry) = self.ordering.entries.get_mut(meta).filter(|entry| !entry.is_good()) {
            entry.condition = Condition::Good;
            if let Some(mut turn) = entry.queue.turns.first_entry() {
                turn.get_mut().tried.take_if(|tried| matches!(tried, Tried::Done { .. }));
            }
        }
        self.take(meta);
    }
}
