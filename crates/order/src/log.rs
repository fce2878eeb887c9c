//! A group's log in memory, which remembers what has to be made durable.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use omnipaxos::ballot_leader_election::Ballot;
use omnipaxos::storage::{Entry, NoSnapshot, StopSign, Storage, StorageOp, StorageResult};
use serde::{Deserialize, Serialize};

/// Who proposed an entry: no two entries have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash)]
pub(crate) struct Origin {
    /// The member, by its place in the group.
    pub(crate) member: u64,
    /// How often that site had started.
    pub(crate) start: u64,
    /// Its proposals since.
    pub(crate) number: u64,
}

/// What stands at one place of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Slot {
    pub(crate) origin: Origin,
    /// None: a mark, which only says that what is before it was committed.
    pub(crate) bytes: Option<Vec<u8>>,
}

impl Entry for Slot {
    type Snapshot = NoSnapshot;
}

/// What was promised in a group, and how far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub(crate) promise: Option<Ballot>,
    pub(crate) accepted: Option<Ballot>,
    /// So many entries are committed.
    pub(crate) decided: usize,
    /// So many of them were given to this site.
    pub(crate) given: usize,
    /// So many of those are gone from the log.
    pub(crate) first: usize,
}

/// The library's ballots have no hash: equal heads still have equal ones.
impl Hash for Head {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.decided, self.given, self.first).hash(state);
    }
}

/// The log, and what of it changed since it was last made durable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Log {
    pub(crate) head: Head,
    slots: Vec<Slot>,
    /// The head as it is durable.
    durable: Head,
    put: BTreeSet<usize>,
    gone: BTreeSet<usize>,
}

/// What has to be made durable of a log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) head: Option<Head>,
    pub(crate) put: Vec<(usize, Slot)>,
    pub(crate) gone: Vec<usize>,
}

impl Log {
    /// As it was recorded.
    pub(crate) fn restore(head: Head, mut slots: BTreeMap<usize, Slot>) -> Log {
        let durable = head.clone();
        let slots = (head.first..).map_while(|index| slots.remove(&index)).collect();
        Log { head, slots, durable, ..Log::default() }
    }

    /// What changed since this was last asked.
    pub(crate) fn changes(&mut self) -> Changes {
        let head = (self.head != self.durable).then(|| self.head.clone());
        self.durable = self.head.clone();
        let put = std::mem::take(&mut self.put);
        let put = put.into_iter().filter_map(|index| Some((index, self.at(index)?.clone()))).collect();
        Changes { head, put, gone: std::mem::take(&mut self.gone).into_iter().collect() }
    }

    /// All entries that it holds.
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Another log takes the place of all of it.
    pub(crate) fn adopt(&mut self, head: Head, slots: Vec<Slot>) {
        self.cut(self.head.first);
        self.head = head;
        for slot in slots {
            self.append(slot);
        }
    }

    pub(crate) fn at(&self, index: usize) -> Option<&Slot> {
        self.slots.get(index.checked_sub(self.head.first)?)
    }

    /// One beyond the last entry.
    pub(crate) fn end(&self) -> usize {
        self.head.first.saturating_add(self.slots.len())
    }

    /// How many entries it holds.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    fn append(&mut self, slot: Slot) {
        let index = self.end();
        self.gone.remove(&index);
        self.put.insert(index);
        self.slots.push(slot);
    }

    fn cut(&mut self, from: usize) {
        for index in from..self.end() {
            self.put.remove(&index);
            self.gone.insert(index);
        }
        self.slots.truncate(from.saturating_sub(self.head.first));
    }

    fn trim(&mut self, upto: usize) {
        let count = upto.saturating_sub(self.head.first).min(self.slots.len());
        self.slots.drain(..count);
        for index in self.head.first..self.head.first.saturating_add(count) {
            self.put.remove(&index);
            self.gone.insert(index);
        }
        self.head.first = self.head.first.max(upto);
    }

    fn between(&self, from: usize, to: usize) -> Vec<Slot> {
        let from = from.checked_sub(self.head.first);
        let to = to.checked_sub(self.head.first);
        from.zip(to).and_then(|(from, to)| self.slots.get(from..to)).unwrap_or_default().to_vec()
    }
}

