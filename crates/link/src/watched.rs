//! A stream that tells what hyper does not: that a first byte came, how often any did, or that the last
//! one did.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot::{self, Receiver, Sender};

pub(crate) struct Watched<IO> {
    stream: IO,
    first_byte: Option<Sender<()>>,
    end: Option<Sender<()>>,
    reads: Reads,
}

/// How often something was read.
#[derive(Clone, Default)]
pub(crate) struct Reads(Arc<AtomicUsize>);

impl Reads {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl<IO> Watched<IO> {
    /// Tells when the first byte was read.
    pub(crate) fn first_byte(stream: IO) -> (Watched<IO>, Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        (Watched { stream, first_byte: Some(sender), end: None, reads: Reads::default() }, receiver)
    }

    /// Tells when there is nothing more to read.
    pub(crate) fn end(stream: IO) -> (Watched<IO>, Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        (Watched { stream, first_byte: None, end: Some(sender), reads: Reads::default() }, receiver)
    }
}

impl<IO> Watched<IO> {
    pub(crate) fn reads(&self) -> Reads {
        self.reads.clone()
    }

    pub(crate) fn into_inner(self) -> IO {
        self.stream
    }
}

fn tell(event: &mut Option<Sender<()>>) {
    if let Some(event) = event.take() {
        let _ = event.send(());
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Watched<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, room) = (buffer.filled().len(), buffer.remaining());
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        match &read {
            Poll::Ready(Ok(())) if buffer.filled().len() > before => {
                self.reads.0.fetch_add(1, Ordering::Relaxed);
                tell(&mut self.first_byte);
            }
            Poll::Ready(Ok(())) if room == 0 => {}
            // Bytes that whoever wraps the stream refused: the peer is there, and has an answer to come.
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {}
            Poll::Ready(_) => tell(&mut self.end),
            Poll::Pending => {}
        }
        read
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Watched<IO> {
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
        slices: &[io::IoSlice<'_>],
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
