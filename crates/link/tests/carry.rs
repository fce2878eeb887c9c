//! What is carried: bodies both ways, at the pace of their reader, on both lanes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use common::{AnyBody, Never, Site, authority, echo_head, empty, full, get, pool, post, run, text, until};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use link::{BoxError, Drain, Kind, Lane, Limits, Peer, Pool, Revoked, Sent, Server, ServerTls, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::{spawn_local, yield_now};

const MIB: u64 = 1 << 20;
const CHUNK: u64 = 64 << 10;
const LANES: [Lane; 2] = [Lane::Small, Lane::Long];

/// A long body that counts how much of it was asked for.
struct Long {
    left: u64,
    asked: Rc<Cell<u64>>,
}

impl Body for Long {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= CHUNK;
        self.asked.set(self.asked.get() + CHUNK);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![7; usize::try_from(CHUNK).unwrap()])))))
    }
}

fn long(asked: &Rc<Cell<u64>>) -> AnyBody {
    Box::pin(Long { left: 64 * MIB, asked: Rc::clone(asked) })
}

async fn two_sites<S, F>(settings: Settings, limits: Limits, service: S) -> (Site, Pool)
where
    S: Fn(Request<Incoming>, Peer) -> F + 'static,
    F: Future<Output = Response<AnyBody>> + 'static,
{
    let authority = authority();
    let site = Site::start(&authority.issue("Site2").unwrap(), limits, service).await;
    let pool = pool(&authority.issue("Site1").unwrap(), settings, &[("Site2", site.address)]);
    (site, pool)
}

/// Returns once nobody asks for more of a body.
async fn stalled(asked: &Cell<u64>) {
    let mut before = 0;
    while asked.get() == 0 || asked.get() != before {
        before = asked.get();
        for _ in 0..2000 {
            yield_now().await;
        }
    }
}

/// Reads all of a body that is already full of what its sender may send ahead, and gives its size and
/// how far ahead the sender ever was.
async fn read_slowly<B>(mut body: B, asked: &Cell<u64>) -> (u64, u64)
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Debug,
{
    stalled(asked).await;
    let (mut read, mut ahead) = (0, 0);
    while let Some(frame) = body.frame().await {
        ahead = ahead.max(asked.get() - read);
        read += frame.unwrap().data_ref().map_or(0, |data| data.len() as u64);
    }
    (read, ahead)
}

/// The window of a stream, and what hyper and TLS hold; on the long lane, what two sockets do.
fn bound(lane: Lane, window: u32) -> u64 {
    match lane {
        Lane::Small => u64::from(window) + 2 * MIB,
        Lane::Long => 24 * MIB,
    }
}

#[test]
fn a_long_answer_waits_for_its_reader() {
    for lane in LANES {
        run(async move {
            let asked = Rc::new(Cell::new(0));
            let count = Rc::clone(&asked);
            let service = move |_, _| std::future::ready(Response::new(long(&count)));
            let (_site, pool) = two_sites(Settings::default(), Limits::default(), service).await;
            let answer = pool.send("Site2", get("/"), lane).await.unwrap();
            let (read, ahead) = read_slowly(answer.into_body(), &asked).await;
            assert_eq!(read, 64 * MIB);
            let window = Settings::default().stream_window_bytes;
            assert!(ahead < bound(lane, window), "{lane:?}: {ahead} bytes ahead of the reader");
        });
    }
}

#[test]
fn a_long_request_waits_for_its_reader() {
    for lane in LANES {
        run(async move {
            let asked = Rc::new(Cell::new(0));
            let count = Rc::clone(&asked);
            let service = move |request: Request<Incoming>, _| {
                let count = Rc::clone(&count);
                async move {
                    let (read, ahead) = read_slowly(request.into_body(), &count).await;
                    let window = Limits::default().stream_window_bytes;
                    Response::new(full(format!("{read} {}", ahead < bound(lane, window))))
                }
            };
            let (_site, pool) = two_sites(Settings::default(), Limits::default(), service).await;
            let answer = pool.send("Site2", post("/", long(&asked)), lane).await.unwrap();
            assert_eq!(text(answer).await, format!("{} true", 64 * MIB), "{lane:?}");
        });
    }
}

