//! What breaks, and when: somewhere, or where somebody writes.

use super::{Act, Ask, Fault, Maker, What, ZONES};
use crate::chance::Chance;
use crate::{app, disk};

impl Maker {
    /// Something breaks, and is mended after a while.
    pub(super) fn fault(&mut self, length: u64) {
        let at = self.chance.between(500, length);
        let until = at + self.chance.between(200, 15_000);
        let (site, pair) = (self.chance.index(self.sites), self.some_sites(2));
        let (from, to) = (pair[0], pair[1]);
        let kind = match self.chance.below(100) {
            // Disks and services for some of the crashes.
            62..=65 if self.busy => 66,
            71..=75 if self.busy => 76,
            kind => kind,
        };
        match kind {
            0..=11 => self.cut(at, until, &[(from, to), (to, from)]),
            12..=19 => self.cut(at, until, &[(from, to)]),
            20..=24 => {
                let others = (0..self.sites).filter(|other| *other != site);
                let both: Vec<_> = others.flat_map(|other| [(site, other), (other, site)]).collect();
                self.cut(at, until, &both);
            }
            25..=29 => self.flap(at, from, to),
            36..=40 => {
                self.add(at, Fault::Slow { from, to, slow: true });
                self.add(until, Fault::Slow { from, to, slow: false });
            }
            41..=45 => {
                let percent = self.chance.between(5, 40);
                self.add(at, Fault::Loss { from, to, percent });
                self.add(until, Fault::Loss { from, to, percent: 0 });
            }
            46..=65 => {
                let power = self.chance.percent(50);
                let aimed = self.aim().filter(|_| self.chance.percent(60));
                let (site, at) = aimed.unwrap_or((site, at));
                self.add(at, Fault::Crash { site, power });
                self.add(until.max(at + 200), Fault::Start(site));
            }
            66..=75 => {
                let mood = if self.chance.percent(50) { disk::Mood::Full } else { disk::Mood::Slow };
                let (site, at) = self.around(site, at);
                let until = until.max(at + 500);
                self.add(at, Fault::Disk(site, mood));
                // What a disk has not taken shows when the site loses what it remembers.
                if self.chance.percent(50) {
                    let (power, crash) = (self.chance.percent(50), at + self.chance.between(50, until - at));
                    self.add(crash, Fault::Crash { site, power });
                }
                self.add(until, Fault::Disk(site, disk::Mood::Good));
                self.add(until + 200, Fault::Start(site));
            }
            76..=87 => {
                let mood = self.illness();
                let (site, at) = self.around(site, at);
                self.add(at, Fault::App(site, mood));
                self.add(until.max(at + 500), Fault::App(site, app::Mood::default()));
            }
            88..=91 => {
                let by = self.chance.between(0, 600_000).cast_signed() - 300_000;
                let (site, at) = self.around(site, at);
                self.add(at, Fault::Clock(site, by));
            }
            92..=94 => {
                let zone = self.chance.index(ZONES);
                self.add(at, Fault::Zone(site, zone));
            }
            95..=96 => self.leave(site, at, until),
            97 => self.quarantine(from, to, at, until),
            _ => self.reset(at, from, to),
        }
    }

    /// Who is there changes, in most runs once or twice: and in some the last site starts when the others have been there
    /// for a while.
    pub(super) fn change_sites(&mut self, seed: u64, length: u64) -> Option<usize> {
        let mut chance = Chance::new(seed, "sites");
        for _ in 0..chance.below(3) {
            let (at, site) = (chance.between(1_000, length), chance.index(self.sites));
            let until = at + chance.between(2_000, 15_000);
            match chance.below(4) {
                0 | 1 => self.leave(site, at, until),
                2 => self.quarantine((site + 1) % self.sites, site, at, until),
                _ => self.add(at, Fault::Zone(site, chance.index(ZONES))),
            }
        }
        let late = chance.percent(20).then_some(self.sites - 1)?;
        self.add(chance.between(500, length / 2), Fault::Start(late));
        Some(late)
    }

