//! The numbers that replicated resources have for clients, where services count.
//!
//! No service reaches their range by itself. Each site has a slice of it, by its name, so that sites that cannot talk never give
//! the same number. Of its slice a site takes a block at a time, which is durable before its first number is given, and a new one
//! at each start. A site that was given back old records would begin with a block that it had before: so a block begins after
//! every number that is known here and at the sites that can be asked, and not before the time of day says, which goes on meanwhile.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use profile::MetaRange;
use scope::Site;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{Instant, timeout_at};

use super::journal::Call;
use super::vault::{Change, Table, Vault};
use super::{Deed, Keeper, News, now_ms, peers};
use crate::replicas::request::Name;
use crate::replicas::wire::{self, Told};
use plan::{Knowledge, Reach};

/// So many numbers are taken at a time, of a slice that has as many blocks as there are seconds in thirty years, or fewer.
const BLOCK_IDS: u64 = 256;
/// The least numbers of a range for which it has the larger number of slices.
const WIDE_IDS: u64 = 1 << 48;
const WIDE_SLICES: u32 = 16;
const NARROW_SLICES: u32 = 10;
/// 2026-01-01, and how long a slice lasts: thirty-four years.
const EPOCH_SECONDS: u64 = 1_767_225_600;
const LIFETIME_SECONDS: u128 = 1 << 30;
/// So long the other sites are waited for: a client waits, once for each start.
const LONGEST_QUESTION: Duration = Duration::from_secs(2);
/// So many wait for a block.
const MAX_WAITING: usize = 10_000;

/// Why no number is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unallocated {
    /// The name of this other site leads to the same slice.
    SameSlice(Site),
    /// All of the slice were given.
    Exhausted,
    /// The disk takes nothing, or the process ends.
    Unavailable,
}

/// The answer to who wants a number.
pub(crate) type AllocationReply = oneshot::Sender<Result<u64, Unallocated>>;

/// The numbers that one site may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    from: u64,
    ids: u64,
}

impl Slice {
    fn of(range: MetaRange, site: &Site) -> Slice {
        let span = range.upto - range.from + 1;
        let bits = if span >= WIDE_IDS { WIDE_SLICES } else { NARROW_SLICES };
        let digest = ring::digest::digest(&ring::digest::SHA256, site.name().as_bytes());
        let hash = digest.as_ref().iter().take(4).fold(0, |hash, byte| hash << 8 | u64::from(*byte));
        let ids = span >> bits;
        Slice { from: range.from + (hash & ((1 << bits) - 1)) * ids, ids }
    }

    fn end(self) -> u64 {
        self.from + self.ids
    }

    /// Where the next block begins: after all that was given as far as anybody knows, and not before the time says.
    fn next_block(self, given: u64, now_seconds: u64) -> Option<(u64, u64)> {
        let elapsed = u128::from(now_seconds.saturating_sub(EPOCH_SECONDS));
        let by_time = u128::from(self.ids) * elapsed / LIFETIME_SECONDS;
        let by_time = self.from.saturating_add(u64::try_from(by_time).unwrap_or(u64::MAX));
        let block = BLOCK_IDS.min((self.ids >> 16).max(1));
        let start = given.max(by_time).max(self.from);
        let end = start.checked_add(block).filter(|end| *end <= self.end())?;
        Some((start, end))
    }
}

/// A block, or the way to one.
#[derive(Debug, Default)]
struct Block {
    /// The next number, and where the block ends.
    next: u64,
    end: u64,
    /// The first number that was never in a block, as far as is known.
    given: u64,
    /// Whether the other sites were asked since the start.
    checked: bool,
    /// They are asked, or the disk writes.
    busy: bool,
    waiting: VecDeque<AllocationReply>,
}

/// What was given of each range.
#[derive(Default)]
pub(super) struct Allocations(BTreeMap<(u64, u64), Block>);

/// What another site is asked: the highest number that it knows in a slice, which is that of the asking site.
#[derive(Debug, Serialize, Deserialize)]
struct Question {
    from: u64,
    end: u64,
}

impl Allocations {
    /// What is on the disk.
    pub(super) async fn read(vault: &Vault) -> Result<Allocations, store::Error> {
        let mut own = Allocations::default();
        for (_, (from, upto, given)) in vault.all::<(u64, u64, u64)>(Table::Allocation).await? {
            own.0.insert((from, upto), Block { given, ..Block::default() });
        }
        Ok(own)
    }
}

impl Keeper {
    /// Gives a number of a range that no other site gives, and that this one never gave.
    pub(super) fn allocate(&mut self, range: MetaRange, reply: AllocationReply) {
        let slice = Slice::of(range, &self.here);
        if self.fault.is_some() || self.ending.is_some() {
            return drop(reply.send(Err(Unallocated::Unavailable)));
        }
        let state = self.core.state();
        let same = |site: &&Site| **site != self.here && Slice::of(range, site) == slice;
        if let Some(other) = state.sites.members().iter().find(same) {
            return drop(reply.send(Err(Unallocated::SameSlice(other.clone()))));
        }
        let block = self.allocations.0.entry((range.from, range.upto)).or_default();
        if block.next < block.end {
            let number = block.next;
            block.next += 1;
            return drop(reply.send(Ok(number)));
        }
        if block.waiting.len() >= MAX_WAITING {
            return drop(reply.send(Err(Unallocated::Unavailable)));
        }
        block.waiting.push_back(reply);
        if std::mem::replace(&mut block.busy, true) {
            return;
        }
        if block.checked { self.take_block(range) } else { self.ask_for_given(range, slice) }
    }

