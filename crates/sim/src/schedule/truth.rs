//! Operators look at replicas while these are not as they should be: one comes back to a site whose service does not run, and one is
//! changed behind Archipel's back.

use super::{Act, Ask, Fault, Level, Maker, Step, What};
use crate::app::Mood;
use crate::chance::Chance;

impl Maker {
    /// In most of the busy runs, and half of the others: by a chance of its own, when all else is over and mended. Not where a
    /// site is given an old copy, is shut out, or goes.
    pub(super) fn look_at_replicas(&mut self, seed: u64, length: u64) {
        let mut chance = Chance::new(seed, "truth");
        let moves = |step: &Step| {
            use Fault::{Leave, Quarantine, Revoke};
            matches!(step.what, What::Break(Leave(_) | Quarantine { .. } | Revoke { .. }))
        };
        let often = if self.busy { 80 } else { 50 };
        let apart = self.backups || self.steps.iter().any(moves);
        if apart || !self.unordered || !chance.percent(often) {
            return;
        }
        let at = self.steps.iter().map(|step| step.at).max().unwrap_or(length) + 2_000;
        self.add(at, Fault::Calm);
        if chance.percent(60) {
            self.come_back(&mut chance, at + 25_000);
        } else {
            self.change_behind(&mut chance, at + 25_000);
        }
    }

    fn image_to_look_at(&mut self, at: u64, members: &[usize]) -> usize {
        let of = self.number();
        let act =
            Act::Create { members: members.to_vec(), level: Level::Eventual, zone: None, refused: false };
        self.steps.push(Step { at, what: What::Ask(Ask { number: of, site: members[0], act }) });
        of
    }

    /// Clients ask what would come of a creation, and of a change.
    fn ask_dry(&mut self, chance: &mut Chance, at: u64, of: usize, members: &[usize]) {
        for of in [None, Some(of)] {
            let (site, sites) = (chance.index(self.sites), members.to_vec());
            self.ask_for(at + chance.between(0, 1_500), site, Act::DryRun { of, sites });
        }
    }

    fn members_to_look_at(&self, chance: &mut Chance, three: u64) -> Vec<usize> {
        let mut members: Vec<usize> = (0..self.sites).collect();
        members.rotate_left(chance.index(self.sites));
        members.truncate(if chance.percent(three) { 3 } else { 2 });
        members
    }

    /// A site loses its replica and gets one again, while its service does not run, or nobody hears it.
    fn come_back(&mut self, chance: &mut Chance, at: u64) {
        let members = self.members_to_look_at(chance, 50);
        let (by, site) = (members[0], members[1]);
        let of = self.image_to_look_at(at, &members);
        self.ask_for(at + 2_000, by, Act::Add { of });
        self.ask_dry(chance, at + 3_000, of, &members);
        self.add(at + 5_000, Fault::Shrink { by, of, from: site });
        let away = at + 5_000 + chance.between(200, 12_000);
        let back = away + chance.between(6_000, 15_000);
        if chance.percent(70) {
            self.add(away, Fault::App(site, Mood { down: true, ..Mood::default() }));
            self.add(back, Fault::App(site, Mood::default()));
        } else {
            let others = (0..self.sites).filter(|other| *other != site);
            let paths: Vec<_> = others.flat_map(|other| [(site, other), (other, site)]).collect();
            self.cut(away, back, &paths);
        }
        let again = away + chance.between(100, 3_000);
        self.add(again, Fault::GiveBack { by, of, to: site });
        let mut look = again + 5;
        while look < back + 12_000 {
            self.add(look, Fault::LookForGood(of));
            look += chance.between(50, 900);
        }
    }

    /// Somebody changes an image in one service, behind the mesh's back. An operator compares, and says which is good.
    fn change_behind(&mut self, chance: &mut Chance, at: u64) {
        let members = self.members_to_look_at(chance, 40);
        let (by, site) = (*chance.pick(&members), *chance.pick(&members));
        let of = self.image_to_look_at(at, &members);
        self.ask_for(at + 2_000, members[0], Act::Add { of });
        self.ask_dry(chance, at + 3_000, of, &members);
        let changed = at + 20_000;
        self.add(changed, Fault::Tamper { site, of });
        self.add(changed + 500, Fault::Diff { by, of });
        for turn in 0..chance.between(2, 6) {
            self.add(changed + 12_000 + turn * 1_500, Fault::LookForDiffering(of));
        }
        let good = members.iter().copied().find(|member| *member != site).unwrap_or(site);
        self.add(changed + 25_000, Fault::Repair { by: site, of, from: good });
    }
}
