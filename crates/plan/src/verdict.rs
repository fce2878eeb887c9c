//! What an answer, or its absence, means for the request.

use crate::event::{Failure, Finding, Sent, Why};
use crate::request::Request;

/// What one leg settles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its answer is the answer.
    Answer,
    /// It failed, and another site may be asked.
    Failed(Failure),
    /// A write may have been executed, so no other site may be asked.
    Unknown,
}

/// What a status, and what is found of it, mean where there are other sites.
pub(crate) fn of_status(status: u16, finding: Finding, request: Request) -> Verdict {
    if request.is_write() {
        return match (status, finding) {
            (_, Finding::NoEffect) => Verdict::Failed(failure(status)),
            (500.., _) => Verdict::Unknown,
            // Also a 429: where it does not prove that nothing happened, no other site may be asked, and
            // what the site itself says is worth more than "unknown".
            _ => Verdict::Answer,
        };
    }
    match (status, finding) {
        (..400, Finding::Nothing) => Verdict::Failed(Failure::Nothing),
        (404 | 410 | 429 | 500.., _) | (_, Finding::Fails | Finding::NoEffect) => {
            Verdict::Failed(failure(status))
        }
        _ => Verdict::Answer,
    }
}

/// What a leg without an answer means.
pub(crate) fn of_loss(sent: Sent, why: Why, request: Request) -> Verdict {
    match (sent, why) {
        (Sent::Maybe, _) if request.is_write() => Verdict::Unknown,
        (_, Why::TimedOut) => Verdict::Failed(Failure::TimedOut),
        _ => Verdict::Failed(Failure::Unavailable),
    }
}

fn failure(status: u16) -> Failure {
    match status {
        404 | 410 => Failure::NotFound,
        // The site's own mesh, or a gateway before the service, waited in vain.
        504 => Failure::TimedOut,
        _ => Failure::Unavailable,
    }
}

/// What a site says of the resource that a write names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Exists,
    Absent,
    /// It does not say. A 403 hides both.
    Silent,
}

pub(crate) fn of_probe(status: u16) -> Presence {
    match status {
        ..400 => Presence::Exists,
        404 | 410 => Presence::Absent,
        _ => Presence::Silent,
    }
}
