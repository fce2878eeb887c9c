//! What clients do in a run, and what breaks: a list, made of the seed, from which steps can be taken out.

use crate::app;
use crate::chance::Chance;
use crate::disk;
use crate::membership;

mod availability;
mod counted;
mod erased;
mod exclusive;
mod extend;
mod faults;
mod files;
mod held;
mod hurried;
mod lingering;
mod restored;
mod revocation;
mod scenes;
mod tags;
mod truth;
mod versions;
mod walks;

pub use availability::{Due, Dues};
pub use hurried::Hurries;

/// One run, before it is run.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// What decides everything that is not listed: delays, ids, which executions fail.
    pub seed: u64,
    /// How many sites there are.
    pub sites: usize,
    /// One that does not run from the beginning, if there is one.
    pub late: Option<usize>,
    /// Steps in the order of their times.
    pub steps: Vec<Step>,
    /// Requests that have to be answered in time.
    pub dues: Dues,
    /// Requests whose clients wait for some time only.
    pub hurries: Hurries,
    /// Services keep the names of operations, and the profile says where.
    pub probes: bool,
    /// Services name what they make by counting.
    pub counts: bool,
}

/// Something that happens at some time.
#[derive(Clone, Debug)]
pub struct Step {
    /// Milliseconds from the start.
    pub at: u64,
    /// What.
    pub what: What,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum What {
    /// A client asks for something.
    Ask(Ask),
    /// Something breaks, or is mended.
    Break(Fault),
    /// A client follows the pages of a list.
    Walk(Walk),
}

/// A list of several sites, in pages.
#[derive(Clone, Debug)]
pub struct Walk {
    /// The site that is asked.
    pub site: usize,
    /// Those whose images are listed, in the order of the scope.
    pub sites: Vec<usize>,
    /// How many are on a page.
    pub limit: usize,
    /// How long the client waits before each.
    pub pause_ms: u64,
}

/// A client's request.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Its number, and the name of what it writes: `w7`.
    pub number: usize,
    /// The site that is asked.
    pub site: usize,
    /// What for.
    pub act: Act,
}

/// When a replicated write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// As the language has it.
    Weak,
    /// See there.
    Eventual,
    /// See there.
    Quorum,
    /// See there.
    Strong,
}

impl Level {
    /// As it is written after a group.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Level::Weak => " @weak",
            Level::Eventual => "",
            Level::Quorum => " @quorum",
            Level::Strong => " @strong",
        }
    }

    /// Whether its writes have one order.
    #[must_use]
    pub fn is_ordered(self) -> bool {
        matches!(self, Level::Quorum | Level::Strong)
    }
}

/// What a client asks for. `of` is the number of the request that made the image.
#[derive(Clone, Debug)]
pub enum Act {
    /// A replicated image; by the name of a zone, where one is given.
    Create {
        /// At these sites.
        members: Vec<usize>,
        /// At this level.
        level: Level,
        /// As this zone says.
        zone: Option<usize>,
        /// In a way that the service refuses.
        refused: bool,
    },
    /// Adds to an image: counted once, or never.
    Add {
        /// See above.
        of: usize,
    },
    /// Sets its name.
    Patch {
        /// See above.
        of: usize,
        /// In a way that the service refuses.
        refused: bool,
    },
    /// Gives it a label, or takes one away: an element of its tags.
    Label {
        /// See above.
        of: usize,
        /// Which.
        label: usize,
        /// Or taken away.
        on: bool,
    },
    /// Sets all its tags.
    Tags {
        /// See above.
        of: usize,
        /// Which there are then.
        labels: Vec<usize>,
    },
    /// Sets one of its specifications, or takes it away.
    Spec {
        /// See above.
        of: usize,
        /// Which.
        name: usize,
        /// Or taken away.
        on: bool,
    },
    /// Sets some of them.
    Specs {
        /// See above.
        of: usize,
        /// Which.
        names: Vec<usize>,
    },
    /// From now on its service holds it for a while when it is deleted.
    Hold {
        /// See above.
        of: usize,
        /// So long.
        ms: u64,
    },
    /// Replaces it.
    Put {
        /// See above.
        of: usize,
    },
    /// Deletes it.
    Delete {
        /// See above.
        of: usize,
    },
    /// Protects it: its service does not delete it then.
    Protect {
        /// See above.
        of: usize,
    },
    /// Uploads its file.
    Upload {
        /// See above.
        of: usize,
        /// How long it is.
        bytes: usize,
        /// The client is gone after so many of these.
        breaks_off: Option<usize>,
    },
    /// Reads its file.
    Fetch {
        /// See above.
        of: usize,
    },
    /// Reads it.
    Read {
        /// See above.
        of: usize,
    },
    /// A list of this site's own, without a scope.
    Local,
    /// Makes an image that is this site's own, without a scope.
    Make,
    /// A list of several sites.
    List {
        /// Which.
        sites: Vec<usize>,
    },
    /// Makes an image that is not replicated, at one of these sites.
    Forward {
        /// In this order.
        sites: Vec<usize>,
        /// `;`, else `|`.
        in_order: bool,
    },
    /// Asks what would come of making an image at these sites, or of changing one.
    DryRun {
        /// The number of the request that made it.
        of: Option<usize>,
        /// See above.
        sites: Vec<usize>,
    },
    /// Makes something by a name that the client chose, or replaces it, at exactly one of these sites.
    Exclusive {
        /// The number of the first request for that name.
        of: usize,
        /// As they are written.
        sites: Vec<usize>,
    },
}