/// The library owns its storage; this is a second handle on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared(Arc<Mutex<Log>>);

impl Shared {
    pub(crate) fn new(log: Log) -> Shared {
        Shared(Arc::new(Mutex::new(log)))
    }

    pub(crate) fn get(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// In memory nothing fails, and all that one call changed becomes durable together.
impl Storage<Slot> for Shared {
    fn write_atomically(&mut self, ops: Vec<StorageOp<Slot>>) -> StorageResult<()> {
        for op in ops {
            match op {
                StorageOp::AppendEntry(slot) => self.append_entry(slot)?,
                StorageOp::AppendEntries(slots) => self.append_entries(slots)?,
                StorageOp::AppendOnPrefix(from, slots) => self.append_on_prefix(from, slots)?,
                StorageOp::SetPromise(ballot) => self.set_promise(ballot)?,
                StorageOp::SetDecidedIndex(index) => self.set_decided_idx(index)?,
                StorageOp::SetAcceptedRound(ballot) => self.set_accepted_round(ballot)?,
                StorageOp::SetCompactedIdx(index) => self.set_compacted_idx(index)?,
                StorageOp::Trim(index) => self.trim(index)?,
                StorageOp::SetStopsign(sign) => self.set_stopsign(sign)?,
                StorageOp::SetSnapshot(snapshot) => self.set_snapshot(snapshot)?,
            }
        }
        Ok(())
    }

    fn append_entry(&mut self, slot: Slot) -> StorageResult<()> {
        self.get().append(slot);
        Ok(())
    }

    fn append_entries(&mut self, slots: Vec<Slot>) -> StorageResult<()> {
        let mut log = self.get();
        for slot in slots {
            log.append(slot);
        }
        Ok(())
    }

    fn append_on_prefix(&mut self, from: usize, slots: Vec<Slot>) -> StorageResult<()> {
        self.get().cut(from);
        self.append_entries(slots)
    }

    fn set_promise(&mut self, ballot: Ballot) -> StorageResult<()> {
        self.get().head.promise = Some(ballot);
        Ok(())
    }

    fn set_decided_idx(&mut self, index: usize) -> StorageResult<()> {
        self.get().head.decided = index;
        Ok(())
    }

    fn get_decided_idx(&self) -> StorageResult<usize> {
        Ok(self.get().head.decided)
    }

    fn set_accepted_round(&mut self, ballot: Ballot) -> StorageResult<()> {
        self.get().head.accepted = Some(ballot);
        Ok(())
    }

    fn get_accepted_round(&self) -> StorageResult<Option<Ballot>> {
        Ok(self.get().head.accepted)
    }

    fn get_entries(&self, from: usize, to: usize) -> StorageResult<Vec<Slot>> {
        Ok(self.get().between(from, to))
    }

    fn get_log_len(&self) -> StorageResult<usize> {
        Ok(self.get().len())
    }

    fn get_suffix(&self, from: usize) -> StorageResult<Vec<Slot>> {
        let log = self.get();
        Ok(log.between(from, log.end()))
    }

    fn get_promise(&self) -> StorageResult<Option<Ballot>> {
        Ok(self.get().head.promise)
    }

    // Groups are not reconfigured: another set of sites is another group.
    fn set_stopsign(&mut self, _sign: Option<StopSign>) -> StorageResult<()> {
        Ok(())
    }

    fn get_stopsign(&self) -> StorageResult<Option<StopSign>> {
        Ok(None)
    }

    fn trim(&mut self, index: usize) -> StorageResult<()> {
        self.get().trim(index);
        Ok(())
    }

    fn set_compacted_idx(&mut self, index: usize) -> StorageResult<()> {
        self.get().trim(index);
        Ok(())
    }

    fn get_compacted_idx(&self) -> StorageResult<usize> {
        Ok(self.get().head.first)
    }

    fn set_snapshot(&mut self, _snapshot: Option<NoSnapshot>) -> StorageResult<()> {
        Ok(())
    }

    fn get_snapshot(&self) -> StorageResult<Option<NoSnapshot>> {
        Ok(None)
    }
}
