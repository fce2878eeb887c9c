//! Where one order comes from, at `@quorum` and `@strong`. The seam only: nothing here orders anything.
//!
//! An order that a majority agrees on is made by a proven library or by an engine, never in this crate.
//! Whatever makes it implements [`OrderedLog`] outside, one log per set of sites: operations go in at the
//! site that accepts them, and come out at every replica in one order, each once, also after a crash. Until
//! it is there, a write at such a level is refused (`Reply::NoOrder`).

use crate::operation::{Level, Operation};

/// What orders concurrent writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each site's own.
    Arrival,
    /// [The rule](crate::converge): the same everywhere, whatever order they arrive in.
    Rule,
    /// An [`OrderedLog`].
    Log,
}

impl Level {
    /// What orders concurrent writes at this level.
    #[must_use]
    pub fn order(self) -> Order {
        match self {
            Level::Weak => Order::Arrival,
            Level::Eventual => Order::Rule,
            Level::Quorum | Level::Strong => Order::Log,
        }
    }
}

/// A log on which the replicas of a set of sites agree.
pub trait OrderedLog {
    /// Why an operation cannot be ordered now: this site is in a minority.
    type Error;

    /// Asks for a place in the order. The operation is recorded here before.
    fn propose(&mut self, operation: Operation) -> Result<(), Self::Error>;

    /// The next operation in the order that this site has not executed. It is the same one until
    /// [`OrderedLog::executed`], also after a crash.
    fn next(&mut self) -> Option<&Operation>;

    /// The next one was executed here, or refused by the first replica.
    fn executed(&mut self);
}
