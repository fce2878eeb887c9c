//! What becomes of executions where sites write apart, and of what is put in the place of a replica.

use super::*;

fn two() -> [(&'static str, Stage); 2] {
    let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B"))];
    let effects = stages[0].1.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
    talk(&mut stages, from("A", effects));
    stages
}

fn write(stage: &mut Stage, class: Class) -> Vec<Effect> {
    let effects = stage.write(2, Subject::Existing(meta()), class, Doubt::Repeat);
    stage.ends(&effects, done())
}

/// One site hears all that another said.
fn hears(stage: &mut Stage, name: &str, by: &str, said: &[Effect]) -> Vec<Effect> {
    let mut effects = Vec::new();
    for message in messages(said, name) {
        effects.extend(stage.on(Event::Received { from: site(by), message: message.clone() }));
    }
    effects
}

fn diverges(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Diverged { .. }))
}

fn installs(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Install { .. }))
}

fn copies(effects: &[Effect]) -> Vec<Site> {
    let copies = effects.iter().filter_map(|effect| match effect {
        Effect::CopyState { from, .. } => Some(from.clone()),
        _ => None,
    });
    copies.collect()
}

fn erases(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Erase(_))).count()
}

#[test]
fn what_is_gone_when_it_is_to_be_deleted_is_deleted_and_nothing_else_is_done_by_being_gone() {
    for (class, good) in [(Class::Delete, true), (Class::Add, false)] {
        let mut stages = two();
        let said = write(&mut stages[0].1, class);
        let b = &mut stages[1].1;
        let asked = hears(b, "B", "A", &said);
        assert_eq!(diverges(&b.ends(&asked, Outcome::Refused { status: 404 })), !good);
    }
    for doubted in [false, true] {
        let mut stage = created();
        let mut effects = stage.write(2, Subject::Existing(meta()), Class::Delete, Doubt::Repeat);
        if doubted {
            stage.ends(&effects, Outcome::Unknown);
            effects = stage.on(Event::Fired(Timer::Retry(meta())));
        }
        let effects = stage.ends(&effects, Outcome::Refused { status: 410 });
        assert!(!diverges(&effects));
        assert_eq!(replies(&effects).contains(&&Reply::Refused { status: 410 }), !doubted);
        assert_eq!(stage.machine.is_made(&meta()), !doubted);
    }
}

#[test]
fn a_refusal_after_an_attempt_that_may_have_been_executed_is_shown() {
    let mut stage = created();
    let effects = stage.write(2, Subject::Existing(meta()), Class::Add, Doubt::Repeat);
    stage.ends(&effects, Outcome::Unknown);
    let effects = stage.on(Event::Fired(Timer::Retry(meta())));
    let effects = stage.ends(&effects, Outcome::Refused { status: 409 });
    assert!(!diverges(&effects) && stage.machine.is_readable(&meta()));
    assert_eq!(stage.machine.in_doubt().count(), 1);
    // Nobody says anything of it but by its name, and when it is asked for.
    let settle = |op| Event::Settle { resource: meta(), op, executed: true, local: None };
    stage.on(settle(op(9)));
    stage.on(Event::Probed { resource: meta(), op: op(2), executed: Some(true), local: None });
    assert_eq!(stage.machine.in_doubt().count(), 1);
    stage.on(settle(op(2)));
    assert_eq!(stage.machine.in_doubt().count(), 0);
}

#[test]
fn an_operator_has_the_service_asked_once_more() {
    for executed in [Some(true), Some(false), None] {
        let mut stage = created();
        let effects = stage.write(2, Subject::Existing(meta()), Class::Add, Doubt::Ask);
        stage.ends(&effects, Outcome::Unknown);
        assert!(stage.on(Event::Probe { resource: meta(), op: op(9) }).is_empty());
        let effects = stage.on(Event::Probe { resource: meta(), op: op(2) });
        assert!(effects.iter().any(|effect| matches!(effect, Effect::Probe { .. })), "{effects:?}");
        assert_eq!(stage.machine.in_doubt().count(), 0);
        let effects = stage.on(Event::Probed { resource: meta(), op: op(2), executed, local: None });
        assert_eq!(stage.machine.in_doubt().count(), usize::from(executed.is_none()));
        let runs = effects.iter().any(|effect| matches!(effect, Effect::Execute { .. }));
        assert_eq!(runs, executed == Some(false));
    }
}

#[test]
fn an_answer_to_another_execution_does_not_count() {
    let mut stage = created();
    let before = stage.write(2, Subject::Existing(meta()), Class::Add, Doubt::Ask);
    stage.ends(&before, done());
    stage.write(3, Subject::Existing(meta()), Class::Add, Doubt::Ask);
    let effects = stage.ends(&before, Outcome::Refused { status: 409 });
    assert!(replies(&effects).is_empty() && !stage.machine.is_doubted(&meta()));
    assert!(stage.machine.status(&meta()).unwrap().running.is_some());
}

