//! Connections of clients: TLS or not, HTTP/1.1 behind a guard or HTTP/2, until they end or are drained.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Version};
use http1guard::{Aside, Guarded};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::{Parts, Upgraded};
use hyper_util::rt::TokioIo;
use link::Draining;
use outside::net::{TcpListener, TcpStream, into_system, keep_alive, system};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::core::{Core, State};
use crate::handle::{self, Entry};
use crate::headers::HEADERS_ON_STACK;
use crate::http2;
use crate::idle::{Idle, Seldom};
use crate::interim::Turn;
use crate::paced::{Paced, Sending};
use crate::thin::{self, Other, Rewound, Seat};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const H2: &[u8] = b"h2";

/// Accepts until drained, then waits for the requests in flight.
pub(crate) async fn accept(core: Rc<Core>, entry: Rc<Entry>, listener: TcpListener, mut draining: Draining) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = draining.started() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, client)) => {
                    // Past the limit a connection is closed at once: a clear sign, at no cost.
                    if connections.len() < core.state().settings().limits.connections {
                        let (core, entry, draining) = (Rc::clone(&core), Rc::clone(&entry), draining.clone());
                        connections.spawn_local(connection(core, entry, stream, client, draining));
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

/// One client, from its first byte to its last. What goes wrong is the client's to see.
async fn connection(
    core: Rc<Core>,
    entry: Rc<Entry>,
    stream: TcpStream,
    client: SocketAddr,
    draining: Draining,
) {
    let _ = stream.set_nodelay(true);
    let state = core.state();
    let tls = state.settings().services.get(&entry.service).and_then(|service| service.tls.clone());
    // On the thin path it is for who needs it.
    if (tls.is_some() || !state.settings().thin)
        && let Some(stream) = system(&stream)
    {
        keep_alive(stream);
    }
    // Each way is boxed: a connection takes the memory of its own kind, not of the largest.
    let serve = Serve { core, entry, client, draining };
    if let Some(tls) = tls {
        return Box::pin(serve.tls(&state, tls, stream)).await;
    }
    if !state.settings().thin {
        return Box::pin(serve.plain(&state, stream)).await;
    }
    match into_system(stream) {
        Ok(stream) => Box::pin(serve.thin(&state, stream)).await,
        Err(stream) => Box::pin(serve.plain(&state, stream)).await,
    }
}

/// Whether the first bytes are HTTP/2's. They are left in place.
async fn speaks_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0; PREFACE.len()];
    let mut pause = Duration::from_millis(1);
    loop {
        let seen = stream.peek(&mut first).await?;
        let start = first.get(..seen).unwrap_or_default();
        if seen == 0 || !PREFACE.starts_with(start) {
            return Ok(false);
        }
        if seen == PREFACE.len() {
            return Ok(true);
        }
        // A part of the preface, which clients send as a whole: the rest is on its way. Bytes that stay
        // in place wake nobody; and who never sends the rest must not cost a wake-up each millisecond.
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

struct Serve {
    core: Rc<Core>,
    entry: Rc<Entry>,
    client: SocketAddr,
    draining: Draining,
}

impl Serve {
    async fn thin(self, state: &State, stream: tokio::net::TcpStream) {
        let Serve { core, entry, client, draining } = self;
        let seat = Seat { core, entry, address: client, draining };
        let Some(other) = thin::serve(&seat, stream).await else { return };
        let Seat { core, entry, address: client, draining } = seat;
        let serve = Serve { core, entry, client, draining };
        match other {
            Other::Http1(stream) => Box::pin(serve.http1(state, stream)).await,
            Other::Http2(stream) => Box::pin(serve.http2(state, stream)).await,
        }
    }

    async fn plain(mut self, state: &State, stream: TcpStream) {
        let times = &state.settings().timeouts;
        let mut first_byte = [0];
        let first = tokio::select! {
            biased;
            // Nothing is known of a client until its first byte; then a head has begun.
            first = timeout(times.idle, stream.peek(&mut first_byte)) => first,
            // A client that has not said anything yet is not waited for.
            () = self.draining.started() => return,
        };
        if !matches!(first, Ok(Ok(_))) {
            return;
        }
        match timeout(times.header, speaks_http2(&stream)).await {
            Ok(Ok(true)) => Box::pin(self.http2(state, stream)).await,
            Ok(Ok(false)) => Box::pin(self.http1(state, stream)).await,
            _ => {}
        }
    }

    async fn tls(self, state: &State, tls: Arc<ServerConfig>, stream: TcpStream) {
        let handshake = Box::pin(TlsAcceptor::from(tls).accept(stream));
        let patience = state.settings().timeouts.header;
        let Ok(Ok(stream)) = timeout(patience, handshake).await else { return };
        if stream.get_ref().1.alpn_protocol() == Some(H2) {
            Box::pin(self.http2(state, stream)).await;
        } else {
            Box::pin(self.http1(state, stream)).await;
        }
    }

    async fn http1<IO>(mut self, state: &State, stream: IO)
    where
        IO: AsyncRead + AsyncWrite + Sending + Unpin + Send + 'static,
    {
        let settings = state.settings();
        let limits = thin::guard_limits(settings);
        let mut builder = http1::Builder::new();
        builder
            // Its timer is set anew for each request; ours is not.
            .header_read_timeout(None)
            .max_header_size(settings.limits.header_bytes.max(8192) + 1024)
            // A client may close its side once it has sent its request, and still wait for the answer.
            .half_close(true)
            // The application's own date, or none.
            .auto_date_header(false);
        if settings.limits.headers > HEADERS_ON_STACK {
            builder.max_headers(settings.limits.headers);
        }
        let (core, entry, client) = (self.core, self.entry, self.client);
        let aside = Aside::new();
        let guarded = Guarded::new(stream, limits).with_aside(aside.clone());
        let idle = Idle::new();
        let connection = Rc::clone(&idle);
        let service = service_fn(move |request: Request<Incoming>| {
            let busy = Some(connection.interrupt());
            // Older clients take the first answer for the last (RFC 9110, 15.2).
            let turn = (request.version() == Version::HTTP_11).then(|| Turn::Http1(aside.turn()));
            // Boxed: hyper keeps room for one request for as long as the connection lives.
            Box::pin(handle::handle(Rc::clone(&core), Rc::clone(&entry), client, busy, request, turn))
        });
        let times = &settings.timeouts;
        let stream = TokioIo::new(Paced::new(guarded, times.header, times.body_idle));
        let mut connection = pin!(builder.serve_connection(stream, service).with_upgrades());
        let end = Seldom::new(async move {
            tokio::select! {
                biased;
                () = self.draining.started() => {}
                () = idle.longer_than(times.idle) => {}
            }
        });
        tokio::select! {
            biased;
            () = end => connection.as_mut().graceful_shutdown(),
            _ = connection.as_mut() => return,
        }
        let _ = connection.await;
    }

    async fn http2<IO>(self, state: &State, stream: IO)
    where
        IO: AsyncRead + AsyncWrite + Sending + Unpin + 'static,
    {
        let settings = state.settings();
        let stream = Paced::new(stream, settings.timeouts.header, settings.timeouts.body_idle);
        let Serve { core, entry, client, draining } = self;
        let service = |request, voice| {
            let turn = Some(Turn::Http2(voice));
            handle::handle(Rc::clone(&core), Rc::clone(&entry), client, None, request, turn)
        };
        http2::serve(stream, settings, draining, service).await;
    }
}

/// A stream of either kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// The connection of a client that switched protocols, out of the guard, and what it has already sent.
pub(crate) fn opaque(client: Upgraded) -> (Box<dyn Stream>, Bytes) {
    let client = match unguarded::<TcpStream>(client) {
        Ok(out) => return out,
        Err(client) => client,
    };
    let client = match unguarded::<Rewound>(client) {
        Ok(out) => return out,
        Err(client) => client,
    };
    let client = match unguarded::<TlsStream<TcpStream>>(client) {
        Ok(out) => return out,
        Err(client) => client,
    };
    // A peer's, on the link.
    match link::upgraded::<Guarded<TlsStream<link::Socket>>>(client) {
        Ok(guarded) => bare(guarded),
        Err(client) => (Box::new(TokioIo::new(client)), Bytes::new()),
    }
}

fn unguarded<IO>(client: Upgraded) -> Result<(Box<dyn Stream>, Bytes), Upgraded>
where
    IO: AsyncRead + AsyncWrite + Sending + Unpin + Send + 'static,
{
    // What the server had in its buffer can only be the guard's mark: it is dropped.
    let Parts { io, .. } = client.downcast::<TokioIo<Paced<Guarded<IO>>>>()?;
    Ok(bare(io.into_inner().into_inner()))
}

fn bare<IO>(guarded: Guarded<IO>) -> (Box<dyn Stream>, Bytes)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match guarded.into_opaque() {
        Ok((io, sent)) => (Box::new(io), sent),
        Err(guarded) => (guarded, Bytes::new()),
    }
}
