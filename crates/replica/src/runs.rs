//! A site runs anew, perhaps from old records: what the others believed of it is asked for again.

use std::collections::BTreeSet;

use scope::Site;

use crate::accept::PROVISIONAL;
use crate::epoch::Epoch;
use crate::event::Timer;
use crate::machine::Machine;
use crate::map::ReplicaMap;
use crate::operation::Meta;
use crate::record::{Running, Stage};
use crate::restored::Mark;
use crate::version::Version;

impl Machine {
    /// Tells every site that shares a resource with this one in which run it is.
    pub(crate) fn greet(&mut self) {
        let sites: BTreeSet<Site> =
            self.entries.iter().flat_map(|(_, entry)| entry.others(&self.here)).collect();
        let groups = self.ordering.orders.groups().flat_map(|group| group.sites.iter().cloned());
        let sites: BTreeSet<Site> =
            sites.into_iter().chain(groups).filter(|site| *site != self.here).collect();
        for site in sites {
            self.hello(&site, None);
        }
    }

    /// A site says in which run it is, what it knows of those before, and perhaps in which one this site was.
    pub(crate) fn greeted(&mut self, from: &Site, epoch: Epoch, heard: Option<Epoch>, ended: &[Mark]) {
        if self.admit(from, epoch, ended) {
            self.forget_what_it_said(from);
        }
        // It may have been given back old records, and know less of this site than it said.
        if heard.is_some_and(|heard| heard < self.epoch) {
            self.hello(from, None);
        }
        if let Some(heard) = heard.filter(|heard| *heard > self.epoch) {
            self.renumber_run(heard.next(0, self.epoch.draw));
            self.greet();
            // What was said before was taken for older than it is.
            for meta in self.entries.keys().cloned().collect::<Vec<_>>() {
                self.touch(&meta);
                if let Some(entry) = self.entries.get_mut(&meta) {
                    entry.told = None;
                }
            }
            self.entries.set_epoch(self.epoch);
        }
    }

    /// Another site tells of a resource by its name. If it is one whose creation is not decided here, and has no name yet,
    /// then this site made it, told of it, and was given back old records since. Now it has its name, and perhaps its id in
    /// the service here, by which that can be asked whether it has it. False where this is not the moment.
    pub(crate) fn recognised(&mut self, map: &ReplicaMap) -> bool {
        let own = |map: &ReplicaMap| map.since(&self.here).filter(|(_, by)| *by == self.here).cloned();
        let Some(since) = own(map).filter(|_| !self.entries.contains_key(&map.meta)) else { return true };
        let nameless = self.entries.open_from(Meta(PROVISIONAL.into())..);
        let found = nameless.filter(|(_, entry)| entry.is_undecided() && !entry.map.chosen);
        let found = found.into_iter().find(|(_, entry)| own(&entry.map).as_ref() == Some(&since));
        let Some((from, entry)) = found.map(|(from, entry)| (from.clone(), entry)) else { return true };
        let rests = |running: &&Running| matches!(running.stage, Stage::InDoubt | Stage::Waiting);
        let Some(running) = entry.running.as_ref().filter(rests) else { return false };
        let op = running.execution.op.clone();
        self.touch(&from);
        self.rename(&from, map.meta.clone());
        if let Some(entry) = self.entries.get_mut(&map.meta) {
            let mut known = Version::default();
            known.add(&op);
            entry.resource.is_known_elsewhere(&known);
            entry.map.merge(map);
        }
        self.probe(&map.meta);
        true
    }

    /// Whether a site says this in its last run. One that began a new run has to say first what it knows of those before.
    pub(crate) fn is_current(&mut self, from: &Site, epoch: Epoch) -> bool {
        match self.trust.run_of(from) {
            Some(last) if epoch != last => self.hello(from, Some(last)),
            _ => return true,
        }
        false
    }

    fn forget_what_it_said(&mut self, site: &Site) {
        let metas = self.entries.forget_peer(site);
        self.owe(site, metas);
    }

    /// A site has something to say about these.
    pub(crate) fn owe(&mut self, site: &Site, metas: Vec<Meta>) {
        let link = self.links.entry(site.clone()).or_default();
        link.owed.extend(metas);
        link.attempts = 0;
        if !link.owed.is_empty() && !std::mem::replace(&mut link.armed, true) {
            self.wake(Timer::Deliver(site.clone()), 1);
        }
    }
}
