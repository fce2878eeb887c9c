//! Ports that stay a site's own.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

pub(super) const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A site's own ports, the same each time its mesh starts.
pub(super) struct Ports {
    pub(super) link: Port,
    pub(super) image_public: Port,
    pub(super) image_internal: Port,
    pub(super) compute_public: Port,
}

impl Ports {
    pub(super) fn take(ip: IpAddr) -> io::Result<Ports> {
        Ok(Ports {
            link: Port::take(SocketAddr::new(ip, 0))?,
            image_public: Port::take(ANY_PORT)?,
            image_internal: Port::take(ANY_PORT)?,
            compute_public: Port::take(ANY_PORT)?,
        })
    }
}

/// A port that stays ours while the mesh is down: a second socket is bound to it, and never listens.
pub(super) struct Port {
    pub(super) address: SocketAddr,
    _holder: TcpSocket,
}

impl Port {
    fn take(address: SocketAddr) -> io::Result<Port> {
        let holder = TcpSocket::new_v4()?;
        holder.set_reuseaddr(true)?;
        holder.set_reuseport(true)?;
        holder.bind(address)?;
        Ok(Port { address: holder.local_addr()?, _holder: holder })
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.address.fmt(f)
    }
}
