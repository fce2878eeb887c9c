//! Which way a request takes: decided here, whoever read its head and whoever sends it on.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use http::header::HeaderValue;
use http::request::Parts;
use http::{Method, StatusCode};
use scope::{Diagnostic, Plan, Site};
use serde_json::{Map, Value, json};

use crate::carry::{self, Carrier, Found, Listener};
use crate::core::{Core, ServiceState, State};
use crate::handle::Entry;
use crate::identity::Place;
use crate::leg::{Carried, MOST_HOPS};
use crate::problem::Problem;
use crate::session;

/// Which way.
pub(crate) enum Route {
    /// To this site's own service, as if there were no scopes.
    Bypassed,
    /// To this site's own service: it has no scope.
    Unscoped,
    /// As its scope says.
    Scoped(Carried, Rc<Plan>),
    /// It asks about a token that another site issued, which knows.
    Validation(Site),
    /// Nowhere, for its scope.
    Refused(Problem),
}

/// Who asks, and where.
pub(crate) struct Asker<'a> {
    pub(crate) core: &'a Core,
    pub(crate) state: &'a State,
    pub(crate) service: &'a ServiceState,
    pub(crate) entry: &'a Entry,
    pub(crate) client: SocketAddr,
}

impl Asker<'_> {
    /// Takes the scope out of a head, and says which way it leads. Nothing is counted or written down yet.
    pub(crate) fn route(&self, head: &mut Parts) -> Route {
        let settings = self.state.settings();
        let default = settings.services.get(&self.service.name).and_then(|service| service.scope.as_ref());
        let place =
            carry::Entry { listener: self.entry.listener, default: default.map(|scope| scope.text()) };
        let is_session = |path: &str| settings.profile.is_session(&self.service.name, path);
        let session = carry::session::take(&mut head.uri, is_session);
        let found = self.core.shared.carry.find(head, &place, self.core.now());
        if self.core.shared.bypass.load(Ordering::Relaxed) {
            // Whatever scope it brought was taken out, so that also a path with one leads to the service.
            return Route::Bypassed;
        }
        // What a malformed scope left of the head is not to be sent on.
        let whole = !matches!(found, Err(carry::Error::Malformed { .. }));
        let identities = self.core.shared.identities.as_ref().filter(|_| whole);
        match identities.and_then(|identities| identities.place(self.entry, head)) {
            Some(Place::Issuer(site)) => return Route::Validation(site),
            Some(Place::Here) => return Route::Unscoped,
            None => {}
        }
        let carried = found.map_err(Problem::from).and_then(|found| self.carried(found, head));
        let planned = match (carried, session) {
            (Err(problem), _) => Err(problem),
            (Ok(carried), Some(site)) => self.to_session(carried, head, &site),
            (Ok(None), None) => return Route::Unscoped,
            (Ok(Some(carried)), None) => self.plan(&carried).map(|plan| {
                let begins = settings.profile.begins_session(
                    &self.service.name,
                    head.method.as_str(),
                    head.uri.path(),
                );
                let plan = if begins { Rc::new(session::at_one_site(&plan)) } else { plan };
                (carried, plan)
            }),
        };
        match planned {
            Ok((carried, plan)) => Route::Scoped(carried, plan),
            Err(problem) => Route::Refused(problem),
        }
    }

    /// To the site that began a session, whatever the scope says. Without a scope, it has that of the site.
    fn to_session(
        &self,
        carried: Option<Carried>,
        head: &Parts,
        site: &str,
    ) -> Result<(Carried, Rc<Plan>), Problem> {
        let mut members = self.state.sites.members().iter();
        let site = members.find(|own| own.name() == site).ok_or_else(|| session::lost(site))?;
        let text = || format!("{}: {}", self.service.name, site.name());
        let carried = match carried {
            None => self.carried(Found::Written { text: text(), carrier: Carrier::Path }, head)?,
            carried => carried,
        };
        let carried = carried.ok_or_else(|| session::lost(site.name()))?;
        Ok((carried, Rc::new(Plan::Site(site.clone()))))
    }

    /// The scope of this request, if it has one.
    fn carried(&self, found: Found, head: &Parts) -> Result<Option<Carried>, Problem> {
        let headers = &head.headers;
        let bad_scope = |diagnostic: Diagnostic| Problem::bad_scope(&diagnostic);
        let read = |text: &str| self.state.scope(text).map_err(bad_scope);
        let carried = match found {
            Found::Nothing => return Ok(None),
            Found::Written { text, carrier } => {
                let scope = read(&text)?;
                // What a service hands on may come from a site that knows more services.
                if carrier != Carrier::Baggage || self.entry.listener == Listener::Public {
                    self.state.check_names(&scope).map_err(bad_scope)?;
                }
                self.state.check(&scope).map_err(bad_scope)?;
                let writes = !matches!(head.method, Method::GET | Method::HEAD | Method::OPTIONS);
                self.state.check_together(&scope, writes.then_some(&*self.service.name))?;
                let carry = &self.core.shared.carry;
                let token = carry.token(headers);
                let sender = token.unwrap_or_else(|| carry.sender(headers, self.client.ip()));
                Carried { scope, entered: self.state.settings().site.clone(), hops: 0, sender, token }
            }
            Found::Caused(record) if self.state.sites.find(record.here.name()).is_none() => {
                // A reload took that site away: what `here` means is no longer known.
                return Err(carry::Error::ScopeLost.into());
            }
            Found::Caused(record) => Carried {
                scope: read(&record.scope)?,
                entered: record.here,
                hops: record.hops,
                sender: record.sender,
                token: record.token,
            },
        };
        if carried.hops > MOST_HOPS {
            return Err(Problem::new(StatusCode::LOOP_DETECTED, "loop", "This request causes itself")
                .detail(format!("more than {MOST_HOPS} calls led to this one"))
                .unsent());
        }
        Ok(Some(carried).filter(|carried| !carried.scope.scope.is_empty()))
    }

    /// Where this service runs: where the scope says, else where its caller runs, which is here, unless
    /// the profile says that it runs where the client entered.
    fn plan(&self, carried: &Carried) -> Result<Rc<Plan>, Problem> {
        let settings = self.state.settings();
        let plan = self.state.plan(&carried.scope, &self.service.name, &carried.entered);
        match plan.map_err(|diagnostic| Problem::bad_scope(&diagnostic))? {
            Some(plan) => Ok(plan),
            None if settings.profile.runs_at_origin(&self.service.name) => {
                Ok(Rc::new(Plan::Site(carried.entered.clone())))
            }
            None => Ok(Rc::new(Plan::Site(settings.site.clone()))),
        }
    }

    /// Counts a scoped request, and begins its line of the audit, if one is kept.
    pub(crate) fn scoped(&self, head: &Parts, carried: &Carried, plan: &Plan) -> Scoped {
        self.core.counts.scoped.add(1);
        if let (Some(identities), Listener::Public) = (&self.core.shared.identities, self.entry.listener) {
            identities.scoped(self.state, carried, &head.headers);
        }
        let token = carried.token.filter(|_| self.entry.listener == Listener::Public);
        let line = self.who_and_what(head).map(|mut line| {
            line.insert("entered".to_owned(), carried.entered.name().into());
            line.insert("scope".to_owned(), (*carried.scope.text).into());
            line.insert("plan".to_owned(), plan.to_string().into());
            (line, Instant::now())
        });
        Scoped { token, line }
    }

    /// Counts a request that was refused for its scope, and writes that down.
    pub(crate) fn refused(&self, head: &Parts, problem: &Problem) {
        self.core.counts.refused.add(1);
        if let Some(mut line) = self.who_and_what(head) {
            line.insert("refused".to_owned(), problem.kind().into());
            line.insert("status".to_owned(), problem.status().as_u16().into());
            self.core.shared.audit.write(&line.into());
        }
    }

    fn who_and_what(&self, head: &Parts) -> Option<Map<String, Value>> {
        if !self.core.shared.audit.is_on() {
            return None;
        }
        let now = outside::time_of_day().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let line = json!({
            "time": now.as_secs_f64(),
            "client": self.client.to_string(),
            "service": self.service.name,
            "method": head.method.as_str(),
            "path": head.uri.path(),
        });
        match line {
            Value::Object(line) => Some(line),
            _ => None,
        }
    }
}

/// A scoped request whose answer is still to come.
pub(crate) struct Scoped {
    token: Option<carry::Sender>,
    line: Option<(Map<String, Value>, Instant)>,
}

impl Scoped {
    /// Counts a request like one before it, with the same token, of which no audit is kept.
    pub(crate) fn again(core: &Core, token: Option<carry::Sender>) -> Scoped {
        core.counts.scoped.add(1);
        Scoped { token, line: None }
    }

    /// The token by which its client is known, if it has one.
    pub(crate) fn token(&self) -> Option<carry::Sender> {
        self.token
    }

    /// What came of it.
    pub(crate) fn answered(self, core: &Core, status: StatusCode, sites: Option<&HeaderValue>) {
        core.let_in(self.token, status);
        let Some((mut line, began)) = self.line else { return };
        line.insert("status".to_owned(), status.as_u16().into());
        line.insert("sites".to_owned(), sites.and_then(|sites| sites.to_str().ok()).into());
        line.insert("ms".to_owned(), u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX).into());
        core.shared.audit.write(&line.into());
    }
}
