//! A limit on every wait. Bounds are one-sided and generous: what counts is that it ends.

use std::time::{Duration, Instant};

use crate::harness::{Front, STUCK, Upstream, WAYS, Way, until};

const SHORT: Duration = Duration::from_millis(200);

/// Far less than what the other limits of these tests are.
fn assert_soon(start: Instant) {
    assert!(start.elapsed() < STUCK / 2, "{:?}", start.elapsed());
}

#[test]
fn a_head_that_comes_slowly_closes_the_connection() {
    let upstream = Upstream::fine();
    let front = Front::tuned(Way::Local, upstream.address(), |settings| settings.timeouts.header = SHORT);
    for first in ["P", "GET / HTT", "GET / HTTP/1.1\r\nHost: a\r\n", "PRI * HTTP/2.0\r\n"] {
        for after_one in [false, true] {
            let mut client = front.connect();
            if after_one {
                client.send(front.head("GET /", ""));
                assert_eq!(client.answer().status(), 200);
            }
            let start = Instant::now();
            client.send(first);
            client.rest();
            assert_soon(start);
        }
    }
}

#[test]
fn a_head_that_drips_is_not_kept_alive_by_its_drops() {
    let upstream = Upstream::fine();
    let front = Front::tuned(Way::Local, upstream.address(), |settings| settings.timeouts.header = SHORT);
    let mut client = front.connect();
    let start = Instant::now();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nX: ");
    while client.push(b"x").is_ok() {
        std::thread::sleep(Duration::from_millis(20));
        assert_soon(start);
    }
}

#[test]
fn a_connection_without_a_request_is_closed_after_the_idle_time_and_not_before() {
    let upstream = Upstream::fine();
    let front = Front::tuned(Way::Local, upstream.address(), |settings| {
        settings.timeouts.idle = SHORT * 2;
        settings.timeouts.header = Duration::from_millis(50);
    });
    for requests in 0..2 {
        let mut client = front.connect();
        for _ in 0..requests {
            client.send(front.head("GET /", ""));
            assert_eq!(client.answer().status(), 200);
        }
        let start = Instant::now();
        client.assert_closed();
        assert!(start.elapsed() > SHORT, "the limit on heads is not for idle connections");
        assert_soon(start);
    }
}

#[test]
fn a_service_that_does_not_answer_is_a_504() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| {
            conn.request().unwrap();
            let _ = conn.rest();
        });
        let front = Front::tuned(way, upstream.address(), |settings| settings.timeouts.response = SHORT);
        let start = Instant::now();
        front.ask("GET /", "", b"").assert_problem(504, "timeout");
        front.ask("POST /", "Content-Length: 2\r\n", b"hi").assert_problem(504, "timeout");
        assert_soon(start);
        until("it is given up", || front.in_flight() == 0);
    }
}

#[test]
fn a_peer_that_does_not_answer_is_a_504() {
    let upstream = Upstream::script(|conn| {
        conn.request().unwrap();
        let _ = conn.rest();
    });
    let front = Front::tuned(Way::Peer, upstream.address(), |settings| {
        settings.timeouts.peer_response = SHORT;
    });
    let start = Instant::now();
    front.ask("GET /", "", b"").assert_problem(504, "timeout");
    assert_soon(start);
}

/// The limit is on the wait for an answer, and a service that reads does not make anyone wait.
#[test]
fn an_upload_may_take_longer_than_an_answer() {
    for way in WAYS {
        let upstream = Upstream::fine();
        let front = Front::tuned(way, upstream.address(), |settings| {
            settings.timeouts.response = SHORT * 2;
            settings.timeouts.peer_response = SHORT * 2;
        });
        let mut client = front.connect();
        client.send(front.head("POST /", "Content-Length: 20\r\n"));
        for _ in 0..20 {
            std::thread::sleep(SHORT / 4);
            client.send("x");
        }
        assert_eq!(client.answer().text(), "fine", "{way:?}");
    }
}

#[test]
fn a_request_whose_body_stops_is_given_up() {
    for way in WAYS {
        for framing in ["Content-Length: 100\r\n", "Transfer-Encoding: chunked\r\n"] {
            let upstream = Upstream::script(|conn| {
                assert!(conn.request().is_none(), "half a request is none");
            });
            let front = Front::tuned(way, upstream.address(), |settings| settings.timeouts.body_idle = SHORT);
            let mut client = front.connect();
            let start = Instant::now();
            client.send(front.head("POST /", framing) + "3\r\nabc\r\n");
            let answer = client.answer();
            assert_eq!(answer.status(), 408, "{way:?} {}", answer.text());
            client.rest();
            assert_soon(start);
            until("it is given up", || front.in_flight() == 0);
        }
    }
}

#[test]
fn an_answer_whose_body_stops_is_cut() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| {
            conn.request().unwrap();
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
            assert!(conn.rest().is_empty());
        });
        let front = Front::tuned(way, upstream.address(), |settings| settings.timeouts.body_idle = SHORT);
        let mut client = front.connect();
        let start = Instant::now();
        client.send(front.head("GET /", ""));
        assert_eq!(client.head().unwrap().status(), 200);
        assert_eq!(client.rest(), b"half", "{way:?}");
        assert_soon(start);
        until("it is given up", || front.in_flight() == 0);
    }
}

#[test]
fn a_client_that_does_not_read_its_answer_is_given_up() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| {
            conn.request().unwrap();
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
            let piece = vec![b'x'; 1 << 20];
            while conn.push(&piece).is_ok() {}
        });
        let front = Front::tuned(way, upstream.address(), |settings| settings.timeouts.body_idle = SHORT);
        let mut client = front.connect();
        client.send(front.head("GET /", ""));
        assert_eq!(client.head().unwrap().status(), 200);
        until("the answer is given up", || front.in_flight() == 0);
    }
}

/// It has its answer; the rest of what it sends is wanted by nobody.
#[test]
fn an_upload_that_the_service_stopped_reading_after_its_answer_is_given_up() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| {
            conn.head().unwrap();
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            std::thread::sleep(STUCK);
        });
        let front = Front::tuned(way, upstream.address(), |settings| settings.timeouts.body_idle = SHORT);
        let start = Instant::now();
        let mut client = front.connect();
        client.send(front.head("POST /", "Content-Length: 1000000000\r\n"));
        assert_eq!(client.answer().text(), "ok", "{way:?}");
        let piece = vec![b'x'; 1 << 20];
        while let Ok(1..) = client.push(&piece) {}
        assert_soon(start);
    }
}

#[test]
fn a_service_that_does_not_read_the_request_is_a_504() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| {
            conn.head().unwrap();
            std::thread::sleep(STUCK);
        });
        let front = Front::tuned(way, upstream.address(), |settings| settings.timeouts.response = SHORT);
        let start = Instant::now();
        let mut client = front.connect();
        client.send(front.head("POST /", "Content-Length: 1000000000\r\n"));
        std::thread::scope(|scope| {
            // Pushes until the mesh takes no more; then the connection is closed under it.
            scope.spawn(|| {
                let mut client = client;
                let piece = vec![b'x'; 1 << 20];
                let mut pushed = 0;
                while let Ok(count @ 1..) = client.push(&piece) {
                    pushed += count;
                }
                assert!(pushed < 1_000_000_000);
            });
            until("it began", || front.in_flight() == 1);
            until("it is given up", || front.in_flight() == 0);
        });
        assert_soon(start);
    }
}
