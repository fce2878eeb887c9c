//! Options of a socket between sites.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// Finds a peer that is gone while nothing is sent, on connections without HTTP/2's pings.
/// (`TCP_USER_TIMEOUT` would also cut a peer that reads slowly, which is its right.)
const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(20)).with_interval(Duration::from_secs(5));

/// Sets them; a socket that refuses one still works.
pub(crate) fn tune(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(stream).set_tcp_keepalive(&KEEPALIVE);
}
