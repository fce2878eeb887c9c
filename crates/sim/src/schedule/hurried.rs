//! Clients that wait for some time only (`within`), and clients of sites without a replica, while one of those that they ask is ill.

use std::collections::BTreeMap;

use super::{Act, Ask, Fault, Level, Maker, Step, What};
use crate::app::Mood;
use crate::chance::Chance;
use crate::disk;

/// So many milliseconds the clients of these requests wait: they say so in their scopes.
pub type Hurries = BTreeMap<usize, u64>;

impl Maker {
    /// In half of the busy runs, and a quarter of the others: by a chance of its own, when all else that breaks is over. Not
    /// where a site is given an old copy, or shut out.
    pub(super) fn hurry(&mut self, seed: u64, length: u64) -> Hurries {
        let (mut chance, mut hurries) = (Chance::new(seed, "hurried"), Hurries::new());
        let shuts = |step: &Step| matches!(step.what, What::Break(Fault::Revoke { .. }));
        let often = if self.busy { 50 } else { 25 };
        if self.backups || self.steps.iter().any(shuts) || !chance.percent(often) {
            return hurries;
        }
        let mut at = self.steps.iter().map(|step| step.at).max().unwrap_or(length) + 2_000;
        for _ in 0..chance.between(1, 3) {
            let members = self.hurried_members(&mut chance);
            let level = self.hurried_level(&mut chance);
            let of = self.number();
            let act = Act::Create { members: members.clone(), level, zone: None, refused: false };
            self.steps.push(Step { at, what: What::Ask(Ask { number: of, site: members[0], act }) });
            let begin = at + 4_000;
            let end = begin + chance.between(4_000, 14_000);
            self.fall_ill(&mut chance, &members, begin, end);
            for _ in 0..chance.between(3, 8) {
                let when = begin + chance.between(20, 2_500);
                self.ask_in_haste(&mut chance, when, of, &members, level, &mut hurries);
            }
            at = end + chance.between(1_000, 4_000);
        }
        hurries
    }

    fn ask_in_haste(
        &mut self,
        chance: &mut Chance,
        at: u64,
        of: usize,
        members: &[usize],
        level: Level,
        hurries: &mut Hurries,
    ) {
        let site = chance.index(self.sites);
        let away = |own: &Maker, chance: &mut Chance| {
            let others: Vec<usize> = (0..own.sites).filter(|site| !members.contains(site)).collect();
            if others.is_empty() { site } else { *chance.pick(&others) }
        };
        let (site, act) = match chance.below(10) {
            0..=4 => (site, Act::Create { members: members.to_vec(), level, zone: None, refused: false }),
            5..=6 => (away(self, chance), Act::Patch { of, refused: false }),
            7 => (away(self, chance), Act::Add { of }),
            _ => (site, Act::Exclusive { of: self.asks, sites: members.to_vec() }),
        };
        if chance.percent(70) {
            hurries.insert(self.asks, chance.between(30, 3_000));
        }
        self.ask_for(at, site, act);
    }

    /// A service, a path or a disk of one of them, for some time.
    fn fall_ill(&mut self, chance: &mut Chance, members: &[usize], begin: u64, end: u64) {
        let ill = *chance.pick(members);
        match chance.below(8) {
            0..=4 => {
                let well = Mood::default();
                let mood = match chance.below(5) {
                    0 => Mood { slow: 100, ..well },
                    1 => Mood { mute: 80, ..well },
                    2 => Mood { late: 100, ..well },
                    3 => Mood { slow: 60, lies: 60, ..well },
                    _ => Mood { loses: 100, ..well },
                };
                self.add(begin, Fault::App(ill, mood));
                self.add(end, Fault::App(ill, well));
            }
            5 => {
                let others = (0..self.sites).filter(|site| *site != ill);
                let paths: Vec<_> = others.flat_map(|other| [(ill, other), (other, ill)]).collect();
                self.cut(begin, end, &paths);
            }
            6 => {
                self.add(begin, Fault::Disk(ill, disk::Mood::Slow));
                self.add(end, Fault::Disk(ill, disk::Mood::Good));
            }
            _ => {
                let crash = begin + chance.between(100, 2_000);
                self.add(crash, Fault::Crash { site: ill, power: chance.percent(50) });
                self.add(crash + chance.between(500, 4_000), Fault::Start(ill));
            }
        }
    }

    fn hurried_members(&self, chance: &mut Chance) -> Vec<usize> {
        let mut members: Vec<usize> = (0..self.sites).collect();
        let turn = chance.index(members.len());
        members.rotate_left(turn);
        members.truncate(if chance.percent(60) { 2 } else { 3 });
        members
    }

    fn hurried_level(&self, chance: &mut Chance) -> Level {
        let ordered = self.ordered && (!self.unordered || chance.percent(50));
        match (ordered, chance.percent(30)) {
            (true, true) => Level::Strong,
            (true, false) => Level::Quorum,
            (false, true) => Level::Weak,
            (false, false) => Level::Eventual,
        }
    }
}
