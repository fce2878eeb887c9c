//! Identity across sites: a token is validated where it was issued, and told here as a user of this site.
//!
//! In the order in which a token meets them: this module (which headers have tokens, and what requests say of their
//! issuers), `ledger` and `shelf` (which site issued which), `validate` (asking the issuer), `people` (the users,
//! projects and roles of this site), `translate` (the answer), `template`. `vouch`: tokens that have expired. `projects`:
//! ids of projects in requests. `behalf`: under whose name this site executes what
//! another accepted.
//!
//! No application is known here by name: where tokens are, and how they are asked about, is data in its profile.

mod behalf;
mod ledger;
mod people;
mod projects;
mod shelf;
mod template;
mod translate;
mod validate;
mod vouch;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use http::header::{HeaderMap, HeaderName, HeaderValue, InvalidHeaderName};
use http::request::Parts;
use scope::{Plan, Site};

use crate::core::State;
use crate::handle::Entry;
use crate::leg::Carried;

pub(crate) use behalf::{Unvouched, credential, ended, has_login, may_bring, user_id};
pub(crate) use projects::localize;
pub(crate) use translate::Bearer;
pub(crate) use validate::{audit, sender, validated};
pub(crate) use vouch::vouch;

use ledger::Ledger;
use people::{Logins, People};
use shelf::Shelf;

/// Says in a leg which site issued each of its tokens: `x-auth-token=Site1, x-service-token=Site2`.
pub(crate) const ISSUERS: &str = "archipel-issuers";

/// Why a token of another site is not honoured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is not valid here.
    NotValid(String),
    /// Somebody who has to be asked cannot be.
    Unavailable(String),
}

/// The tokens of the application. Shared by all cores.
pub(crate) struct Identities {
    profile: profile::Identity,
    tokens: Vec<HeaderName>,
    asker: HeaderName,
    subject: HeaderName,
    issued: HeaderName,
    ledger: Ledger,
    logins: Logins,
}

impl Identities {
    /// With what is remembered in a directory, if there is one.
    pub(crate) fn open(
        profile: &profile::Identity,
        secret: &[u8],
        directory: Option<&Path>,
    ) -> Result<Identities, String> {
        let bad = |error: InvalidHeaderName| error.to_string();
        let tokens = profile.tokens.iter().map(|name| name.parse()).collect::<Result<_, _>>().map_err(bad)?;
        let shelf = directory.map(Shelf::open).transpose()?;
        Ok(Identities {
            tokens,
            asker: profile.validate.asker.parse().map_err(bad)?,
            subject: profile.validate.subject.parse().map_err(bad)?,
            issued: profile.issue.header.parse().map_err(bad)?,
            ledger: Ledger::new(secret, shelf, now()),
            logins: Logins::default(),
            profile: profile.clone(),
        })
    }

    /// Whether a request is one of those that the whole walk is for: it is answered with a token, or asks about one.
    pub(crate) fn concerns(&self, service: &str, head: &Parts) -> bool {
        self.is_issue(service, head) || self.is_validation(service, head)
    }

    /// Whether the service may get such requests at all.
    pub(crate) fn is_service(&self, service: &str) -> bool {
        service == self.profile.service
    }

    /// Whether a request is answered with a new token.
    pub(crate) fn is_issue(&self, service: &str, head: &Parts) -> bool {
        self.profile.issues(service, head.method.as_str(), head.uri.path())
    }

    /// Whether a request has the identity service itself take a token.
    pub(crate) fn shows_token(&self, service: &str, head: &Parts) -> bool {
        self.is_service(service) && only(&head.headers, &self.asker).is_some()
    }

    fn is_validation(&self, service: &str, head: &Parts) -> bool {
        self.profile.validates(service, head.method.as_str(), head.uri.path())
    }

