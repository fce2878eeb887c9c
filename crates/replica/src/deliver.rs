//! Operations go to the other replicas, until each has confirmed them; then they are forgotten.

use std::cmp::Ordering;

use scope::Site;

use crate::entry::{Entry, Peer};
use crate::event::{Effect, Message, Reply, Timer};
use crate::machine::Machine;
use crate::map::ReplicaMap;
use crate::operation::{Meta, Operation};
use crate::record::{Condition, Stage};
use crate::resource::Resource;
use crate::restored::Mark;
use crate::version::Version;

impl Machine {
    /// Tells the others what is new here, and sees to it that they are told until they confirm.
    pub(crate) fn deliver(&mut self, meta: &Meta) {
        let told = |entry: &&mut Entry| !entry.is_undecided() && entry.condition != Condition::Suspect;
        let Some(entry) = self.entries.get_mut(meta).filter(told) else { return };
        let confirmation = entry.confirmation(self.epoch);
        let news = entry.told.as_ref() != Some(&confirmation);
        entry.told = Some(confirmation.clone());
        for site in entry.others(&self.here) {
            let asks = self.call.asking.contains(&(meta.clone(), site.clone()));
            let up = self.links.get(&site).is_none_or(|link| !link.down);
            let met = self.trust.is_met(&site);
            if asks || (news && up && met) {
                self.send(&site, confirmation.clone());
            }
            if up && !met {
                self.hello_again(&site);
            } else if up {
                self.send_own(meta, &site);
            }
            self.follow_up(meta, &site);
        }
        self.release(meta);
    }

    /// Keeps in mind whether a site has something to confirm, and starts the timer.
    fn follow_up(&mut self, meta: &Meta, site: &Site) {
        self.watch(site);
        let awaits = |entry: &Entry| entry.awaits(site) && self.heeds(entry, site);
        let awaits = self.entries.get(meta).is_some_and(|entry| awaits(&entry));
        let link = self.links.entry(site.clone()).or_default();
        if !awaits {
            link.owed.remove(meta);
            return;
        }
        link.owed.insert(meta.clone());
        self.rearm(site);
    }

    /// Sends what was accepted here, and the site lacks, and was not just sent.
    fn send_own(&mut self, meta: &Meta, site: &Site) {
        let Some(entry) = self.entries.get(meta) else { return };
        let lacking = entry.lacking(site);
        if lacking.len() > self.settings.backlog || !is_complete(&entry, site, &lacking) {
            return;
        }
        let sent = entry.peers.get(site).map(|peer| &peer.in_flight);
        let operations: Vec<_> = lacking
            .into_iter()
            .filter(|op| op.id.site == self.here && sent.is_none_or(|sent| !sent.contains(&op.id)))
            .take(self.settings.batch)
            .cloned()
            .collect();
        if !operations.is_empty() {
            self.send_these(meta, site, operations);
        }
    }

