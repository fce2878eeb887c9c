//! What a site knows of one resource: how many of each site's operations.

use std::{cmp::Ordering, collections::BTreeMap};

use scope::Site;
use serde::{Deserialize, Serialize};

use crate::operation::OpId;

/// For each site, the highest counter among its operations on one resource. Operations of one site are
/// learnt in their order, so the counter stands for all of them up to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version(BTreeMap<Site, u64>);

impl Version {
    /// The counter of `site`; 0 where none of its operations is known.
    #[must_use]
    pub fn of(&self, site: &Site) -> u64 {
        self.0.get(site).copied().unwrap_or(0)
    }

    /// Whether it covers the operation.
    #[must_use]
    pub fn covers(&self, id: &OpId) -> bool {
        id.counter <= self.of(&id.site)
    }

    /// Covers the operation from now on.
    pub fn add(&mut self, id: &OpId) {
        if !self.covers(id) {
            self.0.insert(id.site.clone(), id.counter);
        }
    }

    /// Sets one site's counter, also downwards.
    pub(crate) fn set(&mut self, site: &Site, counter: u64) {
        if counter == 0 {
            self.0.remove(site);
        } else {
            self.0.insert(site.clone(), counter);
        }
    }

    /// Covers what either covers.
    pub fn merge(&mut self, other: &Version) {
        for (site, &counter) in &other.0 {
            if self.of(site) < counter {
                self.0.insert(site.clone(), counter);
            }
        }
    }

    /// Whether it covers everything that `other` covers.
    #[must_use]
    pub fn dominates(&self, other: &Version) -> bool {
        other.0.iter().all(|(site, &counter)| counter <= self.of(site))
    }
}

/// The causal order: `None` where each covers something that the other does not.
impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        match (self.dominates(other), other.dominates(self)) {
            (true, true) => Some(Ordering::Equal),
            (true, false) => Some(Ordering::Greater),
            (false, true) => Some(Ordering::Less),
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(counters: &[(&str, u64)]) -> Version {
        let mut version = Version::default();
        for &(site, counter) in counters {
            version.set(&Site::new(site).unwrap(), counter);
        }
        version
    }

    #[test]
    fn versions_are_ordered_by_what_they_cover() {
        let (a, b) = (version(&[("A", 2), ("B", 1)]), version(&[("A", 1), ("B", 3)]));
        assert_eq!(a.partial_cmp(&b), None);
        let mut both = a.clone();
        both.merge(&b);
        assert!(both > a && both > b);
        assert_eq!(both, version(&[("A", 2), ("B", 3)]));
        assert_eq!(version(&[("A", 0)]), Version::default());
    }
}
