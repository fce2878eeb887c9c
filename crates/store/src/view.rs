//! Reading one state, with what a session has written on top of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;
use crate::engine::{Commit, Direction, Pair, Range, Revision, Snapshot, after_key};
use crate::key::Key;
use crate::record::{Record, decode, row_key};
use crate::store::Shared;

/// One state of the store. Nothing that others do shows in it.
pub struct View {
    pub(crate) shared: Arc<Shared>,
    snapshot: Arc<dyn Snapshot>,
    pub(crate) writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// What a session has read; a view that is only read needs no account of it.
    reads: Option<Mutex<Reads>>,
    stale: AtomicBool,
}

#[derive(Default)]
struct Reads {
    keys: BTreeSet<Vec<u8>>,
    ranges: Vec<Range>,
}

impl View {
    pub(crate) fn new(shared: Arc<Shared>, snapshot: Arc<dyn Snapshot>, session: bool) -> Self {
        let reads = session.then(Mutex::default);
        Self { shared, snapshot, writes: BTreeMap::new(), reads, stale: AtomicBool::new(false) }
    }

    /// The number of the state.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.snapshot.revision()
    }

    /// The record with this key.
    pub async fn get<R: Record>(&self, key: &R::Key) -> Result<Option<R>, Error> {
        self.shared.schema.layout::<R>()?;
        let found = self.values(vec![row_key(R::TABLE.number, &key.bytes())]).await?;
        found.into_iter().flatten().next().map(|bytes| decode(&bytes)).transpose()
    }

    /// Whether the engine showed that the view is too old to go on with.
    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Relaxed)
    }

    /// The values of `keys`, in their order.
    pub(crate) async fn values(&self, keys: Vec<Vec<u8>>) -> Result<Vec<Option<Vec<u8>>>, Error> {
        self.note(keys.iter().cloned(), None)?;
        let unwritten: Vec<_> = keys.iter().filter(|key| !self.writes.contains_key(*key)).cloned().collect();
        let stored =
            if unwritten.is_empty() { Vec::new() } else { self.ask(self.snapshot.get(unwritten)).await? };
        let mut stored = stored.into_iter();
        let value = |key| self.writes.get(key).cloned().unwrap_or_else(|| stored.next().flatten());
        Ok(keys.iter().map(value).collect())
    }

    /// Some of the first pairs of a range, and the rest of it: `None` when all are there. At most `limit` are
    /// read, and those that the session wrote among them are added.
    pub(crate) async fn scan(
        &self,
        range: Range,
        direction: Direction,
        limit: usize,
    ) -> Result<(Vec<Pair>, Option<Range>), Error> {
        if range.is_empty() {
            return Ok((Vec::new(), None));
        }
        let found = self.ask(self.snapshot.scan(range.clone(), direction, limit)).await?;
        let (covered, rest) = match found.last() {
            Some((last, _)) if found.len() >= limit => split(range, last, direction),
            Some(_) | None => (range, None),
        };
        self.note(found.iter().map(|(key, _)| key.clone()), Some(&covered))?;
        let mut pairs: BTreeMap<Vec<u8>, Vec<u8>> = found.into_iter().collect();
        for (key, value) in self.writes.range(covered.start..covered.end) {
            match value {
                Some(value) => drop(pairs.insert(key.clone(), value.clone())),
                None => drop(pairs.remove(key)),
            }
        }
        let pairs = match direction {
            Direction::Forward => pairs.into_iter().collect(),
            Direction::Backward => pairs.into_iter().rev().collect(),
        };
        Ok((pairs, rest))
    }

    async fn ask<T>(&self, answer: crate::engine::Answer<T>) -> Result<T, Error> {
        let answer = answer.await;
        if matches!(answer, Err(Error::Stale)) {
            self.stale.store(true, Ordering::Relaxed);
        }
        answer
    }

    /// Notes what is read, within the limit.
    fn note(&self, keys: impl Iterator<Item = Vec<u8>>, range: Option<&Range>) -> Result<(), Error> {
        let Some(reads) = &self.reads else { return Ok(()) };
        let mut reads = reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.keys.extend(keys);
        reads.ranges.extend(range.cloned());
        self.shared.limits.keys(reads.keys.len().max(reads.ranges.len()) + self.writes.len())
    }

    /// What the session read and wrote.
    pub(crate) fn into_commit(self) -> Commit {
        let revision = self.revision();
        let reads = self.reads.map(|reads| reads.into_inner().unwrap_or_else(PoisonError::into_inner));
        let Reads { keys, ranges } = reads.unwrap_or_default();
        let writes = self.writes.into_iter().collect();
        Commit { revision, keys: keys.into_iter().collect(), ranges, writes }
    }
}

/// Parts a range behind the last key that was read from it.
fn split(range: Range, last: &[u8], direction: Direction) -> (Range, Option<Range>) {
    let Range { start, end } = range;
    let (covered, rest) = match direction {
        Direction::Forward => {
            let middle = after_key(last.to_vec());
            (Range { start, end: middle.clone() }, Range { start: middle, end })
        }
        Direction::Backward => {
            let middle = last.to_vec();
            (Range { start: middle.clone(), end }, Range { start, end: middle })
        }
    };
    (covered, Some(rest).filter(|rest| !rest.is_empty()))
}
