//! Whatever is cut from whatever, in whatever order operations arrive and whatever clocks say: once all
//! sites know all operations, all have the same state, and it is the one that the rule gives.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail the test, as the test itself does"
)]

#[path = "../app/mod.rs"]
mod app;
mod rule;
mod world;

use app::{App, Register};
use proptest::prelude::*;
use proptest::sample::Index;
use replica::{Class, Operation};
use world::World;

fn patch(fields: &[&str]) -> Class {
    Class::Patch(fields.iter().map(|&field| field.into()).collect())
}

/// Runs everything at one site.
fn settle(world: &mut World, at: usize) {
    while world.step(at, false) {}
}

#[test]
fn set_23_then_apart_set_29_and_plus_13_and_minus_12_is_30_everywhere() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for skews in [[0, 0, 0], [900, 0, 0], [0, 900, 500], [0, 5, 900]] {
            let mut world = World::new(&skews);
            world.write(0, Class::Create, "set 23").unwrap();
            world.heal();
            world.write(0, Class::Replace, "set 29").unwrap();
            world.write(1, Class::Add, "add 13").unwrap();
            world.write(2, Class::Add, "add -12").unwrap();
            (0..3).for_each(|at| settle(&mut world, at));
            let apart: Vec<Operation> = world.accepted[1..].to_vec();
            for at in 0..3 {
                for index in order {
                    world.arrive(at, &apart[index]);
                    settle(&mut world, at);
                }
            }
            world.heal();
            let thirty = App(Some(Register { value: 30, ..Register::default() }));
            assert!(world.places.iter().all(|place| place.app == thirty));
        }
    }
}

#[test]
fn a_delete_beats_a_concurrent_replace_and_a_later_create_stands() {
    let mut world = World::new(&[0, 1_000_000]);
    world.write(0, Class::Create, "set 1").unwrap();
    world.heal();
    world.write(0, Class::Delete, "delete").unwrap();
    world.write(1, Class::Replace, "set 2").unwrap();
    world.write(1, Class::Add, "add 5").unwrap();
    world.heal();
    assert!(world.places.iter().all(|place| place.app.0.is_none()));
    assert_eq!(world.write(1, Class::Replace, "set 3"), None);
    world.write(0, Class::Create, "set 4").unwrap();
    world.heal();
    assert!(world.places.iter().all(|place| place.app.0.as_ref().is_some_and(|it| it.value == 4)));
}

#[test]
fn an_add_that_a_waiting_replace_has_not_seen_is_not_forgotten() {
    let mut world = World::new(&[0, 1_000_000]);
    world.write(0, Class::Create, "set 1").unwrap();
    world.heal();
    world.write(0, Class::Add, "add 5").unwrap();
    settle(&mut world, 0);
    world.write(1, Class::Replace, "set 10").unwrap();
    settle(&mut world, 1);
    let (add, replace) = (world.accepted[1].clone(), world.accepted[2].clone());
    world.arrive(1, &add);
    settle(&mut world, 1);
    // Every site has executed the add, and nothing is under way; but the replace is not executed here.
    world.arrive(0, &replace);
    world.prune(0);
    world.heal();
    assert!(world.places.iter().all(|place| place.app.0.as_ref().is_some_and(|it| it.value == 15)));
}

#[test]
fn only_the_fields_that_nobody_overwrote_are_executed() {
    let mut world = World::new(&[0, 1_000_000]);
    world.write(0, Class::Create, "set 1").unwrap();
    world.heal();
    world.write(1, patch(&["x"]), "patch x=2").unwrap();
    world.write(0, patch(&["x", "y"]), "patch x=1 y=1").unwrap();
    world.heal();
    for place in &world.places {
        let fields = &place.app.0.as_ref().unwrap().fields;
        assert_eq!(fields.values().copied().collect::<Vec<_>>(), [2, 1]);
    }
}

/// A field, at each site. None: the site does not have it.
fn field(world: &World, name: &str) -> Vec<Option<i64>> {
    let of = |place: &world::Place| place.app.0.as_ref().and_then(|it| it.fields.get(name).copied());
    world.places.iter().map(of).collect()
}

/// A register whose field `m` has an element at two sites.
fn with_an_element(skews_ms: &[u64]) -> World {
    let mut world = World::new(skews_ms);
    world.write(0, Class::Create, "set 1").unwrap();
    world.write(0, patch(&["m", "/m/old"]), "patch m=1 /m/old=1").unwrap();
    world.heal();
    world
}

#[test]
fn an_element_that_a_whole_write_has_not_seen_stays_on_top_of_it() {
    for skews in [[0, 1_000_000], [1_000_000, 0]] {
        let mut world = with_an_element(&skews);
        world.write(0, patch(&["/m/new"]), "patch /m/new=7").unwrap();
        world.write(1, patch(&["m"]), "patch m=2").unwrap();
        world.heal();
        assert_eq!(field(&world, "m"), [Some(2); 2]);
        assert_eq!(field(&world, "m/old"), [None; 2]);
        assert_eq!(field(&world, "m/new"), [Some(7); 2]);
    }
}

