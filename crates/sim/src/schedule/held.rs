//! Writes that a service has not executed when their clients are answered: at `@weak` while it does not run, behind one that is
//! in doubt, and a delete that it does not let happen.

use super::{Act, Ask, Fault, Level, Maker, Step, What};
use crate::app;
use crate::chance::Chance;

impl Maker {
    /// One of them in half of the busy runs, and a quarter of the others: by a chance of its own, when all else that breaks is
    /// mended, so that until then a run is as it would be without it. Not where a site is given an old copy, or shut out.
    pub(super) fn hold_back(&mut self, seed: u64, length: u64) {
        let mut chance = Chance::new(seed, "held");
        let shuts = |step: &Step| matches!(step.what, What::Break(Fault::Revoke { .. }));
        let often = if self.busy { 50 } else { 25 };
        if self.backups || self.steps.iter().any(shuts) || !chance.percent(often) {
            return;
        }
        let last = self.steps.iter().map(|step| step.at).max().unwrap_or(length);
        let at = last + chance.between(1_000, 3_000);
        match chance.below(10) {
            0..=4 => self.weak_writes(&mut chance, at),
            5..=6 => self.queue_behind_doubt(&mut chance, at),
            _ => self.delete_what_is_protected(&mut chance, at),
        }
    }

    /// Clients write at `@weak` while the service of their site does not run. Often the mesh of that site ends meanwhile; in half
    /// of these runs everybody has a credential, and now and then the site has lost its own for some time.
    fn weak_writes(&mut self, chance: &mut Chance, at: u64) {
        let members = self.members(chance);
        let site = members[0];
        let keys = chance.percent(50);
        if keys {
            self.add(0, Fault::Keys);
        }
        let of = self.image(at, site, &members, Level::Weak);
        let (down, up) = (at + 3_000, at + 3_000 + chance.between(800, 6_000));
        let lost = keys && chance.percent(50);
        if lost {
            self.add(down - 700, Fault::Key { site, lost: true });
        }
        self.add(down, Fault::App(site, app::Mood { down: true, ..app::Mood::default() }));
        self.add(up, Fault::App(site, app::Mood::default()));
        for _ in 0..chance.between(3, 7) {
            let when = chance.between(down - 100, up + 300);
            let act = match chance.below(10) {
                0..=4 => Act::Add { of },
                5..=6 => Act::Patch { of, refused: false },
                7 => Act::Patch { of, refused: true },
                _ => Act::Create { members: members.clone(), level: Level::Weak, zone: None, refused: false },
            };
            self.ask_for(when, site, act);
        }
        if chance.percent(60) {
            let crash = chance.between(down + 100, up);
            self.add(crash, Fault::Crash { site, power: chance.percent(50) });
            self.add(crash + chance.between(100, 2_000), Fault::Start(site));
        }
        let end = up + 8_000;
        self.add(end, Fault::Look { site, of });
        if lost {
            self.add(end + 100, Fault::Key { site, lost: false });
        }
        self.ask_for(end + 1_500, *chance.pick(&members), Act::Add { of });
    }

    /// A service takes long to execute an addition, and says that it failed: what comes behind it waits.
    fn queue_behind_doubt(&mut self, chance: &mut Chance, at: u64) {
        let members = self.members(chance);
        let site = members[0];
        let of = self.image(at, site, &members, Level::Eventual);
        let ill = at + 3_000;
        let mood = if chance.percent(50) {
            app::Mood { slow: 100, lies: 100, ..app::Mood::default() }
        } else {
            app::Mood { late: 100, ..app::Mood::default() }
        };
        self.add(ill - 50, Fault::App(site, mood));
        self.ask_for(ill, site, Act::Add { of });
        for _ in 0..chance.between(1, 4) {
            let act = match chance.below(3) {
                0 => Act::Put { of },
                1 => Act::Patch { of, refused: false },
                _ => Act::Add { of },
            };
            self.ask_for(ill + chance.between(10, 300), site, act);
        }
        self.add(ill + chance.between(1_000, 20_000), Fault::App(site, app::Mood::default()));
    }

    /// An image is protected at one site, and deleted at another that does not hear of it. When they meet, the service of the
    /// first does not let it go, and clients go on to write.
    fn delete_what_is_protected(&mut self, chance: &mut Chance, at: u64) {
        let members = self.members(chance);
        let (site, other) = (members[0], members[1]);
        let of = self.image(at, site, &members, Level::Eventual);
        let (cut, heal) = (at + 4_000, at + 4_000 + chance.between(2_000, 4_000));
        let paths: Vec<_> = members
            .iter()
            .flat_map(|one| [(*one, other), (other, *one)])
            .filter(|(from, to)| from != to)
            .collect();
        self.cut(cut, heal, &paths);
        self.ask_for(cut + 200, site, Act::Protect { of });
        self.ask_for(cut + 300, other, Act::Delete { of });
        let later = heal + 15_000;
        for _ in 0..chance.between(3, 6) {
            let act = match chance.below(5) {
                0 => Act::Delete { of },
                1 => Act::Put { of },
                2 => Act::Add { of },
                3 => Act::Read { of },
                _ => Act::Patch { of, refused: false },
            };
            let when = chance.between(later, later + 4_000);
            self.ask_for(when, *chance.pick(&members), act);
        }
        self.add(later + 8_000, Fault::Look { site, of });
    }

    fn members(&mut self, chance: &mut Chance) -> Vec<usize> {
        let mut members: Vec<usize> = (0..self.sites).collect();
        let turn = chance.index(members.len());
        members.rotate_left(turn);
        members.truncate(if chance.percent(40) { 2 } else { 3 });
        members
    }

    fn image(&mut self, at: u64, site: usize, members: &[usize], level: Level) -> usize {
        let of = self.number();
        let act = Act::Create { members: members.to_vec(), level, zone: None, refused: false };
        self.steps.push(Step { at, what: What::Ask(Ask { number: of, site, act }) });
        of
    }
}
