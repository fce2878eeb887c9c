//! A place of a network: one address for all the others, which tells them apart by where they send from.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use super::MAX_CONNECTIONS;
use super::carry::{self, Journey};
use super::map::Map;
use super::port::Port;

/// The longest datagram that there is.
const DATAGRAM_BYTES: usize = 64 * 1024;
/// How long to leave a socket alone that failed.
const PAUSE: Duration = Duration::from_millis(10);
/// How often to ask for any port until one is free for connections and for datagrams.
const TRIES: usize = 32;

#[derive(Debug)]
pub(super) struct Place {
    /// What comes from here was sent by this place.
    pub(super) ip: IpAddr,
    /// Where it can be reached, without the network in between.
    pub(super) target: SocketAddr,
    /// Takes datagrams for this place, and delivers those from it: a receiver sees an address that it could
    /// answer to.
    pub(super) socket: UdpSocket,
}

/// Takes the same port for connections and for datagrams.
pub(super) fn bind(address: SocketAddr) -> io::Result<(Port, UdpSocket)> {
    let mut tries = if address.port() == 0 { TRIES } else { 1 };
    loop {
        tries -= 1;
        let port = Port::bind(address)?;
        let socket = std::net::UdpSocket::bind(port.address()).and_then(|socket| {
            socket.set_nonblocking(true)?;
            UdpSocket::from_std(socket)
        });
        match socket {
            Ok(socket) => return Ok((port, socket)),
            Err(error) if tries > 0 && error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
}

/// Takes connections to a place.
pub(super) async fn accept(port: Port, to: Arc<Place>, map: Arc<Map>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            client = port.accept(), if connections.len() < MAX_CONNECTIONS => {
                let sender = client.peer_addr().map(|sender| sender.ip());
                let pairs = sender.ok().and_then(|from| Some((map.find(from, to.ip)?, map.find(to.ip, from)?)));
                let Some((forth, back)) = pairs else {
                    map.count_stranger();
                    let _ = client.set_zero_linger();
                    continue;
                };
                let Some(open) = forth.admit() else {
                    let _ = client.set_zero_linger();
                    continue;
                };
                let journey = Journey {
                    target: to.target,
                    seed: forth.seed,
                    number: open.number,
                    resets: open.resets,
                    forth: forth.way(),
                    back: back.way(),
                };
                connections.spawn(async move {
                    carry::carry(client, journey).await;
                    drop(open);
                });
            }
            _ = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

/// Takes datagrams to a place.
pub(super) async fn receive(to: Arc<Place>, map: Arc<Map>) {
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        match to.socket.recv_from(&mut buffer).await {
            Ok((length, sender)) => match map.find(sender.ip(), to.ip) {
                Some(pair) => pair.post(buffer.get(..length).unwrap_or_default()),
                None => map.count_stranger(),
            },
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