impl Act {
    /// The number of the request that made the image that it is about.
    #[must_use]
    pub fn of(&self) -> Option<usize> {
        match *self {
            Act::Add { of }
            | Act::Patch { of, .. }
            | Act::Label { of, .. }
            | Act::Tags { of, .. }
            | Act::Spec { of, .. }
            | Act::Specs { of, .. }
            | Act::Hold { of, .. }
            | Act::Put { of }
            | Act::Delete { of }
            | Act::Protect { of }
            | Act::Upload { of, .. }
            | Act::Fetch { of }
            | Act::Read { of } => Some(of),
            Act::Create { .. }
            | Act::Local
            | Act::Make
            | Act::List { .. }
            | Act::Forward { .. }
            | Act::DryRun { .. }
            | Act::Exclusive { .. } => None,
        }
    }

    /// Whether it asks for a change.
    #[must_use]
    pub fn writes(&self) -> bool {
        !matches!(
            self,
            Act::Local | Act::List { .. } | Act::Read { .. } | Act::Fetch { .. } | Act::DryRun { .. }
        )
    }
}

/// What breaks, or is mended.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing gets from one site to another, or everything does again.
    Cut {
        /// From here.
        from: usize,
        /// To there.
        to: usize,
        /// Or mended.
        cut: bool,
    },
    /// All connections between two sites break.
    Reset(usize, usize),
    /// Little gets from one site to another at a time, or as much as before.
    Slow {
        /// From here.
        from: usize,
        /// To there.
        to: usize,
        /// Or mended.
        slow: bool,
    },
    /// So much is lost, and sent again.
    Loss {
        /// From here.
        from: usize,
        /// To there.
        to: usize,
        /// Of a hundred.
        percent: u64,
    },
    /// A site's mesh ends.
    Crash {
        /// Where.
        site: usize,
        /// With its machine.
        power: bool,
    },
    /// It starts again.
    Start(usize),
    /// A copy is made of what a site has.
    BackUp(usize),
    /// A site crashes, and starts with that copy.
    Restore(usize),
    /// The same, but that its service keeps what it has: only what Archipel recorded is put back.
    RestoreRecords(usize),
    /// A site's disk.
    Disk(usize, disk::Mood),
    /// A site's service.
    App(usize, app::Mood),
    /// A site's clock jumps, by so many milliseconds.
    Clock(usize, i64),
    /// What the zone stands for, from now on, as an operator at one site says.
    Zone(usize, usize),
    /// A site says goodbye.
    Leave(usize),
    /// It is a member again.
    Return(usize),
    /// A site is kept unused, or used again, as an operator at another says.
    Quarantine {
        /// That one.
        by: usize,
        /// See above.
        site: usize,
        /// Or used again.
        on: bool,
    },
    /// A site goes on as another version.
    Version(usize, u16),
    /// An image is to have a replica at one more site, as an operator says.
    Extend {
        /// At this site.
        by: usize,
        /// The number of the request that made the image.
        of: usize,
        /// See above.
        to: usize,
    },
    /// An image is to have no replica at a site any more, as an operator says.
    Shrink {
        /// At this site.
        by: usize,
        /// The number of the request that made the image.
        of: usize,
        /// See above.
        from: usize,
    },
    /// A site that lost its replica so is to have one again.
    GiveBack {
        /// As an operator says at this site.
        by: usize,
        /// The number of the request that made the image.
        of: usize,
        /// See above.
        to: usize,
    },
    /// Operators look whether what is shown as good is there.
    LookForGood(usize),
    /// Somebody changes an image in one service, by hand.
    Tamper {
        /// That one's site.
        site: usize,
        /// The number of the request that made the image.
        of: usize,
    },
    /// An operator compares the replicas of an image.
    Diff {
        /// At this site.
        by: usize,
        /// The number of the request that made the image.
        of: usize,
    },
    /// Operators look whether what differs is shown as good.
    LookForDiffering(usize),
    /// The replica at a site is to take the state of another, as an operator says.
    Repair {
        /// That site.
        by: usize,
        /// The number of the request that made the image.
        of: usize,
        /// The other.
        from: usize,
    },
    /// An operator looks whether an image that this request made is deleted at each of its sites.
    LookForDeleted(usize),
    /// All that is broken is mended.
    Calm,
    /// A site is shut out for good, as an operator at another says.
    Revoke {
        /// That one.
        by: usize,
        /// See above.
        site: usize,
    },
    /// Services ask for a credential: every client has one, and so has every site.
    Keys,
    /// A site has lost its own, or has it again. For that it starts anew.
    Key {
        /// Which.
        site: usize,
        /// Or has it again.
        lost: bool,
    },
    /// An operator looks whether a site says why it has not executed all that is written to an image.
    Look {
        /// Where.
        site: usize,
        /// The number of the request that made the image.
        of: usize,
    },
}

