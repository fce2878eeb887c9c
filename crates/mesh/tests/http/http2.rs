//! HTTP/2 in: with prior knowledge, and with TLS. The service behind speaks HTTP/1.1 as ever.

use std::io::{Read, Write};
use std::pin::Pin;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::harness::{Front, STUCK, Upstream, WAYS, Way, run, until};
use crate::tls::{certificate, trusting};

pub type Client = SendRequest<AnyBody>;
pub type AnyBody = http_body_util::combinators::UnsyncBoxBody<Bytes, std::convert::Infallible>;

pub fn full(bytes: impl Into<Bytes>) -> AnyBody {
    Full::new(bytes.into()).boxed_unsync()
}

pub async fn over<IO: AsyncRead + AsyncWrite + Unpin + 'static>(stream: IO) -> Client {
    let (sender, connection) = handshake(link::Local, TokioIo::new(stream)).await.unwrap();
    tokio::task::spawn_local(connection);
    sender
}

async fn connect(front: &Front) -> Client {
    over(TcpStream::connect(front.address).await.unwrap()).await
}

/// A request that takes the front's way.
fn request(front: &Front, method: &str, path: &str) -> http::request::Builder {
    let request = Request::builder().method(method).uri(format!("http://service{path}"));
    match front.way {
        Way::Local => request,
        Way::Peer => request.header("x-scope", "image: B"),
    }
}

async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[test]
fn a_request_with_prior_knowledge_becomes_one_of_http_1() {
    for way in WAYS {
        let upstream = Upstream::fine();
        let front = Front::new(way, &upstream);
        run(async {
            let mut client = connect(&front).await;
            let sent = request(&front, "POST", "/x?y").header("te", "trailers").header("cookie", "a=1");
            let answer = client.send_request(sent.body(full("hello")).unwrap()).await.unwrap();
            assert_eq!(answer.status(), 200);
            assert_eq!(text(answer).await, "fine", "{way:?}");
        });
        let seen = &upstream.seen()[0];
        assert_eq!(seen.line, "POST /x?y HTTP/1.1", "{way:?}");
        assert_eq!(seen.field("host").as_deref(), Some("service"));
        assert_eq!(seen.field("cookie").as_deref(), Some("a=1"));
        assert_eq!(seen.body, b"hello");
    }
}

#[test]
fn bodies_and_trailers_are_carried_between_the_versions() {
    for way in WAYS {
        let upstream = Upstream::answering(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
             3\r\nabc\r\n0\r\nX-Sum: 3\r\nArchipel-Unsent: 1\r\n\r\n",
        );
        let front = Front::new(way, &upstream);
        run(async {
            let mut client = connect(&front).await;
            let trailers = HeaderMap::from_iter([
                ("x-sum".parse().unwrap(), "5".parse().unwrap()),
                ("archipel-unsent".parse().unwrap(), "1".parse().unwrap()),
            ]);
            // Of unknown length: a body with a length has no trailers in HTTP/1.1.
            let body = Pieces { frames: vec![Frame::trailers(trailers), data("hello")], ends: true };
            let sent = request(&front, "POST", "/").header("te", "trailers").header("trailer", "x-sum");
            let answer = client.send_request(sent.body(body.boxed_unsync()).unwrap()).await.unwrap();
            let body = answer.into_body().collect().await.unwrap();
            let trailers = body.trailers().cloned().unwrap_or_default();
            assert_eq!(trailers["x-sum"], "3", "{way:?}");
            assert!(!trailers.contains_key("archipel-unsent"), "{way:?}");
            assert_eq!(body.to_bytes(), "abc");
        });
        let seen = &upstream.seen()[0];
        assert_eq!(seen.body, b"hello");
        assert_eq!(seen.trailers, [("x-sum".to_owned(), "5".to_owned())], "{way:?}");
    }
}

