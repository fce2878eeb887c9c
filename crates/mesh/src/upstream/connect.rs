//! A new connection: TCP, perhaps TLS, and the task that drives it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::Body;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use outside::net::{TcpStream, into_system, keep_alive, system};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::ear::{Ear, Unread};
use super::error::{BoxError, Kind};
use super::plain::Plain;
use super::{Settings, Target};
use crate::headers::HEADERS_ON_STACK;

/// A connection of hyper's, and who hears the interim answers on it.
pub(super) struct Connection<B> {
    pub(super) sender: SendRequest<B>,
    pub(super) ear: Ear,
}

/// Connects and hands the connection to a task of this core.
///
/// An error proves that no byte of any request left.
pub(super) async fn connect<B>(
    target: &Target,
    open: &Arc<AtomicUsize>,
    settings: &Settings,
) -> Result<Connection<B>, (Kind, BoxError)>
where
    B: Body + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let open = Open::one_more(target, open, settings.max_connections_per_target)?;
    let stream = dial(stream(target), target, settings.connect_timeout).await?;
    let unreachable = |error: hyper::Error| (Kind::Unreachable, error.into());
    let ear = Ear::default();
    let io = TokioIo::new(Io { stream, ear: ear.clone(), unread: Unread::default(), _open: open });
    let mut builder = Builder::new();
    if settings.max_headers > HEADERS_ON_STACK {
        builder.max_headers(settings.max_headers);
    }
    let (sender, connection) = builder.handshake(io).await.map_err(unreachable)?;
    tokio::task::spawn_local(async move {
        // Its errors reach whoever waits for an answer; between requests nobody needs to know.
        let _ = connection.with_upgrades().await;
    });
    Ok(Connection { sender, ear })
}

/// Connects without TLS, and leaves the connection to whoever asked.
///
/// An error proves that no byte of any request left.
pub(super) async fn connect_plain(
    target: &Target,
    open: &Arc<AtomicUsize>,
    settings: &Settings,
) -> Result<Plain, (Kind, BoxError)> {
    let open = Open::one_more(target, open, settings.max_connections_per_target)?;
    let own = async { into_system(tcp(target).await?).map_err(|_| io::Error::other("not the system's")) };
    let stream = dial(own, target, settings.connect_timeout).await?;
    Ok(Plain { stream, _open: open })
}

async fn dial<S>(
    dialling: impl Future<Output = io::Result<S>>,
    target: &Target,
    limit: Duration,
) -> Result<S, (Kind, BoxError)> {
    let at = || format!("{}:{}", target.host, target.port);
    match timeout(limit, dialling).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err((Kind::Unreachable, format!("{}: {error}", at()).into())),
        Err(_) => Err((Kind::Timeout, format!("{}: not connected after {limit:?}", at()).into())),
    }
}

/// An IPv6 address has brackets in a URL and none anywhere else.
fn host(target: &Target) -> &str {
    target.host.trim_start_matches('[').trim_end_matches(']')
}

async fn tcp(target: &Target) -> io::Result<TcpStream> {
    let tcp = outside::net::dial(host(target), target.port).await?;
    tcp.set_nodelay(true)?;
    Ok(tcp)
}

async fn stream(target: &Target) -> io::Result<Stream> {
    let tcp = tcp(target).await?;
    if let Some(tcp) = system(&tcp) {
        keep_alive(tcp);
    }
    let Some(tls) = &target.tls else { return Ok(Stream::Plain(tcp)) };
    let name = ServerName::try_from(host(target).to_owned()).map_err(io::Error::other)?;
    let tls = TlsConnector::from(Arc::clone(tls)).connect(name, tcp).await?;
    Ok(Stream::Tls(Box::new(tls)))
}

/// One of a target's connections, counted for as long as its socket is open. It is atomic only because
/// hyper wants an upgraded connection to be `Send`.
pub(super) struct Open(Arc<AtomicUsize>);

impl Open {
    fn one_more(target: &Target, count: &Arc<AtomicUsize>, limit: usize) -> Result<Open, (Kind, BoxError)> {
        // Only this core adds to it, so that nothing comes between the two.
        if count.load(Ordering::Relaxed) >= limit {
            let (host, port) = (&target.host, target.port);
            return Err((Kind::TooMany, format!("{limit} connections to {host}:{port} on this core").into()));
        }
        count.fetch_add(1, Ordering::Relaxed);
        Ok(Open(Arc::clone(count)))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Io {
    stream: Stream,
    ear: Ear,
    unread: Unread,
    _open: Open,
}

enum Stream {
    Plain(TcpStream),
    /// Boxed: it is ten times the size of the other.
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Io { stream, ear, unread, .. } = &mut *self;
        match stream {
            Stream::Plain(tcp) => unread.poll_read(tcp, ear, cx, buffer),
            Stream::Tls(tls) => unread.poll_read(&mut **tls, ear, cx, buffer),
        }
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Stream::Tls(tls) => Pin::new(&mut **tls).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Stream::Tls(tls) => Pin::new(&mut **tls).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(tcp) => tcp.is_write_vectored(),
            Stream::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(&mut **tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(&mut **tls).poll_shutdown(cx),
        }
    }
}
