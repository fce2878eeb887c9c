//! Bodies of both directions: streamed, bounded, with trailers, or turned into something else.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use mesh::upstream::{BoxError, Kind, Sent};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{AnyBody, OK, Wire, core, listen, request, service, text};

const PIECE: usize = 64 << 10;
/// More than any buffer of the kernel's.
const PIECES: usize = 1024;

static XS: [u8; PIECE] = [b'x'; PIECE];

/// A body that the test feeds.
struct Fed(UnboundedReceiver<Result<Frame<Bytes>, BoxError>>);

impl Body for Fed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.poll_recv(cx)
    }
}

fn fed() -> (UnboundedSender<Result<Frame<Bytes>, BoxError>>, Request<AnyBody>) {
    let (feed, body) = unbounded_channel();
    (feed, request("POST", "").map(|_| Fed(body).boxed_unsync()))
}

fn data(text: &'static str) -> Frame<Bytes> {
    Frame::data(Bytes::from_static(text.as_bytes()))
}

/// A long body that counts what was taken of it.
struct Long {
    left: usize,
    taken: Arc<AtomicUsize>,
}

impl Body for Long {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(left) = self.left.checked_sub(1) else { return Poll::Ready(None) };
        self.left = left;
        self.taken.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&XS)))))
    }
}

/// Lets everything run until this stops to grow.
async fn settled(count: impl Fn() -> usize) -> usize {
    let mut before = None;
    while before != Some(count()) {
        before = Some(count());
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
    }
    count()
}

#[test]
fn a_service_that_does_not_read_stops_the_request() {
    core(async {
        let (listener, port) = listen().await;
        let taken = Arc::new(AtomicUsize::new(0));
        let body = Long { left: PIECES, taken: Arc::clone(&taken) };
        let service = service(&[port]);
        let server = async {
            let mut wire = Wire::accept(&listener).await;
            wire.head().await;
            let count = settled(|| taken.load(Ordering::Relaxed)).await;
            assert!(count > 0 && count < PIECES / 2, "{count} pieces in memory");
            let mut buffer = vec![0; PIECE];
            // What a read ends with, however the end of the body is cut into reads.
            let mut tail = Vec::new();
            while !tail.ends_with(b"\r\n0\r\n\r\n") {
                let count = wire.0.read(&mut buffer).await.unwrap();
                assert_ne!(count, 0, "closed too early");
                tail.extend_from_slice(&buffer[..count]);
                tail.drain(..tail.len().saturating_sub(16));
            }
            wire.write(OK).await;
        };
        let client = async {
            let answer = service.send(request("PUT", "").map(|_| body.boxed_unsync())).await;
            assert_eq!(text(answer.unwrap()).await, "ok");
        };
        tokio::join!(server, client);
        assert_eq!(taken.load(Ordering::Relaxed), PIECES);
    });
}

#[test]
fn a_client_that_does_not_read_stops_the_answer() {
    core(async {
        let (listener, port) = listen().await;
        let written = Rc::new(Cell::new(0));
        let count = Rc::clone(&written);
        tokio::task::spawn_local(async move {
            let mut wire = Wire::accept(&listener).await;
            wire.head().await;
            wire.write(&format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", PIECE * PIECES)).await;
            for _ in 0..PIECES {
                wire.0.write_all(&XS).await.unwrap();
                count.set(count.get() + 1);
            }
        });
        let answer = service(&[port]).send(request("GET", "")).await.unwrap();
        let count = settled(|| written.get()).await;
        assert!(count > 0 && count < PIECES / 2, "{count} pieces in memory");
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), PIECE * PIECES);
    });
}

#[test]
fn an_early_answer_comes_through_and_its_connection_is_used_only_once_the_request_ended() {
    core(async {
        let (listener, port) = listen().await;
        let service = service(&[port]);
        let (feed, upload) = fed();
        feed.send(Ok(data("first"))).unwrap();
        let (answer, mut wire) = tokio::join!(service.send(upload), async {
            let mut wire = Wire::accept(&listener).await;
            wire.read_to("first\r\n").await;
            wire.write(OK).await;
            wire
        });
        assert_eq!(text(answer.unwrap()).await, "ok");
        // The upload goes on: another request does not wait for it.
        let (answer, mut other) = tokio::join!(service.send(request("GET", "")), async {
            let mut other = Wire::accept(&listener).await;
            other.head().await;
            other.write("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok").await;
            other
        });
        assert_eq!(text(answer.unwrap()).await, "ok");
        other.0.shutdown().await.unwrap();
        feed.send(Ok(data("last"))).unwrap();
        drop(feed);
        wire.read_to("last\r\n0\r\n\r\n").await;
        settled(|| 0).await;
        let (answer, ()) = tokio::join!(service.send(request("GET", "")), async {
            wire.head().await;
            wire.write(OK).await;
        });
        assert_eq!(text(answer.unwrap()).await, "ok");
    });
}

