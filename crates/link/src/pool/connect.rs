//! Making one connection to a peer.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use outside::net::{TcpStream, connect, from_system};
use rustls::pki_types::ServerName;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, lookup_host};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::exchange::Outgoing;
use super::settings::Settings;
use crate::BoxError;
use crate::certificate::Certificate;
use crate::exec::Local;
use crate::interim::{Ears, Hearing};
use crate::socket::Socket;
use crate::speaks::{Agreed, Misfit, Speaks, agreed};
use crate::tls::{self, ToSite};
use crate::watched::{Reads, Watched};

/// Headers of an answer on the long lane. hyper's own limit of 100 is less than some services send.
const MAX_HEADERS: usize = 256;

/// Two numbers.
const LONGEST_TOLD: u64 = 16;

/// No connection was made.
#[derive(Debug)]
pub(super) struct ConnectError {
    pub(super) step: &'static str,
    pub(super) timeout: bool,
    /// The peer was asked at all.
    pub(super) is_attempt: bool,
    /// The peer speaks no version that this site speaks.
    pub(super) misfit: Option<Misfit>,
    pub(super) source: Option<BoxError>,
}

impl ConnectError {
    fn new(step: &'static str, source: impl Into<BoxError>) -> ConnectError {
        ConnectError { step, timeout: false, is_attempt: true, misfit: None, source: Some(source.into()) }
    }

    /// Refuses to connect with an identity that no peer would believe.
    fn unless_valid(tls: &ToSite) -> Result<(), ConnectError> {
        match tls.validity.fault(SystemTime::now()) {
            None => Ok(()),
            Some(why) => {
                Err(ConnectError { is_attempt: false, ..ConnectError::new("the link is closed", why) })
            }
        }
    }

    fn timeout(step: &'static str) -> ConnectError {
        ConnectError { step, timeout: true, is_attempt: true, misfit: None, source: None }
    }

    fn misfit(misfit: Misfit) -> ConnectError {
        ConnectError { misfit: Some(misfit), ..ConnectError::new("handshake", misfit) }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.step)?;
        if self.timeout {
            f.write_str(": no answer in time")?;
        } else if self.is_attempt {
            f.write_str(": failed")?;
        }
        // A peer's state keeps this text only, and the cause is what an operator needs.
        self.source.as_ref().map_or(Ok(()), |source| write!(f, ": {source}"))
    }
}

impl std::error::Error for ConnectError {}

pub(super) type Small = http2::SendRequest<Outgoing>;
pub(super) type SmallConnection =
    http2::Connection<TokioIo<Hearing<Watched<TlsStream<Socket>>>>, Outgoing, Local>;
/// An HTTP/1.1 connection.
pub(super) struct Long {
    pub(super) sender: http1::SendRequest<Outgoing>,
    pub(super) version: u16,
}

/// An HTTP/2 connection.
pub(super) struct Connected {
    pub(super) sender: Small,
    pub(super) version: u16,
    pub(super) ears: Ears,
    pub(super) connection: SmallConnection,
    pub(super) reads: Reads,
    pub(super) rtt: Duration,
}

/// An HTTP/2 connection whose peer has accepted this site, and the round trip to it.
pub(super) async fn small(
    address: &str,
    tls: &ToSite,
    settings: &Settings,
) -> Result<Connected, ConnectError> {
    ConnectError::unless_valid(tls)?;
    let step = "connecting";
    let stream = timeout(settings.connect_timeout, tcp(address, settings.source))
        .await
        .map_err(|_| ConnectError::timeout(step))??;
    let step = "handshake";
    let shaken = timeout(settings.handshake_timeout, async {
        let (stream, version) = shake(stream, tls).await?;
        let finished = Instant::now();
        // In TLS 1.3 the client is done before the server has looked at the client's certificate: only
        // what the server says next proves that it accepted this site.
        let (stream, hearing) = Watched::first_byte(stream);
        let reads = stream.reads();
        let ears = Ears::default();
        let (sender, mut connection) = builder(settings)
            .handshake(TokioIo::new(Hearing::new(stream, &ears)))
            .await
            .map_err(|error| ConnectError::new(step, error))?;
        tokio::select! {
            biased;
            // An error only says that the stream is gone; how it ended is told below.
            // That is also what the round trip is told by. The time to connect would be that to whatever is
            // in between and accepts for the peer.
            Ok(()) = hearing => Ok(Connected { sender, version, ears, connection, reads, rtt: finished.elapsed() }),
            ended = &mut connection => Err(match ended {
                Ok(()) => ConnectError::new(step, "the peer closed the connection"),
                Err(error) => ConnectError::new(step, refusal(&error)),
            }),
        }
    });
    shaken.await.map_err(|_| ConnectError::timeout(step))?
}

