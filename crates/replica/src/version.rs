//! What a site knows of one resource: how many of each site's operations.

use std::cmp::Ordering;

use scope::Site;
use serde::{Deserialize, Serialize};

use crate::epoch::Epoch;
use crate::few::Few;
use crate::operation::OpId;

/// For each run of a site, the highest counter among its operations on one resource. Operations of one run
/// are learnt in their order, so the counter stands for all of them up to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Version(Few<(Site, Epoch), u64>);

impl Version {
    /// The counter of the run that an operation is of; 0 where none of its operations is covered.
    #[must_use]
    pub fn of(&self, id: &OpId) -> u64 {
        self.0.get(&(id.site.clone(), id.epoch)).copied().unwrap_or(0)
    }

    /// Each run of which it covers something, with its counter.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (&(Site, Epoch), u64)> {
        self.0.iter().map(|(run, &counter)| (run, counter))
    }

    pub(crate) fn of_runs(runs: Vec<((Site, Epoch), u64)>) -> Version {
        Version(runs.into_iter().collect())
    }

    /// Whether it covers the operation.
    #[must_use]
    pub fn covers(&self, id: &OpId) -> bool {
        id.counter <= self.of(id)
    }

    /// Covers the operation from now on.
    pub fn add(&mut self, id: &OpId) {
        if !self.covers(id) {
            self.0.insert((id.site.clone(), id.epoch), id.counter);
        }
    }

    /// Sets the counter of the run that an operation is of, also downwards.
    pub(crate) fn set(&mut self, id: &OpId, counter: u64) {
        let run = (id.site.clone(), id.epoch);
        if counter == 0 {
            self.0.remove(&run);
        } else {
            self.0.insert(run, counter);
        }
    }

    /// What it covers of one site's operations.
    #[must_use]
    pub fn only(&self, site: &Site) -> Version {
        Version(self.0.iter().filter(|((of, _), _)| of == site).map(|(run, &n)| (run.clone(), n)).collect())
    }

    /// What it covers of the other sites' operations.
    #[must_use]
    pub fn without(&self, site: &Site) -> Version {
        Version(self.0.iter().filter(|((of, _), _)| of != site).map(|(run, &n)| (run.clone(), n)).collect())
    }

    /// Covers what either covers.
    pub fn merge(&mut self, other: &Version) {
        for (run, &counter) in other.0.iter() {
            let ours = self.0.of(run.clone());
            *ours = counter.max(*ours);
        }
    }

    /// Whether it covers everything that `other` covers.
    #[must_use]
    pub fn dominates(&self, other: &Version) -> bool {
        other.0.iter().all(|(run, counter)| self.0.get(run).is_some_and(|ours| counter <= ours))
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

    fn id(site: &str, run: u64, counter: u64) -> OpId {
        OpId { site: Site::new(site).unwrap(), epoch: Epoch { number: run, draw: 0 }, counter }
    }

    fn version(counters: &[(&str, u64)]) -> Version {
        let mut version = Version::default();
        for &(site, counter) in counters {
            version.set(&id(site, 0, counter), counter);
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

    #[test]
    fn what_a_site_did_in_one_run_says_nothing_of_another() {
        let mut version = version(&[("A", 5)]);
        assert!(version.covers(&id("A", 0, 5)) && !version.covers(&id("A", 1, 1)));
        version.add(&id("A", 1, 6));
        assert!(!version.covers(&id("A", 0, 6)));
        assert_eq!(version.without(&Site::new("A").unwrap()), Version::default());
    }
}
