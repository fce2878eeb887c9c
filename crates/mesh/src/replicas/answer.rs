//! What a client is told of its write to a replicated resource.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use http::{Response, StatusCode};
use plan::{Asked, Said};
use replica::{OpId, Reply};
use scope::Site;
use serde_json::json;

use super::{Answered, Name, operations, trying};
use crate::body::AnswerBody;
use crate::leg::LegFailure;
use crate::problem::Problem;
use crate::said;

/// Names the operation. `archipel-` would be for peers only.
pub(crate) const OPERATION: &str = "scope-operation";

/// Names a write that another site was asked to accept, as the site which a client asked calls it. Only sites set it; it is
/// kept with the write, so that every site that has it knows both names.
pub(crate) const REQUEST: &str = "scope-request";

/// Nobody knows what became of a write that was sent to another site, which gave no answer.
pub(crate) fn lost(op: &OpId, failure: &LegFailure, site: &Site) -> Response<AnswerBody> {
    let problem = Problem::new(
        StatusCode::GATEWAY_TIMEOUT,
        "unknown-outcome",
        "It is not known whether the write was executed",
    );
    let detail =
        format!("{site} gave no answer: {}; `operation` says where to ask what became of it", failure.detail);
    let asked = [Asked { site: site.clone(), said: Said::Error(failure.why), elapsed: None }];
    let mut response = problem.detail(detail).operation(Some(op.clone())).into_response();
    name(&mut response, op);
    said::put(response.headers_mut(), &asked);
    response.headers_mut().insert(said::TOLD, HeaderValue::from_static("1"));
    response
}

/// Names the operation in an answer.
pub(crate) fn name(response: &mut Response<AnswerBody>, op: &OpId) {
    if let Ok(value) = HeaderValue::try_from(op.to_string()) {
        response.headers_mut().insert(OPERATION, value);
    }
}

/// The answer of the keeper, as HTTP. The service's own words are still as it said them.
pub(crate) fn respond(answered: Answered) -> Response<AnswerBody> {
    let Answered { reply, op, meta, response, sites } = answered;
    let mut response = match (&reply, response) {
        (Reply::Executed { .. } | Reply::Refused { .. }, Some(response)) => response.map(AnswerBody::full),
        (Reply::Executed { status } | Reply::Refused { status }, None) => {
            let mut response = Response::new(AnswerBody::full(Bytes::new()));
            *response.status_mut() = StatusCode::from_u16(*status).unwrap_or(StatusCode::OK);
            response
        }
        (Reply::Recorded, _) => recorded(op.as_ref(), meta.as_ref().map(Name::from).as_ref()),
        (reply, _) => problem(reply, op.clone()).into_response(),
    };
    trying::point(&mut response, &reply);
    if let Some(op) = &op {
        name(&mut response, op);
        said::tell(response.headers_mut(), &sites);
    }
    response
}

/// It is recorded, and will be executed.
fn recorded(op: Option<&OpId>, name: Option<&Name>) -> Response<AnswerBody> {
    let address = op.map(operations::address);
    let document = json!({
        "operation": address,
        "resource": name.map(|name| json!({ "service": name.service(), "path": name.path() })),
    });
    let mut response = Response::new(AnswerBody::full(Bytes::from(document.to_string())));
    *response.status_mut() = StatusCode::ACCEPTED;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(address) = address.and_then(|address| HeaderValue::try_from(address).ok()) {
        headers.insert(LOCATION, address);
    }
    response
}

fn problem(reply: &Reply, op: Option<OpId>) -> Problem {
    let unprocessable = |kind, title| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, kind, title);
    let unavailable = |kind, title| Problem::new(StatusCode::SERVICE_UNAVAILABLE, kind, title).unsent();
    match reply {
        Reply::Unavailable => {
            unavailable("unreachable", "This site cannot execute the write for now; nothing was executed")
                .detail(
                    "its service cannot be reached or has not made what the write names, or it can keep no more writes \
                     for other sites",
                )
        }
        Reply::NotGood => unavailable("replica-not-good", "The replica at this site takes no writes for now")
            .detail("it is behind the others, or has diverged from them"),
        Reply::Unknown => Problem::new(
            StatusCode::GATEWAY_TIMEOUT,
            "unknown-outcome",
            "It is not known whether the write was executed",
        )
        .detail("it is recorded and goes on: `operation` says where to ask what became of it")
        .operation(op),
        Reply::Beaten => Problem::new(
            StatusCode::CONFLICT,
            "beaten",
            "Another write, made at the same time, wins; this one is executed nowhere",
        ),
        Reply::NoResource => {
            Problem::new(StatusCode::NOT_FOUND, "not-found", "There is no such resource")
        }
        Reply::NotRepeatable => unprocessable("not-repeatable", "This write cannot be executed more than once")
            .detail(
                "at `@eventual` each replica executes writes in its own order, and again where it must: create the \
                 resource at `@quorum`, or say in the profile that the action is idempotent",
            ),
        Reply::NoOrder => unprocessable("no-order", "The level of this resource needs one order of its writes")
            .detail("two sites at least make that order: `@weak` and `@eventual` need none"),
        Reply::Elsewhere(site) => {
            unavailable("no-leader", "The site that orders these writes changed too often; nothing was executed")
                .detail(format!("it was {site} last"))
        }
        Reply::NoMajority => unavailable(
            "no-majority",
            "No majority of the replicas' sites can be reached; nothing was executed",
        )
        .detail("writes at `@quorum` and `@strong` go on where most of the sites are"),
        Reply::Missing(site) => {
            unavailable("site-missing", "Not every site with a replica can be reached; nothing was executed")
                .detail(format!("at `@strong` all have to be there, and {site} is not"))
        }
        Reply::Senseless => unprocessable("senseless", "A new resource is made by a create, at its own sites"),
        // Not what a write is told.
        Reply::Recorded
        | Reply::Current
        | Reply::Executed { .. }
        | Reply::Refused { .. }
        | Reply::Changed
        | Reply::Unchanged(_) => {
            Problem::new(StatusCode::BAD_GATEWAY, "no-answer", "The answer of the keeper was lost")
        }
    }
}
