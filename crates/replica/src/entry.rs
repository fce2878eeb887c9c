//! One resource at a site, with all that the machine keeps beside it.

use std::collections::BTreeSet;

use scope::Site;

use crate::clock::Stamp;
use crate::compare::Comparing;
use crate::epoch::Epoch;
use crate::event::Message;
use crate::few::Few;
use crate::map::ReplicaMap;
use crate::operation::{OpId, Operation};
use crate::record::{Condition, Record, Running};
use crate::resource::{How, Pruned, Resource, Snapshot};
use crate::version::Version;

/// What another site said of a resource. Not durable: it is asked for again after a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Peer {
    /// All that it ever said it had.
    pub has: Version,
    /// Its last confirmation: what it knew, its own operations included, and what it had executed.
    pub said: Option<(Version, Version)>,
    /// Its map then.
    pub map: Option<ReplicaMap>,
    /// Since when, by that map, it has its replica, or none.
    pub since: Option<(Stamp, Site)>,
    /// Sent since the timer last ran out.
    pub in_flight: BTreeSet<OpId>,
}

/// One resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub map: ReplicaMap,
    pub resource: Resource,
    pub running: Option<Running>,
    pub condition: Condition,
    pub installing: Option<Box<Snapshot>>,
    /// The service could not be given it. Not durable: after a restart it is given it again.
    pub stalled: bool,
    /// A state was asked for.
    pub fetching: bool,
    pub peers: Few<Site, Peer>,
    /// How often the state of another replica was asked for.
    pub copies: usize,
    /// What was last confirmed to the others.
    pub told: Option<Message>,
    pub comparing: Comparing,
}

impl Entry {
    pub(crate) fn new(map: ReplicaMap, resource: Resource) -> Entry {
        Entry {
            map,
            resource,
            running: None,
            condition: Condition::Good,
            installing: None,
            stalled: false,
            fetching: false,
            peers: Few::default(),
            copies: 0,
            told: None,
            comparing: Comparing::default(),
        }
    }

    pub(crate) fn record(&self) -> Record {
        Record::State {
            map: self.map.clone(),
            progress: self.resource.progress.clone(),
            running: self.running.clone(),
            condition: self.condition,
            installing: self.installing.clone(),
        }
    }

    /// Whether what the service has is what was executed here.
    pub(crate) fn is_good(&self) -> bool {
        self.condition == Condition::Good && self.installing.is_none()
    }

    /// Whether the service here may have made it, under an id that nobody knows: a copy would be another.
    pub(crate) fn may_have_made_it(&self, here: &Site) -> bool {
        let creates = |running: &Running| running.doubted && running.execution.how == How::Create;
        self.running.as_ref().is_some_and(creates) && self.map.local(here).is_none()
    }

    /// Whether this site holds a replica.
    pub(crate) fn is_member(&self, site: &Site) -> bool {
        self.map.members().contains(site)
    }

    /// Whether no site has executed anything of it: its creation is not decided yet, and nobody else is told.
    pub(crate) fn is_undecided(&self) -> bool {
        self.peers.is_empty()
            && !self.resource.ops.is_empty()
            && self.resource.shared().next().is_none()
            && self.resource.progress.done == Version::default()
    }

    /// Whether no site, of these others, knows anything of it but its name: whoever made it was given back old records.
    pub(crate) fn is_forgotten(&self, others: &[Site]) -> bool {
        let silent = |site: &Site| {
            let said = self.peers.get(site).and_then(|peer| peer.said.as_ref());
            said.is_some_and(|(known, _)| *known == Version::default())
        };
        let idle = self.running.is_none() && self.installing.is_none() && !self.fetching;
        let nothing = self.resource.progress.known == Version::default();
        idle && nothing && others.iter().all(silent)
    }

    /// Changes the map. Until the resource here was released, the service has it under the same id, also if
    /// the replica left, or left and came back. What another site said of a replica that left, or came back, says nothing of the one
    /// that it has now.
    pub(crate) fn change_map<T>(&mut self, here: &Site, change: impl FnOnce(&mut ReplicaMap) -> T) -> T {
        let local = self.map.local(here);
        let changed = change(&mut self.map);
        if let Some(local) = local.filter(|_| self.map.local(here).is_none()) {
            self.map.set_local(here, local);
        }
        for (site, peer) in self.peers.iter_mut().filter(|(_, peer)| peer.since.is_some()) {
            let since = self.map.since(site).cloned();
            if since > peer.since {
                *peer = Peer { since, ..Peer::default() };
            }
        }
        changed
    }

    /// The other sites that this one talks to about it.
    pub(crate) fn others(&self, here: &Site) -> Vec<Site> {
        self.map.involved().filter(|site| *site != here).cloned().collect()
    }

    pub(crate) fn confirmation(&self, epoch: Epoch) -> Message {
        let progress = &self.resource.progress;
        let (known, done) = (progress.known.clone(), progress.done.clone());
        // How often something was recorded is put in when it is sent.
        Message::Confirm { map: self.map.clone(), epoch, number: 0, known, done }
    }

    /// The operations that a member is not known to have, each after all that it has seen.
    pub(crate) fn lacking(&self, peer: &Site) -> Vec<&Operation> {
        if !self.is_member(peer) {
            return Vec::new();
        }
        let has = self.peers.get(peer).map(|peer| &peer.has);
        self.resource.shared().filter(|op| has.is_none_or(|has| !has.covers(&op.id))).collect()
    }

    /// Whether a site still has to say something: that it has executed all that is known here, or that it
    /// knows where the replicas are.
    pub(crate) fn awaits(&self, site: &Site) -> bool {
        let Some(peer) = self.peers.get(site) else { return true };
        let Some((_, done)) = &peer.said else { return true };
        peer.map.as_ref() != Some(&self.map)
            || (self.is_member(site) && !done.dominates(&self.resource.shared_known()))
    }

    /// Forgets what can no longer change anything, by what these others have said.
    pub(crate) fn prune(&mut self, others: &[Site]) -> Pruned {
        // What is executed here may have to be executed again, on top of a state that is older.
        if self.fetching || self.installing.is_some() {
            return Pruned::default();
        }
        let progress = &self.resource.progress;
        let mut everyone = vec![progress.done.clone()];
        for site in others {
            let Some(peer) = self.peers.get(site) else { return Pruned::default() };
            let Some((known, done)) = &peer.said else { return Pruned::default() };
            // What it accepted before it said so must be known: later ones have seen all that it executed. So must what
            // it has from this site, which may have been given back old records and know it no more.
            if !progress.known.dominates(known) {
                return Pruned::default();
            }
            let goes_on = |map: &ReplicaMap| map.members().contains(site);
            match (self.is_member(site), peer.map.as_ref().is_none_or(goes_on)) {
                (true, _) => everyone.push(done.clone()),
                // One that does not know yet that it has no replica any more may still accept.
                (false, true) => return Pruned::default(),
                (false, false) => {}
            }
        }
        self.resource.prune(|id| everyone.iter().all(|done| done.covers(id)))
    }
}
