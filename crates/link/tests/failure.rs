//! Peers that are down, die or refuse: how fast that is known, and what it proves.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{AnyBody, Never, Site, authority, echo_head, empty, full, get, pool, post, run, text, until};
use http::Response;
use link::{Identity, Kind, Lane, Limits, Pool, SendError, Sent, Settings};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;

const LANES: [Lane; 2] = [Lane::Small, Lane::Long];

/// Once a peer has failed, nothing but the background tries it again, and that not during a test.
fn patient() -> Settings {
    let hour = Duration::from_hours(1);
    Settings { backoff_min: hour, backoff_max: hour, ..Settings::default() }
}

/// Tries again at once.
fn eager() -> Settings {
    let soon = Duration::from_millis(1);
    Settings { backoff_min: soon, backoff_max: soon, ..Settings::default() }
}

/// An address at which nobody listens.
async fn nowhere() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

async fn ask(pool: &Pool, lane: Lane) -> Result<String, SendError> {
    Ok(text(pool.send("Site2", post("/", full("x")), lane).await?).await)
}

#[test]
fn a_site_that_nobody_knows_is_not_sent_anything() {
    run(async {
        let pool = pool(&authority().issue("Site1").unwrap(), patient(), &[]);
        let error = ask(&pool, Lane::Small).await.unwrap_err();
        assert_eq!((error.sent, error.kind), (Sent::No, Kind::UnknownSite));
        assert!(pool.state("Site2").is_none());
    });
}

#[test]
fn a_request_that_cannot_be_carried_is_not_sent() {
    run(async {
        let pool = pool(&authority().issue("Site1").unwrap(), patient(), &[("Site2", nowhere().await)]);
        let tunnel = http::Request::connect("service.test:443").body(empty()).unwrap();
        let error = pool.send("Site2", tunnel, Lane::Small).await.unwrap_err();
        assert_eq!((error.sent, error.kind), (Sent::No, Kind::Invalid));
    });
}

#[test]
fn a_dead_peer_fails_at_once_and_provably_unsent() {
    run(async {
        let authority = authority();
        let address = nowhere().await;
        let pool = pool(&authority.issue("Site1").unwrap(), patient(), &[("Site2", address)]);
        for lane in [Lane::Small, Lane::Long, Lane::Small, Lane::Long] {
            let start = Instant::now();
            let error = ask(&pool, lane).await.unwrap_err();
            assert_eq!((error.sent, error.kind), (Sent::No, Kind::Unreachable), "{error}");
            assert!(start.elapsed() < Duration::from_secs(1));
        }
        // It is back, and still no request tries it: that is the background's task.
        let _site =
            Site::start_at(address, &authority.issue("Site2").unwrap(), Limits::default(), echo_head).await;
        for lane in LANES {
            assert_eq!(ask(&pool, lane).await.unwrap_err().sent, Sent::No);
        }
        let state = pool.state("Site2").unwrap();
        assert!(!state.connected && state.last_error.is_some());
        // Unless something says that it is back.
        pool.hurry("Site2");
        until(&pool, "Site2", |state| state.connected && state.last_error.is_none()).await;
        for lane in LANES {
            ask(&pool, lane).await.unwrap();
        }
    });
}

#[test]
fn a_peer_that_accepts_and_says_nothing_is_a_timeout_and_provably_unsent() {
    run(async {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let settings = Settings { handshake_timeout: Duration::from_millis(20), ..patient() };
        let address = silent.local_addr().unwrap();
        let pool = pool(&authority().issue("Site1").unwrap(), settings, &[("Site2", address)]);
        for lane in LANES {
            let error = ask(&pool, lane).await.unwrap_err();
            assert_eq!((error.sent, error.kind), (Sent::No, Kind::Timeout), "{error}");
        }
    });
}

#[test]
fn a_peer_that_dies_with_a_request_may_have_executed_it() {
    for lane in LANES {
        run(async move {
            let authority = authority();
            let arrived = Rc::new(Notify::new());
            let arrival = Rc::clone(&arrived);
            let service = move |_, _| {
                arrival.notify_one();
                std::future::pending::<Response<AnyBody>>()
            };
            let site = Site::start(&authority.issue("Site2").unwrap(), Limits::default(), service).await;
            let pool = pool(&authority.issue("Site1").unwrap(), patient(), &[("Site2", site.address)]);
            let asking = spawn_local({
                let pool = pool.clone();
                async move { ask(&pool, lane).await }
            });
            arrived.notified().await;
            site.kill().await;
            let error = asking.await.unwrap().unwrap_err();
            assert_eq!((error.sent, error.kind), (Sent::Maybe, Kind::Reset), "{error}");
        });
    }
}

/// Between a pool and a site, until it is frozen: then nothing passes, and nothing is closed.
async fn relay(to: SocketAddr, frozen: watch::Receiver<bool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    spawn_local(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let mut frozen = frozen.clone();
            spawn_local(async move {
                let mut far = TcpStream::connect(to).await.unwrap();
                tokio::select! {
                    _ = frozen.wait_for(|frozen| *frozen) => std::future::pending().await,
                    _ = copy_bidirectional(&mut near, &mut far) => {}
                }
            });
        }
    });
    address
}

