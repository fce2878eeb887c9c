//! Replicas that are not there yet, and sites that are not there any more.

use replica::{
    Change, Class, Doubt, Effect, Epoch, Event, Level, LocalId, Message, Meta, Naming, OpId, Outcome, Reply,
    Subject, Ticket, Timer, Version,
};

use super::{Stage, created, done, from, messages, meta, op, replies, site, talk};

#[test]
fn what_is_still_to_be_made_is_not_said_to_be_gone() {
    let (mut a, mut b) = (created(), Stage::new("B"));
    let told = |stage: &Stage, known: &[OpId]| {
        let (map, b) = (stage.machine.map(&meta()).unwrap().into_owned(), site("B"));
        let operations = stage.machine.pending(&b).filter(|op| !known.contains(&op.id)).collect();
        Event::Received { from: site("A"), message: Message::Operations { map, operations } }
    };
    let patch = |stage: &mut Stage, ticket| {
        let class = Class::Patch(["name".into()].into());
        let effects = stage.write(ticket, Subject::Existing(meta()), class, Doubt::Repeat);
        replies(&effects).into_iter().cloned().collect::<Vec<_>>()
    };
    let asked = b.on(told(&a, &[]));
    assert_eq!(patch(&mut b, 1), [Reply::NotGood]);
    let asked = b.ends(&asked, Outcome::NotExecuted);
    assert!(!b.machine.is_readable(&meta()), "{asked:?}");
    assert_eq!(patch(&mut b, 2), [Reply::NotGood]);
    // A delete that is known here ends it, also where nothing was made.
    let effects = a.write(2, Subject::Existing(meta()), Class::Delete, Doubt::Repeat);
    a.ends(&effects, done());
    b.on(told(&a, &[op(1)]));
    assert_eq!(patch(&mut b, 3), [Reply::NoResource]);
}

#[test]
fn a_weak_write_is_not_taken_where_only_the_name_is_known() {
    let (mut a, mut b) = (Stage::new("A"), Stage::new("B"));
    let effects = a.write(1, super::new(Level::Weak), Class::Create, Doubt::Repeat);
    a.ends(&effects, done());
    let map = a.machine.map(&meta()).unwrap().into_owned();
    let add = |stage: &mut Stage, ticket| {
        let class = Class::Action { idempotent: false };
        let effects = stage.write(ticket, Subject::Existing(meta()), class, Doubt::Ask);
        replies(&effects).into_iter().cloned().collect::<Vec<_>>()
    };
    // What A has is heard of before what made it.
    let mut known = Version::default();
    known.add(&op(1));
    let (epoch, done) = (Epoch::default(), known.clone());
    let message = Message::Confirm { map: map.clone(), epoch, number: 0, known, done };
    b.on(Event::Received { from: site("A"), message });
    assert!(b.machine.map(&meta()).is_some());
    assert_eq!(add(&mut b, 1), [Reply::NotGood], "its service would say 404");
    let operations = a.machine.pending(&site("B")).collect();
    b.on(Event::Received { from: site("A"), message: Message::Operations { map, operations } });
    assert_eq!(add(&mut b, 2), [Reply::Recorded], "it comes after what makes it");
}

/// Whether a body goes.
fn erases(effects: &[(String, Effect)]) -> bool {
    effects.iter().any(|(_, effect)| matches!(effect, Effect::Erase(_)))
}

