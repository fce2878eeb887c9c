//! One site does not answer, or its service does not, and the others have to go on.

use std::collections::BTreeMap;

use super::{Act, Ask, Fault, Level, Maker, Step, What};
use crate::app::Mood;
use crate::chance::Chance;

/// How soon a request has to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Milliseconds after it was sent.
    pub within: u64,
    /// With success; else in any way.
    pub done: bool,
}

/// Requests that have to be answered in time, by their numbers.
pub type Dues = BTreeMap<usize, Due>;

/// A new leader leads so many milliseconds after the last one fell silent.
const ELECTED: u64 = 3_000;
/// The replicas of every image here.
const MEMBERS: [usize; 3] = [0, 1, 2];

impl Maker {
    /// In most of the busy runs, and some of the others: by a chance of its own, when all else is mended, so that until then a
    /// run is as it would be without it. Not where sites come and go, change their versions or are given old copies.
    pub(super) fn stay_available(&mut self, seed: u64, late: Option<usize>) -> Dues {
        let mut chance = Chance::new(seed, "availability");
        let (often, mut dues) = (if self.busy { 70 } else { 30 }, Dues::new());
        let moves = |step: &Step| {
            use Fault::{Leave, Quarantine, Revoke, Version};
            matches!(step.what, What::Break(Leave(_) | Quarantine { .. } | Revoke { .. } | Version(..)))
        };
        let apart = self.backups || late.is_some() || self.steps.iter().any(moves);
        if !chance.percent(often) || apart {
            return dues;
        }
        let at = self.steps.iter().map(|step| step.at).max().unwrap_or(0) + 1_000;
        self.add(at, Fault::Calm);
        let at = at + 25_000;
        let uploads = |step: &Step| matches!(&step.what, What::Ask(Ask { act: Act::Upload { .. }, .. }));
        // Only in runs with files do long bodies go through the spool.
        match chance.below(if self.steps.iter().any(uploads) { 6 } else { 3 }) {
            0 => self.silence_each(&mut chance, at, &mut dues),
            1 => self.stop_services(&mut chance, at, &mut dues),
            2 => self.lose_answers(&mut chance, at, &mut dues),
            _ => self.upload_to_two(&mut chance, at, &mut dues),
        }
        dues
    }

    /// An image at every member.
    fn ordered_image(&mut self, at: u64, site: usize, level: Level) -> usize {
        let of = self.number();
        let act = Act::Create { members: MEMBERS.to_vec(), level, zone: None, refused: false };
        self.steps.push(Step { at, what: What::Ask(Ask { number: of, site, act }) });
        of
    }

    /// A request that has to be answered in time.
    fn ask_due(&mut self, at: u64, site: usize, act: Act, due: Due, dues: &mut Dues) {
        dues.insert(self.asks, due);
        self.ask_for(at, site, act);
    }

    /// Nothing gets to a site, or from it.
    fn silence(&mut self, site: usize, at: u64, until: u64) {
        let others = (0..self.sites).filter(|other| *other != site);
        let paths: Vec<_> = others.flat_map(|other| [(site, other), (other, site)]).collect();
        self.cut(at, until, &paths);
    }

    /// Each member falls silent in turn, the leader among them, while clients of the others write.
    fn silence_each(&mut self, chance: &mut Chance, at: u64, dues: &mut Dues) {
        let (of, mut at) = (self.ordered_image(at, chance.index(3), Level::Quorum), at + 5_000);
        for gone in MEMBERS {
            let until = at + 9_000;
            self.silence(gone, at, until);
            let others = MEMBERS.map(|site| (site + gone + 1) % 3);
            for turn in 0..7 {
                let after = turn * 900 + chance.between(50, 700);
                let done = after >= ELECTED;
                let due = Due { within: if done { 2_000 } else { 4_500 }, done };
                let act = Act::Patch { of, refused: false };
                self.ask_due(at + after, others[chance.index(2)], act, due, dues);
            }
            at = until + chance.between(5_000, 7_000);
        }
    }

    /// Each member's service is down in turn, and its clients read. At `@eventual`, what they wrote may be known nowhere else.
    fn stop_services(&mut self, chance: &mut Chance, at: u64, dues: &mut Dues) {
        let level = *chance.pick(&[Level::Eventual, Level::Quorum, Level::Strong]);
        let (of, mut at) = (self.ordered_image(at, 0, level), at + 5_000);
        for ill in MEMBERS {
            let alone = level == Level::Eventual && chance.percent(50);
            let until = at + 9_000;
            // In half of these it is heard again by then, and the services of the others are slow to execute what it says.
            let heard = alone && at.is_multiple_of(2);
            if alone {
                self.silence(ill, at - 500, if heard { at + 3_050 } else { at + 4_500 });
            }
            for other in MEMBERS.into_iter().filter(|other| heard && *other != ill) {
                self.add(at - 500, Fault::App(other, Mood { slow: 100, ..Mood::default() }));
                self.add(at + 6_000, Fault::App(other, Mood::default()));
            }
            self.ask_for(at, ill, Act::Patch { of, refused: false });
            self.add(at + 3_000, Fault::App(ill, Mood { down: true, ..Mood::default() }));
            for turn in 0..4 {
                let (at, act) = (at + 3_100 + turn * 300 + chance.between(0, 200), Act::Read { of });
                if alone {
                    self.ask_for(at, ill, act);
                } else {
                    self.ask_due(at, ill, act, Due { within: 3_000, done: true }, dues);
                }
            }
            self.add(until, Fault::App(ill, Mood::default()));
            at = until + chance.between(4_000, 6_000);
        }
    }

    /// One member's service adds, again and again, and does not say so. Others have to be able to write before an operator comes.
    fn lose_answers(&mut self, chance: &mut Chance, at: u64, dues: &mut Dues) {
        let (of, mut at) = (self.ordered_image(at, chance.index(3), Level::Quorum), at + 5_000);
        let ill = chance.index(3);
        for _ in MEMBERS {
            self.add(at, Fault::App(ill, Mood { loses: 100, ..Mood::default() }));
            self.ask_for(at + 50, chance.index(3), Act::Add { of });
            self.add(at + 1_500, Fault::App(ill, Mood::default()));
            for turn in 0..3 {
                let (at, site) = (at + 6_000 + turn * 700, (ill + 1 + chance.index(2)) % 3);
                let act = if turn == 1 { Act::Add { of } } else { Act::Patch { of, refused: false } };
                self.ask_due(at, site, act, Due { within: 5_000, done: true }, dues);
            }
            at += chance.between(12_000, 15_000);
        }
    }

    /// Long files come to two of three, while the third is cut off.
    fn upload_to_two(&mut self, chance: &mut Chance, at: u64, dues: &mut Dues) {
        let (of, mut at) = (self.ordered_image(at, chance.index(3), Level::Quorum), at + 5_000);
        for gone in MEMBERS {
            let until = at + 16_000;
            self.silence(gone, at, until);
            let after = ELECTED + chance.between(0, 2_000);
            let bytes = usize::try_from(chance.between(100_000, 300_000)).unwrap_or(100_000);
            let site = MEMBERS.map(|site| (site + gone + 1) % 3)[chance.index(2)];
            let act = Act::Upload { of, bytes, breaks_off: None };
            self.ask_due(at + after, site, act, Due { within: 6_000, done: true }, dues);
            at = until + chance.between(8_000, 10_000);
        }
    }
}
