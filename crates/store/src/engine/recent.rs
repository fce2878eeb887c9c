//! Which keys changed lately: what optimistic commits are checked against.

use std::collections::{BTreeMap, VecDeque};

use super::{Commit, Revision};

/// How many changes are remembered. A session that began before the oldest of them must run again; at 10,000
/// changed keys a second, that is one which takes longer than a second and a half. It takes 4 MiB at most.
const CAPACITY: usize = 1 << 14;

/// The latest changes. What was forgotten is older than `horizon`, or as old.
#[derive(Debug)]
pub(super) struct Recent {
    changed: BTreeMap<Vec<u8>, Revision>,
    order: VecDeque<(Revision, Vec<u8>)>,
    horizon: Revision,
    capacity: usize,
}

impl Recent {
    /// Nothing is known of changes up to `horizon`.
    pub(super) fn since(horizon: Revision) -> Self {
        Self { changed: BTreeMap::new(), order: VecDeque::new(), horizon, capacity: CAPACITY }
    }

    /// Whether something that `commit` read has, or may have, changed since.
    pub(super) fn conflicts(&self, commit: &Commit) -> bool {
        if commit.keys.is_empty() && commit.ranges.is_empty() {
            return false;
        }
        let newer = |revision: &Revision| *revision > commit.revision;
        commit.revision < self.horizon
            || commit.keys.iter().any(|key| self.changed.get(key).is_some_and(newer))
            || commit.ranges.iter().any(|range| {
                !range.is_empty()
                    && self.changed.range(range.start.clone()..range.end.clone()).any(|(_, at)| newer(at))
            })
    }

    /// Notes that `revision` changed what `commit` writes.
    pub(super) fn note(&mut self, revision: Revision, commit: &Commit) {
        for (key, _) in &commit.writes {
            self.changed.insert(key.clone(), revision);
            self.order.push_back((revision, key.clone()));
        }
        while self.order.len() > self.capacity {
            let Some((at, key)) = self.order.pop_front() else { break };
            if self.changed.get(&key) == Some(&at) {
                self.changed.remove(&key);
            }
            self.horizon = self.horizon.max(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(key: u8) -> Commit {
        Commit { writes: vec![(vec![key], None)], ..Commit::default() }
    }

    fn read(key: u8, revision: Revision) -> Commit {
        Commit { revision, keys: vec![vec![key]], ..Commit::default() }
    }

    #[test]
    fn what_is_older_than_memory_conflicts_rather_than_passes() {
        let mut recent = Recent { capacity: 2, ..Recent::since(0) };
        for revision in 1..=4 {
            recent.note(revision, &write(u8::try_from(revision).unwrap()));
        }
        assert!(recent.conflicts(&read(1, 0)), "its change is forgotten");
        assert!(recent.conflicts(&read(9, 1)), "nothing is known of so old a state");
        assert!(!recent.conflicts(&read(9, 2)));
        assert!(recent.conflicts(&read(3, 2)));
        assert!(!recent.conflicts(&read(3, 3)));
    }
}
