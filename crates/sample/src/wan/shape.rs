//! What a link is like, and what it is like now.

use std::num::NonZeroU64;
use std::time::Duration;

use super::Cut;

/// Bytes that enter a link at a time, at most. Small enough that connections take turns often.
pub(super) const MAX_PIECE_BYTES: usize = 32 * 1024;
/// At least, however slow the link: a frame's worth.
const MIN_PIECE_BYTES: usize = 512;
/// Bytes under way per connection and direction, at most: the window of a well-tuned TCP.
const MAX_WINDOW_BYTES: usize = 4 * 1024 * 1024;
/// At least: what a TCP has before it is tuned.
const MIN_WINDOW_BYTES: usize = 64 * 1024;
/// The longest delay, and jitter: farther than any site, and the clock does not overflow.
const MAX_DELAY: Duration = Duration::from_hours(1);

/// What a link is like. The default is a wire: no delay, and all the bandwidth there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// How long a byte takes, one way. A round trip takes twice this. An hour at most, as is the jitter.
    pub delay: Duration,
    /// How much longer it may take, at random: between nothing and this.
    pub jitter: Duration,
    /// Bytes per second, for all connections together, in each direction; as many as can be if nothing.
    pub bandwidth: Option<NonZeroU64>,
    /// How many of a million datagrams are lost, at random. Connections lose nothing: what they send again
    /// is not seen from outside.
    pub loss_per_million: u32,
}

impl Shape {
    /// A link with this round trip, and nothing else to it.
    #[must_use]
    pub fn with_rtt(rtt: Duration) -> Shape {
        Shape { delay: rtt / 2, ..Shape::default() }
    }

    /// The same, with times that can be added to the clock.
    pub(super) fn bounded(self) -> Shape {
        Shape { delay: self.delay.min(MAX_DELAY), jitter: self.jitter.min(MAX_DELAY), ..self }
    }

    /// How long the link is busy with so many bytes.
    pub(super) fn busy(&self, bytes: usize) -> Duration {
        let nanos = |bandwidth: NonZeroU64| bytes as u128 * 1_000_000_000 / u128::from(bandwidth.get());
        let nanos = self.bandwidth.map_or(0, nanos);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Bytes that enter at a time: ten milliseconds of the bandwidth.
    pub(super) fn piece_bytes(&self) -> usize {
        self.bytes_in(Duration::from_millis(10)).clamp(MIN_PIECE_BYTES, MAX_PIECE_BYTES)
    }

    /// Bytes of one connection that may be under way: what fills the link for a round trip.
    pub(super) fn window_bytes(&self) -> usize {
        self.bytes_in((self.delay + self.jitter) * 2).clamp(MIN_WINDOW_BYTES, MAX_WINDOW_BYTES)
    }

    fn bytes_in(&self, time: Duration) -> usize {
        let bytes = |bandwidth: NonZeroU64| u128::from(bandwidth.get()) * time.as_micros() / 1_000_000;
        self.bandwidth.map_or(usize::MAX, |bandwidth| usize::try_from(bytes(bandwidth)).unwrap_or(usize::MAX))
    }
}

/// What a link is like now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    pub(super) shape: Shape,
    pub(super) cut: Option<Cut>,
    /// How often the link was cut or healed.
    pub(super) changes: u64,
    /// How often it was reset. Who looks late sees here a reset that healed at once.
    pub(super) resets: u64,
}

impl Weather {
    pub(super) fn new(shape: Shape) -> Weather {
        Weather { shape, cut: None, changes: 0, resets: 0 }
    }

    /// Cuts or heals; the number of this change.
    pub(super) fn change(&mut self, cut: Option<Cut>) -> u64 {
        self.cut = cut;
        self.changes += 1;
        self.resets += u64::from(cut == Some(Cut::Reset));
        self.changes
    }

    pub(super) fn stalled(&self) -> bool {
        self.cut == Some(Cut::Stall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_follow_bandwidth_times_delay_between_bounds() {
        let shape = |bandwidth, millis| Shape {
            delay: Duration::from_millis(millis),
            bandwidth: NonZeroU64::new(bandwidth),
            ..Shape::default()
        };
        assert_eq!(shape(10_000_000, 50).window_bytes(), 1_000_000);
        assert_eq!(shape(1000, 50).window_bytes(), MIN_WINDOW_BYTES);
        assert_eq!(shape(u64::MAX, 5000).window_bytes(), MAX_WINDOW_BYTES);
        assert_eq!(Shape::default().window_bytes(), MAX_WINDOW_BYTES);
        assert_eq!(shape(1_000_000, 0).piece_bytes(), 10_000);
        assert_eq!(shape(1, 0).busy(3), Duration::from_secs(3));
        assert_eq!(Shape::default().busy(usize::MAX), Duration::ZERO);
        assert_eq!(Shape::with_rtt(Duration::MAX).bounded().delay, MAX_DELAY);
    }
}
