//! TLS at the listener and to the service.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use mesh::upstream::{Target, client_tls};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned};

use crate::harness::{ANY_PORT, Bytes, Conn, Front, STUCK, Upstream, WAYS, Way};

/// A certificate for this machine: what a server uses, and a file that trusts it.
pub struct Certificate {
    pub server: Arc<ServerConfig>,
    pub trusted: tempfile::NamedTempFile,
}

pub fn certificate(protocols: &[&[u8]]) -> Certificate {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let mut trusted = tempfile::NamedTempFile::new().unwrap();
    trusted.write_all(certificate.pem().as_bytes()).unwrap();
    let mut server = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    server.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Certificate { server: Arc::new(server), trusted }
}

/// What a client uses that trusts it.
pub fn trusting(certificate: &Certificate, protocols: &[&[u8]]) -> Arc<ClientConfig> {
    let mut config = ClientConfig::clone(&client_tls(Some(certificate.trusted.path())).unwrap());
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Arc::new(config)
}

impl<C, D> Bytes for StreamOwned<C, TcpStream>
where
    C: std::ops::DerefMut<Target = rustls::ConnectionCommon<D>> + Send,
    D: rustls::SideData,
    StreamOwned<C, TcpStream>: Read + Write,
{
    fn end(&mut self) {
        self.conn.send_close_notify();
        let _ = self.flush();
    }
}

/// A client's connection with TLS.
pub fn connect(address: std::net::SocketAddr, config: &Arc<ClientConfig>) -> Conn {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(STUCK)).unwrap();
    let name = ServerName::from(address.ip());
    let session = ClientConnection::new(Arc::clone(config), name).unwrap();
    Conn::over(Box::new(StreamOwned::new(session, stream)))
}

#[test]
fn a_listener_with_tls_speaks_http_1() {
    let certificate = certificate(&[b"h2", b"http/1.1"]);
    let upstream = Upstream::fine();
    for way in WAYS {
        let front = Front::tuned(way, upstream.address(), |settings| {
            settings.services.get_mut("image").unwrap().tls = Some(Arc::clone(&certificate.server));
        });
        for protocols in [&[b"http/1.1".as_slice()][..], &[]] {
            let mut client = connect(front.address, &trusting(&certificate, protocols));
            for _ in 0..2 {
                client.send(front.head("POST /", "Transfer-Encoding: chunked\r\n") + "2\r\nhi\r\n0\r\n\r\n");
                assert_eq!(client.answer().text(), "fine", "{way:?}");
            }
            client.send(front.head("GET /", "Host: other\r\n"));
            assert_eq!(client.answer().status(), 400, "the guard is behind TLS as well");
        }
    }
}

#[test]
fn a_connection_with_tls_can_switch_protocols() {
    let certificate = certificate(&[b"h2", b"http/1.1"]);
    let upstream = Upstream::script(|conn| {
        conn.head().unwrap();
        conn.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
        assert_eq!(conn.exactly(9), b"early\r\n!!");
        conn.send("bye");
    });
    for way in WAYS {
        let front = Front::tuned(way, upstream.address(), |settings| {
            settings.services.get_mut("image").unwrap().tls = Some(Arc::clone(&certificate.server));
        });
        let mut client = connect(front.address, &trusting(&certificate, &[b"http/1.1"]));
        client.send(front.head("GET /", "Connection: upgrade\r\nUpgrade: x\r\n") + "early\r\n");
        assert_eq!(client.head().unwrap().status(), 101, "{way:?}");
        client.send("!!");
        assert_eq!(client.rest(), b"bye", "{way:?}");
    }
}

#[test]
fn a_client_that_does_not_shake_hands_is_closed() {
    let certificate = certificate(&[b"http/1.1"]);
    let upstream = Upstream::fine();
    let front = Front::tuned(Way::Local, upstream.address(), |settings| {
        settings.services.get_mut("image").unwrap().tls = Some(Arc::clone(&certificate.server));
        settings.timeouts.header = std::time::Duration::from_millis(100);
    });
    // One says nothing, the other does not speak TLS.
    front.connect().assert_closed();
    let mut client = front.connect();
    client.send(front.head("GET /", ""));
    assert!(!client.rest().starts_with(b"HTTP"));
}

/// A service with TLS, which answers one request for each connection.
fn secure_upstream(config: Arc<ServerConfig>) -> std::net::SocketAddr {
    let listener = TcpListener::bind(ANY_PORT).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let config = Arc::clone(&config);
            std::thread::spawn(move || {
                let session = ServerConnection::new(config).unwrap();
                let mut conn = Conn::over(Box::new(StreamOwned::new(session, stream.unwrap())));
                while let Some(request) = conn.request() {
                    let length = request.body.len();
                    conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{length:07}"));
                }
            });
        }
    });
    address
}

#[test]
fn a_service_with_tls_is_reached_and_must_be_the_one_it_says_it_is() {
    let certificate = certificate(&[b"http/1.1"]);
    let other = self::certificate(&[b"http/1.1"]);
    let address = secure_upstream(Arc::clone(&certificate.server));
    let target = |trusted: &Certificate| Target {
        host: address.ip().to_string(),
        port: address.port(),
        tls: Some(client_tls(Some(trusted.trusted.path())).unwrap()),
    };
    for way in WAYS {
        let front = Front::to(way, target(&certificate), |_| {});
        let body = vec![b'x'; 300_000];
        let answer = front.ask("POST /", "Content-Length: 300000\r\n", &body);
        assert_eq!(answer.text(), "0300000", "{way:?}");
        let front = Front::to(way, target(&other), |_| {});
        front.ask("GET /", "", b"").assert_problem(503, "unreachable");
    }
}
