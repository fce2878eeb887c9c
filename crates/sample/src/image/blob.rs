//! Files in memory, within a budget.
//!
//! A file is kept in pieces of its own, not in the buffers that it arrived in: those are larger than what
//! they carry, and the budget would be a fiction. Memory is accounted for until its last reader is done.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use sha2::{Digest as _, Sha256};

use crate::id::hex;

/// The size of a piece: large enough that a piece costs nothing, small enough to share a connection.
const PIECE_BYTES: usize = 64 * 1024;
/// What a record is counted as: a name of 255 bytes at most, an id, a date, and the tree that holds them.
const RECORD_BYTES: usize = 1024;

/// Memory that may still be used.
#[derive(Clone, Debug)]
pub(super) struct Budget(Arc<AtomicUsize>);

impl Budget {
    pub(super) fn new(bytes: usize) -> Budget {
        Budget(Arc::new(AtomicUsize::new(bytes)))
    }

    /// Memory for one record.
    pub(super) fn record(&self) -> Option<Room> {
        self.take(RECORD_BYTES)
    }

    fn take(&self, bytes: usize) -> Option<Room> {
        let mut room = Room { budget: self.clone(), bytes: 0 };
        room.grow(bytes)?;
        Some(room)
    }
}

/// Memory taken from a budget, given back when dropped.
#[derive(Debug)]
pub(super) struct Room {
    budget: Budget,
    bytes: usize,
}

impl Room {
    fn grow(&mut self, bytes: usize) -> Option<()> {
        let Budget(left) = &self.budget;
        left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).ok()?;
        self.bytes += bytes;
        Some(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.bytes, Relaxed);
    }
}

/// A file that is coming in.
pub(super) struct Writer {
    pieces: Vec<Bytes>,
    open: Vec<u8>,
    hasher: Sha256,
    size_bytes: usize,
    room: Room,
}

impl Writer {
    /// Room is taken for what the sender declared, and for more as it comes.
    pub(super) fn new(budget: &Budget, declared_bytes: usize) -> Option<Writer> {
        let room = budget.take(declared_bytes)?;
        Some(Writer { pieces: Vec::new(), open: Vec::new(), hasher: Sha256::new(), size_bytes: 0, room })
    }

    /// Adds bytes, if there is memory for them.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Option<()> {
        self.size_bytes += bytes.len();
        self.room.grow(self.size_bytes.saturating_sub(self.room.bytes))?;
        self.hasher.update(bytes);
        while !bytes.is_empty() {
            let fits = bytes.len().min(PIECE_BYTES - self.open.len());
            let (now, later) = bytes.split_at(fits);
            self.open.extend_from_slice(now);
            bytes = later;
            if self.open.len() == PIECE_BYTES {
                self.close_piece();
            }
        }
        Some(())
    }

    pub(super) fn finish(mut self) -> Blob {
        self.close_piece();
        let digest = format!("sha256:{}", hex(&self.hasher.finalize()));
        let file = File { pieces: self.pieces, size_bytes: self.size_bytes, digest, _room: self.room };
        Blob { file: Arc::new(file), next: 0, sent_bytes: 0 }
    }

    fn close_piece(&mut self) {
        if !self.open.is_empty() {
            self.pieces.push(std::mem::take(&mut self.open).into_boxed_slice().into());
        }
    }
}

/// A stored file, and as a body the reading of it. Clones share the bytes and read from the start.
#[derive(Debug)]
pub struct Blob {
    file: Arc<File>,
    next: usize,
    sent_bytes: usize,
}

#[derive(Debug)]
struct File {
    pieces: Vec<Bytes>,
    size_bytes: usize,
    digest: String,
    _room: Room,
}

impl Blob {
    /// Its length.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.file.size_bytes
    }

    /// Its SHA-256, as `sha256:` and hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.file.digest
    }
}

impl Clone for Blob {
    fn clone(&self) -> Blob {
        Blob { file: Arc::clone(&self.file), next: 0, sent_bytes: 0 }
    }
}

impl Body for Blob {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(piece) = self.file.pieces.get(self.next).cloned() else {
            return Poll::Ready(None);
        };
        self.next += 1;
        self.sent_bytes += piece.len();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.sent_bytes == self.file.size_bytes
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact((self.file.size_bytes - self.sent_bytes) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(budget: &Budget) -> usize {
        budget.0.load(Relaxed)
    }

    #[test]
    fn memory_comes_back_when_the_last_reader_is_done() {
        let budget = Budget::new(100_000);
        let mut writer = Writer::new(&budget, 10).unwrap();
        assert!(writer.write(&vec![7; 70_000]).is_some());
        assert_eq!(left(&budget), 30_000);
        let stored = writer.finish();
        let reader = stored.clone();
        drop(stored);
        assert_eq!(left(&budget), 30_000);
        drop(reader);
        assert_eq!(left(&budget), 100_000);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_leaves_nothing_behind() {
        let budget = Budget::new(1000);
        assert!(Writer::new(&budget, 1001).is_none());
        let mut writer = Writer::new(&budget, 0).unwrap();
        assert!(writer.write(&[0; 1000]).is_some());
        assert!(writer.write(&[0; 1]).is_none());
        drop(writer);
        assert_eq!(left(&budget), 1000);
    }
}
