//! Messages of every shape: connections that go on, answers without bodies, pipelines, half-closes.

use crate::harness::{Front, Upstream, WAYS};

#[test]
fn a_connection_serves_one_request_after_the_other_on_both_sides() {
    for way in WAYS {
        let upstream = Upstream::fine();
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        for path in ["/1", "/2?x=%20&y", "//3/../x"] {
            client.send(front.head(&format!("GET {path}"), ""));
            let answer = client.answer();
            assert_eq!((answer.status(), answer.text().as_str()), (200, "fine"), "{way:?}");
        }
        let lines: Vec<String> = upstream.seen().into_iter().map(|request| request.line).collect();
        assert_eq!(lines, ["GET /1 HTTP/1.1", "GET /2?x=%20&y HTTP/1.1", "GET //3/../x HTTP/1.1"]);
        assert_eq!(upstream.connections(), 1, "{way:?}");
    }
}

#[test]
fn a_client_that_says_close_is_closed_and_the_service_is_not() {
    for way in WAYS {
        let upstream = Upstream::fine();
        let front = Front::new(way, &upstream);
        for _ in 0..2 {
            let mut client = front.connect();
            client.send(front.head("GET /", "Connection: close\r\n"));
            assert_eq!(client.answer().status(), 200);
            client.assert_closed();
        }
        assert_eq!(upstream.connections(), 1, "{way:?}");
    }
}

#[test]
fn an_old_client_gets_an_answer_that_it_can_read() {
    let upstream =
        Upstream::answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfine\r\n0\r\n\r\n");
    let front = Front::new(WAYS[0], &upstream);
    let mut client = front.connect();
    client.send("GET / HTTP/1.0\r\n\r\n");
    let answer = client.answer();
    assert_eq!(answer.field("transfer-encoding"), None, "there are no chunks in HTTP/1.0");
    assert_eq!(answer.text(), "fine");
    assert_eq!(upstream.seen()[0].line, "GET / HTTP/1.1");
}

#[test]
fn the_answer_to_head_keeps_its_length_and_has_no_body() {
    for way in WAYS {
        let upstream =
            Upstream::answering("HTTP/1.1 200 OK\r\nContent-Length: 1234567\r\nETag: \"x\"\r\n\r\n");
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        for _ in 0..2 {
            client.send(front.head("HEAD /big", ""));
            let answer = client.answer_to("HEAD /big");
            assert_eq!(answer.field("content-length").as_deref(), Some("1234567"), "{way:?}");
            assert_eq!(answer.field("etag").as_deref(), Some("\"x\""));
        }
        assert_eq!(upstream.connections(), 1, "{way:?}");
    }
}

#[test]
fn answers_without_a_body_leave_the_connection_in_step() {
    for way in WAYS {
        for (head, status) in [
            ("204 No Content\r\n\r\n", 204),
            ("304 Not Modified\r\nETag: \"x\"\r\n\r\n", 304),
            ("304 Not Modified\r\nContent-Length: 99\r\n\r\n", 304),
            ("200 OK\r\nContent-Length: 0\r\n\r\n", 200),
        ] {
            let upstream = Upstream::answering(&format!("HTTP/1.1 {head}"));
            let front = Front::new(way, &upstream);
            let mut client = front.connect();
            for _ in 0..3 {
                client.send(front.head("GET /", ""));
                let answer = client.answer();
                assert_eq!(answer.status(), status, "{way:?}");
                assert!(answer.body.is_empty());
                assert_eq!(answer.field("transfer-encoding"), None);
            }
            assert_eq!(upstream.seen().len(), 3, "{way:?}");
        }
    }
}

#[test]
fn an_answer_that_ends_with_its_connection_arrives_whole() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| {
            conn.request().unwrap();
            conn.send("HTTP/1.1 200 OK\r\n\r\nuntil the end");
        });
        let front = Front::new(way, &upstream);
        let answer = front.ask("GET /", "", b"");
        assert_eq!(answer.text(), "until the end", "{way:?}");
    }
}

#[test]
fn a_cut_answer_is_cut_for_the_client_too() {
    for way in WAYS {
        for head in ["Content-Length: 10\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"] {
            let upstream = Upstream::script(move |conn| {
                conn.request().unwrap();
                conn.send(format!("HTTP/1.1 200 OK\r\n{head}"));
            });
            let front = Front::new(way, &upstream);
            let mut client = front.connect();
            client.send(front.head("GET /", ""));
            // The head may be lost with the rest.
            let Some(head) = client.head() else { continue };
            assert_eq!(head.status(), 200);
            let rest = client.rest();
            // Nothing that could be taken for the end of the answer.
            assert!(rest.len() < 10 || rest.ends_with(b"half\r\n"), "{way:?}: {}", rest.escape_ascii());
        }
    }
}

