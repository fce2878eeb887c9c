//! The sites as this one sees them at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use scope::{Known, Site, View, Zone};

use crate::coordinate::Coordinate;
use crate::machine::Machine;
use crate::members::{Member, OWN};
use crate::record::{Metrics, Record};

/// How a site is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// It answers somebody.
    Alive,
    /// It does not answer, and has some seconds to object.
    Suspect,
    /// It did not object. It is a member until it is forgotten.
    Dead,
    /// It said goodbye. No member.
    Left,
    /// The operator revoked its identity. No member.
    Revoked,
}

/// Whether a site can be reached from here: another question than whether it is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// As far as is known.
    Reachable,
    /// It is dead, or others reach it and this site does not.
    Unreachable,
}

/// One site, as seen from here.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What it says of itself.
    pub record: Arc<Record>,
    /// Its metrics.
    pub metrics: Option<Arc<Metrics>>,
    /// Where it is in the network.
    pub coordinate: Coordinate,
    /// The round trip that this site measured to it.
    pub measured: Option<Duration>,
    /// How it is.
    pub status: Status,
    /// Whether it can be reached from here.
    pub reach: Reach,
    /// It is visible, but not to be used.
    pub quarantined: bool,
}

impl Seen {
    fn new(member: &Member, quarantined: bool) -> Seen {
        let fails = member.link_fails || member.misses >= crate::probe::MISSES;
        let gone = matches!(member.status, Status::Dead | Status::Left | Status::Revoked);
        Seen {
            record: Arc::clone(&member.record),
            metrics: member.metrics.as_ref().map(|measures| Arc::clone(&measures.metrics)),
            coordinate: member.coordinate,
            measured: member.measured_us().map(|us| Duration::from_micros(u64::from(us))),
            status: member.status,
            reach: if fails || gone { Reach::Unreachable } else { Reach::Reachable },
            quarantined,
        }
    }

    fn is_member(&self) -> bool {
        matches!(self.status, Status::Alive | Status::Suspect | Status::Dead)
    }
}

/// The sites at one moment. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Snapshot(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    here: usize,
    /// Members, by name; what is known of each is at the same place in `seen`.
    members: Vec<Site>,
    seen: Vec<Seen>,
    /// Those that left or are revoked, by name.
    gone: Vec<Seen>,
    /// Those that are revoked, and no members: of some of them nothing else is known, after a restart say.
    revoked: BTreeSet<Site>,
    zones: BTreeMap<Box<str>, Zone>,
    labels: BTreeSet<Box<str>>,
    metrics: BTreeSet<Box<str>>,
}

impl Machine {
    /// What plans and people see now. It takes time in proportion to the number of sites.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let own = self.own_site().name();
        let quarantined = |site| self.registers.quarantines.get(site).is_some_and(|(_, on)| *on);
        let mut inner = Inner {
            here: 0,
            members: Vec::with_capacity(self.members.len()),
            seen: Vec::with_capacity(self.members.len()),
            gone: Vec::new(),
            revoked: BTreeSet::new(),
            zones: BTreeMap::new(),
            labels: BTreeSet::new(),
            metrics: BTreeSet::new(),
        };
        for (id, member) in self.members.iter() {
            let seen = Seen::new(member, quarantined(member.site()));
            // A site that is leaving still sees itself.
            if id != OWN && !seen.is_member() {
                inner.gone.push(seen);
                continue;
            }
            if member.site().name() == own {
                inner.here = inner.members.len();
            }
            inner.labels.extend(new_names(&inner.labels, seen.record.says.labels.keys()));
            let metrics = seen.metrics.iter().flat_map(|metrics| metrics.keys());
            inner.metrics.extend(new_names(&inner.metrics, metrics));
            inner.members.push(member.site().clone());
            inner.seen.push(seen);
        }
        let is_member = |site: &&Site| inner.members.contains(*site);
        inner.revoked = self.registers.revocations.keys().filter(|site| !is_member(site)).cloned().collect();
        for (name, defined) in &self.registers.zones {
            if let Some(zone) = &defined.zone {
                inner.zones.insert(name.clone(), zone.clone());
            }
        }
        Snapshot(Arc::new(inner))
    }
}