#[test]
fn what_waits_for_a_site_that_is_shut_out_goes_once_it_has_no_replica_any_more() {
    let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B"))];
    let sites = ["A", "B", "C"].map(site).into();
    let subject = Subject::New { naming: Naming::Chosen(meta()), level: Level::Eventual, sites };
    let effects = stages[0].1.write(1, subject, Class::Create, Doubt::Repeat);
    assert!(!erases(&talk(&mut stages, from("A", effects))), "C has not heard of it");
    let shut_out = |stages: &mut [(&str, Stage); 2], index: usize, out: bool| {
        let (name, stage) = &mut stages[index];
        let effects = from(name, stage.on(Event::ShutOut { site: site("C"), out }));
        talk(stages, effects)
    };
    // An operator may yet give that site another identity.
    assert!(!erases(&shut_out(&mut stages, 0, true)), "it has a replica");
    shut_out(&mut stages, 0, false);
    let change = Change::Shrink(site("C"));
    let effects = stages[0].1.on(Event::Change { ticket: Ticket(2), resource: meta(), change });
    assert!(!erases(&talk(&mut stages, from("A", effects))), "C has not said that it knows");
    for index in 0..2 {
        assert!(erases(&shut_out(&mut stages, index, true)));
        let machine = &stages[index].1.machine;
        assert_eq!(machine.operation(&meta(), &op(1)).unwrap().body, None);
    }
    // What comes later does not wait for it either, but after a restart, until it is said again.
    let effects = stages[0].1.write(3, Subject::Existing(meta()), Class::Replace, Doubt::Repeat);
    assert!(erases(&talk(&mut stages, from("A", effects))));
    let mut effects = stages[0].1.restart("A");
    effects.extend(stages[0].1.on(Event::Fired(Timer::Deliver(site("B")))));
    talk(&mut stages, from("A", effects));
    let effects = stages[0].1.write(4, Subject::Existing(meta()), Class::Replace, Doubt::Repeat);
    let rest = talk(&mut stages, from("A", effects));
    assert!(!rest.iter().any(|(at, effect)| at == "A" && matches!(effect, Effect::Erase(_))));
    assert!(erases(&shut_out(&mut stages, 0, true)));
}

#[test]
fn a_site_that_is_heard_again_after_all_learns_that_it_has_no_replica_and_brings_nothing_back() {
    let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B")), ("C", Stage::new("C"))];
    let sites = ["A", "B", "C"].map(site).into();
    let subject = Subject::New { naming: Naming::Chosen(meta()), level: Level::Eventual, sites };
    let effects = stages[0].1.write(1, subject, Class::Create, Doubt::Repeat);
    talk(&mut stages, from("A", effects));
    // From now on C hears nothing.
    let change = Change::Shrink(site("C"));
    let mut todo = from("A", stages[0].1.on(Event::Change { ticket: Ticket(2), resource: meta(), change }));
    for (name, stage) in &mut stages[..2] {
        todo.extend(from(name, stage.on(Event::ShutOut { site: site("C"), out: true })));
    }
    talk(&mut stages[..2], todo);
    let effects = stages[0].1.write(3, Subject::Existing(meta()), Class::Delete, Doubt::Repeat);
    assert!(erases(&talk(&mut stages[..2], from("A", effects))));
    assert!(stages[2].1.machine.is_readable(&meta()));
    for (_, stage) in &mut stages[..2] {
        stage.on(Event::ShutOut { site: site("C"), out: false });
    }
    let mut rest = Vec::new();
    for (at, to) in [(0, "C"), (1, "C"), (2, "A"), (2, "B")] {
        let (name, stage) = &mut stages[at];
        let effects = from(name, stage.on(Event::Fired(Timer::Deliver(site(to)))));
        rest.extend(talk(&mut stages, effects));
    }
    assert!(
        rest.iter().any(|(at, effect)| at == "C" && matches!(effect, Effect::Release { .. })),
        "{rest:?}"
    );
    assert!(stages[..2].iter().all(|(_, stage)| !stage.machine.is_readable(&meta())));
}

/// A, of three sites that have a replica, and what C sends it of a write.
fn written_at_c() -> (Stage, Message) {
    let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B")), ("C", Stage::new("C"))];
    let sites = ["A", "B", "C"].map(site).into();
    let subject = Subject::New { naming: Naming::Chosen(meta()), level: Level::Eventual, sites };
    let effects = stages[0].1.write(1, subject, Class::Create, Doubt::Repeat);
    talk(&mut stages, from("A", effects));
    let effects = stages[2].1.write(2, Subject::Existing(meta()), Class::Replace, Doubt::Repeat);
    let effects = stages[2].1.ends(&effects, done());
    let sent = |message: &&Message| matches!(message, Message::Operations { .. });
    let message = messages(&effects, "A").into_iter().find(sent).unwrap().clone();
    let [(_, a), ..] = stages;
    (a, message)
}

