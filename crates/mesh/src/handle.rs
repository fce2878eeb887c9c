//! The walk of one request, from its head to its answer: of a client, and in `peers` of another site. `several` is
//! where it takes more than one.

mod peers;
mod several;

use std::any::Any;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;

use http::request::Parts;
use http::{HeaderName, Method, Request, Response, StatusCode, Version};
use http_body::Body;
use plan::{Asked, Said};
use replica::Meta;
use scope::{Plan, Site};
use tokio::time::Instant;

use crate::body::{AnswerBody, LegBody};
use crate::carry::{Carry, Listener};
use crate::core::{Core, ServiceState, State};
use crate::headers;
use crate::identity;
use crate::idle::Busy;
use crate::inflow::{Incoming, Live};
use crate::interim::Turn;
use crate::leg::{self, Carried};
use crate::listing;
use crate::problem::{self, Problem};
use crate::replicas::walk::{self, At};
use crate::replicas::write_name::WriteName;
use crate::replicas::{Name, Order, answer, forward, operations, owned};
use crate::route::{Asker, Route};
use crate::said;
use crate::session;
use crate::ticket::Ticket;
use crate::upgrade::{self, Switch};

pub(crate) use peers::leg;
use several::Wishes;

/// Says whether a list that lacks a site is an error, whatever the listener's configuration says.
pub(crate) const STRICT: HeaderName = HeaderName::from_static("x-scope-strict");

/// Says whether what a write makes is waited for, whatever the listener's configuration says.
pub(crate) const SETTLE: HeaderName = HeaderName::from_static("x-scope-settle");

/// The listener that a request came to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) service: String,
    pub(crate) listener: Listener,
}

impl Entry {
    /// The header of the answer that is a service's token, if a service logs in.
    pub(crate) fn login<'c>(&self, carry: &'c Carry, head: &Parts) -> Option<&'c HeaderName> {
        match self.listener {
            Listener::Internal => carry.login(&self.service, head),
            Listener::Public => None,
        }
    }
}

/// Answers one request of a client, or of one of the site's own services. Interim answers need a turn.
///
/// What needs no waiting is done at once: a future keeps room for whatever it ever lent.
pub(crate) fn handle<B: Into<Incoming>>(
    core: Rc<Core>,
    entry: Rc<Entry>,
    client: SocketAddr,
    busy: Option<Busy>,
    request: Request<B>,
    turn: Option<Turn>,
) -> impl Future<Output = Result<Response<AnswerBody>, Infallible>> + use<B> {
    let begun = begin(core, &entry, client, busy, request, turn);
    async move {
        let (mut walk, head, body) = match begun {
            Ok(begun) => begun,
            Err(problem) => return Ok(problem.into_response()),
        };
        let mut response = walk.route(&entry, head, body).await;
        let problems = &walk.state.settings().profile.problems;
        if response.status().as_u16() >= 400 && problems.within.is_some() {
            response = Box::pin(problem::as_read(response, problems)).await;
        }
        if let Some(header) = &walk.login
            && response.status().is_success()
            && let Some(token) = response.headers().get(header)
        {
            walk.core.shared.carry.is_of_a_service(token, walk.core.now());
        }
        walk.note_issued(&response);
        headers::drop_peers_only(response.headers_mut());
        response.body_mut().may_stream(&walk.core.shared.streams, walk.state.settings().limits.streams);
        response.body_mut().hold(walk.ticket);
        Ok(response)
    }
}

fn begin(
    core: Rc<Core>,
    entry: &Entry,
    client: SocketAddr,
    busy: Option<Busy>,
    mut request: Request<impl Into<Incoming>>,
    turn: Option<Turn>,
) -> Result<(Box<Walk>, Box<Parts>, Incoming), Problem> {
    let state = core.state();
    let Some(service) = state.service(&entry.service) else {
        return Err(Problem::busy("this service was just removed from the configuration"));
    };
    let ticket = Rc::new(core.shared.enter(busy));
    let switch = hyper::upgrade::on(&mut request);
    let (mut head, body) = request.into_parts();
    let switches = take_in(&mut head, state.settings().limits.headers)?;
    let switch = switches.then(|| Switch::new(switch, Rc::clone(&ticket) as Rc<dyn Any>));
    // A service that logs in: the answer has its token.
    let login = entry.login(&core.shared.carry, &head).cloned();
    let identities = core.shared.identities.as_ref().filter(|own| own.is_issue(&service.name, &head));
    let issuer = identities.map(|_| state.settings().site.clone());
    let walk = Walk { core, state, service, client, switch, turn, login, issuer, ticket };
    // Boxed: they are large, and handed through many futures.
    Ok((Box::new(walk), Box::new(head), body.into()))
}