fn new_names<'n>(known: &BTreeSet<Box<str>>, names: impl Iterator<Item = &'n Box<str>>) -> Vec<Box<str>> {
    names.filter(|name| !known.contains(*name)).cloned().collect()
}

impl Snapshot {
    /// What is known of a member.
    #[must_use]
    pub fn seen(&self, site: usize) -> Option<&Seen> {
        self.0.seen.get(site)
    }

    /// What is known of a site, member or not.
    #[must_use]
    pub fn site(&self, name: &str) -> Option<&Seen> {
        let gone = || self.0.gone.iter().find(|seen| seen.record.site.name() == name);
        self.find(name).and_then(|site| self.seen(site)).or_else(gone)
    }

    /// Whether the operator took back what a site proved itself by, and it has nothing newer.
    #[must_use]
    pub fn is_revoked(&self, name: &str) -> bool {
        self.0.revoked.contains(name)
    }

    /// Every site that is known: the members, then those that left or are revoked, each by name.
    pub fn all(&self) -> impl Iterator<Item = &Seen> {
        self.0.seen.iter().chain(&self.0.gone)
    }

    /// Whether requests may be sent to a site. A plan may name one that is not usable; its leg fails at
    /// once, as that of an unreachable site does.
    #[must_use]
    pub fn usable(&self, name: &str) -> bool {
        let Some(site) = self.find(name) else { return false };
        let usable = |seen: &Seen| !seen.quarantined && seen.reach == Reach::Reachable;
        site == self.0.here || self.seen(site).is_some_and(usable)
    }

    /// The round trip between two sites, and by which fraction it may be off; measured where this site
    /// measured it, else estimated.
    #[must_use]
    pub fn distance(&self, from: usize, to: usize) -> Option<(Duration, f32)> {
        let (a, b) = (self.seen(from)?, self.seen(to)?);
        if from == to {
            return Some((Duration::ZERO, 0.0));
        }
        let measured = match self.0.here {
            here if here == from => b.measured,
            here if here == to => a.measured,
            _ => None,
        };
        if let Some(measured) = measured {
            return Some((measured, 0.05));
        }
        let known = a.coordinate.is_known() && b.coordinate.is_known();
        known.then(|| (a.coordinate.rtt(&b.coordinate), a.coordinate.error().max(b.coordinate.error())))
    }

    /// The zones, by name.
    pub fn zones(&self) -> impl Iterator<Item = (&str, &Zone)> {
        self.0.zones.iter().map(|(name, zone)| (&**name, zone))
    }
}

impl View for Snapshot {
    fn here(&self) -> usize {
        self.0.here
    }

    fn members(&self) -> &[Site] {
        &self.0.members
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.0.members.binary_search_by(|site| site.name().cmp(name)).ok()
    }

    fn offers(&self, site: usize, service: &str) -> bool {
        let services = self.seen(site).map(|seen| &seen.record.says.services);
        services.is_some_and(|services| services.as_ref().is_none_or(|services| services.contains(service)))
    }

    fn services(&self) -> Option<BTreeSet<&str>> {
        let mut all = BTreeSet::new();
        for seen in &self.0.seen {
            all.extend(seen.record.says.services.as_ref()?.iter().map(AsRef::as_ref));
        }
        Some(all)
    }

    fn rtt(&self, from: usize, to: usize) -> Option<Duration> {
        self.distance(from, to).map(|(rtt, _)| rtt)
    }

    fn label(&self, site: usize, label: &str) -> Option<&str> {
        self.seen(site)?.record.says.labels.get(label).map(AsRef::as_ref)
    }

    fn metric(&self, site: usize, metric: &str) -> Option<f64> {
        self.seen(site)?.metrics.as_ref()?.get(metric).copied()
    }

    fn zone(&self, name: &str) -> Option<&Zone> {
        self.0.zones.get(name)
    }

    fn known(&self, what: Known) -> Vec<&str> {
        match what {
            Known::Zones => self.0.zones.keys().map(AsRef::as_ref).collect(),
            Known::Labels => self.0.labels.iter().map(AsRef::as_ref).collect(),
            Known::Metrics => self.0.metrics.iter().map(AsRef::as_ref).collect(),
        }
    }
}
