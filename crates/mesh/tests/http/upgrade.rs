//! Connections that switch protocols, as web sockets do.

use std::time::Duration;

use crate::harness::{Front, Upstream, WAYS, Way, until};

const FIELDS: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n";
const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                         Sec-WebSocket-Accept: x\r\n\r\n";

/// Switches, greets, and says everything back until the end.
fn echo() -> Upstream {
    Upstream::script(|conn| {
        let head = conn.head().unwrap();
        assert_eq!(head.field("upgrade").as_deref(), Some("websocket"));
        assert_eq!(head.field("connection").unwrap().to_ascii_lowercase(), "upgrade");
        assert_eq!(head.field("sec-websocket-key").as_deref(), Some("eA=="));
        // Said at once, in the same piece as the answer.
        conn.send(format!("{SWITCHING}welcome"));
        loop {
            let byte = conn.exactly(1);
            if byte.is_empty() {
                break conn.send("bye");
            }
            conn.send(byte);
        }
    })
}

#[test]
fn bytes_go_both_ways_after_the_switch_and_each_side_can_end() {
    for way in WAYS {
        let upstream = echo();
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        client.send(front.head("GET /ws", FIELDS));
        let answer = client.head().unwrap();
        assert_eq!(answer.status(), 101, "{way:?}");
        assert_eq!(answer.field("upgrade").as_deref(), Some("websocket"));
        assert_eq!(answer.field("sec-websocket-accept").as_deref(), Some("x"));
        assert_eq!(client.exactly(7), b"welcome", "{way:?}");
        for bytes in [&b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"[..], b"\0\xff\r\n", b"x"] {
            client.send(bytes);
            assert_eq!(client.exactly(bytes.len()), bytes, "{way:?}");
        }
        client.end();
        assert_eq!(client.rest(), b"bye", "{way:?}: a half-closed tunnel still carries the other half");
    }
}

#[test]
fn bytes_that_are_sent_before_the_switch_are_not_lost() {
    for way in WAYS {
        let upstream = echo();
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        client.send(front.head("GET /ws", FIELDS) + "\r\nearly bytes: \0\x01");
        assert_eq!(client.head().unwrap().status(), 101, "{way:?}");
        let expected = b"welcome\r\nearly bytes: \0\x01";
        assert_eq!(
            client.exactly(expected.len()).escape_ascii().to_string(),
            expected.escape_ascii().to_string()
        );
    }
}

#[test]
fn a_refused_switch_is_an_answer_like_any_other() {
    for way in WAYS {
        let upstream = Upstream::fine();
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        client.send(front.head("GET /ws", FIELDS) + &front.head("GET /2", ""));
        assert_eq!(client.answer().text(), "fine", "{way:?}");
        assert_eq!(client.answer().text(), "fine", "{way:?}: what follows is a request");
        assert_eq!(upstream.seen()[1].line, "GET /2 HTTP/1.1");
    }
}

#[test]
fn a_service_cannot_switch_without_being_asked() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| {
            conn.head().unwrap();
            conn.send(SWITCHING);
            let _ = conn.rest();
        });
        let front = Front::new(way, &upstream);
        let answer = front.ask("GET /", "", b"");
        assert_eq!(answer.status(), 502, "{way:?}");
    }
}

#[test]
fn a_switch_that_the_connection_header_does_not_name_is_none() {
    let upstream = Upstream::fine();
    let front = Front::new(Way::Local, &upstream);
    assert_eq!(front.ask("GET /", "Upgrade: websocket\r\n", b"").status(), 200);
    assert_eq!(upstream.seen()[0].field("upgrade"), None);
}

#[test]
fn a_switched_connection_counts_as_a_request_in_flight_until_it_ends() {
    for way in WAYS {
        let upstream = echo();
        let front = Front::tuned(way, upstream.address(), |settings| settings.limits.requests = 1);
        let mut client = front.connect();
        client.send(front.head("GET /ws", FIELDS));
        assert_eq!(client.head().unwrap().status(), 101);
        assert_eq!(client.exactly(7), b"welcome");
        assert_eq!(front.in_flight(), 1, "{way:?}");
        front.ask("GET /", "", b"").assert_problem(503, "too-many-requests");
        drop(client);
        until("the tunnel has ended", || front.in_flight() == 0);
    }
}

#[test]
fn a_tunnel_ends_when_the_service_goes() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| {
            conn.head().unwrap();
            conn.send(SWITCHING);
            std::thread::sleep(Duration::from_millis(20));
        });
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        client.send(front.head("GET /ws", FIELDS));
        assert_eq!(client.head().unwrap().status(), 101);
        client.assert_closed();
    }
}
