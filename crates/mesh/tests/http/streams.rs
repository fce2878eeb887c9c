//! Answers that services keep open: they live as long as both ends do, and no longer.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use mesh::Settings;

use crate::harness::{Front, Isles, STUCK, Upstream, WAYS, Way, head, until};

/// Less than any of these streams is quiet.
const SHORT: Duration = Duration::from_millis(100);

const EVENTS: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
const UNTIL_CLOSED: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";

/// A service that begins an answer. What it says then, the test says: each connection's other hand is sent here.
struct Told {
    upstream: Upstream,
    hands: Receiver<TcpStream>,
    ended: Receiver<()>,
}

impl Told {
    fn new(start: &'static str) -> Told {
        let ((hand, hands), (end, ended)) = (channel(), channel());
        let (hand, end) = (Mutex::new(hand), Mutex::new(end));
        let upstream = Upstream::script(move |conn| {
            if conn.request().is_none() {
                return;
            }
            let _ = hand.lock().unwrap().send(conn.writer());
            conn.send(start);
            let _ = conn.rest();
            let _ = end.lock().unwrap().send(());
        });
        Told { upstream, hands, ended }
    }

    /// What writes to the connection that came next.
    fn hand(&self) -> TcpStream {
        self.hands.recv_timeout(STUCK).unwrap()
    }
}

/// A client that can be gone without a word: what it has not read makes the system say so to the other side.
struct Gone(TcpStream);

impl Gone {
    fn asking(address: SocketAddr, request: &str) -> Gone {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(STUCK)).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let (mut read, mut byte) = (Vec::new(), [0]);
        while !read.ends_with(b"\r\n\r\n") {
            client.read_exact(&mut byte).unwrap();
            read.push(byte[0]);
        }
        assert!(read.starts_with(b"HTTP/1.1 200 "), "{}", read.escape_ascii());
        Gone(client)
    }

    /// Once something has come that it does not read.
    fn goes(self) {
        let mut client = self.0;
        client.read_exact(&mut [0]).unwrap();
    }
}

fn impatient(settings: &mut Settings) {
    settings.timeouts.body_idle = SHORT;
}

fn open(front: &Front) -> u64 {
    front.counted("streams_open")
}

#[test]
fn quiet_stream_goes_on_and_its_head_comes_at_once() {
    for way in WAYS {
        for start in [EVENTS, CHUNKED, UNTIL_CLOSED] {
            let service = Told::new(start);
            let front = Front::tuned(way, service.upstream.address(), impatient);
            let mut client = front.connect();
            client.send(front.head("GET /watch", ""));
            assert_eq!(client.head().unwrap().status(), 200, "{way:?} before there is anything to tell");
            // It has been quiet for longer than a body may be.
            until("it is a stream", || open(&front) == 1);
            let mut hand = service.hand();
            hand.write_all(if start == UNTIL_CLOSED { b"one" } else { b"3\r\none\r\n" }).unwrap();
            assert_eq!([client.line(), client.line()].map(Option::unwrap), ["3", "one"], "{way:?}");
            if start == UNTIL_CLOSED {
                hand.shutdown(Shutdown::Write).unwrap();
            } else {
                hand.write_all(b"0\r\n\r\n").unwrap();
            }
            assert_eq!(client.line().as_deref(), Some("0"), "{way:?}");
            until("it has ended", || open(&front) == 0 && front.in_flight() == 0);
        }
    }
}

#[test]
fn stream_whose_client_is_gone_is_given_up() {
    for way in WAYS {
        let service = Told::new(EVENTS);
        let front = Front::tuned(way, service.upstream.address(), impatient);
        let client = Gone::asking(front.address, &front.head("GET /watch", ""));
        until("it is a stream", || open(&front) == 1);
        service.hand().write_all(b"3\r\none\r\n").unwrap();
        // From then on the service says nothing.
        client.goes();
        until(&format!("it is given up {way:?}"), || open(&front) == 0 && front.in_flight() == 0);
        service.ended.recv_timeout(STUCK).unwrap();
    }
}

#[test]
fn stream_whose_service_is_gone_ends_at_once_and_is_not_whole() {
    for way in WAYS {
        let service = Told::new(CHUNKED);
        let front = Front::tuned(way, service.upstream.address(), impatient);
        let mut client = front.connect();
        client.send(front.head("GET /watch", ""));
        assert_eq!(client.head().unwrap().status(), 200);
        until("it is a stream", || open(&front) == 1);
        service.hand().shutdown(Shutdown::Both).unwrap();
        assert_eq!(client.rest(), b"", "{way:?} no last chunk");
        until("it is given up", || open(&front) == 0 && front.in_flight() == 0);
    }
}

#[test]
fn past_the_most_streams_one_that_is_quiet_is_cut() {
    for way in WAYS {
        let service = Told::new(EVENTS);
        let front = Front::tuned(way, service.upstream.address(), |settings| {
            impatient(settings);
            settings.limits.streams = 1;
        });
        let [mut first, mut second] = [front.connect(), front.connect()];
        first.send(front.head("GET /watch", ""));
        assert_eq!(first.head().unwrap().status(), 200);
        until("there is a stream", || open(&front) == 1);
        second.send(front.head("GET /watch", ""));
        assert_eq!((second.head().unwrap().status(), second.rest()), (200, Vec::new()), "{way:?}");
        until("it is counted", || front.counted("streams_refused_total") >= 1 || way == Way::Peer);
        assert_eq!(open(&front), 1);
    }
}

#[test]
fn fallback_and_choice_keep_a_stream_open_too() {
    for scope in ["A ; B", "A | B"] {
        let service = Told::new(EVENTS);
        let busy = Upstream::answering("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
        let isles = Isles::tuned([&busy, &service.upstream, &busy], impatient);
        let client = Gone::asking(isles.address, &head(scope, "GET /watch", ""));
        until("it is a stream", || isles.gauge("streams_open") == 1);
        service.hand().write_all(b"3\r\none\r\n").unwrap();
        client.goes();
        until("it is given up", || isles.gauge("streams_open") == 0);
    }
}

#[test]
fn stream_of_several_sites_is_refused_and_never_one_sites() {
    let profile = "description = 'x'\n[lists]\n[[streams]]\npaths = ['/pods']\nquery = ['watch=true']";
    let profile = profile::Profile::read(profile).unwrap();
    let one = r#"{"type": "ADDED", "object": {"id": 1}}"#;
    let one = format!("{CHUNKED}{:x}\r\n{one}\r\n", one.len());
    let one: &'static str = Box::leak(one.into_boxed_str());
    for (start, line) in [
        (EVENTS, "GET /events"),
        (EVENTS, "GET /pods?watch=true"),
        (one, "GET /things?watch=true"),
        (CHUNKED, "GET /things"),
    ] {
        let (a, b) = (Told::new(start), Told::new(start));
        let upstreams = [&a.upstream, &b.upstream, &b.upstream];
        let isles = Isles::tuned(upstreams, |settings| {
            impatient(settings);
            settings.profile = profile.clone();
        });
        isles.ask("A & B", line, "").assert_problem(422, "stream");
        // That two have it is not told before what it is.
        let unique = isles.ask("A ^ B", line, "");
        assert!(matches!(unique.status(), 409 | 422), "{line}: {}", unique.text());
        if line.contains("/pods") {
            assert_eq!((a.upstream.connections(), b.upstream.connections()), (0, 0), "nobody is asked");
            let mut client = isles.connect();
            client.send(head("B", line, ""));
            assert_eq!(client.head().unwrap().status(), 200);
        }
    }
}
