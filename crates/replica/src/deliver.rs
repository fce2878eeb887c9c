//! Operations go to the other replicas, until each has confirmed them; then they are forgotten.

use scope::Site;

use crate::entry::{Entry, Peer};
use crate::event::{Effect, Message, Timer};
use crate::machine::Machine;
use crate::map::ReplicaMap;
use crate::operation::{Meta, Operation};
use crate::record::Stage;
use crate::resource::Resource;
use crate::version::Version;

impl Machine {
    /// Tells the others what is new here, and sees to it that they are told until they confirm.
    pub(crate) fn deliver(&mut self, meta: &Meta) {
        let Some(entry) = self.entries.get_mut(meta).filter(|entry| !entry.is_undecided()) else { return };
        let confirmation = entry.confirmation();
        let news = entry.told.as_ref() != Some(&confirmation);
        entry.told = Some(confirmation.clone());
        for site in entry.others(&self.here) {
            let asks = self.call.asking.contains(&(meta.clone(), site.clone()));
            let up = self.links.get(&site).is_none_or(|link| !link.down);
            if asks || (news && up) {
                self.send(&site, confirmation.clone());
            }
            if up {
                self.send_own(meta, &site);
            }
            self.follow_up(meta, &site);
        }
        self.release(meta);
    }

    /// Keeps in mind whether a site has something to confirm, and starts the timer.
    fn follow_up(&mut self, meta: &Meta, site: &Site) {
        let awaits = self.entries.get(meta).is_some_and(|entry| entry.awaits(site));
        let link = self.links.entry(site.clone()).or_default();
        if !awaits {
            link.owed.remove(meta);
            return;
        }
        link.owed.insert(meta.clone());
        if !std::mem::replace(&mut link.armed, true) {
            let attempts = link.attempts.saturating_add(1);
            self.wake(Timer::Deliver(site.clone()), attempts);
        }
    }

    /// Sends what was accepted here, and the site lacks, and was not just sent.
    fn send_own(&mut self, meta: &Meta, site: &Site) {
        let Some(entry) = self.entries.get(meta) else { return };
        let lacking = entry.lacking(site);
        if lacking.len() > self.settings.backlog || !is_complete(entry, site, &lacking) {
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
        let peer = entry.peers.entry(site.clone()).or_default();
        peer.in_flight.extend(operations.iter().map(|op| op.id.clone()));
        let map = entry.map.clone();
        self.send(site, Message::Operations { map, operations });
    }

    /// The timer of a site ran out: everything that it has not confirmed, whoever accepted it, once more.
    pub(crate) fn deliver_again(&mut self, site: &Site) {
        let link = self.links.entry(site.clone()).or_default();
        link.armed = false;
        link.attempts = link.attempts.saturating_add(1);
        for meta in link.owed.clone() {
            self.touch(&meta);
            let Some(entry) = self.entries.get_mut(&meta) else {
                self.links.entry(site.clone()).or_default().owed.remove(&meta);
                continue;
            };
            let heard = entry.peers.get_mut(site).is_some_and(|peer| {
                peer.in_flight.clear();
                peer.said.is_some()
            });
            // Before it said anything, it is only asked: after a restart it may have them all.
            if !heard || !self.catch_up(&meta, site) {
                self.send_these(&meta, site, Vec::new());
            }
        }
    }

    /// Sends a site what it lacks, whoever accepted it: the next operations, or word that it has to take
    /// the state. False where it lacks nothing.
    fn catch_up(&mut self, meta: &Meta, site: &Site) -> bool {
        let Some(entry) = self.entries.get(meta) else { return false };
        let lacking = entry.lacking(site);
        if lacking.is_empty() {
            return false;
        }
        if lacking.len() > self.settings.backlog || !is_complete(entry, site, &lacking) {
            let known = entry.resource.snapshot().progress.known;
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
        if back {
            link.attempts = 0;
            let armed = link.armed;
            self.deliver_again(site);
            self.links.entry(site.clone()).or_default().armed = armed;
        }
    }

    /// A message from another site.
    pub(crate) fn received(&mut self, from: &Site, message: Message) {
        let message = match message {
            Message::Order(message) => return self.received_order(from, message),
            Message::Done { map, done, asks } => return self.received_done(from, &map, done, asks),
            Message::Tried { resource, op, verdict } => {
                return self.received_tried(from, &resource, &op, verdict);
            }
            message => message,
        };
        let Some(map) = message.map() else { return };
        let meta = map.meta.clone();
        // A name is of one resource, at one level.
        if self.is_ordered(&meta) {
            return;
        }
        self.touch(&meta);
        if !self.known_to_be_here(from, map) {
            return;
        }
        if let Some(entry) = self.entries.get_mut(&meta) {
            entry.map.merge(map);
            entry.peers.entry(from.clone()).or_default().map = Some(map.clone());
        }
        match message {
            Message::Operations { operations, .. } => {
                for op in operations {
                    self.learn(from, &meta, op);
                }
                self.call.asking.insert((meta, from.clone()));
            }
            Message::Confirm { known, done, .. } => self.confirmed(from, &meta, &known, &done),
            Message::Behind { known, .. } => self.behind(from, &meta, &known),
            Message::Order(_) | Message::Done { .. } | Message::Tried { .. } => {}
        }
    }

    /// Whether the message is about a replica that this site has, or has to have.
    fn known_to_be_here(&mut self, from: &Site, map: &ReplicaMap) -> bool {
        if self.entries.contains_key(&map.meta) {
            return true;
        }
        if map.members().contains(&self.here) {
            let entry = Entry::new(map.clone(), Resource::new(map.level));
            self.entries.insert(map.meta.clone(), entry);
            return true;
        }
        // It was let go: whoever asks is told, and stops asking.
        let (known, done) = (Version::default(), Version::default());
        self.send(from, Message::Confirm { map: map.clone(), known, done });
        false
    }

    fn learn(&mut self, from: &Site, meta: &Meta, op: Operation) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        if op.resource != *meta || op.body.is_none() {
            return;
        }
        if let Some(skew) = self.clock.see(self.call.wall_ms, op.stamp) {
            let (site, ahead_ms) = (from.clone(), skew.ahead_ms);
            self.call.effects.push(Effect::Skewed { site, ahead_ms });
        }
        self.call.site = true;
        // One of our own that we do not know: we were restored from an old copy.
        if op.id.site == self.here {
            self.counter = self.counter.max(op.id.counter);
        }
        if entry.resource.learn(op.clone()) {
            self.call.ops.insert(op.id.clone(), Some(op));
        }
    }

    fn confirmed(&mut self, from: &Site, meta: &Meta, known: &Version, done: &Version) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        let peer: &mut Peer = entry.peers.entry(from.clone()).or_default();
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
    }

    /// Forgets what every replica has confirmed.
    pub(crate) fn prune(&mut self, meta: &Meta) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        let pruned = entry.prune(&self.here);
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
        if entry.is_member(&self.here)
            || busy
            || entry.others(&self.here).iter().any(|site| entry.awaits(site))
        {
            return;
        }
        let effect = Effect::Release {
            resource: meta.clone(),
            local: entry.map.local(&self.here),
            keep: entry.map.is_detached(),
        };
        self.call.ops.extend(entry.resource.ops.keys().map(|id| (id.clone(), None)));
        self.call.effects.push(effect);
        self.entries.remove(meta);
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
