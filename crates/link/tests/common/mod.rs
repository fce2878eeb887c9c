//! Two sites on one thread: a server on a port of its own, a pool that knows it.
#![allow(dead_code, unreachable_pub, clippy::unused_async, reason = "each test file uses its own part")]

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use link::{
    Authority, BoxError, ClientTls, Drain, Identity, Limits, Peer, PeerState, Pool, Presented, Revoked,
    Server, ServerTls, Settings,
};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, LocalSet};

pub type AnyBody = Pin<Box<dyn Body<Data = Bytes, Error = BoxError>>>;

/// Runs a test on one thread. Nothing here takes seconds: a test that does is stuck.
pub fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limit = Duration::from_secs(20);
    LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(limit, test).await.expect("the test is stuck");
    });
}

pub fn authority() -> Authority {
    Authority::create("Test").unwrap()
}

pub fn pool(identity: &Identity, settings: Settings, peers: &[(&str, SocketAddr)]) -> Pool {
    pool_with(identity, &Revoked::default(), settings, peers)
}

pub fn pool_with(
    identity: &Identity,
    revoked: &Revoked,
    settings: Settings,
    peers: &[(&str, SocketAddr)],
) -> Pool {
    let pool = Pool::new(ClientTls::new(identity, revoked).unwrap(), settings);
    pool.set_peers(peers.iter().map(|(site, address)| ((*site).to_owned(), address.to_string())));
    pool
}

/// A server that runs until it is dropped.
pub struct Site {
    pub address: SocketAddr,
    pub drain: Drain,
    pub task: JoinHandle<()>,
}

impl Site {
    pub async fn start<S, F>(identity: &Identity, limits: Limits, service: S) -> Site
    where
        S: Fn(Request<Incoming>, Peer) -> F + 'static,
        F: Future<Output = Response<AnyBody>> + 'static,
    {
        Site::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), identity, limits, service).await
    }

    pub async fn start_at<S, F>(address: SocketAddr, identity: &Identity, limits: Limits, service: S) -> Site
    where
        S: Fn(Request<Incoming>, Peer) -> F + 'static,
        F: Future<Output = Response<AnyBody>> + 'static,
    {
        let tls = ServerTls::new(identity, &Revoked::default()).unwrap();
        Site::present(address, Presented::new(tls), limits, service).await
    }

    pub async fn present<S, F>(address: SocketAddr, presented: Presented, limits: Limits, service: S) -> Site
    where
        S: Fn(Request<Incoming>, Peer) -> F + 'static,
        F: Future<Output = Response<AnyBody>> + 'static,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (drain, draining) = Drain::new();
        let server = Server::new(presented, limits);
        let task = tokio::task::spawn_local(server.serve(listener, draining, service));
        Site { address, drain, task }
    }

    /// Cuts every connection, and returns when the port is free.
    pub async fn kill(mut self) -> SocketAddr {
        self.task.abort();
        let _ = (&mut self.task).await;
        self.address
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn empty() -> AnyBody {
    Box::pin(Empty::new().map_err(Into::into))
}

pub fn full(text: impl Into<Bytes>) -> AnyBody {
    Box::pin(Full::new(text.into()).map_err(Into::into))
}

pub fn get(target: &str) -> Request<AnyBody> {
    Request::get(target).header("host", "service.test").body(empty()).unwrap()
}

pub fn post(target: &str, body: AnyBody) -> Request<AnyBody> {
    Request::post(target).header("host", "service.test").body(body).unwrap()
}

/// Says who asked for what.
pub async fn echo_head(request: Request<Incoming>, peer: Peer) -> Response<AnyBody> {
    let host = request.headers().get("host").map_or("", |host| host.to_str().unwrap());
    Response::new(full(format!("{} {} {} {host}", peer.site, request.method(), request.uri())))
}

pub async fn text<B>(response: Response<B>) -> String
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Waits until the pool says so.
pub async fn until(pool: &Pool, site: &str, condition: impl Fn(&PeerState) -> bool) -> PeerState {
    loop {
        let state = pool.state(site).unwrap();
        if condition(&state) {
            return state;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A body that is never there.
pub struct Never {
    /// Dropped with it.
    pub guard: Option<Rc<()>>,
}

impl Body for Never {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Pending
    }
}
