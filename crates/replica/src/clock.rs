//! Hybrid logical clocks. They break ties between concurrent operations; nothing else depends on them.

use serde::{Deserialize, Serialize};

/// A moment of a hybrid clock: above every moment that its site had seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash)]
pub struct Stamp {
    /// Milliseconds of the wall clock, or of the highest one seen.
    pub wall_ms: u64,
    /// Counts within one such millisecond.
    pub logical: u32,
}

impl Stamp {
    /// The next moment.
    fn next(self) -> Stamp {
        match self.logical.checked_add(1) {
            Some(logical) => Stamp { logical, ..self },
            None => Stamp { wall_ms: self.wall_ms.saturating_add(1), logical: 0 },
        }
    }
}

/// A peer's clock runs ahead of ours by more than is tolerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Skew {
    /// By how much.
    pub ahead_ms: u64,
}

/// A site's hybrid clock. The wall clock is passed in; it may stand still or run backwards.
///
/// A stamp from a clock that is far ahead is still taken in: what was seen must stay below what comes
/// after it, or a newer write could lose to an older one. It is told as a [`Skew`], for the operator; until
/// clocks agree again, the counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Clock {
    last: Stamp,
    max_drift_ms: u64,
}

impl Clock {
    /// A clock that reports peers which are more than `max_drift_ms` ahead.
    #[must_use]
    pub fn new(max_drift_ms: u64) -> Clock {
        Clock { last: Stamp::default(), max_drift_ms }
    }

    /// A stamp above every one given or seen so far.
    pub fn tick(&mut self, wall_ms: u64) -> Stamp {
        let now = Stamp { wall_ms, logical: 0 };
        self.last = if now > self.last { now } else { self.last.next() };
        self.last
    }

    /// Takes in a peer's stamp: later ticks are above it.
    pub fn see(&mut self, wall_ms: u64, stamp: Stamp) -> Option<Skew> {
        self.last = self.last.max(stamp);
        let ahead_ms = stamp.wall_ms.saturating_sub(wall_ms);
        (ahead_ms > self.max_drift_ms).then_some(Skew { ahead_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_never_repeats_and_never_runs_backwards() {
        let mut clock = Clock::new(500);
        let walls = [10, 10, 5, 11, 0, 11, 12];
        let stamps: Vec<_> = walls.iter().map(|&wall| clock.tick(wall)).collect();
        assert!(stamps.is_sorted_by(|a, b| a < b), "{stamps:?}");
    }

    #[test]
    fn what_comes_after_a_seen_stamp_is_above_it_however_wrong_that_clock_was() {
        let mut clock = Clock::new(500);
        let far = Stamp { wall_ms: 4_000_000_000_000, logical: u32::MAX };
        assert_eq!(clock.see(1_000, far), Some(Skew { ahead_ms: 3_999_999_999_000 }));
        assert!(clock.tick(1_001) > far);
        assert_eq!(clock.see(1_000, Stamp { wall_ms: 1_500, logical: 0 }), None);
    }
}
