//! How many reads may be hedged.

/// Allows one hedge for every ten requests, and a burst of ten on top.
///
/// When a site becomes slow, every read of it is late, and hedging them all would double the load of the
/// sites just when they can bear it least. The driver keeps one for all its runs: each request
/// [earns](Budget::earn), and a timer for which [`crate::Run::hedges`] is true is reported only if it can
/// [spend](Budget::spend).
#[derive(Clone, Debug)]
pub struct Budget {
    /// In tenths of a hedge.
    tenths: u32,
}

/// What one hedge costs, in tenths.
const COST: u32 = 10;
/// Few enough not to be felt, and enough for a site that now and then is slow on a quiet day.
const MOST: u32 = 10 * COST;

impl Default for Budget {
    fn default() -> Self {
        Budget { tenths: MOST }
    }
}

impl Budget {
    /// One more request came.
    pub fn earn(&mut self) {
        self.tenths = (self.tenths + 1).min(MOST);
    }

    /// Takes what one hedge costs, if it is there.
    #[must_use]
    pub fn spend(&mut self) -> bool {
        let left = self.tenths.checked_sub(COST);
        self.tenths = left.unwrap_or(self.tenths);
        left.is_some()
    }
}
