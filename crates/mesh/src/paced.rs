//! A client's connection with limits on its waits: for the rest of a head, for a client that reads, and at the end for
//! one that is still sending.

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

use crate::streams;
use crate::thin::Rewound;

/// How long a client that is still sending is listened to after the last answer, so that it gets that answer: bytes
/// that nobody reads make the system reset the connection, and what was on its way is lost (RFC 9112, 9.6).
pub(crate) const LINGER: Duration = Duration::from_secs(5);

/// What the client of a connection is about.
pub(crate) trait Sending {
    /// Whether some of a head has come, and not all of it.
    fn is_mid_head(&self) -> bool {
        false
    }

    /// After the end of the answers: drops what still comes. Ready at the client's end, or at once if nothing is
    /// expected of it.
    fn poll_rest(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// What the system has found to be wrong with the socket while nobody used it.
    fn fault(&self) -> Option<io::Error> {
        None
    }
}

impl<IO: AsyncRead + Sending + Unpin> Sending for Guarded<IO> {
    fn fault(&self) -> Option<io::Error> {
        self.io().fault()
    }

    fn is_mid_head(&self) -> bool {
        Guarded::is_mid_head(self)
    }

    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let rest = self.poll_drop_rest(context);
        if self.is_mid_request() { rest } else { Poll::Ready(()) }
    }
}

/// HTTP/2 has its own pings for a silent client, and says itself what it still reads.
impl Sending for TcpStream {
    fn fault(&self) -> Option<io::Error> {
        streams::fault(self)
    }
}

impl Sending for Rewound {
    fn fault(&self) -> Option<io::Error> {
        self.stream().take_error().ok().flatten()
    }
}

impl<IO: Sending> Sending for TlsStream<IO> {
    fn fault(&self) -> Option<io::Error> {
        self.get_ref().0.fault()
    }
}

/// Fails with `TimedOut` when a wait takes too long. Timers exist only while something waits.
pub(crate) struct Paced<IO> {
    io: IO,
    head: Wait,
    write: Wait,
    rest: Wait,
    /// Nothing is written any more.
    ended: bool,
    /// How often streams had looked for their clients when this one last did.
    looks: u64,
}

impl<IO> Paced<IO> {
    /// `head` is for a whole head, however many drops it comes in; `write` for each pause of a reader.
    pub(crate) fn new(io: IO, head: Duration, write: Duration) -> Paced<IO> {
        let [head, write, rest] = [head, write, LINGER].map(Wait::new);
        Paced { io, head, write, rest, ended: false, looks: streams::looks() }
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

impl<IO: AsyncRead + Sending + Unpin> AsyncRead for Paced<IO> {
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

impl<IO: AsyncWrite + Sending + Unpin> AsyncWrite for Paced<IO> {
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
        let looks = streams::looks();
        if std::mem::replace(&mut this.looks, looks) != looks
            && let Some(fault) = this.io.fault()
        {
            return Poll::Ready(Err(fault));
        }
        let flushed = Pin::new(&mut this.io).poll_flush(context);
        this.write.limit(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.ended {
            let ended = Pin::new(&mut this.io).poll_shutdown(context);
            ready!(this.write.limit(ended, context))?;
            this.ended = true;
        }
        let rest = this.io.poll_rest(context).map(Ok);
        this.rest.limit(rest, context)
    }
}
