//! Services that speak TLS.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mesh::upstream::{Health, Kind, Sent, Settings, Target, Upstreams, client_tls};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::{OK, Service, core, listen, request, settings, text};

/// An authority in a file, and a server's certificate for `localhost` that it signed.
struct Authority {
    _dir: tempfile::TempDir,
    file: PathBuf,
    server: Arc<ServerConfig>,
}

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&key).unwrap();
    let issuer = Issuer::from_params(&params, &key);
    let server_key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&server_key, &issuer).unwrap();

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.pem");
    std::fs::write(&file, ca.pem()).unwrap();
    let key = PrivateKeyDer::try_from(server_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Authority { _dir: dir, file, server: Arc::new(server) }
}

/// Serves one connection, and checks what the client asked for.
fn serve(listener: TcpListener, config: Arc<ServerConfig>) {
    tokio::task::spawn_local(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let Ok(mut tls) = TlsAcceptor::from(config).accept(tcp).await else { return };
        assert_eq!(tls.get_ref().1.server_name(), Some("localhost"));
        assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(tls.read_u8().await.unwrap());
            }
            tls.write_all(OK.as_bytes()).await.unwrap();
            tls.flush().await.unwrap();
        }
    });
}

fn service(host: &str, port: u16, ca: &Authority) -> Service {
    let tls = Some(client_tls(Some(&ca.file)).unwrap());
    let target = Target { host: host.to_owned(), port, tls };
    Upstreams::new(vec![target], settings(), Arc::new(Health::new(1)))
}

#[test]
fn a_service_with_a_certificate_of_the_authority_is_asked_over_one_connection() {
    core(async {
        let (listener, port) = listen().await;
        let ca = authority();
        serve(listener, Arc::clone(&ca.server));
        let service = service("localhost", port, &ca);
        for _ in 0..3 {
            assert_eq!(text(service.send(request("GET", "")).await.unwrap()).await, "ok");
        }
    });
}

#[test]
fn a_service_that_cannot_prove_its_name_gets_no_byte_of_a_request() {
    core(async {
        for (host, trusted) in [("localhost", false), ("127.0.0.1", true)] {
            let (listener, port) = listen().await;
            let (ca, other) = (authority(), authority());
            serve(listener, Arc::clone(&ca.server));
            let service = service(host, port, if trusted { &ca } else { &other });
            let error = service.send(request("POST", "body")).await.unwrap_err();
            assert_eq!((error.sent, error.kind), (Sent::No, Kind::Unreachable), "{error:?}");
            assert!(error.source.to_string().contains("certificate"), "{}", error.source);
        }
    });
}

#[test]
fn a_handshake_that_takes_too_long_ends_with_nothing_sent() {
    core(async {
        let (_silent, port) = listen().await;
        let tls = Some(client_tls(Some(&authority().file)).unwrap());
        let target = Target { host: "127.0.0.1".to_owned(), port, tls };
        let settings = Settings { connect_timeout: Duration::from_millis(10), ..settings() };
        let service: Service = Upstreams::new(vec![target], settings, Arc::new(Health::new(1)));
        let error = service.send(request("POST", "body")).await.unwrap_err();
        assert_eq!((error.sent, error.kind), (Sent::No, Kind::Timeout), "{error:?}");
    });
}
