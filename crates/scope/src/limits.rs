//! Bounds on what a scope may cost, whoever sends it.

/// How much one scope may ask for. Past a limit it is refused, never cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of text: a scope travels in a header, and servers commonly refuse headers of 8 KiB.
    pub text_bytes: usize,
    /// Parentheses, calls, `!` and strings inside one another. More than 128 is taken as 128: they are
    /// read by recursion.
    pub depth: usize,
    /// Sites in a plan.
    pub sites: usize,
    /// Sites looked at while a plan is made: it bounds the time that zones within zones, or
    /// `around` over many sites, can take to some tens of milliseconds.
    pub steps: usize,
}

impl Limits {
    /// The most that [`Limits::depth`] can be.
    pub(crate) const DEEPEST: usize = 128;

    /// How deep zones within zones may lead, counted as [`Limits::depth`] is. It keeps the recursion
    /// well inside a small stack.
    pub(crate) fn expanded_depth(&self) -> usize {
        self.depth.saturating_mul(4).min(2 * Limits::DEEPEST)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits { text_bytes: 4096, depth: 32, sites: 1024, steps: 1 << 18 }
    }
}
