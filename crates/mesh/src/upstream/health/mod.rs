//! Which targets are alive, as all cores of the site know it.
//!
//! Two sources, and either can take a target out. *Passive*: a target that did not accept a connection is
//! left alone for a time that doubles with each failure, then one request tries it again. *Active*:
//! [`watch`] asks each target every so often. Neither is a proof: where all targets are out, they are
//! tried anyway.

mod watch;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::time::Instant;

pub use watch::{Check, watch};

/// How long a target is left alone after it first did not accept a connection.
const FIRST_REST_MS: u64 = 500;
/// The longest that a target is left alone: what it takes to notice that a service is back.
const LONGEST_REST_MS: u64 = 30_000;
/// A single lost check is a busy moment, not a failure.
const FAILED_CHECKS_TO_GO_DOWN: u32 = 2;

/// The health of each target of one service.
///
/// All is relaxed: what one core knows reaches the others soon, and a choice made a moment before is as
/// good as any other.
#[derive(Debug)]
pub struct Health {
    targets: Vec<State>,
    start: Instant,
}

#[derive(Debug, Default)]
struct State {
    /// Connections that were not accepted, in a row.
    refused: AtomicU32,
    /// Not before this many milliseconds after the start; only where `refused` is not zero.
    rest_until_ms: AtomicU64,
    /// Checks that failed, in a row.
    failed_checks: AtomicU32,
}

impl Health {
    /// All targets are up until the contrary is known.
    #[must_use]
    pub fn new(targets: usize) -> Self {
        Health { targets: (0..targets).map(|_| State::default()).collect(), start: Instant::now() }
    }

    /// Whether requests go to this target.
    #[must_use]
    pub fn is_up(&self, target: usize) -> bool {
        self.targets.get(target).is_some_and(|state| {
            // The clock is read only for a target in doubt.
            state.checks_pass() && (!state.in_doubt() || state.rested(self.now_ms()))
        })
    }

    /// The target answered.
    pub(super) fn answered(&self, target: usize) {
        if let Some(state) = self.targets.get(target).filter(|state| state.in_doubt()) {
            state.refused.store(0, Ordering::Relaxed);
        }
    }

    /// The target did not accept a connection.
    pub(super) fn connect_failed(&self, target: usize) {
        if let Some(state) = self.targets.get(target) {
            state.refuse(self.now_ms());
        }
    }

    /// A request is about to try this target.
    pub(super) fn claim(&self, target: usize) {
        if let Some(state) = self.targets.get(target).filter(|state| state.in_doubt()) {
            state.claim(self.now_ms());
        }
    }

    /// An active check had this result.
    pub(super) fn checked(&self, target: usize, passed: bool) {
        let Some(state) = self.targets.get(target) else { return };
        if passed {
            state.failed_checks.store(0, Ordering::Relaxed);
            state.refused.store(0, Ordering::Relaxed);
        } else {
            state.failed_checks.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl State {
    fn checks_pass(&self) -> bool {
        self.failed_checks.load(Ordering::Relaxed) < FAILED_CHECKS_TO_GO_DOWN
    }

    fn in_doubt(&self) -> bool {
        self.refused.load(Ordering::Relaxed) != 0
    }

    fn rested(&self, now_ms: u64) -> bool {
        now_ms >= self.rest_until_ms.load(Ordering::Relaxed)
    }

    /// Requests that tried it together are one failure, so that a burst does not count as a long absence;
    /// one that tried it after a rest was counted when it did.
    fn refuse(&self, now_ms: u64) {
        if !self.in_doubt() {
            self.refuse_once_more(now_ms);
        }
    }

    /// Where it rested, this request tries it and it rests for the others, as if it had failed again.
    fn claim(&self, now_ms: u64) {
        if self.rested(now_ms) {
            self.refuse_once_more(now_ms);
        }
    }

    fn refuse_once_more(&self, now_ms: u64) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.rest_until_ms.store(now_ms.saturating_add(self.rest_ms()), Ordering::Relaxed);
    }

    fn rest_ms(&self) -> u64 {
        let doublings = self.refused.load(Ordering::Relaxed).saturating_sub(1).min(16);
        (FIRST_REST_MS << doublings).min(LONGEST_REST_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_rests_longer_with_each_failure_and_one_request_tries_it_again() {
        let state = State::default();
        state.refuse(0);
        state.refuse(0);
        assert!(!state.rested(FIRST_REST_MS - 1) && state.rested(FIRST_REST_MS), "a burst is one failure");
        state.claim(FIRST_REST_MS);
        assert!(!state.rested(FIRST_REST_MS), "the others leave it to the first");
        state.refuse(FIRST_REST_MS);
        assert!(!state.rested(3 * FIRST_REST_MS - 1) && state.rested(3 * FIRST_REST_MS));
    }

    #[test]
    fn a_rest_has_an_end_however_often_it_failed() {
        let state = State::default();
        state.refuse(0);
        for _ in 0..100 {
            state.claim(state.rest_until_ms.load(Ordering::Relaxed));
        }
        assert_eq!(state.rest_ms(), LONGEST_REST_MS);
    }

    #[test]
    fn an_answer_ends_all_doubt() {
        let health = Health::new(1);
        health.connect_failed(0);
        assert!(!health.is_up(0));
        health.answered(0);
        assert!(health.is_up(0));
    }

    #[test]
    fn two_failed_checks_take_a_target_down_and_one_brings_it_up() {
        let health = Health::new(2);
        health.checked(0, false);
        assert!(health.is_up(0));
        health.checked(0, false);
        assert!(!health.is_up(0) && health.is_up(1));
        health.answered(0);
        assert!(!health.is_up(0), "an answer does not speak for the check");
        health.checked(0, true);
        assert!(health.is_up(0));
    }

    #[test]
    fn a_check_that_passes_ends_the_rest_of_a_target() {
        let health = Health::new(1);
        health.connect_failed(0);
        health.checked(0, true);
        assert!(health.is_up(0));
    }
}
