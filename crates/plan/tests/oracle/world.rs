//! What sites do.

use std::collections::BTreeMap;
use std::time::Duration;

use plan::{Event, Finding, Knowledge, Leg, Reach, Request, Sent, Why};
use proptest::prelude::*;
use proptest::sample::select;
use scope::{Plan, Site};

use crate::plans::SITES;

/// What a site does, each time that it is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Nature {
    /// It has the resource: 200.
    Has,
    /// It has not: 404, and 201 when it is written to.
    HasNot,
    /// It has not, and another request has reserved the name.
    Taken,
    /// 403.
    Forbids,
    /// 500, and what it did is not known.
    Broken,
    /// 503, which proves that a write had no effect.
    Busy,
    /// 403, which the profile tells from others by what it says: a quota is used up, and nothing was done.
    Full,
    /// 403, which the profile says is a failure, and no proof of anything.
    Moody,
    /// It takes a write, what that made fails, and is provably gone again. To a read it says 500.
    Undone,
    /// The same, but nobody knows what became of it.
    Unsettled,
    /// It cannot be reached, which is found out by trying.
    Down,
    /// The connection breaks once all was sent.
    Lost,
    /// It takes the request and never answers.
    Silent,
    /// It is known that it cannot be reached.
    Cut,
    /// It has an empty list of what was looked up.
    Vacant,
}

pub(crate) const ALL: [Nature; 14] = {
    use Nature::{
        Broken, Busy, Cut, Down, Forbids, Full, Has, HasNot, Lost, Moody, Silent, Taken, Undone, Unsettled,
    };
    [Has, HasNot, Forbids, Down, Silent, Broken, Lost, Busy, Cut, Full, Moody, Undone, Unsettled, Taken]
};

/// What tells reads of three sites apart.
const READ: [Nature; 6] =
    [Nature::Has, Nature::HasNot, Nature::Forbids, Nature::Down, Nature::Silent, Nature::Vacant];

impl Nature {
    /// What comes of a leg, if anything does.
    pub(crate) fn says(self, leg: Leg, writes: bool) -> Option<Event> {
        let elapsed = Duration::ZERO;
        let failed = |sent, why| Some(Event::Failed { leg, sent, why, elapsed });
        let found = |status, finding| Some(Event::Answered { leg, status, finding, elapsed });
        let answered = |status| found(status, Finding::Usual);
        match self {
            Nature::Has => answered(200),
            Nature::HasNot | Nature::Taken => answered(if writes { 201 } else { 404 }),
            Nature::Forbids => answered(403),
            Nature::Vacant => found(200, Finding::Nothing),
            Nature::Busy => found(503, Finding::NoEffect),
            Nature::Full => found(403, Finding::NoEffect),
            Nature::Moody => found(403, Finding::Fails),
            Nature::Undone if writes => failed(Sent::No, Why::Undone),
            Nature::Unsettled if writes => failed(Sent::Maybe, Why::Unsettled),
            Nature::Broken | Nature::Undone | Nature::Unsettled => answered(500),
            Nature::Down => failed(Sent::No, Why::Unreachable),
            Nature::Lost => failed(Sent::Maybe, Why::Reset),
            Nature::Silent => None,
            Nature::Cut => unreachable!("it is known that it cannot be reached"),
        }
    }

    /// A write that reached it may have been executed.
    pub(crate) fn executes(self) -> bool {
        use Nature::{Broken, Has, HasNot, Lost, Moody, Silent, Taken, Unsettled};
        matches!(self, Has | HasNot | Taken | Broken | Lost | Silent | Moody | Unsettled)
    }
}

/// Sites are alike but for what they do, so that operands keep their order.
#[derive(Clone, Debug)]
pub(crate) struct World(BTreeMap<Site, Nature>);

impl std::ops::Index<&Site> for World {
    type Output = Nature;
    fn index(&self, site: &Site) -> &Nature {
        &self.0[site]
    }
}

impl Knowledge for World {
    fn rtt(&self, _: &Site) -> Option<Duration> {
        None
    }

    fn reach(&self, site: &Site) -> Reach {
        if self[site] == Nature::Cut { Reach::Unreachable } else { Reach::Yes }
    }
}

/// Every nature at every site of a plan. Of three sites, ways to fail that make no difference to the
/// operators count as one: for a read these are more.
pub(crate) fn every(plan: &Plan, request: Request) -> Vec<World> {
    let sites = plan.sites();
    let reads_all: Vec<Nature> = ALL.into_iter().chain([Nature::Vacant]).collect();
    let natures = match (request, sites.len() < 3) {
        (Request::Write { .. }, true) => &ALL[..],
        (Request::Write { .. }, false) => &ALL[..7],
        (Request::Read | Request::List { .. }, true) => &reads_all[..],
        (Request::Read | Request::List { .. }, false) => &READ[..],
    };
    let mut worlds = vec![BTreeMap::new()];
    for site in sites {
        let with = |world: &BTreeMap<Site, Nature>, nature: Nature| {
            let mut world = world.clone();
            world.insert(site.clone(), nature);
            world
        };
        worlds = worlds.iter().flat_map(|world| natures.iter().map(|nature| with(world, *nature))).collect();
    }
    worlds.into_iter().map(World).collect()
}

pub(crate) fn random() -> impl Strategy<Value = World> {
    let nature = prop_oneof![3 => Just(Nature::Has), 3 => Just(Nature::HasNot), 4 => select(&ALL[2..])];
    prop::collection::vec(nature, SITES.len())
        .prop_map(|natures| World(SITES.iter().filter_map(|name| Site::new(name)).zip(natures).collect()))
}
