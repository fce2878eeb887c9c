//! One body that comes once, for several who take it at their own pace.
//!
//! What comes is held in memory until every consumer there has taken it, within a window; while that is full, the
//! sender waits. So all go at the pace of the slowest. A consumer that makes the others wait for too long is sent to
//! the disk, where it reads what it lacks, and the others go on. If the disk has no room it is cut off: it gets the
//! body later, from a site that has it.
//!
//! The last piece is held back until the end is released: no service can execute a request before it has all of its
//! body, so that the operation can be recorded first.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout};

use crate::consumer::Consumer;
use crate::error::Error;
use crate::format::SEGMENT;
use crate::id::Id;
use crate::memory::Memory;
use crate::metrics::Counters;
use crate::spool::{Spool, Stored};
use crate::window::{Room, Shared, Terms, cost};
use crate::writer::Writer;

/// When a consumer is too slow.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Bytes held in memory for all consumers together, at most. No less than 4 KiB.
    pub window_bytes: usize,
    /// What several bodies that come at once share: the window is then no more than this one's share.
    pub memory: Option<Memory>,
    /// For how long a consumer may make the others wait, less the time in which it did not: one that is at least half
    /// as fast as the fastest keeps up.
    pub patience: Duration,
}

/// The window is what a gigabit link carries in 33 ms; the patience outlasts a lost packet or two.
impl Default for Pace {
    fn default() -> Pace {
        Pace { window_bytes: 4 << 20, memory: None, patience: Duration::from_secs(1) }
    }
}

const LEAST_WINDOW: usize = 4 << 10;

/// What a fan-out does with the disk.
#[derive(Clone, Debug)]
pub enum Backing {
    /// Nothing. Who is too slow is cut off.
    Nothing,
    /// What slow consumers lack is on disk until they have it. The fastest consumer sets the pace.
    Laggards(Spool),
    /// All of the body is made durable. The disk sets the pace: every consumer may be too slow.
    Kept(Spool),
}

/// The sending side of a fan-out. Dropped before the end, it gives every consumer an error.
pub struct Fanout {
    shared: Arc<Shared>,
    terms: Terms,
    backing: Backing,
    disk: DiskCopy,
    /// All has come: whoever holds the end says what becomes of it.
    finished: bool,
}

enum DiskCopy {
    /// Not begun.
    None,
    /// From this byte of the body on.
    From(u64, Writer),
    /// No room, or a fault: nobody more can be sent there.
    Failed(Error),
}

/// All of a body has come. Its consumers get the rest of it when this is released, and an error if it is dropped.
pub struct Ended {
    shared: Arc<Shared>,
    stored: Option<Stored>,
}

impl Fanout {
    /// A fan-out to so many consumers. A body that is kept, and of known length, is refused here if it has no room.
    pub fn new(
        backing: Backing,
        pace: &Pace,
        expected_len: Option<u64>,
        consumers: usize,
    ) -> Result<(Fanout, Vec<Consumer>), Error> {
        let (kept, disk) = match &backing {
            Backing::Kept(spool) => (true, DiskCopy::From(0, spool.writer(expected_len)?)),
            Backing::Nothing | Backing::Laggards(_) => (false, DiskCopy::None),
        };
        let share = pace.memory.as_ref().map(Memory::join);
        let shared = Shared::new(consumers, expected_len, share);
        let consumers = (0..consumers).map(|number| Consumer::new(Arc::clone(&shared), number)).collect();
        let terms = Terms { window: pace.window_bytes, patience: pace.patience, kept };
        Ok((Fanout { shared, terms, backing, disk, finished: false }, consumers))
    }

    /// The name that a kept body will have. [`Spool::reader`] follows it already, for one more consumer.
    #[must_use]
    pub fn id(&self) -> Option<Id> {
        match (&self.backing, &self.disk) {
            (Backing::Kept(_), DiskCopy::From(_, writer)) => Some(writer.id()),
            _ => None,
        }
    }

    /// What the pieces in memory take up: now, and at most so far.
    #[must_use]
    pub fn window_bytes(&self) -> (usize, usize) {
        self.shared.state().charged()
    }

    /// Hands on what came, and waits until there is room for more. An error is for good: the body cannot be kept, is
    /// longer than was said, or nobody wants it. After a cancelled call, too, the fan-out can only be dropped.
    pub async fn push(&mut self, mut chunk: Bytes) -> Result<(), Error> {
        let (len, expected) = {
            let state = self.shared.state();
            (state.len + chunk.len() as u64, state.expected)
        };
        if let Some(expected) = expected.filter(|expected| len > *expected) {
            return Err(self.fail(Error::WrongLength { expected, got: len }));
        }
        // A piece must fit beside the one that is held back.
        let most = (self.window() / 4).min(SEGMENT);
        while !chunk.is_empty() {
            let piece = chunk.split_to(most.min(chunk.len()));
            self.make_room(cost(&piece)).await?;
            self.shared.state().add(piece.clone());
            self.write(piece).await?;
        }
        Ok(())
    }

