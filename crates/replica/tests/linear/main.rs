//! Writes and reads of one register at `@quorum` and `@strong`, by clients of several sites, while everything
//! breaks that can. What clients were told is what one register, at one place, could have told them. A run is
//! its seed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "the helpers of a test fail the test, as the test itself does"
)]

#[path = "../app/mod.rs"]
mod app;
#[path = "../checker/chance.rs"]
mod chance;
mod history;
mod levels;
mod restored;
#[path = "../checker/service.rs"]
mod service;
mod world;

use history::{Moment, Op, Ret};
use replica::{Level, Reply};
use world::World;

/// More would make the search for an order long.
const OPERATIONS: usize = 14;

fn run(seed: u64, sites: usize, level: Level) -> World {
    let mut world = World::new(seed, sites, level);
    let mut left = OPERATIONS;
    let first = world.chance.below(sites);
    world.write(first, Op::Set(1));
    for _ in 0..6_000 {
        let at = world.chance.below(sites);
        match world.chance.below(1_000) {
            0..=4 if left > 0 => {
                left -= 1;
                let n = i64::try_from(left + 1).unwrap() * 100;
                match world.chance.below(5) {
                    0 => world.write(at, Op::Set(n)),
                    1 => world.write(at, Op::Add(n)),
                    _ => world.read(at),
                };
            }
            5 if world.chance.percent(50) => world.crash(at),
            6 => world.cut = (0..sites).filter(|_| world.chance.percent(30)).collect(),
            7..=9 => world.cut.clear(),
            _ => world.step(),
        }
    }
    world.cut.clear();
    world.quiet(120);
    world
}

fn invariant_replicas_are_equal(world: &World) {
    let local = replica::LocalId(world::meta().0);
    let values: Vec<_> = (0..world.places.len()).map(|at| world.value(at, Some(&local))).collect();
    assert!(values.iter().all(|value| *value == values[0]), "seed {}: {values:?}", world.seed);
}

#[derive(Debug, Default)]
struct Met {
    executed: usize,
    read: usize,
    refused: usize,
    pending: usize,
    crashes: usize,
    diverged: usize,
    unproven: usize,
}

fn runs(seeds: std::ops::Range<u64>, level: Level) -> Met {
    let mut met = Met::default();
    for seed in seeds {
        let sites = if seed % 4 == 3 { 5 } else { 3 };
        let mut world = run(seed, sites, level);
        invariant_replicas_are_equal(&world);
        // What there is at the end is what the writes have made, each once.
        let last: Vec<_> = (0..sites).map(|at| world.read(at)).collect();
        world.quiet(4);
        for ticket in last {
            let there = world.told.get(&ticket);
            assert!(matches!(there, Some(Reply::Current | Reply::NoResource)), "seed {seed}: {there:?}");
        }
        assert!(world.history.is_linearizable(), "seed {seed}: {:#?}", world.history);
        met.executed += world.history.count(|moment| matches!(moment, Moment::Told(_, Ret::Ok)));
        met.read += world.history.count(|moment| matches!(moment, Moment::Told(_, Ret::Value(_))));
        met.refused += world.history.count(|moment| matches!(moment, Moment::Refused(_)));
        met.pending += world.told.values().filter(|reply| **reply == Reply::Unknown).count();
        met.crashes += world.crashes;
        met.diverged += world.diverged;
        met.unproven += world.unproven;
    }
    met
}

#[test]
fn confirmed_reads_at_quorum_are_linearizable() {
    let met = runs(0..40, Level::Quorum);
    assert!(met.executed > 100 && met.read > 250 && met.crashes > 100);
    assert!(met.refused > 50 && met.pending > 10 && met.diverged > 0 && met.unproven > 10, "{met:?}");
}

#[test]
fn strong_writes_and_local_reads_are_linearizable() {
    let met = runs(10_000..10_040, Level::Strong);
    assert!(met.executed > 80 && met.read > 250 && met.crashes > 100);
    assert!(met.refused > 50 && met.pending > 10 && met.diverged > 0 && met.unproven > 10, "{met:?}");
}
