//! Long files are uploaded to images, while something breaks.

use super::{Act, Fault, Maker, What};
use crate::chance::Chance;
use crate::disk::Mood;

impl Maker {
    /// In some runs: to images that clients made in it, several to one at a time now and then, and often a site ends meanwhile,
    /// or has no room.
    pub(super) fn upload_files(&mut self, seed: u64, length: u64) {
        let mut chance = Chance::new(seed, "files");
        if !chance.percent(25) {
            return;
        }
        for _ in 0..chance.between(3, 7) {
            let Some((of, members, made)) = self.some_image(&mut chance) else { return };
            let at = made + chance.between(1_000, length / 2);
            for _ in 0..chance.between(1, 3) {
                let (site, at) = (*chance.pick(&members), at + chance.between(0, 1_500));
                let bytes = usize::try_from(chance.between(3_000, 300_000)).unwrap_or(3_000);
                let breaks_off = chance.percent(10).then(|| chance.index(bytes));
                self.ask_for(at, site, Act::Upload { of, bytes, breaks_off });
            }
            let site = *chance.pick(&members);
            match chance.below(4) {
                0 => {
                    let crash = at + chance.between(2, 600);
                    self.add(crash, Fault::Crash { site, power: chance.percent(70) });
                    self.add(crash + chance.between(300, 6_000), Fault::Start(site));
                }
                1 => {
                    self.add(at - chance.between(10, 900), Fault::Disk(site, Mood::Full));
                    self.add(at + chance.between(500, 9_000), Fault::Disk(site, Mood::Good));
                }
                _ => {}
            }
            for _ in 0..chance.between(0, 4) {
                self.ask_for(at + chance.between(100, 9_000), *chance.pick(&members), Act::Fetch { of });
            }
        }
    }

    /// One that is not deleted: its number, its sites, and when it is made.
    pub(super) fn some_image(&self, chance: &mut Chance) -> Option<(usize, Vec<usize>, u64)> {
        let living: Vec<_> = self.made.iter().filter(|made| !made.deleted).collect();
        let made = *chance.pick(living.get(..).filter(|living| !living.is_empty())?);
        let step = self
            .steps
            .iter()
            .find(|step| matches!(&step.what, What::Ask(ask) if ask.number == made.number))?;
        Some((made.number, made.members.clone(), step.at))
    }
}
