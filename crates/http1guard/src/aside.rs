//! What goes out beside the server's own answers: interim ones, which a server may not know how to send.
//!
//! An interim answer belongs after the whole of the previous answer and before the first byte of its own
//! final one. Two parties keep that together. The server flushes its connection only when it has written all
//! that it had: so that is when the guard writes. And whoever answers a request has a [`Turn`], and returns
//! the final answer only when what was said in it is [out](Turn::said). Servers handle one request of an
//! HTTP/1 connection at a time, so that nothing of the previous answer can come after.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bytes::Bytes;

/// Bytes that wait to be written, at most: a client that does not read keeps no more than that.
const MOST_WAITING_BYTES: usize = 16 << 10;

/// What may be said in one turn. Past it the rest is dropped: it is advice, and a service that says so much
/// does not mean it.
pub const MOST_PER_TURN: usize = 256;

/// One connection's door for what is said aside. Its copies are the same door. All of it happens on the core
/// that serves the connection; it can be sent to others only because callbacks must be.
#[derive(Clone, Default)]
pub struct Aside(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Something was said that is not out yet.
    busy: AtomicBool,
    /// Something was said in this turn.
    spoken: AtomicBool,
    /// Who may speak.
    turn: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    said: VecDeque<Bytes>,
    bytes: usize,
    /// How much was said in this turn.
    count: usize,
    /// The task that serves the connection.
    task: Option<Waker>,
}

impl Aside {
    /// A door for one connection: give it to [`Guarded::with_aside`](crate::Guarded::with_aside).
    #[must_use]
    pub fn new() -> Aside {
        Aside::default()
    }

    /// Begins to answer a request. Whoever spoke before is over.
    #[must_use]
    pub fn turn(&self) -> Turn {
        let number = self.0.turn.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        Turn { speaker: Speaker { aside: self.clone(), number } }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.0.busy.load(Ordering::Acquire)
    }

    /// Who is to be woken when something is said.
    pub(crate) fn serve_by(&self, task: &Waker) {
        self.waiting().task = Some(task.clone());
    }

    /// The next to write.
    pub(crate) fn next(&self) -> Option<Bytes> {
        let mut waiting = self.waiting();
        let next = waiting.said.pop_front()?;
        waiting.bytes -= next.len();
        Some(next)
    }

    /// All that was said is out.
    pub(crate) fn done(&self) {
        self.0.busy.store(false, Ordering::Release);
        if let Some(task) = &self.waiting().task {
            task.wake_by_ref();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Aside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aside").field("busy", &self.is_busy()).finish_non_exhaustive()
    }
}

/// The time in which a request is answered: from its head to the head of its final answer.
///
/// When it is dropped nothing more can be said, and what has not begun to go out never does.
#[derive(Debug)]
pub struct Turn {
    speaker: Speaker,
}

impl Turn {
    /// What speaks in this turn, for as long as it lasts.
    #[must_use]
    pub fn speaker(&self) -> &Speaker {
        &self.speaker
    }

    /// Ends the turn once all that was said is out. Call it from the task that serves the connection: that
    /// one writes it, and gives up on a client that does not read.
    pub async fn said(self) {
        poll_fn(|_| if self.speaker.aside.is_busy() { Poll::Pending } else { Poll::Ready(()) }).await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Speaker { aside, number } = &self.speaker;
        aside.0.turn.store(number.wrapping_add(1), Ordering::Relaxed);
        // Most often nothing was.
        if aside.0.spoken.load(Ordering::Relaxed) {
            aside.0.spoken.store(false, Ordering::Relaxed);
            let mut waiting = aside.waiting();
            *waiting = Waiting { task: waiting.task.take(), ..Waiting::default() };
        }
    }
}

/// Says things in one turn.
#[derive(Clone, Debug)]
pub struct Speaker {
    aside: Aside,
    number: u64,
}

impl Speaker {
    /// Has these bytes, a whole interim answer, written as soon as all before them is. Returns whether they
    /// are going to be: not after the turn, and not past the limits.
    pub fn say(&self, bytes: Bytes) -> bool {
        let shared = &self.aside.0;
        let mut waiting = self.aside.waiting();
        let room = waiting.bytes + bytes.len() <= MOST_WAITING_BYTES && waiting.count < MOST_PER_TURN;
        if shared.turn.load(Ordering::Relaxed) != self.number || !room || bytes.is_empty() {
            return false;
        }
        waiting.bytes += bytes.len();
        waiting.count += 1;
        waiting.said.push_back(bytes);
        shared.spoken.store(true, Ordering::Relaxed);
        shared.busy.store(true, Ordering::Release);
        if let Some(task) = &waiting.task {
            task.wake_by_ref();
        }
        true
    }
}
