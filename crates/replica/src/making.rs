//! A copy that the service here has to make, and to name itself. That is a creation: it is recorded before the service
//! is asked, has a name of its own, and without an outcome it is not made again by guess.

use serde::{Deserialize, Serialize};

use crate::event::{Effect, Event, Outcome, Timer};
use crate::machine::Machine;
use crate::operation::{Doubt, LocalId, Meta, OpId};
use crate::record::Stage;

/// The attempt at making a copy that a resource is busy with. There is one at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Making {
    /// Its name, for the service and for the operator. No operation has it.
    pub op: OpId,
    /// What to do where it is in doubt.
    pub doubt: Doubt,
    /// How far it is.
    pub stage: Stage,
    /// An earlier attempt of this name may have made it.
    pub doubted: bool,
    /// Attempts so far.
    pub attempts: u32,
    /// Since when, in milliseconds of the wall clock.
    pub since_ms: u64,
}

impl Machine {
    /// What is being made here of a resource whose state is copied.
    #[must_use]
    pub fn making(&self, meta: &Meta) -> Option<&Making> {
        self.makings.get(meta)
    }

    /// All of these.
    pub fn makings(&self) -> impl Iterator<Item = (&Meta, &Making)> {
        self.makings.iter()
    }

    /// Takes what is about such a copy. The rest is given back.
    pub(crate) fn on_making(&mut self, event: Event) -> Option<Event> {
        let is_of = |meta: &Meta, op: &OpId| self.makings.get(meta).is_some_and(|making| making.op == *op);
        match event {
            Event::ToMake { resource, local, doubt } => self.begin_making(&resource, local.as_ref(), doubt),
            Event::Made { resource, op, outcome } if is_of(&resource, &op) => self.made(&resource, outcome),
            Event::Made { .. } => {}
            Event::Settle { resource, op, executed, local } if is_of(&resource, &op) => {
                self.settle_making(&resource, Stage::InDoubt, Some(executed), local);
            }
            Event::Probed { resource, op, executed, local } if is_of(&resource, &op) => {
                self.settle_making(&resource, Stage::Probing, executed, local);
            }
            Event::Probe { resource, op } if is_of(&resource, &op) => {
                let asked = |making: &Making| making.stage == Stage::InDoubt;
                if self.makings.get(&resource).is_some_and(asked) {
                    self.touch_either(&resource);
                    self.probe_making(&resource);
                }
            }
            Event::Fired(Timer::Copy(meta)) if self.makings.contains_key(&meta) => self.make_again(&meta),
            event => return Some(event),
        }
        None
    }

    /// The service is to be asked once this is recorded.
    fn begin_making(&mut self, meta: &Meta, local: Option<&LocalId>, doubt: Doubt) {
        self.touch_either(meta);
        if !self.is_installing(meta) || self.makings.contains_key(meta) {
            return;
        }
        if !self.is_to_be_here(meta) {
            return self.copy_of_either_failed(meta);
        }
        // It was made meanwhile, or is known to have been: that one is to have the state.
        if self.map(meta).and_then(|map| map.local(&self.here)).as_ref() != local {
            return self.install_either(meta);
        }
        let op = self.next_op();
        self.counter = op.counter;
        self.call.site = true;
        let since_ms = self.call.wall_ms;
        let (stage, doubted, attempts) = (Stage::Sent, false, 0);
        let making = Making { op: op.clone(), doubt, stage, doubted, attempts, since_ms };
        self.set_making(meta, Some(making));
        self.call.effects.push(Effect::Make { resource: meta.clone(), op });
    }

    /// The service answered, or did not.
    fn made(&mut self, meta: &Meta, outcome: Outcome) {
        self.touch_either(meta);
        let Some(making) = self.makings.get(meta).filter(|making| making.stage == Stage::Sent) else {
            return;
        };
        match outcome {
            Outcome::Done { local: Some(local), .. } => self.has_made(meta, local),
            // Somebody has to look which one it is.
            Outcome::Done { local: None, .. } => self.ask_about_making(meta),
            Outcome::Unknown | Outcome::Begun { .. } => self.doubt_making(meta),
            Outcome::NotExecuted if making.doubted => self.wait_making(meta),
            // The attempt before may have made it, and be the reason for the refusal.
            Outcome::Refused { .. } if making.doubted => self.ask_about_making(meta),
            Outcome::NotExecuted | Outcome::Refused { .. } => {
                self.set_making(meta, None);
                self.copy_of_either_failed(meta);
            }
        }
    }

