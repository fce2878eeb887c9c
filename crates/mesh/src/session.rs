//! Sessions of several requests, such as an upload in parts: each lives at the site that began it, whatever the scopes of its
//! later requests say.
//!
//! A service answers the first request with the address of the next (`Location`). The profile says which addresses are such.
//! The mesh of the site of entry adds the answering site to their queries. It takes that out again when a client comes with the
//! address, and sends the request there. Nothing is remembered, so a restart loses no session.

use http::header::{HeaderValue, LOCATION};
use http::{Response, StatusCode};
use profile::Profile;
use scope::{Plan, Site};

use crate::carry::session;
use crate::problem::Problem;

/// The site whose answer a response is, where a plan chose it among several.
#[derive(Clone)]
pub(crate) struct AnsweredBy(pub(crate) Site);

/// Adds the site to the address of a session in an answer, so that later requests find it.
pub(crate) fn mark<B>(profile: &Profile, service: &str, plan: &Plan, response: &mut Response<B>) {
    let site = match plan {
        Plan::Site(site) => Some(site.clone()),
        _ => response.extensions_mut().remove().map(|AnsweredBy(site)| site),
    };
    let address = response.headers().get(LOCATION).and_then(|address| address.to_str().ok());
    let is_session = |path: &str| profile.is_session(service, path);
    let marked =
        site.zip(address).and_then(|(site, address)| session::mark(address, site.name(), is_session));
    if let Some(marked) = marked.and_then(|marked| HeaderValue::try_from(marked).ok()) {
        response.headers_mut().insert(LOCATION, marked);
    }
}

/// The site that began a session is none any more: its client begins anew.
pub(crate) fn lost(site: &str) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "session-lost", "The site that began this session is not known here")
        .detail(format!("`{site}` is no site; begin the session anew"))
        .unsent()
}
