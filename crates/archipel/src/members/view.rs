//! The sites as the mesh and people see them: what the membership knows, and the peers of the file.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mesh::{Sites, Standing};
use scope::{Atlas, Known, Site, Zone};
use sites::{Reach, Seen, Snapshot};

use crate::config::Config;

/// One view. A peer that the file names, and that was never heard of, is a site all the same: its mesh may
/// be one without membership, or its datagrams may not get through.
#[derive(Clone, Debug)]
pub struct View {
    known: Option<Snapshot>,
    /// The members, then the peers of the file that are not among them.
    members: Vec<Site>,
    /// Where those peers are among them.
    of_file: BTreeMap<Site, usize>,
    /// As the file has it.
    file: Atlas,
    /// Where the file says that a site is, seen from here: that counts before what the site says itself.
    addresses: BTreeMap<Site, String>,
}

impl View {
    /// What the file says, and nothing else.
    pub(crate) fn of_file(config: &Config) -> View {
        View::new(None, config)
    }

    pub(super) fn new(known: Option<Snapshot>, config: &Config) -> View {
        let file = config.atlas();
        let mut members =
            known.as_ref().map(|known| scope::View::members(known).to_vec()).unwrap_or_default();
        // Of one that was revoked before a restart, nothing else may be known.
        let heard = |known: &Snapshot, name: &str| known.site(name).is_some() || known.is_revoked(name);
        let gone = |site: &Site| known.as_ref().is_some_and(|known| heard(known, site.name()));
        members.extend(scope::View::members(&file).iter().filter(|site| !gone(site)).cloned());
        let first = known.as_ref().map_or(0, |known| scope::View::members(known).len());
        let of_file = members.iter().cloned().zip(0..).skip(first).collect();
        let addresses = config.peers.iter().map(|(site, peer)| (site.clone(), peer.address.to_string()));
        View { known, members, of_file, file, addresses: addresses.collect() }
    }

    /// What the membership knows, once it has started.
    #[must_use]
    pub fn heard(&self) -> Option<&Snapshot> {
        self.known.as_ref()
    }

    /// The peers of the file that were never heard of.
    pub(super) fn only_in_file(&self) -> impl Iterator<Item = usize> {
        self.first_of_file()..self.members.len()
    }

    /// The sites that may be asked now and could not be in an earlier view.
    pub(super) fn usable_since<'v>(&'v self, before: &'v View) -> impl Iterator<Item = &'v Site> {
        let usable = |view: &View, site: usize| view.standing(site) == Standing::Usable;
        let could_not = move |site: &Site| {
            scope::View::find(before, site.name()).is_some_and(|position| !usable(before, position))
        };
        let members = self.members.iter().enumerate();
        members.filter(move |(at, site)| usable(self, *at) && could_not(site)).map(|(_, site)| site)
    }

    fn first_of_file(&self) -> usize {
        self.known.as_ref().map_or(0, |known| scope::View::members(known).len())
    }

    /// Where a site is in what the membership knows.
    fn seen(&self, site: usize) -> Option<&Seen> {
        self.known.as_ref()?.seen(site)
    }

    /// Where a site is in the file.
    fn in_file(&self, site: usize) -> Option<usize> {
        scope::View::find(&self.file, self.members.get(site)?.name())
    }
}

impl Sites for View {
    fn address(&self, site: usize) -> Option<&str> {
        let here = scope::View::here(self) == site;
        let says = || self.seen(site).map(|seen| &*seen.record.says.address);
        let written = self.members.get(site).and_then(|site| self.addresses.get(site));
        written.map(String::as_str).or_else(says).filter(|_| !here)
    }

    fn standing(&self, site: usize) -> Standing {
        match self.seen(site) {
            Some(_) if scope::View::here(self) == site => Standing::Usable,
            Some(seen) if seen.quarantined => Standing::Quarantined,
            Some(seen) if seen.reach == Reach::Unreachable => Standing::Unreachable,
            _ => Standing::Usable,
        }
    }
}

