//! `/_scope/operations/<site>/<run>/<number>`: what became of a write. No scope is written like that: one has a `:`.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use replica::OpId;
use serde_json::{Value, json};

use super::{Fate, Name, Replicas};
use crate::body::AnswerBody;
use crate::problem::Problem;
use crate::said;

const PREFIX: &str = "/_scope/operations/";

/// Where a client learns what became of an operation.
pub(crate) fn address(op: &OpId) -> String {
    // The names of sites are letters, digits, spaces, `.`, `_` and `-`.
    format!("{PREFIX}{}", op.to_string().replace(' ', "%20"))
}

/// The operation whose fate a request asks for. Nothing: it asks for something else.
pub(crate) fn asked(head: &Parts) -> Option<Result<OpId, Problem>> {
    let rest = head.uri.path().strip_prefix(PREFIX)?;
    if !matches!(head.method, Method::GET | Method::HEAD) {
        let problem = Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "read-only",
            "What became of an operation can only be read",
        );
        return Some(Err(problem));
    }
    let op = rest.replace("%20", " ").parse().ok();
    Some(op.ok_or_else(unknown))
}

/// What became of an operation.
pub(crate) async fn answer(replicas: Option<&Replicas>, op: OpId) -> Response<AnswerBody> {
    let fate = match replicas {
        Some(replicas) => replicas.fate(op.clone()).await,
        None => None,
    };
    match fate {
        Some(fate) => told(&op, &fate),
        None => unknown().into_response(),
    }
}

fn told(op: &OpId, fate: &Fate) -> Response<AnswerBody> {
    let name = Name::from(&fate.meta);
    let sites: Vec<Value> = fate.sites.iter().map(|(site, stand)| said::stand_json(site, *stand)).collect();
    let document = json!({
        "operation": op.to_string(),
        "resource": { "service": name.service(), "path": name.path() },
        "sites": sites,
    });
    let mut response = Response::new(AnswerBody::full(Bytes::from(document.to_string())));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn unknown() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "no-such-operation", "No such operation is known at this site")
        .detail("it may be known at the site that its address names; what every replica has executed is forgotten")
}
