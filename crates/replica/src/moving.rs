//! Replicas come, go, and are given the state of another.

use std::collections::BTreeSet;

use scope::Site;

use crate::event::{Effect, Reply, Ticket, Timer};
use crate::machine::Machine;
use crate::map::{Change, ReplicaMap, Unchangeable};
use crate::operation::{LocalId, Meta};
use crate::record::{Condition, Stage};
use crate::resource::{How, Snapshot, Step};
use crate::version::Version;

impl Machine {
    /// The operator changes where replicas are.
    pub(crate) fn change(&mut self, ticket: Ticket, meta: &Meta, change: &Change) {
        self.touch(meta);
        let ordered = self.is_ordered(meta);
        let reply = match self.entries.get_mut(meta) {
            None if ordered => Reply::Unchanged(Unchangeable::Ordered),
            None => Reply::NoResource,
            Some(entry) => {
                self.call.site = true;
                let stamp = self.clock.tick(self.call.wall_ms);
                let here = &self.here;
                let changed = entry.change_map(here, |map| map.change(change, stamp, here));
                changed.map_or_else(Reply::Unchanged, |()| Reply::Changed)
            }
        };
        self.call.effects.push(Effect::Answer { ticket, op: None, reply });
    }

    /// Another site has more than it sends as operations.
    pub(crate) fn behind(&mut self, from: &Site, meta: &Meta, known: &Version) {
        self.call.asking.insert((meta.clone(), from.clone()));
        if self.may_have_made(meta) {
            return self.suspect_one(meta);
        }
        let Some(entry) = self.entries.get(meta) else { return };
        if !entry.resource.progress.known.dominates(known) {
            self.take_state(from, meta);
        }
    }

    /// Asks a site for its state, unless another is under way.
    pub(crate) fn take_state(&mut self, from: &Site, meta: &Meta) {
        let met = self.trust.is_met(from);
        let Some(entry) = self.entries.get_mut(meta).filter(|_| met) else { return };
        if !entry.fetching && entry.installing.is_none() {
            entry.fetching = true;
            self.call.effects.push(Effect::CopyState { resource: meta.clone(), from: from.clone() });
        }
    }

    /// Asks for the state of another replica: of one that can be reached, not always the same.
    pub(crate) fn copy(&mut self, meta: &Meta) {
        self.touch(meta);
        let Some(entry) = self.entries.get_mut(meta) else { return };
        let installs = entry.installing.is_some() && !entry.stalled;
        if entry.is_good() || entry.fetching || installs || self.makings.contains_key(meta) {
            return;
        }
        if entry.condition == Condition::Suspect {
            return self.vet(meta);
        }
        let good = &entry.comparing.good;
        let up = |site: &&Site| {
            let chosen = good.is_empty() || good.contains(*site);
            let up = self.links.get(*site).is_none_or(|link| !link.down);
            **site != self.here && chosen && up && self.trust.is_met(site)
        };
        let reachable: Vec<_> = entry.map.members().into_iter().filter(up).collect();
        let turn = entry.copies.checked_rem(reachable.len()).unwrap_or(0);
        let from = reachable.get(turn).copied().cloned();
        entry.copies = entry.copies.wrapping_add(1);
        match from {
            Some(from) => {
                (entry.fetching, entry.comparing.anew) = (true, false);
                self.call.effects.push(Effect::CopyState { resource: meta.clone(), from });
            }
            None => self.copy_failed(meta),
        }
    }

    /// It did not work; once more, later. One that is only behind is told so again.
    pub(crate) fn copy_failed(&mut self, meta: &Meta) {
        self.touch(meta);
        let Some(entry) = self.entries.get_mut(meta) else { return };
        (entry.fetching, entry.stalled) = (false, entry.installing.is_some());
        if !entry.is_good() {
            let attempts = u32::try_from(entry.copies).unwrap_or(u32::MAX);
            self.wake(Timer::Copy(meta.clone()), attempts);
        }
    }