/// The number of what a zone can stand for.
pub const ZONES: usize = 3;

/// What the zone stands for.
#[must_use]
pub fn zone_members(number: usize, sites: usize) -> Vec<usize> {
    match number % ZONES {
        0 => vec![0, 1],
        1 => vec![0, 1, 2],
        _ => (1..sites.min(3)).collect(),
    }
}

struct Made {
    number: usize,
    members: Vec<usize>,
    level: Level,
    deleted: bool,
}

#[allow(clippy::struct_excessive_bools, reason = "what a run has, each or not")]
struct Maker {
    chance: Chance,
    sites: usize,
    ordered: bool,
    unordered: bool,
    backups: bool,
    busy: bool,
    made: Vec<Made>,
    steps: Vec<Step>,
    asks: usize,
}

impl Schedule {
    /// The run of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Schedule {
        Schedule::make(seed, false)
    }

    /// Another one, with twice as much to do and more that breaks.
    #[must_use]
    pub fn busy(seed: u64) -> Schedule {
        Schedule::make(seed, true)
    }

    fn make(seed: u64, busy: bool) -> Schedule {
        let mut chance = Chance::new(seed, "schedule");
        let sites = if chance.percent(70) { 3 } else { 4 };
        let flavour = chance.below(4);
        let mut maker = Maker {
            sites,
            ordered: matches!(flavour, 1 | 2),
            unordered: flavour != 1,
            backups: flavour == 3,
            busy,
            chance,
            made: Vec::new(),
            steps: Vec::new(),
            asks: 0,
        };
        let length = maker.chance.between(15_000, 45_000);
        let (asks, faults) = if busy { ((40, 90), (3, 16)) } else { ((20, 45), (0, 10)) };
        let asks = maker.chance.between(asks.0, asks.1);
        for _ in 0..asks {
            let at = maker.chance.between(100, length);
            maker.steps.push(Step { at, what: What::Ask(Ask { number: 0, site: 0, act: Act::Local }) });
        }
        // Images first: what follows needs one.
        for _ in 0..maker.chance.between(2, 5) {
            let at = maker.chance.between(10, length / 3);
            maker.steps.push(Step { at, what: What::Ask(Ask { number: 1, site: 0, act: Act::Local }) });
        }
        maker.steps.sort_by_key(|step| step.at);
        for step in std::mem::take(&mut maker.steps) {
            let first = matches!(&step.what, What::Ask(ask) if ask.number == 1);
            let ask = maker.ask(first);
            maker.steps.push(Step { at: step.at, what: What::Ask(ask) });
            if maker.chance.percent(if busy { 12 } else { 6 }) {
                maker.burst(step.at);
            }
        }
        for _ in 0..maker.chance.between(faults.0, faults.1) {
            maker.fault(length);
        }
        let scenes = if busy { (2, 5) } else { (0, 1) };
        for _ in 0..maker.chance.between(scenes.0, scenes.1) {
            maker.scene(length);
        }
        if maker.backups {
            maker.roll_back(length);
        }
        if busy && maker.ordered {
            maker.read_everywhere(seed, length);
        }
        let late = maker.change_sites(seed, length);
        maker.change_versions(seed, length);
        maker.upload_files(seed, length);
        let (dues, hurries) = (Dues::new(), Hurries::new());
        let mut schedule =
            Schedule { seed, sites, late, steps: Vec::new(), dues, hurries, probes: false, counts: false };
        let met_by = late.map(|late| (late, membership::files(&schedule)[late].join[0]));
        maker.revoke(seed, length, met_by);
        maker.restore_records(seed, length);
        maker.extend(seed, length);
        maker.write_tags(seed, length);
        maker.hold_deletions(seed, length);
        schedule.dues = maker.stay_available(seed, late);
        maker.walk(seed, length);
        maker.race_for_names(seed, length);
        maker.read_while_added_again(seed, length);
        maker.hold_back(seed, length);
        schedule.hurries = maker.hurry(seed, length);
        maker.look_at_replicas(seed, length);
        maker.restore_records_in_order(seed);
        maker.steps.sort_by_key(|step| step.at);
        schedule.steps = maker.steps;
        schedule
    }
}

