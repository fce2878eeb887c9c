//! The emulated WAN, over real connections. Timing is only ever asserted from below.

// Clippy knows `#[test]` functions, not the functions that they share.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use sample::wan::{Carried, Cut, Shape, Wan};
use sample::{Handle, image};
use support::Client;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const MS: Duration = Duration::from_millis(1);

fn anywhere() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// A link, and the listener at its far end.
async fn link(shape: Shape) -> (Wan, TcpListener) {
    let far = TcpListener::bind(anywhere()).await.unwrap();
    let wan = Wan::listen(anywhere(), far.local_addr().unwrap(), shape, 1).unwrap();
    (wan, far)
}

/// Both ends of a connection across a link.
async fn connection(wan: &Wan, far: &TcpListener) -> (TcpStream, TcpStream) {
    let near = TcpStream::connect(wan.address()).await.unwrap();
    (near, far.accept().await.unwrap().0)
}

async fn ping(near: &mut TcpStream, far: &mut TcpStream) {
    let mut byte = [0];
    near.write_all(b"?").await.unwrap();
    far.read_exact(&mut byte).await.unwrap();
    far.write_all(b"!").await.unwrap();
    near.read_exact(&mut byte).await.unwrap();
    assert_eq!(&byte, b"!");
}

#[tokio::test]
async fn a_round_trip_takes_at_least_twice_the_delay_and_a_connection_costs_one_more() {
    let (wan, far) = link(Shape::with_rtt(40 * MS)).await;
    let start = Instant::now();
    let (mut near, mut far) = connection(&wan, &far).await;
    assert!(start.elapsed() >= 40 * MS);
    let start = Instant::now();
    ping(&mut near, &mut far).await;
    assert!(start.elapsed() >= 40 * MS);
    wan.set_shape(Shape::with_rtt(90 * MS));
    let start = Instant::now();
    ping(&mut near, &mut far).await;
    assert!(start.elapsed() >= 90 * MS);
}

#[tokio::test]
async fn a_transfer_takes_at_least_what_the_bandwidth_allows_however_many_connections_share_it() {
    let shape = Shape { bandwidth: NonZeroU64::new(2_000_000), ..Shape::default() };
    let (wan, far) = link(shape).await;
    let start = Instant::now();
    let mut readers = Vec::new();
    for _ in 0..4 {
        let (mut near, mut far) = connection(&wan, &far).await;
        tokio::spawn(async move { near.write_all(&vec![0; 50_000]).await });
        readers.push(tokio::spawn(async move { far.read_to_end(&mut Vec::new()).await.unwrap() }));
    }
    for reader in readers {
        assert_eq!(reader.await.unwrap(), 50_000);
    }
    assert!(start.elapsed() >= 100 * MS, "{:?}", start.elapsed());
    assert_eq!(wan.carried(), Carried { connections: 4, forth_bytes: 200_000, back_bytes: 0 });
}

