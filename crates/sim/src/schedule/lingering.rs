//! Services hold what they were told to delete.

use super::{Act, Ask, Fault, Level, Maker, Step, What};
use crate::chance::Chance;

impl Maker {
    /// In a third of the runs, by a chance of its own, when all else that breaks is mended: until then a run is as it would be without
    /// it, but that a deletion is looked after. Not where a site is shut out or is given an old copy.
    pub(super) fn hold_deletions(&mut self, seed: u64, length: u64) {
        let mut chance = Chance::new(seed, "lingering");
        let shuts = |step: &Step| matches!(step.what, What::Break(Fault::Revoke { .. }));
        if !chance.percent(33) || self.backups || self.steps.iter().any(shuts) {
            return;
        }
        let at = self.steps.iter().map(|step| step.at).max().unwrap_or(length) + 20_000;
        let mut members = self.members_that_delete(&mut chance);
        let site = members[chance.index(members.len())];
        let (of, ms) = (self.number(), chance.between(1_000, 15_000));
        let make =
            Act::Create { members: members.clone(), level: Level::Eventual, zone: None, refused: false };
        self.steps.push(Step { at, what: What::Ask(Ask { number: of, site, act: make }) });
        self.ask_for(at + 2_000, site, Act::Hold { of, ms });
        let deleted = at + 4_000;
        self.ask_for(deleted, site, Act::Delete { of });
        if chance.percent(30) {
            let site = members.swap_remove(chance.index(members.len()));
            let crash = deleted + chance.between(20, ms);
            self.add(crash, Fault::Crash { site, power: chance.percent(50) });
            self.add(crash + chance.between(300, 4_000), Fault::Start(site));
        }
        for _ in 0..12 {
            self.add(deleted + chance.between(20, ms + 4_000), Fault::LookForDeleted(of));
        }
    }

    fn members_that_delete(&self, chance: &mut Chance) -> Vec<usize> {
        let mut members: Vec<usize> = (0..self.sites).collect();
        members.rotate_left(chance.index(self.sites));
        members.truncate(if chance.percent(50) { 2 } else { 3 });
        members
    }
}
