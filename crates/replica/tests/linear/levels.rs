//! What each level promises a client, one story at a time.

use replica::{
    Change, Class, Doubt, Effect, Event, Fulfilment, Level, Message, Naming, Reply, Settings, Subject,
    Ticket, Unchangeable,
};

use crate::history::Op;
use crate::world::{World, meta};

/// Ticks after which every client has been told something.
fn bound() -> usize {
    usize::try_from(Settings::default().order.patience).unwrap() * 2 + 5
}

/// Three sites with a register that holds 1, and who leads them.
fn created(level: Level) -> (World, usize) {
    let mut world = World::new(1, 3, level);
    world.fair = true;
    let ticket = world.write(0, Op::Set(1));
    world.quiet(bound());
    assert_eq!(world.told[&ticket], Reply::Executed { status: 200 });
    let leader = leader(&mut world);
    (world, leader)
}

/// The site that takes a write itself.
fn leader(world: &mut World) -> usize {
    let led = (0..world.places.len()).map(|at| world.places[at].machine.leader(&meta())).collect::<Vec<_>>();
    world.places.iter().position(|place| led.contains(&Some(place.site.clone()))).unwrap()
}

fn values(world: &World) -> Vec<Option<i64>> {
    let local = replica::LocalId(meta().0);
    (0..world.places.len()).map(|at| world.value(at, Some(&local))).collect()
}

#[test]
fn a_strong_write_that_one_site_does_not_have_is_executed_nowhere() {
    let (mut world, leader) = created(Level::Strong);
    world.cut = [(leader + 1) % 3].into();
    let during = world.write(leader, Op::Set(2));
    world.quiet(bound());
    assert_eq!(world.told[&during], Reply::Unavailable, "it was ordered, and withdrawn");
    assert_eq!(values(&world), [Some(1); 3]);
    let after = world.write(leader, Op::Set(3));
    assert!(matches!(world.told[&after], Reply::Missing(_)), "known to be away: at once");
    world.cut.clear();
    world.quiet(bound());
    assert_eq!(values(&world), [Some(1); 3]);
    let again = world.write(leader, Op::Set(4));
    world.quiet(bound());
    assert_eq!(world.told[&again], Reply::Executed { status: 200 });
    assert_eq!(values(&world), [Some(4); 3]);
}

#[test]
fn a_strong_write_that_cannot_finish_is_pending_and_reads_wait_for_it() {
    let (mut world, leader) = created(Level::Strong);
    let write = world.write(leader, Op::Set(2));
    // Every site has it, and the leader's service executes it; then one site is cut off.
    world.until_executed(leader);
    let away = (leader + 1) % 3;
    world.cut = [away].into();
    let read = world.read(away);
    world.quiet(bound());
    assert_eq!(world.told[&write], Reply::Unknown);
    assert_eq!(world.told[&read], Reply::Unavailable, "it must not say 1 any more, and has not got 2");
    assert_eq!(values(&world)[leader], Some(2));
    world.cut.clear();
    world.quiet(bound());
    assert_eq!(values(&world), [Some(2); 3], "it goes on");
}

#[test]
fn a_quorum_write_needs_two_of_three() {
    let (mut world, leader) = created(Level::Quorum);
    world.cut = [leader].into();
    let during = world.write(leader, Op::Set(2));
    world.quiet(bound());
    assert_eq!(world.told[&during], Reply::Unknown, "it has a place, and nobody knows whether it keeps it");
    let (write, read) = (world.write(leader, Op::Set(3)), world.read(leader));
    assert_eq!(world.told[&write], Reply::NoMajority);
    let other = world.write((leader + 1) % 3, Op::Set(4));
    world.quiet(bound());
    assert_eq!(world.told[&read], Reply::NoMajority);
    assert_eq!(world.told[&other], Reply::Executed { status: 200 }, "the majority goes on");
    assert_eq!(values(&world)[leader], Some(1));
    world.cut.clear();
    world.quiet(bound());
    assert_eq!(values(&world), [Some(4); 3]);
    assert!(world.history.is_linearizable());
}

