//! One site is given back an old copy of its records: each of these was wrong once, with nothing else amiss.

use super::*;

fn two() -> [(&'static str, Stage); 2] {
    let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B"))];
    let effects = stages[0].1.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
    talk(&mut stages, from("A", effects));
    stages
}

fn add(stage: &mut Stage, ticket: u64) -> Vec<Effect> {
    stage.write(ticket, Subject::Existing(meta()), Class::Add, Doubt::Repeat)
}

/// The process ends, and starts with what it had some time ago.
fn give_back(stage: &mut Stage, name: &str, disk: BTreeMap<Key, Record>) -> Vec<Effect> {
    stage.disk = disk;
    stage.restart(name)
}

fn fires(stages: &mut [(&str, Stage)], at: usize, timer: Timer) -> Vec<(String, Effect)> {
    let effects = stages[at].1.on(Event::Fired(timer));
    let name = stages[at].0;
    talk(stages, from(name, effects))
}

#[test]
fn what_another_site_knows_is_not_decided_once_more() {
    let mut stages = two();
    let effects = add(&mut stages[0].1, 2);
    let old = stages[0].1.disk.clone();
    talk(&mut stages, from("A", effects));
    // In the old records it was never executed, and nobody else knows of it.
    let effects = give_back(&mut stages[0].1, "A", old);
    talk(&mut stages, from("A", effects));
    fires(&mut stages, 0, Timer::Deliver(site("B")));
    let effects = stages[0].1.on(Event::Fired(Timer::Retry(meta())));
    let own = |effect: &Effect| matches!(effect, Effect::Execute { authority: Authority::Site, .. });
    assert!(effects.iter().any(own), "{effects:?}");
    let effects = stages[0].1.ends(&effects, Outcome::Refused { status: 403 });
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Diverged { status: 403, .. })));
    assert!(stages[0].1.disk.contains_key(&Key::Operation(op(2))));
}

#[test]
fn nothing_is_forgotten_before_what_the_others_have_of_this_site_is_known_again() {
    let mut stages = two();
    let old = stages[0].1.disk.clone();
    let effects = add(&mut stages[1].1, 2);
    let apart = stages[1].1.ends(&effects, done());
    let replace = stages[0].1.write(3, Subject::Existing(meta()), Class::Replace, Doubt::Repeat);
    // B executes the replace that it has not seen, and its own add again on top of it.
    let effects = stages[0].1.ends(&replace, done());
    let mut asked = Vec::new();
    for message in messages(&effects, "B") {
        asked.extend(stages[1].1.on(Event::Received { from: site("A"), message: message.clone() }));
    }
    let last = stages[1].1.ends(&asked, done());
    give_back(&mut stages[0].1, "A", old);
    stages[0].1.welcome("B");
    let operations = |message: &&Message| matches!(message, Message::Operations { .. });
    let confirms = |message: &&Message| matches!(message, Message::Confirm { .. });
    let mut effects = Vec::new();
    for message in messages(&apart, "A").into_iter().filter(operations) {
        effects.extend(stages[0].1.on(Event::Received { from: site("B"), message: message.clone() }));
    }
    effects.extend(stages[0].1.ends(&effects.clone(), done()));
    let said = messages(&last, "A").into_iter().find(confirms).unwrap();
    effects.extend(stages[0].1.on(Event::Received { from: site("B"), message: said.clone() }));
    // The replace comes again: then the add is executed again as well.
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Erase(_))), "{effects:?}");
}