impl scope::View for View {
    fn here(&self) -> usize {
        self.known.as_ref().map_or_else(|| self.file.here(), scope::View::here)
    }

    fn members(&self) -> &[Site] {
        &self.members
    }

    fn find(&self, name: &str) -> Option<usize> {
        let known = self.known.as_ref().and_then(|known| known.find(name));
        known.or_else(|| self.of_file.get(name).copied())
    }

    fn offers(&self, site: usize, service: &str) -> bool {
        match (&self.known, self.in_file(site)) {
            (Some(known), _) if site < self.first_of_file() => known.offers(site, service),
            (_, Some(site)) => self.file.offers(site, service),
            (_, None) => false,
        }
    }

    fn services(&self) -> Option<BTreeSet<&str>> {
        let mut all = self.file.services()?;
        if let Some(known) = &self.known {
            all.extend(known.services()?);
        }
        Some(all)
    }

    fn rtt(&self, from: usize, to: usize) -> Option<Duration> {
        let known = self.known.as_ref().and_then(|known| known.rtt(from, to));
        known.or_else(|| self.file.rtt(self.in_file(from)?, self.in_file(to)?))
    }

    fn label(&self, site: usize, label: &str) -> Option<&str> {
        match &self.known {
            Some(known) if site < self.first_of_file() => known.label(site, label),
            _ => self.file.label(self.in_file(site)?, label),
        }
    }

    fn metric(&self, site: usize, metric: &str) -> Option<f64> {
        self.known.as_ref()?.metric(site, metric)
    }

    fn zone(&self, name: &str) -> Option<&Zone> {
        match &self.known {
            Some(known) => known.zone(name),
            None => self.file.zone(name),
        }
    }

    fn known(&self, what: Known) -> Vec<&str> {
        let mut names = self.known.as_ref().map(|known| known.known(what)).unwrap_or_default();
        if self.known.is_none() || what == Known::Labels {
            names.extend(self.file.known(what));
            names.sort_unstable();
            names.dedup();
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use link::Authority;
    use scope::View as _;
    use sites::{Event, Machine, Metrics, Own, Says};

    use super::*;

    #[test]
    fn a_peer_of_the_file_that_is_revoked_is_no_site_also_where_nothing_else_is_known_of_it() {
        let text = "site = 'A'\nprofile = 'rest'\nidentity = '.'\n[services.image]\npublic = ['127.0.0.1:0']\nupstreams = ['http://127.0.0.1:1']\n\
            [link]\nlisten = '127.0.0.1:0'\n[peers.B]\naddress = '127.0.0.1:2'\n[peers.C]\naddress = '127.0.0.1:3'\n";
        let directory = tempfile::tempdir().unwrap();
        Authority::create("Test").unwrap().issue("A").unwrap().save(directory.path()).unwrap();
        let config = Config::read("the file", text, directory.path()).unwrap();
        let says = Says {
            address: "a:7400".into(),
            services: None,
            kind: "rest".into(),
            kind_version: "".into(),
            version: "".into(),
            labels: BTreeMap::new(),
        };
        let (site, metrics) = (config.site.clone(), Metrics::new());
        let own = Own {
            site,
            fingerprint: [1; 32],
            issued: 1,
            epoch: 1,
            wall_ms: 1,
            says,
            metrics,
            known: Vec::new(),
        };
        let mut machine = Machine::new(own, sites::Config::default(), 1, Duration::ZERO).unwrap();
        let site = Site::new("C").unwrap();
        machine.on(Event::Revoked { statement: vec![1], site, before: 2 }, Duration::ZERO, &mut Vec::new());
        let view = View::new(Some(machine.snapshot()), &config);
        assert!(view.find("B").is_some());
        assert_eq!(view.find("C"), None);
        assert!(!view.members().iter().any(|site| site.name() == "C"));
    }
}
