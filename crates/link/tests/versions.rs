//! Sites of several versions: those that have one in common use the newest, the others refuse each other and say why.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use common::{AnyBody, Site, authority, full, get, run, text, until};
use http::{Request, Response};
use hyper::body::Incoming;
use link::{
    Authority, ClientTls, Identity, Kind, Lane, Limits, Peer, Pool, Presented, Revoked, Sent, ServerTls,
    Settings, Since, Speaks,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;

const LANES: [Lane; 2] = [Lane::Small, Lane::Long];
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn speaks(oldest: u16, newest: u16) -> Speaks {
    Speaks::new(oldest, newest).unwrap()
}

fn server(identity: &Identity, speaks: Speaks) -> ServerTls {
    ServerTls::new(identity, &Revoked::default()).unwrap().speaking(speaks)
}

/// A pool of site A in these versions, to site B.
fn pool(authority: &Authority, speaks: Speaks, b: SocketAddr) -> Pool {
    let tls = ClientTls::new(&authority.issue("A").unwrap(), &Revoked::default()).unwrap();
    let soon = Duration::from_millis(20);
    let pool = Pool::new(
        tls.speaking(speaks),
        Settings { backoff_max: soon, backoff_min: soon / 2, ..Settings::default() },
    );
    pool.set_peers([("B".to_owned(), b.to_string())]);
    pool
}

async fn version(_: Request<Incoming>, peer: Peer) -> Response<AnyBody> {
    Response::new(full(peer.version.to_string()))
}

#[test]
fn two_sites_speak_the_newest_version_that_both_know() {
    run(async {
        let authority = authority();
        let b = authority.issue("B").unwrap();
        for (ours, theirs, common) in [
            ((2, 3), (2, 3), 3),
            ((2, 3), (1, 2), 2),
            ((1, 2), (2, 3), 2),
            // One that was made before there were versions names none.
            ((1, 1), (1, 2), 1),
            ((1, 2), (1, 1), 1),
        ] {
            let tls = Presented::new(server(&b, speaks(theirs.0, theirs.1)));
            let site = Site::present(ANY, tls, Limits::default(), version).await;
            let pool = pool(&authority, speaks(ours.0, ours.1), site.address);
            for lane in LANES {
                let answer = pool.send("B", get("/"), lane).await.unwrap();
                assert_eq!(text(answer).await, common.to_string(), "{ours:?} {theirs:?} {lane:?}");
            }
            let state = pool.state("B").unwrap();
            assert_eq!((state.version, state.misfit), (Some(common), None));
        }
    });
}

#[test]
fn sites_without_a_version_in_common_refuse_each_other_say_why_and_go_on_after_an_upgrade() {
    run(async {
        let authority = authority();
        let b = authority.issue("B").unwrap();
        let asked = Rc::new(Cell::new(0));
        let count = Rc::clone(&asked);
        let tls = Presented::new(server(&b, speaks(4, 5)));
        let site = Site::present(ANY, tls.clone(), Limits::default(), move |request, peer| {
            count.set(count.get() + 1);
            version(request, peer)
        })
        .await;
        let pool = pool(&authority, speaks(2, 3), site.address);
        for lane in LANES {
            let error = pool.send("B", get("/"), lane).await.unwrap_err();
            assert_eq!((error.kind, error.sent), (Kind::Unreachable, Sent::No), "{lane:?}");
        }
        let misfit = pool.state("B").unwrap().misfit.unwrap();
        let why = "it speaks versions 4 to 5 of the protocol between sites, and this site versions 2 to 3: upgrade this site";
        assert_eq!(misfit.to_string(), why);
        tls.replace(server(&b, speaks(1, 1)));
        let older =
            |state: &link::PeerState| state.misfit.is_some_and(|misfit| misfit.theirs == speaks(1, 1));
        let state = until(&pool, "B", older).await;
        assert!(state.last_error.unwrap().ends_with("and this site versions 2 to 3: upgrade that site"));
        assert_eq!(asked.get(), 0);

        tls.replace(server(&b, speaks(3, 4)));
        until(&pool, "B", |state| state.connected).await;
        for lane in LANES {
            assert_eq!(text(pool.send("B", get("/"), lane).await.unwrap()).await, "3");
        }
        assert_eq!(pool.state("B").unwrap().misfit, None);
    });
}

#[test]
fn a_site_from_before_there_were_versions_is_named_when_it_is_too_old() {
    run(async {
        let authority = authority();
        let dir = TempDir::new().unwrap();
        authority.issue("B").unwrap().save(dir.path()).unwrap();
        let chain = vec![CertificateDer::from_pem_file(dir.path().join("site.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(dir.path().join("site-key.pem")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let listener = TcpListener::bind(ANY).await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        spawn_local(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                assert!(acceptor.accept(stream).await.is_err());
            }
        });
        let pool = pool(&authority, speaks(2, 3), address);
        let state = until(&pool, "B", |state| state.failing).await;
        assert_eq!(state.misfit.unwrap().theirs, speaks(1, 1));
    });
}

#[test]
fn what_only_a_newer_version_understands_is_not_sent_in_an_older_one() {
    run(async {
        let authority = authority();
        let b = authority.issue("B").unwrap();
        let tls = Presented::new(server(&b, speaks(2, 3)));
        let site = Site::present(ANY, tls, Limits::default(), version).await;
        let new = |since| {
            let mut request = get("/");
            request.extensions_mut().insert(Since(since));
            request
        };
        let pool = pool(&authority, speaks(2, 4), site.address);
        for lane in LANES {
            assert_eq!(text(pool.send("B", new(3), lane).await.unwrap()).await, "3", "{lane:?}");
            let error = pool.send("B", new(4), lane).await.unwrap_err();
            assert_eq!((error.kind, error.sent), (Kind::Invalid, Sent::No), "{lane:?}");
        }
    });
}
