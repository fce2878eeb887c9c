//! What a client sees, whatever hyper is doing when the bad bytes come: whole answers in order, then the
//! refusal, then the end.

// A test may panic, and so may what helps it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice)]
#![allow(unreachable_pub)]

mod support;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use http1guard::{Guarded, Limits, Rule};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use support::server;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

const GOOD: &str = "GET /good HTTP/1.1\r\nHost: a\r\n\r\n";
const BAD: &str = "GET /bad HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n";
const UPGRADE: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";

#[tokio::test]
async fn a_bad_head_is_answered_with_a_problem_and_the_end() {
    let served = server::serve([BAD.as_bytes()]).await;
    let detail = Rule::TwoHosts.detail();
    let problem = format!(r#"{{"title":"Bad Request","status":400,"detail":"{detail}"}}"#);
    let expected = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{problem}",
        problem.len()
    );
    assert_eq!(served.answers, expected);
    assert!(served.readings.is_empty());
}

#[tokio::test]
async fn earlier_pipelined_requests_are_answered_first() {
    let bytes = [GOOD, GOOD, GOOD, BAD, GOOD].concat();
    let served = server::serve([bytes.as_bytes()]).await;
    assert_eq!(served.statuses(), [200, 200, 200, 400]);
    assert_eq!(served.readings.len(), 3);
}

#[tokio::test]
async fn a_long_target_and_a_large_head_have_statuses_of_their_own() {
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(9000));
    assert_eq!(server::serve([long.as_bytes()]).await.statuses(), [414]);
    let large = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(40_000));
    assert_eq!(server::serve([large.as_bytes()]).await.statuses(), [431]);
}

/// If hyper were stricter than the guard, it would answer in its own words.
#[tokio::test]
async fn hyper_takes_what_is_just_within_the_limits() {
    let limits = Limits::default();
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let head = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(limits.head_bytes - 32));
    assert_eq!(head.len(), limits.head_bytes);
    let line = "x".repeat(limits.request_line_bytes - 16);
    let chunk = format!("1;{}\r\nx\r\n", "e".repeat(252));
    let trailer = "x".repeat(limits.trailer_bytes - 6);
    for bytes in [
        head,
        format!("GET /{line} HTTP/1.1\r\nHost: a\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(limits.fields - 1)),
        format!("{chunked}{}0\r\n\r\n", chunk.repeat(limits.extension_bytes / 253)),
        format!("{chunked}0\r\nX:{trailer}\r\n\r\n"),
        format!("{chunked}0\r\n{}\r\n", "X: y\r\n".repeat(limits.fields)),
    ] {
        let served = server::serve([bytes.as_bytes(), GOOD.as_bytes()]).await;
        assert_eq!(served.statuses(), [200, 200], "{}", &bytes[..100.min(bytes.len())]);
    }
}

#[tokio::test]
async fn nothing_is_said_of_bad_bytes_after_the_client_asked_to_close() {
    let last = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let served = server::serve([last.as_bytes(), BAD.as_bytes()]).await;
    assert_eq!(served.statuses(), [200]);
}

/// A body that the test sends piece by piece.
struct Pieces(mpsc::Receiver<&'static str>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(Bytes::from(piece)))))
    }
}

/// The pipe is so narrow that hyper is always in the middle of a write.
#[tokio::test]
async fn a_response_in_progress_is_finished_before_the_refusal() {
    let (mut client, io) = duplex(16);
    let (pieces, receiver) = mpsc::channel(1);
    let receiver = Mutex::new(Some(receiver));
    let service = service_fn(|_: Request<Incoming>| {
        let body = Pieces(receiver.lock().unwrap().take().expect("one request only"));
        std::future::ready(Ok::<_, Infallible>(Response::new(body)))
    });
    let io = TokioIo::new(Guarded::new(io, Limits::default()));
    let connection = http1::Builder::new().serve_connection(io, service);
    let (mut reader, mut writer) = tokio::io::split(&mut client);
    let send = async {
        writer.write_all([GOOD, BAD].concat().as_bytes()).await.unwrap();
        for piece in ["one ", "two ", "three, which is longer than the pipe is wide"] {
            pieces.send(piece).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(pieces);
    };
    let mut answers = String::new();
    let (result, (), read) = tokio::join!(connection, send, reader.read_to_string(&mut answers));
    result.unwrap();
    read.unwrap();
    let (first, refusal) = answers.split_once("0\r\n\r\n").expect("the last chunk");
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n"), "{answers}");
    assert!(first.ends_with("2C\r\nthree, which is longer than the pipe is wide\r\n"), "{answers}");
    assert!(refusal.starts_with("HTTP/1.1 400 "), "{answers}");
}

/// Here hyper reads the end of the body, and then the bad head, with most of the response still unwritten in its
/// buffer: the one moment when it wants a head before it has flushed.
#[tokio::test]
async fn a_response_in_the_servers_buffer_is_flushed_before_the_refusal() {
    let (mut client, io) = duplex(64);
    let service = service_fn(|request: Request<Incoming>| {
        tokio::spawn(request.into_body().collect());
        std::future::ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("x".repeat(1000)))))
    });
    let io = TokioIo::new(Guarded::new(io, Limits::default()));
    let connection = http1::Builder::new().serve_connection(io, service);
    let talk = async {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        client.write_all("y".repeat(40).as_bytes()).await.unwrap();
        client.write_all(BAD.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        let mut answers = String::new();
        client.read_to_string(&mut answers).await.unwrap();
        server::Served { readings: Vec::new(), answers }
    };
    let (result, served) = tokio::join!(connection, talk);
    result.unwrap();
    assert_eq!(served.statuses(), [200, 400]);
}