#[test]
fn a_peer_that_falls_silent_is_noticed_and_then_fails_at_once() {
    run(async {
        let authority = authority();
        let arrived = Rc::new(Notify::new());
        let arrival = Rc::clone(&arrived);
        let service = move |_, _| {
            arrival.notify_one();
            std::future::pending::<Response<AnyBody>>()
        };
        let site = Site::start(&authority.issue("Site2").unwrap(), Limits::default(), service).await;
        let (freeze, frozen) = watch::channel(false);
        let address = relay(site.address, frozen).await;
        let tick = Duration::from_millis(50);
        // Nobody waits for the next handshake: it would take as long as it may.
        let handshake_timeout = Duration::from_hours(1);
        let settings = Settings { ping_interval: tick, ping_timeout: tick, handshake_timeout, ..patient() };
        let pool = pool(&authority.issue("Site1").unwrap(), settings, &[("Site2", address)]);
        let asking = spawn_local({
            let pool = pool.clone();
            async move { ask(&pool, Lane::Small).await }
        });
        arrived.notified().await;
        freeze.send_replace(true);
        let error = asking.await.unwrap().unwrap_err();
        assert_eq!((error.sent, error.kind), (Sent::Maybe, Kind::Timeout), "{error:?}");
        until(&pool, "Site2", |state| !state.connected).await;
        for lane in LANES {
            let error = ask(&pool, lane).await.unwrap_err();
            assert_eq!((error.sent, error.kind), (Sent::No, Kind::Timeout), "{error:?}");
        }
    });
}

#[test]
fn a_peer_that_restarts_is_found_again() {
    run(async {
        let authority = authority();
        let identity = authority.issue("Site2").unwrap();
        let mut site = Site::start(&identity, Limits::default(), echo_head).await;
        let pool = pool(&authority.issue("Site1").unwrap(), eager(), &[("Site2", site.address)]);
        for _ in 0..3 {
            for lane in LANES {
                ask(&pool, lane).await.unwrap();
            }
            let address = site.kill().await;
            until(&pool, "Site2", |state| !state.connected).await;
            assert_eq!(ask(&pool, Lane::Small).await.unwrap_err().sent, Sent::No);
            site = Site::start_at(address, &identity, Limits::default(), echo_head).await;
            until(&pool, "Site2", |state| state.connected).await;
        }
    });
}

#[test]
fn a_peer_that_moves_is_followed_and_one_that_leaves_finishes() {
    run(async {
        let authority = authority();
        let identity = authority.issue("Site2").unwrap();
        let (arrived, release) = (Rc::new(Notify::new()), Rc::new(Notify::new()));
        let (arrival, released) = (Rc::clone(&arrived), Rc::clone(&release));
        let slow = move |_, _| {
            arrival.notify_one();
            let released = Rc::clone(&released);
            async move {
                released.notified().await;
                Response::new(full("old"))
            }
        };
        let old = Site::start(&identity, Limits::default(), slow).await;
        let new = Site::start(&identity, Limits::default(), echo_head).await;
        let pool = pool(&authority.issue("Site1").unwrap(), patient(), &[("Site2", old.address)]);
        let asking = spawn_local({
            let pool = pool.clone();
            async move { ask(&pool, Lane::Small).await }
        });
        arrived.notified().await;
        pool.set_peers([("Site2".to_owned(), new.address.to_string())]);
        assert!(ask(&pool, Lane::Small).await.unwrap().starts_with("Site1 POST"));
        pool.set_peers([]);
        assert_eq!(ask(&pool, Lane::Small).await.unwrap_err().kind, Kind::UnknownSite);
        release.notify_one();
        assert_eq!(asking.await.unwrap().unwrap(), "old");
    });
}

#[test]
fn a_peer_that_leaves_while_a_request_waits_for_it_fails_that_request() {
    run(async {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = silent.local_addr().unwrap();
        let pool = pool(&authority().issue("Site1").unwrap(), patient(), &[("Site2", address)]);
        let asking = spawn_local({
            let pool = pool.clone();
            async move { ask(&pool, Lane::Small).await }
        });
        silent.accept().await.unwrap();
        pool.set_peers([]);
        assert_eq!(asking.await.unwrap().unwrap_err().sent, Sent::No);
    });
}

#[test]
fn a_request_whose_own_body_fails_may_have_been_executed() {
    for lane in LANES {
        run(async move {
            let authority = authority();
            let never = |_, _| std::future::pending::<Response<AnyBody>>();
            let site = Site::start(&authority.issue("Site2").unwrap(), Limits::default(), never).await;
            let pool = pool(&authority.issue("Site1").unwrap(), patient(), &[("Site2", site.address)]);
            let mut body = http_body_util::channel::Channel::<bytes::Bytes, link::BoxError>::new(1);
            body.0.send_data("half".into()).await.unwrap();
            let (sender, body) = body;
            sender.abort("the client went away".into());
            let error = pool.send("Site2", post("/", Box::pin(body)), lane).await.unwrap_err();
            assert_eq!((error.sent, error.kind), (Sent::Maybe, Kind::Body), "{lane:?}: {error:?}");
        });
    }
}

