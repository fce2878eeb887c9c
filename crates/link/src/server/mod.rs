//! The receiving end: handshake, then HTTP/2 or HTTP/1.1, whichever the peer chose.

mod drain;

use std::cell::Cell;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::request::Parts;
use http::{Extensions, Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Either, Empty};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioIo, TokioTimer};
use outside::net::{TcpListener, TcpStream};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub use drain::{Drain, Draining};

use crate::certificate::{Certificate, Fingerprint};
use crate::exec::Local;
use crate::interim::{Mouth, Saying};
use crate::socket::Socket;
use crate::speaks::{Agreed, agreed};
use crate::tls::Presented;
use crate::watched::Watched;
use crate::{BoxError, wire};

/// Who sent a request: proven by its certificate.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The site.
    pub site: Rc<str>,
    /// With which certificate.
    pub fingerprint: Fingerprint,
    /// When that was issued.
    pub issued: SystemTime,
    /// In which version it speaks.
    pub version: u16,
    /// Where its connection comes from; proves nothing.
    pub address: SocketAddr,
}

/// What one core gives to all peers together.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Time for a handshake.
    pub handshake_timeout: Duration,
    /// Handshakes at the same time. The next is closed at once: strangers get no further than here.
    pub handshakes: usize,
    /// Connections at the same time, handshakes included. The next is closed at once.
    pub connections: usize,
    /// Size of a request's headers.
    pub header_bytes: u32,
    /// Number of a request's headers, on HTTP/1.1.
    pub headers: usize,
    /// Requests at the same time on one HTTP/2 connection.
    pub streams: u32,
    /// What a peer may send before it is read, of one request.
    pub stream_window_bytes: u32,
    /// What a peer may send before it is read, on one HTTP/2 connection.
    pub window_bytes: u32,
    /// How often an HTTP/2 peer is asked whether it is there.
    pub ping_interval: Duration,
    /// Time for its answer.
    pub ping_timeout: Duration,
    /// Time for the next request's headers, on HTTP/1.1; longer than peers keep a connection idle.
    pub idle_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            handshake_timeout: Duration::from_secs(5),
            handshakes: 256,
            connections: 4096,
            header_bytes: 64 << 10,
            headers: 256,
            // What a pool sends to a peer at most, and its probes.
            streams: 1032,
            // A request that is not read holds up itself, and not the fifteen others.
            stream_window_bytes: 1 << 20,
            // 16 MiB are 300 ms at 450 Mbit/s.
            window_bytes: 16 << 20,
            ping_interval: Duration::from_secs(15),
            ping_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
        }
    }
}

/// Serves other sites, on one core: its tasks are spawned on the current `LocalSet`.
#[derive(Clone)]
pub struct Server<W> {
    presented: Presented,
    limits: Limits,
    wrap: W,
}

type Tls = TlsStream<Socket>;

impl Server<fn(Tls, &mut Extensions) -> Tls> {
    /// A server of this identity and with these limits.
    pub fn new(presented: impl Into<Presented>, limits: Limits) -> Self {
        Server { presented: presented.into(), limits, wrap: |stream, _| stream }
    }
}

impl<W> Server<W> {
    /// With something around the stream of every HTTP/1.1 connection, to watch what comes in. What it puts into the
    /// extensions, every request on the connection has.
    #[must_use]
    pub fn wrapping<V, IO>(self, wrap: V) -> Server<V>
    where
        V: Fn(TlsStream<Socket>, &mut Extensions) -> IO,
    {
        Server { presented: self.presented, limits: self.limits, wrap }
    }