#[test]
fn a_service_that_answers_nonsense_or_nothing_is_a_bad_gateway() {
    for way in WAYS {
        for nonsense in [
            "",
            "SSH-2.0-x\r\n",
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nab",
            // What is coded in another way than by chunks would be passed off as the content.
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nab",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX : y\r\n\r\n",
        ] {
            let upstream = Upstream::script(move |conn| {
                conn.request().unwrap();
                conn.send(nonsense);
            });
            let front = Front::new(way, &upstream);
            front.ask("GET /", "", b"").assert_problem(502, "no-answer");
        }
    }
}

#[test]
fn an_answer_that_is_framed_twice_is_framed_once_for_the_client() {
    for way in WAYS {
        for length in [3, 5, 9] {
            let upstream = Upstream::answering(&format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n\
                 5\r\nhello\r\n0\r\n\r\n"
            ));
            let front = Front::new(way, &upstream);
            let mut client = front.connect();
            for requests in 1..3 {
                client.send(front.head("GET /", ""));
                let answer = client.answer();
                assert_eq!((answer.status(), answer.text().as_str()), (200, "hello"), "{way:?}");
                // Who thinks of another end of it has not begun to speak of something else there.
                assert_eq!(upstream.connections(), requests, "{way:?}");
            }
        }
        let upstream =
            Upstream::answering("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\nContent-Length: 5\r\n\r\nhello");
        let answer = Front::new(way, &upstream).ask("GET /", "", b"");
        assert_eq!(answer.field("content-length").as_deref(), Some("5"), "{way:?}");
        assert_eq!(answer.text(), "hello");
    }
}

#[test]
fn chunks_that_cannot_be_read_are_never_the_end_of_an_answer() {
    for way in WAYS {
        for chunks in [
            "5 \u{2}x\r\nhello\r\n0\r\n\r\n",
            "5\r\nhello!\r\n0\r\n\r\n",
            "5\r\nhello\r\n0\r\nX : 1\r\n\r\n",
            "5\r\nhello\r\n0\n\n",
        ] {
            let upstream = Upstream::script(move |conn| {
                conn.request().unwrap();
                conn.send(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"));
                let _ = conn.rest();
            });
            let front = Front::new(way, &upstream);
            let mut client = front.connect();
            client.send(front.head("GET /", ""));
            // The head may be lost with the rest.
            if client.head().is_some() {
                let rest = client.rest();
                assert!(!rest.ends_with(b"0\r\n\r\n"), "{way:?}: {}", rest.escape_ascii());
            }
        }
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| {
            while let Some(request) = conn.request() {
                let path = request.line.split(' ').nth(1).unwrap().to_owned();
                if path == "/1" {
                    std::thread::sleep(std::time::Duration::from_millis(50));
                }
                conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len()));
            }
        });
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        let post = front.head("POST /2", "Content-Length: 3\r\n") + "abc";
        client.send([front.head("GET /1", ""), post, front.head("GET /3", "")].concat());
        for path in ["/1", "/2", "/3"] {
            assert_eq!(client.answer().text(), path, "{way:?}");
        }
    }
}

#[test]
fn a_client_that_closes_its_side_still_gets_its_answer() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| {
            while let Some(request) = conn.request() {
                std::thread::sleep(std::time::Duration::from_millis(100));
                conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{:02}", request.body.len()));
            }
        });
        let front = Front::new(way, &upstream);
        for (fields, body) in [
            ("", &b""[..]),
            ("Content-Length: 3\r\n", b"abc"),
            ("Transfer-Encoding: chunked\r\n", b"3\r\nabc\r\n0\r\n\r\n"),
        ] {
            let mut client = front.connect();
            client.send(front.head("POST /", fields));
            client.send(body);
            client.end();
            let answer = client.answer();
            assert_eq!(answer.status(), 200, "{way:?}");
            assert_eq!(answer.text(), if body.is_empty() { "00" } else { "03" });
            client.assert_closed();
        }
    }
}

#[test]
fn a_client_that_goes_takes_its_request_with_it() {
    for way in WAYS {
        let (tell, told) = std::sync::mpsc::channel();
        let tell = std::sync::Mutex::new(tell);
        let upstream = Upstream::script(move |conn| {
            conn.head().unwrap();
            tell.lock().unwrap().send("it came").unwrap();
            // The body is never whole: the service learns it from the end of its connection.
            let _ = conn.rest();
            tell.lock().unwrap().send("it went").unwrap();
        });
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        client.send(front.head("POST /", "Content-Length: 1000\r\n") + "half");
        let hear = || told.recv_timeout(crate::harness::STUCK).unwrap_or_else(|_| panic!("{way:?}"));
        assert_eq!(hear(), "it came");
        drop(client);
        assert_eq!(hear(), "it went");
        crate::harness::until("the request is given up", || front.in_flight() == 0);
    }
}
