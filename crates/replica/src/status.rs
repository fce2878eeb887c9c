//! What can be told of resources and operations, for whoever shows them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use scope::Site;

use crate::entry::Entry;
use crate::machine::Machine;
use crate::map::ReplicaMap;
use crate::operation::{Meta, OpId, Operation};
use crate::ordered::{Ordered, Ruling, Tried};
use crate::record::{Condition, Running, Stage};
use crate::version::Version;

/// One resource as this site sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status<'m> {
    /// Where its replicas are.
    pub map: Cow<'m, ReplicaMap>,
    /// Whether the replica here is good.
    pub condition: Condition,
    /// What the service here is being asked for.
    pub running: Option<&'m Running>,
    /// The state of another replica is being fetched, or given to the service here.
    pub copying: bool,
    /// Sites whose replicas differ, by the last comparison here.
    pub differing: Vec<&'m Site>,
    /// It was deleted: only what is needed for comparison is kept.
    pub deleted: bool,
}

/// What waits for one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Operations that it is not known to have.
    pub unknown: usize,
    /// Operations that it is not known to have executed.
    pub unexecuted: usize,
    /// When the oldest of these was accepted, in milliseconds of the wall clock.
    pub since_ms: Option<u64>,
}

/// How far one replica is with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fulfilment {
    /// It executed it, or skipped it because it lost.
    Done,
    /// It is not known to have.
    Pending,
    /// The replica, which is the one here, refused something and is not good.
    Diverged {
        /// What its service said.
        status: u16,
    },
    /// Nobody knows whether the service here executed it.
    InDoubt,
}

