//! What each key that was handed on stands for.
//!
//! Records are bounded per sender, in total, and in time. No live record is evicted: a call that comes late
//! would lose its scope, and whoever sends most would decide whose.
//!
//! Two tables, each cut into shards: records by nonce, which every caused call reads, and the nonces of
//! each sender, oldest first, which only insertion and expiry touch. A sender's shard is locked before a
//! record's, never after, and never two of a kind.

use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use scope::Site;

use super::key::Key;
use super::sender::Sender;

/// Enough that cores seldom meet in one.
pub(super) const SHARDS: usize = 32;

/// Senders that a sweep of a shard looks at, and records of each. Above one each, so that expired records
/// go faster than new ones come.
const SWEPT_SENDERS: usize = 4;
const SWEPT_RECORDS: usize = 8;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Records of one sender.
    pub per_sender: usize,
    /// Records in total. Each has a scope's text of up to 4 KiB: with the default, 256 MiB at the worst.
    pub total: usize,
    /// How long a caused call is recognised.
    pub lifetime: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { per_sender: 4096, total: 65_536, lifetime: Duration::from_hours(1) }
    }
}

/// What a key stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The scope, as a text that can be parsed again. Not parsed: that takes many times the space.
    pub scope: Arc<str>,
    /// The site at which the client entered.
    pub here: Site,
    /// How many calls lie between the client's request and this one.
    pub hops: u8,
    /// Whom the record is counted for.
    pub sender: Sender,
    /// The token that the request came with, if it had one.
    pub token: Option<Sender>,
}

/// Of a sender's records with one scope there are few: the rest is only compared.
impl Hash for Record {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(self.sender.0);
        state.write(self.scope.as_bytes());
    }
}

impl Record {
    /// The record of a call that this request caused, counted for the same sender; none once hops cannot be
    /// counted any more.
    #[must_use]
    pub fn caused(&self) -> Option<Record> {
        Some(Record { hops: self.hops.checked_add(1)?, ..self.clone() })
    }
}

/// Which limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The sender's.
    Sender,
    /// The site's.
    Site,
}

/// The keys that were handed on. Time is a duration since any fixed start.
#[derive(Debug)]
pub struct Records {
    limits: Limits,
    by_nonce: [Mutex<HashMap<u64, Kept>>; SHARDS],
    by_sender: [Mutex<Senders>; SHARDS],
    /// Records kept, expired ones that no sweep has met included.
    held: AtomicUsize,
    /// The shard of senders that is swept next.
    next: AtomicUsize,
}

#[derive(Debug)]
struct Kept {
    record: Record,
    expires: Duration,
}

#[derive(Debug, Default)]
struct Senders {
    /// When each record of a sender expires, oldest first; none is empty between calls.
    nonces: HashMap<Sender, VecDeque<(Duration, u64)>>,
    /// The same senders, in the order in which they are swept.
    turns: VecDeque<Sender>,
}

impl Records {
    /// No record yet.
    #[must_use]
    pub fn new(limits: Limits) -> Records {
        Records {
            limits,
            by_nonce: std::array::from_fn(|_| Mutex::default()),
            by_sender: std::array::from_fn(|_| Mutex::default()),
            held: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
        }
    }

    /// What a key stands for, unless that is over.
    #[must_use]
    pub fn get(&self, key: Key, now: Duration) -> Option<Record> {
        let shard = self.shard(key.nonce());
        shard.get(&key.nonce()).filter(|kept| now < kept.expires).map(|kept| kept.record.clone())
    }

    /// How long a record is kept.
    #[must_use]
    pub fn lifetime(&self) -> Duration {
        self.limits.lifetime
    }

    /// How many records are kept, expired ones that no sweep has met included.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Ends a record early: a request that was never sent, or that the application did not let in, causes
    /// no call.
    pub fn forget(&self, key: Key) {
        let Some(sender) = self.shard(key.nonce()).get(&key.nonce()).map(|kept| kept.record.sender) else {
            return;
        };
        let mut senders = self.senders(sender);
        let Some(nonces) = senders.nonces.get_mut(&sender) else { return };
        // What is forgotten is mostly young.
        if let Some(at) = nonces.iter().rposition(|(_, nonce)| *nonce == key.nonce()) {
            nonces.remove(at);
            self.remove(key.nonce());
        }
        senders.drop_if_empty(sender);
    }

