//! What peers ask: a leg, which is executed here and never planned again, or a question of a peer's own.

use std::any::Any;
use std::rc::Rc;

use http::request::Parts;
use http::{HeaderName, Request, Response, StatusCode};
use hyper::body::Incoming;
use plan::Sent;
use scope::Site;

use super::{Walk, take_in};
use crate::backstage;
use crate::body::AnswerBody;
use crate::core::{Core, ServiceState, State};
use crate::identity;
use crate::interim::Turn;
use crate::leg::{self, Carried, LegFailure, MOST_HOPS};
use crate::problem::Problem;
use crate::replicas::copies::Listed;
use crate::replicas::group::{self, Group};
use crate::replicas::walk::{self, At};
use crate::replicas::wire;
use crate::reservations;
use crate::ticket::PeerTicket;
use crate::upgrade::{self, Switch};

/// Answers a leg that another site sent: it is executed here, never planned again.
pub(crate) async fn leg(
    core: Rc<Core>,
    peer: link::Peer,
    mut request: Request<Incoming>,
) -> Response<AnswerBody> {
    let state = core.state();
    let Some(ticket) = core.admit_peer(&peer.site, state.settings().limits.requests_per_peer) else {
        return Problem::busy("this site has as many requests of yours in flight as it may").into_response();
    };
    // Every leg names its service, so that no client's path can be taken for a question.
    if !request.headers().contains_key(leg::SERVICE) {
        request = match question(&core, &state, &peer, request).await {
            Ok((mut response, place)) => {
                response.body_mut().hold(Rc::new((ticket, place)));
                return response;
            }
            Err(request) => *request,
        };
    }
    let switch = hyper::upgrade::on(&mut request);
    let (mut head, body) = request.into_parts();
    let turn = Turn::of_leg(&mut head.extensions);
    let (group, level) = (Group::read(&head), group::read_level(&head));
    let (resource, request) = (group::read_resource(&head), group::read_request(&head));
    let listed = Listed::read(&head);
    let Ok(reserved) = reservations::read_holder(&head, &peer.site) else {
        return bad_leg("it is part of no claim of that site").into_response();
    };
    let (service, carried) = match read_leg(&core, &state, &peer, &head) {
        Ok(leg) => leg,
        Err(problem) => return problem.into_response(),
    };
    if let Some(identities) = &core.shared.identities {
        identities.learn(&state, &head.headers);
    }
    // A peer's own limits were kept; it adds a few headers to what its client sent.
    let switches = match take_in(&mut head, usize::MAX) {
        Ok(switches) => switches,
        Err(problem) => return problem.into_response(),
    };
    // Only a site asks without a scope. What a client asks of another site's identity service, it asks for itself.
    if carried.scope.scope.is_empty() {
        identity::vouch(&core, &state, &service.name, &mut head).await;
    }
    core.counts.executed.add(1);
    let ticket = Rc::new(ticket);
    let switch = switches.then(|| Switch::new(switch, Rc::clone(&ticket) as Rc<dyn Any>));
    // Its place is the peer's; it only counts as one more in flight.
    let in_flight = Rc::new(core.shared.enter(None));
    let client = peer.address;
    let identities = core.shared.identities.as_ref().filter(|own| own.is_service(&service.name));
    // A question about a token, without a scope, causes no calls.
    let causes = identities.is_none() || !carried.scope.scope.is_empty();
    let issuer =
        identities.filter(|own| own.is_issue(&service.name, &head)).map(|_| state.settings().site.clone());
    let walk =
        Walk { core, state, service, client, switch, turn: None, login: None, issuer, ticket: in_flight };
    let (head, body) = (Box::new(head), walk.live(body.into()));
    let (about, request) = (resource.as_ref(), request.as_ref());
    let listed = listed.as_ref();
    let at =
        At { from_peer: true, about, level, request, listed, ..walk.at(Some(&carried).filter(|_| causes)) };
    let answer = if let Some(group) = group {
        Box::pin(walk::create(at, head, body, &group)).await
    } else {
        let (name, speaker) = (&walk.service.name, turn.as_ref().map(Turn::speaker));
        let name = reserved.as_ref().map(|_| reservations::name_of(name, head.uri.path()));
        let local = walk::local(at, head, body, speaker.as_ref());
        match reserved.zip(name) {
            None => local.await,
            Some((holder, name)) => {
                let replicas = walk.core.shared.replicas.as_ref();
                Box::pin(reservations::execute(replicas, name, holder, local)).await
            }
        }
    };
    if let Some(turn) = turn {
        turn.said().await;
    }
    if let Ok(response) = &answer {
        walk.note_issued(response);
    }
    let (streams, most) = (&walk.core.shared.streams, walk.state.settings().limits.streams);
    let mut response = match answer {
        Ok(response) => upgrade::carry_out(response, walk.switch),
        Err(failure) => not_executed(failure, &walk),
    };
    response.body_mut().may_stream(streams, most);
    response.body_mut().hold(Rc::new((ticket, walk.ticket)));
    response
}

