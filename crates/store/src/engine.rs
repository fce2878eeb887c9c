//! What a key/value engine must do to carry a store.
//!
//! An engine keeps byte strings under byte strings, ordered. A session reads from a snapshot and then commits
//! what it wrote, on the condition that nothing it read has changed since: optimistic transactions. Every
//! engine that can compare versions of keys and then write, in one step, can do this. `etcd` compares
//! `mod_revision`; Redis runs a script over versions kept beside the values. For them a [`Commit`] names every
//! key that was read, also those that a scan came across: a deleted key is found missing, a new one is newer.

pub mod embedded;
pub mod memory;
mod recent;

use std::pin::Pin;
use std::sync::Arc;

use crate::Error;

/// An answer that comes later. It can be awaited on any runtime.
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// The number of a state. Each commit makes a new one, with a larger number.
pub type Revision = u64;

/// Keys from `start`, to before `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first key of the range.
    pub start: Vec<u8>,
    /// The first key after the range.
    pub end: Vec<u8>,
}

impl Range {
    /// Every key that begins with `prefix`, which must have a byte other than 255.
    #[must_use]
    pub fn of_prefix(prefix: Vec<u8>) -> Self {
        let end = after_prefix(&prefix);
        Self { start: prefix, end }
    }

    /// Whether no key can be in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Whether `key` is in it.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && key < self.end.as_slice()
    }
}

/// The first key after all that begin with `prefix`.
pub(crate) fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            break;
        }
    }
    end
}

/// The first key after `key`.
pub(crate) fn after_key(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// In which order a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key.
    Forward,
    /// From the largest key.
    Backward,
}

/// One state of all keys.
///
/// An engine that keeps no old states answers [`Error::Stale`] where it would show a newer one.
pub trait Snapshot: Send + Sync {
    /// The state's number. What is shown may be newer, if nothing older is.
    fn revision(&self) -> Revision;

    /// The values of `keys`, in their order.
    fn get(&self, keys: Vec<Vec<u8>>) -> Answer<Vec<Option<Vec<u8>>>>;

    /// The first pairs of a range, `limit` at most. Fewer mean that there are no more.
    fn scan(&self, range: Range, direction: Direction, limit: usize) -> Answer<Vec<Pair>>;
}

/// What a session did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// The state that it read.
    pub revision: Revision,
    /// Every key that it read, there or not.
    pub keys: Vec<Vec<u8>>,
    /// Every range of which it knows all keys.
    pub ranges: Vec<Range>,
    /// New values; `None` deletes. No key comes twice.
    pub writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of its writes are durable, and made this state.
    Committed(Revision),
    /// Something it read has changed; nothing was written.
    Conflict,
}

/// An ordered key/value store with optimistic transactions. `store::contract` has what one must pass.
pub trait Engine: Send + Sync + 'static {
    /// A state in which every commit answered before this call is contained.
    fn snapshot(&self) -> Answer<Arc<dyn Snapshot>>;

    /// Writes all or nothing, if what was read has not changed; the answer comes when it is durable.
    fn commit(&self, commit: Commit) -> Answer<Outcome>;

    /// How often something was made durable so far. Sessions that share one are the gain of group commit.
    fn syncs(&self) -> u64;

    /// Lets go of files and connections. What follows answers [`Error::Closed`].
    fn close(&self) -> Answer<()>;
}