/// A frame of HTTP/2.
fn frame(kind: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, 0, 0, 0, 0, stream], payload].concat()
}

/// A peer that greets, waits for a request, answers with these bytes and hangs up.
async fn scripted(identity: &Identity, script: Vec<u8>) -> SocketAddr {
    let dir = TempDir::new().unwrap();
    identity.save(dir.path()).unwrap();
    let chain = vec![CertificateDer::from_pem_file(dir.path().join("site.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(dir.path().join("site-key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    spawn_local(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, script) = (acceptor.clone(), script.clone());
            spawn_local(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                stream.write_all(&frame(4, 0, &[])).await.unwrap();
                stream.read_exact(&mut [0; 24]).await.unwrap();
                loop {
                    let mut head = [0; 9];
                    if stream.read_exact(&mut head).await.is_err() {
                        return;
                    }
                    let length = usize::from(head[1]) * 256 + usize::from(head[2]);
                    stream.read_exact(&mut vec![0; length]).await.unwrap();
                    if head[3] == 1 {
                        break;
                    }
                }
                stream.write_all(&script).await.unwrap();
                stream.shutdown().await.unwrap();
            });
        }
    });
    address
}

async fn answered(script: Vec<u8>) -> SendError {
    let authority = authority();
    let address = scripted(&authority.issue("Site2").unwrap(), script).await;
    let settings = Settings { long_idle: 0, ..patient() };
    let pool = pool(&authority.issue("Site1").unwrap(), settings, &[("Site2", address)]);
    // The body never ends: nothing but the script decides.
    pool.send("Site2", post("/", Box::pin(Never { guard: None })), Lane::Small).await.unwrap_err()
}

const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;

fn goaway(last_stream: u8, reason: u8) -> Vec<u8> {
    frame(GOAWAY, 0, &[0, 0, 0, last_stream, 0, 0, 0, reason])
}

#[test]
fn a_refused_stream_was_not_executed() {
    run(async {
        let error = answered(frame(RST_STREAM, 1, &[0, 0, 0, 7])).await;
        assert_eq!((error.sent, error.kind), (Sent::No, Kind::Refused), "{error:?}");
    });
}

#[test]
fn a_stream_reset_for_another_reason_may_have_been_executed() {
    run(async {
        for reason in [0, 1, 2, 8, 11] {
            let error = answered(frame(RST_STREAM, 1, &[0, 0, 0, reason])).await;
            assert_eq!(error.sent, Sent::Maybe, "{reason}: {error:?}");
        }
    });
}

#[test]
fn a_stream_above_the_last_one_of_a_goaway_was_not_executed() {
    run(async {
        for reason in [0, 2] {
            let error = answered(goaway(0, reason)).await;
            assert_eq!((error.sent, error.kind), (Sent::No, Kind::Refused), "{error:?}");
        }
    });
}

#[test]
fn a_stream_below_the_last_one_of_a_goaway_may_have_been_executed() {
    run(async {
        for reason in [0, 2] {
            let error = answered(goaway(1, reason)).await;
            assert_eq!(error.sent, Sent::Maybe, "{error:?}");
        }
    });
}

#[test]
fn a_connection_that_breaks_proves_nothing() {
    run(async {
        // Nothing, half a frame, and a frame that breaks the protocol.
        for script in [vec![], vec![0, 0], frame(0, 0, b"x"), frame(RST_STREAM, 3, &[0, 0, 0, 7])] {
            let error = answered(script).await;
            assert_eq!(error.sent, Sent::Maybe, "{error:?}");
        }
    });
}

#[test]
fn what_fails_behind_the_service_is_never_told_as_refused() {
    run(async {
        let authority = authority();
        // A body whose error says that a further hop refused the stream.
        let service = |_, _| {
            let (sender, body) = http_body_util::channel::Channel::<bytes::Bytes, link::BoxError>::new(1);
            sender.abort(h2::Error::from(h2::Reason::REFUSED_STREAM).into());
            std::future::ready(Response::new(Box::pin(body) as AnyBody))
        };
        let site = Site::start(&authority.issue("Site2").unwrap(), Limits::default(), service).await;
        let pool = pool(&authority.issue("Site1").unwrap(), patient(), &[("Site2", site.address)]);
        match pool.send("Site2", get("/"), Lane::Small).await {
            Err(error) => assert_eq!(error.sent, Sent::Maybe),
            Ok(answer) => {
                let error = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap_err();
                assert!(!format!("{error:?}").contains("REFUSED"), "{error:?}");
            }
        }
    });
}
