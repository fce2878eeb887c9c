//! Bodies: chunks and trailers from end to end, and answers that come before the request has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::{Conn, Front, Upstream, WAYS, until};

const TRAILERS: &str = "3\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 5\r\nArchipel-Unsent: 1\r\n\r\n";

#[test]
fn chunks_and_trailers_arrive_in_both_directions() {
    for way in WAYS {
        let upstream = Upstream::answering(&format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Archipel-Unsent\r\n\r\n{TRAILERS}"
        ));
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        for _ in 0..2 {
            let fields = "Transfer-Encoding: chunked\r\nTrailer: X-Sum, Archipel-Unsent\r\n\
                          TE: trailers\r\nConnection: TE\r\n";
            client.send(front.head("POST /", fields) + TRAILERS);
            let answer = client.answer();
            assert_eq!(answer.text(), "abcde", "{way:?}");
            assert_eq!(answer.trailers, [("x-sum".to_owned(), "5".to_owned())], "{way:?}: the answer's");
        }
        let seen = upstream.seen();
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0].body, b"abcde");
        assert_eq!(seen[0].trailers, [("x-sum".to_owned(), "5".to_owned())], "{way:?}: the request's");
    }
}

#[test]
fn a_client_that_did_not_ask_for_trailers_gets_a_body_without() {
    for way in WAYS {
        let upstream = Upstream::answering(&format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n{TRAILERS}"
        ));
        let front = Front::new(way, &upstream);
        let answer = front.ask("GET /", "", b"");
        assert_eq!((answer.text().as_str(), answer.trailers.len()), ("abcde", 0), "{way:?}");
    }
}

#[test]
fn bodies_arrive_as_they_are_sent_not_when_they_are_whole() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| {
            conn.head().unwrap();
            // Each side says one piece, and waits for the other's.
            assert_eq!(conn.exactly(8), b"3\r\nabc\r\n");
            conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n");
            assert_eq!(conn.exactly(8), b"3\r\ndef\r\n");
            conn.send("2\r\nho\r\n0\r\n\r\n");
            assert_eq!(conn.exactly(5), b"0\r\n\r\n");
        });
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        client.send(front.head("POST /", "Transfer-Encoding: chunked\r\n") + "3\r\nabc\r\n");
        assert_eq!(client.head().unwrap().status(), 200, "{way:?}");
        assert_eq!(client.exactly(7), b"2\r\nhi\r\n");
        client.send("3\r\ndef\r\n");
        assert_eq!(client.exactly(12), b"2\r\nho\r\n0\r\n\r\n");
        client.send("0\r\n\r\n");
    }
}

/// Of about the lengths of the buffers that they pass.
const LENGTHS: [usize; 15] = [
    (16 << 10) - 300,
    (16 << 10) - 1,
    16 << 10,
    (16 << 10) + 1,
    (64 << 10) - 1,
    64 << 10,
    (64 << 10) + 1,
    (80 << 10) + 7,
    (256 << 10) - 1,
    256 << 10,
    (320 << 10) + 1,
    512 << 10,
    (528 << 10) - 1,
    (528 << 10) + 1,
    (1 << 20) + 3,
];

#[test]
fn bodies_of_any_length_arrive_whole_and_what_follows_them_is_no_part_of_them() {
    for way in WAYS {
        let upstream = Upstream::serving(|request| {
            let framed = if request.line.contains("chunked") {
                [
                    format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", request.body.len()).as_bytes(),
                    &request.body,
                    b"\r\n0\r\n\r\n",
                ]
                .concat()
            } else {
                [format!("Content-Length: {}\r\n\r\n", request.body.len()).as_bytes(), &request.body].concat()
            };
            [b"HTTP/1.1 200 OK\r\n", framed.as_slice()].concat()
        });
        let front = Front::new(way, &upstream);
        for framing in ["length", "chunked"] {
            let mut client = front.connect();
            for length in LENGTHS {
                let body: Vec<u8> =
                    (0..length).map(|at| b'a' + u8::try_from(at * 7 / 3 % 23).unwrap()).collect();
                let fields = format!("Content-Length: {length}\r\n");
                let first = front.head(&format!("POST /{framing}"), &fields).into_bytes();
                let next = front.head("POST /length", "Content-Length: 2\r\n") + "hi";
                client.send([first, body.clone(), next.into_bytes()].concat());
                assert!(
                    client.answer().body == body,
                    "{way:?}, {framing}: not the {length} bytes that were sent"
                );
                assert_eq!(client.answer().text(), "hi", "{way:?}, {framing}, after {length}");
            }
        }
    }
}

