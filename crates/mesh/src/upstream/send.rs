//! A request to one of the targets: which one, and what to do when it fails.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, Uri, Version};
use http_body::Body;
use plan::Sent;
use tokio::time::Instant;

use super::body::PooledBody;
use super::connect::{Connection, connect};
use super::error::{BoxError, Kind, SendError};
use super::framing;
use super::slot::{InFlight, Slot};
use super::{Health, Settings, Target};
use crate::interim::Speaker;

/// Among a request's extensions: it has a new connection, to itself. What a service says too much on one that was used before,
/// and comes late, would be taken for the answer to whatever is asked next.
#[derive(Clone, Copy)]
pub struct Alone;

/// What became of a request.
type Answer<B> = Result<Response<PooledBody<B>>, SendError<B>>;

/// A request that was not sent yet.
type Kept<B> = Option<Box<Request<B>>>;

/// Why one attempt failed.
pub(crate) type Failure = (Kind, BoxError);

/// The targets that were tried for one request, and what was wrong with the last.
#[derive(Default)]
pub(crate) struct Tries {
    tried: Vec<usize>,
    failure: Option<Failure>,
}

impl Tries {
    /// Nothing of the request has left for this target, and nothing will.
    pub(super) fn failed(&mut self, index: usize, failure: Failure) {
        // "Too many" hides no other failure: that target is alive, and will do later.
        if self.failure.as_ref().is_none_or(|(kind, _)| *kind != Kind::TooMany) {
            self.failure = Some(failure);
        }
        self.tried.push(index);
    }

    /// Why none is left.
    pub(super) fn last(&mut self) -> Failure {
        let no_targets = || (Kind::Unreachable, BoxError::from("the service has no targets"));
        self.failure.take().unwrap_or_else(no_targets)
    }
}

/// The targets of one service, as one core uses them. Requests have bodies of one type `B`: a connection
/// of hyper's is for one.
///
/// It must be used inside of a [`tokio::task::LocalSet`].
pub struct Upstreams<B> {
    pub(super) slots: Vec<Rc<Slot<B>>>,
    pub(super) settings: Settings,
    pub(super) health: Arc<Health>,
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
    pub fn send(&self, request: Request<B>) -> impl Future<Output = Answer<B>> {
        self.send_kept(Some(Box::new(request)), None, None)
    }

    /// The same, and lets the client hear the interim answers.
    pub(crate) fn send_heard<'s>(
        &'s self,
        request: Request<B>,
        speaker: Option<&'s Speaker>,
    ) -> impl Future<Output = Answer<B>> + 's {
        self.send_kept(Some(Box::new(request)), None, speaker)
    }

    /// The same, for who may drop the future and must know what that leaves behind: `sent` holds whether
    /// any of the request may have left by now.
    pub fn send_noting(&self, request: Request<B>, sent: &Cell<Sent>) -> impl Future<Output = Answer<B>> {
        self.send_kept(Some(Box::new(request)), Some(sent), None)
    }

    /// Sends a request that stays where it is until a connection takes it: it is large, and each function on
    /// its way would move it. After a failure it is there exactly if it was not sent.
    async fn send_kept(
        &self,
        mut request: Kept<B>,
        sent: Option<&Cell<Sent>>,
        speaker: Option<&Speaker>,
    ) -> Answer<B> {
        let mut tries = Tries::default();
        while let Some((index, slot)) = self.choose(&tries) {
            match self.attempt(index, slot, &mut request, sent, speaker).await {
                Ok(response) => return Ok(response),
                Err((kind, source)) if request.is_none() => {
                    return Err(SendError { sent: Sent::Maybe, kind, source, request: None });
                }
                Err(unsent) => tries.failed(index, unsent),
            }
        }
        let (kind, source) = tries.last();
        Err(SendError { sent: Sent::No, kind, source, request: request.take() })
    }

    /// Closes connections that nobody used for too long. Without it they are closed when a request comes;
    /// a core calls it now and then, at its own coarse tick.
    pub fn sweep(&self) {
        for slot in &self.slots {
            slot.sweep();
        }
    }

    /// Sends it to this target, on a connection that is there or on a new one.
    async fn attempt(
        &self,
        index: usize,
        slot: &Rc<Slot<B>>,
        request: &mut Kept<B>,
        sent: Option<&Cell<Sent>>,
        speaker: Option<&Speaker>,
    ) -> Result<Response<PooledBody<B>>, Failure> {
        let note = |now| sent.inspect(|sent| sent.set(now));
        if let Some(request) = request {
            to_origin_form(request, &slot.target);
        }
        let alone = request.as_ref().is_some_and(|request| request.extensions().get::<Alone>().is_some());
        let in_flight = InFlight::at(slot);
        let mut fresh = false;
        loop {
            let idle = if alone { None } else { slot.driven.take(Instant::now()) };
            let mut connection = if let Some(taken) = idle {
                let Some(connection) = taken.awake().await else { continue };
                connection
            } else {
                fresh = true;
                self.connect(index, slot).await?
            };
            let Some(whole) = request.take() else { return Err((Kind::Reset, "the request is gone".into())) };
            // The only place where a request leaves. After it, only hyper can say that nothing was written:
            // it then hands the request back.
            note(Sent::Maybe);
            let is_head = whole.method() == Method::HEAD;
            connection.ear.listen(speaker);
            let mut error = match connection.sender.try_send_request(*whole).await {
                Ok(mut response) => {
                    self.health.answered(index);
                    let status = response.status();
                    let keep = framing::settle(response.headers_mut(), status, is_head)
                        .ok_or_else(|| (Kind::Protocol, "the answer's body is coded".into()))?;
                    let keep = keep && !alone;
                    return Ok(response.map(|body| PooledBody::new(body, connection, in_flight, keep)));
                }
                Err(error) => error,
            };
            *request = error.take_message().map(Box::new);
            let error = error.into_error();
            if request.is_none() {
                return Err((Kind::of(&error), error.into()));
            }
            note(Sent::No);
            // The service closed it while it was idle, and the request was not written: the next one. But a
            // target that accepts only to close is no better than one that does not accept.
            if fresh {
                self.health.connect_failed(index);
                return Err((Kind::Reset, error.into()));
            }
        }
    }

    async fn connect(&self, index: usize, slot: &Slot<B>) -> Result<Connection<B>, Failure> {
        // Boxed: it is large, and seldom needed.
        let connected = Box::pin(connect(&slot.target, &slot.open, &self.settings)).await;
        connected.inspect_err(|(kind, _)| self.note_failed(index, *kind))
    }
}

impl<B> Upstreams<B> {
    /// The healthy target with the fewest requests in flight, else the first that was not tried: where
    /// all seem down, trying is better than refusing.
    pub(super) fn choose(&self, tries: &Tries) -> Option<(usize, &Rc<Slot<B>>)> {
        if let [only] = &*self.slots
            && tries.tried.is_empty()
        {
            self.health.claim(0);
            return Some((0, only));
        }
        let untried = || self.slots.iter().enumerate().filter(|(index, _)| !tries.tried.contains(index));
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

    /// No connection to this target was made, or it took nothing.
    pub(super) fn note_failed(&self, index: usize, kind: Kind) {
        if kind != Kind::TooMany {
            self.health.connect_failed(index);
        }
    }
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