/// Makes a head that came over one hop fit for the next. Says whether its sender wants to switch protocols.
pub(crate) fn take_in(head: &mut Parts, most_headers: usize) -> Result<bool, Problem> {
    if head.method == Method::CONNECT {
        let problem = Problem::new(StatusCode::NOT_IMPLEMENTED, "connect", "CONNECT is not supported");
        return Err(problem.unsent());
    }
    // On HTTP/1.1 a guard has seen to both.
    if head.version == Version::HTTP_2 {
        if head.headers.len() > most_headers {
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            let problem = Problem::new(status, "too-many-headers", "The request has too many headers");
            return Err(problem.detail(format!("at most {most_headers} are taken")).unsent());
        }
        if let Some(what) = headers::ambiguity(head) {
            let problem =
                Problem::new(StatusCode::BAD_REQUEST, "ambiguous", "The request can be read in two ways");
            return Err(problem.detail(what).unsent());
        }
    }
    headers::to_origin_form(head);
    headers::drop_peers_only(&mut head.headers);
    let protocol = headers::end_of_hop(&mut head.headers);
    let switches = protocol.is_some();
    if let Some(protocol) = protocol {
        headers::switch(&mut head.headers, protocol);
    }
    Ok(switches)
}

/// One request on its way.
struct Walk {
    core: Rc<Core>,
    state: Rc<State>,
    service: Rc<ServiceState>,
    client: SocketAddr,
    switch: Option<Switch>,
    turn: Option<Turn>,
    /// The header of the answer that is a service's token, if a service logs in.
    login: Option<HeaderName>,
    /// The site whose answer has a new token, if the request is for one.
    issuer: Option<Site>,
    ticket: Rc<Ticket>,
}

impl Walk {
    async fn route(&mut self, entry: &Entry, mut head: Box<Parts>, body: Incoming) -> Response<AnswerBody> {
        let settings = self.state.settings();
        if settings.observe {
            let (shared, propagation) = (&self.core.shared, &settings.profile.propagation);
            let added = match entry.listener {
                Listener::Public => {
                    shared.carry.identify(&mut head.headers, &mut |bytes| self.core.random(bytes))
                }
                Listener::Internal => Vec::new(),
            };
            let line = shared.observer.look(&head, &added, entry.listener, &self.service.name, propagation);
            self.core.shared.audit.write(&line);
            return self.here(head, body, None).await;
        }
        if let Some(sites) = listing::asked(&self.state, &head) {
            return sites;
        }
        if let Some(operation) = operations::asked(&head) {
            return match operation {
                Ok(operation) => operations::answer(self.core.shared.replicas.as_ref(), operation).await,
                Err(problem) => problem.into_response(),
            };
        }
        let asker = self.asker(entry);
        let (carried, plan) = match asker.route(&mut head) {
            Route::Bypassed => return self.here(head, body, None).await,
            Route::Unscoped => {
                self.core.counts.unscoped.add(1);
                return self.here(head, body, None).await;
            }
            Route::Validation(issuer) => return Box::pin(self.validation(&issuer, head, body)).await,
            Route::Scoped(carried, plan) => (carried, plan),
            Route::Refused(problem) => {
                asker.refused(&head, &problem);
                return problem.into_response();
            }
        };
        let scoped = asker.scoped(&head, &carried, &plan);
        let mut response = self.carry_out(Rc::clone(&plan), head, body, carried).await;
        session::mark(&self.state.settings().profile, &self.service.name, &plan, &mut response);
        scoped.answered(&self.core, response.status(), response.headers().get(said::SCOPE_SITES));
        response
    }

