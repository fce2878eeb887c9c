//! What a run knows of each leg.

use std::time::Duration;

use scope::Site;

use crate::event::{Effect, Leg, Why};
use crate::report::Said;
use crate::tree::NodeId;

#[derive(Debug)]
pub(crate) struct Record {
    /// The node that learns how it ended.
    pub(crate) node: NodeId,
    pub(crate) site: Site,
    pub(crate) role: Role,
    pub(crate) state: State,
    /// The driver said that its first byte leaves.
    pub(crate) sent: bool,
    pub(crate) said: Option<Said>,
    pub(crate) elapsed: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Read,
    Write,
    Probe,
    Reserve,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No answer yet.
    Asked,
    /// Answered, and its answer may become the answer.
    Held,
    /// A write that is cancelled, until the driver says whether it was sent.
    Leaving,
    /// Nothing that is still to come of it counts.
    Over,
}

impl Record {
    pub(crate) fn new(node: NodeId, site: Site, role: Role) -> Record {
        Record { node, site, role, state: State::Asked, sent: false, said: None, elapsed: None }
    }

    /// Whether the driver still has it.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.state, State::Asked | State::Held)
    }

    /// Cancels it if it is live. A leg that said something keeps that; for another, `why` is what is
    /// reported.
    pub(crate) fn cancel(&mut self, leg: Leg, why: Why, effects: &mut Vec<Effect>) {
        if self.is_live() {
            effects.push(Effect::Cancel { leg });
            self.said.get_or_insert(Said::Error(why));
        }
        self.state = State::Over;
    }

    /// Stops it because time is up, and says whether that settles it.
    pub(crate) fn time_out(&mut self, leg: Leg, effects: &mut Vec<Effect>) -> TimedOut {
        let waiting = matches!(self.state, State::Asked | State::Leaving);
        let write = self.role == Role::Write && waiting;
        self.cancel(leg, Why::TimedOut, effects);
        match (write, self.sent) {
            (false, _) => TimedOut::Settled,
            (true, true) => TimedOut::Unknown,
            (true, false) => {
                self.state = State::Leaving;
                TimedOut::Wait
            }
        }
    }
}

/// What is known of a leg whose time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimedOut {
    /// It is a read: it is over.
    Settled,
    /// It is a write, and the driver will say whether it was sent.
    Wait,
    /// It is a write that was sent.
    Unknown,
}
