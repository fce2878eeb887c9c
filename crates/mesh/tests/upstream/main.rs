//! Requests to the instances of a service, over real sockets.
//!
//! The servers are scripts over raw TCP, so that a test decides what is on the wire and when; what one
//! waits for is always an event, never a time.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod bodies;
mod never_twice;
mod pool;
mod targets;
mod tls;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use mesh::upstream::{BoxError, Health, PooledBody, Settings, Target, Upstreams};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(crate) type AnyBody = UnsyncBoxBody<Bytes, BoxError>;
pub(crate) type Service = Upstreams<AnyBody>;

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// One core. A test that hangs fails.
pub(crate) fn core<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limited = async { tokio::time::timeout(Duration::from_secs(20), test).await.expect("it hangs") };
    tokio::task::LocalSet::new().block_on(&runtime, limited);
}

pub(crate) fn settings() -> Settings {
    // Long: a loaded machine is no failure of the code.
    Settings {
        connect_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_mins(1),
        ..Settings::default()
    }
}

pub(crate) fn at(port: u16) -> Target {
    Target { host: "127.0.0.1".to_owned(), port, tls: None }
}

pub(crate) fn service(ports: &[u16]) -> Service {
    service_with(ports, settings())
}

pub(crate) fn service_with(ports: &[u16], settings: Settings) -> Service {
    let targets = ports.iter().copied().map(at).collect();
    Upstreams::new(targets, settings, Arc::new(Health::new(ports.len())))
}

pub(crate) async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A port where nothing listens.
pub(crate) async fn dead() -> u16 {
    listen().await.1
}

pub(crate) fn full(text: &'static str) -> AnyBody {
    Full::new(Bytes::from_static(text.as_bytes())).map_err(|never| match never {}).boxed_unsync()
}

pub(crate) fn request(method: &str, body: &'static str) -> Request<AnyBody> {
    Request::builder().method(method).uri("/x").header("host", "service").body(full(body)).unwrap()
}

pub(crate) async fn text(response: Response<PooledBody<AnyBody>>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The server's end of a connection.
pub(crate) struct Wire(pub(crate) TcpStream);

impl Wire {
    pub(crate) async fn accept(listener: &TcpListener) -> Wire {
        Wire(listener.accept().await.unwrap().0)
    }

    /// Reads up to and including `end`.
    pub(crate) async fn read_to(&mut self, end: &str) -> String {
        let mut seen = Vec::new();
        while !seen.ends_with(end.as_bytes()) {
            seen.push(self.0.read_u8().await.expect("closed too early"));
        }
        String::from_utf8(seen).unwrap()
    }

    /// Reads a head without a body.
    pub(crate) async fn head(&mut self) -> String {
        self.read_to("\r\n\r\n").await
    }

    pub(crate) async fn write(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Whether the other end closes, with nothing more said.
    pub(crate) async fn closed(mut self) -> bool {
        let mut rest = Vec::new();
        // A reset is also an end.
        let _ = self.0.read_to_end(&mut rest).await;
        rest.is_empty()
    }
}
