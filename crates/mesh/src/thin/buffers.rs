//! Buffers of one core: lent for as long as something is in them. An idle connection has none.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::pipes::{Pipe, Pipes};

/// A head and the start of a body, most often. What does not fit is not for the thin path, or takes a large one.
pub(super) const SMALL_BYTES: usize = 16 << 10;

/// For long bodies: fewer and larger system calls.
pub(super) const LARGE_BYTES: usize = 64 << 10;

/// For those that come as fast as they are read.
const HUGE_BYTES: usize = 256 << 10;

/// So many of these are lent at once: 4 MiB. A reader that stops keeps its own.
const HUGE_LENT: usize = 16;

/// So many of each kind are kept for the next: 1 MiB of the first two, 2 MiB of the last.
const SMALL_KEPT: usize = 64;
const LARGE_KEPT: usize = 16;
const HUGE_KEPT: usize = 8;

/// Larger ones are not kept.
const TEXT_BYTES: usize = 64 << 10;

/// The buffers that nobody uses. They are never wiped: what is read is only ever what was written last.
#[derive(Default)]
pub(crate) struct Buffers {
    small: RefCell<Vec<Box<[u8]>>>,
    large: RefCell<Vec<Box<[u8]>>>,
    huge: RefCell<Vec<Box<[u8]>>>,
    huge_lent: Cell<usize>,
    texts: RefCell<Vec<Vec<u8>>>,
    pub(super) pipes: Pipes,
}

impl Buffers {
    pub(super) fn small(self: &Rc<Buffers>) -> Buffer {
        self.buffer(&self.small, SMALL_BYTES)
    }

    pub(super) fn large(self: &Rc<Buffers>) -> Buffer {
        self.buffer(&self.large, LARGE_BYTES)
    }

    fn huge(self: &Rc<Buffers>) -> Option<Buffer> {
        let lent = self.huge_lent.get();
        (lent < HUGE_LENT).then(|| {
            self.huge_lent.set(lent + 1);
            self.buffer(&self.huge, HUGE_BYTES)
        })
    }

    fn buffer(self: &Rc<Buffers>, kept: &RefCell<Vec<Box<[u8]>>>, bytes: usize) -> Buffer {
        let bytes = kept.borrow_mut().pop().unwrap_or_else(|| vec![0; bytes].into());
        Buffer { bytes, start: 0, end: 0, home: Rc::clone(self) }
    }

    /// Something to write into, empty.
    pub(super) fn text(self: &Rc<Buffers>) -> Text {
        let text = self.texts.borrow_mut().pop().unwrap_or_default();
        Text { text, home: Rc::clone(self) }
    }
}

/// Bytes that were read from a connection.
pub(super) struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    home: Rc<Buffers>,
}

impl Buffer {
    pub(super) fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// No more can be read before some is taken.
    pub(super) fn is_full(&self) -> bool {
        self.start == 0 && self.end == self.bytes.len()
    }

    /// The last read took all that there was room for.
    pub(super) fn is_filled(&self) -> bool {
        self.end == self.bytes.len()
    }

    pub(super) fn is_large(&self) -> bool {
        self.bytes.len() > SMALL_BYTES
    }

    /// The first so many were dealt with.
    pub(super) fn take(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Goes on in a larger one, if so much that is to come is worth that. The largest are for what fills those before
    /// with each read.
    pub(super) fn grow(&mut self, left: u64, filled: bool) {
        let larger = match self.bytes.len() {
            bytes if bytes as u64 >= left => None,
            SMALL_BYTES => Some(self.home.large()),
            LARGE_BYTES if filled && self.is_empty() => self.home.huge(),
            _ => None,
        };
        let Some(mut larger) = larger else { return };
        let unread = self.unread();
        if let Some(start) = larger.bytes.get_mut(..unread.len()) {
            start.copy_from_slice(unread);
            larger.end = unread.len();
        }
        *self = larger;
    }

    /// A pipe of the same core's.
    pub(super) fn pipe(&self) -> Option<Pipe> {
        Pipes::lend(&self.home)
    }

    /// Reads more; zero is the end. It must not be full.
    pub(super) fn poll_fill(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<usize>> {
        if self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let mut room = ReadBuf::new(self.bytes.get_mut(self.end..).unwrap_or_default());
        ready!(Pin::new(io).poll_read(context, &mut room))?;
        let count = room.filled().len();
        self.end += count;
        Poll::Ready(Ok(count))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let (kept, most) = match bytes.len() {
            SMALL_BYTES => (&self.home.small, SMALL_KEPT),
            LARGE_BYTES => (&self.home.large, LARGE_KEPT),
            _ => {
                self.home.huge_lent.set(self.home.huge_lent.get().saturating_sub(1));
                (&self.home.huge, HUGE_KEPT)
            }
        };
        let mut kept = kept.borrow_mut();
        if kept.len() < most {
            kept.push(bytes);
        }
    }
}

/// Bytes to be written.
pub(super) struct Text {
    text: Vec<u8>,
    home: Rc<Buffers>,
}

impl std::ops::Deref for Text {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.text
    }
}

impl std::ops::DerefMut for Text {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        let mut text = std::mem::take(&mut self.text);
        let mut kept = self.home.texts.borrow_mut();
        if kept.len() < SMALL_KEPT && text.capacity() <= TEXT_BYTES {
            text.clear();
            kept.push(text);
        }
    }
}
