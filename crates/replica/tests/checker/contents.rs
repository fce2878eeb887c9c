//! What services have is changed behind the meshes' backs, and found.

use std::collections::BTreeSet;

use replica::{Content, Event, LocalId, Meta, Settings, Ticket};

use crate::app::App;
use crate::world::{Weather, World};
use crate::{draw, states};

/// Somebody changes a register that a service has, or removes it.
fn tamper(world: &mut World, at: usize) -> Option<Meta> {
    let gone = world.chance.percent(30);
    let found = |(id, app): (&LocalId, &mut App)| app.0.as_mut().map(|it| it.value += 7).map(|()| id.clone());
    let place = &mut world.places[at];
    let id = place.service.registers.iter_mut().find_map(found)?;
    if gone {
        place.service.registers.insert(id.clone(), App(None));
    }
    let here = |meta: &&Meta| {
        place.machine.map(meta).is_some_and(|map| map.local(&place.site).as_ref() == Some(&id))
    };
    place.machine.resources().find(here).cloned()
}

/// A run after which all is well.
fn quiet(seed: u64, sites: usize) -> World {
    let mut world = World::new(seed, sites, Settings::default());
    for _ in 0..150 {
        let at = world.chance.below(sites);
        if world.chance.percent(10) {
            let write = draw(&mut world, at);
            world.write(at, write);
        } else {
            world.step();
        }
    }
    world.heal();
    assert!(world.differs.is_empty(), "seed {seed}: {:?}", world.differs);
    world
}

fn are_equal(world: &World) -> bool {
    let names: BTreeSet<_> = world.history.values().map(|op| op.resource.clone()).collect();
    names.iter().map(|meta| states(world, meta)).all(|states| states.iter().all(|state| *state == states[0]))
}

#[test]
fn one_of_three_that_was_changed_is_repaired_also_while_writes_and_crashes_go_on() {
    let mut found = 0;
    for seed in 5_000..5_030 {
        let mut world = quiet(seed, 3);
        let at = world.chance.below(3);
        if tamper(&mut world, at).is_none() {
            continue;
        }
        world.weather = Weather::Foul;
        for _ in 0..100 {
            world.step();
            if world.chance.percent(1) {
                let at = world.chance.below(3);
                world.crash(at);
            }
        }
        world.heal();
        assert!(are_equal(&world), "seed {seed}");
        found += usize::from(!world.differs.is_empty());
    }
    assert!(found > 10, "{found}");
}

#[test]
fn of_two_that_differ_the_operator_says_which_is_good() {
    let mut picked = 0;
    for seed in 6_000..6_020 {
        let mut world = quiet(seed, 2);
        let Some(meta) = tamper(&mut world, 0) else { continue };
        let gone = states(&world, &meta).contains(&App(None));
        world.heal();
        if gone {
            // What nobody deleted comes back.
            assert!(are_equal(&world) && !states(&world, &meta).contains(&App(None)), "seed {seed}");
            continue;
        }
        assert!(!are_equal(&world) && world.differs.iter().any(|(_, of)| *of == meta), "seed {seed}");
        let good = world.places[0].site.clone();
        world.tickets += 1;
        let ticket = Ticket(world.tickets);
        let expected = states(&world, &meta)[0].clone();
        world.event(1, Event::Repair { ticket, resource: meta.clone(), from: good });
        world.heal();
        assert!(are_equal(&world) && states(&world, &meta)[1] == expected, "seed {seed}");
        picked += 1;
    }
    assert!(picked > 3, "{picked}");
}

#[test]
fn an_operator_may_repair_at_any_time_and_a_service_is_given_one_state_at_a_time() {
    let mut repaired = 0;
    for seed in 8_000..8_040 {
        let mut world = World::new(seed, 3, Settings::default());
        world.weather = Weather::Foul;
        for _ in 0..600 {
            let at = world.chance.below(3);
            match world.chance.below(100) {
                0..=9 => {
                    let write = draw(&mut world, at);
                    world.write(at, write);
                }
                // Always the same site's: of two that wait for each other none would be good.
                10..=12 => {
                    let some: Vec<_> = world.places[0].machine.resources().cloned().collect();
                    if let Some(resource) = some.get(world.chance.below(some.len().max(1))).cloned() {
                        world.tickets += 1;
                        let from = world.places[world.chance.below(3)].site.clone();
                        let ticket = Ticket(world.tickets);
                        world.event(0, Event::Repair { ticket, resource, from });
                    }
                }
                13 => world.crash(at),
                _ => world.step(),
            }
            for place in &world.places {
                let given: BTreeSet<_> = place.installs.iter().map(|(resource, _)| resource).collect();
                assert_eq!(given.len(), place.installs.len(), "seed {seed}");
                repaired += given.len();
            }
        }
        world.heal();
        assert!(are_equal(&world), "seed {seed}");
    }
    assert!(repaired > 100, "{repaired}");
}

#[test]
fn a_comparison_on_demand_says_how_each_replica_stands() {
    let mut world = quiet(7_000, 3);
    let meta = tamper(&mut world, 2).unwrap();
    world.event(0, Event::Compare { ticket: Ticket(u64::MAX), resource: meta });
    world.settle_down();
    let sites: Vec<_> = world.compared[0].values().flatten().collect();
    assert_eq!(sites.len(), 3);
    assert!(sites.iter().all(|standing| standing.known == sites[0].known && standing.done == sites[0].done));
    let is = |index: usize| sites[index].content;
    assert!(is(0) == is(1) && is(0) != is(2) && matches!(is(0), Some(Content::Is(_))));
}