#[test]
fn streams_do_not_wait_for_each_other() {
    for way in WAYS {
        let (go, wait) = channel();
        let wait = Mutex::new(wait);
        let upstream = Upstream::script(move |conn| {
            while let Some(request) = conn.request() {
                if request.line.contains("slow") {
                    wait.lock().unwrap().recv_timeout(STUCK).unwrap();
                }
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        });
        let front = Front::new(way, &upstream);
        run(async {
            let mut client = connect(&front).await;
            let slow = client.send_request(request(&front, "GET", "/slow").body(full("")).unwrap());
            let quick: Vec<_> = (0..50)
                .map(|_| client.send_request(request(&front, "GET", "/quick").body(full("")).unwrap()))
                .collect();
            let slow = tokio::task::spawn_local(slow);
            for answer in quick {
                assert_eq!(text(answer.await.unwrap()).await, "ok");
            }
            // Fifty streams were answered before the first.
            go.send(()).unwrap();
            assert_eq!(text(slow.await.unwrap().unwrap()).await, "ok");
        });
    }
}

#[test]
fn http_2_over_tls_is_chosen_by_its_name() {
    let certificate = certificate(&[b"h2", b"http/1.1"]);
    for way in WAYS {
        let upstream = Upstream::fine();
        let front = Front::tuned(way, upstream.address(), |settings| {
            settings.services.get_mut("image").unwrap().tls = Some(Arc::clone(&certificate.server));
        });
        run(async {
            let tcp = TcpStream::connect(front.address).await.unwrap();
            let connector = TlsConnector::from(trusting(&certificate, &[b"h2"]));
            let stream = connector.connect(ServerName::from(front.address.ip()), tcp).await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
            let mut client = over(stream).await;
            for length in [0, 10, 300_000] {
                let sent = request(&front, "PUT", "/").body(full(vec![b'x'; length])).unwrap();
                assert_eq!(text(client.send_request(sent).await.unwrap()).await, "fine", "{way:?}");
                assert_eq!(upstream.seen().last().unwrap().body.len(), length);
            }
        });
    }
}

#[test]
fn answers_without_bodies_have_none() {
    for way in WAYS {
        for (method, answer, status) in [
            ("HEAD", "200 OK\r\nContent-Length: 1234\r\n\r\n", 200),
            ("GET", "204 No Content\r\n\r\n", 204),
            ("GET", "304 Not Modified\r\n\r\n", 304),
        ] {
            let upstream = Upstream::answering(&format!("HTTP/1.1 {answer}"));
            let front = Front::new(way, &upstream);
            run(async {
                let mut client = connect(&front).await;
                let answer = client.send_request(request(&front, method, "/").body(full("")).unwrap());
                let answer = answer.await.unwrap();
                assert_eq!(answer.status(), status, "{way:?}");
                if method == "HEAD" {
                    assert_eq!(answer.headers()["content-length"], "1234", "{way:?}");
                }
                assert_eq!(text(answer).await, "", "{way:?}");
            });
        }
    }
}

/// HTTP/2 has its own framing, but what it says becomes HTTP/1.1 for the service.
#[test]
fn what_would_be_ambiguous_in_http_1_is_a_400() {
    let upstream = Upstream::fine();
    let front = Front::new(Way::Local, &upstream);
    run(async {
        let mut client = connect(&front).await;
        for (name, values) in [
            ("host", &["other"][..]),
            ("host", &["service", "service"]),
            ("content-length", &["5", "5"]),
            ("content-length", &["05"]),
            ("content_length", &["5"]),
            ("transfer_encoding", &["chunked"]),
        ] {
            let mut sent = request(&front, "POST", "/");
            for value in values {
                sent = sent.header(name, *value);
            }
            match client.send_request(sent.body(full("hello")).unwrap()).await {
                Ok(answer) => assert_eq!(answer.status(), 400, "{name}: {values:?}"),
                // Refused by the protocol itself.
                Err(error) => assert!(error.to_string().contains("http2"), "{name}: {error}"),
            }
        }
        let sent = request(&front, "POST", "/").header("host", "service").body(full("hello")).unwrap();
        assert_eq!(client.send_request(sent).await.unwrap().status(), 200, "the same host twice is one host");
    });
    assert_eq!(upstream.seen().len(), 1);
    assert_eq!(upstream.seen()[0].field("host").as_deref(), Some("service"));
}

#[test]
fn too_many_or_too_large_headers_are_a_431() {
    let upstream = Upstream::fine();
    let front = Front::tuned(Way::Local, upstream.address(), |settings| {
        settings.limits.headers = 20;
        settings.limits.header_bytes = 4096;
    });
    run(async {
        for (count, length) in [(30, 1), (1, 5000)] {
            let mut client = connect(&front).await;
            let mut sent = request(&front, "GET", "/");
            for _ in 0..count {
                sent = sent.header("x", "x".repeat(length));
            }
            let answer = client.send_request(sent.body(full("")).unwrap()).await.unwrap();
            assert_eq!(answer.status(), 431, "{count} of {length}");
        }
    });
    assert!(upstream.seen().is_empty());
}

#[test]
fn a_stream_that_the_client_resets_is_given_up() {
    for way in WAYS {
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let upstream = Upstream::script(move |conn| {
            conn.head().unwrap();
            tell.send(()).unwrap();
            let _ = conn.rest();
        });
        let front = Front::new(way, &upstream);
        run(async {
            let mut client = connect(&front).await;
            tokio::select! {
                _ = client.send_request(request(&front, "GET", "/").body(full("")).unwrap()) => panic!("answered"),
                asked = told.recv() => asked.unwrap(),
            }
        });
        until("it is given up", || front.in_flight() == 0);
    }
}

#[test]
fn a_body_of_http_2_that_stops_is_given_up() {
    for way in WAYS {
        let upstream = Upstream::script(|conn| assert!(conn.request().is_none()));
        let front = Front::tuned(way, upstream.address(), |settings| {
            settings.timeouts.body_idle = Duration::from_millis(200);
        });
        run(async {
            let mut client = connect(&front).await;
            let body = Pieces { frames: vec![data("half")], ends: false }.boxed_unsync();
            let sent = request(&front, "POST", "/").body(body).unwrap();
            let answer = client.send_request(sent).await.unwrap();
            assert_eq!(answer.status(), 408, "{way:?}");
        });
        until("it is given up", || front.in_flight() == 0);
    }
}

#[test]
fn a_request_that_is_reset_midway_is_not_whole_for_the_service() {
    let reasons = [h2::Reason::CANCEL, h2::Reason::NO_ERROR];
    for (way, reason) in WAYS.into_iter().flat_map(|way| reasons.map(|reason| (way, reason))) {
        let upstream = Upstream::script(|conn| assert!(conn.request().is_none()));
        let front = Front::new(way, &upstream);
        run(async {
            let stream = TcpStream::connect(front.address).await.unwrap();
            let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
            tokio::task::spawn_local(connection);
            let sent = request(&front, "POST", "/").body(()).unwrap();
            let (answer, mut body) = client.send_request(sent, false).unwrap();
            body.send_data(Bytes::from_static(b"half"), false).unwrap();
            while upstream.connections() == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            body.send_reset(reason);
            assert!(answer.await.is_err());
        });
        until("it is given up", || front.in_flight() == 0);
    }
}

#[test]
fn an_answer_that_is_cut_is_not_whole_for_the_client() {
    for way in WAYS {
        for framing in ["Content-Length: 10\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"] {
            let upstream = Upstream::script(move |conn| {
                while conn.request().is_some_and(|request| !request.line.contains("/cut")) {
                    conn.send("HTTP/1.1 204 No Content\r\n\r\n");
                }
                conn.send(format!("HTTP/1.1 200 OK\r\n{framing}"));
            });
            let front = Front::new(way, &upstream);
            run(async {
                let mut client = connect(&front).await;
                let answer = client.send_request(request(&front, "GET", "/cut").body(full("")).unwrap());
                // It may be reset before its head is out.
                if let Ok(answer) = answer.await {
                    assert!(answer.into_body().collect().await.is_err(), "{way:?}: {framing}");
                }
                // The connection is none the worse for it.
                let answer = client.send_request(request(&front, "GET", "/").body(full("")).unwrap());
                assert_eq!(answer.await.unwrap().status(), 204, "{way:?}");
            });
            until("it is over", || front.in_flight() == 0);
        }
    }
}

/// A client that was asked, and says that it is there, is kept; one that says nothing is not.
#[test]
fn a_client_that_answers_no_ping_is_let_go() {
    let upstream = Upstream::fine();
    let front = Front::tuned(Way::Local, upstream.address(), |settings| {
        settings.timeouts.idle = Duration::from_millis(100);
        settings.timeouts.header = Duration::from_secs(2);
    });
    let mut client = std::net::TcpStream::connect(front.address).unwrap();
    client.set_read_timeout(Some(STUCK)).unwrap();
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let mut pings = 0;
    let mut head = [0; 9];
    while client.read_exact(&mut head).is_ok() {
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        client.read_exact(&mut payload).unwrap();
        if head[3] == 6 {
            pings += 1;
            if pings < 4 {
                client.write_all(&[0, 0, 8, 6, 1, 0, 0, 0, 0]).unwrap();
                client.write_all(&payload).unwrap();
            }
        }
    }
    assert_eq!(pings, 4);
}

/// Frames, the last one first; then the end, or nothing for ever.
struct Pieces {
    frames: Vec<Frame<Bytes>>,
    ends: bool,
}

fn data(text: &'static str) -> Frame<Bytes> {
    Frame::data(Bytes::from_static(text.as_bytes()))
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.frames.pop() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None if self.ends => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}
