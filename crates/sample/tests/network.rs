//! A network of places, over real sockets. Timing is only ever asserted from below.

// Clippy knows `#[test]` functions, not the functions that they share.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use sample::wan::{Cut, Network, Shape, Traffic, UnknownPlace};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};

const MS: Duration = Duration::from_millis(1);

/// Something at a place: it listens, and sends, from an address of its own.
struct Host {
    ip: IpAddr,
    listener: TcpListener,
    socket: UdpSocket,
    /// Where the others reach it.
    address: SocketAddr,
}

impl Host {
    async fn join(network: &Network, number: u8) -> Host {
        let ip = IpAddr::V4(Ipv4Addr::new(127, 1, 0, number));
        // The same port for both is free at some time.
        let (listener, socket) = loop {
            let listener = TcpListener::bind((ip, 0)).await.unwrap();
            if let Ok(socket) = UdpSocket::bind(listener.local_addr().unwrap()).await {
                break (listener, socket);
            }
        };
        let address = network.add(ip, anywhere(), listener.local_addr().unwrap()).unwrap();
        Host { ip, listener, socket, address }
    }

    async fn try_connect(&self, to: &Host) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(self.ip, 0)).unwrap();
        socket.connect(to.address).await
    }

    async fn connect(&self, to: &Host) -> TcpStream {
        self.try_connect(to).await.unwrap()
    }

    /// Both ends of a connection.
    async fn open(&self, to: &Host) -> (TcpStream, TcpStream) {
        let near = self.connect(to).await;
        (near, to.listener.accept().await.unwrap().0)
    }

    async fn send(&self, to: &Host, datagram: &[u8]) {
        self.socket.send_to(datagram, to.address).await.unwrap();
    }

    async fn receive(&self) -> (Vec<u8>, SocketAddr) {
        let mut buffer = vec![0; 65536];
        let (length, sender) = self.socket.recv_from(&mut buffer).await.unwrap();
        buffer.truncate(length);
        (buffer, sender)
    }
}

fn anywhere() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// A network of three, of which any two are a wire apart.
async fn three() -> (Network, [Host; 3]) {
    let network = Network::start(Shape::default(), 1).unwrap();
    let hosts = [Host::join(&network, 1).await, Host::join(&network, 2).await, Host::join(&network, 3).await];
    (network, hosts)
}

async fn crosses(from: &mut TcpStream, to: &mut TcpStream) {
    from.write_all(b"x").await.unwrap();
    to.read_exact(&mut [0]).await.unwrap();
}

/// A connection that was accepted is reset, sooner or later.
async fn is_reset(connection: io::Result<TcpStream>) -> bool {
    let outcome = match connection {
        Ok(mut connection) => connection.read(&mut [0]).await,
        Err(error) => Err(error),
    };
    outcome.unwrap_err().kind() == ErrorKind::ConnectionReset
}

/// Waits until so many datagrams went one way or were lost on it.
async fn settled(network: &Network, from: &Host, to: &Host, datagrams: u64) -> Traffic {
    loop {
        let traffic = network.traffic(from.ip, to.ip).unwrap();
        if traffic.datagrams + traffic.datagrams_lost >= datagrams {
            return traffic;
        }
        tokio::time::sleep(MS).await;
    }
}

#[tokio::test]
async fn where_a_connection_or_datagram_comes_from_decides_how_far_it_is() {
    let (network, [a, b, c]) = three().await;
    network.set_shape(a.ip, b.ip, Shape { delay: 60 * MS, ..Shape::default() }).unwrap();
    network.set_shape(b.ip, a.ip, Shape { delay: 20 * MS, ..Shape::default() }).unwrap();

    let start = Instant::now();
    let (mut near, mut far) = a.open(&b).await;
    assert!(start.elapsed() >= 80 * MS, "a handshake goes both ways");
    let start = Instant::now();
    crosses(&mut near, &mut far).await;
    assert!(start.elapsed() >= 60 * MS);
    let start = Instant::now();
    crosses(&mut far, &mut near).await;
    assert!(start.elapsed() >= 20 * MS);

    let start = Instant::now();
    a.send(&b, b"from a").await;
    assert_eq!(b.receive().await.0, b"from a");
    assert!(start.elapsed() >= 60 * MS);
    network.set_shape(a.ip, b.ip, Shape { loss_per_million: 1_000_000, ..Shape::default() }).unwrap();
    a.send(&b, b"lost").await;
    settled(&network, &a, &b, 2).await;
    c.send(&b, b"from c").await;
    assert_eq!(b.receive().await.0, b"from c");
    let traffic = network.traffic(a.ip, b.ip).unwrap();
    assert_eq!(
        traffic,
        Traffic { connections: 1, bytes: 1, datagrams: 1, datagram_bytes: 6, datagrams_lost: 1 }
    );
    assert_eq!(network.traffic(b.ip, a.ip).unwrap(), Traffic { bytes: 1, ..Traffic::default() });
}