#[tokio::test]
async fn bytes_keep_their_order_under_jitter_both_ways_on_many_connections() {
    let shape =
        Shape { delay: 2 * MS, jitter: 10 * MS, bandwidth: NonZeroU64::new(50_000_000), ..Shape::default() };
    let (wan, far) = link(shape).await;
    let sent: Vec<u8> = (0..300_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let mut ends = Vec::new();
    for _ in 0..20 {
        let (near, far) = connection(&wan, &far).await;
        for end in [near, far] {
            let sent = sent.clone();
            ends.push(tokio::spawn(async move {
                let (mut read, mut write) = end.into_split();
                let mut got = Vec::new();
                let writing = async {
                    for piece in sent.chunks(7001) {
                        write.write_all(piece).await.unwrap();
                    }
                    write.shutdown().await.unwrap();
                };
                let ((), read) = tokio::join!(writing, read.read_to_end(&mut got));
                read.unwrap();
                got == sent
            }));
        }
    }
    for end in ends {
        assert!(end.await.unwrap());
    }
}

#[tokio::test]
async fn an_end_that_stops_sending_still_receives() {
    let (wan, far) = link(Shape::with_rtt(2 * MS)).await;
    let (mut near, mut far) = connection(&wan, &far).await;
    near.write_all(b"question").await.unwrap();
    near.shutdown().await.unwrap();
    let mut got = String::new();
    far.read_to_string(&mut got).await.unwrap();
    assert_eq!(got, "question");
    far.write_all(b"answer").await.unwrap();
    drop(far);
    got.clear();
    near.read_to_string(&mut got).await.unwrap();
    assert_eq!(got, "answer");
}

#[tokio::test]
async fn a_reset_at_one_end_reaches_the_other() {
    let (wan, far) = link(Shape::default()).await;
    let (mut near, far) = connection(&wan, &far).await;
    far.set_zero_linger().unwrap();
    drop(far);
    assert_eq!(near.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_target_that_refuses_resets_the_client() {
    let (wan, far) = link(Shape::default()).await;
    drop(far);
    let mut near = TcpStream::connect(wan.address()).await.unwrap();
    assert_eq!(near.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_reader_that_does_not_read_stops_the_writer() {
    let (wan, far) = link(Shape::default()).await;
    let (near, mut far) = connection(&wan, &far).await;
    // What fits: the window, and the buffers of four sockets. Without a bound, this goes on for ever.
    let piece = vec![0; 64 * 1024];
    let mut sent = 0;
    // The writer is stopped when it could not write for long; too short a wait only asks for less.
    while tokio::time::timeout(500 * MS, near.writable()).await.is_ok() {
        if let Ok(written) = near.try_write(&piece) {
            sent += written;
        }
        assert!(sent < 100_000_000, "the link takes everything");
    }
    drop(near);
    let mut got = Vec::new();
    far.read_to_end(&mut got).await.unwrap();
    assert_eq!(got.len(), sent);
}

#[tokio::test]
async fn a_stalled_link_passes_nothing_and_loses_nothing() {
    let (wan, far) = link(Shape::default()).await;
    let (mut near, mut remote) = connection(&wan, &far).await;
    ping(&mut near, &mut remote).await;
    wan.cut(Cut::Stall).await;
    near.write_all(b"?").await.unwrap();
    let mut waiting = TcpStream::connect(wan.address()).await.unwrap();
    waiting.write_all(b"?").await.unwrap();
    // The bytes are in the link; nothing comes out, at either end of it.
    let mut byte = [0];
    assert!(tokio::time::timeout(50 * MS, remote.read(&mut byte)).await.is_err());
    assert!(tokio::time::timeout(50 * MS, far.accept()).await.is_err());
    wan.heal().await;
    assert_eq!(remote.read(&mut byte).await.unwrap(), 1);
    let (mut second, _) = far.accept().await.unwrap();
    assert_eq!(second.read(&mut byte).await.unwrap(), 1);
}

#[tokio::test]
async fn a_reset_link_resets_what_there_is_refuses_what_comes_and_heals_at_the_same_address() {
    let (wan, far) = link(Shape::default()).await;
    for _ in 0..3 {
        let (mut near, mut remote) = connection(&wan, &far).await;
        ping(&mut near, &mut remote).await;
        wan.cut(Cut::Reset).await;
        for end in [&mut near, &mut remote] {
            assert_eq!(end.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        }
        let refused = TcpStream::connect(wan.address()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        wan.heal().await;
    }
    let (mut near, mut remote) = connection(&wan, &far).await;
    ping(&mut near, &mut remote).await;
}

#[tokio::test]
async fn a_stalled_link_can_be_reset_and_a_reset_one_stalled() {
    let (wan, far) = link(Shape::default()).await;
    let (mut near, _remote) = connection(&wan, &far).await;
    wan.cut(Cut::Stall).await;
    wan.clone().cut(Cut::Reset).await;
    assert_eq!(near.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    wan.cut(Cut::Stall).await;
    let _waiting = TcpStream::connect(wan.address()).await.unwrap();
    wan.heal().await;
    far.accept().await.unwrap();
}

#[tokio::test]
async fn a_link_stops_with_its_last_handle() {
    let (wan, far) = link(Shape::default()).await;
    let (mut near, _remote) = connection(&wan, &far).await;
    let address = wan.address();
    drop(wan.clone());
    let (_other, _) = connection(&wan, &far).await;
    drop(wan);
    assert!(matches!(near.read(&mut [0]).await, Ok(0) | Err(_)));
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_application_works_across_a_link_on_a_thread_of_its_own() {
    let image = Handle::spawn_thread(image::Image::new(&image::Settings::default()), anywhere()).unwrap();
    let wan = Wan::listen_thread(anywhere(), image.address(), Shape::with_rtt(10 * MS), 3).unwrap();
    let mut client = Client::connect(wan.address()).await;
    let id = client.make_image("far", vec![5; 1_000_000]).await;
    let got = client.send("GET", &format!("/images/{id}/file"), "").await;
    assert!(got.body == vec![5; 1_000_000]);
    wan.cut(Cut::Reset).await;
    assert!(client.try_send("GET", "/images", &[], "").await.is_err());
}