impl Maker {
    fn ask(&mut self, first: bool) -> Ask {
        let number = self.number();
        let site = self.chance.index(self.sites);
        let living: Vec<usize> = (0..self.made.len()).filter(|index| !self.made[*index].deleted).collect();
        let draw = if first { 0 } else { self.chance.below(100) };
        let act = match draw {
            0..=9 => self.create(number),
            10..=17 => Act::Local,
            18..=21 => Act::List { sites: self.some_sites(2) },
            22..=30 => Act::Forward { sites: self.some_sites(2), in_order: self.chance.percent(50) },
            _ if living.is_empty() => self.create(number),
            draw => {
                let index = *self.chance.pick(&living);
                return self.on(number, site, index, draw);
            }
        };
        Ask { number, site, act }
    }

    /// Several clients at once, at several sites, about one image.
    fn burst(&mut self, at: u64) {
        let living: Vec<usize> = (0..self.made.len()).filter(|index| !self.made[*index].deleted).collect();
        if living.is_empty() {
            return;
        }
        let index = *self.chance.pick(&living);
        for _ in 0..self.chance.between(3, 7) {
            let (number, draw) = (self.number(), self.chance.between(31, 100));
            let site = self.chance.index(self.sites);
            let ask = self.on(number, site, index, draw);
            let at = at + self.chance.between(1, 250);
            self.steps.push(Step { at, what: What::Ask(ask) });
            if self.made[index].deleted {
                return;
            }
        }
    }

    fn on(&mut self, number: usize, site: usize, index: usize, draw: u64) -> Ask {
        let (of, level) = (self.made[index].number, self.made[index].level);
        let members = self.made[index].members.clone();
        // Sites without a replica do not know it; now and then one is asked nevertheless.
        let site = if self.chance.percent(90) { *self.chance.pick(&members) } else { site };
        let act = match draw {
            31..=50 => Act::Add { of },
            51..=72 => Act::Patch { of, refused: self.chance.percent(10) },
            73..=76 if !level.is_ordered() => Act::Put { of },
            77..=79 if !level.is_ordered() => {
                self.made[index].deleted = true;
                Act::Delete { of }
            }
            _ => Act::Read { of },
        };
        Ask { number, site, act }
    }

    fn number(&mut self) -> usize {
        self.asks += 1;
        self.asks - 1
    }

    fn level(&mut self) -> Level {
        match (self.ordered, self.unordered, self.chance.below(10)) {
            (true, false, draw) => {
                if draw < 6 {
                    Level::Quorum
                } else {
                    Level::Strong
                }
            }
            (true, true, 0..=2) => Level::Quorum,
            (true, true, 3..=4) => Level::Strong,
            (_, _, 9) => Level::Weak,
            _ => Level::Eventual,
        }
    }

    fn create(&mut self, number: usize) -> Act {
        let zone = self.chance.percent(15).then(|| self.chance.index(ZONES));
        let level = self.level();
        let members = if level == Level::Quorum && self.chance.percent(80) {
            vec![0, 1, 2]
        } else {
            let count = self.chance.between(2, 3);
            self.some_sites(usize::try_from(count).unwrap_or(2))
        };
        let refused = self.chance.percent(8);
        // What a zone is may have changed by then: nobody writes to what is made so.
        if !refused && zone.is_none() {
            self.made.push(Made { number, members: members.clone(), level, deleted: false });
        }
        Act::Create { members, level, zone, refused }
    }

    fn some_sites(&mut self, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.sites).collect();
        while all.len() > count {
            let index = self.chance.index(all.len());
            all.remove(index);
        }
        let turn = self.chance.index(all.len());
        all.rotate_left(turn);
        all
    }

    fn add(&mut self, at: u64, fault: Fault) {
        self.steps.push(Step { at, what: What::Break(fault) });
    }
}
