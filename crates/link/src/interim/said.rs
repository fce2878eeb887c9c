//! The end that says: frames of the link's own, between those that hyper writes.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frame::{self, Place};

/// What waits to be written on one connection, at most: a peer that does not read keeps no more than that.
const MOST_WAITING_BYTES: usize = 256 << 10;

/// What is said of one request, at most. Past it the rest is dropped: it is advice.
const MOST_SAID: usize = 256;
const MOST_SAID_BYTES: usize = 64 << 10;

/// What is said on one connection, by all. Its copies are the same.
#[derive(Clone, Default)]
pub(crate) struct Mouth(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Something waits. It is seen with every write, and so at little cost.
    busy: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    frames: VecDeque<Bytes>,
    bytes: usize,
    /// The task that serves the connection.
    task: Option<Waker>,
}

impl Mouth {
    /// Speaks of the request that has this number.
    pub(crate) fn speaker(&self, number: u32) -> Speaker {
        Speaker { mouth: self.clone(), number, said: Arc::default() }
    }

    fn is_busy(&self) -> bool {
        self.0.busy.load(Ordering::Acquire)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve_by(&self, task: &Waker) {
        let mut waiting = self.waiting();
        if waiting.task.as_ref().is_none_or(|known| !known.will_wake(task)) {
            waiting.task = Some(task.clone());
        }
    }

    fn next(&self) -> Option<Bytes> {
        let mut waiting = self.waiting();
        let next = waiting.frames.pop_front();
        waiting.bytes -= next.as_ref().map_or(0, Bytes::len);
        self.0.busy.store(!waiting.frames.is_empty(), Ordering::Release);
        next
    }
}

/// Tells a peer of interim answers to one of its requests: those that ask for it have one among their extensions.
#[derive(Clone)]
pub struct Speaker {
    mouth: Mouth,
    number: u32,
    said: Arc<Mutex<Said>>,
}

#[derive(Default)]
struct Said {
    count: usize,
    bytes: usize,
}

impl Speaker {
    /// Has an interim answer sent, before whatever is sent later. Returns whether it is going to be: not past the
    /// limits. What is said after the answer is not heard.
    pub fn say(&self, status: StatusCode, fields: &HeaderMap) -> bool {
        let Some(frame) = frame::write(self.number, status, fields) else { return false };
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waiting = self.mouth.waiting();
        if said.count >= MOST_SAID
            || said.bytes + frame.len() > MOST_SAID_BYTES
            || waiting.bytes + frame.len() > MOST_WAITING_BYTES
        {
            return false;
        }
        said.count += 1;
        said.bytes += frame.len();
        waiting.bytes += frame.len();
        waiting.frames.push_back(frame);
        self.mouth.0.busy.store(true, Ordering::Release);
        if let Some(task) = &waiting.task {
            task.wake_by_ref();
        }
        true
    }
}

impl fmt::Debug for Speaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Speaker").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The stream of a connection, with what is said on it.
pub(crate) struct Saying<IO> {
    stream: IO,
    mouth: Mouth,
    place: Place,
    /// The rest of a frame that has begun.
    begun: Bytes,
}

impl<IO: AsyncWrite + Unpin> Saying<IO> {
    pub(crate) fn new(stream: IO, mouth: &Mouth) -> Saying<IO> {
        Saying { stream, mouth: mouth.clone(), place: Place::default(), begun: Bytes::new() }
    }

    /// Writes what was said, if it may stand here.
    fn poll_say(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.place.is_gap() {
            if self.begun.is_empty() {
                if !self.mouth.is_busy() {
                    break;
                }
                self.begun = self.mouth.next().unwrap_or_default();
            }
            while !self.begun.is_empty() {
                let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.begun))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.begun.advance(written);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Saying<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Saying<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(this.poll_say(context))?;
        // What waits goes before the next frame, which may be the answer.
        let most = if this.mouth.is_busy() { this.place.up_to_gap(bytes) } else { bytes.len() };
        let bytes = bytes.get(..most).unwrap_or_default();
        let written = ready!(Pin::new(&mut this.stream).poll_write(context, bytes))?;
        this.place.pass(bytes.get(..written).unwrap_or_default());
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_say(context))?;
        if self.mouth.is_busy() {
            let first = slices.iter().find(|slice| !slice.is_empty());
            return self.poll_write(context, first.map_or(&[], |slice| slice));
        }
        let this = &mut *self;
        let written = ready!(Pin::new(&mut this.stream).poll_write_vectored(context, slices))?;
        let mut left = written;
        for slice in slices {
            let here = slice.get(..left.min(slice.len())).unwrap_or_default();
            this.place.pass(here);
            left -= here.len();
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Before the look at what waits: whatever is said after that wakes the task.
        self.mouth.serve_by(context.waker());
        ready!(self.poll_say(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
