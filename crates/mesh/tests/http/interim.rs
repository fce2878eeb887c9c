//! Interim answers (1xx): a service's early hints reach a client at once, and in order, from whichever site.

use std::future::poll_fn;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use http::StatusCode;

use crate::harness::{Conn, Front, STUCK, Upstream, WAYS, Way, run};
use crate::tls;

const HINT: &str = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Reads an early hint.
#[track_caller]
fn assert_hint(client: &mut Conn) {
    let hint = client.head().unwrap();
    assert_eq!(hint.line, "HTTP/1.1 103 Early Hints");
    assert_eq!(hint.fields, [("link".to_owned(), "</style.css>; rel=preload".to_owned())]);
}

/// Reads an answer that no other answer comes before.
#[track_caller]
fn assert_final(client: &mut Conn, body: &str) {
    let head = client.head().unwrap();
    assert_eq!(head.status(), 200, "{head:?}");
    let length = head.field("content-length").unwrap().parse().unwrap();
    assert_eq!(String::from_utf8(client.exactly(length)).unwrap(), body);
}

#[test]
fn hints_in_one_piece_with_the_answer_come_before_it() {
    let upstream = Upstream::answering(&[HINT, "HTTP/1.1 102 Processing\r\n\r\n", HINT, OK].concat());
    for way in WAYS {
        let front = Front::new(way, &upstream);
        let certificate = tls::certificate(&[b"http/1.1"]);
        let secure = Front::tuned(way, upstream.address(), |settings| {
            settings.services.get_mut("image").unwrap().tls = Some(Arc::clone(&certificate.server));
        });
        let trusting = tls::trusting(&certificate, &[b"http/1.1"]);
        for mut client in [front.connect(), tls::connect(secure.address, &trusting)] {
            // On a connection that is kept, each request has its own.
            for _ in 0..3 {
                client.send(front.head("GET /", ""));
                assert_hint(&mut client);
                assert_eq!(client.head().unwrap().line, "HTTP/1.1 102 Processing");
                assert_hint(&mut client);
                assert_final(&mut client, "ok");
            }
        }
    }
}

/// Whichever lane of the link it takes: the last is one for long bodies.
#[test]
fn a_hint_does_not_wait_for_the_answer() {
    let (go, wait) = channel();
    let wait = Mutex::new(wait);
    let upstream = Upstream::script(move |conn| {
        while conn.request().is_some() {
            for _ in 0..2 {
                conn.send(HINT);
                wait.lock().unwrap().recv_timeout(STUCK).unwrap();
            }
            conn.send(OK);
        }
    });
    for way in WAYS {
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        let chunked = "Transfer-Encoding: chunked\r\n";
        for (head, body) in [
            (front.head("GET /", ""), ""),
            (front.head("GET /", ""), ""),
            (front.head("POST /", "Content-Length: 5\r\n"), "hello"),
            (front.head("POST /", chunked), "5\r\nhello\r\n0\r\n\r\n"),
            (front.head("POST /", chunked), "5\r\nhello\r\n0\r\n\r\n"),
        ] {
            client.send(head);
            client.send(body);
            for _ in 0..2 {
                assert_hint(&mut client);
                go.send(()).unwrap();
            }
            assert_final(&mut client, "ok");
        }
    }
}

#[test]
fn hints_of_pipelined_requests_stay_with_their_answers() {
    let long = "x".repeat(1 << 20);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{long}", long.len());
    let upstream = Upstream::answering(&[HINT, &answer].concat());
    for way in WAYS {
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        client.send(front.head("GET /", "").repeat(4));
        for _ in 0..4 {
            assert_hint(&mut client);
            assert_final(&mut client, &long);
        }
    }
}

#[test]
fn a_client_that_waits_for_the_word_gets_it_once() {
    let upstream = Upstream::script(|conn| {
        while conn.head().is_some() {
            conn.send([HINT, "HTTP/1.1 100 Continue\r\n\r\n"].concat());
            assert_eq!(conn.exactly(5), b"hello");
            conn.send([HINT, OK].concat());
        }
    });
    for way in WAYS {
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        for _ in 0..2 {
            client.send(front.head("POST /", "Expect: 100-continue\r\nContent-Length: 5\r\n"));
            let mut first = [client.head().unwrap().status(), client.head().unwrap().status()];
            first.sort_unstable();
            assert_eq!(first, [100, 103]);
            client.send("hello");
            assert_hint(&mut client);
            assert_final(&mut client, "ok");
        }
    }
}

/// It would take the first answer for the last.
#[test]
fn a_client_of_http_1_0_gets_the_answer_only() {
    let upstream = Upstream::answering(&[HINT, OK].concat());
    for way in WAYS {
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        client.send(front.head("GET /", "").replace("HTTP/1.1", "HTTP/1.0"));
        assert_final(&mut client, "ok");
        client.assert_closed();
    }
}