/// An HTTP/1.1 connection, driven until its end.
pub(super) async fn long(address: &str, tls: &ToSite, settings: &Settings) -> Result<Long, ConnectError> {
    ConnectError::unless_valid(tls)?;
    let stream = timeout(settings.connect_timeout, tcp(address, settings.source))
        .await
        .map_err(|_| ConnectError::timeout("connecting"))??;
    let step = "handshake";
    let (stream, version) = timeout(settings.handshake_timeout, shake(stream, tls))
        .await
        .map_err(|_| ConnectError::timeout(step))??;
    let (sender, connection) = http1::Builder::new()
        .max_headers(MAX_HEADERS)
        .max_header_size(usize::try_from(settings.header_bytes).unwrap_or(usize::MAX))
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| ConnectError::new(step, error))?;
    // How it ends is told to the request on it.
    tokio::task::spawn_local(connection.with_upgrades());
    Ok(Long { sender, version })
}

fn builder(settings: &Settings) -> http2::Builder<Local> {
    let mut builder = http2::Builder::new(Local);
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(settings.stream_window_bytes)
        .initial_connection_window_size(settings.window_bytes)
        .max_header_list_size(settings.header_bytes)
        .keep_alive_interval(settings.ping_interval)
        .keep_alive_timeout(settings.ping_timeout)
        .keep_alive_while_idle(true);
    builder
}

/// A connection to the first address that answers.
async fn tcp(address: &str, source: Option<IpAddr>) -> Result<Socket, ConnectError> {
    let addresses =
        lookup_host(address).await.map_err(|error| ConnectError::new("finding the address", error))?;
    let mut last = ConnectError::new("finding the address", "the name has no address");
    for address in addresses {
        match connect_from(source, address).await {
            Ok(stream) => return Ok(Socket::new(stream)),
            Err(error) => last = ConnectError::new("connecting", error),
        }
    }
    Err(last)
}

async fn connect_from(source: Option<IpAddr>, address: SocketAddr) -> io::Result<TcpStream> {
    let Some(source) = source else { return connect(address).await };
    if source.is_ipv4() != address.is_ipv4() {
        return Err(io::Error::other(format!("{address} cannot be reached from {source}")));
    }
    let socket = if source.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.bind(SocketAddr::new(source, 0))?;
    socket.connect(address).await.map(from_system)
}

/// A stream to the peer that was meant, and the version that both speak.
async fn shake(stream: Socket, tls: &ToSite) -> Result<(TlsStream<Socket>, u16), ConnectError> {
    let failed = |error: io::Error| match tls::misfit(&error, tls.speaks) {
        Some(misfit) => ConnectError::misfit(misfit),
        None => ConnectError::new("handshake", tls::explain(&error)),
    };
    // rustls wants a name; ours is in the configuration, and this one is neither sent nor checked.
    let name = ServerName::IpAddress(stream.tcp().peer_addr().map_err(failed)?.ip().into());
    let connector = TlsConnector::from(Arc::clone(&tls.config));
    let mut stream = connector.connect(name, stream).await.map_err(failed)?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let Certificate { site, issued, .. } = certificate
        .and_then(Certificate::read)
        .ok_or_else(|| ConnectError::new("handshake", "the peer's certificate names no site"))?;
    stream.get_mut().0.cut_when(tls.revoked.clone().shut_out(site, issued));
    match agreed(stream.get_ref().1.alpn_protocol()) {
        Some(Agreed::Small(version) | Agreed::Long(version)) => Ok((stream, version)),
        Some(Agreed::Misfits) => Err(match told_versions(stream).await {
            Ok(Some(theirs)) => ConnectError::misfit(Misfit { ours: tls.speaks, theirs }),
            Ok(None) => ConnectError::new("handshake", "the peer did not say which versions it speaks"),
            Err(error) => failed(error),
        }),
        // A server that knows no ALPN is not one of ours.
        None => {
            Err(ConnectError::new("handshake", "the peer chose no version of the protocol between sites"))
        }
    }
}

/// What a peer says that speaks other versions than this site, up to the end of it.
async fn told_versions(stream: TlsStream<Socket>) -> io::Result<Option<Speaks>> {
    let mut told = Vec::new();
    stream.take(LONGEST_TOLD).read_to_end(&mut told).await?;
    Ok(Speaks::read(&told))
}

/// The innermost cause: a peer that refuses this site says so in a TLS alert.
fn refusal(error: &hyper::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
