//! Which run of a site something belongs to.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One run of a site, from a start to the next.
///
/// A site that is given back an old copy of its records does not know what it did since. In a new run it
/// counts its operations apart, so it never gives an identity twice, and what it confirmed in a run before
/// no longer counts. The draw alone makes it another one; the number orders the runs, where clocks and
/// records are right. Where they are not, a peer says so and the number is raised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch {
    /// Above those of the runs before.
    pub number: u64,
    /// Random, drawn by the driver at the start.
    pub draw: u64,
}

impl Epoch {
    /// The run after this one.
    pub(crate) fn next(self, wall_ms: u64, draw: u64) -> Epoch {
        Epoch { number: self.number.saturating_add(1).max(wall_ms), draw }
    }

    /// Reads what it is printed as.
    pub(crate) fn read(text: &str) -> Option<Epoch> {
        let (number, draw) = text.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        Some(Epoch { number: hex(number)?, draw: hex(draw)? })
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.number, self.draw)
    }
}
