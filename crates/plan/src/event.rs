//! What the driver tells a run, and what a run tells the driver.

use std::fmt;
use std::time::Duration;

use scope::{Level, Site};

use crate::answer::Answer;

/// One request to one site, or to a set of replicas, numbered from 0 in the order of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leg(pub usize);

/// One timer, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timer(pub usize);

/// What happened. An event that comes late, twice, or for what the run does not know, changes nothing.
///
/// `elapsed` is the time since the leg was sent, measured by the driver, for the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The leg's first byte is about to leave: from now on it may be executed.
    Sent {
        /// The leg.
        leg: Leg,
    },
    /// The head of the leg's answer came; its body is still to come.
    Answered {
        /// The leg.
        leg: Leg,
        /// Its final status, never a 1xx.
        status: u16,
        /// What the application's profile says of it.
        finding: Finding,
        /// Since it was sent.
        elapsed: Duration,
    },
    /// A site said whether it reserves the name for this request.
    Reserved {
        /// The leg.
        leg: Leg,
        /// It does. Else another request has it there.
        held: bool,
        /// Since it was sent.
        elapsed: Duration,
    },
    /// The leg ended without a complete answer, or because it was cancelled.
    Failed {
        /// The leg.
        leg: Leg,
        /// Whether it may have been executed. This is the last word on it, whatever was said before.
        sent: Sent,
        /// What happened to it.
        why: Why,
        /// Since it was sent.
        elapsed: Duration,
    },
    /// The time of a timer has passed.
    Fired {
        /// The timer.
        timer: Timer,
    },
    /// Nobody waits for the answer any more.
    ClientGone,
}

/// What an application's profile says of an answer. The driver has its head, and its body if that is needed; a run
/// has neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finding {
    /// Nothing: its status decides.
    #[default]
    Usual,
    /// It counts as failing. Of a write it proves nothing, and is then as usual.
    Fails,
    /// It counts as failing, and proves that a write had no effect.
    NoEffect,
    /// It is a list of what was looked up, and has nothing in it: as a 404 is for one resource, but a merged list lacks
    /// nothing without it. Of a write it says nothing.
    Nothing,
}

/// Whether a leg that ended may have been executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It provably was not: not connected, the stream refused, or the peer's mesh says so. Or what it made is
    /// provably gone.
    No,
    /// It may have been.
    Maybe,
}

/// How a leg ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no way to the site.
    Unreachable,
    /// The site is not to be used.
    Quarantined,
    /// It took too long.
    TimedOut,
    /// The site's end did not accept it.
    Refused,
    /// The connection broke.
    Reset,
    /// What came back is not an answer.
    Protocol,
    /// It was no longer needed.
    Cancelled,
    /// It was answered, what it made failed afterwards, and that is gone again.
    Undone,
    /// It was answered, and it is not known what became of what it made.
    Unsettled,
}

impl Why {
    /// One word, as in `"Site2";error=unreachable`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Why::Unreachable => "unreachable",
            Why::Quarantined => "quarantined",
            Why::TimedOut => "timeout",
            Why::Refused => "refused",
            Why::Reset => "reset",
            Why::Protocol => "protocol",
            Why::Cancelled => "cancelled",
            Why::Undone => "undone",
            Why::Unsettled => "unsettled",
        }
    }
}

