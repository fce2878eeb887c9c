//! What was executed, so that a test can see that nothing ran twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

/// Names remembered per kind of write: a benchmark that never repeats a name must not grow for ever.
const MAX_NAMES: usize = 100_000;

/// A kind of write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Write {
    /// A resource was made.
    Create,
    /// A resource was changed; counted under its new name.
    Update,
    /// A resource was deleted.
    Delete,
    /// A file was put into a resource.
    Upload,
}

/// Executions, by the name that a client gave the resource.
#[derive(Debug, Default)]
pub struct Counts {
    requests: AtomicU64,
    writes: Mutex<BTreeMap<Write, Tally>>,
}

#[derive(Debug, Default)]
struct Tally {
    by_name: BTreeMap<String, u64>,
    /// Writes whose name came after [`MAX_NAMES`] others.
    unlisted: u64,
}

impl Counts {
    /// Requests that arrived, whatever became of them; asking for the counts is not one.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// How often a write took effect.
    #[must_use]
    pub fn writes(&self, kind: Write, name: &str) -> u64 {
        let writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        writes.get(&kind).and_then(|tally| tally.by_name.get(name)).copied().unwrap_or(0)
    }

    /// Counts one request.
    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    /// Counts one write that took effect.
    pub(crate) fn write(&self, kind: Write, name: &str) {
        let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = writes.entry(kind).or_default();
        if let Some(count) = tally.by_name.get_mut(name) {
            *count += 1;
        } else if tally.by_name.len() < MAX_NAMES {
            tally.by_name.insert(name.into(), 1);
        } else {
            tally.unlisted += 1;
        }
    }

    /// The answer to `GET /_counts`: `writes` are the creates, which is what clients try again.
    pub(crate) fn to_json(&self) -> Value {
        let writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |kind| writes.get(&kind).map_or_else(|| json!({}), |tally| json!(tally.by_name));
        json!({
            "requests": self.requests(),
            "writes": of(Write::Create),
            "updates": of(Write::Update),
            "deletes": of(Write::Delete),
            "uploads": of(Write::Upload),
            "unlisted": writes.values().map(|tally| tally.unlisted).sum::<u64>(),
        })
    }
}
