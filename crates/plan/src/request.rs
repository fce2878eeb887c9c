//! What is asked, under which rules, and what is refused before any site is asked.

use std::fmt;
use std::time::Duration;

use scope::{Level, Plan, Site};

use crate::event::Why;
use crate::replicas;

/// What a request does. It decides what the operators of a plan mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Reads one resource.
    Read,
    /// Reads a list of resources, or what may be one.
    List {
        /// A list that lacks the answer of a site has failed. A 404 counts as lacking it, so a driver that
        /// does not know yet whether this is a list leaves this off, and refuses a partial one itself.
        strict: bool,
    },
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

    pub(crate) fn is_list(self) -> bool {
        matches!(self, Request::List { .. })
    }
}

/// What the configuration says of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long a site whose pace is not known may take to begin its answer before a read is hedged to
    /// the next. The round trip to the site, where it is known, comes on top.
    pub hedge_after: Duration,
    /// How long a leg may take to begin its answer.
    pub leg_timeout: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
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
    /// Whether a site can be asked. The local one always can.
    fn reach(&self, site: &Site) -> Reach;
    /// After which time an answer of a site is unusually late, learned from recent ones: see
    /// [`crate::Pace`].
    fn patience(&self, site: &Site) -> Option<Duration> {
        let _ = site;
        None
    }
}

/// Whether a site can be asked, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// It is believed to answer.
    Yes,
    /// It may answer: where there is a choice it is asked last, not never.
    Unknown,
    /// It cannot be reached: nothing is sent, and it has failed at once.
    Unreachable,
    /// It is not to be used: as if it could not be reached.
    Quarantined,
}

impl Reach {
    /// Why a site is not asked.
    pub(crate) fn refusal(self) -> Option<Why> {
        match self {
            Reach::Yes | Reach::Unknown => None,
            Reach::Unreachable => Some(Why::Unreachable),
            Reach::Quarantined => Some(Why::Quarantined),
        }
    }
}

/// Why a plan cannot be run for a request. No site was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A read at a level that needs the word of several replicas.
    Level(Level),
    /// `^` on a write whose name the client did not choose: no site can be asked whether it exists.
    NeedsName,
    /// A write on `&` of what is no choice of sites: a `^` or a `within`.
    NoSites,
    /// A write on `&` of groups with different levels.
    TwoLevels,
    /// A write on `^` of a `&`: what exactly one has cannot be what several have.
    Contrary,
}

impl Refused {
    /// The status that says so to the client.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Refused::NeedsName | Refused::NoSites | Refused::TwoLevels | Refused::Contrary => 422,
            Refused::Level(_) => 501,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Level(level) => write!(
                f,
                "a read at `@{}` is of one resource that has replicas at such a level: this one is not known to",
                level.name()
            ),
            Refused::NeedsName => {
                f.write_str("`^` on a write needs a name that the client chose, as in a PUT to its path")
            }
            Refused::NoSites => f.write_str(
                "a write on `&` needs sites to write to: `|` and `;` may choose them, `^` and `within` may only \
                 stand around the whole group",
            ),
            Refused::TwoLevels => f.write_str("a write on `&` has one level: `(A & B & C) @eventual`"),
            Refused::Contrary => {
                f.write_str("a write on `^` makes what exactly one site has, one on `&` what several have")
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
        Plan::All(level, operands) if request.is_write() => {
            if replicas::is_group(*level, operands) {
                return replicas::check(*level, operands);
            }
            operands
        }
        Plan::All(level, operands) => match level {
            // A read at `@weak` promises no more than one at `@eventual` does.
            Level::Eventual | Level::Weak => operands,
            Level::Quorum | Level::Strong => return Err(Refused::Level(*level)),
        },
        Plan::One(_) if request == (Request::Write { chosen_name: false }) => return Err(Refused::NeedsName),
        Plan::One(operands) if request.is_write() && operands.iter().any(replicas::is_in) => {
            return Err(Refused::Contrary);
        }
        Plan::One(operands) | Plan::Any(operands) | Plan::Otherwise(operands) => operands,
    };
    operands.iter().try_for_each(|operand| check(operand, request))
}
