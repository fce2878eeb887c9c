//! Memory is bounded, whatever the size of a body: a sender gets only so far ahead of a slow reader.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use crate::harness::{Conn, Front, Upstream, WAYS, Way};

const BODY_BYTES: usize = 256 << 20;

/// What may be on the way: the buffers of the system, which has two for each connection and sizes them
/// itself (up to 4 MiB to send and 6 MiB to receive), and a little of the mesh's own.
fn most_bytes(way: Way) -> usize {
    match way {
        Way::Local => 24 << 20,
        // One connection more, and a window of 16 MiB between the sites.
        Way::Peer => 56 << 20,
    }
}

/// Pushes a whole body, and counts.
fn push(conn: &mut Conn, pushed: &AtomicUsize) {
    let piece = vec![b'x'; 256 << 10];
    let mut left = BODY_BYTES;
    while left > 0 {
        let Ok(count @ 1..) = conn.push(&piece[..piece.len().min(left)]) else { return };
        pushed.fetch_add(count, Ordering::SeqCst);
        left -= count;
    }
}

/// Reads a whole body, of which the start very slowly. Says how far the sender ever was ahead.
fn read_slowly(conn: &mut Conn, pushed: &AtomicUsize) -> usize {
    let (mut read, mut ahead) = (0, 0);
    while read < BODY_BYTES {
        if read < 32 << 10 {
            // As long as more comes, it is not yet known how much is taken without a reader.
            let mut before = usize::MAX;
            while before != pushed.load(Ordering::SeqCst) {
                before = pushed.load(Ordering::SeqCst);
                sleep(Duration::from_millis(150));
            }
        }
        ahead = ahead.max(pushed.load(Ordering::SeqCst).saturating_sub(read));
        let piece = conn.exactly((8 << 10).min(BODY_BYTES - read));
        assert!(!piece.is_empty(), "cut after {read} bytes");
        read += piece.len();
    }
    ahead
}

#[test]
fn a_service_gets_only_so_far_ahead_of_a_slow_client() {
    for way in WAYS {
        let pushed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&pushed);
        let upstream = Upstream::script(move |conn| {
            conn.request().unwrap();
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n"));
            push(conn, &count);
        });
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        client.send(front.head("GET /", ""));
        assert_eq!(client.head().unwrap().status(), 200);
        let ahead = read_slowly(&mut client, &pushed);
        println!("{way:?}: an answer was {ahead} bytes ahead");
        assert!(ahead < most_bytes(way), "{way:?}: {ahead}");
    }
}

#[test]
fn a_client_gets_only_so_far_ahead_of_a_slow_service() {
    for way in WAYS {
        let pushed = Arc::new(AtomicUsize::new(0));
        let (ahead, count) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&pushed));
        let most = Arc::clone(&ahead);
        let upstream = Upstream::script(move |conn| {
            conn.head().unwrap();
            most.store(read_slowly(conn, &count), Ordering::SeqCst);
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        });
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        client.send(front.head("PUT /", &format!("Content-Length: {BODY_BYTES}\r\n")));
        push(&mut client, &pushed);
        assert_eq!(client.answer().text(), "ok", "{way:?}");
        let ahead = ahead.load(Ordering::SeqCst);
        println!("{way:?}: a request was {ahead} bytes ahead");
        assert!(ahead < most_bytes(way), "{way:?}: {ahead}");
    }
}
