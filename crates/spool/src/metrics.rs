//! Counts, for whoever shows them.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a spool counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) stored: AtomicU64,
    pub(crate) erased: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) over_quota: AtomicU64,
    pub(crate) disk_faults: AtomicU64,
    pub(crate) damaged: AtomicU64,
}

/// The counts since a spool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Bodies made durable.
    pub stored: u64,
    /// Bodies erased.
    pub erased: u64,
    /// Bytes of bodies written, also of such as were given up.
    pub written_bytes: u64,
    /// Bytes of bodies read.
    pub read_bytes: u64,
    /// Writes refused because of the quota.
    pub over_quota: u64,
    /// Writes that the disk failed, or had no room for.
    pub disk_faults: u64,
    /// Segments read that were not what was written.
    pub damaged: u64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Metrics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Metrics {
            stored: read(&self.stored),
            erased: read(&self.erased),
            written_bytes: read(&self.written_bytes),
            read_bytes: read(&self.read_bytes),
            over_quota: read(&self.over_quota),
            disk_faults: read(&self.disk_faults),
            damaged: read(&self.damaged),
        }
    }
}
