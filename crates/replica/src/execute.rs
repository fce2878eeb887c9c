//! Operations are executed by this site's service, one at a time for each resource, and what becomes of it.

use crate::accept::PROVISIONAL;
use crate::event::{Authority, Effect, Outcome, Reply, Timer};
use crate::machine::Machine;
use crate::operation::{Doubt, Level, LocalId, Meta, OpId};
use crate::record::{Condition, Running, Stage};
use crate::resource::{Execution, How, Step};

/// What a client is told of a write that lost to a concurrent one.
const BEATEN: u16 = 409;

impl Machine {
    /// Starts the next execution, unless one is under way or the replica is not good.
    pub(crate) fn drive(&mut self, meta: &Meta) {
        loop {
            let Some(gate) = self.entries.get(meta).map(|entry| self.gate(&entry)) else { return };
            let Some(entry) = self.entries.get_mut(meta) else { return };
            let busy = entry.running.is_some() || !entry.is_good();
            if busy || !entry.map.members().contains(&self.here) {
                return;
            }
            match entry.resource.step_with(|op| gate.lets(op)) {
                None => return,
                Some(Step::Execute(execution)) if !gate.lets(&execution.op) => return,
                Some(Step::Beaten(op)) => self.withdraw(meta, &op, Reply::Beaten),
                Some(Step::Execute(execution)) => {
                    let stage = Stage::Sent;
                    entry.comparing.reading = None;
                    entry.running = Some(Running { execution, stage, doubted: false, attempts: 0 });
                    return self.execute(meta);
                }
            }
        }
    }

    /// Asks the service for what is running.
    fn execute(&mut self, meta: &Meta) {
        let Some(entry) = self.entries.get(meta) else { return };
        let Some(running) = &entry.running else { return };
        let execution = running.execution.clone();
        let Some(operation) = entry.resource.ops.get(&execution.op).cloned() else { return };
        let first = entry.resource.is_fresh(&execution.op);
        let local = entry.map.local(&self.here);
        let authority = match (first, self.senders.remove(&execution.op)) {
            (false, _) => Authority::Site,
            (true, true) => Authority::Sender,
            (true, false) => Authority::Unproven,
        };
        self.call.effects.push(Effect::Execute { operation, execution, local, authority });
    }

    /// The service answered, or did not.
    pub(crate) fn executed(&mut self, meta: &Meta, execution: &Execution, outcome: Outcome) {
        self.touch(meta);
        let Some(entry) = self.entries.get(meta) else { return };
        let Some(running) = &entry.running else { return };
        if running.execution != *execution || running.stage != Stage::Sent {
            return;
        }
        let (op, doubted) = (execution.op.clone(), running.doubted);
        let (first, awaited) = (entry.resource.is_fresh(&op), self.asked.contains_key(&op));
        match outcome {
            Outcome::Done { status, local } => self.done(meta, status, local),
            Outcome::Begun { status } => self.begun(meta, status),
            // It is gone, as it should be; only the first execution says to a client that it never was.
            Outcome::Refused { status: status @ (404 | 410) }
                if execution.how == How::Delete && (doubted || !first) =>
            {
                self.done(meta, status, None);
            }
            // At `@weak` each site has its own order: what comes after the deletion here has no effect here.
            Outcome::Refused { status: 404 | 410 }
                if !first && entry.map.level == Level::Weak && !entry.resource.is_here() =>
            {
                self.pass_by(meta, &op);
            }
            Outcome::Refused { status } if first && !doubted => {
                self.withdraw(meta, &op, Reply::Refused { status });
            }
            // The attempt before may have been executed, and be the reason for the refusal.
            Outcome::Refused { .. } if first => self.ask_operator(meta),
            Outcome::Refused { status } => self.diverge(meta, &op, status),
            // Only who still waits can be told that nothing was executed: to anybody else it was acknowledged.
            Outcome::NotExecuted if first && !doubted && awaited => {
                self.withdraw(meta, &op, Reply::Unavailable);
            }
            Outcome::NotExecuted => self.wait(meta),
            Outcome::Unknown => {
                self.answer(&op, Reply::Unknown);
                self.doubt(meta);
            }
        }
    }

