//! What a site says of its groups, and what it refuses.

use std::collections::BTreeSet;

use order::{
    Effect, Event, GroupId, Key, Message, Needs, Orders, Record, Refusal, Settings, Ticket, Unreadable,
};
use scope::Site;

use crate::world::World;

fn site(name: &str) -> Site {
    Site::new(name).unwrap()
}

fn group(names: &[&str]) -> GroupId {
    GroupId { sites: names.iter().map(|name| site(name)).collect(), incarnation: 0 }
}

/// Three sites with a leader, and two that follow it.
fn led(settings: Settings) -> (World, usize, [usize; 2]) {
    let mut world = World::with(1, 3, settings);
    world.propose(0, Needs::Majority);
    world.quiet(30);
    let leader = world.leader();
    (world, leader, [(leader + 1) % 3, (leader + 2) % 3])
}

fn names(world: &World, places: &[usize]) -> BTreeSet<Site> {
    places.iter().map(|at| world.places[*at].site.clone()).collect()
}

#[test]
fn all_are_told_who_leads_and_who_is_not_heard() {
    let (mut world, leader, [near, away]) = led(Settings::default());
    let patience = usize::try_from(Settings::default().patience).unwrap();
    let leads = world.places[leader].site.clone();
    for (at, place) in world.places.iter().enumerate() {
        assert_eq!(place.orders.leader(&world.group).as_ref(), Some(&leads));
        assert_eq!(place.orders.leads(&world.group), at == leader);
        assert_eq!(world.told[&at].as_ref(), Some(&leads));
        assert!(place.orders.missing(&world.group).is_empty());
        assert!(place.orders.groups().eq([&world.group]));
    }
    world.cut = [away].into();
    let round = usize::try_from(Settings::default().election).unwrap();
    world.quiet(patience - round);
    assert!(world.places[leader].orders.missing(&world.group).is_empty(), "it may be late");
    world.quiet(round + 1);
    assert_eq!(world.places[leader].orders.missing(&world.group), names(&world, &[away]));
    assert_eq!(world.places[away].orders.missing(&world.group), names(&world, &[leader, near]));
    assert_eq!(world.places[away].orders.leader(&world.group), None, "nobody whom it hears");
    assert_eq!(world.told[&away], None);
    world.cut.clear();
    world.quiet(30);
    let now = world.places[world.leader()].site.clone();
    for (at, place) in world.places.iter().enumerate() {
        assert!(place.orders.missing(&world.group).is_empty());
        assert_eq!(
            (place.orders.leader(&world.group), &world.told[&at]),
            (Some(now.clone()), &Some(now.clone()))
        );
    }
}

#[test]
fn what_all_were_given_is_known_and_leaves_the_log() {
    let (mut world, leader, [_, away]) = led(Settings::default());
    let given = |world: &World, at: usize| world.places[at].orders.given(&world.group);
    let to_all = |world: &World, at: usize| world.places[at].orders.given_to_all(&world.group);
    let before = given(&world, leader);
    assert_eq!((to_all(&world, leader), given(&world, away)), (before, before));
    world.cut = [away].into();
    for _ in 0..5 {
        world.propose(leader, Needs::Majority);
    }
    world.quiet(1);
    assert_eq!((given(&world, leader), to_all(&world, leader)), (before + 5, before));
    assert!(world.places[leader].orders.kept(&world.group) >= 5);
    world.cut.clear();
    world.quiet(30);
    let leader = world.leader();
    assert_eq!(to_all(&world, leader), given(&world, leader));
    assert!(given(&world, away) >= before + 5);
    assert_eq!(world.places[leader].orders.kept(&world.group), 0);
}

#[test]
fn a_full_log_takes_no_more_until_all_have_what_it_holds() {
    let (mut world, leader, [_, away]) = led(Settings { limit: 3, ..Settings::default() });
    assert_eq!(world.places[leader].orders.kept(&world.group), 0);
    world.cut = [away].into();
    let tickets: Vec<Ticket> = (0..4).map(|_| world.propose(leader, Needs::Majority)).collect();
    world.quiet(2);
    assert!(tickets[..3].iter().all(|ticket| world.committed.contains_key(ticket)));
    assert_eq!(world.refused.get(&tickets[3]), Some(&Refusal::Full));
    world.cut.clear();
    world.quiet(30);
    let again = world.propose(world.leader(), Needs::Majority);
    world.quiet(1);
    assert!(world.committed.contains_key(&again));
}

