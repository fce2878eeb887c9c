//! Requests of a round and their outcomes, as clients recorded them.

use std::fmt;

use serde_json::{Value, json};

use crate::client::Outcome;
use crate::site;

/// A level of replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Weak,
    Eventual,
    Quorum,
    Strong,
}

impl Level {
    pub(crate) const ALL: [Level; 4] = [Level::Weak, Level::Eventual, Level::Quorum, Level::Strong];

    /// Whether writes have one order.
    pub(crate) fn is_ordered(self) -> bool {
        matches!(self, Level::Quorum | Level::Strong)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Weak => "@weak",
            Level::Eventual => "@eventual",
            Level::Quorum => "@quorum",
            Level::Strong => "@strong",
        })
    }
}

/// What clients do to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Adds, and patches of a field of their own: each is seen by itself, and nothing erases it.
    Counter,
    /// Replaces its value.
    Replaced,
    /// Patches its value.
    Patched,
    /// Made by a client on the way, added to, and often deleted.
    Brief,
}

/// A replicated register.
#[derive(Clone, Debug)]
pub(crate) struct Register {
    /// The tag of the request that made it, which its documents have as `made`.
    pub(crate) made: String,
    /// Its path for clients.
    pub(crate) path: String,
    pub(crate) level: Level,
    /// The sites of its replicas.
    pub(crate) sites: Vec<usize>,
    pub(crate) role: Role,
}

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Makes a replicated register.
    Create,
    Add,
    /// Patches a field of the request's own, on a register that only counts.
    Mark,
    /// Patches the value.
    Patch,
    /// Replaces the document.
    Put,
    Read,
    Delete,
    /// Makes an ordinary register by a plan of several sites, `;` or `|`.
    Forward,
    /// Puts a name at one of several sites, `^`.
    Exclude,
    /// Asks the local service, without a scope.
    Local,
    /// Lists the registers of several sites.
    List,
}

impl Act {
    /// Whether it is a write.
    pub(crate) fn writes(&self) -> bool {
        !matches!(self, Act::Read | Act::Local | Act::List)
    }
}

/// A client's conclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was acknowledged.
    Acknowledged,
    /// It was not executed, and never will be.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// A name of its own, which services log.
    pub(crate) tag: String,
    /// The site it was sent to.
    pub(crate) site: usize,
    pub(crate) act: Act,
    /// The path it was for.
    pub(crate) path: String,
    /// Its scope, or nothing.
    pub(crate) scope: String,
    /// The register it was for: the one it makes, of a creation. Nothing where it has to do with no replicas.
    pub(crate) register: Option<Register>,
    /// Microseconds of the wall clock.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) outcome: Outcome,
    /// A site that may have been the only one to record it was given an old copy of its state later.
    pub(crate) forgotten: bool,
}

impl Request {
    /// The status; 0 without an answer.
    pub(crate) fn status(&self) -> u16 {
        if let Outcome::Answered(answer) = &self.outcome { answer.status } else { 0 }
    }

    /// The document of the answer; null without one.
    pub(crate) fn body(&self) -> &Value {
        const NULL: &Value = &Value::Null;
        if let Outcome::Answered(answer) = &self.outcome { &answer.body } else { NULL }
    }

    /// `Scope-Sites` of the answer.
    pub(crate) fn scope_sites(&self) -> &str {
        if let Outcome::Answered(answer) = &self.outcome { answer.header("scope-sites") } else { "" }
    }

    /// The last part of a problem's type.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.body().get("type").and_then(Value::as_str)?.strip_prefix("urn:archipel:")
    }

    /// The address of its operation, in the answer's header or document.
    pub(crate) fn operation(&self) -> Option<&str> {
        let Outcome::Answered(answer) = &self.outcome else { return None };
        let header = Some(answer.header("scope-operation")).filter(|name| !name.is_empty());
        header.or_else(|| answer.body.get("operation").and_then(Value::as_str))
    }

    /// Whether the site that was asked says that its own replica executed it.
    pub(crate) fn taken_there(&self) -> bool {
        self.scope_sites().contains(&format!("\"{}\";status=2", site::name(self.site)))
    }

    /// Whether a site may have been the first to take it.
    pub(crate) fn may_be_taken_at(&self, site: usize) -> bool {
        self.site == site || self.scope_sites().contains(&format!("\"{}\";status=2", site::name(site)))
    }

    /// What its client may conclude: docs/requests.md.
    pub(crate) fn verdict(&self) -> Verdict {
        let unknown = ["unknown-outcome", "timeout", "no-answer", "missing-answer", "no-site-answered"];
        match &self.outcome {
            Outcome::NotSent => Verdict::Refused,
            Outcome::Lost | Outcome::Silent => Verdict::Unknown,
            Outcome::Answered(answer) => match (answer.status, self.problem()) {
                (200..=299, _) if self.forgotten => Verdict::Unknown,
                (200..=299, _) => Verdict::Acknowledged,
                // No site executed the write; of a read that says nothing.
                (_, Some("no-site-answered")) if self.act.writes() => Verdict::Refused,
                (_, Some(problem)) if unknown.contains(&problem) => Verdict::Unknown,
                (400..=499, _) | (501 | 503 | 507, Some(_)) => Verdict::Refused,
                // A service's own 5xx proves nothing.
                _ => Verdict::Unknown,
            },
        }
    }

    /// One line of the history that is kept with a violation.
    pub(crate) fn line(&self) -> String {
        let outcome = match &self.outcome {
            Outcome::Answered(answer) => json!({ "status": answer.status, "body": answer.body }),
            other => json!(format!("{other:?}")),
        };
        json!({
            "tag": self.tag,
            "site": site::name(self.site),
            "act": format!("{:?}", self.act),
            "path": self.path,
            "scope": self.scope,
            "register": self.register.as_ref().map(|register| register.made.as_str()),
            "level": self.register.as_ref().map(|register| register.level.to_string()),
            "from": self.from,
            "to": self.to,
            "scope_sites": self.scope_sites(),
            "operation": self.operation(),
            "outcome": outcome,
        })
        .to_string()
    }

    /// A few words for a violation.
    pub(crate) fn brief(&self) -> String {
        let level = self.register.as_ref().map(|register| format!(" {}", register.level)).unwrap_or_default();
        let milliseconds = self.to.saturating_sub(self.from) / 1_000;
        let outcome = match &self.outcome {
            Outcome::Answered(answer) => match self.problem() {
                Some(problem) => format!("{} {problem}", answer.status),
                None => answer.status.to_string(),
            },
            other => format!("{other:?}"),
        };
        let (tag, act, site) = (&self.tag, &self.act, site::name(self.site));
        format!("{tag} ({act:?}{level} at {site}: {outcome} after {milliseconds} ms)")
    }
}
