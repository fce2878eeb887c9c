//! A request to one of the targets: which one, and what to do when it fails.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, Uri, Version};
use http_body::Body;
use http1guard::Speaker;
use hyper::body::Incoming;
use plan::Sent;

use super::body::PooledBody;
use super::connect::{Connection, connect};
use super::error::{BoxError, Kind, SendError};
use super::slot::{InFlight, Slot};
use super::{Health, Settings, Target};

/// The targets of one service, as one core uses them. Requests have bodies of one type `B`: a connection
/// of hyper's is for one.
///
/// It must be used inside of a [`tokio::task::LocalSet`].
pub struct Upstreams<B> {
    slots: Vec<Rc<Slot<B>>>,
    settings: Settings,
    health: Arc<Health>,
    /// Where the search for a target starts, so that equal ones take turns.
    turn: Cell<usize>,
}

impl<B> Upstreams<B>
where
    B: Body + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    /// No connection is made yet. `health` is for the same targets, in the same order.
    #[must_use]
    pub fn new(targets: Vec<Target>, settings: Settings, health: Arc<Health>) -> Self {
        let slot = |target| Rc::new(Slot::new(target, settings.idle_timeout, settings.max_idle));
        let slots = targets.into_iter().map(slot).collect();
        Upstreams { slots, settings, health, turn: Cell::new(0) }
    }

    /// Sends a request, and answers when the head of the answer is there. There is no limit on how long
    /// the service takes to answer: drop the future to stop, which closes the connection.
    pub async fn send(&self, request: Request<B>) -> Result<Response<PooledBody<B>>, SendError<B>> {
        self.send_noting(request, &Cell::new(Sent::No)).await
    }

    /// The same, and lets the client hear the interim answers.
    pub async fn send_heard(
        &self,
        request: Request<B>,
        speaker: Option<&Speaker>,
    ) -> Result<Response<PooledBody<B>>, SendError<B>> {
        self.send_to_any(request, &Cell::new(Sent::No), speaker).await
    }

    /// The same, for who may drop the future and must know what that leaves behind: `sent` holds whether
    /// any of the request may have left by now.
    pub async fn send_noting(
        &self,
        request: Request<B>,
        sent: &Cell<Sent>,
    ) -> Result<Response<PooledBody<B>>, SendError<B>> {
        self.send_to_any(request, sent, None).await
    }

    async fn send_to_any(
        &self,
        mut request: Request<B>,
        sent: &Cell<Sent>,
        speaker: Option<&Speaker>,
    ) -> Result<Response<PooledBody<B>>, SendError<B>> {
        let mut tried = Vec::new();
        let mut failure = (Kind::Unreachable, BoxError::from("the service has no targets"));
        while let Some((index, slot)) = self.choose(&tried) {
            match self.attempt(index, slot, request, sent, speaker).await {
                Ok(response) => return Ok(response),
                Err(SendError { request: Some(unsent), kind, source, .. }) => {
                    request = *unsent;
                    // "Too many" hides no other failure: that target is alive, and will do later.
                    if failure.0 != Kind::TooMany {
                        failure = (kind, source);
                    }
                    tried.push(index);
                }
                Err(taken) => return Err(taken),
            }
        }
        Err(SendError::unsent(request, failure.0, failure.1))
    }

    /// Closes connections that nobody used for too long. Without it they are closed when a request comes;
    /// a core calls it now and then, at its own coarse tick.
    pub fn sweep(&self) {
        for slot in &self.slots {
            slot.sweep();
        }
    }

    /// The healthy target with the fewest requests in flight, else the first that was not tried: where
    /// all seem down, trying is better than refusing.
    fn choose(&self, tried: &[usize]) -> Option<(usize, &Rc<Slot<B>>)> {
        let untried = || self.slots.iter().enumerate().filter(|(index, _)| !tried.contains(index));
        let (turn, count) = (self.turn.get(), self.slots.len());
        // How long until its turn: among equals, the nearest.
        let wait = |index: usize| (index + count - turn) % count;
        let best = untried()
            .filter(|(index, _)| self.health.is_up(*index))
            .min_by_key(|(index, slot)| (slot.in_flight(), wait(*index)));
        let chosen = best.or_else(|| untried().next())?;
        self.turn.set((chosen.0 + 1) % count);
        // A target whose time is over is tried by one request; others wait for what comes of it.
        self.health.claim(chosen.0);
        Some(chosen)
    }

    /// Sends it to this target, on a connection that is there or on a new one.
    async fn attempt(
        &self,
        index: usize,
        slot: &Rc<Slot<B>>,
        mut request: Request<B>,
        sent: &Cell<Sent>,
        speaker: Option<&Speaker>,
    ) -> Result<Response<PooledBody<B>>, SendError<B>> {
        to_origin_form(&mut request, &slot.target);
        let in_flight = InFlight::at(slot);
        while let Some(taken) = slot.take() {
            let Some(mut connection) = taken.awake().await else { continue };
            match hand_over(&mut connection, request, sent, speaker).await {
                Ok(response) => {
                    self.health.answered(index);
                    return Ok(response.map(|body| PooledBody::new(body, connection, in_flight)));
                }
                // The service closed it while it was idle, and the request was not written: the next one.
                Err(SendError { request: Some(unsent), .. }) => request = *unsent,
                Err(taken) => return Err(taken),
            }
        }
        // Boxed: it is large, and seldom needed.
        let connecting = Box::pin(connect(&slot.target, &slot.open, &self.settings));
        let mut connection = match connecting.await {
            Ok(connection) => connection,
            Err((kind, source)) => {
                if kind != Kind::TooMany {
                    self.health.connect_failed(index);
                }
                return Err(SendError::unsent(request, kind, source));
            }
        };
        match hand_over(&mut connection, request, sent, speaker).await {
            Ok(response) => {
                self.health.answered(index);
                Ok(response.map(|body| PooledBody::new(body, connection, in_flight)))
            }
            Err(error) => {
                // It accepts only to close: no better than one that does not accept.
                if error.sent == Sent::No {
                    self.health.connect_failed(index);
                }
                Err(error)
            }
        }
    }
}

/// The only place where a request leaves. After it, only hyper can say that nothing was written: it then
/// hands the request back.
async fn hand_over<B: Body + 'static>(
    connection: &mut Connection<B>,
    request: Request<B>,
    sent: &Cell<Sent>,
    speaker: Option<&Speaker>,
) -> Result<Response<Incoming>, SendError<B>> {
    sent.set(Sent::Maybe);
    connection.ear.listen(speaker);
    connection.sender.try_send_request(request).await.map_err(|mut error| match error.take_message() {
        Some(request) => {
            sent.set(Sent::No);
            SendError::unsent(request, Kind::Reset, error.into_error().into())
        }
        None => SendError::taken(error.into_error()),
    })
}

/// What HTTP/1.1 wants of a request to an origin, whatever version and form it came in.
fn to_origin_form<B>(request: &mut Request<B>, target: &Target) {
    *request.version_mut() = Version::HTTP_11;
    let authority = request.uri().authority().map(|authority| authority.as_str().to_owned());
    if !request.headers().contains_key(HOST) {
        let host = authority.clone().unwrap_or_else(|| format!("{}:{}", target.host, target.port));
        // A name that is not one fails to resolve, with an error that says so.
        if let Ok(host) = HeaderValue::try_from(host) {
            request.headers_mut().insert(HOST, host);
        }
    }
    if authority.is_some() && request.method() != Method::CONNECT {
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    }
}
