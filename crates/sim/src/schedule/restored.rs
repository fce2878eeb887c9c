//! A site is given back what Archipel recorded there some time ago, and its service keeps what it has.

use super::{Act, Ask, Fault, Level, Maker, Step, What};
use crate::chance::Chance;

impl Maker {
    /// In some runs, by a chance of its own. Not where a site is given an old copy of all that it has, or is shut out.
    pub(super) fn restore_records(&mut self, seed: u64, length: u64) {
        let mut chance = Chance::new(seed, "old state");
        let apart = |step: &Step| matches!(step.what, What::Break(Fault::Revoke { .. }));
        let draw = chance.below(100);
        if self.backups
            || self.ordered
            || self.steps.iter().any(apart)
            || draw >= if self.busy { 55 } else { 30 }
        {
            return;
        }
        let site = chance.index(self.sites);
        let copied = chance.between(length / 4, length);
        let restored = copied + chance.between(2_000, 8_000);
        self.add(copied, Fault::BackUp(site));
        self.add(restored, Fault::RestoreRecords(site));
        for _ in 0..chance.between(1, 3) {
            self.image_around_a_restore(&mut chance, site, copied, restored);
        }
        // Of what not every site has confirmed, nothing is forgotten: one of the others is away meanwhile.
        if chance.percent(50) {
            let away = (site + 1 + chance.index(self.sites - 1)) % self.sites;
            let others = (0..self.sites).filter(|other| *other != away);
            let both: Vec<_> = others.flat_map(|other| [(away, other), (other, away)]).collect();
            let until = restored + chance.between(500, 6_000);
            self.cut(copied + chance.between(0, 1_000), until, &both);
        }
    }

    /// The same of images whose writes have one order, in some runs that have such: when all else is over and mended, and drawn apart, so
    /// that a run is the same until then.
    pub(super) fn restore_records_in_order(&mut self, seed: u64) {
        let mut chance = Chance::new(seed, "earlier places in order");
        let draw = chance.below(100);
        let apart = |step: &Step| {
            let What::Break(fault) = &step.what else { return false };
            matches!(fault, Fault::Revoke { .. } | Fault::RestoreRecords(_) | Fault::Leave(_))
        };
        if !self.ordered
            || self.backups
            || self.steps.iter().any(apart)
            || draw >= if self.busy { 40 } else { 20 }
        {
            return;
        }
        let over = self.steps.iter().map(|step| step.at).max().unwrap_or_default() + 5_000;
        self.add(over, Fault::Calm);
        let site = chance.index(self.sites);
        let copied = over + chance.between(8_000, 14_000);
        let restored = copied + chance.between(2_000, 8_000);
        self.add(copied, Fault::BackUp(site));
        self.add(restored, Fault::RestoreRecords(site));
        for _ in 0..chance.between(1, 3) {
            self.ordered_image_around_a_restore(&mut chance, site, (over + 3_000, copied, restored));
        }
        // One of the others lacks what the other two agreed on since the copy, and is there when the restored one is back; the other is not.
        if chance.percent(60) {
            let first = (site + 1 + chance.index(self.sites - 1)) % self.sites;
            let all: Vec<usize> = (0..self.sites).collect();
            let paths = |away: usize| -> Vec<(usize, usize)> {
                let others = all.iter().filter(|other| **other != away);
                others.flat_map(|other| [(away, *other), (*other, away)]).collect()
            };
            self.cut(copied, restored.saturating_sub(chance.between(0, 500)), &paths(first));
            let others: Vec<usize> = all.iter().copied().filter(|own| ![site, first].contains(own)).collect();
            if chance.percent(50) {
                let second = *chance.pick(&others);
                self.cut(restored + chance.between(50, 3_000), restored + 15_000, &paths(second));
            }
        }
        self.add(restored + 20_000, Fault::Calm);
    }

    /// An image at this site and others, written to and read by clients of each before, between and after the two.
    fn ordered_image_around_a_restore(
        &mut self,
        chance: &mut Chance,
        site: usize,
        (begins, copied, restored): (u64, u64, u64),
    ) {
        let mut members: Vec<usize> = (0..self.sites).collect();
        members.rotate_left(site);
        members.truncate(if chance.percent(75) { 3 } else { 2 });
        let level = if chance.percent(70) { Level::Quorum } else { Level::Strong };
        let (of, maker) = (self.number(), *chance.pick(&members));
        let begins = if chance.percent(75) { begins } else { copied + 200 };
        let make = Act::Create { members: members.clone(), level, zone: None, refused: false };
        self.steps.push(Step { at: begins, what: What::Ask(Ask { number: of, site: maker, act: make }) });
        for (from, to) in
            [(begins + 2_000, copied), (copied, restored - 300), (restored + 300, restored + 15_000)]
        {
            for _ in 0..chance.between(1, 4) {
                let (at, asked) = (chance.between(from.min(to), to), *chance.pick(&members));
                let act = match chance.below(10) {
                    0..=2 => Act::Add { of },
                    3..=6 => Act::Patch { of, refused: false },
                    _ => Act::Read { of },
                };
                self.ask_for(at, asked, act);
            }
        }
    }

    /// An image that is made before the copy or after it, and added to before, between and after the two, at all of its sites.
    fn image_around_a_restore(&mut self, chance: &mut Chance, site: usize, copied: u64, restored: u64) {
        let mut members: Vec<usize> = (0..self.sites).collect();
        members.rotate_left(site);
        members.truncate(if chance.percent(60) { 3 } else { 2 });
        let level = if chance.percent(20) { Level::Weak } else { Level::Eventual };
        let (of, maker) = (self.number(), *chance.pick(&members));
        let begins = if chance.percent(75) { copied.saturating_sub(3_000).max(10) } else { copied + 200 };
        let make = Act::Create { members: members.clone(), level, zone: None, refused: false };
        self.steps.push(Step { at: begins, what: What::Ask(Ask { number: of, site: maker, act: make }) });
        for (from, to) in
            [(begins + 1_000, copied), (copied, restored - 300), (restored + 500, restored + 6_000)]
        {
            for _ in 0..chance.between(0, 3) {
                let (at, asked) = (chance.between(from.min(to), to), *chance.pick(&members));
                let act =
                    if chance.percent(70) { Act::Add { of } } else { Act::Patch { of, refused: false } };
                self.ask_for(at, asked, act);
            }
        }
    }
}
