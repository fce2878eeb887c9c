//! How long a site usually takes.

use std::time::Duration;

/// How many answers are remembered: enough for a 95th percentile, few enough to forget soon.
const WINDOW: usize = 32;

/// With fewer answers than this, nothing is said: one slow start would count for too much.
const LEAST: usize = 8;

/// The times that a site's latest answers took, and the 95th percentile of these.
///
/// It is exact over the last 32 answers. The slowest of them never counts, so one outlier changes
/// nothing; a second one does, and is forgotten 32 answers later.
///
/// A leg that was cancelled because another was faster took at least the time that it had: the driver
/// adds that too, or it would never learn that a site which always loses has become slow.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// In microseconds: a duration that does not fit, over an hour, counts as the longest that does.
    micros: [u32; WINDOW],
    /// How many there are, at most all.
    count: usize,
    /// Where the next one goes.
    next: usize,
}

impl Pace {
    /// Adds the time from sending a request to the head of its answer.
    pub fn add(&mut self, took: Duration) {
        if let Some(place) = self.micros.get_mut(self.next) {
            *place = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        }
        self.next = (self.next + 1) % WINDOW;
        self.count = (self.count + 1).min(WINDOW);
    }

    /// The time in which 95 of 100 answers come, once there are enough of them to tell.
    #[must_use]
    pub fn p95(&self) -> Option<Duration> {
        if self.count < LEAST {
            return None;
        }
        let mut micros = self.micros;
        let known = micros.get_mut(..self.count)?;
        // By nearest rank, but never the slowest.
        let rank = (self.count * 95).div_ceil(100).min(self.count - 1);
        let (_, micros, _) = known.select_nth_unstable(rank - 1);
        Some(Duration::from_micros(u64::from(*micros)))
    }
}
