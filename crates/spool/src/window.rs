//! What a fan-out holds in memory, and where each of its consumers is.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::error::Error;
use crate::format::SEGMENT;
use crate::memory::Share;
use crate::reader::Reader;

/// What a piece costs beside its bytes: a body in very small pieces must not take up more than one in large ones.
const PIECE_COST: usize = 128;

/// A consumer on the disk that is no further behind has read all there is: the writer holds a segment back, and
/// another may be under way.
const DISK_LAG: u64 = 2 * SEGMENT as u64;

/// How many bytes may be given out.
type Allowed = Result<usize, Error>;

pub(crate) struct Shared {
    state: Mutex<State>,
    /// A consumer moved, or went.
    pub(crate) moved: Notify,
    /// Held until the last consumer is done: until then there may be something in memory.
    share: Option<Share>,
}

#[derive(Default)]
pub(crate) struct State {
    /// Pieces that a consumer in memory still wants, and the held one.
    pieces: VecDeque<Bytes>,
    /// The number of the first of them, and its place in the body.
    first: u64,
    first_offset: u64,
    /// Pieces before this number may be taken. The last one is held back until the end is released.
    visible: u64,
    pub(crate) visible_offset: u64,
    /// Bytes of all pieces so far.
    pub(crate) len: u64,
    pub(crate) expected: Option<u64>,
    charged: usize,
    peak: usize,
    end: Option<Result<(), Error>>,
    legs: Vec<Leg>,
    /// When it was last looked at who holds the others up.
    judged: Option<Instant>,
}

struct Leg {
    place: Place,
    /// The next piece, for a leg in memory.
    at: u64,
    /// The next byte.
    offset: u64,
    waker: Option<Waker>,
    /// For how long it has held the others up, less the time in which it did not.
    held: Duration,
    holds: bool,
}

enum Place {
    Memory,
    /// To be taken by the consumer.
    Moved(Box<Reader>),
    Disk,
    Cut(Error),
    Gone,
}

/// What a consumer finds.
pub(crate) enum Next {
    Piece(Bytes),
    Moved(Box<Reader>),
    End,
    Failed(Error),
}

/// What a sender finds.
pub(crate) enum Room {
    Free,
    /// Nobody is left.
    Deserted,
    /// Until a consumer moves, or so much time has passed.
    Wait(Option<Duration>),
    /// These have held the others up for too long.
    Lagging(Vec<usize>),
}

/// How long a consumer may hold the others up.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) window: usize,
    pub(crate) patience: Duration,
    /// Whether the disk takes everything anyway: then no consumer has to keep up.
    pub(crate) kept: bool,
}

impl Shared {
    pub(crate) fn new(consumers: usize, expected: Option<u64>, share: Option<Share>) -> Arc<Shared> {
        let legs = (0..consumers).map(|_| Leg::new()).collect();
        let state = State { expected, legs, ..State::default() };
        Arc::new(Shared { state: Mutex::new(state), moved: Notify::new(), share })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes that it may have of the memory that is shared.
    pub(crate) fn share(&self) -> Option<usize> {
        self.share.as_ref().map(Share::bytes)
    }

    /// The next piece from memory, or where to go on.
    pub(crate) fn poll_leg(&self, number: usize, context: &mut Context<'_>) -> Poll<Next> {
        let next = self.state().poll_leg(number, context);
        if next.is_ready() {
            self.moved.notify_one();
        }
        next
    }

    /// How much of `wanted` a consumer on the disk may have.
    pub(crate) fn poll_allowed(
        &self,
        number: usize,
        wanted: usize,
        context: &mut Context<'_>,
    ) -> Poll<Allowed> {
        let allowed = self.state().poll_allowed(number, wanted, context);
        if allowed.is_ready() {
            self.moved.notify_one();
        }
        allowed
    }

    pub(crate) fn leave(&self, number: usize) {
        let left = self.state().set(number, Place::Gone);
        self.moved.notify_one();
        // Not under the lock: a reader may be the last hold on a body.
        drop(left);
    }

    /// Nothing more comes: the end, or an error. The first word counts.
    pub(crate) fn end(&self, end: Result<(), Error>) {
        self.state().end(end);
    }
}

impl Leg {
    fn new() -> Leg {
        Leg { place: Place::Memory, at: 0, offset: 0, waker: None, held: Duration::ZERO, holds: false }
    }