#[test]
fn while_a_leader_is_elected_what_is_proposed_waits() {
    let mut world = World::new(1, 3);
    let tickets: Vec<Ticket> = (0..3).map(|at| world.propose(at, Needs::Majority)).collect();
    let patience = usize::try_from(Settings::default().patience).unwrap();
    world.quiet(patience);
    for ticket in tickets {
        match world.refused.get(&ticket) {
            // In a new group one after the other leads.
            Some(refusal) => assert!(matches!(refusal, Refusal::Elsewhere(_)), "{refusal:?}"),
            None => assert!(world.committed.contains_key(&ticket)),
        }
    }
}

#[test]
fn in_a_new_group_what_needs_all_waits_for_who_is_late_but_not_for_long() {
    for comes in [true, false] {
        let mut world = World::new(1, 3);
        world.cut = [2].into();
        world.propose(0, Needs::Majority);
        world.quiet(13);
        let leader = world.leader();
        let ticket = world.propose(leader, Needs::All);
        world.quiet(1);
        assert!(!world.committed.contains_key(&ticket) && !world.refused.contains_key(&ticket));
        if comes {
            world.cut.clear();
        }
        world.quiet(10);
        assert_eq!(world.committed.contains_key(&ticket), comes);
        let missing = Refusal::Missing(world.places[2].site.clone());
        assert_eq!(world.refused.get(&ticket), (!comes).then_some(&missing));
    }
}

#[test]
fn where_a_site_has_no_say_it_refuses_and_says_nothing() {
    let mut orders = Orders::restore(site("Site0"), Settings::default(), []);
    let mut effects = Vec::new();
    orders.start(&mut effects);
    for group in [group(&["Site1", "Site2", "Site3"]), group(&["Site0"])] {
        let asked = [
            Event::Propose {
                ticket: Ticket(1),
                group: group.clone(),
                bytes: vec![1],
                needs: Needs::Majority,
            },
            Event::Confirm { ticket: Ticket(1), group: group.clone() },
        ];
        for event in asked {
            let mut effects = Vec::new();
            orders.on(event, &mut effects);
            assert_eq!(effects, [Effect::Refused { ticket: Ticket(1), why: Refusal::NotInGroup }]);
        }
    }
    assert_eq!(orders.groups().count(), 0);
}

#[test]
fn a_message_of_somebody_who_is_not_in_the_group_changes_nothing() {
    let (mut world, leader, [near, _]) = led(Settings::default());
    world.propose(leader, Needs::Majority);
    let (_, to, bytes) = world.network.iter().find(|(_, to, _)| *to == near).cloned().unwrap();
    let message = Message::read(&bytes).unwrap();
    let mut effects = Vec::new();
    let place = &mut world.places[to];
    place.orders.on(Event::Received { from: site("Elsewhere"), message: message.clone() }, &mut effects);
    assert_eq!(effects, []);
    let mut outside = Orders::restore(site("Elsewhere"), Settings::default(), []);
    outside.on(Event::Received { from: world.places[leader].site.clone(), message }, &mut effects);
    assert_eq!((effects, outside.groups().count()), (vec![], 0));
}

#[test]
fn messages_say_which_entries_they_carry() {
    let (mut world, leader, followers) = led(Settings::default());
    let ticket = world.propose(leader, Needs::Majority);
    let entry = world.asked[&ticket].0.clone();
    for follower in followers {
        let sent = world.network.iter().filter(|(from, to, _)| (*from, *to) == (leader, follower));
        let carried = sent.flat_map(|(_, _, bytes)| Message::read(bytes).unwrap().entries());
        assert_eq!(carried.collect::<Vec<_>>(), std::slice::from_ref(&entry));
    }
    // One that was away is sent what it lacks.
    world.cut = [followers[0]].into();
    world.quiet(3);
    world.cut.clear();
    world.fair = true;
    let mut carried = Vec::new();
    for _ in 0..30 {
        (0..3).for_each(|at| world.event(at, Event::Tick));
        for (from, to, bytes) in std::mem::take(&mut world.network) {
            let message = Message::read(&bytes).unwrap();
            if to == followers[0] {
                carried.extend(message.entries());
            }
            world.event(to, Event::Received { from: world.places[from].site.clone(), message });
        }
    }
    assert!(carried.contains(&entry));
}

