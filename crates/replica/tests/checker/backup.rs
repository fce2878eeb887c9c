//! One site is given back an old copy of all that it had, its service too. It catches up: nothing that
//! another site knew is lost, nothing is executed twice, and nothing is deleted that nobody deleted.

use std::collections::{BTreeMap, BTreeSet};

use replica::{Body, Class, Doubt, Key, Level, Meta, Naming, OpId, Record, Reply, Settings, Subject, Write};

use crate::service::Service;
use crate::world::World;
use crate::{invariant_no_body_is_kept_that_nothing_names, states, who};

/// Adds are digits of this base: a digit says how often one was executed.
const BASE: i64 = 4;

struct Backup {
    disk: BTreeMap<Key, Vec<u8>>,
    service: Service,
}

/// A create, then adds, each its own digit, and replaces by nobody: whatever is there stays.
fn write(world: &mut World, at: usize, adds: &mut BTreeMap<Meta, u32>) {
    let sites: BTreeSet<_> = world.places.iter().map(|place| place.site.clone()).collect();
    let on_behalf_of = who(&world.places[at].site);
    let meta = Meta(format!("r{}", world.chance.below(3)).into());
    if world.places[at].machine.map(&meta).is_none() {
        let naming = Naming::Chosen(meta);
        let subject = Subject::New { naming, level: Level::Eventual, sites };
        let body = Body("set 0".into());
        world.write(
            at,
            Write { subject, class: Class::Create, doubt: Doubt::Repeat, on_behalf_of, body, long: false },
        );
        return;
    }
    let digit = adds.entry(meta.clone()).or_default();
    if *digit < 30 {
        let body = Body(format!("add {}", BASE.pow(*digit)).into());
        *digit += 1;
        let doubt = if world.chance.percent(50) { Doubt::Ask } else { Doubt::Probe };
        world.write(
            at,
            Write {
                subject: Subject::Existing(meta),
                class: Class::Add,
                doubt,
                on_behalf_of,
                body,
                long: false,
            },
        );
    }
}

/// What a site has recorded that it knows.
fn knows(disk: &BTreeMap<Key, Vec<u8>>, meta: &Meta, op: &OpId) -> bool {
    let record = disk.get(&Key::State(meta.clone())).map(|bytes| Record::read(bytes).unwrap());
    matches!(record, Some(Record::State { progress, .. }) if progress.known.covers(op))
}

/// The operations that were acknowledged, and that a site but this one knows.
fn safe(world: &World, at: usize) -> BTreeSet<OpId> {
    let known = |op: &OpId| {
        let meta = world.history.get(op).map(|op| &op.resource);
        let others = world.places.iter().enumerate().filter(|(index, _)| *index != at);
        meta.is_some_and(|meta| others.into_iter().any(|(_, place)| knows(&place.disk, meta, op)))
    };
    acknowledged(world).into_iter().filter(known).collect()
}

fn acknowledged(world: &World) -> BTreeSet<OpId> {
    let executed = world.told.values().filter(|(_, reply)| matches!(reply, Reply::Executed { .. }));
    executed.filter_map(|(op, _)| op.clone()).collect()
}

/// The process ends, and starts with what was kept at the time.
fn restore(world: &mut World, at: usize, backup: Backup) {
    let place = &mut world.places[at];
    place.requests.clear();
    (place.disk, place.service) = (backup.disk, backup.service);
    world.crash(at);
}

/// How often each add is in each replica.
fn check(world: &World, seed: u64, safe: &BTreeSet<OpId>) {
    let names: BTreeSet<_> = world.history.values().map(|op| op.resource.clone()).collect();
    for meta in names {
        let states = states(world, &meta);
        assert!(states.iter().all(|state| state == &states[0]), "seed {seed}: {meta:?} {states:?}");
        let Some(register) = &states[0].0 else { panic!("seed {seed}: nobody deleted {meta:?}") };
        let ops = world.history.values().filter(|op| op.resource == meta && op.class == Class::Add);
        for op in ops {
            let one = crate::rule::number(op);
            let times = register.value / one % BASE;
            assert!(times <= 1, "seed {seed}: {} is there {times} times", op.id);
            assert!(times == 1 || !safe.contains(&op.id), "seed {seed}: {} is lost", op.id);
        }
    }
}

fn run(seed: u64) {
    let mut world = World::new(seed, 3, Settings::default());
    let mut adds = BTreeMap::new();
    let victim = world.chance.below(3);
    let (taken, back) = (100 + world.chance.below(100), 250 + world.chance.below(100));
    let (mut backup, mut keep, mut lost) = (None, BTreeSet::new(), BTreeSet::new());
    for round in 0..500 {
        if round == taken {
            let place = &world.places[victim];
            backup = Some(Backup { disk: place.disk.clone(), service: place.service.clone() });
        }
        if round == back {
            keep = safe(&world, victim);
            lost = acknowledged(&world);
            restore(&mut world, victim, backup.take().unwrap());
        }
        let at = world.chance.below(3);
        match world.chance.below(30) {
            0..=2 => write(&mut world, at, &mut adds),
            3 if world.chance.percent(20) => world.crash(at),
            4 => world.settle(at),
            _ => world.step(),
        }
    }
    world.heal();
    keep.extend(acknowledged(&world).difference(&lost).cloned());
    check(&world, seed, &keep);
    invariant_no_body_is_kept_that_nothing_names(&world, seed);
}

#[test]
fn a_site_restored_from_an_old_backup_catches_up() {
    for seed in 4_000..4_100 {
        run(seed);
    }
}