#[tokio::test]
async fn a_datagram_comes_from_where_its_sender_can_be_answered() {
    let (_network, [a, b, _]) = three().await;
    a.send(&b, b"question").await;
    let (_, sender) = b.receive().await;
    assert_eq!(sender, a.address);
    b.socket.send_to(b"answer", sender).await.unwrap();
    assert_eq!(a.receive().await, (b"answer".to_vec(), b.address));
}

#[tokio::test]
async fn a_stranger_reaches_nobody() {
    let (network, [a, b, _]) = three().await;
    assert!(is_reset(TcpStream::connect(b.address).await).await);
    let stranger = UdpSocket::bind(anywhere()).await.unwrap();
    stranger.send_to(b"stranger", b.address).await.unwrap();
    a.send(&b, b"friend").await;
    assert_eq!(b.receive().await.0, b"friend");
    assert_eq!(network.strangers(), 2);
    let (here, nowhere) = (a.ip, IpAddr::V4(Ipv4Addr::new(127, 1, 0, 200)));
    assert!(matches!(network.shape(here, nowhere), Err(UnknownPlace { .. })));
    assert_eq!(network.add(a.ip, anywhere(), anywhere()).unwrap_err().kind(), ErrorKind::AlreadyExists);
}

#[tokio::test]
async fn a_place_that_comes_later_is_reached_and_reaches_the_others() {
    let (network, [a, ..]) = three().await;
    a.send(&a, b"to myself").await;
    assert_eq!(a.receive().await.0, b"to myself");
    let d = Host::join(&network, 4).await;
    let (mut near, mut far) = a.open(&d).await;
    crosses(&mut near, &mut far).await;
    d.open(&a).await;
    d.send(&a, b"hello").await;
    assert_eq!(a.receive().await, (b"hello".to_vec(), d.address));
}

#[tokio::test]
async fn as_many_datagrams_are_lost_as_the_loss_says_and_the_same_ones_each_time() {
    let mut fates = Vec::new();
    for seed in [1, 1, 2] {
        let network = Network::start(Shape { loss_per_million: 300_000, ..Shape::default() }, seed).unwrap();
        let (a, b) = (Host::join(&network, 1).await, Host::join(&network, 2).await);
        let mut arrived = Vec::new();
        for number in 0..300_u64 {
            a.send(&b, &number.to_be_bytes()).await;
            // One at a time: nothing else may lose any.
            let before = arrived.len() as u64;
            if settled(&network, &a, &b, number + 1).await.datagrams > before {
                arrived.push(b.receive().await.0);
            }
        }
        let traffic = network.traffic(a.ip, b.ip).unwrap();
        assert_eq!(traffic.datagrams, arrived.len() as u64);
        assert_eq!(traffic.datagrams + traffic.datagrams_lost, 300);
        assert!((60..120).contains(&traffic.datagrams_lost), "{traffic:?}");
        assert!(arrived.is_sorted());
        fates.push(arrived);
    }
    assert_eq!(fates[0], fates[1]);
    assert_ne!(fates[0], fates[2]);
}

#[tokio::test]
async fn jitter_reorders_datagrams_and_repeats_or_loses_none() {
    let (network, [a, b, _]) = three().await;
    network.set_shape(a.ip, b.ip, Shape { jitter: 50 * MS, ..Shape::default() }).unwrap();
    let mut arrived = Vec::new();
    for number in 0..100_u8 {
        a.send(&b, &[number]).await;
    }
    for _ in 0..100 {
        arrived.push(b.receive().await.0[0]);
    }
    assert!(!arrived.is_sorted());
    arrived.sort_unstable();
    assert_eq!(arrived, (0..100).collect::<Vec<_>>());
    network.set_shape(a.ip, b.ip, Shape { delay: 5 * MS, ..Shape::default() }).unwrap();
    for number in 0..100_u8 {
        a.send(&b, &[number]).await;
    }
    for number in 0..100 {
        assert_eq!(b.receive().await.0, [number]);
    }
}

#[tokio::test]
async fn datagrams_and_connections_share_the_bandwidth() {
    let (network, [a, b, _]) = three().await;
    let (mut near, mut far) = a.open(&b).await;
    let slow = Shape { bandwidth: NonZeroU64::new(100_000), ..Shape::default() };
    network.set_shape(a.ip, b.ip, slow).unwrap();
    let start = Instant::now();
    a.send(&b, &[0; 5000]).await;
    near.write_all(&[0; 5000]).await.unwrap();
    far.read_exact(&mut [0; 5000]).await.unwrap();
    assert_eq!(b.receive().await.0.len(), 5000);
    assert!(start.elapsed() >= 100 * MS, "{:?}", start.elapsed());
    // It is slow one way only.
    assert_eq!(network.shape(b.ip, a.ip), Ok(Shape::default()));
}

