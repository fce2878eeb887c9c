//! The headers that are involved, their names read once.

use http::header::{HeaderMap, HeaderName, InvalidHeaderName};
use profile::{Form, Propagation};

pub(super) const X_SCOPE: HeaderName = HeaderName::from_static("x-scope");
pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(super) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
pub(super) const BAGGAGE: HeaderName = HeaderName::from_static("baggage");

/// The member of `tracestate` and `baggage` that is a key.
pub(super) const KEY_MEMBER: &str = "archipel";
/// The member of `baggage` that is a scope.
pub(super) const SCOPE_MEMBER: &str = "scope";

/// An application's propagation, ready for use.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) tracestate: bool,
    pub(super) baggage: bool,
    pub(super) headers: Vec<(HeaderName, Form)>,
    pub(super) sender: Vec<HeaderName>,
    pub(super) logins: Vec<Login>,
}

/// How a service gets a token for itself.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) service: String,
    pub(super) method: String,
    pub(super) path: String,
    /// Where the answer has the token.
    pub(super) header: HeaderName,
}

impl Names {
    /// Whether a field may decide which scope a request has, or be set when one is handed on; by its name in any
    /// case, and with any spelling of [`spellings`].
    pub(super) fn has(&self, name: &[u8]) -> bool {
        // The length rules most fields out at the cost of one comparison.
        let known = match name.len() {
            7 => is_spelling(name, &X_SCOPE) || is_spelling(name, &BAGGAGE),
            10 => is_spelling(name, &TRACESTATE),
            11 => is_spelling(name, &TRACEPARENT),
            _ => false,
        };
        known
            || self.headers.iter().any(|(known, _)| is_spelling(name, known))
            || self.sender.iter().any(|known| is_spelling(name, known))
    }

    pub(super) fn new(propagation: &Propagation) -> Result<Names, InvalidHeaderName> {
        let header = |header: &profile::Header| Ok((header.name.parse()?, header.form));
        let login = |token: &profile::ServiceToken| {
            Ok(Login {
                service: token.service.clone(),
                method: token.method.clone(),
                path: token.path.clone(),
                header: token.header.parse()?,
            })
        };
        Ok(Names {
            tracestate: propagation.tracestate,
            baggage: propagation.baggage,
            headers: propagation.headers.iter().map(header).collect::<Result<_, InvalidHeaderName>>()?,
            sender: propagation.sender.iter().map(|name| name.parse()).collect::<Result<_, _>>()?,
            logins: propagation.service_tokens.iter().map(login).collect::<Result<_, InvalidHeaderName>>()?,
        })
    }
}

/// The names under which a service may see this header: its own, and those with `_` for `-`, which CGI and
/// WSGI cannot tell from it.
pub(super) fn spellings(headers: &HeaderMap, name: &HeaderName) -> Vec<HeaderName> {
    headers.keys().filter(|other| is_spelling(other.as_str().as_bytes(), name)).cloned().collect()
}

fn is_spelling(other: &[u8], name: &HeaderName) -> bool {
    let name = name.as_str().as_bytes();
    let plain = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    other.len() == name.len() && other.iter().map(plain).eq(name.iter().map(plain))
}
