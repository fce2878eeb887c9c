//! What is to happen when.

use std::collections::BTreeSet;

use crate::event::Time;
use crate::members::Id;

/// What a timer is for. One that is no longer of use is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// Probe the next site.
    Probe,
    /// The probe of this number was not answered directly in time.
    Direct(u64),
    /// The probe of this number was not answered at all in time.
    Indirect(u64),
    /// A site had its time to object.
    Suspicion(Id),
    /// Probe this site again: whether it can be reached from here is in doubt.
    Recheck(Id),
    /// Pass on what is still news.
    Gossip,
    /// Exchange states.
    Sync,
    /// Look for the dead, and forget them.
    Dead,
    /// Ask those whose death is contested.
    Contested,
    /// Ask this site for its new identity.
    Greet(Id),
    /// Try the addresses to join by.
    Seeds,
}

/// Timers, the next first. Each is there once at most.
#[derive(Debug, Default)]
pub(crate) struct Timers(BTreeSet<(Time, Timer)>);

impl Timers {
    pub(crate) fn set(&mut self, at: Time, timer: Timer) {
        self.0.insert((at, timer));
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| *at)
    }

    pub(crate) fn due(&mut self, now: Time) -> Option<Timer> {
        (self.next()? <= now).then(|| self.0.pop_first()).flatten().map(|(_, timer)| timer)
    }
}