    fn quarantine(&mut self, by: usize, site: usize, at: u64, until: u64) {
        self.add(at, Fault::Quarantine { by, site, on: true });
        self.add(until, Fault::Quarantine { by, site, on: false });
    }

    /// A site says goodbye. It goes on, and comes back, or ends, and starts again.
    fn leave(&mut self, site: usize, at: u64, until: u64) {
        let until = until.max(at + 2_000);
        self.add(at, Fault::Leave(site));
        if self.chance.percent(50) {
            self.add(at + 1_000, Fault::Crash { site, power: false });
            self.add(until, Fault::Start(site));
        } else {
            self.add(until, Fault::Return(site));
        }
    }

    /// A site is given what it had some time ago, and has written since.
    pub(super) fn roll_back(&mut self, length: u64) {
        let at = self.chance.between(length / 4, length);
        let (site, at) = self.around(self.sites - 1, at);
        let until = at + self.chance.between(500, 8_000);
        self.add(at, Fault::BackUp(site));
        self.add(until, Fault::Restore(site));
        self.writes_around_a_copy(site, at, until);
    }

    /// All connections between two sites break: often between a site that was asked and one that it asks, while it does.
    fn reset(&mut self, at: u64, from: usize, to: usize) {
        let forwards = self.steps.iter().filter_map(|step| match &step.what {
            What::Ask(Ask { site, act: Act::Forward { sites, .. }, .. }) => {
                Some((step.at, *site, *sites.iter().find(|other| *other != site)?))
            }
            _ => None,
        });
        let forwards: Vec<(u64, usize, usize)> = forwards.collect();
        if forwards.is_empty() || self.chance.percent(30) {
            return self.add(at, Fault::Reset(from, to));
        }
        let (asked, from, to) = *self.chance.pick(&forwards);
        let at = asked + self.chance.between(1, 80);
        self.add(at, Fault::Reset(from, to));
    }

    /// Often a site that is about to be asked to write, and when; else as it was.
    fn around(&mut self, site: usize, at: u64) -> (usize, u64) {
        let aimed = self.aim().filter(|_| self.chance.percent(60));
        aimed.map_or((site, at), |(site, at)| (site, at.saturating_sub(self.chance.between(20, 400))))
    }

    /// Where and when a crash comes in the middle of something: at the site that was asked, while or just after it
    /// answers, or at any site while it is told.
    fn aim(&mut self) -> Option<(usize, u64)> {
        let writes = self.steps.iter().filter_map(|step| match &step.what {
            What::Ask(ask) if ask.act.writes() => Some((ask.site, step.at)),
            _ => None,
        });
        let writes: Vec<(usize, u64)> = writes.collect();
        let (asked, at) = *self.chance.pick(writes.get(..).filter(|writes| !writes.is_empty())?);
        if self.chance.percent(60) {
            return Some((asked, at + self.chance.between(2, 12)));
        }
        Some((self.chance.index(self.sites), at + self.chance.between(10, 160)))
    }

    pub(super) fn cut(&mut self, at: u64, until: u64, paths: &[(usize, usize)]) {
        for (from, to) in paths {
            self.add(at, Fault::Cut { from: *from, to: *to, cut: true });
            self.add(until, Fault::Cut { from: *from, to: *to, cut: false });
        }
    }

    fn flap(&mut self, mut at: u64, from: usize, to: usize) {
        for _ in 0..self.chance.between(2, 6) {
            let until = at + self.chance.between(50, 2_500);
            self.cut(at, until, &[(from, to), (to, from)]);
            at = until + self.chance.between(50, 1_500);
        }
    }

    /// One thing is wrong with a service, or two.
    fn illness(&mut self) -> app::Mood {
        let mut mood = app::Mood::default();
        for _ in 0..self.chance.between(1, 2) {
            let often = self.chance.between(20, 80);
            match self.chance.below(9) {
                0 => mood.fails = often,
                1 | 2 => mood.lies = often,
                3 => mood.slow = often,
                4 => mood.mute = often,
                5 => mood.loses = often,
                6 => mood.stutters = often,
                7 => mood.late = often,
                _ => mood.down = true,
            }
        }
        mood
    }
}