/// Answers what a peer's keeper or membership asks. `Err`: nobody here answers such questions.
async fn question(
    core: &Rc<Core>,
    state: &State,
    peer: &link::Peer,
    request: Request<Incoming>,
) -> Result<(Response<AnswerBody>, Option<PeerTicket>), Box<Request<Incoming>>> {
    let busy = |what| Ok((Problem::busy(what).into_response(), None));
    let patience = state.settings().timeouts.body_idle;
    if request.uri().path().starts_with(wire::PREFIX)
        && let Some(replicas) = &core.shared.replicas
    {
        let place = if wire::is_awaited(request.uri().path()) {
            core.admit_stream(&peer.site, wire::STREAMS)
        } else {
            core.admit_keeper(&peer.site, wire::AT_ONCE)
        };
        if place.is_none() {
            return busy("this site has as many messages of yours as it may");
        }
        return Ok((Box::pin(wire::answer(core, replicas, peer, request, patience)).await, place));
    }
    let Some(backstage) = state.settings().link.as_ref().and_then(|link| link.backstage.clone()) else {
        return Err(Box::new(request));
    };
    let place = core.admit_question(&peer.site, backstage::AT_ONCE);
    if place.is_none() {
        return busy("this site has as many questions of yours as it may");
    }
    Ok((Box::pin(backstage::answer(&*backstage, peer, request, patience)).await, place))
}

fn not_executed(failure: LegFailure, walk: &Walk) -> Response<AnswerBody> {
    let unsent = failure.sent == Sent::No;
    let problem = failure.into_problem(&format!("{} at {}", walk.service.name, walk.state.settings().site));
    if unsent { problem.unsent() } else { problem }.into_response()
}

fn bad_leg(what: &str) -> Problem {
    let problem = Problem::new(StatusCode::BAD_REQUEST, "bad-leg", "This is not a request between two sites");
    problem.detail(what.to_owned()).unsent()
}

/// What a peer says of its leg. It is a peer by its certificate, and may still be of another version.
fn read_leg(
    core: &Core,
    state: &State,
    peer: &link::Peer,
    head: &Parts,
) -> Result<(Rc<ServiceState>, Carried), Problem> {
    let text = |name: HeaderName| head.headers.get(name).and_then(|value| value.to_str().ok());
    let bad = bad_leg;
    let name = text(leg::SERVICE).ok_or_else(|| bad("it names no service"))?;
    let service = state.service(name).ok_or_else(|| {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "no-such-service",
            "This site does not offer the service",
        )
        .detail(name.to_owned())
        .unsent()
    })?;
    let scope = text(leg::SCOPE).ok_or_else(|| bad("it has no scope"))?;
    let scope = state.scope(scope).map_err(|diagnostic| Problem::bad_scope(&diagnostic))?;
    let known = |site: &Site| state.sites.find(site.name()).is_some();
    let entered = text(leg::ENTERED)
        .and_then(Site::new)
        .filter(known)
        .ok_or_else(|| bad("it does not say at which site, known here, the client entered"))?;
    let hops = text(leg::HOPS).and_then(|hops| hops.parse().ok()).ok_or_else(|| bad("it counts no hops"))?;
    if hops > MOST_HOPS {
        return Err(Problem::new(StatusCode::LOOP_DETECTED, "loop", "This request causes itself").unsent());
    }
    let carry = &core.shared.carry;
    let sender = match text(leg::SENDER) {
        Some(sender) => carry.sender_at(&peer.site, sender.as_bytes()),
        // A peer of an older version: all that it sends is counted together.
        None => carry.sender(&head.headers, peer.address.ip()),
    };
    // What this site's services see of the client, and hand on.
    let token = carry.token(&head.headers);
    Ok((service, Carried { scope, entered, hops, sender, token }))
}
