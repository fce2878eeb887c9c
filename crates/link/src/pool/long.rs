//! The long lane: HTTP/1.1, a connection for each request, so that nothing waits behind a long body.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use http::{Request, Response};
use tokio::task::spawn_local;
use tokio::time::Instant;

use super::connect::{self, Long};
use super::error::{Kind, SendError};
use super::exchange::{Exchange, Outgoing, Place, Received};
use super::peer::Peer;
use crate::interim::Ear;

/// Connections without a request.
#[derive(Default)]
pub(super) struct Spares {
    idle: RefCell<VecDeque<(Long, Instant)>>,
    busy: Rc<Cell<usize>>,
    refilling: Cell<bool>,
    closed: Cell<bool>,
}

impl Spares {
    /// The one that was used last: the others may so grow old and go.
    fn take(&self, timeout: Duration) -> Option<Long> {
        let mut idle = self.idle.borrow_mut();
        idle.retain(|(long, since)| long.sender.is_ready() && since.elapsed() < timeout);
        idle.pop_back().map(|(long, _)| long)
    }

    fn put(&self, long: Long, limit: usize) {
        let mut idle = self.idle.borrow_mut();
        idle.retain(|(long, _)| !long.sender.is_closed());
        if !self.closed.get() && idle.len() < limit {
            idle.push_back((long, Instant::now()));
        }
    }

    pub(super) fn clear(&self) {
        self.idle.take();
    }

    pub(super) fn close(&self) {
        self.closed.set(true);
        self.clear();
    }

    /// Makes one connection beforehand, if there is none.
    pub(super) fn refill(&self, peer: &Rc<Peer>) {
        let none = self.idle.borrow().is_empty();
        if !none || peer.settings.long_idle == 0 || self.closed.get() || self.refilling.replace(true) {
            return;
        }
        let peer = Rc::clone(peer);
        spawn_local(async move {
            let made = connect::long(&peer.address, peer.long_tls(), &peer.settings).await;
            peer.spares.refilling.set(false);
            // The next request tries again, and tells why it fails.
            if let Ok(mut long) = made
                && long.sender.ready().await.is_ok()
            {
                peer.spares.put(long, peer.settings.long_idle);
            }
        });
    }
}

/// Sends a request on a connection of its own.
pub(super) async fn send(
    peer: &Rc<Peer>,
    mut request: Request<Outgoing>,
    exchange: Rc<Exchange>,
    ear: Option<Ear>,
) -> Result<Response<Received>, SendError> {
    if let Some(ear) = ear {
        hyper::ext::on_informational(&mut request, move |answer| ear(answer.status(), answer.headers()));
    }
    let settings = &peer.settings;
    let place = Place::take(&peer.spares.busy, settings.long)
        .ok_or_else(|| SendError::unsent(Kind::TooMany, &peer.site))?;
    exchange.hold(place);
    loop {
        let spare = peer.spares.take(settings.long_idle_timeout);
        let was_spare = spare.is_some();
        let mut long = match spare {
            Some(spare) => spare,
            None => open(peer).await?,
        };
        peer.spares.refill(peer);
        super::understood(peer, &request, long.version)?;
        let mut error = match long.sender.try_send_request(request).await {
            Ok(response) => {
                put_back(peer, long);
                return Ok(response.map(|body| Received::new(body, exchange)));
            }
            Err(error) => error,
        };
        request = match error.take_message() {
            // Handed back, so not a byte of it was written. Spares close while they wait: try another.
            Some(request) if was_spare => request,
            Some(_) => {
                return Err(SendError::unsent(Kind::Unreachable, &peer.site).because(error.into_error()));
            }
            None => {
                let failed = exchange.body_failed();
                return Err(SendError::after_dispatch(error.into_error(), &peer.site, failed));
            }
        };
    }
}

async fn open(peer: &Rc<Peer>) -> Result<Long, SendError> {
    peer.reachable().await?;
    connect::long(&peer.address, peer.long_tls(), &peer.settings).await.map_err(|error| {
        let kind = if error.timeout { Kind::Timeout } else { Kind::Unreachable };
        SendError::unsent(kind, &peer.site).because(error)
    })
}

/// Keeps a connection for the next request once this answer has ended.
fn put_back(peer: &Rc<Peer>, mut long: Long) {
    let peer = Rc::clone(peer);
    spawn_local(async move {
        // An error means that it is closed, or is no HTTP any more.
        if long.sender.ready().await.is_ok() {
            peer.spares.put(long, peer.settings.long_idle);
        }
    });
}
