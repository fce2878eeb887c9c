//! A site is given back what it had recorded some time ago: it has forgotten what it promised and accepted.

use replica::{Condition, Event, Level, Reply, Ticket};

use crate::history::Op;
use crate::world::{World, meta};
use crate::{OPERATIONS, invariant_replicas_are_equal};

fn condition(world: &World, at: usize) -> Option<Condition> {
    world.places[at].machine.status(&meta()).map(|status| status.condition)
}

/// As `run`, and copies of disks are put back, of one site at a time. How often.
fn run(seed: u64, sites: usize, level: Level) -> (World, usize) {
    let mut world = World::new(seed, sites, level);
    let (mut left, mut times, mut last) = (OPERATIONS, 0, None);
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
            10..=12 => world.copy_disk(at),
            13 | 14 => {
                let sound = |other| condition(&world, other).is_some_and(|own| own != Condition::Suspect);
                if last.is_none_or(|last| last == at || sound(last)) && world.put_back(at, true) {
                    (last, times) = (Some(at), times + 1);
                }
            }
            _ => world.step(),
        }
    }
    world.cut.clear();
    world.quiet(200);
    (world, times)
}

fn runs(seeds: std::ops::Range<u64>, level: Level) {
    let (mut restored, mut executed) = (0, 0);
    for seed in seeds {
        let sites = if seed % 4 == 3 { 5 } else { 3 };
        let (mut world, times) = run(seed, sites, level);
        restored += times;
        // What the service alone has made, and nobody has heard of, is none of the replicas.
        let made = |at: &usize| world.places[*at].machine.is_made(&meta());
        let values: Vec<_> = (0..sites).map(|at| made(&at).then(|| value(&world, at))).collect();
        assert!(values.iter().all(|value| *value == values[0]), "seed {seed}: {values:?}");
        let last: Vec<_> = (0..sites).map(|at| world.read(at)).collect();
        world.quiet(4);
        for ticket in last {
            let there = world.told.get(&ticket);
            assert!(matches!(there, Some(Reply::Current | Reply::NoResource)), "seed {seed}: {there:?}");
        }
        assert!(world.history.is_linearizable(), "seed {seed}: {:#?}", world.history);
        executed += world.told.values().filter(|reply| matches!(reply, Reply::Executed { .. })).count();
    }
    assert!(restored > 60 && executed > 60, "{restored} restored, {executed} executed");
}

#[test]
fn quorum_loses_nothing_to_old_records() {
    runs(20_000..20_040, Level::Quorum);
}

#[test]
fn strong_loses_nothing_to_old_records() {
    runs(30_000..30_040, Level::Strong);
}

/// Sites with a register that holds 1, and a copy of what the first had recorded; then it was written to without one of three. That
/// one, and the other.
fn gone_back(sites: usize) -> (World, usize, usize) {
    let mut world = World::new(7, sites, Level::Quorum);
    world.fair = true;
    world.write(0, Op::Set(1));
    world.quiet(40);
    world.copy_disk(0);
    let leader = world.places[0].machine.leader(&meta());
    let (mut other, mut away) = (1, sites - 1);
    if leader.as_ref() == Some(&world.places[away].site) {
        (other, away) = (away, other);
    }
    if sites > 2 {
        world.cut = [away].into();
    }
    let ticket = world.write(0, Op::Add(41));
    world.quiet(40);
    assert_eq!(world.told[&ticket], Reply::Executed { status: 200 });
    (world, away, other)
}

fn value(world: &World, at: usize) -> Option<i64> {
    world.value(at, Some(&replica::LocalId(meta().0)))
}

/// The answer to a read of this site.
fn read(world: &mut World, at: usize) -> Option<Reply> {
    let ticket = world.read(at);
    world.quiet(40);
    world.told.get(&ticket).cloned()
}

