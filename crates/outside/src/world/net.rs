//! Connections of either kind: the system's, or those of a world.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Door, Post, Wire};

/// A connection.
pub enum TcpStream {
    /// The system's.
    System(tokio::net::TcpStream),
    /// A world's.
    World(Box<dyn Wire>),
}

/// What accepts connections.
pub enum TcpListener {
    /// The system's.
    System(tokio::net::TcpListener),
    /// A world's.
    World(Box<dyn Door>),
}

/// What sends and receives datagrams.
pub enum UdpSocket {
    /// The system's.
    System(tokio::net::UdpSocket),
    /// A world's.
    World(Box<dyn Post>),
}

/// A connection of the system's.
#[must_use]
pub fn from_system(stream: tokio::net::TcpStream) -> TcpStream {
    TcpStream::System(stream)
}

/// The system's own connection, where it is one.
#[must_use]
pub fn system(stream: &TcpStream) -> Option<&tokio::net::TcpStream> {
    match stream {
        TcpStream::System(stream) => Some(stream),
        TcpStream::World(_) => None,
    }
}

/// The system's own connection, where it is one.
pub fn into_system(stream: TcpStream) -> Result<tokio::net::TcpStream, TcpStream> {
    match stream {
        TcpStream::System(stream) => Ok(stream),
        TcpStream::World(_) => Err(stream),
    }
}

impl TcpListener {
    /// The next connection, and whom it is from.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match self {
            TcpListener::System(listener) => {
                let (stream, address) = listener.accept().await?;
                Ok((TcpStream::System(stream), address))
            }
            TcpListener::World(door) => {
                let (wire, address) = poll_fn(|context| door.poll_accept(context)).await?;
                Ok((TcpStream::World(wire), address))
            }
        }
    }

    /// Where.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            TcpListener::System(listener) => listener.local_addr(),
            TcpListener::World(door) => Ok(door.local_addr()),
        }
    }
}

impl UdpSocket {
    /// As tokio's.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            UdpSocket::System(socket) => socket.writable().await,
            UdpSocket::World(_) => Ok(()),
        }
    }

    /// As tokio's.
    pub fn try_send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        match self {
            UdpSocket::System(socket) => socket.try_send_to(bytes, to),
            UdpSocket::World(post) => {
                post.send(bytes, to);
                Ok(bytes.len())
            }
        }
    }

    /// As tokio's.
    pub async fn recv_from(&self, bytes: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        match self {
            UdpSocket::System(socket) => socket.recv_from(bytes).await,
            UdpSocket::World(post) => {
                let mut buffer = ReadBuf::new(bytes);
                let from = poll_fn(|context| post.poll_receive(context, &mut buffer)).await;
                Ok((buffer.filled().len(), from))
            }
        }
    }
}

impl TcpStream {
    /// As tokio's.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        system(self).map_or(Ok(()), |stream| stream.set_nodelay(on))
    }

    /// As tokio's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            TcpStream::System(stream) => stream.peer_addr(),
            TcpStream::World(wire) => Ok(wire.peer_addr()),
        }
    }

    /// As tokio's.
    pub async fn peek(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            TcpStream::System(stream) => stream.peek(bytes).await,
            TcpStream::World(wire) => {
                let mut buffer = ReadBuf::new(bytes);
                poll_fn(|context| wire.poll_peek(context, &mut buffer)).await?;
                Ok(buffer.filled().len())
            }
        }
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TcpStream::System(stream) => stream.fmt(f),
            TcpStream::World(wire) => f.debug_tuple("World").field(&wire.peer_addr()).finish(),
        }
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            TcpStream::System(stream) => Pin::new(stream).poll_read(context, buffer),
            TcpStream::World(wire) => Pin::new(wire).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            TcpStream::System(stream) => Pin::new(stream).poll_write(context, bytes),
            TcpStream::World(wire) => Pin::new(wire).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            TcpStream::System(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            TcpStream::World(wire) => Pin::new(wire).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            TcpStream::System(stream) => stream.is_write_vectored(),
            TcpStream::World(wire) => wire.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            TcpStream::System(stream) => Pin::new(stream).poll_flush(context),
            TcpStream::World(wire) => Pin::new(wire).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            TcpStream::System(stream) => Pin::new(stream).poll_shutdown(context),
            TcpStream::World(wire) => Pin::new(wire).poll_shutdown(context),
        }
    }
}
