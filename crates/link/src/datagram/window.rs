//! Which stamps of a sender were seen: each counts once, also when datagrams overtake each other.

/// How many datagrams may overtake one that is still accepted.
const REACH: usize = 64;

/// The latest stamps of one run of a sender. Stamps are moments, not numbers in a row, so the window is a
/// short list of them and not a bitmap: what is older than all of a full list is refused.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// In rising order.
    seen: Vec<u64>,
    /// What is not later than this was not shown to be fresh when the run began.
    floor: u64,
}

impl Window {
    /// Of a run whose stamps up to this one do not count.
    pub(super) fn after(floor: u64) -> Window {
        Window { seen: Vec::new(), floor }
    }

    /// Whether a stamp is new: newer than the list reaches back, and not in it.
    pub(super) fn is_new(&self, stamp: u64) -> bool {
        let reaches = self.seen.len() < REACH || self.seen.first().is_some_and(|oldest| stamp > *oldest);
        reaches && stamp > self.floor && self.seen.binary_search(&stamp).is_err()
    }

    /// Remembers a stamp; whether it was new.
    pub(super) fn take(&mut self, stamp: u64) -> bool {
        if !self.is_new(stamp) {
            return false;
        }
        if self.seen.len() >= REACH {
            self.seen.remove(0);
        }
        let at = self.seen.partition_point(|seen| *seen < stamp);
        self.seen.insert(at, stamp);
        true
    }

    /// The latest.
    pub(super) fn latest(&self) -> u64 {
        self.seen.last().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_stamp_counts_twice_in_any_order(stamps in prop::collection::vec(0_u64..500, 0..600)) {
            let (mut window, mut taken) = (Window::default(), HashSet::new());
            for stamp in stamps {
                let newest = stamp > window.latest();
                let new = window.take(stamp);
                prop_assert!(!new || taken.insert(stamp), "{stamp} twice");
                prop_assert!(new || !newest, "{stamp} is newer than all, and was refused");
            }
        }

        #[test]
        fn what_is_overtaken_by_fewer_than_the_reach_counts(
            behind in 1_usize..REACH, gap in 1_u64..1_000_000,
        ) {
            let mut window = Window::default();
            for number in 1..=1000 {
                prop_assert!(window.take(number * gap * 2));
            }
            let late = (1000 - behind as u64) * gap * 2 + 1;
            prop_assert!(window.take(late));
            prop_assert!(!window.take(late));
        }
    }
}
