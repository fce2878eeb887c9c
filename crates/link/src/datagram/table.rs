//! What this site knows of the others that it exchanges datagrams with.

use std::collections::HashMap;
use std::time::SystemTime;

use super::packet::Moment;
use super::window::Window;
use crate::certificate::{Certificate, Fingerprint};

/// More than the largest operators have. Only sites of this authority can take a place.
const MOST_SITES: usize = 16_384;

/// One other site.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) key: Vec<u8>,
    pub(super) fingerprint: Fingerprint,
    pub(super) id: [u8; 8],
    pub(super) issued: SystemTime,
    pub(super) until: SystemTime,
    /// Its present run, and what was seen of it.
    pub(super) run: Option<u64>,
    pub(super) window: Window,
    /// It has evidently opened a datagram of this run of ours, so it has our certificate.
    pub(super) holds_ours: bool,
    /// Our stamp when it was asked to prove that it is not a replay.
    pub(super) asked: Option<u64>,
    /// The last moment of it that was not proven.
    pub(super) claimed: Option<Moment>,
    used: u64,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    sites: HashMap<String, Known>,
    /// What echoes an earlier stamp of ours may be older than the memory of its sender.
    pub(super) floor: u64,
    uses: u64,
}

impl Table {
    pub(super) fn get(&self, site: &str) -> Option<&Known> {
        self.sites.get(site)
    }

    pub(super) fn get_mut(&mut self, site: &str) -> Option<&mut Known> {
        self.uses += 1;
        let known = self.sites.get_mut(site)?;
        known.used = self.uses;
        Some(known)
    }

    /// Puts a site that is new, or has a new certificate; `now` is our present stamp.
    pub(super) fn put(&mut self, read: &Certificate, id: [u8; 8], now: u64) {
        let Certificate { site, issued, until, key, fingerprint } = read.clone();
        if let Some(known) = self.get_mut(&site) {
            // What was seen of it still counts as seen.
            (known.key, known.id, known.issued, known.until) = (key, id, issued, until);
            known.fingerprint = fingerprint;
            return;
        }
        if self.sites.len() >= MOST_SITES {
            self.forget_some(now);
        }
        let used = self.uses;
        let known = Known {
            key,
            fingerprint,
            id,
            issued,
            until,
            run: None,
            window: Window::default(),
            holds_ours: false,
            asked: None,
            claimed: None,
            used,
        };
        self.sites.insert(site, known);
    }

    /// Forgets the eighth that was used least lately. Whoever comes back must show that it is not a replay.
    fn forget_some(&mut self, now: u64) {
        let mut uses: Vec<u64> = self.sites.values().map(|known| known.used).collect();
        let middle = uses.len() / 8;
        if middle < uses.len() {
            let (_, eldest, _) = uses.select_nth_unstable(middle);
            let eldest = *eldest;
            self.sites.retain(|_, known| known.used > eldest);
        }
        self.floor = now;
    }

    /// The latest that was seen of a site, to tell it; and whether it has our certificate.
    pub(super) fn seen_of(&self, site: Option<&str>) -> (Moment, bool) {
        let known = site.and_then(|site| self.get(site));
        let seen = known.and_then(|known| {
            known.claimed.or_else(|| Some(Moment { run: known.run?, stamp: known.window.latest() }))
        });
        (seen.unwrap_or_default(), known.is_some_and(|known| known.holds_ours))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_bounded_and_keeps_those_that_are_used() {
        let mut table = Table::default();
        for number in 0..2 * MOST_SITES {
            let read = Certificate {
                site: format!("Site{number}"),
                issued: SystemTime::UNIX_EPOCH,
                until: SystemTime::UNIX_EPOCH,
                key: Vec::new(),
                fingerprint: Fingerprint::of(&[]),
            };
            table.put(&read, [0; 8], 7);
            assert!(table.get_mut("Site0").is_some());
            assert!(table.sites.len() <= MOST_SITES);
        }
        assert_eq!(table.floor, 7);
    }
}
