//! `Expect: 100-continue`: the service decides whether the body is sent, not the mesh.

use std::time::{Duration, Instant};

use crate::harness::{Front, Upstream, WAYS};

const FIELDS: &str = "Expect: 100-continue\r\nContent-Length: 5\r\n";

#[test]
fn the_service_says_when_to_go_on() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| {
            while let Some(head) = conn.head() {
                assert_eq!(head.field("expect").as_deref(), Some("100-continue"));
                conn.send("HTTP/1.1 100 Continue\r\n\r\n");
                assert_eq!(conn.exactly(5), b"hello");
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        });
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        for _ in 0..2 {
            let start = Instant::now();
            client.send(front.head("POST /", FIELDS));
            assert_eq!(client.head().unwrap().status(), 100, "{way:?}");
            client.send("hello");
            assert_eq!(client.answer().text(), "ok", "{way:?}");
            assert!(start.elapsed() < Duration::from_secs(10));
        }
    }
}

#[test]
fn a_refusal_comes_instead_of_the_interim_answer_and_the_body_is_never_asked_for() {
    for way in WAYS {
        for refusal in ["417 Expectation Failed", "413 Content Too Large", "401 Unauthorized"] {
            let upstream = Upstream::script(move |conn| {
                conn.head().unwrap();
                conn.send(format!("HTTP/1.1 {refusal}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"));
                let rest = conn.rest();
                assert!(rest.is_empty(), "a body came: {}", rest.escape_ascii());
            });
            let front = Front::new(way, &upstream);
            let mut client = front.connect();
            client.send(front.head("POST /", FIELDS));
            let first = client.head().unwrap();
            assert_eq!(first.status().to_string(), refusal[..3], "{way:?}: the first answer is the refusal");
            assert_eq!(client.exactly(2), b"no");
        }
    }
}

#[test]
fn a_client_that_does_not_wait_is_served_too() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| {
            conn.head().unwrap();
            conn.send("HTTP/1.1 100 Continue\r\n\r\n");
            assert_eq!(conn.exactly(5), b"hello");
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        });
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        client.send(front.head("POST /", FIELDS) + "hello");
        assert_eq!(client.answer().text(), "ok", "{way:?}");
    }
}

/// Many services have never heard of the header: they wait for the body.
#[test]
fn a_service_that_ignores_the_expectation_gets_the_body_after_a_while() {
    for way in WAYS {
        let upstream = Upstream::fine();
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        client.send(front.head("POST /", FIELDS));
        assert_eq!(client.head().unwrap().status(), 100, "{way:?}");
        client.send("hello");
        assert_eq!(client.answer().text(), "fine", "{way:?}");
        assert_eq!(upstream.seen()[0].body, b"hello");
    }
}

#[test]
fn other_interim_answers_do_not_end_a_request() {
    for way in WAYS {
        let upstream = Upstream::answering(
            "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n\
             HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        );
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        for _ in 0..2 {
            client.send(front.head("GET /", ""));
            assert_eq!(client.answer().text(), "ok", "{way:?}");
        }
    }
}