/// What the driver is to do, in this order. `Answer`, `Merge` or `Fail` is the last one of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send the request to this site.
    Send {
        /// A new leg.
        leg: Leg,
        /// Where to.
        site: Site,
    },
    /// Send the request, once, to be carried out at each of these sites: to one of them, whose mesh sees to the
    /// others. Another of them may be tried only where the one before provably did not execute it.
    Replicate {
        /// A new leg.
        leg: Leg,
        /// Nearest first. The first can be asked; others may be out of reach for now.
        sites: Vec<Site>,
        /// When it is answered, and what orders writes.
        level: Level,
    },
    /// Ask this site whether the resource that the request names exists there, without changing it.
    Probe {
        /// A new leg.
        leg: Leg,
        /// Where to.
        site: Site,
    },
    /// Reserve the name that the request chose at this site, durably, for this request: no other may make it there
    /// meanwhile. Asked again for a site that has it, nothing changes. Then report [`Event::Reserved`].
    Reserve {
        /// A new leg.
        leg: Leg,
        /// Where.
        site: Site,
        /// All at which it will be reserved, this one among them.
        group: Vec<Site>,
    },
    /// End what was reserved at any site, also where that is not known. Comes once, before the final effect, where
    /// something was to be reserved.
    Release {
        /// What became of the write is known. Else the reservations stay until it is.
        known: bool,
    },
    /// Stop this leg or drop its answer: no byte of it leaves from now on. Then report it as
    /// [`Event::Failed`], unless the run has ended: a write may wait for that. Once its head is
    /// there, what is left of its answer may be read to the end, so that the connection can be kept.
    Cancel {
        /// The leg.
        leg: Leg,
    },
    /// Report [`Event::Fired`] after this time. A timer need not be stopped: one that is no longer of
    /// use is ignored.
    Timer {
        /// A new timer.
        timer: Timer,
        /// From now.
        after: Duration,
    },
    /// The answer of this leg, whose head is there, goes to the client. Final.
    Answer {
        /// The leg.
        leg: Leg,
    },
    /// The answers of several legs, whose heads are there, go to the client as one list. Final.
    Merge {
        /// Which, and how.
        answer: Answer,
        /// Its legs, nearest first. Where their bodies turn out not to be lists, they are readings of one
        /// resource: for `&` the nearest is the answer, and for `^` there must be one only.
        nearest: Vec<Leg>,
        /// A site is missing from it. The report says which, and what each said.
        partial: bool,
    },
    /// No leg's answer goes to the client. Final.
    Fail(Failure),
}

/// Why no site's answer is the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Every site said that it does not exist there.
    NotFound,
    /// Every site has an empty list of what was looked up.
    Nothing,
    /// Every site failed, and at least one in another way than by not having it.
    Unavailable,
    /// The same, and at least one took too long.
    TimedOut,
    /// `^` needs the answer of every site, and at least one is missing.
    Missing,
    /// `&` on a list lacks the answer of a site, and the request is strict.
    Partial,
    /// `^`, and it exists at two sites.
    Conflict,
    /// `^`, and another request has reserved the name.
    Reserved,
    /// A write may have been executed, and nothing more is known.
    Unknown,
    /// The client did not wait.
    ClientGone,
}

impl Failure {
    /// The status that says so to the client. For a client that is gone it is the customary 499, which
    /// is only seen in logs.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Failure::NotFound | Failure::Nothing => 404,
            Failure::Conflict | Failure::Reserved => 409,
            Failure::ClientGone => 499,
            Failure::Unavailable | Failure::Missing => 503,
            Failure::TimedOut | Failure::Partial | Failure::Unknown => 504,
        }
    }

    /// Whether it says that the sites have none of it.
    pub(crate) fn is_absence(self) -> bool {
        matches!(self, Failure::NotFound | Failure::Nothing)
    }

    /// What two sites, or groups of sites, that both failed amount to.
    pub(crate) fn and(self, other: Failure) -> Failure {
        match (self, other) {
            // Without strictness there would be an answer: nothing else says as much.
            (Failure::Partial, _) | (_, Failure::Partial) => Failure::Partial,
            (Failure::TimedOut, _) | (_, Failure::TimedOut) => Failure::TimedOut,
            (Failure::Nothing, Failure::Nothing) => Failure::Nothing,
            (one, other) if one.is_absence() && other.is_absence() => Failure::NotFound,
            _ => Failure::Unavailable,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::NotFound => "no site has it",
            Failure::Nothing => "no site has anything of that name",
            Failure::Unavailable => "every site failed",
            Failure::TimedOut => "every site failed, at least one by taking too long",
            Failure::Missing => "a site whose answer is needed gave none",
            Failure::Partial => "a site is missing from the list, and the request takes no partial one",
            Failure::Conflict => "it exists at more than one site",
            Failure::Reserved => "another request is making it, or it is not known whether one has made it",
            Failure::Unknown => "it is not known whether the write was executed",
            Failure::ClientGone => "the client did not wait for the answer",
        })
    }
}
