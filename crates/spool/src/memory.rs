//! Memory that all fan-outs share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the windows of several fan-outs may take up together. Each gets an equal share, which shrinks as more begin.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bytes: usize,
    sharers: AtomicUsize,
}

impl Memory {
    /// So many bytes, for all who are given a clone of this.
    #[must_use]
    pub fn new(bytes: usize) -> Memory {
        Memory(Arc::new(Inner { bytes, sharers: AtomicUsize::new(0) }))
    }

    pub(crate) fn join(&self) -> Share {
        self.0.sharers.fetch_add(1, Ordering::Relaxed);
        Share(self.clone())
    }
}

/// One fan-out's part.
#[derive(Debug)]
pub(crate) struct Share(Memory);

impl Share {
    pub(crate) fn bytes(&self) -> usize {
        let memory = &self.0.0;
        memory.bytes / memory.sharers.load(Ordering::Relaxed).max(1)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.0.sharers.fetch_sub(1, Ordering::Relaxed);
    }
}