#[test]
fn an_early_answer_comes_while_the_upload_goes_on_and_the_upload_is_not_lost() {
    for way in WAYS {
        let whole = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&whole);
        let upstream = Upstream::script(move |conn| {
            while let Some(head) = conn.head() {
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly");
                let length: usize = head.field("content-length").unwrap().parse().unwrap();
                assert_eq!(conn.exactly(length).len(), length);
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        let body = vec![b'x'; 1 << 20];
        for _ in 0..2 {
            client.send(front.head("POST /", "Content-Length: 1048576\r\n"));
            client.send(&body[..1000]);
            assert_eq!(client.answer().text(), "early", "{way:?}");
            client.send(&body[1000..]);
        }
        until("both uploads are there", || whole.load(Ordering::SeqCst) == 2);
    }
}

#[test]
fn an_early_refusal_reaches_a_client_that_is_still_uploading() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| {
            conn.head().unwrap();
            conn.send("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig");
            // As servers do: what was sent is read for a while, and the connection is closed. With bytes
            // unread the system resets it, and the answer may be lost on the way.
            let _ = conn.exactly(128 << 10);
        });
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        client.send(front.head("POST /", "Content-Length: 100000000\r\n"));
        client.send(vec![b'x'; 128 << 10]);
        let answer = client.answer();
        assert_eq!((answer.status(), answer.text().as_str()), (413, "big"), "{way:?}");
        until("the request has ended", || front.in_flight() == 0);
    }
}

/// Reads a chunked answer to its end, and says how long it was.
fn drain(conn: &mut Conn) -> usize {
    conn.answer().body.len()
}

#[test]
fn many_bodies_at_once_do_not_mix() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| {
            while let Some(request) = conn.request() {
                conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                for piece in request.body.chunks(1000) {
                    conn.send(format!("{:x}\r\n", piece.len()));
                    conn.send(piece);
                    conn.send("\r\n");
                }
                conn.send("0\r\n\r\n");
            }
        });
        let front = &Front::new(way, &upstream);
        std::thread::scope(|scope| {
            for length in [1, 999, 70_000, 400_000] {
                scope.spawn(move || {
                    let mut client = front.connect();
                    for _ in 0..3 {
                        client.send(front.head("POST /", &format!("Content-Length: {length}\r\n")));
                        client.send(vec![b'x'; length]);
                        assert_eq!(drain(&mut client), length, "{way:?}");
                    }
                });
            }
        });
    }
}

/// There are pipes for some of them at a time, and buffers for the others.
#[test]
fn many_long_bodies_at_once_arrive_whole_in_both_directions() {
    for way in WAYS {
        let upstream = Upstream::serving(|request| {
            let length = request.body.len();
            [format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").as_bytes(), &request.body]
                .concat()
        });
        let front = &Front::new(way, &upstream);
        std::thread::scope(|scope| {
            for client_number in 0..24 {
                scope.spawn(move || {
                    let mut client = front.connect();
                    let length = (1 << 20) + 4099 * client_number;
                    let body: Vec<u8> = (0..length)
                        .map(|at| u8::try_from((at / 11 + client_number) % 251).unwrap())
                        .collect();
                    for _ in 0..2 {
                        client.send(front.head("POST /", &format!("Content-Length: {length}\r\n")));
                        client.send(&body);
                        assert!(client.answer().body == body, "{way:?}, client {client_number}");
                    }
                });
            }
        });
    }
}

#[test]
fn what_a_service_says_after_a_long_answer_is_nobodys_answer() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| {
            while conn.request().is_some() {
                let body = "x".repeat(1 << 20);
                let more = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
                conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}{more}", body.len()));
            }
        });
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        for _ in 0..4 {
            client.send(front.head("GET /", ""));
            assert_eq!(client.answer().body.len(), 1 << 20, "{way:?}");
        }
    }
}

#[test]
fn a_long_answer_that_breaks_off_does_not_look_whole_and_nothing_of_it_is_in_another() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| {
            while let Some(request) = conn.request() {
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 2097152\r\n\r\n");
                if request.line.contains("broken") {
                    conn.send(vec![b'a'; 1_500_000]);
                    return;
                }
                conn.send(vec![b'b'; 2 << 20]);
            }
        });
        let front = Front::new(way, &upstream);
        for _ in 0..3 {
            let mut client = front.connect();
            client.send(front.head("GET /broken", ""));
            assert_eq!(client.head().unwrap().status(), 200, "{way:?}");
            assert!(client.exactly(2 << 20).len() < 2 << 20, "{way:?}");
            let whole = front.ask("GET /whole", "", b"").body;
            assert!(whole.len() == 2 << 20 && whole.iter().all(|byte| *byte == b'b'), "{way:?}");
        }
    }
}

#[test]
fn what_a_client_left_unread_of_a_long_answer_is_in_no_other() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| {
            while let Some(request) = conn.request() {
                let letter = if request.line.contains("left") { b'a' } else { b'b' };
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 16777216\r\n\r\n");
                // Who is gone takes no more of it.
                while let Ok(1..) = conn.push(&[letter; 1 << 14]) {}
            }
        });
        let front = Front::new(way, &upstream);
        for _ in 0..12 {
            let mut client = front.connect();
            client.send(front.head("GET /left", ""));
            assert_eq!(client.head().unwrap().status(), 200, "{way:?}");
            assert_eq!(client.exactly(1 << 20).len(), 1 << 20, "{way:?}");
            drop(client);
            until("it is given up", || front.in_flight() == 0);
        }
        let mut client = front.connect();
        client.send(front.head("GET /whole", ""));
        client.head().unwrap();
        assert!(client.exactly(16 << 20).iter().all(|byte| *byte == b'b'), "{way:?}");
    }
}
