//! Strangers, impostors and the expired: nothing is served to them, and nothing is sent to them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use common::{AnyBody, Site, authority, echo_head, get, pool, post, run, text, until};
use http::{Request, Response};
use hyper::body::Incoming;
use link::{Authority, Identity, Kind, Lane, Limits, Peer, Sent, Settings};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme, SupportedProtocolVersion, version};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

type Credentials = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// A client that trusts anyone: what it is refused, it is refused by the server.
struct Stranger {
    credentials: Option<Credentials>,
    version: &'static SupportedProtocolVersion,
    protocol: &'static [u8],
}

impl Stranger {
    fn with(credentials: Option<Credentials>) -> Stranger {
        Stranger { credentials, version: &version::TLS13, protocol: b"http/1.1" }
    }

    /// Everything that a server answers to a request.
    async fn asks(self, address: SocketAddr) -> String {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[self.version])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone));
        let mut config = match self.credentials {
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
            None => builder.with_no_client_auth(),
        };
        if !self.protocol.is_empty() {
            config.alpn_protocols = vec![self.protocol.to_vec()];
        }
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("service.test").unwrap();
        let Ok(mut stream) = TlsConnector::from(Arc::new(config)).connect(name, stream).await else {
            return String::new();
        };
        let request = b"GET / HTTP/1.1\r\nhost: service.test\r\nconnection: close\r\n\r\n";
        let _ = stream.write_all(request).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }
}

#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

fn credentials(identity: &Identity) -> Credentials {
    let dir = TempDir::new().unwrap();
    identity.save(dir.path()).unwrap();
    let chain = vec![CertificateDer::from_pem_file(dir.path().join("site.pem")).unwrap()];
    (chain, PrivateKeyDer::from_pem_file(dir.path().join("site-key.pem")).unwrap())
}

fn expired(authority: &Authority, site: &str) -> Identity {
    let (now, day) = (SystemTime::now(), Duration::from_hours(24));
    authority.issue_between(site, now - day * 2, now - day).unwrap()
}

/// A certificate of this very authority, with these names in it.
fn named(authority: &Authority, names: &[&str]) -> Credentials {
    let dir = TempDir::new().unwrap();
    authority.save(dir.path()).unwrap();
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let key = rcgen::KeyPair::from_pem(&read("ca-key.pem")).unwrap();
    let issuer = rcgen::Issuer::from_ca_cert_pem(&read("ca.pem"), key).unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["service.test".to_owned()]).unwrap();
    for name in names {
        params.subject_alt_names.push(rcgen::SanType::URI((*name).try_into().unwrap()));
    }
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    (vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
}

type Secret = std::future::Ready<Response<AnyBody>>;

/// A service that counts its calls.
fn counting() -> (Rc<Cell<usize>>, impl Fn(Request<Incoming>, Peer) -> Secret) {
    let calls = Rc::new(Cell::new(0));
    let count = Rc::clone(&calls);
    let service = move |_, _| {
        count.set(count.get() + 1);
        std::future::ready(Response::new(common::full("secret")))
    };
    (calls, service)
}

async fn refused(authority: &Authority, stranger: Stranger) {
    let (calls, service) = counting();
    let site = Site::start(&authority.issue("Site1").unwrap(), Limits::default(), service).await;
    assert_eq!(stranger.asks(site.address).await, "");
    assert_eq!(calls.get(), 0, "the service was called");
}

#[test]
fn a_site_of_the_same_authority_is_served() {
    run(async {
        let authority = authority();
        let (calls, service) = counting();
        let site = Site::start(&authority.issue("Site1").unwrap(), Limits::default(), service).await;
        let friend = Stranger::with(Some(credentials(&authority.issue("Site2").unwrap())));
        let answer = friend.asks(site.address).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("secret"), "{answer}");
        let friend = Stranger::with(Some(named(&authority, &["archipel://site/Site2"])));
        assert!(friend.asks(site.address).await.ends_with("secret"));
        assert_eq!(calls.get(), 2);
    });
}

#[test]
fn a_peer_without_a_certificate_gets_nothing() {
    run(async { refused(&authority(), Stranger::with(None)).await });
}

#[test]
fn a_peer_of_another_authority_gets_nothing() {
    run(async {
        let other = authority().issue("Site2").unwrap();
        refused(&authority(), Stranger::with(Some(credentials(&other)))).await;
    });
}

#[test]
fn a_peer_whose_certificate_expired_gets_nothing() {
    run(async {
        let authority = authority();
        let expired = credentials(&expired(&authority, "Site2"));
        refused(&authority, Stranger::with(Some(expired))).await;
    });
}

#[test]
fn a_peer_whose_certificate_names_no_site_or_two_gets_nothing() {
    run(async {
        let authority = authority();
        let two = ["archipel://site/Site2", "archipel://site/Site3"];
        for names in [&[][..], &["https://Site2"], &["archipel://site/"], &two] {
            refused(&authority, Stranger::with(Some(named(&authority, names)))).await;
        }
    });
}

#[test]
fn an_older_tls_gets_nothing() {
    run(async {
        let authority = authority();
        let mut old = Stranger::with(Some(credentials(&authority.issue("Site2").unwrap())));
        old.version = &version::TLS12;
        refused(&authority, old).await;
    });
}

