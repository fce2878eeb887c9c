//! What becomes of a request that came on the thin path: decided by the same rules as on the other.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use http::{Method, Request};
use http1guard::{Body, Head};
use scope::Plan;

use super::Seat;
use super::request::{Reading, method};
use super::several;
use super::ways::{Again, Key, SHORTEST_LIFETIME, To, Way};
use super::wire::put_field;
use crate::carry::Listener;
use crate::core::{HandedOn, ServiceState, State};
use crate::handle::{STRICT, take_in};
use crate::inflow::Incoming;
use crate::leg;
use crate::listing::is_for_the_mesh;
use crate::problem::Problem;
use crate::replicas::walk::has_replicas;
use crate::route::{Asker, Route, Scoped};
use crate::ticket::Ticket;

pub(super) enum Decision<'c> {
    /// To the local service.
    Go(Going<'c>),
    /// To several sites, as the other path does it.
    Several(Request<Incoming>),
    /// Nowhere.
    Refuse(Problem, Option<Scoped>),
    /// The other path is to decide: nothing was counted or written down.
    HandOver,
}

/// A request on its way to the local service.
pub(super) struct Going<'c> {
    pub(super) state: Rc<State>,
    pub(super) service: Rc<ServiceState>,
    pub(super) handed_on: Option<HandedOn<'c>>,
    pub(super) scoped: Option<Scoped>,
    pub(super) is_head: bool,
    pub(super) body: Body,
    _ticket: Ticket,
}

/// Decides. If the request goes to the local service, `out` has the head that it gets.
pub(super) fn decide<'c>(
    seat: &'c Seat,
    bytes: &[u8],
    head: &Head,
    reading: &Reading,
    out: &mut Vec<u8>,
) -> Decision<'c> {
    let (core, entry) = (&seat.core, &seat.entry);
    let state = core.state();
    if !reading.is_simple(bytes, head) {
        return Decision::HandOver;
    }
    let writes = !matches!(method(bytes, head), b"GET" | b"HEAD" | b"OPTIONS");
    let deciding = reading.deciding(bytes, head);
    let key = deciding.and_then(|lines| Key::new(entry, seat.address.ip(), writes, lines));
    if let Some(known) = key.as_ref().and_then(|key| state.ways.find(key))
        && !core.shared.bypass.load(Ordering::Relaxed)
        && !has_replicas(core, &state, &known.service.name)
    {
        return again(seat, state, &known, bytes, head, reading, out);
    }
    let new = NewWay { seat, key };
    new.decide(state, bytes, head, reading, out)
}

/// Decides as about a request before.
fn again<'c>(
    seat: &'c Seat,
    state: Rc<State>,
    way: &Way,
    bytes: &[u8],
    head: &Head,
    reading: &Reading,
    out: &mut Vec<u8>,
) -> Decision<'c> {
    let core = &seat.core;
    let To::Here { scoped, lines } = &way.to else { return to_several(bytes, head) };
    let scoped = scoped.map(|again| Scoped::again(core, again.token));
    if scoped.is_none() {
        core.counts.unscoped.add(1);
    }
    let ticket = core.shared.enter(None);
    if !ticket.here(scoped.is_some(), state.settings().limits.requests) {
        return Decision::Refuse(Problem::here_is_busy(), scoped);
    }
    let trace = match &scoped {
        Some(_) => core.shared.carry.new_trace(reading.trace(bytes, head), &mut |bytes| core.random(bytes)),
        None => None,
    };
    reading.write_again(bytes, head, lines, trace.as_ref().map(<[u8; 55]>::as_slice), out);
    let (service, is_head, body) = (Rc::clone(&way.service), method(bytes, head) == b"HEAD", head.body);
    Decision::Go(Going { service, handed_on: None, scoped, is_head, body, _ticket: ticket, state })
}

/// Nothing is counted yet: the walk does that.
fn to_several<'c>(bytes: &[u8], head: &Head) -> Decision<'c> {
    several::request(bytes, head).map_or(Decision::HandOver, Decision::Several)
}

/// A request unlike those before.
struct NewWay<'c, 'k> {
    seat: &'c Seat,
    key: Option<Key<'k>>,
}

