//! Many peers, of which few are used; and peers that stop to answer.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use common::{AnyBody, Site, authority, echo_head, full, get, pool, run, text, until};
use http::{Request, Response};
use hyper::body::Incoming;
use link::{Kind, Lane, Limits, Peer, Sent, Settings};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::spawn_local;

const LANES: [Lane; 2] = [Lane::Small, Lane::Long];
const TICK: Duration = Duration::from_millis(20);

/// Between a pool and a site: counts the connections, and carries nothing while it is frozen.
struct Relay {
    address: SocketAddr,
    accepted: Rc<Cell<usize>>,
    frozen: watch::Sender<bool>,
}

impl Relay {
    async fn to(to: SocketAddr) -> Relay {
        Relay::far(to, Duration::ZERO).await
    }

    /// Accepts at once, and keeps all that passes back for so long.
    async fn far(to: SocketAddr, delay: Duration) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (frozen, freezing) = watch::channel(false);
        let accepted = Rc::new(Cell::new(0));
        let count = Rc::clone(&accepted);
        spawn_local(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                count.set(count.get() + 1);
                let (near_in, near_out) = near.into_split();
                let (far_in, far_out) = TcpStream::connect(to).await.unwrap().into_split();
                spawn_local(carry(near_in, far_out, freezing.clone(), delay));
                spawn_local(carry(far_in, near_out, freezing.clone(), delay));
            }
        });
        Relay { address, accepted, frozen }
    }
}

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut freezing: watch::Receiver<bool>,
    delay: Duration,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        tokio::time::sleep(delay).await;
        if freezing.wait_for(|frozen| !frozen).await.is_err()
            || to.write_all(&buffer[..length]).await.is_err()
        {
            return;
        }
    }
}

/// Every peer on demand, and for a moment only.
fn on_demand() -> Settings {
    Settings { warm_peers: 0, warm_timeout: TICK, probe_interval: TICK, ..Settings::default() }
}

#[test]
fn of_ten_thousand_peers_only_those_that_are_used_have_connections() {
    run(async {
        let authority = authority();
        let site = Site::start(&authority.issue("Site7").unwrap(), Limits::default(), echo_head).await;
        let (used, others) = (Relay::to(site.address).await, Relay::to(site.address).await);
        let settings = Settings { warm_timeout: Duration::from_hours(1), ..Settings::default() };
        let pool = pool(&authority.issue("Site1").unwrap(), settings, &[]);
        let address = |number| if number == 7 { used.address } else { others.address };
        let peers = || (0..10_000).map(|number| (format!("Site{number}"), address(number).to_string()));
        pool.set_peers(peers());
        let cold = pool.state("Site7").unwrap();
        assert!(!cold.connected && !cold.failing && cold.usable() && cold.last_error.is_none());
        for lane in LANES {
            let answer = pool.send("Site7", get("/"), lane).await.unwrap();
            assert_eq!(text(answer).await, "Site1 GET / service.test");
        }
        until(&pool, "Site7", |state| state.connected).await;
        // Being told again changes nothing.
        let before = used.accepted.get();
        pool.set_peers(peers());
        text(pool.send("Site7", get("/"), Lane::Small).await.unwrap()).await;
        assert!(pool.state("Site7").unwrap().connected);
        assert!(used.accepted.get() <= before.max(4), "{} {before}", used.accepted.get());
        assert_eq!(others.accepted.get(), 0);
        assert!(pool.state("Site8").unwrap().usable());
        // With few peers, they are connected to without a request.
        pool.set_peers(peers().take(8).skip(7));
        assert!(!pool.state("Site7").unwrap().on_demand);
    });
}

#[test]
fn a_peer_that_nobody_uses_any_more_loses_its_connections_and_gets_them_again() {
    run(async {
        let authority = authority();
        let site = Site::start(&authority.issue("Site2").unwrap(), Limits::default(), echo_head).await;
        let pool = pool(&authority.issue("Site1").unwrap(), on_demand(), &[("Site2", site.address)]);
        for lane in LANES {
            text(pool.send("Site2", get("/"), lane).await.unwrap()).await;
            let state = until(&pool, "Site2", |state| !state.connected).await;
            assert!(!state.failing && state.last_error.is_none(), "{state:?}");
        }
    });
}

#[test]
fn a_request_in_flight_is_a_use() {
    run(async {
        let authority = authority();
        let (release, released) = watch::channel(false);
        let service = move |_: Request<Incoming>, _: Peer| {
            let mut released = released.clone();
            async move {
                released.wait_for(|released| *released).await.unwrap();
                Response::<AnyBody>::new(full("late"))
            }
        };
        let site = Site::start(&authority.issue("Site2").unwrap(), Limits::default(), service).await;
        let pool = pool(&authority.issue("Site1").unwrap(), on_demand(), &[("Site2", site.address)]);
        let asking = spawn_local({
            let pool = pool.clone();
            async move { text(pool.send("Site2", get("/"), Lane::Small).await.unwrap()).await }
        });
        until(&pool, "Site2", |state| state.connected).await;
        for _ in 0..5 {
            tokio::time::sleep(TICK).await;
            assert!(pool.state("Site2").unwrap().connected);
        }
        release.send_replace(true);
        assert_eq!(asking.await.unwrap(), "late");
    });
}