/// Whose answer it will be is not known yet.
#[test]
fn hints_of_one_of_several_sites_are_dropped() {
    let upstream = Upstream::answering(&[HINT, OK].concat());
    let front = Front::new(Way::Local, &upstream);
    let mut client = front.connect();
    for _ in 0..2 {
        client.send(front.head("GET /", "X-Scope: image: A; B\r\n"));
        assert_final(&mut client, "ok");
    }
}

/// They share connections of the link, which carry long bodies too.
#[test]
fn hints_of_many_requests_at_once_stay_with_their_own() {
    let upstream = Upstream::script(|conn| {
        while let Some(request) = conn.request() {
            let path = request.line.split(' ').nth(1).unwrap().to_owned();
            for _ in 0..3 {
                conn.send(format!("HTTP/1.1 103 Early Hints\r\nLink: {path}\r\n\r\n"));
            }
            let body = path.repeat(20_000);
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        }
    });
    for way in WAYS {
        let front = Front::new(way, &upstream);
        std::thread::scope(|scope| {
            for client in 0..8 {
                let front = &front;
                scope.spawn(move || {
                    let mut conn = front.connect();
                    for request in 0..8 {
                        let path = format!("/{client}/{request}");
                        conn.send(front.head(&format!("GET {path}"), ""));
                        for _ in 0..3 {
                            let hint = conn.head().unwrap();
                            assert_eq!(hint.fields, [("link".to_owned(), path.clone())], "{way:?}");
                        }
                        assert_final(&mut conn, &path.repeat(20_000));
                    }
                });
            }
        });
    }
}

#[test]
fn a_hint_says_nothing_that_is_for_one_hop_or_for_peers() {
    let upstream = Upstream::answering(
        &[
            "HTTP/1.1 103 Early Hints\r\nArchipel-Unsent: 1\r\nConnection: x-secret, close\r\nX-Secret: 1\r\n\
             Keep-Alive: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\nUpgrade: x\r\nTE: trailers\r\n\
             Link: </style.css>; rel=preload\r\n\r\n",
            OK,
        ]
        .concat(),
    );
    for way in WAYS {
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        client.send(front.head("GET /", ""));
        assert_hint(&mut client);
        assert_final(&mut client, "ok");
    }
}

#[test]
fn a_hint_may_come_before_a_switch_of_protocols() {
    let upstream = Upstream::script(|conn| {
        conn.head().unwrap();
        conn.send(
            [HINT, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"]
                .concat(),
        );
        let sent = conn.exactly(5);
        conn.send(sent);
    });
    for way in WAYS {
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        client.send(front.head("GET /", "Connection: upgrade\r\nUpgrade: echo\r\n"));
        assert_hint(&mut client);
        assert_eq!(client.head().unwrap().status(), 101);
        client.send("hello");
        assert_eq!(client.exactly(5), b"hello");
    }
}

#[test]
fn a_service_that_says_too_much_is_cut_short_and_its_answer_is_not() {
    let giant = format!("HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n", "x".repeat(30_000));
    let said = [(HINT.repeat(10_000), 1000), (giant, 0)];
    for (way, (interim, most)) in WAYS.into_iter().flat_map(|way| said.iter().map(move |said| (way, said))) {
        let upstream = Upstream::answering(&[interim, OK].concat());
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        for _ in 0..2 {
            client.send(front.head("GET /", ""));
            let mut hints = 0;
            let last = loop {
                let head = client.head().unwrap();
                if head.status() != 103 {
                    break head;
                }
                hints += 1;
            };
            assert!(hints <= *most, "{way:?}: {hints}");
            assert_eq!(last.status(), 200);
            assert_eq!(client.exactly(2), b"ok");
        }
    }
}

/// Its request is given up, and no word of it reaches the next one.
#[test]
fn hints_after_the_answer_was_given_up_are_not_heard() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let upstream = Upstream::script(move |conn| {
        while let Some(request) = conn.request() {
            if request.line.contains("/late") {
                let _ = wait.lock().unwrap().recv_timeout(STUCK);
                conn.send([HINT, OK].concat());
            } else {
                conn.send(OK);
            }
        }
    });
    let front = Front::tuned(Way::Local, upstream.address(), |settings| {
        settings.timeouts.response = std::time::Duration::from_secs(1);
    });
    let mut client = front.connect();
    client.send(front.head("GET /late", ""));
    client.answer().assert_problem(504, "timeout");
    go.send(()).unwrap();
    client.send(front.head("GET /", ""));
    assert_final(&mut client, "ok");
}

