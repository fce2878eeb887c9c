//! Writes whose clients were answered before any service executed them.

use replica::{
    Class, Condition, Doubt, Effect, Event, Key, Level, Message, Outcome, Reply, Subject, Ticket, Timer,
};

use super::{Stage, created, done, from, messages, meta, new, op, replies, sends_operations, site, talk};

fn executes(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Execute { .. }))
}

fn patch() -> Class {
    Class::Patch(["name".into()].into())
}

/// A site with a resource at `@weak`.
fn weak() -> Stage {
    let mut stage = Stage::new("A");
    let effects = stage.write(1, new(Level::Weak), Class::Create, Doubt::Repeat);
    stage.ends(&effects, done());
    stage
}

#[test]
fn acknowledged_weak_write_is_tried_until_the_service_speaks() {
    let mut stage = weak();
    let effects = stage.write(2, Subject::Existing(meta()), Class::Add, Doubt::Ask);
    assert_eq!(replies(&effects), [&Reply::Recorded]);
    stage.ends(&effects, Outcome::NotExecuted);
    stage.restart_alone("A");
    for _ in 0..3 {
        let effects = stage.on(Event::Fired(Timer::Retry(meta())));
        assert!(executes(&effects) && !sends_operations(&effects));
        stage.ends(&effects, Outcome::NotExecuted);
        assert!(stage.machine.operation(&meta(), &op(2)).is_some());
    }
    let effects = stage.on(Event::Fired(Timer::Retry(meta())));
    assert!(sends_operations(&stage.ends(&effects, done())));
}

#[test]
fn weak_write_queued_at_a_restart_is_executed() {
    let mut stage = Stage::new("A");
    stage.write(1, new(Level::Weak), Class::Create, Doubt::Repeat);
    stage.write(2, Subject::Existing(meta()), Class::Add, Doubt::Ask);
    stage.restart_alone("A");
    let effects = stage.on(Event::Fired(Timer::Retry(meta())));
    let effects = stage.ends(&effects, done());
    assert!(executes(&effects), "the second follows the first");
    stage.ends(&effects, Outcome::NotExecuted);
    let effects = stage.on(Event::Fired(Timer::Retry(meta())));
    stage.ends(&effects, done());
    assert_eq!(stage.machine.pending(&site("B")).count(), 2);
}

#[test]
fn refusal_of_an_acknowledged_write_is_kept_and_no_other_site_hears_of_it() {
    let mut stage = weak();
    let effects = stage.write(2, Subject::Existing(meta()), patch(), Doubt::Repeat);
    let effects = stage.ends(&effects, Outcome::Refused { status: 422 });
    assert!(replies(&effects).is_empty() && !sends_operations(&effects));
    for _ in 0..2 {
        let refusal = stage.machine.refusal(&op(2)).unwrap();
        assert_eq!((refusal.status, &refusal.operation.body), (422, &None));
        assert!(stage.disk.contains_key(&Key::Refusal(op(2))));
        stage.restart_alone("A");
    }
    assert_eq!(stage.machine.refusals().count(), 1);
    assert!(stage.machine.operation(&meta(), &op(2)).is_none());
}

#[test]
fn refusal_that_a_client_was_told_is_not_kept() {
    let mut stage = created();
    let effects = stage.write(2, Subject::Existing(meta()), patch(), Doubt::Repeat);
    let effects = stage.ends(&effects, Outcome::Refused { status: 422 });
    assert_eq!(replies(&effects), [&Reply::Refused { status: 422 }]);
    assert_eq!(stage.machine.refusals().count(), 0);
}