#[test]
fn a_peer_that_agrees_on_no_protocol_gets_nothing() {
    run(async {
        let authority = authority();
        for protocol in [&b""[..], b"http/1.0"] {
            let mut vague = Stranger::with(Some(credentials(&authority.issue("Site2").unwrap())));
            vague.protocol = protocol;
            refused(&authority, vague).await;
        }
    });
}

#[test]
fn a_peer_that_never_finishes_its_handshake_is_closed() {
    run(async {
        let limits = Limits { handshake_timeout: Duration::from_millis(20), ..Limits::default() };
        let site = Site::start(&authority().issue("Site1").unwrap(), limits, echo_head).await;
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        assert_eq!(stream.read(&mut [0; 16]).await.unwrap(), 0);
    });
}

#[test]
fn handshakes_beyond_the_limit_are_closed_at_once() {
    run(async {
        let limits =
            Limits { handshakes: 1, handshake_timeout: Duration::from_hours(1), ..Limits::default() };
        let site = Site::start(&authority().issue("Site1").unwrap(), limits, echo_head).await;
        let _first = TcpStream::connect(site.address).await.unwrap();
        let mut second = TcpStream::connect(site.address).await.unwrap();
        assert_eq!(second.read(&mut [0; 16]).await.unwrap(), 0);
    });
}

/// Nothing is sent to a server that is not who was asked for.
async fn not_believed(ours: &Identity, theirs: &Identity, expect: &str) {
    let (calls, service) = counting();
    let site = Site::start(theirs, Limits::default(), service).await;
    for lane in [Lane::Small, Lane::Long] {
        let pool = pool(ours, Settings::default(), &[("Site 2", site.address)]);
        let error = pool.send("Site 2", post("/", common::full("secret")), lane).await.unwrap_err();
        assert_eq!((error.sent, error.kind), (Sent::No, Kind::Unreachable));
        let state = until(&pool, "Site 2", |state| state.last_error.is_some()).await;
        assert!(!state.connected);
        assert!(state.last_error.unwrap().contains(expect), "{:?}", pool.state("Site 2"));
    }
    assert_eq!(calls.get(), 0);
}

#[test]
fn a_server_of_the_right_authority_and_the_wrong_site_is_not_believed() {
    run(async {
        let authority = authority();
        let ours = authority.issue("Site1").unwrap();
        not_believed(&ours, &authority.issue("Site3").unwrap(), "the peer is site \"Site3\", not \"Site 2\"")
            .await;
        not_believed(&ours, &authority.issue("Site  2").unwrap(), "the peer is site").await;
        not_believed(&ours, &authority.issue("site 2").unwrap(), "the peer is site").await;
    });
}

#[test]
fn a_server_of_another_authority_is_not_believed() {
    run(async {
        let ours = authority().issue("Site1").unwrap();
        not_believed(&ours, &authority().issue("Site 2").unwrap(), "another authority").await;
    });
}

#[test]
fn a_server_whose_certificate_expired_is_not_believed() {
    run(async {
        let authority = authority();
        let ours = authority.issue("Site1").unwrap();
        not_believed(&ours, &expired(&authority, "Site 2"), "expired").await;
    });
}

/// The server looks at our certificate after our side of the handshake is done: that must not pass for
/// a connection.
#[test]
fn a_pool_that_is_refused_is_not_connected_and_sent_nothing() {
    run(async {
        // It believes the peer, which does not believe it.
        let (ours, theirs) = (authority(), authority());
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        ours.issue("Site1").unwrap().save(own.path()).unwrap();
        theirs.save(other.path()).unwrap();
        let bundle =
            [own.path(), other.path()].map(|dir| std::fs::read_to_string(dir.join("ca.pem")).unwrap());
        std::fs::write(own.path().join("ca.pem"), bundle.concat()).unwrap();
        let both = Identity::load(own.path()).unwrap();
        not_believed(&both, &theirs.issue("Site 2").unwrap(), "received fatal alert").await;
    });
}

/// No peer would believe it: none is asked.
#[test]
fn a_pool_whose_own_identity_expired_connects_to_nobody() {
    run(async {
        let authority = authority();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        for lane in [Lane::Small, Lane::Long] {
            let pool = pool(&expired(&authority, "Site1"), Settings::default(), &[("Site 2", address)]);
            let error = pool.send("Site 2", post("/", common::full("secret")), lane).await.unwrap_err();
            assert_eq!((error.sent, error.kind), (Sent::No, Kind::Closed));
            assert!(
                error.to_string().contains("the link is closed: this site's identity expired on"),
                "{error}"
            );
        }
        let listener = listener.into_std().unwrap();
        assert_eq!(
            listener.accept().unwrap_err().kind(),
            std::io::ErrorKind::WouldBlock,
            "somebody connected"
        );
    });
}

#[test]
fn names_with_spaces_reach_the_service_as_they_are() {
    run(async {
        let authority = authority();
        let site = Site::start(&authority.issue("DC 2").unwrap(), Limits::default(), echo_head).await;
        let ours = authority.issue("île & mer 1").unwrap();
        let pool = pool(&ours, Settings::default(), &[("DC 2", site.address)]);
        for lane in [Lane::Small, Lane::Long] {
            let answer = pool.send("DC 2", get("/a?b"), lane).await.unwrap();
            assert_eq!(text(answer).await, "île & mer 1 GET /a?b service.test");
        }
    });
}
