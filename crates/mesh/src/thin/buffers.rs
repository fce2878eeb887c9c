//! Buffers of one core: lent for as long as something is in them. An idle connection has none.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// A head and the start of a body, most often. What does not fit is not for the thin path, or takes a large one.
pub(super) const SMALL_BYTES: usize = 16 << 10;

/// For long bodies: fewer and larger system calls.
pub(super) const LARGE_BYTES: usize = 64 << 10;

/// So many of each kind are kept for the next: 1 MiB of either.
const SMALL_KEPT: usize = 64;
const LARGE_KEPT: usize = 16;

/// Larger ones are not kept.
const TEXT_BYTES: usize = 64 << 10;

/// The buffers that nobody uses. They are never wiped: what is read is only ever what was written last.
#[derive(Default)]
pub(crate) struct Buffers {
    small: RefCell<Vec<Box<[u8]>>>,
    large: RefCell<Vec<Box<[u8]>>>,
    texts: RefCell<Vec<Vec<u8>>>,
}

impl Buffers {
    pub(super) fn small(self: &Rc<Buffers>) -> Buffer {
        self.buffer(&self.small, SMALL_BYTES)
    }

    pub(super) fn large(self: &Rc<Buffers>) -> Buffer {
        self.buffer(&self.large, LARGE_BYTES)
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

    /// The same bytes in a larger one.
    pub(super) fn grown(&self) -> Buffer {
        let mut grown = self.home.large();
        let unread = self.unread();
        if let Some(start) = grown.bytes.get_mut(..unread.len()) {
            start.copy_from_slice(unread);
            grown.end = unread.len();
        }
        grown
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
            _ => (&self.home.large, LARGE_KEPT),
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
