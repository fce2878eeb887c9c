//! The sites as the data plane sees them: one snapshot, replaced as a whole when the membership changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use scope::{Atlas, Known, Site, View, Zone};

/// One snapshot of the sites: what the language needs to know of them, and how to reach them.
pub trait Sites: View + fmt::Debug + Send + Sync {
    /// Where a site's link listens, as `host:port`; nothing for this site, and for one that is nowhere.
    fn address(&self, site: usize) -> Option<&str>;
    /// Whether a site may be asked.
    fn standing(&self, site: usize) -> Standing;
}

/// Whether a site may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Yes.
    Usable,
    /// It is known that it cannot be reached from here.
    Unreachable,
    /// An administrator said that it must not be.
    Quarantined,
}

/// Sites that are written down, and do not change.
#[derive(Clone, Debug)]
pub struct Fixed {
    /// What is known of them.
    pub atlas: Atlas,
    /// Where the others listen: `host:port` by site.
    pub peers: BTreeMap<Site, String>,
}

impl Sites for Fixed {
    fn address(&self, site: usize) -> Option<&str> {
        self.peers.get(self.atlas.members().get(site)?).map(String::as_str)
    }

    fn standing(&self, _: usize) -> Standing {
        Standing::Usable
    }
}

impl View for Fixed {
    fn here(&self) -> usize {
        self.atlas.here()
    }

    fn members(&self) -> &[Site] {
        self.atlas.members()
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.atlas.find(name)
    }

    fn offers(&self, site: usize, service: &str) -> bool {
        self.atlas.offers(site, service)
    }

    fn services(&self) -> Option<BTreeSet<&str>> {
        self.atlas.services()
    }

    fn rtt(&self, from: usize, to: usize) -> Option<Duration> {
        self.atlas.rtt(from, to)
    }

    fn label(&self, site: usize, label: &str) -> Option<&str> {
        self.atlas.label(site, label)
    }

    fn metric(&self, site: usize, metric: &str) -> Option<f64> {
        self.atlas.metric(site, metric)
    }

    fn zone(&self, name: &str) -> Option<&Zone> {
        self.atlas.zone(name)
    }

    fn known(&self, what: Known) -> Vec<&str> {
        self.atlas.known(what)
    }
}