#[test]
fn both_directions_stream_at_once() {
    for lane in LANES {
        run(async move {
            let service = |request: Request<Incoming>, _| {
                let body: AnyBody = Box::pin(request.into_body().map_err(Into::into));
                std::future::ready(Response::new(body))
            };
            let (_site, pool) = two_sites(Settings::default(), Limits::default(), service).await;
            let asked = Rc::default();
            let answer = pool.send("Site2", post("/", long(&asked)), lane).await.unwrap();
            let (read, ahead) = read_slowly(answer.into_body(), &asked).await;
            assert_eq!(read, 64 * MIB);
            // Two windows: to the peer and back.
            let windows = [Settings::default().stream_window_bytes, Limits::default().stream_window_bytes];
            let most: u64 = windows.into_iter().map(|window| bound(lane, window)).sum();
            assert!(ahead < most, "{lane:?}: {ahead}");
        });
    }
}

#[test]
fn answers_that_nobody_reads_hold_up_no_others() {
    run(async {
        let asked = Rc::new(Cell::new(0));
        let count = Rc::clone(&asked);
        let service = move |request: Request<Incoming>, _| {
            let body = if request.uri() == "/long" { long(&count) } else { full("short") };
            std::future::ready(Response::new(body))
        };
        let (_site, pool) =
            two_sites(Settings { warm: 1, ..Settings::default() }, Limits::default(), service).await;
        let mut unread = Vec::new();
        for _ in 0..8 {
            unread.push(pool.send("Site2", get("/long"), Lane::Small).await.unwrap());
        }
        stalled(&asked).await;
        assert_eq!(text(pool.send("Site2", get("/"), Lane::Small).await.unwrap()).await, "short");
    });
}

#[test]
fn connections_come_from_the_address_that_was_chosen() {
    run(async {
        let source = std::net::Ipv4Addr::new(127, 0, 0, 7).into();
        let service = |_, peer: Peer| std::future::ready(Response::new(full(peer.address.ip().to_string())));
        let settings = Settings { source: Some(source), ..Settings::default() };
        let (_site, pool) = two_sites(settings, Limits::default(), service).await;
        for lane in LANES {
            assert_eq!(text(pool.send("Site2", get("/"), lane).await.unwrap()).await, "127.0.0.7");
        }
    });
}

#[test]
fn trailers_arrive_in_both_directions() {
    run(async {
        let service = |request: Request<Incoming>, _| async {
            let sent = request.into_body().collect().await.unwrap();
            let trailers = sent.trailers().cloned().unwrap_or_default();
            let body: AnyBody = Box::pin(
                Full::new(sent.to_bytes()).with_trailers(async { Some(Ok(trailers)) }).map_err(Into::into),
            );
            Response::new(body)
        };
        let (_site, pool) = two_sites(Settings::default(), Limits::default(), service).await;
        let mut trailers = HeaderMap::new();
        trailers.insert("x-checksum", "42".parse().unwrap());
        let body = Full::new(Bytes::from("hello")).with_trailers(async { Some(Ok(trailers)) });
        let answer =
            pool.send("Site2", post("/", Box::pin(body.map_err(Into::into))), Lane::Small).await.unwrap();
        let answer = answer.into_body().collect().await.unwrap();
        assert_eq!(answer.trailers().unwrap().get("x-checksum").unwrap(), "42");
        assert_eq!(answer.to_bytes(), "hello");
    });
}

