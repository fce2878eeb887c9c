//! The sending end: connections to peers, kept warm, so that no request waits for a handshake. With many
//! peers, those that are used have connections, and the others have nothing.
//!
//! A pool belongs to one core. Small requests share HTTP/2 connections; long ones have HTTP/1.1
//! connections of their own. A peer that is down fails at once: only the background tries again.

mod connect;
mod error;
mod exchange;
mod line;
mod long;
mod peer;
mod settings;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;

pub use error::{Kind, SendError, Sent};
pub use exchange::Received;
use exchange::{Exchange, Outgoing, Place};
use line::Streams;
use peer::Peer;
pub use peer::PeerState;
pub use settings::Settings;

use crate::interim::Ear;
use crate::speaks::Since;
use crate::tls::ClientTls;
use crate::{BoxError, wire};

/// Which kind of connection a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// HTTP/2, shared: half the cost of the other for small bodies.
    Small,
    /// HTTP/1.1, a connection to itself: for bodies that are long, or might be, and for upgrades.
    Long,
}

/// Connections of one core to every peer. Its tasks are spawned on the current `LocalSet`, and end with
/// the last copy of it.
#[derive(Clone)]
pub struct Pool(Rc<Shared>);

struct Shared {
    tls: ClientTls,
    settings: Rc<Settings>,
    peers: RefCell<BTreeMap<String, Rc<Peer>>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        for peer in self.peers.borrow().values() {
            peer.retire();
        }
    }
}

impl Pool {
    /// A pool without peers.
    #[must_use]
    pub fn new(tls: ClientTls, settings: Settings) -> Pool {
        Pool(Rc::new(Shared { tls, settings: Rc::new(settings), peers: RefCell::default() }))
    }

    /// The sites that can be reached, each with its `host:port`. One that is already there with the same
    /// address keeps its connections; one that is missing loses them, once its requests in flight are
    /// answered. Up to [`Settings::warm_peers`] are connected to at once, and more than that on demand.
    pub fn set_peers(&self, peers: impl IntoIterator<Item = (String, String)>) {
        let mut before = self.0.peers.take();
        let mut now = BTreeMap::new();
        for (site, address) in peers {
            let peer = match before.remove(&site) {
                Some(peer) if peer.address == address => peer,
                other => {
                    if let Some(moved) = other {
                        moved.retire();
                    }
                    Peer::new(&site, address, &self.0.tls, &self.0.settings)
                }
            };
            now.insert(site, peer);
        }
        for gone in before.values() {
            gone.retire();
        }
        let on_demand = now.len() > self.0.settings.warm_peers;
        for peer in now.values() {
            peer.keep_connected(on_demand);
        }
        self.0.peers.replace(now);
    }

    /// Sends a request to a site and waits for the head of its answer.
    ///
    /// The request has a path and, if it names one, a `Host` header; with [`Since`] among its extensions it is sent in that
    /// version or a later one only. There is no time limit but the
    /// caller's: dropping the future, or the answer's body before its end, resets the stream.
    pub async fn send<B>(
        &self,
        site: &str,
        request: Request<B>,
        lane: Lane,
    ) -> Result<Response<Received>, SendError>
    where
        B: Body<Data = Bytes> + 'static,
        B::Error: Into<BoxError>,
    {
        self.send_heard(site, request, lane, None).await
    }

    /// The same, and tells an ear of the interim answers that come before the answer; of a `100` on the long lane only.
    pub async fn send_heard<B>(
        &self,
        site: &str,
        request: Request<B>,
        lane: Lane,
        ear: Option<Ear>,
    ) -> Result<Response<Received>, SendError>
    where
        B: Body<Data = Bytes> + 'static,
        B::Error: Into<BoxError>,
    {
        let peer = self.peer(site).ok_or_else(|| SendError::unsent(Kind::UnknownSite, site))?;
        let place = Place::take(&peer.in_flight, peer.settings.in_flight)
            .ok_or_else(|| SendError::unsent(Kind::TooMany, site))?;
        let exchange = Rc::new(Exchange::default());
        exchange.hold(place);
        let (mut head, body) = request.into_parts();
        match lane {
            Lane::Small => wire::to_http2(&mut head),
            Lane::Long => wire::to_http1(&mut head),
        }
        .map_err(|why| SendError::unsent(Kind::Invalid, site).because(why))?;
        let request = Request::from_parts(head, Outgoing::new(body, &exchange));
        match lane {
            Lane::Small => send_small(&peer, request, exchange, ear.as_ref()).await,
            // Boxed: small requests, which are most, keep no room for it.
            Lane::Long => Box::pin(long::send(&peer, request, exchange, ear)).await,
        }
    }

    /// What is known of a peer.
    #[must_use]
    pub fn state(&self, site: &str) -> Option<PeerState> {
        self.peer(site).map(|peer| peer.state())
    }

    /// Something else says that a peer is back, or gone: if it waits to be tried again, it is tried now; if it
    /// is connected, it is asked now whether it is there.
    pub fn hurry(&self, site: &str) {
        if let Some(peer) = self.peer(site) {
            peer.hurry();
        }
    }

    fn peer(&self, site: &str) -> Option<Rc<Peer>> {
        self.0.peers.borrow().get(site).cloned()
    }
}

/// What a version before the one that a request needs would not understand never leaves: which connection it takes is not
/// known before.
fn understood(peer: &Peer, request: &Request<Outgoing>, version: u16) -> Result<(), SendError> {
    match request.extensions().get() {
        Some(Since(since)) if *since > version => {
            let why = format!(
                "it needs version {since} of the protocol between sites, and is spoken to in {version}"
            );
            Err(SendError::unsent(Kind::Invalid, &peer.site).because(why))
        }
        _ => Ok(()),
    }
}

async fn send_small(
    peer: &Rc<Peer>,
    mut request: Request<Outgoing>,
    exchange: Rc<Exchange>,
    ear: Option<&Ear>,
) -> Result<Response<Received>, SendError> {
    loop {
        let Streams { mut sender, version, count, ears } = peer.line().await?;
        understood(peer, &request, version)?;
        let stream = Place::take(&count, usize::MAX);
        let heard = ear.map(|ear| ears.listen(ear));
        if let Some(heard) = &heard {
            wire::to_heard(request.headers_mut(), heard.number());
        }
        let mut error = match sender.try_send_request(request).await {
            Ok(response) => {
                if let Some(stream) = stream {
                    exchange.hold(stream);
                }
                return Ok(response.map(|body| Received::new(body, exchange)));
            }
            Err(error) => error,
        };
        let Some(unsent) = error.take_message() else {
            let failed = exchange.body_failed();
            return Err(SendError::after_dispatch(error.into_error(), &peer.site, failed));
        };
        // Handed back, so not a byte of it was written, and that connection is closed: each turn of this
        // loop uses one up.
        request = unsent;
    }
}
