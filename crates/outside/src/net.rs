//! Connections, and who listens for them.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

#[cfg(not(feature = "sim"))]
pub use tokio::net::{TcpListener, TcpStream, UdpSocket};

#[cfg(feature = "sim")]
pub use crate::world::net::{TcpListener, TcpStream, UdpSocket};

/// How soon the system asks whether a silent end is there, and how often again before it counts as gone.
const KEEP_ALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(20))
    .with_interval(Duration::from_secs(5))
    .with_retries(6);

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// An address that is bound, for a task that will accept there.
pub struct Bound(Place);

enum Place {
    System(StdListener),
    #[cfg(feature = "sim")]
    World(TcpListener),
}

impl Bound {
    /// The address; with port 0 asked for, the one that was chosen.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            Place::System(listener) => listener.local_addr(),
            #[cfg(feature = "sim")]
            Place::World(listener) => listener.local_addr(),
        }
    }

    /// Accepts on the current runtime.
    pub fn listen(self) -> io::Result<TcpListener> {
        match self.0 {
            #[cfg(not(feature = "sim"))]
            Place::System(listener) => TcpListener::from_std(listener),
            #[cfg(feature = "sim")]
            Place::System(listener) => tokio::net::TcpListener::from_std(listener).map(TcpListener::System),
            #[cfg(feature = "sim")]
            Place::World(listener) => Ok(listener),
        }
    }
}

/// Binds an address so that several may share it, each with some of the connections.
pub fn bind(address: SocketAddr) -> io::Result<Bound> {
    #[cfg(feature = "sim")]
    if let Some(world) = crate::world::current() {
        return Ok(Bound(Place::World(TcpListener::World(world.listen(address)?))));
    }
    let socket = socket(address)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(Bound(Place::System(socket.into())))
}

/// Whether an address is free. A listener that shares its address with those of the other cores would
/// share it with another process of the same user too, and each would get some of the connections.
pub fn probe(address: SocketAddr) -> io::Result<()> {
    #[cfg(feature = "sim")]
    if crate::world::current().is_some() {
        return Ok(());
    }
    if address.port() == 0 {
        return Ok(());
    }
    let socket = socket(address)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// A connection to a host, by its name or its address.
pub async fn dial(host: &str, port: u16) -> io::Result<TcpStream> {
    #[cfg(feature = "sim")]
    if let (Some(_), Ok(host)) = (crate::world::current(), host.parse()) {
        return connect(SocketAddr::new(host, port)).await;
    }
    tokio::net::TcpStream::connect((host, port)).await.map(from_system)
}

/// A connection to an address.
pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    #[cfg(feature = "sim")]
    if let Some(world) = crate::world::current() {
        return Ok(TcpStream::World(world.connect(address).await?));
    }
    tokio::net::TcpStream::connect(address).await.map(from_system)
}

/// What sends and receives datagrams at an address, on the current runtime.
pub fn datagrams(at: SocketAddr) -> io::Result<UdpSocket> {
    #[cfg(feature = "sim")]
    if let Some(world) = crate::world::current() {
        return Ok(UdpSocket::World(world.datagrams(at)?));
    }
    let socket = std::net::UdpSocket::bind(at)?;
    socket.set_nonblocking(true)?;
    let socket = tokio::net::UdpSocket::from_std(socket)?;
    #[cfg(feature = "sim")]
    let socket = UdpSocket::System(socket);
    Ok(socket)
}

/// Has the system find out that the other end is gone, while nothing is sent: within about a minute.
pub fn keep_alive(stream: &tokio::net::TcpStream) {
    // A socket that refuses still works.
    let _ = SockRef::from(stream).set_tcp_keepalive(&KEEP_ALIVE);
}

/// The system's own connection, where it is one.
#[cfg(not(feature = "sim"))]
#[must_use]
pub fn system(stream: &TcpStream) -> Option<&tokio::net::TcpStream> {
    Some(stream)
}

/// The system's own connection, where it is one.
#[cfg(not(feature = "sim"))]
pub fn into_system(stream: TcpStream) -> Result<tokio::net::TcpStream, TcpStream> {
    Ok(stream)
}

/// A connection of the system's.
#[cfg(not(feature = "sim"))]
#[must_use]
pub fn from_system(stream: tokio::net::TcpStream) -> TcpStream {
    stream
}

#[cfg(feature = "sim")]
pub use crate::world::net::{from_system, into_system, system};