#[test]
fn what_is_read_before_it_is_decided_is_not_told() {
    let (mut world, leader) = created(Level::Quorum);
    let read = world.read(leader);
    world.until_readable(leader);
    // The leader's service executes a write, which the read sees; its verdict reaches nobody.
    let write = world.write(leader, Op::Set(2));
    world.until_executed(leader);
    world.cut = [leader].into();
    world.reads(leader);
    assert!(!world.told.contains_key(&read));
    world.distrust = true;
    world.quiet(bound());
    assert_eq!(world.told[&write], Reply::Unknown);
    assert_eq!(world.told[&read], Reply::Unavailable, "2 is not decided");
    world.cut.clear();
    world.quiet(2 * bound());
    assert_eq!(values(&world), [Some(1); 3], "the next leader decided, and the first was given its state");
    assert_eq!(world.diverged, 1);
}

/// The leader executes a write, and loses the lead before it can say so; the others decide that nobody does.
fn overruled(world: &mut World, leader: usize, write: impl FnOnce(&mut World) -> Ticket) -> Ticket {
    let ticket = write(world);
    world.until_executed(leader);
    (world.cut, world.distrust) = ([leader].into(), true);
    world.quiet(bound());
    world.cut.clear();
    world.quiet(2 * bound());
    assert_eq!(world.told[&ticket], Reply::Unknown);
    ticket
}

#[test]
fn a_state_that_the_service_could_not_be_given_is_given_to_it_later() {
    let (mut world, leader) = created(Level::Quorum);
    world.stubborn = Some(leader);
    overruled(&mut world, leader, |world| world.write(leader, Op::Set(2)));
    assert_eq!(values(&world)[leader], Some(2));
    world.stubborn = None;
    world.quiet(bound());
    assert_eq!(values(&world), [Some(1); 3]);
}

#[test]
fn what_nobody_is_to_execute_is_said_of_no_site_that_did_not() {
    let (mut world, leader) = created(Level::Quorum);
    world.stubborn = Some(leader);
    overruled(&mut world, leader, |world| world.write(leader, Op::Set(2)));
    let (here, machine) = (world.places[leader].site.clone(), &world.places[leader].machine);
    let op = machine.unexecuted(&meta(), &here).first().map(|op| op.id.clone()).unwrap();
    assert_eq!(machine.standing(&meta(), &op).unwrap(), [(here, Fulfilment::Done)]);
}

#[test]
fn what_only_the_operator_can_find_is_not_forgotten_when_the_others_withdraw_it() {
    let (mut world, leader) = created(Level::Quorum);
    (world.mute, world.unattended) = (Some(leader), true);
    let sites = world.places.iter().map(|place| place.site.clone()).collect();
    let subject = Subject::New { naming: Naming::FirstReplica, level: Level::Quorum, sites };
    overruled(&mut world, leader, |world| world.put(leader, subject, Class::Create, Doubt::Ask, "set 7"));
    world.crash(leader);
    world.quiet(bound());
    let made = |world: &World| {
        let registers = world.places.iter().flat_map(|place| place.service.registers.values());
        registers.filter(|app| app.0.as_ref().is_some_and(|register| register.value == 7)).count()
    };
    assert_eq!((made(&world), world.places[leader].machine.in_doubt().count()), (1, 1));
    world.unattended = false;
    world.quiet(2 * bound());
    assert_eq!((made(&world), world.places[leader].machine.in_doubt().count()), (0, 0));
    let known: Vec<_> = world.places.iter().map(|place| place.machine.resources().count()).collect();
    assert_eq!(known, [1; 3], "nothing of it is left but the register that was there before");
}

#[test]
fn a_leader_whose_replica_is_not_good_decides_what_the_only_good_one_has_executed() {
    let mut world = World::new(1, 2, Level::Quorum);
    world.fair = true;
    world.write(0, Op::Set(1));
    world.quiet(bound());
    let first = leader(&mut world);
    let next = 1 - first;
    // One service refuses what the other executed, and takes no state yet.
    (world.differing, world.stubborn) = (Some(next), Some(next));
    world.write(first, Op::Add(10));
    world.quiet(bound());
    assert_eq!((world.diverged, values(&world)[first]), (1, Some(11)));
    // The other executes one more, and does not say so before its site has lost the lead.
    (world.mute, world.unattended) = (Some(first), true);
    world.put(first, Subject::Existing(meta()), Class::Add, Doubt::Ask, "add 100");
    world.until_executed(first);
    world.crash(first);
    world.quiet(bound());
    assert_eq!((leader(&mut world), world.places[first].machine.in_doubt().count()), (next, 1));
    (world.differing, world.stubborn, world.mute, world.unattended) = (None, None, None, false);
    world.quiet(2 * bound());
    assert_eq!(values(&world), [Some(111); 2], "it was executed: the other site is given it");
    let add = world.write(first, Op::Add(1_000));
    world.quiet(bound());
    assert_eq!(world.told[&add], Reply::Executed { status: 200 });
    assert_eq!(values(&world), [Some(1_111); 2]);
}