#[test]
fn many_requests_at_once_are_all_answered() {
    run(async {
        // Fewer streams than requests: the rest wait their turn.
        let limits = Limits { streams: 50, ..Limits::default() };
        let (_site, pool) = two_sites(Settings::default(), limits, echo_head).await;
        let tasks: Vec<_> = (0..1000)
            .map(|number| {
                let pool = pool.clone();
                spawn_local(async move {
                    let lane = if number % 20 == 0 { Lane::Long } else { Lane::Small };
                    let answer = pool.send("Site2", get(&format!("/{number}")), lane).await.unwrap();
                    assert_eq!(text(answer).await, format!("Site1 GET /{number} service.test"));
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        until(&pool, "Site2", |state| state.in_flight == 0).await;
        assert!(pool.state("Site2").unwrap().rtt.is_some());
    });
}

#[test]
fn requests_beyond_the_limit_are_not_sent() {
    run(async {
        let service = |_, _| std::future::ready(Response::new(Box::pin(Never { guard: None }) as AnyBody));
        let settings = Settings { in_flight: 3, long: 1, ..Settings::default() };
        let (_site, pool) = two_sites(settings, Limits::default(), service).await;
        let long = pool.send("Site2", get("/"), Lane::Long).await.unwrap();
        let error = pool.send("Site2", get("/"), Lane::Long).await.unwrap_err();
        assert_eq!((error.sent, error.kind), (Sent::No, Kind::TooMany));
        let small = pool.send("Site2", get("/"), Lane::Small).await.unwrap();
        let _other = pool.send("Site2", get("/"), Lane::Small).await.unwrap();
        let error = pool.send("Site2", get("/"), Lane::Small).await.unwrap_err();
        assert_eq!((error.sent, error.kind), (Sent::No, Kind::TooMany));
        // An answer that is dropped is out of flight.
        drop(small);
        drop(long);
        pool.send("Site2", get("/"), Lane::Small).await.unwrap();
        pool.send("Site2", get("/"), Lane::Long).await.unwrap();
    });
}

#[test]
fn long_requests_one_after_the_other_share_a_connection() {
    run(async {
        let ports = Rc::new(Cell::new(BTreeSet::new()));
        let seen = Rc::clone(&ports);
        let service = move |_, peer: Peer| {
            let mut ports = seen.take();
            ports.insert(peer.address.port());
            seen.set(ports);
            std::future::ready(Response::new(full("ok")))
        };
        let (_site, pool) = two_sites(Settings::default(), Limits::default(), service).await;
        for _ in 0..20 {
            text(pool.send("Site2", get("/"), Lane::Long).await.unwrap()).await;
            // The connection is put back by a task of its own.
            for _ in 0..50 {
                yield_now().await;
            }
        }
        let used = ports.take().len();
        assert!(used <= 3, "{used} connections for 20 requests");
    });
}

#[test]
fn headers_beyond_the_limit_do_not_reach_the_service() {
    for lane in LANES {
        run(async move {
            let limits = Limits { header_bytes: 8 << 10, ..Limits::default() };
            let (_site, pool) = two_sites(Settings::default(), limits, echo_head).await;
            let mut request = get("/");
            request.headers_mut().insert("x-big", "a".repeat(20 << 10).parse().unwrap());
            if let Ok(answer) = pool.send("Site2", request, lane).await {
                assert_eq!(answer.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "{lane:?}");
            }
            let answer = pool.send("Site2", get("/"), lane).await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
        });
    }
}

#[test]
fn a_connection_can_become_something_else_on_the_long_lane() {
    run(async {
        let service = |mut request: Request<Incoming>, _| async move {
            let upgrade = hyper::upgrade::on(&mut request);
            spawn_local(async move {
                let mut stream = TokioIo::new(upgrade.await.unwrap());
                let mut word = [0; 4];
                stream.read_exact(&mut word).await.unwrap();
                stream.write_all(&word).await.unwrap();
                stream.shutdown().await.unwrap();
            });
            let answer =
                Response::builder().status(101).header("upgrade", "echo").header("connection", "upgrade");
            answer.body(empty()).unwrap()
        };
        let (_site, pool) = two_sites(Settings::default(), Limits::default(), service).await;
        let mut request = get("/exec");
        request.headers_mut().insert("upgrade", "echo".parse().unwrap());
        request.headers_mut().insert("connection", "upgrade".parse().unwrap());
        let mut answer = pool.send("Site2", request, Lane::Long).await.unwrap();
        assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
        let mut stream = TokioIo::new(hyper::upgrade::on(&mut answer).await.unwrap());
        stream.write_all(b"ping").await.unwrap();
        let mut back = String::new();
        stream.read_to_string(&mut back).await.unwrap();
        assert_eq!(back, "ping");
    });
}

#[test]
fn what_is_put_around_a_stream_sees_the_long_lane_only() {
    run(async {
        let authority = authority();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_drain, draining) = Drain::new();
        let tls = ServerTls::new(&authority.issue("Site2").unwrap(), &Revoked::default()).unwrap();
        let wrapped = Rc::new(Cell::new(0));
        let count = Rc::clone(&wrapped);
        let server = Server::new(tls, Limits::default()).wrapping(move |stream, _| {
            count.set(count.get() + 1);
            tokio::io::BufStream::new(stream)
        });
        let _task = spawn_local(server.serve(listener, draining, echo_head));
        let settings = Settings { long_idle: 0, ..Settings::default() };
        let pool = pool(&authority.issue("Site1").unwrap(), settings, &[("Site2", address)]);
        text(pool.send("Site2", get("/"), Lane::Small).await.unwrap()).await;
        assert_eq!(wrapped.get(), 0);
        text(pool.send("Site2", get("/"), Lane::Long).await.unwrap()).await;
        assert_eq!(wrapped.get(), 1);
    });
}

/// Returns once nothing else holds it.
async fn let_go(guard: &Rc<()>) {
    while Rc::strong_count(guard) > 1 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[test]
fn a_request_that_is_dropped_is_cut_off_at_the_peer() {
    for lane in LANES {
        run(async move {
            let (guard, arrived) = (Rc::new(()), Rc::new(Notify::new()));
            let (held, arrival) = (Rc::clone(&guard), Rc::clone(&arrived));
            let service = move |request: Request<Incoming>, _| {
                let held = Rc::clone(&held);
                arrival.notify_one();
                async move {
                    let _ = request.into_body().collect().await;
                    std::future::pending::<()>().await;
                    drop(held);
                    Response::new(empty())
                }
            };
            let (site, pool) = two_sites(Settings::default(), Limits::default(), service).await;
            for body in [empty(), Box::pin(Never { guard: None })] {
                let baseline = Rc::strong_count(&guard);
                tokio::select! {
                    _ = pool.send("Site2", post("/", body), lane) => panic!("nobody answers this"),
                    () = arrived.notified() => {}
                }
                while Rc::strong_count(&guard) > baseline {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
            }
            assert_eq!(pool.state("Site2").unwrap().in_flight, 0);
            drop(site);
        });
    }
}

#[test]
fn an_answer_that_is_dropped_is_cut_off_at_both_ends() {
    for lane in LANES {
        run(async move {
            let theirs = Rc::new(());
            let held = Rc::clone(&theirs);
            let service = move |request: Request<Incoming>, _| {
                // The body of the request is kept, and not read to its end.
                let keep = (Rc::clone(&held), request.into_body());
                let guard = Some(Rc::clone(&keep.0));
                spawn_local(async move {
                    let (_guard, mut body) = keep;
                    while let Some(Ok(_)) = body.frame().await {}
                });
                std::future::ready(Response::new(Box::pin(Never { guard }) as AnyBody))
            };
            let (site, pool) = two_sites(Settings::default(), Limits::default(), service).await;
            let ours = Rc::new(());
            let body = Box::pin(Never { guard: Some(Rc::clone(&ours)) });
            let answer = pool.send("Site2", post("/", body), lane).await.unwrap();
            drop(answer);
            let_go(&ours).await;
            while Rc::strong_count(&theirs) > 2 {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            assert_eq!(pool.state("Site2").unwrap().in_flight, 0);
            drop(site);
        });
    }
}