#[test]
fn who_promises_to_follow_sends_along_what_the_new_leader_lacks() {
    let round = usize::try_from(Settings::default().election).unwrap();
    let mut seen = 0;
    for (ticks, first) in (0..4 * round).flat_map(|ticks| [(ticks, true), (ticks, false)]) {
        let (mut world, leader, followers) = led(Settings::default());
        let [near, away] = if first { followers } else { [followers[1], followers[0]] };
        world.cut = [away].into();
        let ticket = world.propose(leader, Needs::Majority);
        world.quiet(1);
        assert!(world.committed.contains_key(&ticket));
        // The leader is gone. Of the two that are left, the one that does not have the entry may claim to lead.
        world.cut = [leader].into();
        world.quiet(ticks);
        let entry = world.asked[&ticket].0.clone();
        let lacks = world.places[away].given.iter().all(|(_, given)| *given != entry);
        let mut carried = Vec::new();
        for _ in 0..4 * round {
            world.event(away, Event::Tick);
            while !world.network.is_empty() {
                let (from, to, bytes) = world.network.remove(0);
                if from != leader && to != leader {
                    let message = Message::read(&bytes).unwrap();
                    carried.extend(message.entries().into_iter().filter(|_| to == away));
                    world.event(to, Event::Received { from: world.places[from].site.clone(), message });
                }
            }
        }
        if lacks && world.places[away].orders.leads(&world.group) {
            assert_eq!(carried, [entry], "{near} {ticks}");
            seen += 1;
        }
    }
    assert!(seen > 0);
}

#[test]
fn records_are_read_as_they_were_written_and_nothing_else_is() {
    let (mut world, leader, _) = led(Settings::default());
    let mut effects = Vec::new();
    let (group, bytes) = (world.group.clone(), b"an entry".to_vec());
    let propose =
        Event::Propose { ticket: Ticket(99), group: group.clone(), bytes: bytes.clone(), needs: Needs::All };
    world.places[leader].orders.on(propose, &mut effects);
    let Some(Effect::Persist { put, .. }) = effects.first() else { panic!("{effects:?}") };
    let entries: Vec<_> = put.iter().filter_map(Record::entry).collect();
    assert_eq!(entries, [&bytes]);
    for record in put {
        let written = record.bytes();
        assert_eq!(Record::read(&written).as_ref(), Ok(record));
        assert_eq!(matches!(record.key(), Key::Slot(..)), record.entry().is_some());
        let (cut, longer) = (&written[..written.len() - 1], [written.clone(), vec![0]].concat());
        assert_eq!(Record::read(cut), Err(Unreadable::Damaged));
        assert_eq!(Record::read(&longer), Err(Unreadable::Damaged));
        let other = [&[9], &written[1..]].concat();
        assert_eq!(Record::read(&other), Err(Unreadable::Format(9)));
    }
    assert_eq!(Record::read(&[]), Err(Unreadable::Damaged));
    assert_eq!(Message::read(&[1, 2, 3]), Err(Unreadable::Damaged));
}

#[test]
fn a_read_is_confirmed_wherever_it_is_asked_for_though_nothing_is_written() {
    let (mut world, _, _) = led(Settings::default());
    for at in 0..3 {
        let ticket = world.confirm(at);
        world.quiet(1);
        assert!(world.confirmed.contains_key(&ticket), "at {at}");
    }
}

#[test]
fn a_read_that_nobody_confirms_is_asked_for_again_and_refused_in_time() {
    let patience = usize::try_from(Settings::default().patience).unwrap();
    for comes in [true, false] {
        let (mut world, _, [away, _]) = led(Settings::default());
        world.cut = [away].into();
        let ticket = world.confirm(away);
        world.quiet(3);
        if comes {
            world.cut.clear();
        }
        world.quiet(patience - 3);
        assert_eq!(world.confirmed.contains_key(&ticket), comes);
        assert_eq!(world.refused.get(&ticket), None, "it may still be confirmed");
        world.quiet(1);
        assert_eq!(world.refused.get(&ticket), (!comes).then_some(&Refusal::NoMajority));
    }
}

#[test]
fn two_of_five_are_no_majority() {
    let patience = usize::try_from(Settings::default().patience).unwrap();
    let mut world = World::new(1, 5);
    world.propose(0, Needs::Majority);
    world.quiet(30);
    let leader = world.leader();
    world.cut = [leader, (leader + 1) % 5].into();
    world.quiet(patience + 1);
    let ticket = world.propose(leader, Needs::Majority);
    assert_eq!(world.refused.get(&ticket), Some(&Refusal::NoMajority));
}