#[test]
fn what_the_leader_refuses_nobody_executes() {
    for level in [Level::Quorum, Level::Strong] {
        let (mut world, leader) = created(level);
        world.refusing = Some(leader);
        let write = world.write((leader + 1) % 3, Op::Set(2));
        world.quiet(bound());
        assert_eq!(world.told[&write], Reply::Refused { status: 403 });
        assert_eq!(values(&world), [Some(1); 3]);
        assert_eq!(world.diverged, 0);
    }
}

#[test]
fn the_leaders_service_names_what_names_itself() {
    let mut world = World::new(1, 3, Level::Quorum);
    world.fair = true;
    let sites = world.places.iter().map(|place| place.site.clone()).collect();
    let subject = Subject::New { naming: Naming::FirstReplica, level: Level::Quorum, sites };
    let ticket = world.put(0, subject, Class::Create, Doubt::Probe, "set 7");
    world.quiet(bound());
    assert_eq!(world.told[&ticket], Reply::Executed { status: 200 });
    let names: Vec<_> = world.places.iter().map(|place| place.machine.resources().next().cloned()).collect();
    let name = names[0].clone().unwrap();
    assert!(names.iter().all(|other| other.as_ref() == Some(&name)), "{names:?}");
    let add = world.put(1, Subject::Existing(name.clone()), Class::Add, Doubt::Ask, "add 5");
    world.quiet(bound());
    assert_eq!(world.told[&add], Reply::Executed { status: 200 });
    for at in 0..3 {
        let local = world.places[at].machine.map(&name).unwrap().local(&world.places[at].site);
        assert_eq!(world.value(at, local.as_ref()), Some(12));
    }
}

#[test]
fn a_site_that_has_not_heard_the_name_of_what_is_made_does_not_say_that_it_has_made_it() {
    let (mut world, leader) = created(Level::Strong);
    let away = (leader + 1) % 3;
    let sites = world.places.iter().map(|place| place.site.clone()).collect();
    let subject = Subject::New { naming: Naming::FirstReplica, level: Level::Strong, sites };
    let ticket = world.put(leader, subject, Class::Create, Doubt::Probe, "set 7");
    // Every site has it, the leader's service names it, and one site does not hear of that.
    world.until_executed(leader);
    world.cut = [away].into();
    world.quiet(2);
    let machine = &world.places[leader].machine;
    let name = machine.resources().find(|name| **name != meta()).unwrap();
    assert!(!name.0.starts_with('~'), "{name:?}");
    let map = machine.map(name).unwrap().into_owned();
    // It is asked how far it is with what has that name.
    let (asks, told) = (world.places[leader].site.clone(), world.places[away].site.clone());
    let asked = Event::Received { from: asks, message: Message::Done { map, done: 0, asks: true } };
    let mut effects = Vec::new();
    world.places[away].machine.on(0, asked, &mut effects);
    for effect in effects {
        if let Effect::Send { message: message @ Message::Done { .. }, .. } = effect {
            world.event(leader, Event::Received { from: told.clone(), message });
        }
    }
    assert_eq!(world.told.get(&ticket), None, "one site has not made it");
    world.cut.clear();
    world.quiet(bound());
    assert_eq!(world.told[&ticket], Reply::Executed { status: 200 });
}

#[test]
fn the_sites_of_an_ordered_resource_stay() {
    let (mut world, leader) = created(Level::Quorum);
    let (ticket, resource) = (Ticket(100), meta());
    let mut effects = Vec::new();
    let change = Change::Shrink(world.places[leader].site.clone());
    world.places[leader].machine.on(0, Event::Change { ticket, resource, change }, &mut effects);
    let reply = Reply::Unchanged(Unchangeable::Ordered);
    assert!(effects.contains(&Effect::Answer { ticket, op: None, reply }));
}