    /// Keeps a record under this nonce, or the next that is free, and returns which.
    pub(super) fn insert(&self, record: Record, nonce: u64, now: Duration) -> Result<u64, Full> {
        self.sweep_some(now);
        let sender = record.sender;
        let mut senders = self.senders(sender);
        if let Some(nonces) = senders.nonces.get_mut(&sender) {
            self.expire(nonces, now);
            if nonces.len() >= self.limits.per_sender {
                return Err(Full::Sender);
            }
        } else if self.limits.per_sender == 0 {
            return Err(Full::Sender);
        }
        let room = |held: usize| (held < self.limits.total).then_some(held + 1);
        if self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_err() {
            senders.drop_if_empty(sender);
            return Err(Full::Site);
        }
        let expires = now.saturating_add(self.limits.lifetime);
        let nonce = self.keep(Kept { record, expires }, nonce);
        let Senders { nonces, turns } = &mut *senders;
        let nonces = nonces.entry(sender).or_insert_with(|| {
            turns.push_back(sender);
            VecDeque::new()
        });
        nonces.push_back((expires, nonce));
        Ok(nonce)
    }

    fn keep(&self, kept: Kept, mut nonce: u64) -> u64 {
        loop {
            // Two equal nonces are as good as impossible; should it happen, the older request keeps its
            // scope. There are fewer records than nonces: this ends.
            let mut shard = self.shard(nonce);
            if let std::collections::hash_map::Entry::Vacant(free) = shard.entry(nonce) {
                free.insert(kept);
                return nonce;
            }
            drop(shard);
            nonce = nonce.wrapping_add(1);
        }
    }

    /// Takes out some of what is over: of one shard after the other; of all when there is no room.
    fn sweep_some(&self, now: Duration) {
        let shards = if self.held() < self.limits.total { 1 } else { SHARDS };
        for _ in 0..shards {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            self.sweep(&mut lock(pick(&self.by_sender, next)), now);
        }
    }

    fn sweep(&self, senders: &mut Senders, now: Duration) {
        for _ in 0..SWEPT_SENDERS.min(senders.turns.len()) {
            let Some(sender) = senders.turns.pop_front() else { return };
            let Some(nonces) = senders.nonces.get_mut(&sender) else { continue };
            self.expire(nonces, now);
            if nonces.is_empty() {
                senders.nonces.remove(&sender);
            } else {
                senders.turns.push_back(sender);
            }
        }
    }

    fn expire(&self, nonces: &mut VecDeque<(Duration, u64)>, now: Duration) {
        for _ in 0..SWEPT_RECORDS {
            match nonces.front() {
                Some((expires, nonce)) if *expires <= now => self.remove(*nonce),
                _ => return,
            }
            nonces.pop_front();
        }
    }

    fn remove(&self, nonce: u64) {
        if self.shard(nonce).remove(&nonce).is_some() {
            self.held.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn shard(&self, nonce: u64) -> MutexGuard<'_, HashMap<u64, Kept>> {
        lock(pick(&self.by_nonce, low_bits(u128::from(nonce))))
    }

    fn senders(&self, sender: Sender) -> MutexGuard<'_, Senders> {
        lock(pick(&self.by_sender, low_bits(sender.0)))
    }
}

impl Senders {
    fn drop_if_empty(&mut self, sender: Sender) {
        if self.nonces.get(&sender).is_some_and(VecDeque::is_empty) {
            self.nonces.remove(&sender);
            self.turns.retain(|other| *other != sender);
        }
    }
}

pub(super) fn low_bits(number: u128) -> usize {
    usize::from(number.to_le_bytes().first().copied().unwrap_or_default())
}

pub(super) fn pick<T>(shards: &[T; SHARDS], number: usize) -> &T {
    shards.get(number % SHARDS).expect("a remainder is less than what it is the remainder of")
}

/// A table is whole between any two of its operations: one that another thread left by panicking is good.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