#[test]
fn only_so_many_refusals_are_kept_and_the_oldest_goes() {
    let mut stage = weak();
    for ticket in 2..1_003 {
        let effects = stage.write(ticket, Subject::Existing(meta()), patch(), Doubt::Repeat);
        stage.ends(&effects, Outcome::Refused { status: 422 });
    }
    assert_eq!(stage.machine.refusals().count(), 1_000);
    let kept = stage.disk.keys().filter(|key| matches!(key, Key::Refusal(_))).count();
    assert_eq!((kept, stage.machine.refusal(&op(2))), (1_000, None));
    assert!(stage.machine.refusal(&op(1_002)).is_some());
}

#[test]
fn write_whose_client_waits_no_longer_goes_on() {
    let mut stage = created();
    let first = stage.write(2, Subject::Existing(meta()), Class::Add, Doubt::Ask);
    assert!(replies(&stage.write(3, Subject::Existing(meta()), Class::Add, Doubt::Ask)).is_empty());
    stage.ends(&first, Outcome::Unknown);
    assert!(stage.on(Event::Expired { ticket: Ticket(3) }).is_empty(), "the driver has told the client");
    let settled = Event::Settle { resource: meta(), op: op(2), executed: true, local: None };
    let effects = stage.on(settled);
    let effects = stage.ends(&effects, Outcome::NotExecuted);
    assert!(replies(&effects).is_empty());
    assert!(stage.machine.operation(&meta(), &op(3)).is_some(), "it was told that it goes on");
    let effects = stage.on(Event::Fired(Timer::Retry(meta())));
    assert!(sends_operations(&stage.ends(&effects, done())));
}

#[test]
fn writes_to_what_is_to_be_deleted_are_answered_at_once() {
    let mut a = created();
    let mut b = Stage::new("B");
    let create = a.machine.pending(&site("B")).collect();
    let map = a.machine.map(&meta()).unwrap().into_owned();
    let effects =
        b.on(Event::Received { from: site("A"), message: Message::Operations { map, operations: create } });
    b.ends(&effects, done());
    let deleted = a.write(2, Subject::Existing(meta()), Class::Delete, Doubt::Repeat);
    let deleted = a.ends(&deleted, done());
    let mut asked = Vec::new();
    for message in messages(&deleted, "B") {
        asked.extend(b.on(Event::Received { from: site("A"), message: message.clone() }));
    }
    // The service of B does not let it happen.
    b.ends(&asked, Outcome::NotExecuted);
    for (ticket, class) in [(10, patch()), (11, Class::Delete), (12, Class::Add), (13, Class::Replace)] {
        let effects = b.write(ticket, Subject::Existing(meta()), class, Doubt::Repeat);
        assert_eq!(replies(&effects), [&Reply::NoResource]);
    }
    let anew = b.write(14, new(Level::Eventual), Class::Create, Doubt::Repeat);
    assert_eq!(replies(&anew), [&Reply::NotGood], "it would be beaten");
    let effects = b.on(Event::Fired(Timer::Retry(meta())));
    b.ends(&effects, done());
    assert!(!b.machine.is_made(&meta()), "it is gone when the service lets it go");
}

#[test]
fn weak_write_that_comes_after_the_deletion_at_a_site_has_no_effect_there_and_is_over() {
    let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B"))];
    let effects = stages[0].1.write(1, new(Level::Weak), Class::Create, Doubt::Repeat);
    talk(&mut stages, from("A", effects));
    let [(_, mut a), (_, mut b)] = stages;
    let effects = b.write(2, Subject::Existing(meta()), Class::Delete, Doubt::Repeat);
    b.ends(&effects, done());
    let effects = a.write(3, Subject::Existing(meta()), Class::Add, Doubt::Ask);
    let effects = a.ends(&effects, done());
    let messages = messages(&effects, "B").into_iter().cloned();
    let heard: Vec<_> =
        messages.flat_map(|message| b.on(Event::Received { from: site("A"), message })).collect();
    b.ends(&heard, Outcome::Refused { status: 404 });
    assert_eq!(b.machine.status(&meta()).unwrap().condition, Condition::Good);
    assert!(b.machine.unexecuted(&meta(), &site("B")).is_empty());
}