#[tokio::test]
async fn a_bad_chunk_is_an_error_of_the_body_and_the_end() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let bytes = [GOOD, head, "5\r\nhello\r\n5 \r\nhello\r\n0\r\n\r\n", GOOD].concat();
    let served = server::serve([bytes.as_bytes()]).await;
    assert_eq!(served.statuses(), [200, 400]);
    assert!(served.answers.ends_with(Rule::ChunkSize.detail()));
    assert_eq!(served.readings.len(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_a_head_hears_nothing() {
    let served = server::serve([GOOD.as_bytes(), &BAD.as_bytes()[..20]]).await;
    assert_eq!(served.statuses(), [200]);
}

/// Over TCP: a socket that is closed with bytes unread resets the connection, and the answer is lost.
#[tokio::test]
async fn the_refusal_reaches_a_client_that_sent_more() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accept = async move {
        let (io, _) = listener.accept().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let io = TokioIo::new(Guarded::new(io, Limits::default()));
        let service = service_fn(|_: Request<Incoming>| {
            std::future::ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())))
        });
        http1::Builder::new().serve_connection(io, service).await.unwrap();
    };
    let client = async {
        let mut io = TcpStream::connect(address).await.unwrap();
        io.write_all([BAD, &"x".repeat(40_000)].concat().as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut answers = String::new();
        io.read_to_string(&mut answers).await.unwrap();
        server::Served { readings: Vec::new(), answers }
    };
    // In a task of its own: nothing but the guard wakes it.
    tokio::spawn(accept);
    let answered = tokio::time::timeout(Duration::from_secs(5), client).await.expect("the end");
    assert_eq!(answered.statuses(), [400]);
}

#[tokio::test]
async fn a_refused_upgrade_goes_on_as_http() {
    let bytes = [UPGRADE, GOOD, UPGRADE, BAD].concat();
    for size in [1, 10, 1000] {
        let served = server::serve(bytes.as_bytes().chunks(size)).await;
        assert_eq!(served.statuses(), [200, 200, 200, 400]);
        assert_eq!(served.readings.len(), 3);
    }
}

/// hyper drops the connection without a shutdown once it has refused an upgrade: what it has not flushed by then
/// is lost. The pipe takes the refusal only in many small writes.
#[tokio::test]
async fn a_refusal_after_a_refused_upgrade_is_whole_on_a_slow_connection() {
    let bytes = [UPGRADE, BAD].concat();
    let served = server::serve_over(16, [bytes.as_bytes()]).await;
    assert_eq!(served.statuses(), [200, 400]);
}

/// Answers 101, takes the connection out of hyper and of the guard, and sends back what comes.
async fn echo(mut request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, Infallible> {
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let parts = upgrade.await.unwrap().downcast::<TokioIo<Guarded<DuplexStream>>>().unwrap();
        assert!(parts.read_buf.is_empty() || parts.read_buf == "\r\n", "only the mark can be there");
        let (mut io, early) = parts.io.into_inner().into_opaque().unwrap();
        io.write_all(&early).await.unwrap();
        let (mut reader, mut writer) = tokio::io::split(io);
        tokio::io::copy(&mut reader, &mut writer).await.unwrap();
    });
    let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS).header("upgrade", "echo");
    Ok(response.body(Empty::new()).unwrap())
}

#[tokio::test]
async fn after_an_upgrade_bytes_pass_unread_also_those_sent_too_early() {
    for early in ["", "\0early\n"] {
        let (mut client, io) = duplex(1 << 16);
        let io = TokioIo::new(Guarded::new(io, Limits::default()));
        let connection = http1::Builder::new().serve_connection(io, service_fn(echo)).with_upgrades();
        let talk = async {
            client.write_all([UPGRADE, early].concat().as_bytes()).await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(client.read_u8().await.unwrap());
            }
            assert!(head.starts_with(b"HTTP/1.1 101 "));
            client.write_all(b"\r\n\xff\0late").await.unwrap();
            client.shutdown().await.unwrap();
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).await.unwrap();
            assert_eq!(rest, [early.as_bytes(), b"\r\n\xff\0late"].concat());
        };
        let (result, ()) = tokio::join!(connection, talk);
        result.unwrap();
    }
}

#[tokio::test]
async fn a_connection_that_asked_for_no_upgrade_stays_guarded() {
    let (mut client, io) = duplex(1 << 16);
    client.write_all(GOOD.as_bytes()).await.unwrap();
    let mut guarded = Guarded::new(io, Limits::default());
    let mut head = vec![0; GOOD.len()];
    guarded.read_exact(&mut head).await.unwrap();
    assert_eq!(head, GOOD.as_bytes());
    assert!(guarded.into_opaque().is_err());
}