impl<'c> NewWay<'c, '_> {
    fn decide(
        &self,
        state: Rc<State>,
        bytes: &[u8],
        head: &Head,
        reading: &Reading,
        out: &mut Vec<u8>,
    ) -> Decision<'c> {
        let seat = self.seat;
        let (core, entry) = (&seat.core, &seat.entry);
        let settings = state.settings();
        let Some(service) = state.service(&entry.service) else { return Decision::HandOver };
        // What is replicated may be another site's, or known here by another name.
        let replicated = has_replicas(core, &state, &service.name);
        let settles = settings.services.get(&service.name).is_some_and(|own| own.settle);
        if settings.observe || replicated || settles || !service.upstreams.are_plain() {
            return Decision::HandOver;
        }
        // Tokens that are issued are noted, and other sites' are asked about.
        let tokens = core.shared.identities.as_ref();
        let identities = tokens.filter(|own| own.is_service(&service.name));
        // Projects of other sites have other ids there.
        let names_projects = tokens.filter(|own| own.may_name_projects(&service.name));
        // Who logs in is known by the target, and the audit has it.
        let wants_target = entry.listener == Listener::Internal
            || identities.is_some()
            || names_projects.is_some()
            || core.shared.audit.is_on();
        let Some(mut parts) = reading.parts(bytes, head, wants_target) else { return Decision::HandOver };
        if !matches!(take_in(&mut parts, settings.limits.headers), Ok(false))
            || is_for_the_mesh(&parts)
            || entry.login(&core.shared.carry, &parts).is_some()
            || identities.is_some_and(|own| own.concerns(&service.name, &parts))
            || names_projects.is_some_and(|own| own.may_name_foreign_project(&service.name, &parts))
        {
            return Decision::HandOver;
        }
        let asker = Asker { core, state: &state, service: &service, entry, client: seat.address };
        let route = asker.route(&mut parts);
        let bypassed = matches!(route, Route::Bypassed);
        let (scoped, carried) = match route {
            Route::Bypassed => (None, None),
            Route::Unscoped => {
                core.counts.unscoped.add(1);
                (None, None)
            }
            // The answer may begin a session, which lives here from then on.
            Route::Scoped(..) if settings.profile.has_sessions(&service.name) => return Decision::HandOver,
            Route::Scoped(carried, plan) if matches!(&*plan, Plan::Site(site) if *site == settings.site) => {
                parts.headers.remove(STRICT);
                (Some(asker.scoped(&parts, &carried, &plan)), Some(carried))
            }
            Route::Scoped(_, plan) if several::is_for_several(&plan) => {
                self.keep(&state, true, || Way { service, to: To::Several });
                return to_several(bytes, head);
            }
            Route::Scoped(..) | Route::Validation(_) | Route::Refused(_) => return Decision::HandOver,
        };
        let ticket = core.shared.enter(None);
        if !ticket.here(carried.is_some(), settings.limits.requests) {
            return Decision::Refuse(Problem::here_is_busy(), scoped);
        }
        let handed_on = match leg::hand_on(core, &state, &mut parts, carried.as_ref()) {
            Ok(handed_on) => handed_on,
            Err(error) => return Decision::Refuse(error.into(), scoped),
        };
        if !bypassed && handed_on.as_ref().is_none_or(HandedOn::is_shared) {
            self.keep(&state, scoped.is_some(), || {
                let mut lines = Vec::new();
                for (name, value) in parts.headers.iter().filter(|(name, _)| *name != "traceparent") {
                    put_field(&mut lines, name.as_str().as_bytes(), value.as_bytes());
                }
                let scoped = scoped.as_ref().map(|scoped| Again { token: scoped.token() });
                Way { service: Rc::clone(&service), to: To::Here { scoped, lines: lines.into() } }
            });
        }
        reading.write(bytes, head, &parts, wants_target, out);
        let (is_head, body) = (parts.method == Method::HEAD, head.body);
        Decision::Go(Going { service, handed_on, scoped, is_head, body, _ticket: ticket, state })
    }

    /// Remembers a way if nothing but its key decided it.
    fn keep(&self, state: &State, is_scoped: bool, way: impl FnOnce() -> Way) {
        let shared = &self.seat.core.shared;
        let is_public = self.seat.entry.listener == Listener::Public;
        let lasts = !is_scoped || shared.carry.records().lifetime() >= SHORTEST_LIFETIME;
        if let Some(key) = &self.key
            && is_public
            && lasts
            && shared.identities.is_none()
            && !shared.audit.is_on()
        {
            state.ways.keep(key, way);
        }
    }
}
