//! What is asked, under which rules, and what is refused before any site is asked.

use std::fmt;
use std::time::Duration;

use scope::{Level, Plan, Site};

/// What a request does. It decides what the operators of a plan mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Reads one resource.
    Read,
    /// Reads a list of resources.
    List,
    /// Changes something.
    Write {
        /// Whether the client chose the name of what it writes, as in a PUT; then a site can be asked
        /// whether that exists.
        chosen_name: bool,
    },
}

impl Request {
    pub(crate) fn is_write(self) -> bool {
        matches!(self, Request::Write { .. })
    }
}

/// What a profile and the configuration say of answers and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Statuses that prove that a write had no effect.
    pub no_effect: Vec<u16>,
    /// Statuses that count as failing for a read, besides 404, 410, 429 and the 5xx.
    pub fails: Vec<u16>,
    /// How long a site may take to begin its answer before a read is hedged to the next. The round trip
    /// to the site, where it is known, comes on top.
    pub hedge_after: Duration,
    /// How long a leg may take to begin its answer.
    pub leg_timeout: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            no_effect: Vec::new(),
            fails: Vec::new(),
            // Longer than most reads take at a healthy site, so that few are asked for twice.
            hedge_after: Duration::from_millis(100),
            // What clients commonly wait for, halved: a second site can still answer in their time.
            leg_timeout: Duration::from_secs(30),
        }
    }
}

/// What is known of the sites when a run starts.
pub trait Knowledge {
    /// The round trip to a site, from here.
    fn rtt(&self, site: &Site) -> Option<Duration>;
    /// Whether a site is believed to answer. One that is not is asked last, not never.
    fn available(&self, site: &Site) -> bool;
}

/// Why a plan cannot be run for a request. No site was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// `&` on a list: merging is not there yet.
    Merge,
    /// `&` on a write: replication is not there yet.
    Replication,
    /// `^` on a list: comparing lists is not there yet.
    UniqueItems,
    /// A level other than the default one.
    Level(Level),
    /// `^` on a write whose name the client did not choose: no site can be asked whether it exists.
    NeedsName,
}

impl Refused {
    /// The status that says so to the client.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Refused::NeedsName => 422,
            Refused::Merge | Refused::Replication | Refused::UniqueItems | Refused::Level(_) => 501,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Merge => f.write_str("lists of several sites (`&`) cannot be merged yet"),
            Refused::Replication => f.write_str("a write to several sites (`&`) is not supported yet"),
            Refused::UniqueItems => f.write_str("`^` on a list is not supported yet"),
            Refused::Level(level) => write!(f, "the level `@{}` is not supported yet", level.name()),
            Refused::NeedsName => {
                f.write_str("`^` on a write needs a name that the client chose, as in a PUT to its path")
            }
        }
    }
}

impl std::error::Error for Refused {}

/// Refuses what cannot be run, wherever in the plan it stands: a fallback that would be refused only
/// once it is needed would be no fallback.
pub(crate) fn check(plan: &Plan, request: Request) -> Result<(), Refused> {
    let operands = match plan {
        Plan::Site(_) => return Ok(()),
        Plan::Within(_, inner) => return check(inner, request),
        Plan::All(level, _) if *level != Level::Eventual => return Err(Refused::Level(*level)),
        Plan::All(_, operands) if operands.len() > 1 => match request {
            Request::Read => operands,
            Request::List => return Err(Refused::Merge),
            Request::Write { .. } => return Err(Refused::Replication),
        },
        Plan::One(operands) => match request {
            Request::List => return Err(Refused::UniqueItems),
            Request::Write { chosen_name: false } => return Err(Refused::NeedsName),
            Request::Read | Request::Write { chosen_name: true } => operands,
        },
        Plan::All(_, operands) | Plan::Any(operands) | Plan::Otherwise(operands) => operands,
    };
    operands.iter().try_for_each(|operand| check(operand, request))
}