    fn send_these(&mut self, meta: &Meta, site: &Site, operations: Vec<Operation>) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        let peer = entry.peers.of(site.clone());
        peer.in_flight.extend(operations.iter().map(|op| op.id.clone()));
        let map = entry.map.clone();
        self.send(site, Message::Operations { map, operations });
    }

    /// The timer of a site ran out: everything that it has not confirmed, whoever accepted it, once more. Of much, a part
    /// at a time, so that nothing else waits for long. One that is down is asked about one thing: what
    /// brings it back says so.
    pub(crate) fn deliver_again(&mut self, site: &Site) {
        let link = self.links.entry(site.clone()).or_default();
        let (metas, more) = link.next(if link.down { 1 } else { self.settings.again });
        if link.down || !more {
            (link.told, link.armed) = (None, false);
            link.attempts = link.attempts.saturating_add(1);
        } else {
            link.armed = true;
            self.wake_after(Timer::Deliver(site.clone()), self.settings.retry_ms / 10);
        }
        if !metas.is_empty() {
            self.hello_again(site);
        }
        for meta in metas {
            self.touch(&meta);
            let Some(entry) = self.entries.get_mut(&meta) else {
                self.links.entry(site.clone()).or_default().owed.remove(&meta);
                continue;
            };
            if entry.condition == Condition::Suspect {
                continue;
            }
            let heard = entry.peers.get_mut(site).is_some_and(|peer| {
                peer.in_flight.clear();
                peer.said.is_some()
            });
            // Before it said anything, it is only asked: after a restart it may have them all.
            if !heard || !self.catch_up(&meta, site) {
                self.send_these(&meta, site, Vec::new());
            }
        }
        self.rearm(site);
    }

    /// While a site has something to confirm, its timer runs.
    fn rearm(&mut self, site: &Site) {
        let link = self.links.entry(site.clone()).or_default();
        if !link.owed.is_empty() && !std::mem::replace(&mut link.armed, true) {
            let attempts = link.attempts.saturating_add(1);
            self.wake(Timer::Deliver(site.clone()), attempts);
        }
    }

    /// Sends a site what it lacks, whoever accepted it: the next operations, or word that it has to take
    /// the state. False where it lacks nothing.
    fn catch_up(&mut self, meta: &Meta, site: &Site) -> bool {
        let Some(entry) = self.entries.get(meta).filter(|_| self.trust.is_met(site)) else { return false };
        let lacking = entry.lacking(site);
        let known = entry.resource.shared_known();
        let mut reach = entry.peers.get(site).map(|peer| peer.has.clone()).unwrap_or_default();
        for op in &lacking {
            reach.add(&op.id);
        }
        // What is forgotten here cannot be sent either.
        let enough = !entry.is_member(site) || reach.dominates(&known);
        if lacking.is_empty() && enough {
            return false;
        }
        if lacking.len() > self.settings.backlog || !enough || !is_complete(&entry, site, &lacking) {
            self.send(site, Message::Behind { map: entry.map.clone(), known });
            return true;
        }
        let operations = lacking.into_iter().take(self.settings.batch).cloned().collect();
        self.send_these(meta, site, operations);
        true
    }

    /// A site can be reached again: nothing waits for its timer.
    pub(crate) fn reach(&mut self, site: &Site, up: bool) {
        let link = self.links.entry(site.clone()).or_default();
        let back = up && link.down;
        link.down = !up;
        if up {
            self.hello(site, None);
        }
        if back {
            let link = self.links.entry(site.clone()).or_default();
            (link.attempts, link.told) = (0, None);
            self.deliver_again(site);
        }
        if !up && self.trust.started {
            self.go_on();
        }
    }

    /// A site is shut out for good, or is not any more. What waits for its word alone goes, where it is to have no replica.
    pub(crate) fn shut_out(&mut self, site: &Site, out: bool) {
        let changed = if out { self.outside.insert(site.clone()) } else { self.outside.remove(site) };
        if !changed {
            return;
        }
        let had = |entry: &Entry| !entry.is_member(site) && entry.map.involved().any(|own| own == site);
        let metas = self.entries.iter().filter(|(_, entry)| had(entry)).map(|(meta, _)| meta.clone());
        for meta in metas.collect::<Vec<_>>() {
            self.touch(&meta);
        }
    }

    /// Whether the word of another site counts: not of one that has no replica any more and will never be heard again.
    fn heeds(&self, entry: &Entry, site: &Site) -> bool {
        !self.outside.contains(site) || entry.is_member(site)
    }

    /// The other sites whose word counts.
    pub(crate) fn heeded(&self, entry: &Entry) -> Vec<Site> {
        entry.others(&self.here).into_iter().filter(|site| self.heeds(entry, site)).collect()
    }

    /// A message from another site.
    pub(crate) fn received(&mut self, from: &Site, message: Message) {
        let message = match message {
            Message::Order { epoch, number, message } => {
                return self.received_order(from, Mark { epoch, number }, message);
            }
            Message::Done { map, done, asks } => return self.received_done(from, &map, done, asks),
            Message::Tried { resource, op, verdict } => {
                return self.received_tried(from, &resource, &op, verdict);
            }
            message => message,
        };
        let Some(map) = message.map() else { return self.received_of_many(from, message) };
        let meta = map.meta.clone();
        // A name is of one resource, at one level.
        if self.is_ordered(&meta) {
            return;
        }
        self.touch(&meta);
        if !self.recognised(map) {
            return;
        }
        // The name of what its teller knows nothing of makes nothing, nor does a question.
        let brings = match &message {
            Message::Operations { operations, .. } => !operations.is_empty(),
            Message::Confirm { known, .. } => *known != Version::default(),
            _ => true,
        };
        if !self.known_to_be_here(map, brings) {
            // Whoever asks is told, and stops asking.
            if !matches!(message, Message::Confirm { .. }) {
                self.send_gone(from, map);
            }
            return;
        }
        if let Some(entry) = self.entries.get_mut(&meta) {
            entry.change_map(&self.here, |ours| ours.merge_from(map, from));
            entry.peers.of(from.clone());
            // It is compared first: until then nothing that is told of it can be used.
            if entry.condition == Condition::Suspect {
                return;
            }
        }
        match message {
            Message::Operations { operations, .. } => {
                if !operations.is_empty() {
                    self.hello_again(from);
                }
                for op in operations {
                    self.learn(from, &meta, op);
                }
                self.call.asking.insert((meta, from.clone()));
            }
            Message::Confirm { map, epoch, number, known, done } if self.is_current(from, epoch) => {
                let entry = self.entries.get(&meta);
                let said = entry.as_ref().and_then(|entry| entry.peers.get(from)?.said.as_ref());
                let news = said.is_none_or(|(_, before)| !before.dominates(&done));
                self.trust.hear(from, Mark { epoch, number }, news);
                self.confirmed(from, &map, &known, &done);
            }
            Message::Behind { known, .. } => self.behind(from, &meta, &known),
            _ => {}
        }
    }

    /// A message that is not about one resource's operations.
    fn received_of_many(&mut self, from: &Site, message: Message) {
        match message {
            Message::Hello { epoch, heard, ended } => self.greeted(from, epoch, heard, &ended),
            Message::Welcome { run, behind, latest } if run == self.epoch => {
                self.welcomed(from, behind, latest);
            }
            Message::Survey { epoch, buckets } if self.is_current(from, epoch) => {
                self.surveyed(from, &buckets);
            }
            Message::Listing { epoch, buckets, lines, answer } if self.is_current(from, epoch) => {
                self.listed(from, &buckets, lines, answer);
            }
            Message::Forgot { group, start, epoch } if self.is_current(from, epoch) => {
                self.asked_what_was(from, &group, start);
            }
            Message::Recalled { group, start, said } => self.told_what_was(from, &group, start, said),
            Message::Inquire { resources } => self.inquired(from, &resources),
            Message::Stands { resource, standing } => self.stands(from, &resource, standing),
            Message::Differs { resource } => self.said_to_differ(from, &resource),
            _ => {}
        }
    }

    /// Whether the message is about a replica that this site has, or has to have, and is given something of.
    fn known_to_be_here(&mut self, map: &ReplicaMap, brings: bool) -> bool {
        if self.entries.contains_key(&map.meta) {
            return true;
        }
        let mut map = map.clone();
        if let Some(gone) = self.gone.get_mut(&map.meta) {
            gone.merge(&map);
            map = gone.clone();
        }
        let member = brings && map.members().contains(&self.here);
        if member {
            self.gone.remove(&map.meta);
            let (meta, resource) = (map.meta.clone(), Resource::new(map.level));
            self.entries.insert(meta, Entry::new(map, resource));
        }
        member
    }

    /// Tells a site that there is no replica here.
    fn send_gone(&mut self, to: &Site, map: &ReplicaMap) {
        let map = self.gone.get(&map.meta).unwrap_or(map).clone();
        let (epoch, known, done) = (self.epoch, Version::default(), Version::default());
        self.send(to, Message::Confirm { map, epoch, number: 0, known, done });
    }

    fn learn(&mut self, from: &Site, meta: &Meta, op: Operation) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        if op.resource != *meta || op.body.is_none() || entry.condition == Condition::Suspect {
            return;
        }
        let suspicious = self.is_suspicious(meta, &op.id);
        let Some(entry) = self.entries.get_mut(meta) else { return };
        if let Some(skew) = self.clock.see(self.call.wall_ms, op.stamp) {
            let (site, ahead_ms) = (from.clone(), skew.ahead_ms);
            self.call.effects.push(Effect::Skewed { site, ahead_ms });
        }
        self.call.site = true;
        if entry.resource.is_surprised_by(&op) {
            return self.take_state(from, meta);
        }
        if entry.resource.learn(op.clone()) {
            self.call.ops.insert(op.id.clone(), Some(op));
        }
        if suspicious {
            self.suspect_one(meta);
        }
    }

    fn confirmed(&mut self, from: &Site, map: &ReplicaMap, known: &Version, done: &Version) {
        let meta = &map.meta;
        let Some(entry) = self.entries.get_mut(meta) else { return };
        entry.resource.is_known_elsewhere(known);
        let peer: &mut Peer = entry.peers.of(from.clone());
        let since = map.since(from).cloned();
        match since.cmp(&peer.since) {
            Ordering::Less => return,
            Ordering::Equal => {}
            // Its replica is another one than it was: what it had before, it may have no more.
            Ordering::Greater => *peer = Peer { since, ..Peer::default() },
        }
        peer.map = Some(map.clone());
        peer.has.merge(known);
        let silent = peer.said.is_none();
        if peer.said.as_ref().is_none_or(|(_, before)| done.dominates(before)) {
            peer.said = Some((known.clone(), done.clone()));
        }
        // The rest of a long backlog follows at once, and so does what a site lacks that was silent so far.
        let more = !peer.in_flight.is_empty() || silent;
        let has = peer.has.clone();
        peer.in_flight.retain(|id| !has.covers(id));
        let idle = peer.in_flight.is_empty();
        self.links.entry(from.clone()).or_default().attempts = 0;
        if more && idle {
            self.catch_up(meta, from);
        }
        if self.entries.get(meta).is_some_and(|entry| entry.is_forgotten(&self.heeded(&entry))) {
            self.entries.remove(meta);
        }
    }

    /// Forgets what every replica has confirmed.
    pub(crate) fn prune(&mut self, meta: &Meta) {
        let Some(heeded) = self.entries.get(meta).map(|entry| self.heeded(&entry)) else { return };
        let Some(entry) = self.entries.get_mut(meta) else { return };
        let pruned = entry.prune(&heeded);
        for op in pruned.gone {
            self.call.ops.insert(op.id, None);
            self.call.effects.extend(op.body.map(Effect::Erase));
        }
        for (id, body) in pruned.emptied {
            self.call.ops.insert(id.clone(), entry.resource.ops.get(&id).cloned());
            self.call.effects.push(Effect::Erase(body));
        }
    }

    /// A replica that is none any more, once the others know and have what was accepted here.
    fn release(&mut self, meta: &Meta) {
        let Some(entry) = self.entries.get(meta) else { return };
        let busy = entry.running.as_ref().is_some_and(|running| running.stage == Stage::Sent);
        // What it made is another's for ever, where nobody says which one it is.
        let nameless = entry.may_have_made_it(&self.here) && !entry.map.is_detached();
        if entry.is_member(&self.here)
            || busy
            || nameless
            || self.makings.contains_key(meta)
            || self.heeded(&entry).iter().any(|site| entry.awaits(site))
        {
            return;
        }
        // Where the service has nothing of it, whatever has its name there is another's.
        let doubted = entry.running.as_ref().is_some_and(|running| running.doubted);
        let foreign = entry.map.chosen && !entry.resource.is_here() && !doubted;
        let effect = Effect::Release {
            resource: meta.clone(),
            local: entry.map.local(&self.here),
            keep: entry.map.is_detached() || foreign,
        };
        let ids: Vec<_> = entry.resource.ops.keys().cloned().collect();
        self.call.effects.push(effect);
        for id in ids {
            // Only what was not executed anywhere has a client that still waits.
            self.answer(&id, Reply::Unavailable);
            self.call.ops.insert(id, None);
        }
        if let Some(entry) = self.entries.remove(meta) {
            self.gone.insert(meta.clone(), entry.map);
        }
    }
}

/// Whether what a site lacks can be given as operations: with their bodies, and nothing forgotten between.
fn is_complete(entry: &Entry, site: &Site, lacking: &[&Operation]) -> bool {
    let mut has = entry.peers.get(site).map(|peer| peer.has.clone()).unwrap_or_default();
    lacking.iter().all(|op| {
        let follows = op.body.is_some() && has.dominates(&op.seen);
        has.add(&op.id);
        follows
    })
}
