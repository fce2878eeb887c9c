//! An engine in memory: for tests, and for sites without a state directory. Nothing survives the process.

use std::collections::{BTreeMap, VecDeque};
use std::future::ready;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::recent::Recent;
use super::{Answer, Commit, Direction, Engine, Outcome, Pair, Range, Revision, Snapshot};
use crate::Error;

/// The engine. It runs in the caller's thread, so that a simulation which uses it can be repeated.
#[derive(Clone, Debug)]
pub struct Memory {
    state: Arc<Mutex<State>>,
}

/// A key's values, oldest first; `None` is none from then on.
type Versions = Vec<(Revision, Option<Vec<u8>>)>;

#[derive(Debug)]
struct State {
    revision: Revision,
    keys: BTreeMap<Vec<u8>, Versions>,
    recent: Recent,
    /// How many snapshots there are of each state.
    readers: BTreeMap<Revision, usize>,
    /// Keys with a version that nobody reads once all readers are at this revision, or later.
    garbage: VecDeque<(Revision, Vec<u8>)>,
    closed: bool,
}

impl Memory {
    /// An empty engine.
    #[must_use]
    pub fn new() -> Self {
        let state = State {
            revision: 0,
            keys: BTreeMap::new(),
            recent: Recent::since(0),
            readers: BTreeMap::new(),
            garbage: VecDeque::new(),
            closed: false,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

/// No step under the lock can leave half of a change behind, so a panic elsewhere is no reason to stop.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine for Memory {
    fn snapshot(&self) -> Answer<Arc<dyn Snapshot>> {
        let mut state = lock(&self.state);
        if state.closed {
            return Box::pin(ready(Err(Error::Closed)));
        }
        let revision = state.revision;
        *state.readers.entry(revision).or_default() += 1;
        let snapshot: Arc<dyn Snapshot> = Arc::new(At { revision, state: Arc::clone(&self.state) });
        Box::pin(ready(Ok(snapshot)))
    }

    fn commit(&self, commit: Commit) -> Answer<Outcome> {
        let mut state = lock(&self.state);
        let outcome = if state.closed { Err(Error::Closed) } else { Ok(state.commit(commit)) };
        Box::pin(ready(outcome))
    }

    fn syncs(&self) -> u64 {
        0
    }

    fn close(&self) -> Answer<()> {
        lock(&self.state).closed = true;
        Box::pin(ready(Ok(())))
    }
}

impl State {
    fn commit(&mut self, commit: Commit) -> Outcome {
        if self.recent.conflicts(&commit) {
            return Outcome::Conflict;
        }
        self.revision += 1;
        self.recent.note(self.revision, &commit);
        for (key, value) in commit.writes {
            let versions = self.keys.entry(key.clone()).or_default();
            if !versions.is_empty() || value.is_none() {
                self.garbage.push_back((self.revision, key));
            }
            versions.push((self.revision, value));
        }
        self.collect();
        Outcome::Committed(self.revision)
    }

    /// Forgets what no reader can see.
    fn collect(&mut self) {
        let oldest = self.readers.keys().next().copied().unwrap_or(self.revision);
        while self.garbage.front().is_some_and(|(at, _)| *at <= oldest) {
            let Some((_, key)) = self.garbage.pop_front() else { break };
            let Some(versions) = self.keys.get_mut(&key) else { continue };
            let seen = versions.iter().rposition(|(at, _)| *at <= oldest).unwrap_or(0);
            versions.drain(..seen);
            if matches!(versions.as_slice(), [(at, None)] if *at <= oldest) {
                self.keys.remove(&key);
            }
        }
    }
}

/// The value at a revision.
fn at(versions: &Versions, revision: Revision) -> Option<&Vec<u8>> {
    versions.iter().rev().find(|(at, _)| *at <= revision).and_then(|(_, value)| value.as_ref())
}

struct At {
    revision: Revision,
    state: Arc<Mutex<State>>,
}

impl Drop for At {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        if let Some(count) = state.readers.get_mut(&self.revision) {
            *count -= 1;
            if *count == 0 {
                state.readers.remove(&self.revision);
                state.collect();
            }
        }
    }
}

impl Snapshot for At {
    fn revision(&self) -> Revision {
        self.revision
    }

    fn get(&self, keys: Vec<Vec<u8>>) -> Answer<Vec<Option<Vec<u8>>>> {
        let state = lock(&self.state);
        let value = |key| state.keys.get(key).and_then(|versions| at(versions, self.revision)).cloned();
        let values = keys.iter().map(value).collect();
        Box::pin(ready(Ok(values)))
    }

    fn scan(&self, range: Range, direction: Direction, limit: usize) -> Answer<Vec<Pair>> {
        if range.is_empty() {
            return Box::pin(ready(Ok(Vec::new())));
        }
        let state = lock(&self.state);
        let bounds = (Bound::Included(range.start), Bound::Excluded(range.end));
        let pairs = state.keys.range::<Vec<u8>, _>(bounds);
        let pair = |(key, versions): (&Vec<u8>, &Versions)| {
            at(versions, self.revision).map(|value| (key.clone(), value.clone()))
        };
        let found = match direction {
            Direction::Forward => pairs.filter_map(pair).take(limit).collect(),
            Direction::Backward => pairs.rev().filter_map(pair).take(limit).collect(),
        };
        Box::pin(ready(Ok(found)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_go_with_their_last_reader() {
        let memory = Memory::new();
        let write = |value: Option<u8>| {
            let writes = vec![(vec![1], value.map(|value| vec![value]))];
            lock(&memory.state).commit(Commit { writes, ..Commit::default() });
        };
        write(Some(1));
        drop(memory.snapshot());
        write(Some(2));
        assert_eq!(lock(&memory.state).keys[&vec![1]].len(), 1);
        let reader = At { revision: 2, state: Arc::clone(&memory.state) };
        lock(&memory.state).readers.insert(2, 1);
        write(Some(3));
        write(None);
        assert_eq!(lock(&memory.state).keys[&vec![1]].len(), 3);
        drop(reader);
        assert!(lock(&memory.state).keys.is_empty());
    }
}
