//! What is below an image and what is of its document are the same data: its tags, and its specifications.

use super::{Act, Ask, Fault, Level, Maker, Step, What};
use crate::chance::Chance;

/// So many tags and specifications there are: few, so that writes are about the same ones.
const NAMES: usize = 4;

impl Maker {
    /// In half of the runs, by a chance of its own, when all else that breaks is mended: until then a run is as it would be without
    /// it. Not where a site is shut out.
    pub(super) fn write_tags(&mut self, seed: u64, length: u64) {
        let mut chance = Chance::new(seed, "tags");
        let shuts = |step: &Step| matches!(step.what, What::Break(Fault::Revoke { .. }));
        if !chance.percent(50) || self.steps.iter().any(shuts) {
            return;
        }
        let mut at = self.steps.iter().map(|step| step.at).max().unwrap_or(length) + 20_000;
        for _ in 0..chance.between(1, 3) {
            at = self.tags_apart(&mut chance, at) + 2_000;
        }
    }

    /// An image gets tags that every site knows. Then one site hears nothing of the others, nor they of it, while clients of all write to its
    /// tags, one by one and all at once. Now and then that site ends meanwhile, or one more site gets the image after it. When
    /// that is over.
    fn tags_apart(&mut self, chance: &mut Chance, at: u64) -> u64 {
        let apart = chance.index(self.sites);
        let mut members: Vec<usize> = (0..self.sites).collect();
        members.rotate_left(apart);
        let other = members.pop();
        members.truncate(if chance.percent(60) { 2 } else { 3 });
        let of = self.number();
        let make =
            Act::Create { members: members.clone(), level: Level::Eventual, zone: None, refused: false };
        self.steps.push(Step { at, what: What::Ask(Ask { number: of, site: apart, act: make }) });
        self.ask_for(at + 2_000, apart, Act::Tags { of, labels: vec![0, 1] });
        self.ask_for(at + 2_500, apart, Act::Specs { of, names: vec![0, 1] });
        let cut = at + 4_000;
        let mended = cut + chance.between(500, 8_000);
        let others = members.iter().filter(|other| **other != apart);
        let paths: Vec<_> = others.flat_map(|other| [(apart, *other), (*other, apart)]).collect();
        self.cut(cut, mended, &paths);
        for site in members {
            for _ in 0..chance.between(1, 4) {
                let act = element_write(chance, of);
                self.ask_for(cut + chance.between(20, 400), site, act);
            }
        }
        if chance.percent(20) {
            let (site, crash) = (apart, cut + chance.between(100, 450));
            self.add(crash, Fault::Crash { site, power: chance.percent(50) });
            self.add(crash + chance.between(300, 4_000), Fault::Start(site));
        }
        if let Some(to) = other.filter(|_| chance.percent(20) && !self.backups) {
            self.add(mended + chance.between(1_000, 3_000), Fault::Extend { by: apart, of, to });
        }
        mended
    }
}

/// A write to the tags of an image, or to its specifications; now and then to all of it.
fn element_write(chance: &mut Chance, of: usize) -> Act {
    let some = |chance: &mut Chance| (0..NAMES).filter(|_| chance.percent(50)).collect::<Vec<_>>();
    match chance.below(20) {
        0..=6 => Act::Label { of, label: chance.index(NAMES), on: chance.percent(50) },
        7..=11 => Act::Tags { of, labels: some(chance) },
        12..=14 => Act::Spec { of, name: chance.index(NAMES), on: chance.percent(50) },
        15..=18 => Act::Specs { of, names: vec![chance.index(NAMES - 1), NAMES - 1] },
        _ => Act::Put { of },
    }
}
