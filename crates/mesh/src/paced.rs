//! A client's connection with limits on its waits: for the rest of a head, and for a client that reads.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http1guard::Guarded;
use outside::net::TcpStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;

use crate::thin::Rewound;

/// Whether some of a head has come, and not all of it.
pub(crate) trait MidHead {
    fn is_mid_head(&self) -> bool;
}

impl<IO> MidHead for Guarded<IO> {
    fn is_mid_head(&self) -> bool {
        Guarded::is_mid_head(self)
    }
}

/// HTTP/2 has its own pings for a silent client.
impl MidHead for TcpStream {
    fn is_mid_head(&self) -> bool {
        false
    }
}

impl MidHead for Rewound {
    fn is_mid_head(&self) -> bool {
        false
    }
}

impl<IO> MidHead for TlsStream<IO> {
    fn is_mid_head(&self) -> bool {
        false
    }
}

/// Fails with `TimedOut` when a wait takes too long. Timers exist only while something waits.
pub(crate) struct Paced<IO> {
    io: IO,
    head: Wait,
    write: Wait,
}

impl<IO> Paced<IO> {
    /// `head` is for a whole head, however many drops it comes in; `write` for each pause of a reader.
    pub(crate) fn new(io: IO, head: Duration, write: Duration) -> Paced<IO> {
        Paced { io, head: Wait::new(head), write: Wait::new(write) }
    }

    pub(crate) fn into_inner(self) -> IO {
        self.io
    }
}

struct Wait {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Wait {
    fn new(limit: Duration) -> Wait {
        Wait { limit, timer: None }
    }

    /// The wait goes on, or has begun.
    fn poll<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        let limit = self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// What a write came to, or that it took too long.
    fn limit<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        self.poll(context)
    }
}

impl<IO: AsyncRead + MidHead + Unpin> AsyncRead for Paced<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let read = Pin::new(&mut this.io).poll_read(context, buffer);
        if read.is_pending() && this.io.is_mid_head() {
            return this.head.poll(context);
        }
        this.head.timer = None;
        read
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Paced<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let written = Pin::new(&mut this.io).poll_write(context, bytes);
        this.write.limit(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let written = Pin::new(&mut this.io).poll_write_vectored(context, slices);
        this.write.limit(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let flushed = Pin::new(&mut this.io).poll_flush(context);
        this.write.limit(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let ended = Pin::new(&mut this.io).poll_shutdown(context);
        this.write.limit(ended, context)
    }
}