#[test]
fn what_exists_is_not_made_again_by_another_level_or_while_it_is_not_good() {
    let mut stage = created();
    let effects = stage.write(2, new(Level::Strong), Class::Create, Doubt::Repeat);
    assert_eq!(replies(&stage.ends(&effects, done())), [&Reply::Executed { status: 201 }]);
    assert_eq!(stage.machine.resources().count(), 1);
    stage.on(Event::Repair { ticket: Ticket(3), resource: meta(), from: site("B") });
    let effects = stage.write(4, new(Level::Eventual), Class::Create, Doubt::Repeat);
    assert_eq!(replies(&effects), [&Reply::NotGood]);
}

#[test]
fn a_state_is_asked_for_once_at_a_time_of_others_that_can_be_reached_and_are_good() {
    let mut stages = ["A", "B", "C"].map(|name| (name, Stage::new(name)));
    let sites = ["A", "B", "C"].map(site).into();
    let subject = Subject::New { naming: Naming::Chosen(meta()), level: Level::Eventual, sites };
    let effects = stages[0].1.write(1, subject, Class::Create, Doubt::Repeat);
    talk(&mut stages, from("A", effects));
    let said = write(&mut stages[0].1, Class::Add);
    let b = &mut stages[1].1;
    let fired = || Event::Fired(Timer::Copy(meta()));
    assert_eq!(copies(&b.on(fired())), [], "it is good");
    let asked = hears(b, "B", "A", &said);
    let effects = b.ends(&asked, Outcome::Refused { status: 409 });
    assert_eq!(copies(&effects).len(), 1);
    assert!(b.machine.status(&meta()).unwrap().copying);
    assert_eq!(copies(&b.on(fired())), [], "it is being fetched");
    let again = |b: &mut Stage| {
        b.on(Event::CopyFailed { resource: meta() });
        copies(&b.on(fired()))
    };
    let asked: BTreeSet<_> = (0..6).flat_map(|_| again(b)).collect();
    assert_eq!(asked, ["A", "C"].map(site).into());
    b.on(Event::Reach { site: site("A"), up: false });
    let asked: BTreeSet<_> = (0..6).flat_map(|_| again(b)).collect();
    assert_eq!(asked, ["C"].map(site).into());
    b.on(Event::Reach { site: site("A"), up: true });
    // Of the one that the operator chose.
    b.on(Event::CopyFailed { resource: meta() });
    let effects = b.on(Event::Repair { ticket: Ticket(3), resource: meta(), from: site("A") });
    assert_eq!(copies(&effects), [site("A")]);
    let asked: BTreeSet<_> = (0..6).flat_map(|_| again(b)).collect();
    assert_eq!(asked, ["A"].map(site).into());
}

#[test]
fn a_state_is_asked_for_once_however_often_a_site_is_told_that_it_is_behind() {
    let (a, mut b) = (created(), Stage::new("B"));
    let (map, snapshot) = a.machine.snapshot(&meta()).unwrap();
    let behind = || {
        let message = Message::Behind { map: map.clone(), known: snapshot.progress.known.clone() };
        Event::Received { from: site("A"), message }
    };
    assert_eq!(copies(&b.on(behind())), [site("A")]);
    assert_eq!(copies(&b.on(behind())), []);
    let effects = b.on(Event::Fetched { map: map.clone(), snapshot: snapshot.clone() });
    assert!(installs(&effects));
    // What is being given to the service needs its bodies.
    let state = |record: &&Record| matches!(record, Record::State { .. });
    let bodies: Vec<_> = b.disk.values().filter(state).flat_map(Record::bodies).collect();
    assert_eq!(bodies, [Body("b".into())]);
    assert_eq!(copies(&b.on(behind())), []);
}

#[test]
fn a_state_is_not_given_to_a_service_that_is_executing_but_to_one_that_never_did() {
    for (outcome, taken) in
        [(None, false), (Some(Outcome::NotExecuted), true), (Some(Outcome::Unknown), false)]
    {
        let (mut a, mut b) = (Stage::new("A"), Stage::new("B"));
        let sites = [site("A"), site("B")].into();
        let subject = Subject::New { naming: Naming::FirstReplica, level: Level::Eventual, sites };
        let effects = a.write(1, subject, Class::Create, Doubt::Ask);
        let local = Some(LocalId("a-1".into()));
        let said = a.ends(&effects, Outcome::Done { status: 201, local });
        let asked = hears(&mut b, "B", "A", &said);
        if let Some(outcome) = outcome {
            b.ends(&asked, outcome);
        }
        let (map, snapshot) = a.machine.snapshot(&Meta("a-1".into())).unwrap();
        let mut known = snapshot.progress.known.clone();
        known.add(&op(9));
        b.on(Event::Received { from: site("A"), message: Message::Behind { map: map.clone(), known } });
        assert_eq!(installs(&b.on(Event::Fetched { map, snapshot })), taken);
    }
}

