//! A port that can stop listening and stay ours.
//!
//! A connection that is refused and one that is reset mean different things to a client: only the first
//! is known to have had no effect. So a cut link does refuse. But a listener that closes gives its port
//! away, to whichever test next asks for any port; so a second socket is bound to it, and never listens.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

const BACKLOG: u32 = 1024;
/// How long to leave the port alone when it failed, which is when file descriptors ran out.
const PAUSE: Duration = Duration::from_millis(10);

/// A port, listening or not.
#[derive(Debug)]
pub(super) struct Port {
    address: SocketAddr,
    listener: Option<TcpListener>,
    /// Keeps the port.
    _holder: TcpSocket,
}

impl Port {
    /// Takes a port, and listens.
    pub(super) fn bind(bind: SocketAddr) -> io::Result<Port> {
        let holder = bound(bind)?;
        let address = holder.local_addr()?;
        let listener = Some(bound(address)?.listen(BACKLOG)?);
        Ok(Port { address, listener, _holder: holder })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Refuses connections from now on, and resets those that nobody took yet.
    pub(super) fn close(&mut self) {
        self.listener = None;
    }

    /// Listens again, if it does not.
    pub(super) async fn open(&mut self) {
        while self.listener.is_none() {
            match bound(self.address).and_then(|socket| socket.listen(BACKLOG)) {
                Ok(listener) => self.listener = Some(listener),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// The next connection; never, while it does not listen.
    pub(super) async fn accept(&self) -> TcpStream {
        let Some(listener) = &self.listener else {
            return std::future::pending().await;
        };
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return stream,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// Sockets that say so may share a port, as long as only one listens.
fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}
