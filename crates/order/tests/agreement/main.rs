//! Sites agree on one order, whatever happens to them and to the network between them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "the helpers of a test fail the test, as the test itself does"
)]

mod answers;
mod chance;
mod world;

use std::collections::BTreeMap;

use order::{Needs, Refusal, Settings};
use world::World;

fn invariant_one_order_and_each_entry_once(world: &World) {
    let longest = world.places.iter().map(|place| &place.given).max_by_key(|given| given.len()).unwrap();
    for place in &world.places {
        assert_eq!(place.given, longest[..place.given.len()], "seed {}: at {}", world.seed, place.site);
    }
    let mut times = BTreeMap::<&[u8], usize>::new();
    for (_, entry) in longest {
        *times.entry(entry).or_default() += 1;
    }
    assert!(times.values().all(|count| *count == 1), "seed {}: an entry twice", world.seed);
}

fn invariant_what_was_said_is_so(world: &World) {
    let place = &world.places[0];
    for (ticket, (bytes, _)) in &world.asked {
        let there = place.given.iter().find(|(_, entry)| entry == bytes).map(|(index, _)| index);
        if let Some(index) = world.committed.get(ticket) {
            assert_eq!(there, Some(index), "seed {}: {ticket:?} was lost", world.seed);
        }
        if world.refused.contains_key(ticket) {
            assert_eq!(there, None, "seed {}: {ticket:?} was refused", world.seed);
        }
    }
}

fn run(seed: u64, sites: usize) -> World {
    let mut world = World::new(seed, sites);
    for _ in 0..3_000 {
        let at = world.chance.below(sites);
        match world.chance.below(200) {
            0..=5 => {
                let needs = if world.chance.percent(20) { Needs::All } else { Needs::Majority };
                world.propose(at, needs);
            }
            6 | 7 => {
                world.confirm(at);
            }
            8 if world.chance.percent(30) => world.crash(at),
            9 if world.chance.percent(50) => {
                world.cut = (0..sites).filter(|_| world.chance.percent(40)).collect();
            }
            10 => world.cut.clear(),
            _ => world.step(),
        }
        invariant_one_order_and_each_entry_once(&world);
    }
    world.cut.clear();
    world.quiet(60);
    // What was lost of the last time that logs were cut is made good the next time.
    let leader = world.leader();
    world.propose(leader, Needs::All);
    world.quiet(10);
    world
}

#[test]
fn sites_agree_whatever_breaks() {
    let (mut committed, mut confirmed, mut overtaken, mut crashes) = (0, 0, 0, 0);
    for seed in 0..60 {
        let sites = if seed % 3 == 0 { 5 } else { 3 };
        let world = run(seed, sites);
        invariant_one_order_and_each_entry_once(&world);
        let lengths: Vec<_> = world.places.iter().map(|place| place.given.len()).collect();
        assert!(lengths.iter().all(|length| *length == lengths[0]), "seed {seed}: {lengths:?}");
        invariant_what_was_said_is_so(&world);
        for place in &world.places {
            assert!(place.orders.kept(&world.group) <= 1, "seed {seed}: {:?}", place.orders);
        }
        committed += world.committed.len();
        confirmed += world.confirmed.len();
        overtaken += world.refused.values().filter(|why| **why == Refusal::Overtaken).count();
        crashes += world.crashes;
    }
    println!("{committed} committed, {confirmed} confirmed, {overtaken} overtaken, {crashes} crashes");
    assert!(committed > 300 && confirmed > 200 && overtaken > 0 && crashes > 500);
}

#[test]
fn a_minority_refuses_in_bounded_time_and_the_majority_goes_on() {
    let mut world = World::new(1, 3);
    world.propose(0, Needs::Majority);
    world.quiet(30);
    let leader = world.leader();
    let first = world.propose(leader, Needs::Majority);
    world.quiet(1);
    assert!(world.committed.contains_key(&first));
    world.cut = [leader].into();
    let during = world.propose(leader, Needs::Majority);
    let patience = usize::try_from(Settings::default().patience).unwrap();
    world.quiet(patience + 2);
    let (refused, read) = (world.propose(leader, Needs::Majority), world.confirm(leader));
    assert_eq!(world.refused[&refused], Refusal::NoMajority, "known to be alone: at once");
    world.quiet(patience + 2);
    assert_eq!(world.refused[&read], Refusal::NoMajority);
    let other = (leader + 1) % 3;
    let there = world.propose(other, Needs::Majority);
    world.quiet(1);
    if let Some(Refusal::Elsewhere(site)) = world.refused.get(&there).cloned() {
        let at = world.places.iter().position(|place| place.site == site).unwrap();
        let there = world.propose(at, Needs::Majority);
        let all = world.propose(at, Needs::All);
        world.quiet(1);
        assert!(world.committed.contains_key(&there));
        assert!(matches!(world.refused[&all], Refusal::Missing(_)));
    } else {
        assert!(world.committed.contains_key(&there));
    }
    world.cut.clear();
    world.quiet(30);
    assert_eq!(world.refused[&during], Refusal::Overtaken, "it was never ordered");
    invariant_one_order_and_each_entry_once(&world);
}

#[test]
fn where_no_site_reaches_all_others_one_that_reaches_a_majority_leads() {
    // A chain of three: the ends do not hear each other. Only the one in the middle can lead for long.
    let mut world = World::new(1, 3);
    world.propose(0, Needs::Majority);
    world.quiet(30);
    let leader = world.leader();
    let middle = (leader + 1) % 3;
    world.deaf = Some((leader, (leader + 2) % 3));
    world.quiet(60);
    let at = world.leader();
    let ticket = world.propose(at, Needs::Majority);
    world.quiet(2);
    assert!(world.committed.contains_key(&ticket), "{middle}");
}