#[test]
fn a_request_whose_body_fails_may_have_been_executed() {
    core(async {
        let (listener, port) = listen().await;
        let (feed, upload) = fed();
        feed.send(Ok(data("first"))).unwrap();
        let service = service(&[port]);
        let (answer, ended) = tokio::join!(service.send(upload), async {
            let mut wire = Wire::accept(&listener).await;
            wire.read_to("first\r\n").await;
            feed.send(Err("the client is gone".into())).unwrap();
            wire.closed().await
        });
        let error = answer.unwrap_err();
        assert_eq!((error.sent, error.kind), (Sent::Maybe, Kind::Body), "{error:?}");
        assert!(ended, "the service sees a body without an end, never a shorter one");
    });
}

#[test]
fn what_is_not_http_is_said_to_be_so() {
    core(async {
        let (listener, port) = listen().await;
        let service = service(&[port]);
        let (answer, ()) = tokio::join!(service.send(request("GET", "")), async {
            let mut wire = Wire::accept(&listener).await;
            wire.head().await;
            wire.write("SSH-2.0-OpenSSH\r\n\r\n").await;
        });
        let error = answer.unwrap_err();
        assert_eq!((error.sent, error.kind), (Sent::Maybe, Kind::Protocol), "{error:?}");
    });
}

#[test]
fn an_answer_that_is_cut_short_is_an_error() {
    core(async {
        let (listener, port) = listen().await;
        let service = service(&[port]);
        let (answer, ()) = tokio::join!(service.send(request("GET", "")), async {
            let mut wire = Wire::accept(&listener).await;
            wire.head().await;
            wire.write("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nshort").await;
        });
        assert!(answer.unwrap().into_body().collect().await.is_err());
    });
}

#[test]
fn trailers_pass_both_ways() {
    core(async {
        let (listener, port) = listen().await;
        let service = service(&[port]);
        let (feed, mut upload) = fed();
        upload.headers_mut().insert("trailer", "x-sum".parse().unwrap());
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "up".parse().unwrap());
        feed.send(Ok(data("body"))).unwrap();
        feed.send(Ok(Frame::trailers(trailers))).unwrap();
        drop(feed);
        let (answer, wire) = tokio::join!(service.send(upload), async {
            let mut wire = Wire::accept(&listener).await;
            wire.read_to("4\r\nbody\r\n0\r\nx-sum: up\r\n\r\n").await;
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n";
            wire.write(&format!("{head}2\r\nok\r\n0\r\nx-sum: down\r\n\r\n")).await;
            wire
        });
        let body = answer.unwrap().into_body().collect().await.unwrap();
        assert_eq!(body.trailers().unwrap()["x-sum"], "down");
        let mut wire = wire;
        let (answer, ()) = tokio::join!(service.send(request("GET", "")), async {
            wire.head().await;
            wire.write(OK).await;
        });
        assert_eq!(text(answer.unwrap()).await, "ok");
    });
}

#[test]
fn an_upgraded_connection_is_a_pipe() {
    core(async {
        let (listener, port) = listen().await;
        tokio::task::spawn_local(async move {
            let mut wire = Wire::accept(&listener).await;
            wire.head().await;
            // The first bytes of the new protocol come with the head.
            wire.write("HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nhello").await;
            wire.read_to("ping").await;
            wire.write("pong").await;
        });
        let mut asked = request("GET", "");
        asked.headers_mut().insert("connection", "upgrade".parse().unwrap());
        asked.headers_mut().insert("upgrade", "echo".parse().unwrap());
        let answer = service(&[port]).send(asked).await.unwrap();
        assert_eq!(answer.status(), 101);
        let mut pipe = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
        let mut seen = [0; 5];
        pipe.read_exact(&mut seen).await.unwrap();
        assert_eq!(&seen, b"hello");
        pipe.write_all(b"ping").await.unwrap();
        let mut rest = String::new();
        pipe.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "pong");
    });
}
