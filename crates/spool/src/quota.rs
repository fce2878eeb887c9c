//! How many bytes the files may have together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;

#[derive(Debug)]
pub(crate) struct Quota {
    limit: u64,
    used: AtomicU64,
}

impl Quota {
    pub(crate) fn new(limit: u64) -> Arc<Quota> {
        Arc::new(Quota { limit, used: AtomicU64::new(0) })
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// Bytes that one file has, or may grow to. Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    quota: Arc<Quota>,
    bytes: u64,
}

impl Reservation {
    pub(crate) fn none(quota: &Arc<Quota>) -> Reservation {
        Reservation { quota: Arc::clone(quota), bytes: 0 }
    }

    /// For a file that is there already, whatever the limit is now.
    pub(crate) fn found(quota: &Arc<Quota>, bytes: u64) -> Reservation {
        quota.used.fetch_add(bytes, Ordering::Relaxed);
        Reservation { quota: Arc::clone(quota), bytes }
    }

    /// Sees to it that so many bytes are reserved.
    pub(crate) fn grow_to(&mut self, bytes: u64) -> Result<(), Error> {
        let wanted = bytes.saturating_sub(self.bytes);
        if wanted == 0 {
            return Ok(());
        }
        let limit = self.quota.limit;
        let grown = self.quota.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(wanted).filter(|used| *used <= limit)
        });
        grown.map_err(|used| Error::OverQuota { wanted, used, quota: limit })?;
        self.bytes = bytes;
        Ok(())
    }

    /// Never gives it back: the file is still there.
    pub(crate) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.quota.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