#[test]
fn a_state_that_lacks_what_was_forgotten_here_is_not_taken_over() {
    let mut stages = two();
    let old = stages[0].1.disk.clone();
    let effects = add(&mut stages[1].1, 2);
    talk(&mut stages, from("B", effects));
    let lost = OpId { site: site("B"), ..op(1) };
    assert_eq!(stages[1].1.machine.operation(&meta(), &lost), None, "all have it, so it is forgotten");
    give_back(&mut stages[0].1, "A", old);
    // A writes before it is told what it lacks.
    let asks = stages[0].1.on(Event::Fired(Timer::Deliver(site("B"))));
    let of_this = |message: &&Message| matches!(message, Message::Operations { .. });
    let asks = messages(&asks, "B").into_iter().find(of_this).unwrap();
    let said = stages[1].1.on(Event::Received { from: site("A"), message: asks.clone() });
    let [said] = messages(&said, "A")[..] else { panic!("{said:?}") };
    stages[0].1.on(Event::Received { from: site("B"), message: said.clone() });
    let effects = add(&mut stages[0].1, 3);
    talk(&mut stages, from("A", effects));
    for _ in 0..3 {
        fires(&mut stages, 1, Timer::Deliver(site("A")));
        fires(&mut stages, 0, Timer::Deliver(site("B")));
    }
    let done = |at: usize| stages[at].1.machine.snapshot(&meta()).unwrap().1.progress.done;
    assert!(done(0).covers(&lost) && done(1).covers(&lost));
    assert_eq!(done(0), done(1));
}

#[test]
fn a_name_of_which_nobody_knows_more_is_forgotten() {
    let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B"))];
    let effects = stages[0].1.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
    let effects = stages[0].1.ends(&effects, done());
    // Of all that A says, the creation itself does not arrive.
    let said = messages(&effects, "B").into_iter().find(|message| matches!(message, Message::Confirm { .. }));
    stages[1].1.on(Event::Received { from: site("A"), message: said.unwrap().clone() });
    assert!(stages[1].1.machine.map(&meta()).is_some());
    stages[1].1.restart("B");
    give_back(&mut stages[0].1, "A", BTreeMap::new());
    // A says first that it begins anew.
    fires(&mut stages, 1, Timer::Deliver(site("A")));
    fires(&mut stages, 1, Timer::Deliver(site("A")));
    for (name, stage) in &stages {
        assert_eq!(stage.machine.map(&meta()), None, "{name}");
        assert!(!stage.disk.contains_key(&Key::State(meta())), "{name}");
    }
}

/// A makes what its service names, and B hears of it. Then A has the records that it had when it had asked its service, or
/// when it was to ask again, which it does at `@weak` only.
fn finds_its_name(level: Level, waits: bool) {
    let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B"))];
    let (naming, sites) = (Naming::FirstReplica, [site("A"), site("B")].into());
    let subject = Subject::New { naming, level, sites };
    let mut effects = stages[0].1.write(1, subject, Class::Create, Doubt::Ask);
    if waits {
        stages[0].1.ends(&effects, Outcome::NotExecuted);
    }
    let old = stages[0].1.disk.clone();
    if waits {
        effects = stages[0].1.on(Event::Fired(Timer::Retry(Meta("~A/1".into()))));
    }
    let local = Some(LocalId("a-1".into()));
    let effects = stages[0].1.ends(&effects, Outcome::Done { status: 201, local: local.clone() });
    for message in messages(&effects, "B") {
        stages[1].1.on(Event::Received { from: site("A"), message: message.clone() });
    }
    let effects = give_back(&mut stages[0].1, "A", old);
    talk(&mut stages, from("A", effects));
    // The first word of it is enough.
    let asks = stages[1].1.on(Event::Fired(Timer::Deliver(site("A"))));
    let message = messages(&asks, "A")[0].clone();
    let asked = from("A", stages[0].1.on(Event::Received { from: site("B"), message }));
    let probe =
        |(_, effect): &(String, Effect)| matches!(effect, Effect::Probe { local: own, .. } if *own == local);
    assert!(asked.iter().any(probe), "{asked:?}");
    let (name, executed) = (Meta("a-1".into()), Some(true));
    stages[0].1.on(Event::Probed { resource: name.clone(), op: op(1), executed, local });
    assert!(stages[0].1.machine.is_readable(&name));
    assert_eq!(stages[0].1.machine.in_doubt().count(), 0);
    assert_eq!(stages[0].1.machine.resources().collect::<Vec<_>>(), [&name], "the name before is gone");
}

#[test]
fn a_creation_that_others_know_by_its_name_is_looked_for_by_it() {
    finds_its_name(Level::Eventual, false);
    finds_its_name(Level::Weak, true);
}