    /// All has come. A kept body is durable when this returns; consumers see its end when that is released.
    pub async fn finish(mut self) -> Result<Ended, Error> {
        let (got, expected) = {
            let state = self.shared.state();
            (state.len, state.expected)
        };
        if let Some(expected) = expected.filter(|expected| *expected != got) {
            return Err(self.fail(Error::WrongLength { expected, got }));
        }
        let disk = std::mem::replace(&mut self.disk, DiskCopy::None);
        let stored = match (disk, self.terms.kept) {
            (DiskCopy::From(_, writer), true) => {
                Some(writer.finish().await.map_err(|error| self.fail(error))?)
            }
            (DiskCopy::From(_, writer), false) => {
                // If it fails, those who read from there are told; the others have it.
                drop(writer.pass().await);
                None
            }
            (DiskCopy::Failed(error), true) => return Err(self.fail(error)),
            (DiskCopy::Failed(_) | DiskCopy::None, _) => None,
        };
        self.finished = true;
        Ok(Ended { shared: Arc::clone(&self.shared), stored })
    }

    /// Bytes in memory, at most, with those who share it now.
    fn window(&self) -> usize {
        let share = self.shared.share().unwrap_or(usize::MAX);
        self.terms.window.min(share).max(LEAST_WINDOW)
    }

    fn fail(&mut self, error: Error) -> Error {
        self.shared.end(Err(error.clone()));
        self.disk = DiskCopy::Failed(error.clone());
        error
    }

    /// Waits until so much more fits, and sends away those who are too slow.
    async fn make_room(&mut self, bytes: usize) -> Result<(), Error> {
        loop {
            let terms = Terms { window: self.window(), ..self.terms };
            let room = self.shared.state().room(bytes, terms, Instant::now());
            match room {
                Room::Free => return Ok(()),
                Room::Deserted => return Err(Error::Deserted),
                Room::Wait(None) => self.shared.moved.notified().await,
                Room::Wait(Some(time)) => drop(timeout(time, self.shared.moved.notified()).await),
                Room::Lagging(numbers) => self.send_away(&numbers).await,
            }
        }
    }

    /// To the disk, if it takes them.
    async fn send_away(&mut self, numbers: &[usize]) {
        if let (DiskCopy::None, Backing::Laggards(spool)) = (&self.disk, &self.backing) {
            let (from, pieces) = self.shared.state().since_first_of(numbers);
            let rest = self.shared.state().expected.map(|expected| expected - from);
            self.disk = match begin(spool, rest, pieces).await {
                Ok(writer) => DiskCopy::From(from, writer),
                Err(error) => DiskCopy::Failed(error),
            };
        }
        for number in numbers {
            let moved = match &self.disk {
                DiskCopy::From(from, writer) => {
                    let from = *from;
                    self.shared.state().send_to_disk(*number, |offset| writer.follow(offset - from))
                }
                DiskCopy::Failed(error) => Err(error.clone()),
                DiskCopy::None => Err(Error::Missing),
            };
            match moved {
                Ok(moved) => self.count(|counters| Counters::add(&counters.moved, moved.into())),
                Err(error) => {
                    let cut = self.shared.state().cut(*number, Error::Lagging { cause: error.to_string() });
                    self.count(|counters| Counters::add(&counters.cut_off, cut.into()));
                }
            }
        }
    }

    /// To the disk as well, where that is wanted.
    async fn write(&mut self, piece: Bytes) -> Result<(), Error> {
        let DiskCopy::From(_, writer) = &mut self.disk else { return Ok(()) };
        if !self.terms.kept && !self.shared.state().any_on_disk() {
            // Whoever was too slow is gone. The next one begins anew.
            self.disk = DiskCopy::None;
            return Ok(());
        }
        match writer.push(piece).await {
            Ok(()) => Ok(()),
            Err(error) if self.terms.kept => Err(self.fail(error)),
            // Those who read from there are told, the others do not need it.
            Err(error) => {
                self.disk = DiskCopy::Failed(error);
                Ok(())
            }
        }
    }

    fn count(&self, count: impl FnOnce(&Counters)) {
        match &self.backing {
            Backing::Laggards(spool) | Backing::Kept(spool) => count(spool.counters()),
            Backing::Nothing => {}
        }
    }
}

/// Writes what is in memory from the slowest consumer on.
async fn begin(spool: &Spool, rest: Option<u64>, pieces: Vec<Bytes>) -> Result<Writer, Error> {
    let mut writer = spool.writer(rest)?;
    for piece in pieces {
        writer.push(piece).await?;
    }
    Ok(writer)
}

impl Drop for Fanout {
    fn drop(&mut self) {
        if !self.finished {
            self.shared.end(Err(Error::Abandoned));
        }
    }
}

impl Ended {
    /// The body, if it was to be kept.
    #[must_use]
    pub fn stored(&self) -> Option<Stored> {
        self.stored
    }

    /// Gives the consumers the rest, and the end.
    pub fn release(self) {
        self.shared.end(Ok(()));
    }
}

/// Not released: the request is not to be executed. A kept body stays in the spool.
impl Drop for Ended {
    fn drop(&mut self) {
        self.shared.end(Err(Error::Abandoned));
    }
}