#[test]
fn a_peer_on_demand_that_is_down_fails_at_once_after_the_first_attempt() {
    run(async {
        let nowhere = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let hour = Duration::from_hours(1);
        let settings =
            Settings { warm_peers: 0, backoff_min: hour, backoff_max: hour, ..Settings::default() };
        let authority = authority();
        let pool = pool(&authority.issue("Site1").unwrap(), settings, &[("Site2", nowhere)]);
        for lane in [LANES, LANES].concat() {
            let error = pool.send("Site2", get("/"), lane).await.unwrap_err();
            assert_eq!((error.sent, error.kind), (Sent::No, Kind::Unreachable));
            assert!(!pool.state("Site2").unwrap().usable());
        }
        let _site =
            Site::start_at(nowhere, &authority.issue("Site2").unwrap(), Limits::default(), echo_head).await;
        pool.hurry("Site2");
        until(&pool, "Site2", |state| state.connected && !state.failing).await;
        text(pool.send("Site2", get("/"), Lane::Small).await.unwrap()).await;
    });
}

#[test]
fn a_peer_that_holds_its_connections_and_does_not_answer_is_left_out_until_it_does() {
    run(async {
        let authority = authority();
        let site = Site::start(&authority.issue("Site2").unwrap(), Limits::default(), echo_head).await;
        let relay = Relay::to(site.address).await;
        let settings =
            Settings { probe_interval: TICK, probe_timeout: TICK * 5, long_idle: 0, ..Settings::default() };
        let pool = pool(&authority.issue("Site1").unwrap(), settings, &[("Site2", relay.address)]);
        for _ in 0..2 {
            until(&pool, "Site2", |state| state.connected).await;
            text(pool.send("Site2", get("/"), Lane::Small).await.unwrap()).await;
            let connections = relay.accepted.get();
            relay.frozen.send_replace(true);
            let state = until(&pool, "Site2", |state| !state.connected).await;
            assert!(state.last_error.unwrap().contains("does not answer"));
            for lane in LANES {
                let error = pool.send("Site2", get("/"), lane).await.unwrap_err();
                assert_eq!((error.sent, error.kind), (Sent::No, Kind::Timeout), "{error:?}");
            }
            relay.frozen.send_replace(false);
            let state = until(&pool, "Site2", |state| state.connected).await;
            assert!(!state.failing);
            until(&pool, "Site2", |state| state.last_error.is_none()).await;
            assert_eq!(relay.accepted.get(), connections, "it is the same connections that answer again");
        }
    });
}

#[test]
fn a_peer_that_is_said_to_be_gone_is_asked_now_and_not_at_the_next_probe() {
    run(async {
        let authority = authority();
        let site = Site::start(&authority.issue("Site2").unwrap(), Limits::default(), echo_head).await;
        let relay = Relay::to(site.address).await;
        // Left alone, it would be found out after this test.
        let hour = Duration::from_hours(1);
        let settings = Settings {
            probe_interval: hour,
            probe_timeout: TICK * 5,
            ping_interval: hour,
            ..Settings::default()
        };
        let pool = pool(&authority.issue("Site1").unwrap(), settings, &[("Site2", relay.address)]);
        until(&pool, "Site2", |state| state.connected).await;
        relay.frozen.send_replace(true);
        until(&pool, "Site2", |state| {
            pool.hurry("Site2");
            !state.connected && state.failing
        })
        .await;
        relay.frozen.send_replace(false);
        until(&pool, "Site2", |state| state.connected).await;
    });
}

#[test]
fn a_service_sees_no_probe_and_no_request_passes_for_one() {
    run(async {
        let authority = authority();
        let paths = Rc::new(Cell::new(0));
        let count = Rc::clone(&paths);
        let service = move |request: Request<Incoming>, _: Peer| {
            count.set(count.get() + 1);
            let seen = request.headers().contains_key("archipel-link-probe");
            std::future::ready(Response::new(full(seen.to_string())))
        };
        let site = Site::start(&authority.issue("Site2").unwrap(), Limits::default(), service).await;
        let settings = Settings { probe_interval: Duration::from_millis(1), ..Settings::default() };
        let pool = pool(&authority.issue("Site1").unwrap(), settings, &[("Site2", site.address)]);
        let forged = |_| {
            let mut request = get("/");
            request.headers_mut().insert("archipel-link-probe", "1".parse().unwrap());
            request
        };
        for (number, lane) in LANES.into_iter().enumerate() {
            tokio::time::sleep(TICK).await;
            assert_eq!(text(pool.send("Site2", forged(lane), lane).await.unwrap()).await, "false");
            assert_eq!(paths.get(), number + 1);
        }
        assert!(pool.state("Site2").unwrap().rtt.is_some());
    });
}

#[test]
fn the_round_trip_is_that_to_the_peer_not_to_what_accepts_for_it() {
    run(async {
        let authority = authority();
        let site = Site::start(&authority.issue("Site2").unwrap(), Limits::default(), echo_head).await;
        let relay = Relay::far(site.address, TICK).await;
        let identity = authority.issue("Site1").unwrap();
        let pool = pool(&identity, Settings::default(), &[("Site2", relay.address)]);
        until(&pool, "Site2", |state| state.connected).await;
        let rtt = pool.state("Site2").unwrap().rtt.unwrap();
        assert!(rtt >= 2 * TICK, "{rtt:?}");
    });
}
