//! A replacement from elsewhere erases what was added here, which is then added again, while clients read.

use super::{Act, Ask, Fault, Level, Maker, Step, What};
use crate::chance::Chance;
use crate::disk;

impl Maker {
    /// In half of the busy runs and a fifth of the others without one order or old copies: by a chance of its own, when all else is over.
    pub(super) fn read_while_added_again(&mut self, seed: u64, length: u64) {
        let mut chance = Chance::new(seed, "erased");
        if !self.unordered || self.backups || !chance.percent(if self.busy { 50 } else { 20 }) {
            return;
        }
        let last = self.steps.iter().map(|step| step.at).max().unwrap_or(length);
        let at = last + 1_500;
        let here = chance.index(self.sites);
        let there = (here + 1) % self.sites;
        let of = self.number();
        let act =
            Act::Create { members: vec![here, there], level: Level::Eventual, zone: None, refused: false };
        self.steps.push(Step { at, what: What::Ask(Ask { number: of, site: here, act }) });
        let apart = at + 3_000;
        for (from, to) in [(here, there), (there, here)] {
            self.add(apart, Fault::Cut { from, to, cut: true });
        }
        for _ in 0..chance.between(1, 4) {
            self.ask_for(apart + chance.between(100, 1_500), here, Act::Add { of });
        }
        self.ask_for(apart + chance.between(100, 1_500), there, Act::Put { of });
        let together = apart + chance.between(2_000, 4_000);
        if chance.percent(60) {
            self.add(together - 50, Fault::Disk(here, disk::Mood::Slow));
            self.add(together + 12_000, Fault::Disk(here, disk::Mood::Good));
        }
        for (from, to) in [(here, there), (there, here)] {
            self.add(together, Fault::Cut { from, to, cut: false });
        }
        let mut at = together;
        for _ in 0..80 {
            at += chance.between(5, 120);
            self.ask_for(at, here, Act::Read { of });
        }
    }
}
