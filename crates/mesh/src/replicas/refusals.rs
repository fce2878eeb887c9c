//! What is refused, and in which words.

use http::StatusCode;
use http::request::Parts;

use crate::problem::Problem;

pub(super) fn hidden() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not-found", "There is no such resource")
}

pub(super) fn no_replication() -> Problem {
    Problem::new(StatusCode::NOT_IMPLEMENTED, "unsupported-plan", "This scope cannot be carried out")
        .detail("a write to several sites (`&`) needs [replication] in the configuration of this site")
        .unsent()
}

pub(super) fn not_replicable(head: &Parts) -> Problem {
    let problem = Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "not-replicable",
        "This write cannot be made at several sites",
    );
    let detail = match head.method {
        http::Method::POST => "the profile has no kind of resource that is made by a POST here",
        http::Method::PUT => "the profile has no kind of resource at this path",
        _ => "what it writes to is not replicated: name the one site that has it",
    };
    problem.detail(detail)
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