    /// Whether a call of one of this site's services stays here whatever its scope says, or which other site's answer
    /// it needs. A service that logged in elsewhere would hold that site's addresses; and whether a token is valid is
    /// known where it was issued.
    pub(crate) fn place(&self, entry: &Entry, head: &Parts) -> Option<Place> {
        if entry.listener != crate::carry::Listener::Internal {
            return None;
        }
        if self.is_issue(&entry.service, head) {
            return Some(Place::Here);
        }
        if !self.is_validation(&entry.service, head) {
            return None;
        }
        let issuer = only(&head.headers, &self.subject).and_then(|token| self.issuer(token));
        Some(issuer.map_or(Place::Here, Place::Issuer))
    }

    fn issuer(&self, token: &HeaderValue) -> Option<Site> {
        self.ledger.issuer(self.ledger.mark(token.as_bytes()), now())
    }

    /// The token that a question is about, if nobody but whoever sent it says that another site issued it: then this
    /// site's own service is asked first, which knows its tokens and needs no other site for them.
    pub(crate) fn only_claimed<'h>(&self, headers: &'h HeaderMap) -> Option<&'h HeaderValue> {
        only(headers, &self.subject).filter(|token| !self.is_proved(token))
    }

    fn is_proved(&self, token: &HeaderValue) -> bool {
        self.ledger.is_proved(self.ledger.mark(token.as_bytes()), now())
    }

    /// This site's own service knows a token: whatever is said of it, it is its own.
    pub(crate) fn is_own(&self, token: &HeaderValue) {
        self.ledger.issued_here(self.ledger.mark(token.as_bytes()), now());
    }

    /// An answer to a login came from this site.
    pub(crate) fn issued(&self, here: &Site, by: &Site, answer: &HeaderMap) {
        let Some(token) = answer.get(&self.issued) else { return };
        let mark = self.ledger.mark(token.as_bytes());
        if by == here {
            self.ledger.issued_here(mark, now());
        } else {
            self.ledger.claim(mark, by, now());
        }
    }

    /// A client says, by its scope, at which site its tokens are known.
    pub(crate) fn scoped(&self, state: &State, carried: &Carried, headers: &HeaderMap) {
        let Ok(Some(plan)) = state.plan(&carried.scope, &self.profile.service, &carried.entered) else {
            return;
        };
        if let Plan::Site(site) = &*plan
            && *site != state.settings().site
        {
            for token in self.tokens.iter().filter_map(|name| only(headers, name)) {
                self.ledger.claim(self.ledger.mark(token.as_bytes()), site, now());
            }
        }
    }

    /// Says of each token of a request to another site who issued it.
    pub(crate) fn name_issuers(&self, here: &Site, headers: &mut HeaderMap) {
        let named = self.tokens.iter().filter_map(|name| {
            let issuer = self.issuer(only(headers, name)?);
            Some(format!("{name}={}", issuer.as_ref().unwrap_or(here)))
        });
        let named: Vec<String> = named.collect();
        // Names of sites are printable ASCII, without commas.
        if let Some(value) = HeaderValue::try_from(named.join(", ")).ok().filter(|_| !named.is_empty()) {
            headers.insert(ISSUERS, value);
        }
    }

    /// Learns what another site says of the tokens in its request.
    pub(crate) fn learn(&self, state: &State, headers: &HeaderMap) {
        let Some(named) = headers.get(ISSUERS).and_then(|named| named.to_str().ok()) else { return };
        for (name, site) in named.split(',').filter_map(|part| part.trim().split_once('=')) {
            let Some(name) = self.tokens.iter().find(|own| own.as_str() == name) else { continue };
            let other =
                |site: &Site| *site != state.settings().site && state.sites.find(site.name()).is_some();
            let (Some(token), Some(site)) = (only(headers, name), Site::new(site).filter(other)) else {
                continue;
            };
            self.ledger.claim(self.ledger.mark(token.as_bytes()), &site, now());
        }
    }
}

/// Where a call to the identity service goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// To this site's own.
    Here,
    /// Its subject was issued by another site.
    Issuer(Site),
}

/// The token in a header, if there is one, and one only.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|value| values.next().is_none() && !value.is_empty())
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
