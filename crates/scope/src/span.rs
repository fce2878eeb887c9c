//! Where in a text something stands.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;

/// A range of bytes of the text that was parsed.
///
/// Spans are for people: two locations that differ only in where they were written are equal.
#[derive(Clone, Copy, Default)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
}

impl Span {
    /// The span from the start of this one to the end of another.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end }
    }

    /// The same as a range, for slicing.
    #[must_use]
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// A span that takes no part in comparisons, so that types which carry one can derive theirs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place(pub(crate) Span);

impl PartialEq for Place {
    fn eq(&self, _: &Place) -> bool {
        true
    }
}

impl Eq for Place {}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Place) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Place {
    fn cmp(&self, _: &Place) -> Ordering {
        Ordering::Equal
    }
}
