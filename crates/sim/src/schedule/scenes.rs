//! Scenes: several clients have to do with one image, made for it, and one thing breaks among them.

use super::{Act, Ask, Fault, Level, Maker, Step, What};
use crate::chance::Chance;
use crate::{app, disk};

/// The image of a scene.
struct Prop {
    of: usize,
    members: Vec<usize>,
    /// From when on it is there, where nothing else breaks.
    at: u64,
}

impl Maker {
    /// One of them, somewhere in the run.
    pub(super) fn scene(&mut self, length: u64) {
        let at = self.chance.between(500, length);
        let level = self.level();
        match self.chance.below(12) {
            0 => self.answered_too_late(at),
            1 => self.crash_among_writes(at, level),
            2 | 3 => self.ill_disk_among_writes(at, level),
            4 if self.unordered => self.clock_goes_back(at),
            5 => self.refused_by_one(at, level),
            6 | 7 if self.ordered => self.each_is_cut_off_in_turn(at),
            _ => self.one_is_behind(at),
        }
    }

    /// A site's mesh ends while it has several writes in hand.
    fn crash_among_writes(&mut self, at: u64, level: Level) {
        let prop = self.prop(at, level);
        let site = *self.chance.pick(&prop.members);
        self.writes(&prop, site, 60);
        let (site, power) = (self.one_of(&prop, site, 70), self.chance.percent(50));
        let crash = prop.at + self.chance.between(2, 90);
        self.add(crash, Fault::Crash { site, power });
        let start = crash + self.chance.between(300, 4_000);
        self.add(start, Fault::Start(site));
    }

    /// So does one whose disk takes long, or nothing: what it has not taken shows then.
    fn ill_disk_among_writes(&mut self, at: u64, level: Level) {
        let prop = self.prop(at, level);
        let site = *self.chance.pick(&prop.members);
        let mood = if self.chance.percent(60) { disk::Mood::Slow } else { disk::Mood::Full };
        self.add(prop.at - 20, Fault::Disk(site, mood));
        self.writes(&prop, site, 1_500);
        let (crash, power) = (prop.at + self.chance.between(200, 3_500), self.chance.percent(50));
        self.add(crash, Fault::Crash { site, power });
        self.add(crash + 200, Fault::Disk(site, disk::Mood::Good));
        let start = crash + self.chance.between(300, 3_000);
        self.add(start, Fault::Start(site));
    }

    /// A site's clock goes back between two writes there, neither of which another site has heard of.
    fn clock_goes_back(&mut self, at: u64) {
        let prop = self.prop(at, Level::Eventual);
        let site = *self.chance.pick(&prop.members);
        let away = prop.members.iter().filter(|other| **other != site);
        let paths: Vec<_> = away.flat_map(|other| [(site, *other), (*other, site)]).collect();
        self.cut(prop.at - 20, prop.at + 4_000, &paths);
        let mut at = prop.at;
        for _ in 0..self.chance.between(2, 4) {
            self.ask_for(at, site, Act::Patch { of: prop.of, refused: false });
            let by = self.chance.between(2_000, 300_000).cast_signed();
            at += self.chance.between(200, 600);
            self.add(at, Fault::Clock(site, -by));
            at += self.chance.between(1, 200);
        }
        self.ask_for(at, site, Act::Patch { of: prop.of, refused: false });
    }

    /// One site hears nothing of what the others do, or its service is slow, and everybody reads.
    fn one_is_behind(&mut self, at: u64) {
        let level = match self.chance.below(2) {
            _ if !self.ordered => self.level(),
            0 => Level::Quorum,
            _ => Level::Strong,
        };
        let prop = self.prop(at, level);
        let behind = *self.chance.pick(&prop.members);
        let until = prop.at + self.chance.between(1_500, 8_000);
        if self.chance.percent(70) {
            let others = prop.members.iter().filter(|other| **other != behind);
            let there: Vec<_> = others.map(|other| (*other, behind)).collect();
            let back: Vec<_> = there.iter().map(|(from, to)| (*to, *from)).collect();
            self.cut(prop.at, until, &there);
            if self.chance.percent(50) {
                self.cut(prop.at, until, &back);
            }
        } else {
            self.add(prop.at, Fault::App(behind, app::Mood { slow: 70, ..app::Mood::default() }));
            self.add(until, Fault::App(behind, app::Mood::default()));
        }
        for _ in 0..self.chance.between(2, 4) {
            let (at, site) = (prop.at + self.chance.between(5, 1_500), *self.chance.pick(&prop.members));
            self.ask_for(at, site, Act::Patch { of: prop.of, refused: false });
        }
        for _ in 0..self.chance.between(6, 10) {
            let (at, site) = (prop.at + self.chance.between(50, 2_500), *self.chance.pick(&prop.members));
            self.ask_for(at, site, Act::Read { of: prop.of });
        }
    }

    /// At `@strong` everybody reads, at every replica, while a write is in flight: one service after the other fails, so that
    /// one replica or another has it later than the rest. By a chance of its own, in a third of the runs with one order, when
    /// all else that breaks is mended: until then they are as they would be without it.
    pub(super) fn read_everywhere(&mut self, seed: u64, length: u64) {
        let mut chance = Chance::new(seed, "reads");
        if !chance.percent(33) {
            return;
        }
        let members: Vec<usize> = (0..3).collect();
        let (of, mut at) = (self.number(), length + 20_000);
        let make = Act::Create { members: members.clone(), level: Level::Strong, zone: None, refused: false };
        self.steps.push(Step { at, what: What::Ask(Ask { number: of, site: 0, act: make }) });
        for ill in members.clone() {
            at += chance.between(3_000, 5_000);
            self.add(at - 20, Fault::App(ill, app::Mood { fails: 60, ..app::Mood::default() }));
            self.add(at + 1_500, Fault::App(ill, app::Mood::default()));
            self.ask_for(at, *chance.pick(&members), Act::Patch { of, refused: false });
            for _ in 0..18 {
                let (at, site) = (at + chance.between(5, 1_000), *chance.pick(&members));
                self.ask_for(at, site, Act::Read { of });
            }
        }
    }

