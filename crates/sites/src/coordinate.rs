//! Where a site is in the network: Vivaldi with height. Distances between coordinates estimate round trips.
#![expect(clippy::cast_possible_truncation, reason = "a round trip has far fewer digits than an f32 holds")]

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rng::Rng;

/// Two suffice for a flat map; the others make room for what great circles and detours do to it.
const DIMENSIONS: usize = 4;
/// How far one measurement moves a site, and how far it moves the error.
const PACE: f32 = 0.25;
/// Nothing is further apart than this, in milliseconds; a liar's coordinate is.
const FARTHEST_MS: f32 = 60_000.0;
const LEAST_HEIGHT_MS: f32 = 0.05;
const WORST_ERROR: f32 = 1.5;

/// A place in the network, in milliseconds of round trip, and how far it is off, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coordinate {
    at: [f32; DIMENSIONS],
    /// What every way to the site costs, wherever from.
    height: f32,
    error: f32,
}

impl Default for Coordinate {
    fn default() -> Self {
        Coordinate { at: [0.0; DIMENSIONS], height: LEAST_HEIGHT_MS, error: WORST_ERROR }
    }
}

impl Coordinate {
    /// Whether it was ever moved.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.error < WORST_ERROR
    }

    /// How far distances are off, as a fraction.
    #[must_use]
    pub fn error(&self) -> f32 {
        self.error
    }

    /// The estimated round trip to another.
    #[must_use]
    pub fn rtt(&self, other: &Coordinate) -> Duration {
        Duration::from_secs_f32(self.rtt_ms(other) / 1000.0)
    }

    pub(crate) fn rtt_ms(&self, other: &Coordinate) -> f32 {
        self.plane(other) + self.height + other.height
    }

    /// How far a site moved, if this is where it was.
    pub(crate) fn shift_ms(&self, now: &Coordinate) -> f32 {
        self.plane(now) + (self.height - now.height).abs()
    }

    fn plane(&self, other: &Coordinate) -> f32 {
        self.at.iter().zip(&other.at).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt()
    }

    /// What came from another site may be anything.
    pub(crate) fn is_sane(&self) -> bool {
        let bound = |value: &f32| value.is_finite() && value.abs() < FARTHEST_MS;
        self.at.iter().all(bound)
            && bound(&self.height)
            && self.height >= 0.0
            && (0.0..=WORST_ERROR).contains(&self.error)
    }

    /// Moves towards, or away from, a site at `other` by what was measured. The surer of the two moves the
    /// other more.
    pub(crate) fn update(&mut self, other: &Coordinate, rtt: Duration, rng: &mut Rng) {
        let rtt_ms = (rtt.as_secs_f64() * 1000.0) as f32;
        if !(0.001..FARTHEST_MS).contains(&rtt_ms) {
            return;
        }
        let estimate = self.rtt_ms(other).max(0.001);
        let weight = self.error / (self.error + other.error).max(0.001);
        let off = (estimate - rtt_ms).abs() / rtt_ms;
        let share = PACE * weight;
        // Never quite certain: the network changes.
        self.error = (off * share + self.error * (1.0 - share)).clamp(0.01, WORST_ERROR - 0.01);
        let force = share * (rtt_ms - estimate);
        let plane = self.plane(other);
        let length = (plane + self.height + other.height).max(0.001);
        let mut moved = *self;
        for (mine, its) in moved.at.iter_mut().zip(&other.at) {
            let direction = if plane > 0.001 { (*mine - its) / plane } else { rng.unit() - 0.5 };
            *mine += direction * force * (plane / length).max(0.1);
        }
        let up = (self.height + other.height) / length;
        moved.height = (self.height + up * force).clamp(LEAST_HEIGHT_MS, FARTHEST_MS / 4.0);
        if moved.is_sane() {
            *self = moved;
        }
    }
}
