//! A socket between sites: its options, and what cuts it.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use outside::net::{TcpStream, system};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Finds a peer that is gone while nothing is sent, on connections without HTTP/2's pings.
/// (`TCP_USER_TIMEOUT` would also cut a peer that reads slowly, which is its right.)
const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(20)).with_interval(Duration::from_secs(5));

/// A connection to or from another site, under TLS. It breaks, whatever is made of it above, when the
/// peer's identity is revoked.
pub struct Socket {
    stream: TcpStream,
    end: End,
}

enum End {
    Never,
    When(Pin<Box<dyn Future<Output = ()> + Send>>),
    Now,
}

impl Socket {
    /// Sets its options; one that refuses one still works.
    pub(crate) fn new(stream: TcpStream) -> Socket {
        let _ = stream.set_nodelay(true);
        if let Some(stream) = system(&stream) {
            let _ = SockRef::from(stream).set_tcp_keepalive(&KEEPALIVE);
        }
        Socket { stream, end: End::Never }
    }

    /// Cuts it once this has happened.
    pub(crate) fn cut_when(&mut self, event: impl Future<Output = ()> + Send + 'static) {
        self.end = End::When(Box::pin(event));
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.stream
    }

    /// An error once it is cut; before, whoever reads or writes is woken when it is.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if let End::When(event) = &mut self.end
            && event.as_mut().poll(context).is_ready()
        {
            self.end = End::Now;
        }
        match self.end {
            End::Now => {
                Err(io::Error::new(io::ErrorKind::ConnectionReset, "the peer's identity was revoked"))
            }
            End::Never | End::When(_) => Ok(()),
        }
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(f)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
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