    /// One site after the other is cut off while it has a write in hand, so that whichever leads has to follow another then. Its service
    /// is ill: it made something and did not say so, or it cannot be given what the others have.
    fn each_is_cut_off_in_turn(&mut self, at: u64) {
        let level = if self.chance.percent(80) { Level::Quorum } else { Level::Strong };
        let members = self.some_sites(3);
        let mut prop = self.prop_at(at, level, members.clone());
        for site in members.clone() {
            let cut = prop.at + self.chance.between(10, 90);
            let back = cut + self.chance.between(5_000, 8_000);
            let others = members.iter().filter(|other| **other != site);
            let paths: Vec<_> = others.flat_map(|other| [(site, *other), (*other, site)]).collect();
            self.cut(cut, back, &paths);
            let well = if self.chance.percent(50) {
                self.add(prop.at - 20, Fault::App(site, app::Mood { lies: 100, ..app::Mood::default() }));
                let make = Act::Create { members: members.clone(), level, zone: None, refused: false };
                self.ask_for(prop.at, site, make);
                back
            } else {
                self.ask_for(prop.at, site, Act::Patch { of: prop.of, refused: false });
                self.add(cut + 20, Fault::App(site, app::Mood { fails: 100, ..app::Mood::default() }));
                back + 4_000
            };
            self.add(well, Fault::App(site, app::Mood::default()));
            prop.at = well + self.chance.between(1_000, 3_000);
        }
    }

    /// Each site is asked for what its own service refuses, and no other would.
    fn refused_by_one(&mut self, at: u64, level: Level) {
        let prop = self.prop(at, level);
        for site in prop.members.clone() {
            // See `Sea::request`: by which services depends on the number.
            self.asks |= 1;
            let at = prop.at + self.chance.between(0, 800);
            self.ask_for(at, site, Act::Patch { of: prop.of, refused: true });
        }
        self.writes(&prop, prop.members[0], 1_000);
    }

    /// A service makes an image, and says so when nobody waits for it any more.
    fn answered_too_late(&mut self, at: u64) {
        let sites = self.some_sites(2);
        let asked = self.chance.index(self.sites);
        let late = app::Mood { late: 90, ..app::Mood::default() };
        for site in sites.clone() {
            self.add(at - 100, Fault::App(site, late));
            self.add(at + 2_000, Fault::App(site, app::Mood::default()));
        }
        for _ in 0..3 {
            let (at, in_order) = (at + self.chance.between(0, 1_000), self.chance.percent(70));
            self.ask_for(at, asked, Act::Forward { sites: sites.clone(), in_order });
        }
    }

    /// An old copy of a site is made and put back, between writes there: some are in the copy, some are not, and some come
    /// after. Often the site has restarted once between the two.
    pub(super) fn writes_around_a_copy(&mut self, site: usize, copied: u64, restored: u64) {
        let other = (site + 1) % self.sites;
        let members = vec![site, other];
        let of = self.number();
        let make = Act::Create { members, level: Level::Eventual, zone: None, refused: false };
        let before = copied.saturating_sub(3_000);
        self.steps.push(Step { at: before, what: What::Ask(Ask { number: of, site, act: make }) });
        let mut since = copied;
        if self.chance.percent(70) {
            let crash = copied + (restored - copied) / 3;
            self.add(crash, Fault::Crash { site, power: false });
            self.add(crash + 100, Fault::Start(site));
            since = crash + 101;
        }
        for (from, to) in [(before + 1_000, copied), (since, restored), (restored + 500, restored + 4_000)] {
            for _ in 0..self.chance.between(1, 3) {
                let at = self.chance.between(from.min(to), to);
                self.ask_for(at, site, Act::Add { of });
            }
        }
    }

    /// Several writes to an image, at one of its sites, within so many milliseconds.
    fn writes(&mut self, prop: &Prop, site: usize, within: u64) {
        for _ in 0..self.chance.between(3, 7) {
            let at = prop.at + self.chance.between(0, within);
            let add = self.chance.percent(70);
            let act = if add { Act::Add { of: prop.of } } else { Act::Patch { of: prop.of, refused: false } };
            self.ask_for(at, site, act);
        }
    }

    /// So often in a hundred this site, else any that has the image.
    fn one_of(&mut self, prop: &Prop, site: usize, often: u64) -> usize {
        if self.chance.percent(often) { site } else { *self.chance.pick(&prop.members) }
    }

    fn prop(&mut self, at: u64, level: Level) -> Prop {
        let count = if level == Level::Quorum { 3 } else { self.chance.between(2, 3) };
        let members = self.some_sites(usize::try_from(count).unwrap_or(2));
        self.prop_at(at, level, members)
    }

    fn prop_at(&mut self, at: u64, level: Level, members: Vec<usize>) -> Prop {
        let (of, site) = (self.number(), *self.chance.pick(&members));
        let make = Act::Create { members: members.clone(), level, zone: None, refused: false };
        self.steps.push(Step { at, what: What::Ask(Ask { number: of, site, act: make }) });
        Prop { of, members, at: at + self.chance.between(1_000, 2_500) }
    }

    pub(super) fn ask_for(&mut self, at: u64, site: usize, act: Act) {
        let number = self.number();
        self.steps.push(Step { at, what: What::Ask(Ask { number, site, act }) });
    }
}