    /// The answer of a site's identity service may have a new token: whose it is has to be known later.
    fn note_issued(&self, response: &Response<AnswerBody>) {
        if let (Some(identities), Some(issuer)) = (&self.core.shared.identities, &self.issuer)
            && response.status().is_success()
        {
            identities.issued(&self.state.settings().site, issuer, response.headers());
        }
    }

    /// A question about a token that another site issued, or is said to have. What is only said is not believed: this
    /// site's own service is asked first. Where the other site does not answer for it, this one's word counts.
    async fn validation(&mut self, issuer: &Site, head: Box<Parts>, body: Incoming) -> Response<AnswerBody> {
        let mut own = None;
        if let Some(identities) = &self.core.shared.identities
            && let Some(token) = identities.only_claimed(&head.headers)
        {
            let answer = Box::pin(walk::local(self.at(None), head.clone(), LegBody::Empty, None)).await;
            let answer =
                answer.unwrap_or_else(|failure| failure.into_problem(&self.service.name).into_response());
            if answer.status().is_success() {
                identities.is_own(token);
            }
            // It is its own, or that cannot be said now.
            if answer.status().is_success() || answer.status().is_server_error() {
                return answer;
            }
            own = Some(answer);
        }
        if !self.ticket.away(self.state.settings().limits.requests) {
            return Problem::busy("as many requests as may wait for other sites").into_response();
        }
        let refused = match identity::validated(&self.core, &self.state, issuer, &head).await {
            Ok(response) => return response,
            Err(refused) => refused,
        };
        let own = match own {
            Some(own) => own,
            None => self.here(head, body, None).await,
        };
        if own.status().is_success() {
            return own;
        }
        identity::audit(&self.core, issuer, None, Some(&refused));
        match refused {
            identity::Refused::NotValid(_) => own,
            identity::Refused::Unavailable(why) => {
                let title = "Whether a token is valid cannot be said now";
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "token-unknown", title)
                    .detail(why)
                    .into_response()
            }
        }
    }

    fn asker<'a>(&'a self, entry: &'a Entry) -> Asker<'a> {
        let Walk { core, state, service, client, .. } = self;
        Asker { core, state, service, entry, client: *client }
    }

    fn at<'a>(&'a self, carried: Option<&'a Carried>) -> At<'a> {
        At::of_client(&self.core, &self.state, &self.service, carried)
    }

    async fn carry_out(
        &mut self,
        plan: Rc<Plan>,
        mut head: Box<Parts>,
        body: Incoming,
        carried: Carried,
    ) -> Response<AnswerBody> {
        let settings = self.state.settings();
        // Whoever misspells it had rather an error than a list that lacks something.
        let strict = head.headers.remove(STRICT);
        let strict = strict.map(|strict| !strict.as_bytes().eq_ignore_ascii_case(b"false"));
        let settle = self.settle(&mut head);
        let forwards = settle.is_none();
        let owner = match owned::owner(self.at(Some(&carried)), &head).await {
            Ok(owner) => owner,
            Err(problem) => return problem.into_response(),
        };
        match &*plan {
            _ if walk::is_write_to_one(self.at(Some(&carried)), &head, owner.as_deref()) => {
                self.here(head, body, Some(&carried)).await
            }
            Plan::Site(site) if forwards && *site == settings.site => {
                self.here(head, body, Some(&carried)).await
            }
            _ if !self.ticket.away(settings.limits.requests) => {
                Problem::busy("as many requests as may wait for other sites").into_response()
            }
            // Boxed, so that a local request is not the size of a shared one.
            Plan::Site(site) if forwards => Box::pin(self.there(site, head, body, &carried)).await,
            several => {
                if self.switch.is_some() {
                    return Problem::new(
                        StatusCode::UNPROCESSABLE_ENTITY,
                        "upgrade",
                        "A connection can switch protocols with one site only",
                    )
                    .unsent()
                    .into_response();
                }
                Box::pin(self.several(several, head, body, carried, Wishes { strict, settle })).await
            }
        }
    }

    /// To this site's own service.
    async fn here(
        &mut self,
        head: Box<Parts>,
        body: Incoming,
        carried: Option<&Carried>,
    ) -> Response<AnswerBody> {
        if !self.ticket.here(carried.is_some(), self.state.settings().limits.requests) {
            return Problem::here_is_busy().into_response();
        }
        let body = self.live(body);
        let speaker = self.turn.as_ref().map(Turn::speaker);
        // Boxed: the futures around it, which are moved before they are polled, stay small.
        let answer = Box::pin(walk::local(self.at(carried), head, body, speaker.as_ref())).await;
        if let Some(turn) = self.turn.take() {
            turn.said().await;
        }
        match answer {
            Ok(response) => upgrade::carry_out(response, self.switch.take()),
            Err(failure) => failure.into_problem(&self.service.name).into_response(),
        }
    }

    /// To one other site, whatever it answers.
    async fn there(
        &mut self,
        site: &Site,
        mut head: Box<Parts>,
        body: Incoming,
        carried: &Carried,
    ) -> Response<AnswerBody> {
        let (body, path) = (self.live(body), head.uri.path().to_owned());
        let began = Instant::now();
        leg::address(&self.core, &self.state, &mut head.headers, &self.service.name, carried);
        if let Some(issuer) = &mut self.issuer {
            issuer.clone_from(site);
        }
        let identities = self.core.shared.identities.as_ref().filter(|_| self.issuer.is_none());
        let shows = identities.is_some_and(|own| own.shows_token(&self.service.name, &head));
        let speaker = self.turn.as_ref().map(Turn::speaker);
        let recorded = self.may_be_recorded(&head).filter(|_| !is_read(&head.method));
        let (name, state) = (WriteName::default(), &self.state);
        let send = async |head: Parts| leg::peer_heard(state, site, Box::new(head), body, speaker).await;
        let answer = match &recorded {
            Some(replicas) => Box::pin(forward::named(replicas, &name, site, &mut head, send)).await,
            None => send(*head).await,
        };
        if let Some(turn) = self.turn.take() {
            turn.said().await;
        }
        let asked = |said| vec![Asked { site: site.clone(), said, elapsed: Some(began.elapsed()) }];
        match answer {
            Ok(mut response) => {
                let said = Said::Status(response.status().as_u16());
                if shows && response.status() == StatusCode::UNAUTHORIZED {
                    return not_there(site, &response, asked(said));
                }
                said::put(response.headers_mut(), &asked(said));
                upgrade::carry_out(response, self.switch.take())
            }
            Err(failure) => {
                if let Some((op, _)) = name.end().filter(|_| failure.is_unexplained())
                    && let Some(replicas) = recorded
                {
                    let meta = Meta::from(&Name::new(&self.service.name, &path));
                    let _ = replicas.orders.send(Order::Lost(op.clone(), meta, site.clone()));
                    return answer::lost(&op, &failure, site);
                }
                let said = Said::Error(failure.why);
                failure.into_problem(site.name()).asked(asked(said)).into_response()
            }
        }
    }

    fn live(&self, body: Incoming) -> LegBody {
        if body.is_end_stream() {
            return LegBody::Empty;
        }
        LegBody::Live(Live::new(body, self.state.settings().timeouts.body_idle))
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}

/// Another site's identity service does not take a token: of this site's, it never does.
fn not_there(site: &Site, answer: &Response<AnswerBody>, asked: Vec<Asked>) -> Response<AnswerBody> {
    let title = "The token is not valid at that site";
    let detail = format!(
        "the identity service of {site} takes only tokens that it issued itself: log in there, with a password and with \
         this scope on the login too, and send the token that comes of it"
    );
    let problem = Problem::new(StatusCode::UNAUTHORIZED, "token-of-another-site", title);
    let mut response = problem.detail(detail).asked(asked).into_response();
    if let Some(challenge) = answer.headers().get(http::header::WWW_AUTHENTICATE) {
        response.headers_mut().insert(http::header::WWW_AUTHENTICATE, challenge.clone());
    }
    response
}
