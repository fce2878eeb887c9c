//! Sites are upgraded while they are used.

use super::{Fault, Maker};
use crate::chance::Chance;
use crate::versions::{NEXT, NOW, TOO_NEW};

impl Maker {
    /// In some runs every site is upgraded to the next version, one by one, some go back for a while, and now and then one
    /// is of a version that the others do not understand.
    pub(super) fn change_versions(&mut self, seed: u64, length: u64) {
        let mut chance = Chance::new(seed, "versions");
        if !chance.percent(25) {
            return;
        }
        for site in 0..self.sites {
            let at = chance.between(1_000, length);
            self.add(at, Fault::Version(site, NEXT));
            if chance.percent(30) {
                self.add(at + chance.between(1_000, 8_000), Fault::Version(site, NOW));
            }
        }
        if chance.percent(50) {
            let (site, at) = (chance.index(self.sites), chance.between(1_000, length));
            self.add(at, Fault::Version(site, TOO_NEW));
            self.add(at + chance.between(3_000, 15_000), Fault::Version(site, NEXT));
        }
    }
}