#[test]
fn a_state_without_what_was_executed_here_from_elsewhere_is_not_taken_over() {
    let mut stages = ["A", "B", "C"].map(|name| (name, Stage::new(name)));
    let sites = ["A", "B", "C"].map(site).into();
    let subject = Subject::New { naming: Naming::Chosen(meta()), level: Level::Eventual, sites };
    let effects = stages[0].1.write(1, subject, Class::Create, Doubt::Repeat);
    talk(&mut stages, from("A", effects));
    let said = write(&mut stages[2].1, Class::Add);
    let asked = hears(&mut stages[1].1, "B", "C", &said);
    stages[1].1.ends(&asked, done());
    let (map, lacks) = stages[0].1.machine.snapshot(&meta()).unwrap();
    let (_, has) = stages[2].1.machine.snapshot(&meta()).unwrap();
    let b = &mut stages[1].1;
    b.on(Event::Repair { ticket: Ticket(3), resource: meta(), from: site("A") });
    assert!(!installs(&b.on(Event::Fetched { map: map.clone(), snapshot: lacks })));
    b.on(Event::Fired(Timer::Copy(meta())));
    assert!(installs(&b.on(Event::Fetched { map, snapshot: has })));
}

#[test]
fn with_a_state_go_the_bodies_that_nobody_needs_any_more_and_no_others() {
    // B has executed it, and does not know that A knows.
    let (mut a, mut b) = (Stage::new("A"), Stage::new("B"));
    let effects = a.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
    let said = a.ends(&effects, done());
    let operations = |effect: &&Effect| matches!(effect, Effect::Send { message: Message::Operations { operations, .. }, .. } if !operations.is_empty());
    let told: Vec<_> = said.iter().filter(operations).cloned().collect();
    let asked = hears(&mut b, "B", "A", &told);
    let said = b.ends(&asked, done());
    hears(&mut a, "A", "B", &said);
    let taken = |a: &Stage, b: &mut Stage| {
        b.on(Event::Repair { ticket: Ticket(3), resource: meta(), from: site("A") });
        let (map, snapshot) = a.machine.snapshot(&meta()).unwrap();
        b.on(Event::Fetched { map, snapshot });
        erases(&b.on(Event::Installed { resource: meta(), local: None }))
    };
    assert_eq!(a.machine.operation(&meta(), &op(1)).unwrap().body, None);
    assert_eq!(taken(&a, &mut b), 1);
    // Another site has yet to execute it.
    let mut stages = ["A", "B"].map(|name| (name, Stage::new(name)));
    let sites = ["A", "B", "C"].map(site).into();
    let subject = Subject::New { naming: Naming::Chosen(meta()), level: Level::Eventual, sites };
    let effects = stages[0].1.write(1, subject, Class::Create, Doubt::Repeat);
    talk(&mut stages, from("A", effects));
    let [(_, a), (_, mut b)] = stages;
    assert_eq!(taken(&a, &mut b), 0);
    assert!(b.machine.operation(&meta(), &op(1)).unwrap().body.is_some());
}

#[test]
fn a_replica_that_could_not_follow_is_not_read_after_a_restart_either() {
    let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B"))];
    let effects = stages[0].1.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
    talk(&mut stages, from("A", effects));
    let [(_, a), (_, b)] = &mut stages;
    let effects = a.write(2, Subject::Existing(meta()), Class::Add, Doubt::Ask);
    let sent = a.ends(&effects, done());
    let mut asked = Vec::new();
    for message in messages(&sent, "B") {
        asked.extend(b.on(Event::Received { from: site("A"), message: message.clone() }));
    }
    b.ends(&asked, Outcome::Refused { status: 409 });
    assert!(!b.machine.is_readable(&meta()));
    let effects = b.restart("B");
    assert!(!b.machine.is_readable(&meta()));
    let copies = |effect: &Effect| matches!(effect, Effect::Wake { timer: Timer::Copy(_), .. });
    assert!(effects.iter().any(copies), "{effects:?}");
}

#[test]
fn a_deletion_that_something_holds_is_answered_and_told_and_stays_pending_until_it_is_over() {
    let mut stages = two();
    let a = &mut stages[0].1;
    let asked = a.write(2, Subject::Existing(meta()), Class::Delete, Doubt::Repeat);
    let said = a.ends(&asked, Outcome::Begun { status: 202 });
    assert_eq!(replies(&said), [&Reply::Executed { status: 202 }]);
    assert_eq!((a.machine.unexecuted(&meta(), &site("A")).len(), a.machine.is_made(&meta())), (1, true));
    // Also after a restart.
    a.restart_alone("A");
    assert_eq!(a.machine.unexecuted(&meta(), &site("A")).len(), 1);
    let again = a.on(Event::Fired(Timer::Retry(meta())));
    assert_eq!(replies(&a.ends(&again, Outcome::Begun { status: 202 })), [] as [&Reply; 0]);
    let again = a.on(Event::Fired(Timer::Retry(meta())));
    a.ends(&again, Outcome::Done { status: 404, local: None });
    assert_eq!((a.machine.unexecuted(&meta(), &site("A")).len(), a.machine.is_made(&meta())), (0, false));
    // The other site has heard of it when it was answered.
    let b = &mut stages[1].1;
    let asked = hears(b, "B", "A", &said);
    b.ends(&asked, done());
    assert!(!b.machine.is_made(&meta()));
}
