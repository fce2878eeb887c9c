//! What is refused, and in which words.

use http::header::{CONTENT_ENCODING, HeaderMap};
use http::request::Parts;
use http::{Method, StatusCode};
use profile::Kind;
use replica::Reply;

use super::Name;
use crate::problem::Problem;

pub(super) fn hidden() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not-found", "There is no such resource")
}

/// A name means two things here.
pub(super) fn both(name: &Name) -> Problem {
    let title = "This name means two things here; nothing was executed";
    Problem::new(StatusCode::CONFLICT, "conflict", title).detail(format!(
        "`{name}` is a replicated resource, and the service of this site has another record of its own under the id {}: \
         delete that at the service itself, or `archipel replicas detach {name}`",
        name.id()
    ))
}

pub(super) fn no_replication() -> Problem {
    Problem::new(StatusCode::NOT_IMPLEMENTED, "unsupported-plan", "This scope cannot be carried out")
        .detail("a write to several sites (`&`) needs [replication] in the configuration of this site")
        .unsent()
}

/// No such thing can be replicated; why, where the profile says so.
pub(super) fn not_replicable(head: &Parts, barred: Option<&Kind>) -> Problem {
    let problem = Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "not-replicable",
        "This write cannot be made at several sites",
    );
    let detail = match head.method {
        Method::POST => "the profile has no kind of resource that is made by a POST here",
        Method::PUT => "the profile has no kind of resource at this path",
        _ => "what it writes to is not replicated: name the one site that has it",
    };
    match barred {
        Some(kind) => {
            let because = kind.because.as_ref().map(|because| format!(": {because}")).unwrap_or_default();
            problem.detail(format!("a {} is at one site only{because}; name that site", kind.name))
        }
        None => problem.detail(detail),
    }
}

/// Nobody knows how a write with this method behaves beside others.
pub(super) fn unknown_method(method: &Method, kind: &Kind) -> Problem {
    let title = "This write cannot be made at several sites";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not-replicable", title)
        .detail(format!(
            "the profile does not say what a {method} does to a {kind}; say it in the `operations` of that kind, or \
             name the one site that is to execute it",
            kind = kind.name
        ))
        .unsent()
}

/// The ids in a coded body could not be replaced by those of another site's service.
pub(super) fn coded(headers: &HeaderMap) -> Result<(), Problem> {
    let coding = headers.get(CONTENT_ENCODING);
    if coding.is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Ok(());
    }
    let title = "The body of this write is coded, and has to be read";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "coded", title)
        .detail("ids in it are replaced for each replica: send it without `Content-Encoding`")
        .unsent())
}

/// What is made has an id that is taken.
pub(super) fn exists(kind: &Kind, id: &str) -> Problem {
    let title = "There is one with this id already";
    Problem::new(StatusCode::CONFLICT, "conflict", title).detail(format!("the {} `{id}`", kind.name))
}

pub(super) fn not_readable() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "replica-not-good",
        "No replica of this resource can be read from here",
    )
    .detail("the one at this site is behind the others, has diverged from them, or is not there")
    .unsent()
}

/// What was asked for at a level is nothing that has it.
pub(super) fn no_level(level: scope::Level) -> Problem {
    Problem::refused(plan::Refused::Level(level))
}

/// What is at a site cannot be shown to be current.
pub(super) fn not_current(reply: &Reply) -> Problem {
    let (kind, title, detail) = match reply {
        Reply::NoMajority => (
            "no-majority",
            "No majority of the replicas' sites can be reached",
            "they would have to confirm that nothing newer was written; without `@quorum` the replica here can be read",
        ),
        Reply::NotGood => (
            "replica-not-good",
            "No replica of this resource can be read from here",
            "the one at this site changed while it was read, in a way that is not decided",
        ),
        _ => (
            "not-confirmed",
            "It could not be confirmed in time that what is here is current",
            "a write is under way that not every site has finished",
        ),
    };
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, kind, title).detail(detail).unsent()
}

pub(super) fn no_replica_here() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "unreachable",
        "No site with a replica can be reached; nothing was executed",
    )
    .unsent()
}

pub(super) fn dots() -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        "bad-path",
        "The path of a replicated resource has no `.` and no `..` in it",
    )
    .detail("a service may read such a path as another one: write it out")
}

pub(super) fn too_long() -> Problem {
    Problem::new(
        StatusCode::URI_TOO_LONG,
        "too-long",
        "The path and the query are too long to be kept for other replicas",
    )
    .detail("4 KiB can be")
}

pub(super) fn no_fields() -> Problem {
    Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "no-fields",
        "It cannot be told which fields of the resource this write sets",
    )
    .detail("a patch is a JSON object with the fields, or a JSON Patch")
}