#[test]
fn nobody_orders_in_a_new_group_before_all_had_time_to_hear_of_each_other() {
    let rounds = usize::try_from(Settings::default().election).unwrap() * 2;
    let mut world = World::new(1, 3);
    world.propose(0, Needs::Majority);
    let leads = |world: &World| world.places.iter().any(|place| place.orders.leads(&world.group));
    for _ in 0..rounds {
        world.quiet(1);
        assert!(!leads(&world));
    }
    world.quiet(rounds);
    assert!(leads(&world));
    // One in which something was ordered is not new, also if all start again.
    (0..3).for_each(|at| world.crash(at));
    world.quiet(rounds);
    assert!(leads(&world));
}

#[test]
fn a_copy_has_the_same_log_and_goes_on_with_what_waits() {
    use std::hash::{BuildHasher, RandomState};
    let (mut world, leader, [near, _]) = led(Settings::default());
    let hasher = RandomState::new();
    let original = world.places[leader].orders.clone();
    let copy = original.clone();
    assert_eq!(copy, original);
    assert_eq!(hasher.hash_one(&copy), hasher.hash_one(&original));
    assert_ne!(copy, world.places[near].orders);
    let ticket = world.propose(leader, Needs::Majority);
    world.quiet(1);
    assert!(world.committed.contains_key(&ticket));
    assert_ne!(copy, world.places[leader].orders, "one has an entry more");
    assert_ne!(hasher.hash_one(&copy), hasher.hash_one(&world.places[leader].orders));
    // Copies in the place of all: they know whom they hear, and who waits.
    let waits = world.confirm(near);
    let late = world.propose(leader, Needs::Majority);
    for place in &mut world.places {
        let copy = place.orders.clone();
        assert!(copy.missing(&world.group).is_empty());
        place.orders = copy;
    }
    world.quiet(30);
    assert!(world.confirmed.contains_key(&waits));
    assert!(world.committed.contains_key(&late) || world.refused.contains_key(&late));
    let after = world.propose(world.leader(), Needs::Majority);
    world.quiet(1);
    assert!(world.committed.contains_key(&after));
}

#[test]
fn a_copy_knows_for_how_long_it_was_alone_and_what_it_last_told() {
    let (mut world, leader, _) = led(Settings::default());
    let patience = usize::try_from(Settings::default().patience).unwrap();
    world.cut = [leader].into();
    world.quiet(1);
    assert!(world.told[&leader].is_some());
    world.places[leader].orders = world.places[leader].orders.clone();
    world.quiet(1);
    assert_eq!(world.told[&leader], world.places[leader].orders.leader(&world.group));
    world.quiet(patience);
    world.places[leader].orders = world.places[leader].orders.clone();
    let ticket = world.propose(leader, Needs::Majority);
    assert_eq!(world.refused.get(&ticket), Some(&Refusal::NoMajority), "known to be alone: at once");
}

#[test]
fn a_copy_answers_all_that_was_asked_before_and_after() {
    let mut world = World::new(1, 3);
    let waits = world.propose(0, Needs::Majority);
    world.places[0].orders = world.places[0].orders.clone();
    world.quiet(30);
    assert!(world.committed.contains_key(&waits) || world.refused.contains_key(&waits));
    let at = (world.leader() + 1) % 3;
    let mut reads: Vec<Ticket> = (0..3).map(|_| world.confirm(at)).collect();
    world.places[at].orders = world.places[at].orders.clone();
    reads.extend((0..9).map(|_| world.confirm(at)));
    world.quiet(10);
    for read in reads {
        assert!(world.confirmed.contains_key(&read), "{read:?}");
    }
}

#[test]
fn a_site_that_claimed_to_lead_and_was_not_heard_finds_back() {
    let round = usize::try_from(Settings::default().election).unwrap();
    for first in [true, false] {
        for ticks in 0..4 * round {
            let (mut world, leader, [near, away]) = led(Settings::default());
            let claims = if first { near } else { away };
            world.cut = [leader].into();
            world.quiet(ticks);
            // Whatever it says now is lost, and it starts again.
            world.event(claims, Event::Tick);
            world.network.clear();
            world.crash(claims);
            world.cut.clear();
            world.quiet(20 * round);
            let ticket = world.propose(world.leader(), Needs::All);
            world.quiet(2);
            assert!(world.committed.contains_key(&ticket), "{first} {ticks}: {:?}", world.refused);
            for place in &world.places {
                let last = place.given.last().map(|(_, entry)| entry);
                assert_eq!(last, Some(&world.asked[&ticket].0), "{first} {ticks}: {}", place.site);
            }
        }
    }
}