    /// Accepts peers and calls `service` with each request and its sender, until a drain: then it stops
    /// to accept, and returns when the requests in flight are answered. Dropping it cuts them off.
    ///
    /// A request has a path and a `Host` header, whichever way it came. One on HTTP/2 whose sender wants to hear
    /// interim answers has a [`Speaker`](crate::Speaker) among its extensions. A stream that a service upgrades
    /// (HTTP/1.1 only) is its own: a drain does not wait for it.
    pub async fn serve<IO, S, F, B>(self, listener: TcpListener, mut draining: Draining, service: S)
    where
        W: Fn(Tls, &mut Extensions) -> IO + 'static,
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Fn(Request<Incoming>, Peer) -> F + 'static,
        F: Future<Output = Response<B>> + 'static,
        B: Body<Data = Bytes> + 'static,
        B::Error: Into<BoxError>,
    {
        let server = Rc::new(self);
        let service = Rc::new(service);
        let handshakes = Rc::new(Cell::new(0));
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = draining.started() => break,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => {
                        let full = connections.len() >= server.limits.connections
                            || handshakes.get() >= server.limits.handshakes;
                        if !full {
                            let ticket = Ticket::new(&handshakes);
                            let (server, service) = (Rc::clone(&server), Rc::clone(&service));
                            let draining = draining.clone();
                            connections.spawn_local(async move {
                                server.connection(stream, address, ticket, draining, service).await;
                            });
                        }
                    }
                    // Out of files, most likely: trying again at once would only burn the core.
                    Err(_) => sleep(Duration::from_millis(50)).await,
                },
            }
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }

    /// One peer, from its first byte to its last. What goes wrong is the peer's to see.
    async fn connection<IO, S, F, B>(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        ticket: Ticket,
        mut draining: Draining,
        service: Rc<S>,
    ) where
        W: Fn(Tls, &mut Extensions) -> IO + 'static,
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Fn(Request<Incoming>, Peer) -> F + 'static,
        F: Future<Output = Response<B>> + 'static,
        B: Body<Data = Bytes> + 'static,
        B::Error: Into<BoxError>,
    {
        let tls = self.presented.now();
        let handshake = TlsAcceptor::from(tls.config).accept(Socket::new(stream));
        let mut stream = tokio::select! {
            biased;
            () = draining.started() => return,
            stream = timeout(self.limits.handshake_timeout, handshake) => match stream {
                Ok(Ok(stream)) => stream,
                _ => return,
            },
        };
        drop(ticket);
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let Some(Certificate { site, issued, fingerprint, .. }) = certificate.and_then(Certificate::read)
        else {
            return;
        };
        let peer = |version| Peer { site: site.as_str().into(), fingerprint, issued, version, address };
        stream.get_mut().0.cut_when(tls.revoked.shut_out(site.clone(), issued));
        match agreed(stream.get_ref().1.alpn_protocol()) {
            Some(Agreed::Small(version)) => self.serve_http2(stream, peer(version), draining, service).await,
            Some(Agreed::Long(version)) => self.serve_http1(stream, peer(version), draining, service).await,
            Some(Agreed::Misfits) => {
                let told = tls.speaks.told();
                let _ = timeout(self.limits.handshake_timeout, tell(stream, &told)).await;
            }
            None => {}
        }
    }

    async fn serve_http2<S, F, B>(&self, stream: Tls, peer: Peer, mut draining: Draining, service: Rc<S>)
    where
        S: Fn(Request<Incoming>, Peer) -> F + 'static,
        F: Future<Output = Response<B>> + 'static,
        B: Body<Data = Bytes> + 'static,
        B::Error: Into<BoxError>,
    {
        let mouth = Mouth::default();
        let stream = TokioIo::new(Saying::new(stream, &mouth));
        let service = service_fn(move |request: Request<Incoming>| {
            answered(ask(&*service, request, &peer, |head| {
                if let Some(number) = wire::take_heard(&mut head.headers) {
                    head.extensions.insert(mouth.speaker(number));
                }
            }))
        });
        let mut connection = pin!(self.http2().serve_connection(stream, service));
        tokio::select! {
            biased;
            () = draining.started() => connection.as_mut().graceful_shutdown(),
            _ = connection.as_mut() => return,
        }
        let _ = connection.await;
    }

    async fn serve_http1<IO, S, F, B>(&self, stream: Tls, peer: Peer, mut draining: Draining, service: Rc<S>)
    where
        W: Fn(Tls, &mut Extensions) -> IO + 'static,
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Fn(Request<Incoming>, Peer) -> F + 'static,
        F: Future<Output = Response<B>> + 'static,
        B: Body<Data = Bytes> + 'static,
        B::Error: Into<BoxError>,
    {
        let mut beside = Extensions::new();
        let (stream, end) = Watched::end((self.wrap)(stream, &mut beside));
        let service = service_fn(move |request: Request<Incoming>| {
            answered(ask(&*service, request, &peer, |head| head.extensions.extend(beside.clone())))
        });
        let connection = self.http1().serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection.with_upgrades());
        let mut gone = pin!(gone(end));
        tokio::select! {
            biased;
            _ = connection.as_mut() => return,
            () = gone.as_mut() => return,
            () = draining.started() => connection.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            biased;
            _ = connection => {}
            () = gone => {}
        }
    }

    fn http2(&self) -> http2::Builder<Local> {
        let mut builder = http2::Builder::new(Local);
        builder
            .timer(TokioTimer::new())
            .max_header_list_size(self.limits.header_bytes)
            .max_concurrent_streams(self.limits.streams)
            .initial_stream_window_size(self.limits.stream_window_bytes)
            .initial_connection_window_size(self.limits.window_bytes)
            .keep_alive_interval(self.limits.ping_interval)
            .keep_alive_timeout(self.limits.ping_timeout)
            // The application's own date, or none.
            .auto_date_header(false);
        builder
    }

    fn http1(&self) -> http1::Builder {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .max_headers(self.limits.headers)
            .max_header_size(usize::try_from(self.limits.header_bytes).unwrap_or(usize::MAX))
            .header_read_timeout(self.limits.idle_timeout)
            .auto_date_header(false);
        builder
    }
}

