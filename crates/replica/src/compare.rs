//! Replicas of a resource are compared, and the one that differs is repaired or shown.
//!
//! Each site decides about its own replica, by what all of them say. A replica that finds itself outvoted is
//! not read until it was given the state of a good one.

use std::collections::{BTreeMap, BTreeSet};

use scope::Site;

use crate::entry::Entry;
use crate::event::{Effect, Message, Reply, Ticket, Timer};
use crate::machine::Machine;
use crate::operation::{Level, Meta};
use crate::record::{Condition, Running, Stage};
use crate::restored::is_compared;
use crate::standing::{Content, Standing, Verdict, verdict};
use crate::version::Version;

/// What goes on about the contents of a resource. Not durable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Comparing {
    /// The service is being read, at this version. An execution ends that.
    pub reading: Option<Version>,
    /// Sites that asked for it.
    pub inquirers: BTreeSet<Site>,
    /// What the replicas said so far.
    pub heard: Option<BTreeMap<Site, Standing>>,
    /// Who waits for the outcome.
    pub tickets: Vec<Ticket>,
    /// Whose state is good, where the one here is not.
    pub good: BTreeSet<Site>,
    /// Whose replicas differ, by the last comparison here: nobody knows which is good, or they are not.
    pub differing: BTreeSet<Site>,
    /// That was said while another state was on its way: it is asked for after that.
    pub anew: bool,
    /// It is known that the service here did not make it by an operation that had not ended.
    pub unmade: bool,
}

impl Entry {
    /// Whether there is something to be read, and nothing changes it.
    fn rests(&self) -> bool {
        if self.condition == Condition::Suspect {
            let busy = |running: &Running| matches!(running.stage, Stage::Sent | Stage::Probing);
            return self.installing.is_none() && !self.running.as_ref().is_some_and(busy);
        }
        self.running.is_none() && self.is_good() && self.resource.is_here()
    }

    /// What can be said without a look: that it was deleted, or that a suspect replica has no name by which it could be.
    fn is_nothing(&self) -> bool {
        let known = &self.resource.progress.known;
        let deleted = *known != Version::default() && !self.resource.exists(known);
        let idle = self.running.is_none() && self.is_good() && !self.resource.is_here();
        self.rests() && self.condition == Condition::Suspect || idle && deleted
    }

    pub(crate) fn standing(&self, content: Option<Content>) -> Standing {
        let progress = &self.resource.progress;
        let (known, done) = (progress.known.clone(), progress.done.clone());
        Standing { known, done, condition: self.condition, content }
    }
}

impl Machine {
    /// An operator wants to know how the replicas of a resource stand.
    pub(crate) fn compare_for(&mut self, ticket: Ticket, meta: &Meta) {
        match self.entries.get_mut(meta).filter(|entry| entry.is_member(&self.here)) {
            None => {
                let effect = Effect::Answer { ticket, op: None, reply: Reply::NoResource };
                self.call.effects.push(effect);
            }
            Some(entry) => {
                entry.comparing.tickets.push(ticket);
                self.compare(meta);
                self.inquire(std::slice::from_ref(meta));
            }
        }
    }

