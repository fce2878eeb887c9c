//! In the background, sites find out what they do not have alike.
//!
//! What is **known** is compared as a whole: all that two sites share falls into buckets, and a number stands
//! for each. Equal numbers, and that was all: 2 KiB for any number of resources. Where a bucket differs, its
//! resources are listed, and each that differs is asked for as after a restart. What services **have** has to
//! be read, so it is compared for a few resources at a time, in turn.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;

use scope::Site;
use siphasher::sip::SipHasher13;

use crate::entry::{Entry, Peer};
use crate::event::{Line, Message, Timer};
use crate::machine::Machine;
use crate::operation::{Level, Meta};
use crate::record::{self, Condition};
use crate::version::Version;

/// So many buckets, whatever there is: a bucket's number is the first byte of its resources' hashes.
const BUCKETS: usize = 256;

fn hash<T: serde::Serialize>(value: &T) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(&record::encode(value));
    hasher.finish()
}

fn bucket(meta: &Meta) -> u8 {
    let [first, ..] = hash(meta).to_be_bytes();
    first
}

impl Machine {
    /// The first time that something is shared with a site, its surveys begin; so do the sweeps.
    pub(crate) fn watch(&mut self, site: &Site) {
        let link = self.links.entry(site.clone()).or_default();
        if !std::mem::replace(&mut link.surveyed, true) {
            self.wake_after(Timer::Survey(site.clone()), self.settings.survey_ms);
        }
        if !std::mem::replace(&mut self.sweeps, true) {
            self.wake_after(Timer::Sweep, self.settings.sweep_ms);
        }
    }

    /// What both sites have a replica of.
    fn shared_with(&self, site: &Site) -> impl Iterator<Item = (&Meta, Cow<'_, Entry>)> {
        let both = move |entry: &Entry| {
            let told = entry.condition != Condition::Suspect;
            entry.is_member(site) && entry.is_member(&self.here) && told
        };
        self.entries.iter().filter(move |(_, entry)| both(entry) && !entry.is_undecided())
    }

    /// For each bucket, the sum over its resources: their order does not matter.
    fn buckets(&self, site: &Site) -> Vec<u64> {
        let mut sums = vec![0_u64; BUCKETS];
        for (meta, entry) in self.shared_with(site) {
            let value = hash(&(meta, entry.resource.shared_known(), &entry.resource.progress.done));
            if let Some(sum) = sums.get_mut(usize::from(bucket(meta))) {
                *sum = sum.wrapping_add(value);
            }
        }
        sums
    }

    /// A timer ran out: the site is told what is known here.
    pub(crate) fn survey(&mut self, site: &Site) {
        let shares = self.shared_with(site).next().is_some();
        if let Some(link) = self.links.get_mut(site) {
            link.surveyed = shares;
        }
        if shares {
            let (epoch, buckets) = (self.epoch, self.buckets(site));
            self.send(site, Message::Survey { epoch, buckets });
            self.wake_after(Timer::Survey(site.clone()), self.settings.survey_ms);
        }
    }

    /// Another site says what it knows: where that differs, it is told what is known here.
    pub(crate) fn surveyed(&mut self, from: &Site, buckets: &[u64]) {
        let ours = self.buckets(from);
        let differing = (0_u8..=u8::MAX)
            .zip(ours.iter().zip(buckets))
            .filter(|(_, (ours, theirs))| ours != theirs)
            .map(|(bucket, _)| bucket);
        self.list(from, &differing.collect(), true);
    }

    /// Lists what is known in some buckets: as many as are not too much for one message, and one at least.
    /// The next survey finds the rest.
    fn list(&mut self, to: &Site, buckets: &BTreeSet<u8>, answer: bool) {
        let mut found: BTreeMap<u8, Vec<Line>> = buckets.iter().map(|&bucket| (bucket, Vec::new())).collect();
        for (meta, entry) in self.shared_with(to) {
            if let Some(lines) = found.get_mut(&bucket(meta)) {
                let (known, done) = (entry.resource.shared_known(), entry.resource.progress.done.clone());
                lines.push(Line { resource: meta.clone(), known, done });
            }
        }
        let (mut buckets, mut lines) = (BTreeSet::new(), Vec::new());
        for (bucket, some) in found {
            if !lines.is_empty() && lines.len().saturating_add(some.len()) > self.settings.lines {
                break;
            }
            buckets.insert(bucket);
            lines.extend(some);
        }
        if !buckets.is_empty() {
            let epoch = self.epoch;
            self.send(to, Message::Listing { epoch, buckets, lines, answer });
        }
    }

    /// Another site lists what it knows. What differs here is asked for, and so it is there.
    pub(crate) fn listed(&mut self, from: &Site, buckets: &BTreeSet<u8>, lines: Vec<Line>, answer: bool) {
        let mut theirs: BTreeMap<Meta, (Version, Version)> =
            lines.into_iter().map(|line| (line.resource, (line.known, line.done))).collect();
        let mut unequal = Vec::new();
        for (meta, entry) in self.shared_with(from).filter(|(meta, _)| buckets.contains(&bucket(meta))) {
            let ours = (entry.resource.shared_known(), entry.resource.progress.done.clone());
            if theirs.remove(meta) != Some(ours) {
                unequal.push(meta.clone());
            }
        }
        for meta in &unequal {
            if let Some(entry) = self.entries.get_mut(meta) {
                entry.peers.insert(from.clone(), Peer::default());
            }
        }
        self.owe(from, unequal);
        if answer {
            self.list(from, buckets, false);
        }
    }

    /// A timer ran out: the next few resources are compared. Of the replicas' sites, the first one does it.
    pub(crate) fn sweep(&mut self) {
        let first = |entry: &Entry| entry.map.members().first().is_some_and(|site| **site == self.here);
        let due = |entry: &Entry| {
            entry.map.level != Level::Weak && entry.map.members().len() > 1 && entry.resource.is_here()
        };
        let after = |meta: &Meta| self.swept.as_ref().is_none_or(|swept| meta > swept);
        let metas: Vec<_> = self
            .entries
            .iter()
            .filter(|(meta, entry)| after(meta) && first(entry) && due(entry))
            .map(|(meta, _)| meta.clone())
            .take(self.settings.sweep)
            .collect();
        self.swept = metas.last().filter(|_| metas.len() == self.settings.sweep).cloned();
        for meta in &metas {
            self.compare(meta);
        }
        self.inquire(&metas);
        self.wake_after(Timer::Sweep, self.settings.sweep_ms);
    }
}
