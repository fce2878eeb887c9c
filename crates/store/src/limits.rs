//! A limit on everything that a session can make large.

use crate::Error;

/// The limits of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A primary key, or a key of an index, as bytes. An index entry has one of each.
    pub key_bytes: usize,
    /// A record as bytes. `etcd` allows 1.5 MiB.
    pub record_bytes: usize,
    /// Keys that a session reads and writes, with those of index entries.
    pub session_keys: usize,
    /// What a session writes.
    pub session_bytes: usize,
    /// How often a session is run before it is given up.
    pub attempts: u32,
    /// The wait before the third attempt, on average. It doubles with each, to 100 times this. Zero: no wait.
    pub backoff: std::time::Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            key_bytes: 1 << 10,
            record_bytes: 1 << 20,
            session_keys: 1 << 12,
            session_bytes: 4 << 20,
            attempts: 32,
            backoff: std::time::Duration::from_micros(500),
        }
    }
}

impl Limits {
    pub(crate) fn key(&self, bytes: usize) -> Result<(), Error> {
        within("a key", bytes, self.key_bytes)
    }

    pub(crate) fn record(&self, bytes: usize) -> Result<(), Error> {
        within("a record", bytes, self.record_bytes)
    }

    pub(crate) fn session(&self, bytes: usize) -> Result<(), Error> {
        within("a session", bytes, self.session_bytes)
    }

    pub(crate) fn keys(&self, keys: usize) -> Result<(), Error> {
        if keys > self.session_keys { Err(Error::TooManyKeys { limit: self.session_keys }) } else { Ok(()) }
    }
}

fn within(what: &'static str, bytes: usize, limit: usize) -> Result<(), Error> {
    if bytes > limit { Err(Error::TooLarge { what, bytes, limit }) } else { Ok(()) }
}