#[test]
fn after_an_odd_hint_none_is_told_and_the_word_to_go_on_counts_for_none() {
    let go_on = "HTTP/1.1 100 Continue\r\n\r\n".repeat(300);
    let upstream =
        Upstream::answering(&[go_on.as_str(), HINT, "HTTP/1.1 103 x\nLink: x\r\n\r\n", HINT, OK].concat());
    for way in WAYS {
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        for _ in 0..2 {
            client.send(front.head("GET /", ""));
            assert_hint(&mut client);
            assert_final(&mut client, "ok");
        }
    }
}

/// What came on one stream, heard with `h2` itself: hyper's client hears no interim answers.
struct Heard {
    hints: Vec<String>,
    status: u16,
    body: Vec<u8>,
}

/// Sends a request over HTTP/2, and calls for each hint.
async fn ask_http2(
    front: &Front,
    client: &mut h2::client::SendRequest<bytes::Bytes>,
    path: &str,
    mut on_hint: impl FnMut(),
) -> Heard {
    let mut request = http::Request::get(format!("http://service{path}"));
    if front.way == Way::Peer {
        request = request.header("x-scope", "image: B");
    }
    let (mut answer, _) = client.send_request(request.body(()).unwrap(), true).unwrap();
    let mut hints = Vec::new();
    while let Some(hint) = poll_fn(|context| answer.poll_informational(context)).await {
        let hint = hint.unwrap();
        assert_eq!((hint.status(), hint.headers().len()), (StatusCode::EARLY_HINTS, 1), "{hint:?}");
        hints.push(hint.headers()["link"].to_str().unwrap().to_owned());
        on_hint();
    }
    let (head, mut stream) = answer.await.unwrap().into_parts();
    let mut body = Vec::new();
    while let Some(bytes) = stream.data().await {
        let bytes = bytes.unwrap();
        stream.flow_control().release_capacity(bytes.len()).unwrap();
        body.extend_from_slice(&bytes);
    }
    Heard { hints, status: head.status.as_u16(), body }
}

async fn connect_http2(front: &Front) -> h2::client::SendRequest<bytes::Bytes> {
    let stream = tokio::net::TcpStream::connect(front.address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::task::spawn_local(connection);
    client
}

#[test]
fn a_client_of_http_2_is_told_of_each_hint_at_once() {
    let (go, wait) = channel();
    let wait = Mutex::new(wait);
    let upstream = Upstream::script(move |conn| {
        while conn.request().is_some() {
            for _ in 0..2 {
                conn.send(HINT);
                wait.lock().unwrap().recv_timeout(STUCK).unwrap();
            }
            conn.send(OK);
        }
    });
    for way in WAYS {
        let front = Front::new(way, &upstream);
        run(async {
            let mut client = connect_http2(&front).await;
            for _ in 0..2 {
                let heard = ask_http2(&front, &mut client, "/", || go.send(()).unwrap()).await;
                assert_eq!(heard.hints, ["</style.css>; rel=preload"; 2], "{way:?}");
                assert_eq!((heard.status, &heard.body[..]), (200, &b"ok"[..]), "{way:?}");
            }
        });
    }
}

#[test]
fn hints_on_streams_of_http_2_stay_with_their_own() {
    let upstream = Upstream::script(|conn| {
        while let Some(request) = conn.request() {
            let path = request.line.split(' ').nth(1).unwrap().to_owned();
            conn.send(format!("HTTP/1.1 103 Early Hints\r\nLink: {path}\r\n\r\n"));
            let body = path.repeat(100_000);
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        }
    });
    for way in WAYS {
        let front = std::rc::Rc::new(Front::new(way, &upstream));
        run(async {
            let client = connect_http2(&front).await;
            let asked = (0..20).map(|number| {
                let (front, mut client) = (std::rc::Rc::clone(&front), client.clone());
                tokio::task::spawn_local(async move {
                    let path = format!("/{number}");
                    let heard = ask_http2(&front, &mut client, &path, || {}).await;
                    assert_eq!(heard.hints.join(" "), path);
                    assert!(heard.body == path.repeat(100_000).into_bytes());
                })
            });
            for asked in asked.collect::<Vec<_>>() {
                asked.await.unwrap();
            }
        });
    }
}

#[test]
fn a_service_that_says_too_much_is_cut_short_on_http_2_too() {
    let giant = format!("HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n", "x".repeat(30_000));
    for said in [HINT.repeat(10_000), giant] {
        let upstream = Upstream::answering(&[&said, OK].concat());
        for way in WAYS {
            let front = Front::new(way, &upstream);
            run(async {
                let heard = ask_http2(&front, &mut connect_http2(&front).await, "/", || {}).await;
                assert!(heard.hints.len() <= 256, "{way:?}: {}", heard.hints.len());
                assert_eq!((heard.status, &heard.body[..]), (200, &b"ok"[..]), "{way:?}");
            });
        }
    }
}
