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
        // Bounded by what was measured, which nobody can lie about: who says to be far away draws nobody far, and
        // makes nobody unsure of where it is.
        let gap_ms = (rtt_ms - estimate).max(-rtt_ms);
        let off = gap_ms.abs() / rtt_ms;
        let share = PACE * weight;
        // Never quite certain: the network changes. And better than the worst after the first: `off` is at most 1.
        self.error = (off * share + self.error * (1.0 - share)).max(0.01);
        let force = share * gap_ms;
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

#[cfg(test)]
mod tests {
    use super::*;

    const SITES: usize = 30;

    /// Sites on a map of 100 ms by 100 ms, which measure each other in turn, and one in their middle, which is measured as
    /// they are and says each time that it is somewhere else, as far away as `lie_ms`. How far distances between the
    /// honest ones are off, in the median.
    fn error_beside(lie_ms: Option<f32>) -> f32 {
        let mut rng = Rng::new(7);
        let mut places = [(0.0, 0.0); SITES];
        places.fill_with(|| (rng.unit() * 100.0, rng.unit() * 100.0));
        let apart = |a: (f32, f32), b: (f32, f32)| 2.0 + ((a.0 - b.0).powi(2) + (a.1 - b.1).powi(2)).sqrt();
        let took = |ms: f32| Duration::from_secs_f32(ms / 1000.0);
        let mut sites = [Coordinate::default(); SITES];
        for (round, at) in (1..400).flat_map(|round| (0..SITES).map(move |at| (round, at))) {
            let other = (at + round) % SITES;
            let (its, place) = if other != at {
                (sites[other], places[other])
            } else if let Some(far) = lie_ms {
                let mut lie = Coordinate { error: 0.0, ..Coordinate::default() };
                lie.at.fill_with(|| (rng.unit() * 2.0 - 1.0) * far);
                assert!(lie.is_sane());
                (lie, (50.0, 50.0))
            } else {
                continue;
            };
            sites[at].update(&its, took(apart(places[at], place)), &mut rng);
        }
        let pairs = (0..SITES).flat_map(|a| (0..a).map(move |b| (a, b)));
        let off = |(a, b): (usize, usize)| sites[a].rtt_ms(&sites[b]) / apart(places[a], places[b]) - 1.0;
        let mut errors: Vec<f32> = pairs.map(|pair| off(pair).abs()).collect();
        errors.sort_by(f32::total_cmp);
        errors[errors.len() / 2]
    }

    /// Story: `around` asks how far *other* sites are from each other. One site that said to be a minute away, each time
    /// elsewhere and sure of it, drew whoever had measured 50 ms to it by seconds with each measurement.
    #[test]
    fn a_site_that_lies_about_where_it_is_hardly_moves_the_others() {
        let honest = error_beside(None);
        assert!(honest < 0.05, "{honest}");
        for lie_ms in [100.0, 1000.0, 0.99 * FARTHEST_MS] {
            let error = error_beside(Some(lie_ms));
            assert!(error < 0.1, "{lie_ms} ms: {error}");
        }
    }
}
