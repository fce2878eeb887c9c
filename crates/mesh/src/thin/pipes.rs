//! Pipes of one core: through them the kernel moves long bodies from one socket to the other. Nothing of these is copied
//! here, nor takes a buffer.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::buffers::Buffers;
use super::wire::{at_once, in_time};
use crate::alarm::Alarm;

/// A body of which at least so much is left is moved: less of it is copied in less time.
pub(super) const MOVED_BYTES: u64 = 512 << 10;

/// What a pipe holds at most, if the system lets it.
const PIPE_BYTES: usize = 256 << 10;

/// So many are lent at once: 4 MiB, and 32 files. A reader that stops keeps its own; who gets none copies.
const LENT: usize = 16;

/// So many are kept for the next. They are empty.
const KEPT: usize = 8;

/// The pipes that nobody uses.
#[derive(Default)]
pub(super) struct Pipes {
    kept: RefCell<Vec<Ends>>,
    lent: Cell<usize>,
}

struct Ends {
    into: OwnedFd,
    out: OwnedFd,
}

impl Ends {
    fn new() -> io::Result<Ends> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A system that has no room for it gives less, which does as well.
        let _ = fcntl_setpipe_size(&into, PIPE_BYTES);
        Ok(Ends { into, out })
    }
}

impl Pipes {
    /// One for one body; none if there are too many, or no more files.
    pub(super) fn lend(buffers: &Rc<Buffers>) -> Option<Pipe> {
        let pipes = &buffers.pipes;
        if pipes.lent.get() >= LENT {
            return None;
        }
        let kept = pipes.kept.borrow_mut().pop();
        let ends = kept.or_else(|| Ends::new().ok())?;
        pipes.lent.set(pipes.lent.get() + 1);
        Some(Pipe { ends: Some(ends), held: 0, home: Rc::clone(buffers) })
    }
}

/// A pipe, for as long as a body goes through it.
pub(super) struct Pipe {
    /// Gone only when it is dropped.
    ends: Option<Ends>,
    /// Bytes that are in it.
    held: usize,
    home: Rc<Buffers>,
}

impl Pipe {
    /// Takes some of what the socket has, and at most so much, before the alarm rings. Zero is the end. It must be empty.
    pub(super) async fn fill(&mut self, from: &TcpStream, most: u64, alarm: &Alarm) -> io::Result<usize> {
        let most = usize::try_from(most).unwrap_or(PIPE_BYTES).min(PIPE_BYTES);
        poll_fn(|context| in_time(self.poll_fill(from, most, context), alarm, context)).await
    }

    /// Gives the socket some of what is in it, before the alarm rings.
    pub(super) async fn drain(&mut self, to: &TcpStream, alarm: &Alarm) -> io::Result<usize> {
        poll_fn(|context| in_time(self.poll_drain(to, context), alarm, context)).await
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held == 0
    }

    fn poll_fill(
        &mut self,
        from: &TcpStream,
        most: usize,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let Some(ends) = &self.ends else { return Poll::Ready(Ok(0)) };
        loop {
            ready!(from.poll_read_ready(context))?;
            let moved = from.try_io(Interest::READABLE, || {
                Ok(splice(from, None, &ends.into, None, most, SpliceFlags::NONBLOCK)?)
            });
            if let Some(moved) = at_once(moved) {
                self.held += *moved.as_ref().unwrap_or(&0);
                return Poll::Ready(moved);
            }
        }
    }

    fn poll_drain(&mut self, to: &TcpStream, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(ends) = &self.ends else { return Poll::Ready(Ok(0)) };
        loop {
            ready!(to.poll_write_ready(context))?;
            let moved = to.try_io(Interest::WRITABLE, || {
                Ok(splice(&ends.out, None, to, None, self.held, SpliceFlags::NONBLOCK)?)
            });
            if let Some(moved) = at_once(moved) {
                self.held -= *moved.as_ref().unwrap_or(&0);
                return Poll::Ready(moved);
            }
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let pipes = &self.home.pipes;
        pipes.lent.set(pipes.lent.get().saturating_sub(1));
        let mut kept = pipes.kept.borrow_mut();
        // One with something in it would give that to the next.
        if self.held == 0
            && kept.len() < KEPT
            && let Some(ends) = self.ends.take()
        {
            kept.push(ends);
        }
    }
}
