//! A box was stolen: once its identity is revoked nothing passes, also on connections that exist.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use common::{
    AnyBody, Never, Site, authority, echo_head, empty, full, get, pool_with, post, run, text, until,
};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use link::{Lane, Limits, Presented, Revoked, ServerTls, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::task::spawn_local;

const LANES: [Lane; 2] = [Lane::Small, Lane::Long];

fn here() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Tries again at once.
fn eager() -> Settings {
    let soon = Duration::from_millis(1);
    Settings { backoff_min: soon, backoff_max: soon, ..Settings::default() }
}

/// Tells of each request, and answers nothing.
fn never(
    arrived: &Rc<Notify>,
) -> impl Fn(Request<Incoming>, link::Peer) -> std::future::Pending<Response<AnyBody>> + use<> {
    let arrived = Rc::clone(arrived);
    move |_, _| {
        arrived.notify_one();
        std::future::pending()
    }
}

#[test]
fn requests_in_flight_to_and_from_a_revoked_site_fail_at_once() {
    for (lane, revoked_site) in LANES.into_iter().flat_map(|lane| [(lane, "Site1"), (lane, "Site2")]) {
        run(async move {
            let authority = authority();
            let (ours, theirs) = (Revoked::default(), Revoked::default());
            let arrived = Rc::new(Notify::new());
            let tls = ServerTls::new(&authority.issue("Site2").unwrap(), &theirs).unwrap();
            let site = Site::present(here(), Presented::new(tls), Limits::default(), never(&arrived)).await;
            let one = authority.issue("Site1").unwrap();
            let pool = pool_with(&one, &ours, eager(), &[("Site2", site.address)]);
            let asking = spawn_local({
                let pool = pool.clone();
                async move { pool.send("Site2", post("/", full("x")), lane).await }
            });
            arrived.notified().await;
            // Only the other side knows of it: each closes what it has.
            let revocation = authority.revoke(revoked_site, SystemTime::now()).unwrap();
            let knowing = if revoked_site == "Site1" { &theirs } else { &ours };
            assert!(knowing.add(revocation));
            assert!(asking.await.unwrap().is_err(), "{lane:?} {revoked_site}");
            let state = until(&pool, "Site2", |state| !state.connected && state.last_error.is_some()).await;
            assert!(!state.connected);
            for lane in LANES {
                assert!(pool.send("Site2", get("/"), lane).await.is_err());
            }
            // It is not let in later either, and says why.
            until(&pool, "Site2", |state| {
                state.last_error.as_ref().is_some_and(|error| error.to_lowercase().contains("revoked"))
            })
            .await;
        });
    }
}

#[test]
fn an_answer_that_is_being_read_breaks_off() {
    for lane in LANES {
        run(async move {
            let authority = authority();
            let revoked = Revoked::default();
            let guard = Rc::new(());
            let held = Rc::downgrade(&guard);
            let guard = Cell::new(Some(guard));
            let service = move |_, _| {
                let body: AnyBody = Box::pin(Never { guard: guard.take() });
                std::future::ready(Response::new(body))
            };
            let tls = ServerTls::new(&authority.issue("Site2").unwrap(), &revoked).unwrap();
            let site = Site::present(here(), Presented::new(tls), Limits::default(), service).await;
            let one = authority.issue("Site1").unwrap();
            let pool = pool_with(&one, &Revoked::default(), eager(), &[("Site2", site.address)]);
            let answer = pool.send("Site2", get("/"), lane).await.unwrap();
            revoked.add(authority.revoke("Site1", SystemTime::now()).unwrap());
            assert!(answer.into_body().collect().await.is_err());
            while held.strong_count() > 0 {
                tokio::task::yield_now().await;
            }
        });
    }
}

#[test]
fn a_connection_that_became_something_else_is_cut_too() {
    run(async {
        let authority = authority();
        let revoked = Revoked::default();
        let service = |mut request: Request<Incoming>, _| {
            let switch = hyper::upgrade::on(&mut request);
            spawn_local(async move {
                let mut stream = TokioIo::new(switch.await.unwrap());
                let mut byte = [0];
                while stream.read_exact(&mut byte).await.is_ok() {
                    stream.write_all(&byte).await.unwrap();
                }
            });
            let answer = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
            std::future::ready(
                answer.header("connection", "upgrade").header("upgrade", "echo").body(empty()).unwrap(),
            )
        };
        let tls = ServerTls::new(&authority.issue("Site2").unwrap(), &revoked).unwrap();
        let site = Site::present(here(), Presented::new(tls), Limits::default(), service).await;
        let one = authority.issue("Site1").unwrap();
        let pool = pool_with(&one, &Revoked::default(), eager(), &[("Site2", site.address)]);
        let request = Request::get("/").header("connection", "upgrade").header("upgrade", "echo");
        let mut answer = pool.send("Site2", request.body(empty()).unwrap(), Lane::Long).await.unwrap();
        let mut stream = TokioIo::new(hyper::upgrade::on(&mut answer).await.unwrap());
        stream.write_all(b"x").await.unwrap();
        stream.read_exact(&mut [0]).await.unwrap();
        revoked.add(authority.revoke("Site1", SystemTime::now()).unwrap());
        assert!(!matches!(stream.read(&mut [0]).await, Ok(1..)));
    });
}

#[test]
fn a_site_that_is_issued_again_is_back_and_others_never_noticed() {
    run(async {
        let authority = authority();
        let revoked = Revoked::default();
        let tls = ServerTls::new(&authority.issue("Site2").unwrap(), &revoked).unwrap();
        let site = Site::present(here(), Presented::new(tls), Limits::default(), echo_head).await;
        let peers = [("Site2", site.address)];
        let pool = |site: &str| pool_with(&authority.issue(site).unwrap(), &revoked, eager(), &peers);
        let (stolen, other) = (pool("Site1"), pool("Site3"));
        for pool in [&stolen, &other] {
            assert!(text(pool.send("Site2", get("/"), Lane::Small).await.unwrap()).await.contains("GET"));
        }
        revoked.add(authority.revoke("Site1", SystemTime::now()).unwrap());
        until(&stolen, "Site2", |state| !state.connected).await;
        assert!(other.state("Site2").unwrap().connected);
        let renewed = pool("Site1");
        for (pool, lane) in [&renewed, &other].into_iter().flat_map(|pool| LANES.map(|lane| (pool, lane))) {
            assert!(text(pool.send("Site2", get("/"), lane).await.unwrap()).await.contains("GET"));
        }
        assert!(stolen.send("Site2", get("/"), Lane::Small).await.is_err());
    });
}

#[test]
fn a_renewed_identity_is_shown_to_new_connections_and_the_old_ones_go_on() {
    run(async {
        let authority = authority();
        let old = authority.issue("Site2").unwrap();
        let presented = Presented::new(ServerTls::new(&old, &Revoked::default()).unwrap());
        let site = Site::present(here(), presented.clone(), Limits::default(), echo_head).await;
        let peers = [("Site2", site.address)];
        let one = authority.issue("Site1").unwrap();
        let before = pool_with(&one, &Revoked::default(), eager(), &peers);
        let ask = async |pool: &link::Pool| pool.send("Site2", get("/"), Lane::Small).await.map(drop);
        ask(&before).await.unwrap();
        let revocation = authority.revoke("Site2", SystemTime::now()).unwrap();
        presented.replace(ServerTls::new(&authority.issue("Site2").unwrap(), &Revoked::default()).unwrap());
        // This one believes the new identity only, and connects.
        let revoked = Revoked::default();
        revoked.add(revocation);
        ask(&pool_with(&one, &revoked, eager(), &peers)).await.unwrap();
        assert!(before.state("Site2").unwrap().connected);
        ask(&before).await.unwrap();
    });
}