#[test]
fn restored_member_does_not_vote_with_one_that_lacks_what_it_forgot() {
    for hint in [true, false] {
        let (mut world, away, other) = gone_back(3);
        // The third, which lacks the write, and the restored one are by themselves.
        if hint {
            world.cut = [other].into();
            world.put_back(0, true);
        } else {
            world.cut.clear();
            world.put_back(0, false);
            world.quiet(1);
            world.cut = [other].into();
        }
        let ticket = world.write(away, Op::Set(5));
        world.quiet(60);
        if hint {
            assert_eq!(world.told[&ticket], Reply::NoMajority);
            assert_eq!(condition(&world, 0), Some(Condition::Suspect));
        }
        world.cut.clear();
        world.quiet(80);
        assert_eq!(condition(&world, 0), Some(Condition::Good), "it is readmitted");
        invariant_replicas_are_equal(&world);
        assert_eq!(read(&mut world, 0), Some(Reply::Current));
        assert!(world.history.is_linearizable(), "{hint}: {:#?}", world.history);
        let ticket = world.write(other, Op::Add(2));
        world.quiet(40);
        assert!(matches!(world.told[&ticket], Reply::Executed { .. }));
        invariant_replicas_are_equal(&world);
    }
}

#[test]
fn the_two_others_of_three_go_on_without_a_restored_one() {
    let (mut world, _, other) = gone_back(3);
    world.cut = [0].into();
    world.put_back(0, true);
    world.quiet(40);
    let ticket = world.write(other, Op::Add(2));
    world.quiet(40);
    assert_eq!(world.told[&ticket], Reply::Executed { status: 200 });
    assert_eq!(read(&mut world, 0), Some(Reply::NotGood));
    world.cut.clear();
    world.quiet(80);
    assert_eq!((value(&world, 0), condition(&world, 0)), (Some(44), Some(Condition::Good)));
}

#[test]
fn of_two_in_one_order_the_operator_says_whom_to_believe() {
    let (mut world, ..) = gone_back(2);
    world.put_back(0, true);
    world.quiet(80);
    assert_eq!(condition(&world, 0), Some(Condition::Suspect));
    let ticket = world.write(1, Op::Add(2));
    world.quiet(40);
    assert_eq!(world.told[&ticket], Reply::NoMajority);
    let from = world.places[1].site.clone();
    world.event(0, Event::Repair { ticket: Ticket(99), resource: meta(), from });
    world.quiet(80);
    assert_eq!(world.told[&Ticket(99)], Reply::Changed);
    assert_eq!((value(&world, 0), condition(&world, 0)), (Some(42), Some(Condition::Good)));
}

#[test]
fn where_all_were_put_back_an_operator_may_go_on_with_what_there_is() {
    let (mut world, ..) = gone_back(2);
    world.copy_disk(1);
    world.put_back(0, true);
    world.event(0, Event::Mended { resource: meta() });
    world.quiet(40);
    assert_eq!(condition(&world, 0), Some(Condition::Suspect), "the other knows more");
    world.put_back(1, true);
    world.quiet(80);
    // It asked before the other was put back; a restart asks anew.
    world.crash(0);
    world.quiet(80);
    world.event(1, Event::Mended { resource: meta() });
    assert_eq!(condition(&world, 1), Some(Condition::Good));
    let from = world.places[1].site.clone();
    world.event(0, Event::Repair { ticket: Ticket(99), resource: meta(), from });
    world.quiet(80);
    assert_eq!((value(&world, 0), condition(&world, 0)), (Some(42), Some(Condition::Good)));
}

#[test]
fn plain_restart_asks_nobody() {
    let (mut world, away, other) = gone_back(3);
    world.cut = [away].into();
    world.crash(0);
    world.crash(other);
    world.quiet(40);
    let ticket = world.write(other, Op::Add(2));
    world.quiet(40);
    assert_eq!(world.told[&ticket], Reply::Executed { status: 200 });
    assert_eq!(condition(&world, 0), Some(Condition::Good));
}