#[tokio::test]
async fn a_way_that_is_stalled_passes_nothing_while_the_other_does() {
    let (network, [a, b, c]) = three().await;
    let (mut near, mut far) = a.open(&b).await;
    let (mut other_near, mut other_far) = c.open(&b).await;
    network.cut(a.ip, b.ip, Cut::Stall).await.unwrap();

    near.write_all(b"1").await.unwrap();
    crosses(&mut far, &mut near).await;
    crosses(&mut other_near, &mut other_far).await;
    // A connection needs both ways: neither hears of the other's.
    let mut waiting = [a.connect(&b).await, b.connect(&a).await];
    for waiting in &mut waiting {
        waiting.write_all(b"2").await.unwrap();
    }
    a.send(&b, b"lost").await;
    b.send(&a, b"found").await;
    assert_eq!(a.receive().await.0, b"found");
    assert_eq!(settled(&network, &a, &b, 1).await.datagrams_lost, 1);
    assert!(tokio::time::timeout(50 * MS, far.read(&mut [0])).await.is_err());
    for host in [&a, &b] {
        assert!(tokio::time::timeout(50 * MS, host.listener.accept()).await.is_err());
    }

    network.heal(a.ip, b.ip).unwrap();
    far.read_exact(&mut [0]).await.unwrap();
    for host in [&a, &b] {
        let (mut accepted, _) = host.listener.accept().await.unwrap();
        accepted.read_exact(&mut [0]).await.unwrap();
    }
    a.send(&b, b"after").await;
    assert_eq!(b.receive().await.0, b"after");
}

#[tokio::test]
async fn a_way_that_is_reset_ends_and_refuses_the_connections_of_one_side() {
    let (network, [a, b, c]) = three().await;
    for _ in 0..3 {
        let (mut near, mut far) = a.open(&b).await;
        crosses(&mut near, &mut far).await;
        let (mut theirs, mut ours) = b.open(&a).await;
        let (mut others, mut remote) = c.open(&b).await;
        network.cut(a.ip, b.ip, Cut::Reset).await.unwrap();
        for end in [Ok(near), Ok(far), a.try_connect(&b).await] {
            assert!(is_reset(end).await);
        }
        crosses(&mut theirs, &mut ours).await;
        crosses(&mut ours, &mut theirs).await;
        crosses(&mut others, &mut remote).await;
        let lost = network.traffic(a.ip, b.ip).unwrap().datagrams_lost;
        a.send(&b, b"lost").await;
        b.send(&a, b"found").await;
        assert_eq!(a.receive().await.0, b"found");
        assert_eq!(settled(&network, &a, &b, lost + 1).await.datagrams_lost, lost + 1);
        network.heal(a.ip, b.ip).unwrap();
    }
    let (mut near, mut far) = a.open(&b).await;
    crosses(&mut near, &mut far).await;
}

#[tokio::test]
async fn a_datagram_that_is_under_way_at_a_cut_is_lost() {
    let (network, [a, b, c]) = three().await;
    network.set_shape(a.ip, b.ip, Shape { delay: 100 * MS, ..Shape::default() }).unwrap();
    let mut lost = 0;
    // On a busy machine it may have arrived before the cut: then once more.
    for sent in 1..=50 {
        a.send(&b, b"late").await;
        c.send(&b, b"soon").await;
        // The network took them in this order: the first is under way.
        while b.receive().await.0 != b"soon" {}
        network.cut_both(a.ip, b.ip, Cut::Stall).await.unwrap();
        lost = settled(&network, &a, &b, sent).await.datagrams_lost;
        network.heal_both(a.ip, b.ip).unwrap();
        if lost == 1 {
            break;
        }
    }
    assert_eq!(lost, 1);
    a.send(&b, b"found").await;
    while b.receive().await.0 != b"found" {}
}

#[tokio::test]
async fn a_flapping_way_comes_and_goes_and_is_there_when_it_no_longer_flaps() {
    let (network, [a, b, _]) = three().await;
    let flapping = network.flap(a.ip, b.ip, Cut::Stall, [5 * MS; 2]).unwrap();
    let (mut sent, mut seen) = (0, Vec::new());
    // Down, up, and down again.
    while seen != [1, 0, 1] {
        let before = network.traffic(a.ip, b.ip).unwrap().datagrams_lost;
        a.send(&b, b"?").await;
        sent += 1;
        let lost = settled(&network, &a, &b, sent).await.datagrams_lost - before;
        if seen.last() != Some(&lost) && (lost == 1 || !seen.is_empty()) {
            seen.push(lost);
        }
    }
    drop(flapping);
    let lost = network.traffic(a.ip, b.ip).unwrap().datagrams_lost;
    for _ in 0..20 {
        a.send(&b, b"!").await;
        sent += 1;
        assert_eq!(settled(&network, &a, &b, sent).await.datagrams_lost, lost);
        tokio::time::sleep(MS).await;
    }
}

#[tokio::test]
async fn a_network_stops_with_its_last_handle() {
    let (network, [a, b, _]) = three().await;
    let (mut near, _far) = a.open(&b).await;
    drop(network.clone());
    a.open(&b).await;
    drop(network);
    assert!(matches!(near.read(&mut [0]).await, Ok(0) | Err(_)));
    while TcpStream::connect(b.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}
