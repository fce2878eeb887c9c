//! Random writes from several sites, with crashes at any moment, lost, doubled and late messages, services
//! that refuse, fail and do not answer. After healing all replicas are equal, and have the effect of each
//! acknowledged operation once. A run is its seed.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "the helpers of a test fail the test, as the test itself does"
)]

#[path = "../app/mod.rs"]
mod app;
mod backup;
mod chance;
mod changes;
mod contents;
#[path = "../convergence/rule.rs"]
mod rule;
mod service;
mod weak;
mod world;

use std::collections::BTreeSet;

use app::App;
use replica::{Body, Class, Doubt, Level, Meta, Naming, Reply, Settings, Subject, Who, Write};
use scope::Site;
use world::World;

fn who(site: &Site) -> Who {
    Who { site: site.clone(), user: "ada".into(), project: None, roles: Vec::new(), time_ms: 0 }
}

fn patch(fields: &[&str]) -> Class {
    Class::Patch(fields.iter().map(|&field| field.into()).collect())
}

/// A write that is drawn, to one of the resources that are there, or a new one.
fn draw(world: &mut World, at: usize) -> Write {
    let site = world.places[at].site.clone();
    let n = i64::try_from(world.chance.below(1_000_000)).unwrap();
    let sites: BTreeSet<_> = world.places.iter().map(|place| place.site.clone()).collect();
    let names: BTreeSet<Meta> = world.history.values().map(|op| op.resource.clone()).collect();
    let names: Vec<_> = names.into_iter().collect();
    let level = Level::Eventual;
    if names.is_empty() || world.chance.percent(10) {
        let chosen = world.chance.percent(70);
        let naming = if chosen {
            Naming::Chosen(Meta(format!("r{}", world.chance.below(2)).into()))
        } else if world.chance.percent(50) {
            // By whom it was accepted, and a number: as sites that cannot talk allocate them.
            Naming::Allocated(Meta(format!("m{site}-{n}").into()))
        } else {
            Naming::FirstReplica
        };
        let doubt = if chosen { Doubt::Repeat } else { Doubt::Probe };
        let body = Body(format!("set {n}").into());
        let subject = Subject::New { naming, level, sites };
        return Write { subject, class: Class::Create, doubt, on_behalf_of: who(&site), body, long: false };
    }
    let subject = Subject::Existing(names[world.chance.below(names.len())].clone());
    let unsafe_to_repeat = if world.chance.percent(50) { Doubt::Ask } else { Doubt::Probe };
    let (class, doubt, body) = match world.chance.below(16) {
        0..=2 => (Class::Replace, Doubt::Repeat, format!("set {n}")),
        3 => (Class::Delete, Doubt::Repeat, "delete".to_owned()),
        4..=10 => (Class::Add, unsafe_to_repeat, format!("add {n}")),
        11 | 12 => (patch(&["x"]), Doubt::Repeat, format!("patch x={n}")),
        _ => (patch(&["x", "y"]), Doubt::Repeat, format!("patch x={n} y={}", n + 1)),
    };
    Write { subject, class, doubt, on_behalf_of: who(&site), body: Body(body.into()), long: false }
}

/// The state of a resource at each site that has a replica.
fn states(world: &World, meta: &Meta) -> Vec<App> {
    let state = |place: &world::Place| {
        let local = place.machine.map(meta)?.local(&place.site);
        Some(local.and_then(|local| place.service.registers.get(&local).cloned()).unwrap_or_default())
    };
    world.places.iter().filter_map(state).collect()
}

fn invariant_all_replicas_are_equal_and_as_the_rule_says(world: &World, seed: u64) {
    let names: BTreeSet<_> = world.history.values().map(|op| &op.resource).collect();
    for meta in names {
        let ops: Vec<_> = world.history.values().filter(|op| op.resource == *meta).cloned().collect();
        let expected = rule::state(&ops);
        for (index, state) in states(world, meta).into_iter().enumerate() {
            assert_eq!(state, expected, "seed {seed}: {meta:?} at {index}, of {ops:#?}");
        }
    }
}