impl Machine {
    /// What is known of a resource.
    #[must_use]
    pub fn status(&self, meta: &Meta) -> Option<Status<'_>> {
        if let Some(entry) = self.ordering.entries.get(meta) {
            return Some(Status {
                map: Cow::Borrowed(&entry.map),
                condition: entry.condition,
                running: entry.running.as_ref(),
                copying: entry.fetching || entry.installing.is_some(),
                differing: Vec::new(),
                deleted: entry.is_absent(),
            });
        }
        let deleted = |entry: &Entry| {
            let known = &entry.resource.progress.known;
            *known != Version::default() && !entry.resource.exists(known)
        };
        Some(match self.entries.get(meta)? {
            Cow::Borrowed(entry) => Status {
                map: Cow::Borrowed(&entry.map),
                condition: entry.condition,
                running: entry.running.as_ref(),
                copying: entry.fetching || entry.installing.is_some(),
                differing: entry.comparing.differing.iter().filter(|site| entry.is_member(site)).collect(),
                deleted: deleted(entry),
            },
            // It rests.
            Cow::Owned(entry) => Status {
                condition: entry.condition,
                running: None,
                copying: false,
                differing: Vec::new(),
                deleted: deleted(&entry),
                map: Cow::Owned(entry.map),
            },
        })
    }

    /// How far each replica is with an operation that is still kept.
    #[must_use]
    pub fn standing(&self, meta: &Meta, op: &OpId) -> Option<Vec<(Site, Fulfilment)>> {
        if let Some(entry) = self.ordering.entries.get(meta) {
            return self.standing_in_order(entry, op);
        }
        let entry = self.entries.get(meta)?;
        entry.resource.ops.get(op)?;
        let here = |status: &Condition| match status {
            _ if entry.resource.progress.done.covers(op) => Fulfilment::Done,
            Condition::Diverged { status } => Fulfilment::Diverged { status: *status },
            Condition::Differs | Condition::Suspect => Fulfilment::Pending,
            Condition::Good => match &entry.running {
                Some(running) if running.execution.op == *op && running.stage == Stage::InDoubt => {
                    Fulfilment::InDoubt
                }
                _ => Fulfilment::Pending,
            },
        };
        let there = |site: &Site| {
            let said = entry.peers.get(site).and_then(|peer| peer.said.as_ref());
            if said.is_some_and(|(_, done)| done.covers(op)) { Fulfilment::Done } else { Fulfilment::Pending }
        };
        let members = entry.map.members().into_iter();
        let standing = |site: &Site| if *site == self.here { here(&entry.condition) } else { there(site) };
        Some(members.map(|site| (site.clone(), standing(site))).collect())
    }

    fn standing_in_order(&self, entry: &Ordered, op: &OpId) -> Option<Vec<(Site, Fulfilment)>> {
        let (place, turn) = entry.queue.turns.iter().find(|(_, turn)| turn.operation.id == *op)?;
        let here = match (&turn.tried, entry.condition) {
            (Some(Tried::Done { .. }), _) => Fulfilment::Done,
            (_, Condition::Diverged { status }) => Fulfilment::Diverged { status },
            _ => match &entry.running {
                Some(running) if running.execution.op == *op && running.stage == Stage::InDoubt => {
                    Fulfilment::InDoubt
                }
                _ => Fulfilment::Pending,
            },
        };
        // What nobody is to execute has no effect where it is over, and has none elsewhere to wait for.
        let standing = |site: &Site| match &turn.verdict {
            _ if *site == self.here => Some(here),
            Some(Ruling::Refuse { .. } | Ruling::Withdraw) => None,
            Some(Ruling::Execute { .. }) if entry.peers.get(site).is_some_and(|done| done > place) => {
                Some(Fulfilment::Done)
            }
            Some(Ruling::Execute { .. }) | None => Some(Fulfilment::Pending),
        };
        let members = entry.map.members().into_iter();
        Some(members.filter_map(|site| Some((site.clone(), standing(site)?))).collect())
    }

    /// The other sites that are known to have executed all that is known here of a resource: what was acknowledged here can be
    /// read there. None of one whose writes have one order, which a read goes by.
    #[must_use]
    pub fn confirmed_by(&self, meta: &Meta) -> BTreeSet<Site> {
        let Some(entry) = self.entries.get(meta) else { return BTreeSet::new() };
        let known = &entry.resource.progress.known;
        let has = |site: &&Site| {
            let said = entry.peers.get(*site).and_then(|peer| peer.said.as_ref());
            **site != self.here && said.is_some_and(|(_, done)| done.dominates(known))
        };
        entry.map.members().into_iter().filter(has).cloned().collect()
    }

    /// Whether a site is known to have finished what stands at a place in the order of a resource's writes. Every
    /// site has where the resource is no longer known.
    #[must_use]
    pub fn has_finished(&self, meta: &Meta, site: &Site, place: u64) -> bool {
        self.ordering.entries.get(meta).is_none_or(|entry| {
            let done = if *site == self.here { Some(&entry.queue.done) } else { entry.peers.get(site) };
            done.is_some_and(|done| *done > place)
        })
    }

    /// The operations on a resource that a replica is not known to have executed. Of an ordered one, another site's
    /// are among those that are not finished here.
    #[must_use]
    pub fn unexecuted(&self, meta: &Meta, site: &Site) -> Vec<Cow<'_, Operation>> {
        if let Some(entry) = self.ordering.entries.get(meta) {
            let turns = entry.queue.turns.iter().filter(|(place, _)| !self.has_finished(meta, site, **place));
            return turns.map(|(_, turn)| Cow::Borrowed(&turn.operation)).collect();
        }
        match self.entries.get(meta).filter(|entry| entry.is_member(site)) {
            None => Vec::new(),
            Some(Cow::Borrowed(entry)) => self.due(entry, site).map(Cow::Borrowed).collect(),
            Some(Cow::Owned(entry)) => self.due(&entry, site).cloned().map(Cow::Owned).collect(),
        }
    }

    /// What waits for each site, this one too. Every resource is looked at once.
    #[must_use]
    pub fn waiting(&self) -> BTreeMap<Site, Waiting> {
        let mut waiting = BTreeMap::<Site, Waiting>::new();
        // Of what rests and is confirmed, nothing waits for anybody.
        let owed: BTreeSet<&Meta> = self.links.values().flat_map(|link| &link.owed).collect();
        let owed = owed.into_iter().filter(|meta| self.entries.get_open(meta).is_none());
        let owed = owed.filter_map(|meta| self.entries.get(meta));
        let open = self.entries.open().map(|(_, entry)| Cow::Borrowed(entry));
        for entry in open.chain(owed) {
            let entry = &*entry;
            for site in entry.map.members() {
                let has = entry.peers.get(site).map(|peer| &peer.has);
                let lacks = |op: &&Operation| {
                    let has = has.is_some_and(|has| has.covers(&op.id));
                    *site != self.here && !has && !entry.resource.is_fresh(&op.id)
                };
                let unknown = entry.resource.ops.values().filter(lacks).count();
                let (mut unexecuted, mut oldest) = (0_usize, None::<u64>);
                for op in self.due(entry, site) {
                    unexecuted = unexecuted.saturating_add(1);
                    let time_ms = op.on_behalf_of.time_ms;
                    oldest = Some(oldest.map_or(time_ms, |oldest| oldest.min(time_ms)));
                }
                if unknown > 0 || unexecuted > 0 {
                    let of = waiting.entry(site.clone()).or_default();
                    of.unknown = of.unknown.saturating_add(unknown);
                    of.unexecuted = of.unexecuted.saturating_add(unexecuted);
                    of.since_ms = of.since_ms.into_iter().chain(oldest).min();
                }
            }
        }
        for (meta, entry) in &self.ordering.entries {
            for site in entry.map.members() {
                let due = self.unexecuted(meta, site);
                if let Some(oldest) = due.iter().map(|op| op.on_behalf_of.time_ms).min() {
                    let of = waiting.entry(site.clone()).or_default();
                    of.unexecuted = of.unexecuted.saturating_add(due.len());
                    of.since_ms = of.since_ms.into_iter().chain([oldest]).min();
                }
            }
        }
        waiting
    }

    /// The operations on a resource that a member is not known to have executed.
    fn due<'e>(&self, entry: &'e Entry, site: &Site) -> impl Iterator<Item = &'e Operation> + use<'e> {
        let own = *site == self.here;
        let done = match entry.peers.get(site).and_then(|peer| peer.said.as_ref()) {
            _ if own => Some(&entry.resource.progress.done),
            said => said.map(|(_, done)| done),
        };
        // What nobody has executed yet is not another site's to execute.
        let due = move |op: &&Operation| own || !entry.resource.is_fresh(&op.id);
        let lacks = move |op: &&Operation| done.is_none_or(|done| !done.covers(&op.id));
        entry.resource.ops.values().filter(due).filter(lacks)
    }
}
