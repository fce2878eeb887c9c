//! Clients follow the pages of lists while everything else happens.

use super::{Maker, Step, Walk, What};
use crate::chance::Chance;

/// One of so many runs has them: the others stay as they are.
const SHARE: u64 = 8;
const OF_THEM: u64 = 6;

impl Maker {
    /// By a chance of its own. Every site is asked, also for lists that it has no part in.
    pub(super) fn walk(&mut self, seed: u64, length: u64) {
        if seed % SHARE != OF_THEM {
            return;
        }
        let mut chance = Chance::new(seed, "walks");
        for _ in 0..chance.between(3, 6) {
            let mut sites: Vec<usize> = (0..self.sites).collect();
            let turn = chance.index(self.sites);
            sites.rotate_left(turn);
            sites.truncate(if chance.percent(70) { self.sites } else { 2 });
            let limit = usize::try_from(chance.between(1, 4)).unwrap_or(1);
            let walk =
                Walk { site: chance.index(self.sites), sites, limit, pause_ms: chance.between(10, 1_500) };
            self.steps.push(Step { at: chance.between(length / 4, length), what: What::Walk(walk) });
        }
    }
}
