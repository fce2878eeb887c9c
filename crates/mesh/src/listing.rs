//! `/_scope/sites`: which sites a client can name. No scope is written like that: one has a `:`.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use plan::{Knowledge, Reach};
use serde_json::{Value, json};

use crate::body::AnswerBody;
use crate::core::State;
use crate::problem::Problem;
use crate::replicas::operations;

const PATH: &str = "/_scope/sites";

/// Whether a request asks the mesh itself, and no service.
pub(crate) fn is_for_the_mesh(head: &Parts) -> bool {
    head.uri.path() == PATH || operations::asked(head).is_some()
}

/// The list of sites, if a request asks for it.
pub(crate) fn asked(state: &State, head: &Parts) -> Option<Response<AnswerBody>> {
    if head.uri.path() != PATH {
        return None;
    }
    if !matches!(head.method, Method::GET | Method::HEAD) {
        let problem = Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "read-only",
            "Which sites there are can only be read",
        );
        return Some(problem.into_response());
    }
    let mut response = Response::new(AnswerBody::full(Bytes::from(document(state).to_string())));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Some(response)
}

/// What clients need to write a scope, and nothing of addresses.
fn document(state: &State) -> Value {
    let (sites, here) = (&state.sites, &state.settings().site);
    let services = sites.services().unwrap_or_default();
    let listed = sites.members().iter().enumerate().map(|(index, site)| {
        let reach = match state.reach(site) {
            _ if site == here => "here",
            Reach::Yes | Reach::Unknown => "reachable",
            Reach::Unreachable => "unreachable",
            Reach::Quarantined => "quarantined",
        };
        let offered: Vec<&&str> = services.iter().filter(|service| sites.offers(index, service)).collect();
        let rtt = sites.rtt(sites.here(), index).map(|rtt| rtt.as_secs_f64() * 1000.0);
        json!({ "site": site.name(), "reach": reach, "rtt_ms": rtt, "services": offered })
    });
    json!({ "here": here.name(), "sites": listed.collect::<Vec<_>>() })
}