/// Tells a peer something, and hangs up.
async fn tell(mut stream: Tls, what: &str) -> io::Result<()> {
    stream.write_all(what.as_bytes()).await?;
    stream.shutdown().await
}

/// Asks the service, unless it is a probe. `prepare` says what goes with the request.
fn ask<S, F>(
    service: &S,
    request: Request<Incoming>,
    peer: &Peer,
    prepare: impl FnOnce(&mut Parts),
) -> Option<Pin<Box<F>>>
where
    S: Fn(Request<Incoming>, Peer) -> F,
{
    let (mut head, body) = request.into_parts();
    wire::to_path_and_host(&mut head);
    if wire::is_probe(&head.headers) {
        return None;
    }
    prepare(&mut head);
    // Boxed: the task of a stream would have room for it three times, and copy all of it.
    Some(Box::pin(service(Request::from_parts(head, body), peer.clone())))
}

/// The service's answer, or that to a probe.
async fn answered<F, B>(
    answer: Option<F>,
) -> Result<Response<impl Body<Data = Bytes, Error = BoxError> + use<F, B>>, Infallible>
where
    F: Future<Output = Response<B>>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    Ok(match answer {
        Some(answer) => answer.await.map(|body| Either::Left(body.map_err(opaque))),
        None => Response::new(Either::Right(Empty::new().map_err(opaque))),
    })
}

/// The stream of a request that switched protocols, as [`Server::wrapping`] made it. Bytes that were read
/// from it and not used are dropped: whoever wraps knows what they can be. Another stream comes back.
pub fn upgraded<IO>(stream: Upgraded) -> Result<IO, Upgraded>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    Ok(stream.downcast::<TokioIo<Watched<IO>>>()?.io.into_inner().into_inner())
}

/// Returns once an HTTP/1.1 peer has closed its side: it has gone, with its request. (hyper waits for the
/// service nevertheless, if the request's body had not ended.)
async fn gone(end: oneshot::Receiver<()>) {
    if end.await.is_err() {
        // The stream was upgraded, or is closed: either way the connection ends by itself.
        std::future::pending::<()>().await;
    }
}

/// An error without the causes inside it.
///
/// hyper resets a stream with the HTTP/2 reason that it finds in the causes of a body's error. One that
/// came from a further hop could so tell our peer `REFUSED_STREAM`: "never executed", of a request that was.
fn opaque(error: impl Into<BoxError>) -> io::Error {
    io::Error::other(error.into().to_string())
}

/// One of the handshakes that may run at the same time.
struct Ticket(Rc<Cell<usize>>);

impl Ticket {
    fn new(count: &Rc<Cell<usize>>) -> Ticket {
        count.set(count.get() + 1);
        Ticket(Rc::clone(count))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}
