//! Races of clients that each make the same new name at exactly one of several sites (`^`), while something breaks.

use super::{Act, Fault, Maker, Step, What};
use crate::app;
use crate::chance::Chance;
use crate::disk;

impl Maker {
    /// In most of the busy runs, and a quarter of the others: by a chance of its own, and mostly when all else that breaks is
    /// mended. Not where a site is given an old copy, or shut out: that may lose a reservation.
    pub(super) fn race_for_names(&mut self, seed: u64, length: u64) {
        let mut chance = Chance::new(seed, "exclusive");
        let shuts = |step: &Step| matches!(step.what, What::Break(Fault::Revoke { .. }));
        if self.backups || self.steps.iter().any(shuts) {
            return;
        }
        let (after, amid) = if self.busy { (50, 30) } else { (20, 5) };
        let draw = chance.below(100);
        if draw < after {
            let last = self.steps.iter().map(|step| step.at).max().unwrap_or(length);
            self.race(&mut chance, last + 1_000);
        } else if draw < after + amid {
            let at = chance.between(length / 3, length);
            self.race(&mut chance, at);
        }
    }

    /// One to three names, each wanted by several clients at several sites within a moment, and by some of them again later.
    fn race(&mut self, chance: &mut Chance, at: u64) {
        for round in 0..chance.between(1, 3) {
            let at = at + round * 3_000 + chance.between(0, 500);
            let mut sites: Vec<usize> = (0..self.sites).collect();
            while sites.len() > 3 || (sites.len() > 2 && chance.percent(20)) {
                sites.remove(chance.index(sites.len()));
            }
            let of = self.asks;
            for _ in 0..chance.between(2, 5) {
                let site = chance.index(self.sites);
                let act = Act::Exclusive { of, sites: turned(chance, &sites) };
                let at =
                    at + if chance.percent(70) { chance.between(0, 60) } else { chance.between(0, 1_500) };
                self.ask_for(at, site, act);
            }
            for _ in 0..chance.between(0, 3) {
                let site = chance.index(self.sites);
                let act = Act::Exclusive { of, sites: turned(chance, &sites) };
                self.ask_for(at + chance.between(2_000, 30_000), site, act);
            }
            if chance.percent(75) {
                self.break_among(chance, &sites, at);
            }
        }
    }

    /// One or two things break while they race.
    fn break_among(&mut self, chance: &mut Chance, sites: &[usize], at: u64) {
        for _ in 0..chance.between(1, 2) {
            let (site, other) = (*chance.pick(sites), chance.index(self.sites));
            let (begin, end) = (at + chance.between(0, 400), at + chance.between(1_000, 20_000));
            match chance.below(5) {
                0 => {
                    let crash = Fault::Crash { site: other, power: chance.percent(50) };
                    self.add(begin, crash);
                    self.add(begin + chance.between(300, 4_000), Fault::Start(other));
                }
                1 if site != other => {
                    let (from, to) = if chance.percent(50) { (site, other) } else { (other, site) };
                    self.add(begin, Fault::Cut { from, to, cut: true });
                    self.add(end, Fault::Cut { from, to, cut: false });
                }
                2 if site != other => self.add(begin, Fault::Reset(site, other)),
                3 => {
                    self.add(begin, Fault::Disk(site, disk::Mood::Slow));
                    self.add(end, Fault::Disk(site, disk::Mood::Good));
                }
                _ => {
                    self.add(at, Fault::App(site, ill(chance)));
                    self.add(end, Fault::App(site, app::Mood::default()));
                }
            }
        }
    }
}

/// The same group, written in another order.
fn turned(chance: &mut Chance, sites: &[usize]) -> Vec<usize> {
    let mut sites = sites.to_vec();
    let turn = chance.index(sites.len());
    sites.rotate_left(turn);
    sites
}

/// A service that makes what it is asked for and does not say so, or late; or one that does nothing.
fn ill(chance: &mut Chance) -> app::Mood {
    let mut mood = app::Mood::default();
    let often = chance.between(40, 100);
    match chance.below(7) {
        0 => mood.loses = often,
        1 => mood.late = often,
        2 => mood.lies = often,
        3 => mood.slow = often,
        4 => mood.fails = often,
        5 => mood.mute = often,
        _ => mood.down = true,
    }
    mood
}