fn invariant_what_was_acknowledged_is_there_and_what_was_refused_is_not(world: &World, seed: u64) {
    for (op, reply) in world.told.values() {
        let Some(op) = op else { continue };
        let there = world.history.contains_key(op);
        match reply {
            Reply::Executed { .. } => assert!(there, "seed {seed}: {op} was acknowledged and is lost"),
            Reply::Refused { .. } | Reply::Unavailable | Reply::Beaten => {
                assert!(!there, "seed {seed}: {op} was refused and sent on");
            }
            _ => {}
        }
    }
}

/// Base and fields' winners stay, without their bodies; everything else is gone.
fn invariant_logs_are_pruned(world: &World, seed: u64) {
    let names = world.history.values().map(|op| &op.resource).collect::<BTreeSet<_>>().len();
    for place in &world.places {
        assert!(place.machine.resources().count() <= names, "seed {seed}: one that never came to be is left");
        assert!(place.machine.kept() <= 3 * names, "seed {seed}: {:#?}", place.machine);
    }
}

fn invariant_no_body_is_kept_that_nothing_names(world: &World, seed: u64) {
    for place in &world.places {
        assert_eq!(place.bodies, place.needed(), "seed {seed}, at {}", place.site);
    }
}

/// What a service has, its site knows of.
fn invariant_nothing_is_made_twice(world: &World, seed: u64) {
    for place in &world.places {
        let known = |meta| place.machine.map(meta).and_then(|map| map.local(&place.site));
        let known: BTreeSet<_> = place.machine.resources().filter_map(known).collect();
        for (id, register) in &place.service.registers {
            assert!(register.0.is_none() || known.contains(id), "seed {seed}: {id:?} is nobody's");
        }
    }
}

fn run(seed: u64, settings: Settings) -> World {
    let mut world = World::new(seed, 3, settings);
    for _ in 0..400 {
        let at = world.chance.below(3);
        match world.chance.below(30) {
            0..=2 => {
                let write = draw(&mut world, at);
                world.write(at, write);
            }
            3 if world.chance.percent(30) => world.crash(at),
            4 => world.settle(at),
            _ => world.step(),
        }
    }
    world.heal();
    world
}

fn check(world: &World, seed: u64) {
    invariant_all_replicas_are_equal_and_as_the_rule_says(world, seed);
    invariant_what_was_acknowledged_is_there_and_what_was_refused_is_not(world, seed);
    invariant_logs_are_pruned(world, seed);
    invariant_nothing_is_made_twice(world, seed);
    invariant_no_body_is_kept_that_nothing_names(world, seed);
    assert!(world.diverged <= world.provoked, "seed {seed}: a replica could not follow");
}

/// Whether these runs met what they are about.
#[derive(Default)]
struct Met {
    acknowledged: usize,
    crashes: usize,
    doubts: usize,
    diverged: usize,
    installs: usize,
}

fn runs(seeds: std::ops::Range<u64>, settings: Settings) -> Met {
    let mut met = Met::default();
    for seed in seeds {
        let world = run(seed, settings);
        check(&world, seed);
        let executed = |(_, reply): &&(_, Reply)| matches!(reply, Reply::Executed { .. });
        met.acknowledged += world.told.values().filter(executed).count();
        met.crashes += world.crashes;
        met.doubts += world.doubts;
        met.diverged += world.diverged;
        met.installs += world.installs;
    }
    met
}

#[test]
fn replicas_survive_crashes_and_a_bad_network() {
    let met = runs(0..100, Settings::default());
    assert!(met.acknowledged > 100 && met.crashes > 100 && met.doubts > 10 && met.diverged > 0);
}

#[test]
fn replicas_that_fall_behind_are_given_the_state() {
    let met = runs(1_000..1_040, Settings { backlog: 1, batch: 1, ..Settings::default() });
    assert!(met.acknowledged > 100 && met.installs > 10);
}