#[test]
fn what_a_site_that_is_shut_out_wrote_is_passed_over_where_all_others_refuse_it() {
    let (mut a, message) = written_at_c();
    let effects = a.write(3, Subject::Existing(meta()), Class::Add, Doubt::Ask);
    a.ends(&effects, done());
    a.on(Event::ShutOut { site: site("C"), out: true });
    let asked = a.on(Event::Received { from: site("C"), message });
    a.ends(&asked, Outcome::Refused { status: 403 });
    assert!(!a.machine.is_readable(&meta()));
    let executes = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Execute { .. }));
    // An operator may yet give that site another identity, and its replica the state of C's.
    let again = a.on(Event::Mended { resource: meta() });
    assert!(executes(&again));
    a.ends(&again, Outcome::Refused { status: 403 });
    let change = Change::Shrink(site("C"));
    a.on(Event::Change { ticket: Ticket(4), resource: meta(), change });
    assert!(!a.machine.is_readable(&meta()), "it may be at B");
    assert!(!executes(&a.on(Event::Mended { resource: meta() })), "what was added is there");
    assert!(a.machine.is_readable(&meta()));
    let effects = a.write(5, Subject::Existing(meta()), Class::Replace, Doubt::Repeat);
    assert_eq!(replies(&a.ends(&effects, done())), [&Reply::Executed { status: 201 }]);
}

#[test]
fn a_service_that_may_have_made_it_is_not_let_go_before_somebody_says_what_it_made() {
    for executed in [true, false] {
        let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B"))];
        let sites = ["A", "B"].map(site).into();
        let subject = Subject::New { naming: Naming::FirstReplica, level: Level::Eventual, sites };
        let effects = stages[0].1.write(1, subject, Class::Create, Doubt::Ask);
        let local = |name: &str| Some(LocalId(name.into()));
        let made = Outcome::Done { status: 201, local: local("a-1") };
        let effects = stages[0].1.ends(&effects, made);
        // B's service says that it made it, and not by which id.
        talk(&mut stages, from("A", effects));
        let resource = Meta("a-1".into());
        assert_eq!(stages[1].1.machine.in_doubt().collect::<Vec<_>>(), [(&resource, &op(1))]);
        let change = Change::Shrink(site("B"));
        let effects = stages[0].1.on(Event::Change { ticket: Ticket(2), resource: resource.clone(), change });
        talk(&mut stages, from("A", effects));
        assert_eq!(stages[1].1.machine.in_doubt().count(), 1);
        let local = local("b-1").filter(|_| executed);
        let settle = Event::Settle { resource: resource.clone(), op: op(1), executed, local: local.clone() };
        let effects = stages[1].1.on(settle);
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::Execute { .. })), "{effects:?}");
        let rest = talk(&mut stages, from("B", effects));
        let release = Effect::Release { resource, local, keep: false };
        assert!(rest.contains(&("B".into(), release)), "{rest:?}");
    }
}

#[test]
fn what_a_site_that_is_shut_out_wrote_is_tried_before_it_is_passed_over() {
    let (mut a, message) = written_at_c();
    a.on(Event::Repair { ticket: Ticket(3), resource: meta(), from: site("B") });
    a.on(Event::ShutOut { site: site("C"), out: true });
    a.on(Event::Received { from: site("C"), message });
    a.on(Event::Change { ticket: Ticket(4), resource: meta(), change: Change::Shrink(site("C")) });
    // The replica here waited for the state of another, and not because of that write.
    let effects = a.on(Event::Mended { resource: meta() });
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Execute { .. })), "{effects:?}");
}
