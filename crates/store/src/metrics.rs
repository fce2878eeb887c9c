//! Counts, for whoever shows them.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a store counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sessions: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) given_up: AtomicU64,
}

/// The counts since a store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Sessions begun.
    pub sessions: u64,
    /// Sessions that wrote, and are durable.
    pub commits: u64,
    /// Attempts that others' changes made void.
    pub conflicts: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// Sessions given up after too many conflicts.
    pub given_up: u64,
    /// How often the engine made something durable: fsyncs, for the embedded one.
    pub syncs: u64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, syncs: u64) -> Metrics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Metrics {
            sessions: read(&self.sessions),
            commits: read(&self.commits),
            conflicts: read(&self.conflicts),
            retries: read(&self.retries),
            given_up: read(&self.given_up),
            syncs,
        }
    }
}