    /// Asks the sites that can be reached which numbers of this site's they know.
    fn ask_for_given(&self, range: MetaRange, slice: Slice) {
        let (core, news, here) = (Rc::clone(&self.core), self.news.clone(), self.here.clone());
        let question = Question { from: slice.from, end: slice.end() };
        let question = Bytes::from(postcard::to_allocvec(&question).expect("two numbers, into memory"));
        let own = self.highest(slice.from, slice.end());
        spawn_local(async move {
            let state = core.state();
            let mut asking = JoinSet::new();
            for site in state.sites.members().iter().filter(|site| **site != here) {
                if !matches!(state.reach(site), Reach::Unreachable | Reach::Quarantined) {
                    let (core, site, question) = (Rc::clone(&core), site.clone(), question.clone());
                    asking.spawn_local(async move {
                        peers::exchange(&core, &site, Method::POST, wire::HIGHEST, question).await
                    });
                }
            }
            let mut highest = own;
            let end = Instant::now() + LONGEST_QUESTION;
            while let Ok(Some(said)) = timeout_at(end, asking.join_next()).await {
                let Ok(Some((StatusCode::OK, said))) = said else { continue };
                // A site that says anything else is one that does not answer.
                let Ok(said) = <[u8; 8]>::try_from(&*said) else { continue };
                highest = highest.max(u64::from_le_bytes(said));
            }
            let _ = news.send(News::KnownGiven { range, highest });
        });
    }

    /// They have said it.
    pub(super) fn known_given(&mut self, range: MetaRange, highest: u64) {
        if let Some(block) = self.allocations.0.get_mut(&(range.from, range.upto)) {
            block.checked = true;
            block.given = block.given.max(highest.saturating_add(1));
            self.take_block(range);
        }
    }

    /// Takes a block. What waits is told once that is durable.
    fn take_block(&mut self, range: MetaRange) {
        let slice = Slice::of(range, &self.here);
        let Some(block) = self.allocations.0.get_mut(&(range.from, range.upto)) else { return };
        let Some((start, end)) = slice.next_block(block.given, now_ms() / 1000) else {
            block.busy = false;
            for reply in block.waiting.drain(..) {
                let _ = reply.send(Err(Unallocated::Exhausted));
            }
            return;
        };
        (block.next, block.end, block.given) = (start, start, end);
        let key = [range.from.to_be_bytes(), range.upto.to_be_bytes()].concat();
        let change = Change::put(Table::Allocation, key, &(range.from, range.upto, end));
        let deed = Deed::Allocated(range, end);
        let now = self.journal.add(Call { changes: vec![change], deeds: vec![deed] });
        self.carry_out(now);
    }

    /// The block up to here is durable.
    pub(super) fn allocated(&mut self, range: MetaRange, end: u64) {
        let Some(block) = self.allocations.0.get_mut(&(range.from, range.upto)) else { return };
        (block.end, block.busy) = (end, false);
        let waiting = std::mem::take(&mut block.waiting);
        for reply in waiting {
            self.allocate(range, reply);
        }
    }

    /// The disk takes nothing: who waits is told.
    pub(super) fn tell_unallocated(&mut self) {
        for block in self.allocations.0.values_mut() {
            for reply in block.waiting.drain(..) {
                let _ = reply.send(Err(Unallocated::Unavailable));
            }
        }
    }

    /// The highest number from here to there that some resource has for clients.
    fn highest(&self, from: u64, end: u64) -> u64 {
        let numbers = self.machine.resources().filter_map(|meta| Name::from(meta).id().parse::<u64>().ok());
        numbers.filter(|number| (from..end).contains(number)).max().unwrap_or_default()
    }

    /// Another site asks which of its numbers are known here.
    pub(super) fn asked_for_highest(&self, question: &[u8]) -> Told {
        match postcard::from_bytes::<Question>(question) {
            Ok(Question { from, end }) => {
                (StatusCode::OK, Bytes::copy_from_slice(&self.highest(from, end).to_le_bytes()))
            }
            Err(_) => (StatusCode::BAD_REQUEST, Bytes::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(range: MetaRange, site: &str) -> Slice {
        Slice::of(range, &Site::new(site).unwrap())
    }

    #[test]
    fn sites_have_slices_apart_within_the_range() {
        for range in [MetaRange::WIDE, MetaRange::NARROW] {
            let slices: Vec<_> = ["A", "B", "C", "Site1", "Site2"].map(|name| slice(range, name)).into();
            for (index, own) in slices.iter().enumerate() {
                assert!(own.from >= range.from && own.end() - 1 <= range.upto && own.ids > 0);
                for other in slices.iter().skip(index + 1) {
                    assert!(own.end() <= other.from || other.end() <= own.from);
                }
            }
        }
    }

    #[test]
    fn no_block_begins_before_what_was_given_nor_before_the_time_says() {
        for range in [MetaRange::WIDE, MetaRange::NARROW] {
            let own = slice(range, "A");
            let now = EPOCH_SECONDS + 1_000_000;
            let (first, end) = own.next_block(0, now).unwrap();
            assert!(first >= own.from && end > first);
            // Old records, and nobody to ask: the time has gone on.
            let later = own.next_block(0, now + 3_000_000).unwrap();
            assert!(later.0 >= end, "{later:?} {end}");
            // More than the time says were given.
            assert_eq!(own.next_block(end + 10_000, now).unwrap().0, end + 10_000);
            assert_eq!(own.next_block(own.end(), now), None);
            // A clock that is wrong gives nothing twice.
            assert_eq!(own.next_block(end, 0).unwrap().0, end);
        }
    }
}