    /// The state of another replica is here. From now on the service is between two states, until it has it.
    pub(crate) fn fetched(&mut self, map: &ReplicaMap, snapshot: Snapshot) {
        let meta = map.meta.clone();
        self.touch(&meta);
        let Some(entry) = self.entries.get_mut(&meta).filter(|entry| entry.fetching) else { return };
        entry.change_map(&self.here, |ours| ours.merge(map));
        if entry.comparing.anew {
            entry.fetching = false;
            return self.copy(&meta);
        }
        let stage = entry.running.as_ref().map(|running| running.stage);
        let busy = matches!(stage, Some(Stage::Sent | Stage::Probing))
            || self.makings.contains_key(&meta)
            || entry.may_have_made_it(&self.here);
        // What is not good is lost anyway.
        let loses = entry.condition == Condition::Good && entry.resource.would_lose(&snapshot);
        if busy || loses || !entry.resource.can_copy(&self.here, &snapshot) {
            return self.copy_failed(&meta);
        }
        // What was in doubt is erased with the state that it may have changed.
        (entry.fetching, entry.running, entry.installing) = (false, None, Some(Box::new(snapshot)));
        entry.stalled = false;
        self.install(&meta);
    }

    pub(crate) fn install(&mut self, meta: &Meta) {
        let local = self.entries.get(meta).and_then(|entry| entry.map.local(&self.here));
        self.call.effects.push(Effect::Install { resource: meta.clone(), local, made: false });
    }

    /// The service here has the state of another replica.
    pub(crate) fn installed(&mut self, meta: &Meta, local: Option<LocalId>) {
        self.touch(meta);
        let unmade = !self.makings.contains_key(meta);
        let Some(entry) = self.entries.get_mut(meta).filter(|_| unmade) else { return };
        let Some(snapshot) = entry.installing.take() else { return };
        if let Some(local) = local {
            entry.map.set_local(&self.here, local);
        }
        let before = entry.resource.ops.clone();
        let later = entry.resource.copy(&self.here, &snapshot);
        (entry.copies, entry.comparing.reading) = (0, None);
        let anew = entry.comparing.anew;
        if !anew {
            (entry.condition, entry.comparing.good) = (Condition::Good, BTreeSet::new());
        }
        for (id, op) in before {
            match entry.resource.ops.get(&id) {
                None => drop(self.call.ops.insert(id, None)),
                // Every replica had executed it, as the other one knew: its body is not needed here either.
                Some(now) if now.body.is_none() => self.call.effects.extend(op.body.map(Effect::Erase)),
                Some(_) => {}
            }
        }
        self.call.site = true;
        for op in snapshot.ops {
            self.clock.see(self.call.wall_ms, op.stamp);
            self.call.ops.insert(op.id.clone(), Some(op));
        }
        for id in later {
            let Some(op) = entry.resource.ops.get_mut(&id) else { continue };
            op.stamp = self.clock.tick(self.call.wall_ms);
            self.call.ops.insert(id, Some(op.clone()));
        }
        let shown = !entry.comparing.differing.is_empty();
        if anew {
            self.copy(meta);
        } else if shown {
            // Whoever was shown that it differs is shown that it does no more.
            self.compare(meta);
            self.inquire(std::slice::from_ref(meta));
        }
    }

    /// What the service refused had no effect, so the replica can go on from there. What is refused because the site that
    /// accepted it is shut out, and is to have no replica, stays so: it is passed over.
    pub(crate) fn mended(&mut self, meta: &Meta) {
        self.touch(meta);
        let Some(entry) = self.entries.get_mut(meta) else { return };
        let diverged = matches!(entry.condition, Condition::Diverged { .. }) && entry.running.is_none();
        (entry.condition, entry.comparing.anew) = (Condition::Good, false);
        while diverged && let Some(Step::Execute(execution)) = entry.resource.step() {
            let by = &execution.op.site;
            // What is not made cannot go on, and what is not deleted is not gone.
            let whole = matches!(execution.how, How::Create | How::Delete);
            if whole || entry.is_member(by) || !self.outside.contains(by) {
                return;
            }
            entry.resource.pass_over(&execution);
        }
    }
}
