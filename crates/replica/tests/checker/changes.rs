//! Replicas are added, removed, moved and let go, while everything else happens too.

use std::collections::BTreeSet;

use replica::{Body, Change, Class, Doubt, Event, Level, Meta, Naming, Settings, Subject, Ticket, Write};

use crate::world::World;
use crate::{app::App, draw, invariant_nothing_is_made_twice, rule, who};

/// A change that is drawn, of one of the resources.
fn change(world: &mut World, at: usize) {
    let names: Vec<Meta> = world.places[at].machine.resources().cloned().collect();
    if names.is_empty() {
        return;
    }
    let resource = names[world.chance.below(names.len())].clone();
    let site = |world: &mut World| {
        let index = world.chance.below(world.places.len());
        world.places[index].site.clone()
    };
    let change = match world.chance.below(20) {
        0..=7 => Change::Extend(site(world)),
        8..=14 => Change::Shrink(site(world)),
        15..=18 => Change::Move { from: site(world), to: site(world) },
        _ => Change::Detach,
    };
    world.tickets += 1;
    let ticket = Ticket(world.tickets);
    world.event(at, Event::Change { ticket, resource, change });
}

fn run(seed: u64) -> World {
    let mut world = World::new(seed, 4, Settings::default());
    for _ in 0..400 {
        let at = world.chance.below(4);
        match world.chance.below(40) {
            0..=2 => {
                let write = draw(&mut world, at);
                world.write(at, write);
            }
            3 if world.chance.percent(30) => world.crash(at),
            4 => world.settle(at),
            5 => change(&mut world, at),
            _ => world.step(),
        }
    }
    world.heal();
    world
}

fn state(world: &World, at: usize, meta: &Meta) -> Option<App> {
    let place = &world.places[at];
    let local = place.machine.map(meta)?.local(&place.site);
    Some(local.and_then(|local| place.service.registers.get(&local).cloned()).unwrap_or_default())
}

/// Those that have a replica agree on who has, and on the state; nobody else has anything left.
fn check(world: &World, seed: u64) {
    let names: BTreeSet<_> = world.history.values().map(|op| op.resource.clone()).collect();
    for meta in names {
        let maps: Vec<_> = world.places.iter().filter_map(|place| place.machine.map(&meta)).collect();
        let Some(map) = maps.first() else {
            continue;
        };
        assert!(maps.iter().all(|other| other == map), "seed {seed}: {meta:?} is where? {maps:#?}");
        assert!(!map.is_detached(), "seed {seed}: {meta:?} was let go, and is kept");
        let ops: Vec<_> = world.history.values().filter(|op| op.resource == meta).cloned().collect();
        let expected = rule::state(&ops);
        for (at, place) in world.places.iter().enumerate() {
            let member = map.members().contains(&place.site);
            assert_eq!(place.machine.map(&meta).is_some(), member, "seed {seed}: {meta:?} at {at}");
            if member {
                assert_eq!(
                    state(world, at, &meta),
                    Some(expected.clone()),
                    "seed {seed}: {meta:?} at {at}, of {ops:#?}"
                );
            }
        }
    }
}

#[test]
fn replicas_come_and_go_under_crashes_and_a_bad_network() {
    let (mut released, mut kept) = (0, 0);
    for seed in 2_000..2_060 {
        let world = run(seed);
        check(&world, seed);
        released += world.released.iter().filter(|(_, _, keep)| !keep).count();
        kept += world.released.iter().filter(|(_, _, keep)| *keep).count();
    }
    assert!(released > 10 && kept > 5, "{released} {kept}");
}

/// Resources of one site, each named by its service, are copied to the two others, whose services name them too.
fn copies(seed: u64) -> World {
    let mut world = World::new(seed, 3, Settings::default());
    for number in 0..4 {
        let at = world.chance.below(3);
        let site = world.places[at].site.clone();
        let naming = Naming::FirstReplica;
        let subject = Subject::New { naming, level: Level::Eventual, sites: [site.clone()].into() };
        let (class, doubt, body) = (Class::Create, Doubt::Probe, Body(format!("set {number}").into()));
        world.write(at, Write { subject, class, doubt, on_behalf_of: who(&site), body, long: false });
    }
    for round in 0..600 {
        let at = world.chance.below(3);
        match world.chance.below(40) {
            0 if world.chance.percent(30) => world.crash(at),
            1 => world.settle(at),
            2..=4 if round > 100 => {
                let to = Change::Extend(world.places[world.chance.below(3)].site.clone());
                let names: Vec<Meta> = world.places[at].machine.resources().cloned().collect();
                for resource in names.into_iter().filter(|meta| !meta.0.starts_with('~')) {
                    world.tickets += 1;
                    let ticket = Ticket(world.tickets);
                    world.event(at, Event::Change { ticket, resource, change: to.clone() });
                }
            }
            _ => world.step(),
        }
    }
    world.heal();
    world
}

#[test]
fn a_copy_that_a_service_names_is_made_once_whatever_it_answers() {
    let (mut installs, mut doubts) = (0, 0);
    for seed in 6_000..6_140 {
        let world = copies(seed);
        check(&world, seed);
        invariant_nothing_is_made_twice(&world, seed);
        installs += world.installs;
        doubts += world.doubts;
    }
    assert!(installs > 100 && doubts > 20, "{installs} {doubts}");
}
