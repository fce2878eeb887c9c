//! Chance that a seed repeats.

use std::ops::RangeInclusive;

/// Steele, Lea and Flood's `SplitMix64`.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// A stream of numbers. Streams of one seed with different names are independent.
    pub(crate) fn new(seed: u64, stream: u64) -> Random {
        let mut random = Random(seed ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93));
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws a number of a range.
    pub(crate) fn between(&mut self, range: RangeInclusive<u64>) -> u64 {
        let width = range.end().saturating_sub(*range.start()).saturating_add(1);
        range.start().saturating_add(self.next() % width.max(1))
    }

    /// Draws true so often in a hundred.
    pub(crate) fn percent(&mut self, often: u64) -> bool {
        self.next() % 100 < often
    }

    /// Draws one of several; nothing of none.
    pub(crate) fn pick<'t, T>(&mut self, of: &'t [T]) -> Option<&'t T> {
        let count = u64::try_from(of.len()).ok().filter(|count| *count > 0)?;
        of.get(usize::try_from(self.next() % count).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn a_seed_repeats_and_streams_differ() {
        let draw = |stream| {
            let mut random = Random::new(4711, stream);
            (0..8).map(|_| random.between(0..=1_000_000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(3).iter().all(|drawn| *drawn <= 1_000_000));
    }
}