    /// The service has it, under this id; what is below it may be missing.
    fn has_made(&mut self, meta: &Meta, local: LocalId) {
        self.set_making(meta, None);
        if let Some(entry) = self.entries.get_mut(meta) {
            entry.map.set_local(&self.here, local.clone());
        }
        if let Some(entry) = self.ordering.entries.get_mut(meta) {
            entry.map.set_local(&self.here, local.clone());
        }
        if self.is_to_be_here(meta) {
            let (resource, local) = (meta.clone(), Some(local));
            self.call.effects.push(Effect::Install { resource, local, made: true });
        }
    }

    /// The probe or the operator says what became of it. What was not made is made now, as another attempt.
    fn settle_making(&mut self, meta: &Meta, stage: Stage, executed: Option<bool>, local: Option<LocalId>) {
        self.touch_either(meta);
        if self.makings.get(meta).is_none_or(|making| making.stage != stage) {
            return;
        }
        match (executed, local) {
            (Some(true), Some(local)) => self.has_made(meta, local),
            (Some(true) | None, _) => self.ask_about_making(meta),
            (Some(false), _) => {
                self.set_making(meta, None);
                if self.is_to_be_here(meta) {
                    self.install_either(meta);
                }
            }
        }
    }

    /// Takes up a copy on its way into the service.
    pub(crate) fn go_on_installing(&mut self, meta: &Meta) {
        match self.makings.get(meta).map(|making| making.stage) {
            None => self.install_either(meta),
            Some(Stage::Sent | Stage::Probing) => self.doubt_making(meta),
            Some(Stage::Waiting) => self.wake(Timer::Copy(meta.clone()), 1),
            Some(Stage::InDoubt) => self.ask_about_making(meta),
        }
    }

    /// Nobody knows whether it was made: what its kind says is done about it.
    fn doubt_making(&mut self, meta: &Meta) {
        match self.makings.get(meta).map(|making| making.doubt) {
            Some(Doubt::Repeat) => self.wait_making(meta),
            Some(Doubt::Probe) => self.probe_making(meta),
            Some(Doubt::Ask) => self.ask_about_making(meta),
            None => {}
        }
    }

    /// Asks the service whether it made it.
    fn probe_making(&mut self, meta: &Meta) {
        let Some(mut making) = self.makings.get(meta).cloned() else { return };
        (making.stage, making.doubted) = (Stage::Probing, true);
        let op = making.op.clone();
        self.set_making(meta, Some(making));
        self.call.effects.push(Effect::ProbeMade { resource: meta.clone(), op });
    }

    fn wait_making(&mut self, meta: &Meta) {
        let Some(mut making) = self.makings.get(meta).cloned() else { return };
        (making.stage, making.doubted) = (Stage::Waiting, true);
        making.attempts = making.attempts.saturating_add(1);
        let attempts = making.attempts;
        self.set_making(meta, Some(making));
        self.wake(Timer::Copy(meta.clone()), attempts);
    }

    fn ask_about_making(&mut self, meta: &Meta) {
        let Some(mut making) = self.makings.get(meta).cloned() else { return };
        (making.stage, making.doubted) = (Stage::InDoubt, true);
        let op = making.op.clone();
        self.set_making(meta, Some(making));
        self.call.effects.push(Effect::InDoubt { resource: meta.clone(), op });
    }

    /// A timer ran out: once more, by the same name.
    fn make_again(&mut self, meta: &Meta) {
        let waits = |making: &&Making| making.stage == Stage::Waiting;
        let Some(mut making) = self.makings.get(meta).filter(waits).cloned() else { return };
        making.stage = Stage::Sent;
        let op = making.op.clone();
        self.set_making(meta, Some(making));
        self.call.effects.push(Effect::Make { resource: meta.clone(), op });
    }

    fn set_making(&mut self, meta: &Meta, making: Option<Making>) {
        self.call.makings.insert(meta.clone(), making.clone());
        match making {
            Some(making) => drop(self.makings.insert(meta.clone(), making)),
            None => drop(self.makings.remove(meta)),
        }
    }

    fn touch_either(&mut self, meta: &Meta) {
        if self.is_ordered(meta) { self.touch_ordered(meta) } else { self.touch(meta) }
    }

    fn install_either(&mut self, meta: &Meta) {
        if self.is_ordered(meta) { self.install_ordered(meta) } else { self.install(meta) }
    }

    fn copy_of_either_failed(&mut self, meta: &Meta) {
        if self.is_ordered(meta) { self.copy_of_ordered_failed(meta) } else { self.copy_failed(meta) }
    }

    fn is_installing(&self, meta: &Meta) -> bool {
        self.entries.get(meta).is_some_and(|entry| entry.installing.is_some())
            || self.ordering.entries.get(meta).is_some_and(|entry| entry.installing.is_some())
    }

    fn is_to_be_here(&self, meta: &Meta) -> bool {
        self.map(meta).is_some_and(|map| map.members().contains(&self.here))
    }
}
