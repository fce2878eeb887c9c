//! The address at which other sites reach this one, where the configuration does not say.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// What `listen` stands for, seen from outside: itself, or for every address of this machine the one that
/// it would send from. Nothing is sent to find out.
pub(super) fn address(listen: SocketAddr) -> SocketAddr {
    if !listen.ip().is_unspecified() {
        return listen;
    }
    // Addresses that are for examples, and lead to the way out.
    let (from, to): (IpAddr, IpAddr) = match listen.ip() {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into()),
        IpAddr::V6(_) => {
            (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into())
        }
    };
    let found = UdpSocket::bind((from, 0)).and_then(|socket| {
        socket.connect((to, 9))?;
        socket.local_addr()
    });
    let loopback = match listen.ip() {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    // A machine without a way out can still meet sites on itself.
    SocketAddr::new(found.map_or(loopback, |address| address.ip()), listen.port())
}