    /// What is running has no effect here, and is over.
    fn pass_by(&mut self, meta: &Meta, op: &OpId) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        entry.running = None;
        entry.resource.pass_by(op);
    }

    /// Nobody knows whether what is running was executed: what its kind says is done about it.
    pub(crate) fn doubt(&mut self, meta: &Meta) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        let Some(running) = &mut entry.running else { return };
        running.doubted = true;
        let execution = running.execution.clone();
        let Some(operation) = entry.resource.ops.get(&execution.op).cloned() else { return };
        // What was shown to the operator stays there: it may be shown because nothing else helped.
        if running.stage == Stage::InDoubt {
            return self.ask_operator(meta);
        }
        match operation.doubt {
            Doubt::Repeat => self.wait(meta),
            Doubt::Probe => {
                running.stage = Stage::Probing;
                let local = entry.map.local(&self.here);
                self.call.effects.push(Effect::Probe { operation, execution, local });
            }
            Doubt::Ask => self.ask_operator(meta),
        }
    }

    /// What is in doubt has an id in the service here by now: that can be asked. Without, the operator stays asked.
    pub(crate) fn probe(&mut self, meta: &Meta) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        let Some(local) = entry.map.local(&self.here) else { return };
        let Some(running) = &mut entry.running else { return };
        let execution = running.execution.clone();
        let Some(operation) = entry.resource.ops.get(&execution.op).cloned() else { return };
        running.stage = Stage::Probing;
        self.call.effects.push(Effect::Probe { operation, execution, local: Some(local) });
    }

    /// The operator has the service asked once more.
    pub(crate) fn probe_again(&mut self, meta: &Meta, op: &OpId) {
        self.touch(meta);
        let Some(entry) = self.entries.get_mut(meta) else { return };
        let local = entry.map.local(&self.here);
        let asked = |running: &&mut Running| running.stage == Stage::InDoubt && running.execution.op == *op;
        let Some(running) = entry.running.as_mut().filter(asked) else { return };
        let execution = running.execution.clone();
        let Some(operation) = entry.resource.ops.get(op).cloned() else { return };
        running.stage = Stage::Probing;
        self.call.effects.push(Effect::Probe { operation, execution, local });
    }

    /// The probe or the operator says what became of it. What was not executed is executed now.
    pub(crate) fn learnt_fate(
        &mut self,
        meta: &Meta,
        op: &OpId,
        stage: Stage,
        executed: Option<bool>,
        local: Option<LocalId>,
    ) {
        self.touch(meta);
        let Some(entry) = self.entries.get_mut(meta) else { return };
        let Some(running) = &entry.running else { return };
        if running.execution.op != *op || running.stage != stage {
            return;
        }
        match executed {
            Some(true) => self.done(meta, 200, local),
            // It is begun anew.
            Some(false) => (entry.running, entry.comparing.unmade) = (None, true),
            None => self.ask_operator(meta),
        }
    }

    /// A timer ran out: once more.
    pub(crate) fn retry(&mut self, meta: &Meta) {
        self.touch(meta);
        let Some(entry) = self.entries.get(meta) else { return };
        let Some(op) = entry.running.as_ref().map(|running| &running.execution.op) else { return };
        if entry.condition == Condition::Suspect || !self.gate(&entry).lets(op) {
            return self.wake(Timer::Retry(meta.clone()), 1);
        }
        let Some(running) = self.entries.get_mut(meta).and_then(|entry| entry.running.as_mut()) else {
            return;
        };
        if running.stage == Stage::Waiting {
            running.stage = Stage::Sent;
            self.execute(meta);
        }
    }

    /// It will never be executed, by any site.
    pub(crate) fn withdraw(&mut self, meta: &Meta, op: &OpId, reply: Reply) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        entry.running.take_if(|running| running.execution.op == *op);
        let withdrawn = entry.resource.ops.get(op).cloned();
        let body = withdrawn.as_ref().and_then(|op| op.body.clone());
        let after = entry.resource.withdraw(op);
        let changed = after.iter().filter_map(|id| entry.resource.ops.get(id).cloned());
        self.call.ops.extend(changed.map(|op| (op.id.clone(), Some(op))));
        self.call.ops.insert(op.clone(), None);
        // A resource whose creation was refused never was.
        if entry.resource.progress.known == crate::Version::default() {
            self.entries.remove(meta);
        }
        self.senders.remove(op);
        // What nobody waits for any more is shown instead.
        let status = match &reply {
            Reply::Refused { status } => Some(*status),
            Reply::Beaten => Some(BEATEN),
            _ => None,
        };
        let unheard = status.zip(withdrawn).filter(|_| !self.asked.contains_key(op));
        match unheard {
            Some((status, operation)) => self.keep_refusal(operation, status),
            None => self.answer(op, reply),
        }
        self.call.effects.extend(body.map(Effect::Erase));
    }

    /// What is running was executed.
    fn done(&mut self, meta: &Meta, status: u16, local: Option<LocalId>) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        let Some(running) = entry.running.take() else { return };
        let op = running.execution.op.clone();
        let creates = running.execution.how == How::Create && !entry.map.chosen;
        let unnamed = creates
            && meta.0.starts_with(PROVISIONAL)
            && entry.resource.is_fresh(&op)
            && entry.resource.ops.len() == 1;
        if creates && local.is_none() {
            // A resource without an id can be neither read nor written: somebody has to look.
            entry.running = Some(running);
            self.answer(&op, Reply::Unknown);
            return self.ask_operator(meta);
        }
        if let Some(local) = local.clone().filter(|_| creates) {
            entry.map.set_local(&self.here, local);
        }
        if entry.resource.executed(&running.execution) {
            self.answer(&op, Reply::Executed { status });
        }
        if let Some(LocalId(name)) = local.filter(|_| unnamed) {
            self.rename(meta, Meta(name));
        }
    }

    /// The service took what is running, and it is not over there yet. The client has its answer, and other sites may hear of it; here it is
    /// asked for again, until it is over.
    fn begun(&mut self, meta: &Meta, status: u16) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        let Some(running) = &mut entry.running else { return };
        running.doubted = true;
        let op = running.execution.op.clone();
        if entry.resource.decide(&op) {
            self.answer(&op, Reply::Executed { status });
        }
        self.wait(meta);
    }

    /// The first replica gave the resource its name.
    pub(crate) fn rename(&mut self, from: &Meta, to: Meta) {
        self.touch(&to);
        let Some(mut entry) = self.entries.remove(from) else { return };
        entry.map = entry.map.named(to.clone());
        for op in entry.resource.ops.values_mut() {
            op.resource = to.clone();
            self.call.ops.insert(op.id.clone(), Some(op.clone()));
        }
        self.entries.insert(to, entry);
    }

    fn wait(&mut self, meta: &Meta) {
        let Some(running) = self.entries.get_mut(meta).and_then(|entry| entry.running.as_mut()) else {
            return;
        };
        running.stage = Stage::Waiting;
        running.attempts = running.attempts.saturating_add(1);
        let attempts = running.attempts;
        self.wake(Timer::Retry(meta.clone()), attempts);
    }

    pub(crate) fn ask_operator(&mut self, meta: &Meta) {
        let Some(running) = self.entries.get_mut(meta).and_then(|entry| entry.running.as_mut()) else {
            return;
        };
        (running.stage, running.doubted) = (Stage::InDoubt, true);
        let op = running.execution.op.clone();
        self.call.effects.push(Effect::InDoubt { resource: meta.clone(), op });
    }

    /// The service here refuses what the first replica executed.
    fn diverge(&mut self, meta: &Meta, op: &OpId, status: u16) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        (entry.running, entry.condition) = (None, Condition::Diverged { status });
        self.call.effects.push(Effect::Diverged { resource: meta.clone(), op: op.clone(), status });
        self.copy(meta);
    }
}