    /// Starts a comparison, unless one goes on. The others are asked by [`Machine::inquire`].
    pub(crate) fn compare(&mut self, meta: &Meta) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        if entry.comparing.heard.is_none() {
            entry.comparing.heard = Some(BTreeMap::new());
            self.read(meta);
            // A service may take its time to be read.
            let patience = self.settings.retry_ms.saturating_mul(10);
            self.wake_after(Timer::Compare(meta.clone()), patience);
        }
    }

    /// Asks the other replicas of these how they stand, in one message to each site.
    pub(crate) fn inquire(&mut self, metas: &[Meta]) {
        let mut asked = BTreeMap::<Site, Vec<Meta>>::new();
        for meta in metas {
            let entry = self.entries.get(meta);
            let members = entry.as_ref().map(|entry| entry.map.members()).unwrap_or_default();
            for site in members.into_iter().filter(|site| **site != self.here) {
                asked.entry(site.clone()).or_default().push(meta.clone());
            }
        }
        for (site, resources) in asked {
            self.send(&site, Message::Inquire { resources });
        }
    }

    /// Another site asks how the replicas here stand.
    pub(crate) fn inquired(&mut self, from: &Site, resources: &[Meta]) {
        for meta in resources {
            let member = |entry: &&mut Entry| entry.is_member(&self.here) && entry.is_member(from);
            if let Some(entry) = self.entries.get_mut(meta).filter(member) {
                entry.comparing.inquirers.insert(from.clone());
                self.read(meta);
            } else if !self.entries.contains_key(meta) && !self.is_ordered(meta) {
                // It is not known here: whoever waits need not.
                let (known, done, condition) = (Version::default(), Version::default(), Condition::Good);
                let standing = Standing { known, done, condition, content: None };
                self.send(from, Message::Stands { resource: meta.clone(), standing });
            }
        }
    }

    /// Has the service read, or says at once that this is not the moment.
    fn read(&mut self, meta: &Meta) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        let local = entry.map.local(&self.here);
        let done = &entry.resource.progress.done;
        match local.filter(|_| entry.rests() && is_compared(entry)) {
            None => {
                let nothing = entry.is_nothing() && is_compared(entry);
                self.stand(meta, nothing.then_some(Content::Absent));
            }
            Some(_) if entry.comparing.reading.as_ref() == Some(done) => {}
            Some(local) => {
                entry.comparing.reading = Some(done.clone());
                self.call.effects.push(Effect::Digest { resource: meta.clone(), local });
            }
        }
    }

    /// The service was read. What was executed meanwhile makes that worthless.
    pub(crate) fn digested(&mut self, meta: &Meta, content: Content) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        let Some(at) = entry.comparing.reading.take() else {
            return self.stand(meta, None);
        };
        let valid = entry.rests() && at == entry.resource.progress.done && content != Content::Unread;
        self.stand(meta, Some(content).filter(|_| valid));
    }

    /// Tells whoever asked how the replica here stands.
    fn stand(&mut self, meta: &Meta, content: Option<Content>) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        let standing = entry.standing(content);
        let inquirers = std::mem::take(&mut entry.comparing.inquirers);
        if let Some(heard) = &mut entry.comparing.heard {
            heard.insert(self.here.clone(), standing.clone());
        }
        for site in inquirers {
            let (resource, standing) = (meta.clone(), standing.clone());
            self.send(&site, Message::Stands { resource, standing });
        }
        self.conclude_if_complete(meta);
    }

    /// Another replica says how it stands.
    pub(crate) fn stands(&mut self, from: &Site, meta: &Meta, standing: Standing) {
        let Some(entry) = self.entries.get_mut(meta).filter(|entry| entry.is_member(from)) else { return };
        if let Some(heard) = &mut entry.comparing.heard {
            heard.insert(from.clone(), standing);
            self.conclude_if_complete(meta);
        }
    }

    fn conclude_if_complete(&mut self, meta: &Meta) {
        let complete = self.entries.get(meta).is_some_and(|entry| {
            let heard = entry.comparing.heard.as_ref();
            heard.is_some_and(|heard| entry.map.members().iter().all(|site| heard.contains_key(*site)))
        });
        if complete {
            self.conclude(meta);
        }
    }

    /// All have answered, or there was time enough.
    pub(crate) fn conclude(&mut self, meta: &Meta) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        let Some(mut heard) = entry.comparing.heard.take() else { return };
        let tickets = std::mem::take(&mut entry.comparing.tickets);
        let sites: BTreeMap<_, _> =
            entry.map.members().into_iter().map(|site| (site.clone(), heard.remove(site))).collect();
        for ticket in tickets {
            let (resource, sites) = (meta.clone(), sites.clone());
            self.call.effects.push(Effect::Compared { ticket, resource, sites });
        }
        if entry.condition == Condition::Suspect {
            return self.judge(meta, sites);
        }
        let ours = sites.get(&self.here).and_then(Option::as_ref);
        let changed = ours.is_none_or(|ours| ours.done != entry.resource.progress.done);
        if changed || !entry.rests() || entry.map.level == Level::Weak {
            return;
        }
        let verdict = verdict(&self.here, &sites);
        let differing = match &verdict {
            Verdict::Equal => BTreeSet::new(),
            Verdict::Others(bad) => bad.clone(),
            Verdict::Outvoted(_) => [self.here.clone()].into(),
            Verdict::Undecided => sites.keys().cloned().collect(),
        };
        let before = std::mem::replace(&mut entry.comparing.differing, differing);
        let others: BTreeSet<_> = sites.keys().filter(|site| **site != self.here).cloned().collect();
        let undecided = before.contains(&self.here) != (verdict == Verdict::Undecided);
        if let Verdict::Outvoted(_) | Verdict::Undecided = verdict {
            self.call.effects.push(Effect::Differs { resource: meta.clone(), sites });
        }
        match verdict {
            // Of what nobody can decide, or that it is over, the others hear once: each shows its own.
            Verdict::Equal | Verdict::Undecided if undecided => self.tell_differs(meta, others),
            Verdict::Equal | Verdict::Undecided => {}
            Verdict::Others(bad) => self.tell_differs(meta, bad),
            Verdict::Outvoted(good) => self.repair(meta, good),
        }
    }

    fn tell_differs(&mut self, meta: &Meta, sites: BTreeSet<Site>) {
        for site in sites {
            self.send(&site, Message::Differs { resource: meta.clone() });
        }
    }

    /// Another replica says that this one differs: this one looks for itself.
    pub(crate) fn said_to_differ(&mut self, from: &Site, meta: &Meta) {
        let both = |entry: &Entry| entry.is_member(&self.here) && entry.is_member(from);
        if self.entries.get(meta).is_some_and(|entry| both(&entry)) {
            self.compare(meta);
            self.inquire(std::slice::from_ref(meta));
        }
    }

    /// The operator says from which site the replica here is to be repaired.
    pub(crate) fn repair_from(&mut self, ticket: Ticket, meta: &Meta, from: &Site) {
        let both = |entry: &Entry| entry.is_member(&self.here) && entry.is_member(from);
        // Of what is being made here nobody else has anything yet, and its name may be another then.
        let has = |entry: &Entry| both(entry) && !entry.is_undecided();
        let can = *from != self.here && self.entries.get(meta).is_some_and(|entry| has(&entry));
        if can {
            self.repair(meta, [from.clone()].into());
        }
        let reply = if can { Reply::Changed } else { Reply::NoResource };
        self.call.effects.push(Effect::Answer { ticket, op: None, reply });
    }

    /// The replica here is not read until it has the state of a good one.
    pub(crate) fn repair(&mut self, meta: &Meta, good: BTreeSet<Site>) {
        self.touch(meta);
        let Some(entry) = self.entries.get_mut(meta) else { return };
        (entry.condition, entry.comparing.good, entry.comparing.anew) = (Condition::Differs, good, true);
        self.copy(meta);
    }
}
