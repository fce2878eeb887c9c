//! Randomness from a seed: the same seed, the same choices.

/// Splitmix64: small, fast, and good enough to pick peers. What must not be guessed is mixed with a seed
/// that the driver takes from the system.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`, or 0 if that is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let wide = u128::from(self.next()) * (end as u128);
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number from 0 to 1.
    pub(crate) fn unit(&mut self) -> f32 {
        f32::from(u16::try_from(self.next() >> 48).unwrap_or(0)) / f32::from(u16::MAX)
    }
}

/// Spreads the bits of a number over all bits.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A hash of bytes that is the same at every site.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
