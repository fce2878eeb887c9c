//! The end that hears: frames of the link's own, taken out before hyper reads.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Ear;
use super::frame::{self, HEAD_BYTES, Head};

/// Who hears what on one connection. Its copies are the same.
#[derive(Clone, Default)]
pub(crate) struct Ears(Rc<Listeners>);

#[derive(Default)]
struct Listeners {
    by_number: RefCell<HashMap<u32, Ear>>,
    next: Cell<u32>,
}

impl Ears {
    /// Listens to what is said of one request, until this is dropped.
    pub(crate) fn listen(&self, ear: &Ear) -> Listening {
        let mut by_number = self.0.by_number.borrow_mut();
        let mut number = self.0.next.get();
        while by_number.contains_key(&number) {
            number = number.wrapping_add(1);
        }
        self.0.next.set(number.wrapping_add(1));
        by_number.insert(number, Arc::clone(ear));
        Listening { ears: self.clone(), number }
    }

    fn hear(&self, payload: &[u8]) {
        // What cannot be read is advice that is not taken.
        let Some((number, status, fields)) = frame::read(payload) else { return };
        let ear = self.0.by_number.borrow().get(&number).cloned();
        if let Some(ear) = ear {
            ear(status, &fields);
        }
    }
}

/// A request whose interim answers are heard.
pub(crate) struct Listening {
    ears: Ears,
    number: u32,
}

impl Listening {
    /// What the peer has to know of it.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.ears.0.by_number.borrow_mut().remove(&self.number);
    }
}

/// The stream of a connection, without what is said on it.
pub(crate) struct Hearing<IO> {
    stream: IO,
    ears: Ears,
    /// So much of the payload of a frame of HTTP/2 is to come.
    left: usize,
    /// Of which it is not known yet whose it is, or which is the link's own and not whole.
    held: BytesMut,
    /// For hyper.
    passed: BytesMut,
}

impl<IO> Hearing<IO> {
    pub(crate) fn new(stream: IO, ears: &Ears) -> Hearing<IO> {
        let (held, passed) = (BytesMut::new(), BytesMut::new());
        Hearing { stream, ears: ears.clone(), left: 0, held, passed }
    }

    /// Takes out what is the link's own of what is held, and passes the rest on.
    fn sort(&mut self) {
        loop {
            let others = skip(&mut self.left, &self.held);
            self.passed.unsplit(self.held.split_to(others));
            let Some(head) = Head::read(&self.held) else { break };
            let Some(payload) = self.held.get(HEAD_BYTES..HEAD_BYTES + head.length) else { break };
            self.ears.hear(payload);
            self.held.advance(HEAD_BYTES + head.length);
        }
        if self.held.is_empty() {
            self.held = BytesMut::new(); // gives its memory back
        }
    }
}

/// How many of these bytes are of HTTP/2's frames: up to a frame of the link's own, or the start of a head.
fn skip(left: &mut usize, bytes: &[u8]) -> usize {
    let mut end = 0;
    loop {
        let here = (bytes.len() - end).min(*left);
        *left -= here;
        end += here;
        match bytes.get(end..).and_then(Head::read) {
            Some(head) if !head.is_own() => {
                *left = head.length;
                end += HEAD_BYTES;
            }
            _ => return end,
        }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Hearing<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if !this.passed.is_empty() || buffer.remaining() == 0 {
                let here = this.passed.len().min(buffer.remaining());
                buffer.put_slice(this.passed.get(..here).unwrap_or_default());
                this.passed.advance(here);
                return Poll::Ready(Ok(()));
            }
            let before = buffer.filled().len();
            ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
            let fresh = buffer.filled().get(before..).unwrap_or_default();
            if fresh.is_empty() {
                // Cut in the middle of a frame: hyper says so.
                this.passed = std::mem::take(&mut this.held);
                if this.passed.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            // Most often all of it is HTTP/2's, and stays where it is.
            let others = if this.held.is_empty() { skip(&mut this.left, fresh) } else { 0 };
            if others == fresh.len() {
                return Poll::Ready(Ok(()));
            }
            this.held.extend_from_slice(fresh.get(others..).unwrap_or_default());
            buffer.set_filled(before + others);
            this.sort();
            if others > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Hearing<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