    fn in_memory(&self) -> bool {
        matches!(self.place, Place::Memory)
    }

    fn on_disk(&self) -> bool {
        matches!(self.place, Place::Moved(_) | Place::Disk)
    }
}

pub(crate) fn cost(piece: &Bytes) -> usize {
    piece.len() + PIECE_COST
}

impl State {
    fn poll_leg(&mut self, number: usize, context: &mut Context<'_>) -> Poll<Next> {
        let Some(leg) = self.legs.get_mut(number) else { return Poll::Ready(Next::End) };
        match std::mem::replace(&mut leg.place, Place::Memory) {
            Place::Memory => {}
            Place::Moved(reader) => {
                leg.place = Place::Disk;
                return Poll::Ready(Next::Moved(reader));
            }
            Place::Cut(error) => {
                leg.place = Place::Gone;
                return Poll::Ready(Next::Failed(error));
            }
            other @ (Place::Disk | Place::Gone) => {
                leg.place = other;
                return Poll::Ready(Next::End);
            }
        }
        if let Some(Err(error)) = &self.end {
            return Poll::Ready(Next::Failed(error.clone()));
        }
        let behind = usize::try_from(leg.at - self.first).unwrap_or(usize::MAX);
        if leg.at < self.visible
            && let Some(piece) = self.pieces.get(behind).cloned()
        {
            leg.at += 1;
            leg.offset += piece.len() as u64;
            self.trim();
            return Poll::Ready(Next::Piece(piece));
        }
        if self.end.is_some() {
            return Poll::Ready(Next::End);
        }
        leg.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn poll_allowed(&mut self, number: usize, wanted: usize, context: &mut Context<'_>) -> Poll<Allowed> {
        if let Some(Err(error)) = &self.end {
            return Poll::Ready(Err(error.clone()));
        }
        let Some(leg) = self.legs.get_mut(number) else { return Poll::Ready(Err(Error::Abandoned)) };
        let allowed = usize::try_from(self.visible_offset.saturating_sub(leg.offset)).unwrap_or(usize::MAX);
        if allowed == 0 {
            leg.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let given = allowed.min(wanted);
        leg.offset += given as u64;
        Poll::Ready(Ok(given))
    }

    /// Adds a piece, which stays hidden, and shows the one before it.
    pub(crate) fn add(&mut self, piece: Bytes) {
        let len = self.len;
        self.show(len);
        self.charged += cost(&piece);
        self.peak = self.peak.max(self.charged);
        self.len += piece.len() as u64;
        self.pieces.push_back(piece);
        self.trim();
    }

    fn show(&mut self, offset: u64) {
        self.visible = self.first + self.pieces.len() as u64;
        self.visible_offset = offset;
        self.wake();
    }

    fn end(&mut self, end: Result<(), Error>) {
        if self.end.is_none() {
            let len = self.len;
            if end.is_ok() {
                self.show(len);
            }
            self.end = Some(end);
            self.trim();
            self.wake();
        }
    }

    fn wake(&mut self) {
        self.legs.iter_mut().filter_map(|leg| leg.waker.take()).for_each(Waker::wake);
    }

    /// Drops what no consumer in memory wants any more.
    fn trim(&mut self) {
        if matches!(self.end, Some(Err(_))) {
            self.pieces.clear();
            self.charged = 0;
            return;
        }
        let wanted = self.in_memory().map(|leg| leg.at).min().unwrap_or(self.visible);
        while self.first < wanted
            && let Some(piece) = self.pieces.pop_front()
        {
            self.charged -= cost(&piece);
            self.first += 1;
            self.first_offset += piece.len() as u64;
        }
    }

    fn in_memory(&self) -> impl Iterator<Item = &Leg> {
        self.legs.iter().filter(|leg| leg.in_memory())
    }

    fn set(&mut self, number: usize, place: Place) -> Option<Place> {
        let leg = self.legs.get_mut(number)?;
        let before = std::mem::replace(&mut leg.place, place);
        leg.waker.take().inspect(Waker::wake_by_ref);
        self.trim();
        Some(before)
    }

    /// Whether a piece may be added, or who is in the way.
    pub(crate) fn room(&mut self, bytes: usize, terms: Terms, now: Instant) -> Room {
        self.settle(now);
        if !terms.kept && self.legs.iter().all(|leg| !leg.in_memory() && !leg.on_disk()) {
            return Room::Deserted;
        }
        // When the window has shrunk, the held piece may fill it: only the next one sets it free.
        if self.charged + bytes <= terms.window || self.visible == self.first {
            return if terms.kept || self.any_keeps_up(terms.window) { Room::Free } else { Room::Wait(None) };
        }
        if !terms.kept && !self.starving() {
            return Room::Wait(None);
        }
        // Not only the very last: several that stand still are found out together.
        let half = self.visible_offset.saturating_sub(self.first_offset) / 2;
        let visible_offset = self.visible_offset;
        let (mut lagging, mut left) = (Vec::new(), None::<Duration>);
        for (number, leg) in self.legs.iter_mut().enumerate() {
            if leg.in_memory() && visible_offset > leg.offset && visible_offset - leg.offset >= half {
                leg.holds = true;
                match terms.patience.checked_sub(leg.held).filter(|rest| !rest.is_zero()) {
                    Some(rest) => left = Some(left.map_or(rest, |left| left.min(rest))),
                    None => lagging.push(number),
                }
            }
        }
        if lagging.is_empty() { Room::Wait(left) } else { Room::Lagging(lagging) }
    }

    /// Whether a consumer is in memory, or on the disk but not far behind.
    fn any_keeps_up(&self, window: usize) -> bool {
        let near = DISK_LAG.saturating_add(window as u64);
        let mut there = self.legs.iter().filter(|leg| leg.in_memory() || leg.on_disk());
        there.any(|leg| leg.in_memory() || self.visible_offset.saturating_sub(leg.offset) <= near)
    }

    /// Whether a consumer has all there is, and waits for more.
    fn starving(&self) -> bool {
        self.legs.iter().any(|leg| match leg.place {
            Place::Memory => leg.at == self.visible,
            Place::Disk => self.visible_offset.saturating_sub(leg.offset) <= DISK_LAG,
            Place::Moved(_) | Place::Cut(_) | Place::Gone => false,
        })
    }

    /// Counts the time since it was last looked, for or against each consumer.
    fn settle(&mut self, now: Instant) {
        let passed = self.judged.replace(now).map_or(Duration::ZERO, |before| now - before);
        for leg in &mut self.legs {
            let holds = std::mem::take(&mut leg.holds);
            leg.held = if holds { leg.held + passed } else { leg.held.saturating_sub(passed) };
        }
    }

    /// Where the first of these consumers is, and the pieces from there on.
    pub(crate) fn since_first_of(&self, numbers: &[usize]) -> (u64, Vec<Bytes>) {
        let legs = numbers.iter().filter_map(|number| self.legs.get(*number)).filter(|leg| leg.in_memory());
        let Some(leg) = legs.min_by_key(|leg| leg.at) else { return (self.len, Vec::new()) };
        let skip = usize::try_from(leg.at - self.first).unwrap_or(usize::MAX);
        (leg.offset, self.pieces.iter().skip(skip).cloned().collect())
    }

    /// Sends a consumer to the disk. Says whether it was still there.
    pub(crate) fn send_to_disk(
        &mut self,
        number: usize,
        reader: impl FnOnce(u64) -> Result<Reader, Error>,
    ) -> Result<bool, Error> {
        let Some(leg) = self.legs.get(number).filter(|leg| leg.in_memory()) else { return Ok(false) };
        let reader = Box::new(reader(leg.offset)?);
        Ok(self.set(number, Place::Moved(reader)).is_some())
    }

    /// Gives a consumer up. Says whether it was still there.
    pub(crate) fn cut(&mut self, number: usize, error: Error) -> bool {
        let there = self.legs.get(number).is_some_and(Leg::in_memory);
        there && self.set(number, Place::Cut(error)).is_some()
    }

    /// Why nobody gets any more.
    pub(crate) fn failed(&self) -> Option<Error> {
        self.end.clone().and_then(Result::err)
    }

    pub(crate) fn any_on_disk(&self) -> bool {
        self.legs.iter().any(Leg::on_disk)
    }

    /// What the pieces in memory cost now, and at most so far.
    pub(crate) fn charged(&self) -> (usize, usize) {
        (self.charged, self.peak)
    }

    /// Bytes that a consumer has still to get, if that is known.
    pub(crate) fn rest(&self, number: usize) -> Option<u64> {
        let total = if matches!(self.end, Some(Ok(()))) { Some(self.len) } else { self.expected };
        Some(total?.saturating_sub(self.legs.get(number)?.offset))
    }
}
