//! Explores a model.

use std::time::Duration;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::steps::{Action, Sites, ill};

/// What was seen.
#[derive(Debug)]
#[allow(dead_code, reason = "shown where a test fails")]
pub(crate) struct Explored {
    pub(crate) states: usize,
    pub(crate) depth: usize,
    /// Whether that is all there is.
    pub(crate) complete: bool,
}

/// Explores all of it, or for so long. Panics with the shortest way to a state where something does not hold.
#[allow(clippy::disallowed_types, reason = "how long it took is no part of the model")]
pub(crate) fn explore(name: &str, sites: Sites, limit: Option<Duration>) -> Explored {
    let checker = sites.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    let checker = if let Some(limit) = limit { checker.timeout(limit) } else { checker };
    let started = std::time::Instant::now();
    let checker = checker.spawn_bfs().join();
    for (property, path) in checker.discoveries() {
        if checker.model().property(property).expectation == Expectation::Always {
            let last = path.last_state();
            let why = last.wrong.clone().or_else(|| ill(last));
            let steps = path.into_actions().iter().map(Action::tell).collect::<Vec<_>>().join("\n  ");
            panic!("{name}: \"{property}\" does not hold after\n  {steps}\n{why:?}");
        }
    }
    let complete = limit.is_none_or(|limit| started.elapsed() < limit);
    Explored { states: checker.unique_state_count(), depth: checker.max_depth(), complete }
}
