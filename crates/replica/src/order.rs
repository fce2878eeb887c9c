//! What orders concurrent writes, at each level.

use crate::operation::Level;

/// What orders concurrent writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each site's own.
    Arrival,
    /// [The rule](crate::converge): the same everywhere, whatever order they arrive in.
    Rule,
    /// A log that a majority of the replicas' sites agrees on: the crate `order`.
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
