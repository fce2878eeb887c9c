//! When bytes leave and when they arrive. Pure: the clock and the seed are passed in.

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::shape::Shape;

/// How far ahead of the clock a link may be promised. Timers are good to a millisecond or so: with work
/// promised ahead, the link is not idle while a timer is late.
const AHEAD: Duration = Duration::from_millis(10);

const MILLION: u64 = 1_000_000;

/// One direction of a link, which every connection shares: when it is free.
#[derive(Debug, Default)]
pub(super) struct Pace {
    free_at: Option<Instant>,
}

impl Pace {
    /// When to ask again, if the link is promised far enough ahead already.
    pub(super) fn wait_until(&self, now: Instant) -> Option<Instant> {
        let free_at = self.free_at?;
        (free_at > now + AHEAD).then(|| free_at - AHEAD / 2)
    }

    /// Promises the link to so many bytes; when the last of them has entered it.
    pub(super) fn depart(&mut self, now: Instant, bytes: usize, shape: &Shape) -> Instant {
        let start = self.free_at.map_or(now, |free_at| free_at.max(now));
        // A bandwidth that would take centuries counts as a day: time has an end.
        let departure = start + shape.busy(bytes).min(Duration::from_hours(24));
        self.free_at = Some(departure);
        departure
    }

    /// Forgets what was promised: the link has changed.
    pub(super) fn forget(&mut self) {
        self.free_at = None;
    }
}

/// One direction of one connection: when what departed arrives, in order.
#[derive(Debug)]
pub(super) struct Arrivals {
    last: Option<Instant>,
    random: SplitMix,
}

impl Arrivals {
    /// Each connection and direction has its own sequence of jitter, so that neither what others do nor
    /// the order in which tasks run changes it.
    pub(super) fn new(seed: u64, connection: u64, back: bool) -> Arrivals {
        let mut mixed = SplitMix(seed);
        let stream = mixed.next() ^ (connection << 1) ^ u64::from(back);
        Arrivals { last: None, random: SplitMix(stream) }
    }

    pub(super) fn arrive(&mut self, departure: Instant, shape: &Shape) -> Instant {
        let arrival = departure + shape.delay + self.jitter(shape);
        let arrival = self.last.map_or(arrival, |last| last.max(arrival));
        self.last = Some(arrival);
        arrival
    }

    /// A time between nothing and the shape's jitter.
    pub(super) fn jitter(&mut self, shape: &Shape) -> Duration {
        self.random.jitter(shape)
    }
}

/// One direction for datagrams: what happens to each.
#[derive(Debug)]
pub(super) struct Fates {
    random: SplitMix,
}

impl Fates {
    pub(super) fn new(seed: u64) -> Fates {
        Fates { random: SplitMix(seed) }
    }

    /// A seed that differs for each address.
    pub(super) fn mix(seed: u64, ip: IpAddr) -> u64 {
        let mixed =
            |octets: &[u8]| octets.iter().fold(seed, |seed, octet| SplitMix(seed ^ u64::from(*octet)).next());
        match ip {
            IpAddr::V4(ip) => mixed(&ip.octets()),
            IpAddr::V6(ip) => mixed(&ip.octets()),
        }
    }

    /// Whether the next is lost, and how late it is otherwise. Each takes the same from the sequence, whatever
    /// the shape: a change of shape changes no dice.
    pub(super) fn next(&mut self, shape: &Shape) -> (bool, Duration) {
        let lost = self.random.below(MILLION) < u64::from(shape.loss_per_million);
        (lost, self.random.jitter(shape))
    }
}

/// Steele, Lea and Flood's `SplitMix64`: jitter needs to be even and repeatable, and no more.
#[derive(Debug)]
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number between nothing and this, which is left out.
    fn below(&mut self, range: u64) -> u64 {
        let scaled = (u128::from(self.next()) * u128::from(range)) >> 64;
        u64::try_from(scaled).unwrap_or(range)
    }

    fn jitter(&mut self, shape: &Shape) -> Duration {
        let range = u64::try_from(shape.jitter.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.below(range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_link_takes_bytes_one_after_the_other_at_its_bandwidth() {
        let shape = Shape { bandwidth: NonZeroU64::new(1000), ..Shape::default() };
        let (mut pace, start) = (Pace::default(), Instant::now());
        assert_eq!(pace.wait_until(start), None);
        assert_eq!(pace.depart(start, 5, &shape), start + 5 * MS);
        assert_eq!(pace.depart(start, 5, &shape), start + 10 * MS);
        assert_eq!(pace.wait_until(start), None);
        assert_eq!(pace.depart(start, 10, &shape), start + 20 * MS);
        assert_eq!(pace.wait_until(start), Some(start + 15 * MS));
        // An idle link does not save up bandwidth.
        assert_eq!(pace.depart(start + 100 * MS, 5, &shape), start + 105 * MS);
    }

    #[test]
    fn jitter_never_reorders_never_shortens_and_repeats_with_its_seed() {
        let shape = Shape { delay: 50 * MS, jitter: 20 * MS, ..Shape::default() };
        let start = Instant::now();
        let times = |seed| {
            let mut arrivals = Arrivals::new(seed, 3, false);
            (0..1000).map(|n| arrivals.arrive(start + n * MS, &shape)).collect::<Vec<_>>()
        };
        let first = times(7);
        assert!(first.is_sorted());
        for (n, arrival) in (0..).zip(&first) {
            let taken = *arrival - (start + n * MS);
            assert!((50 * MS..=70 * MS).contains(&taken), "{taken:?}");
        }
        assert_eq!(first, times(7));
        assert_ne!(first, times(8));
    }

    #[test]
    fn a_bandwidth_of_almost_nothing_and_a_delay_of_ages_do_not_overflow() {
        let shape = Shape { bandwidth: NonZeroU64::new(1), ..Shape::default() };
        let now = Instant::now();
        assert_eq!(Pace::default().depart(now, usize::MAX, &shape), now + Duration::from_hours(24));
    }
}