#[test]
fn a_whole_write_erases_the_elements_that_it_has_seen_also_after_a_replace() {
    let mut world = with_an_element(&[0, 1_000_000]);
    world.write(0, patch(&["/m/new"]), "patch /m/new=7").unwrap();
    settle(&mut world, 0);
    world.write(0, patch(&["m"]), "patch m=2").unwrap();
    // It erases all at its own site; what it has not seen is executed again on top of it, at both.
    world.write(1, Class::Replace, "set 5").unwrap();
    world.heal();
    assert_eq!(field(&world, "m"), [Some(2); 2]);
    assert_eq!(field(&world, "m/new"), [None; 2]);
}

#[test]
fn of_two_whole_writes_the_loser_erases_nothing() {
    let mut world = with_an_element(&[0, 1_000_000]);
    world.write(0, patch(&["/m/new"]), "patch /m/new=7").unwrap();
    settle(&mut world, 0);
    world.write(0, patch(&["m"]), "patch m=2").unwrap();
    settle(&mut world, 0);
    world.write(1, patch(&["/m"]), "patch /m=3").unwrap();
    world.heal();
    assert_eq!(field(&world, "m"), [Some(3); 2]);
    assert_eq!(field(&world, "m/new"), [Some(7); 2]);
}

/// No state is made of a replace that another replace has seen, unless a delete beat that one; and what a
/// delete has seen does not come back.
fn invariant_newer_never_loses_to_older(all: &[Operation], state: &App) {
    let Some(last) = all.iter().max_by_key(|op| (op.stamp, &op.id.site)) else { return };
    if last.class == Class::Delete {
        assert_eq!(*state, App(None), "the newest of all is a delete");
    }
    let saw_all = all.iter().all(|op| op.id == last.id || last.saw(op));
    if saw_all && matches!(last.class, Class::Create | Class::Replace) {
        let register = Register { value: rule::number(last), fields: std::collections::BTreeMap::new() };
        assert_eq!(*state, App(Some(register)), "it has seen everything, and replaced it");
    }
}

/// What can happen next.
#[derive(Clone, Debug)]
enum Move {
    Write(Index, u8, i64),
    Step(Index),
    Refuse(Index),
    Arrive(Index, Index),
    Prune(Index),
    Copy(Index, Index),
}

fn any_move() -> impl Strategy<Value = Move> {
    let index = any::<Index>;
    prop_oneof![
        4 => (index(), 0..21_u8, -50..50_i64).prop_map(|(at, class, n)| Move::Write(at, class, n)),
        8 => index().prop_map(Move::Step),
        1 => index().prop_map(Move::Refuse),
        8 => (index(), index()).prop_map(|(at, op)| Move::Arrive(at, op)),
        2 => index().prop_map(Move::Prune),
        1 => (index(), index()).prop_map(|(from, to)| Move::Copy(from, to)),
    ]
}

/// A write that is drawn: more adds and patches than replaces, few deletes.
fn write(world: &mut World, at: usize, class: u8, n: i64) {
    let (class, body) = match class {
        0 | 1 => (Class::Create, format!("set {n}")),
        2..=4 => (Class::Replace, format!("set {n}")),
        5 => (Class::Delete, "delete".to_owned()),
        6..=9 => (Class::Add, format!("add {n}")),
        10 | 11 => (patch(&["x"]), format!("patch x={n}")),
        12 | 13 => (patch(&["y"]), format!("patch y={n}")),
        14 | 15 => (patch(&["x", "y"]), format!("patch x={n} y={}", n + 100)),
        16 => (patch(&["x", "m"]), format!("patch x={n} m={n}")),
        17 => (patch(&["/m"]), format!("patch /m={n}")),
        18 => (patch(&["/m/a"]), format!("patch /m/a={n}")),
        19 => (patch(&["/m/a", "/m/b"]), format!("patch /m/a={n} /m/b={}", n + 100)),
        _ => (patch(&["/m/a/z"]), format!("patch /m/a/z={n}")),
    };
    world.write(at, class, &body);
}

fn play(world: &mut World, moves: &[Move]) {
    let sites = world.places.len();
    for step in moves {
        match step {
            Move::Write(at, class, n) => write(world, at.index(sites), *class, *n),
            Move::Step(at) => {
                world.step(at.index(sites), false);
            }
            Move::Refuse(at) => {
                world.step(at.index(sites), true);
            }
            Move::Arrive(at, op) if !world.accepted.is_empty() => {
                let op = op.get(&world.accepted).clone();
                world.arrive(at.index(sites), &op);
            }
            Move::Prune(at) => world.prune(at.index(sites)),
            Move::Copy(from, to) if from.index(sites) != to.index(sites) => {
                world.copy(from.index(sites), to.index(sites));
            }
            Move::Arrive(..) | Move::Copy(..) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Cuts are moves that do not happen; duplicates are arrivals that happen twice.
    #[test]
    fn all_sites_end_equal_and_as_the_rule_says(
        skews in prop::collection::vec(0..2_000_u64, 2..5),
        moves in prop::collection::vec(any_move(), 0..80),
    ) {
        let mut world = World::new(&skews);
        world.write(0, Class::Create, "set 23");
        world.heal();
        play(&mut world, &moves);
        world.heal();
        let expected = rule::state(&world.accepted);
        for place in &world.places {
            prop_assert_eq!(&place.app, &expected, "{} of {:#?}", place.site, world.accepted);
        }
        invariant_newer_never_loses_to_older(&world.accepted, &expected);
    }
}
