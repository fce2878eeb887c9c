//! Limits, each with a clear status.

use std::sync::{Arc, Mutex};

use crate::harness::{Front, STUCK, Upstream, WAYS, Way, until};

#[test]
fn headers_that_are_too_many_or_too_large_are_a_431() {
    for way in WAYS {
        let upstream = Upstream::fine();
        let front = Front::tuned(way, upstream.address(), |settings| {
            settings.limits.headers = 20;
            settings.limits.header_bytes = 4096;
        });
        for fields in ["X: 1\r\n".repeat(20), format!("X: {}\r\n", "x".repeat(5000))] {
            let mut client = front.connect();
            client.send(front.head("GET /", &fields));
            assert_eq!(client.answer().status(), 431, "{way:?}");
            client.assert_closed();
        }
        assert!(upstream.seen().is_empty());
        let just_enough = "X: 1\r\n".repeat(18);
        assert_eq!(front.ask("GET /", &just_enough, b"").status(), 200, "{way:?}");
    }
}

#[test]
fn what_one_site_takes_its_peers_take_too() {
    let upstream = Upstream::fine();
    let front = Front::tuned(Way::Peer, upstream.address(), |settings| {
        settings.limits.headers = 128;
        settings.limits.header_bytes = 60 << 10;
    });
    // On both lanes of the link: a body of unknown length has a connection of its own.
    for (framing, body) in [("", &b""[..]), ("Transfer-Encoding: chunked\r\n", b"0\r\n\r\n")] {
        for fields in ["X: 1\r\n".repeat(120), format!("X: {}\r\n", "x".repeat(50_000))] {
            let answer = front.ask("POST /", &format!("{framing}{fields}"), body);
            assert_eq!(answer.status(), 200, "{framing} {} {}", fields.len(), answer.text());
        }
    }
}

#[test]
fn connections_above_the_limit_are_closed_at_once_and_the_others_live_on() {
    let upstream = Upstream::fine();
    let front = Front::tuned(Way::Local, upstream.address(), |settings| settings.limits.connections = 2);
    let mut first = front.connect();
    let mut second = front.connect();
    for client in [&mut first, &mut second] {
        client.send(front.head("GET /", ""));
        assert_eq!(client.answer().status(), 200);
    }
    let mut third = front.connect();
    third.send(front.head("GET /", ""));
    third.assert_closed();
    first.send(front.head("GET /", ""));
    assert_eq!(first.answer().status(), 200);
    drop(second);
    until("there is a place again", || {
        let mut client = front.connect();
        client.send(front.head("GET /", ""));
        client.head().is_some()
    });
}

#[test]
fn requests_above_the_limit_are_a_503_that_says_so() {
    for way in WAYS {
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let upstream = Upstream::script(move |conn| {
            conn.request().unwrap();
            wait.lock().unwrap().recv_timeout(STUCK).unwrap();
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        });
        let front = Front::tuned(way, upstream.address(), |settings| settings.limits.requests = 1);
        let mut first = front.connect();
        first.send(front.head("GET /", ""));
        until("it is in flight", || front.in_flight() == 1);
        let mut second = front.connect();
        second.send(front.head("GET /", ""));
        let refused = second.answer();
        refused.assert_problem(503, "too-many-requests");
        assert!(refused.field("retry-after").is_some());
        release.send(()).unwrap();
        assert_eq!(first.answer().text(), "ok", "{way:?}");
        until("its place is free", || front.in_flight() == 0);
    }
}

#[test]
fn a_request_is_in_flight_until_the_end_of_its_answer() {
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let upstream = Upstream::script(move |conn| {
        conn.request().unwrap();
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha");
        wait.lock().unwrap().recv_timeout(STUCK).unwrap();
        conn.send("lf");
    });
    let front = Front::new(Way::Local, &upstream);
    let mut client = front.connect();
    client.send(front.head("GET /", ""));
    assert_eq!(client.head().unwrap().status(), 200);
    assert_eq!(client.exactly(2), b"ha");
    assert_eq!(front.in_flight(), 1);
    release.send(()).unwrap();
    assert_eq!(client.exactly(2), b"lf");
    until("it has ended", || front.in_flight() == 0);
}

#[test]
fn each_request_is_counted_once_whichever_path_it_ends_on() {
    let upstream = Upstream::fine();
    let front = Front::new(Way::Local, &upstream);
    let mut client = front.connect();
    // From the third on, nothing is for the thin path.
    for (fields, status) in [
        ("", 200),
        ("X-Scope: image: A\r\n", 200),
        ("TE: trailers\r\n", 200),
        ("TE: trailers\r\nX-Scope: image: A\r\n", 200),
        ("X-Scope: image: Nowhere\r\n", 400),
        ("", 200),
    ] {
        client.send(front.head("GET /", fields));
        assert_eq!(client.answer().status(), status, "{fields}");
    }
    let counted = ["requests_unscoped_total", "requests_scoped_total", "requests_refused_total"];
    assert_eq!(counted.map(|name| front.counted(name)), [3, 2, 1]);
    until("nothing is in flight", || front.counted("requests_in_flight") == 0);
}

#[test]
fn a_peer_that_asks_for_too_much_is_refused_by_the_other_site() {
    let upstream = Upstream::script(|conn| {
        conn.request().unwrap();
        let _ = conn.rest();
    });
    let front = Front::tuned(Way::Peer, upstream.address(), |settings| {
        settings.limits.requests_per_peer = if settings.site.name() == "B" { 1 } else { 10 };
    });
    let mut first = front.connect();
    first.send(front.head("GET /", ""));
    until("it is there", || upstream.connections() == 1);
    front.ask("GET /", "", b"").assert_problem(503, "too-many-requests");
}

#[test]
fn a_service_without_instances_is_a_503_at_once() {
    let nowhere = std::net::TcpListener::bind(crate::harness::ANY_PORT).unwrap().local_addr().unwrap();
    for way in WAYS {
        let front = Front::tuned(way, nowhere, |_| {});
        front.ask("GET /", "", b"").assert_problem(503, "unreachable");
    }
}

#[test]
fn connect_is_not_a_way_through() {
    let upstream = Upstream::fine();
    let front = Front::new(Way::Local, &upstream);
    let mut client = front.connect();
    client.send("CONNECT service:1 HTTP/1.1\r\nHost: service:1\r\n\r\n");
    assert_eq!(client.answer().status(), 501);
    assert_eq!(Arc::new(upstream).connections(), 0);
}
