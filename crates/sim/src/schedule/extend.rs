//! Images are given one more site, whose service is ill meanwhile.

use super::{Act, Ask, Fault, Level, Maker, Step, What};
use crate::app;
use crate::chance::Chance;

/// What is given one more site.
struct Image {
    of: usize,
    members: Vec<usize>,
    /// When the operator orders it.
    extended: u64,
}

impl Maker {
    /// In most of the busy runs, and some of the others: by a chance of its own, and mostly when all else that breaks is mended, so that
    /// until then a run is as it would be without it. Not where a site is given an old copy of anything, or shut out.
    pub(super) fn extend(&mut self, seed: u64, length: u64) {
        let mut chance = Chance::new(seed, "extend");
        let shuts =
            |step: &Step| matches!(step.what, What::Break(Fault::Revoke { .. } | Fault::RestoreRecords(_)));
        if self.backups || self.steps.iter().any(shuts) {
            return;
        }
        let (after, amid) = if self.busy { (50, 20) } else { (8, 2) };
        let draw = chance.below(100);
        if draw < after {
            let last = self.steps.iter().map(|step| step.at).max().unwrap_or(length);
            self.copies_without_answers(&mut chance, last + 1_000);
        } else if draw < after + amid {
            let at = chance.between(length / 3, length);
            self.copies_without_answers(&mut chance, at);
        }
    }

    /// Operators have replicas made at a site whose service says late, or never, that it made them, while clients write. Now and then
    /// that site's mesh ends, or that of the site at which it was ordered.
    fn copies_without_answers(&mut self, chance: &mut Chance, at: u64) {
        let to = chance.index(self.sites);
        let others: Vec<usize> = (0..self.sites).filter(|site| *site != to).collect();
        let ill = at + chance.between(2_000, 4_000);
        let well = ill + chance.between(2_000, 25_000);
        let images: Vec<Image> = (0..chance.between(1, 3))
            .map(|_| {
                let mut members = others.clone();
                let turn = chance.index(members.len());
                members.rotate_left(turn);
                members.truncate(if chance.percent(70) { 2 } else { 3 });
                let level = if chance.percent(15) { Level::Weak } else { Level::Eventual };
                let (of, made) = (self.number(), at + chance.between(0, 500));
                let act = Act::Create { members: members.clone(), level, zone: None, refused: false };
                let ask = Ask { number: of, site: members[0], act };
                self.steps.push(Step { at: made, what: What::Ask(ask) });
                Image { of, members, extended: ill + chance.between(20, 1_500) }
            })
            .collect();
        self.add(ill, Fault::App(to, without_answers(chance)));
        self.add(well, Fault::App(to, app::Mood::default()));
        for image in &images {
            let by = *chance.pick(&image.members);
            self.add(image.extended, Fault::Extend { by, of: image.of, to });
            self.write_around(chance, image, to, (at + 900, ill, well));
            if chance.percent(30) {
                let site = if chance.percent(70) { to } else { by };
                let crash = image.extended + chance.between(5, 4_000);
                self.add(crash, Fault::Crash { site, power: chance.percent(50) });
                self.add(crash + chance.between(300, 4_000), Fault::Start(site));
            }
        }
    }

    /// Clients write before that, while it happens, and after it.
    fn write_around(&mut self, chance: &mut Chance, image: &Image, to: usize, times: (u64, u64, u64)) {
        let (from, ill, well) = times;
        let files = self
            .steps
            .iter()
            .any(|step| matches!(&step.what, What::Ask(Ask { act: Act::Upload { .. }, .. })));
        let during = image.extended;
        let phases = [
            (from, ill, 0),
            (during, during + 600, 10),
            (during, well.max(during), 30),
            (well, well + 8_000, 40),
        ];
        let mut deleted = false;
        for (from, until, newcomer) in phases {
            for _ in 0..chance.between(1, 4) {
                let at = chance.between(from, until);
                let site = if chance.percent(newcomer) { to } else { *chance.pick(&image.members) };
                let of = image.of;
                let act = match chance.below(100) {
                    0..=49 => Act::Add { of },
                    50..=74 => Act::Patch { of, refused: false },
                    75..=79 => Act::Put { of },
                    80..=81 if from >= during && !deleted => {
                        deleted = true;
                        Act::Delete { of }
                    }
                    82..=89 if files => {
                        let bytes = usize::try_from(chance.between(1_000, 100_000)).unwrap_or(1_000);
                        Act::Upload { of, bytes, breaks_off: None }
                    }
                    _ => Act::Read { of },
                };
                self.ask_for(at, site, act);
            }
        }
    }
}

/// What was made, and nobody was told; or what takes too long to be waited for.
fn without_answers(chance: &mut Chance) -> app::Mood {
    let mut mood = app::Mood::default();
    for _ in 0..chance.between(1, 2) {
        let often = chance.between(50, 100);
        match chance.below(8) {
            0 | 1 => mood.loses = often,
            2 | 3 => mood.late = often,
            4 | 5 => mood.lies = often,
            6 => mood.slow = often,
            _ => mood.mute = often,
        }
    }
    mood
}
