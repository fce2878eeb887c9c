//! A copy that a service has to make, and to name, is made as a creation is: never again by guess.

use super::*;

fn local(name: &str) -> LocalId {
    LocalId(name.into())
}

fn named() -> Meta {
    Meta("a-1".into())
}

/// What the service is to be given: by which id, and whether it was just made.
fn installs(effects: &[Effect]) -> Vec<(Option<LocalId>, bool)> {
    let installs = effects.iter().filter_map(|effect| match effect {
        Effect::Install { local, made, .. } => Some((local.clone(), *made)),
        _ => None,
    });
    installs.collect()
}

/// By which name the service is asked to make something.
fn makes(effects: &[Effect]) -> Vec<OpId> {
    let makes = effects.iter().filter_map(|effect| match effect {
        Effect::Make { op, .. } => Some(op.clone()),
        _ => None,
    });
    makes.collect()
}

/// A site, and one that fetched its state for a service that names what it makes.
fn fetched() -> (Stage, Stage) {
    let (mut a, mut c) = (Stage::new("A"), Stage::new("C"));
    let subject =
        Subject::New { naming: Naming::FirstReplica, level: Level::Eventual, sites: [site("A")].into() };
    let effects = a.write(1, subject, Class::Create, Doubt::Ask);
    a.ends(&effects, Outcome::Done { status: 201, local: Some(local("a-1")) });
    let change = Change::Extend(site("C"));
    let mut told = a.on(Event::Change { ticket: Ticket(2), resource: named(), change });
    let mut asks = false;
    while !asks {
        let mut heard = Vec::new();
        for message in messages(&told, "C") {
            heard.extend(c.on(Event::Received { from: site("A"), message: message.clone() }));
        }
        asks = heard.iter().any(|effect| matches!(effect, Effect::CopyState { .. }));
        let answers = messages(&heard, "A").into_iter().cloned();
        told = answers.flat_map(|message| a.on(Event::Received { from: site("C"), message })).collect();
    }
    let (map, snapshot) = a.machine.snapshot(&named()).unwrap();
    let effects = c.on(Event::Fetched { map, snapshot });
    assert_eq!(installs(&effects), [(None, false)]);
    (a, c)
}

/// The same, whose service is being asked to make it.
fn making(doubt: Doubt) -> (Stage, OpId) {
    let (_, mut stage) = fetched();
    let effects = stage.on(Event::ToMake { resource: named(), local: None, doubt });
    // What a restart would need is durable by then.
    assert!(stage.disk.contains_key(&Key::Making(named())));
    let op = makes(&effects).pop().unwrap();
    (stage, op)
}

fn made(stage: &mut Stage, op: &OpId, outcome: Outcome) -> Vec<Effect> {
    stage.on(Event::Made { resource: named(), op: op.clone(), outcome })
}

fn is_good(stage: &mut Stage) -> bool {
    stage.on(Event::Installed { resource: named(), local: Some(local("c-7")) });
    stage.machine.is_readable(&named())
        && stage.machine.map(&named()).unwrap().local(&site("C")) == Some(local("c-7"))
}

#[test]
fn what_was_made_is_known_by_its_id_before_anything_else_is_given_to_it() {
    let (mut stage, op) = making(Doubt::Ask);
    let effects = made(&mut stage, &op, Outcome::Done { status: 201, local: Some(local("c-7")) });
    assert_eq!(installs(&effects), [(Some(local("c-7")), true)]);
    // What is below it could not be given: after a restart it is not made once more.
    let effects = stage.restart("C");
    assert_eq!((installs(&effects), makes(&effects)), (vec![(Some(local("c-7")), false)], Vec::new()));
    assert!(is_good(&mut stage) && !stage.disk.contains_key(&Key::Making(named())));
}

#[test]
fn without_an_answer_it_is_shown_until_it_is_settled_and_never_made_by_guess() {
    for (crashes, executed) in [(false, true), (false, false), (true, true), (true, false)] {
        let (mut stage, op) = making(Doubt::Ask);
        if !crashes {
            made(&mut stage, &op, Outcome::Unknown);
        }
        for _ in 0..3 {
            let effects = stage.restart("C");
            assert!(makes(&effects).is_empty() && installs(&effects).is_empty(), "{effects:?}");
            let effects = stage.on(Event::Fired(Timer::Copy(named())));
            assert!(effects.is_empty(), "{effects:?}");
            assert_eq!(stage.machine.in_doubt().collect::<Vec<_>>(), [(&named(), &op)]);
        }
        let id = Some(local("c-7")).filter(|_| executed);
        let effects =
            stage.on(Event::Settle { resource: named(), op: op.clone(), executed, local: id.clone() });
        assert_eq!(installs(&effects), [(id, executed)]);
        assert_eq!(stage.machine.in_doubt().count(), 0);
        if !executed {
            // The next attempt is another.
            let effects = stage.on(Event::ToMake { resource: named(), local: None, doubt: Doubt::Ask });
            let again = makes(&effects).pop().unwrap();
            assert_ne!(again, op);
            made(&mut stage, &again, Outcome::Done { status: 201, local: Some(local("c-7")) });
        }
        assert!(is_good(&mut stage));
    }
}

/// By which name the service is asked whether it made something.
fn probes(effects: &[Effect]) -> Vec<OpId> {
    let probes = effects.iter().filter_map(|effect| match effect {
        Effect::ProbeMade { op, .. } => Some(op.clone()),
        _ => None,
    });
    probes.collect()
}

#[test]
fn where_the_service_can_tell_it_is_asked_also_after_a_restart() {
    for executed in [Some(true), Some(false), None] {
        let (mut stage, op) = making(Doubt::Probe);
        let effects = made(&mut stage, &op, Outcome::Unknown);
        assert_eq!(probes(&effects), std::slice::from_ref(&op));
        // The process ends while the service is asked.
        let effects = stage.restart_alone("C");
        assert_eq!((probes(&effects), makes(&effects)), (vec![op.clone()], Vec::new()));
        assert_eq!(stage.machine.in_doubt().count(), 0);
        let id = Some(local("c-7")).filter(|_| executed == Some(true));
        let probed = Event::Probed { resource: named(), op: op.clone(), executed, local: id.clone() };
        let effects = stage.on(probed.clone());
        if let Some(made) = executed {
            assert_eq!(installs(&effects), [(id, made)]);
        } else {
            assert_eq!(stage.machine.in_doubt().collect::<Vec<_>>(), [(&named(), &op)]);
            // The operator has it looked for again. An answer that nobody waits for changes nothing.
            assert!(stage.on(probed).is_empty());
            let effects = stage.on(Event::Probe { resource: named(), op: op.clone() });
            assert_eq!(probes(&effects), std::slice::from_ref(&op));
            let local = Some(local("c-7"));
            let executed = Some(true);
            let effects = stage.on(Event::Probed { resource: named(), op, executed, local: local.clone() });
            assert_eq!(installs(&effects), [(local, true)]);
        }
        if executed != Some(false) {
            assert!(is_good(&mut stage));
        }
    }
}

#[test]
fn where_repeating_is_harmless_it_is_repeated_by_the_same_name() {
    let (mut stage, op) = making(Doubt::Repeat);
    made(&mut stage, &op, Outcome::Unknown);
    let effects = stage.on(Event::Fired(Timer::Copy(named())));
    assert_eq!(makes(&effects), vec![op.clone()]);
    // That the second attempt came to nothing says nothing of the first.
    made(&mut stage, &op, Outcome::NotExecuted);
    stage.restart("C");
    let effects = stage.on(Event::Fired(Timer::Copy(named())));
    assert_eq!(makes(&effects), vec![op.clone()]);
    made(&mut stage, &op, Outcome::Refused { status: 409 });
    assert_eq!(stage.machine.in_doubt().count(), 1);
}

#[test]
fn what_was_provably_not_made_is_fetched_and_made_again() {
    for outcome in [Outcome::NotExecuted, Outcome::Refused { status: 400 }] {
        let (mut stage, op) = making(Doubt::Ask);
        made(&mut stage, &op, outcome);
        assert_eq!(stage.machine.in_doubt().count(), 0);
        let effects = stage.on(Event::Fired(Timer::Copy(named())));
        assert!(effects.iter().any(|effect| matches!(effect, Effect::CopyState { .. })), "{effects:?}");
    }
}

#[test]
fn while_the_service_is_given_a_state_it_is_given_no_other() {
    let copies = |effects: &[Effect]| {
        effects
            .iter()
            .filter(|effect| matches!(effect, Effect::CopyState { .. } | Effect::Install { .. }))
            .count()
    };
    let (other, mut stage) = fetched();
    let repair = || Event::Repair { ticket: Ticket(9), resource: named(), from: site("A") };
    assert_eq!(copies(&stage.on(repair())), 0);
    assert_eq!(copies(&stage.on(Event::Fired(Timer::Copy(named())))), 0);
    // What the operator wants comes after it; until then nobody reads here.
    let effects = stage.on(Event::Installed { resource: named(), local: Some(local("c-7")) });
    assert_eq!(copies(&effects), 1);
    assert!(!stage.machine.is_readable(&named()));
    // Said once more while that is fetched, it is fetched from whom it was said.
    assert_eq!(copies(&stage.on(repair())), 0);
    let (map, snapshot) = other.machine.snapshot(&named()).unwrap();
    let effects = stage.on(Event::Fetched { map: map.clone(), snapshot: snapshot.clone() });
    assert_eq!((copies(&effects), installs(&effects).len()), (1, 0));
    stage.on(Event::Fetched { map, snapshot });
    // What the service could not be given is fetched again.
    stage.on(Event::CopyFailed { resource: named() });
    assert_eq!(copies(&stage.on(Event::Fired(Timer::Copy(named())))), 1);
}

#[test]
fn what_a_site_wrote_is_not_forgotten_while_it_is_given_a_state_that_lacks_it() {
    // B executes it, and says so, while the state is on its way, or while the service is given it.
    for arrived in [false, true] {
        let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B"))];
        let effects = stages[0].1.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
        talk(&mut stages, from("A", effects));
        let a = &mut stages[0].1;
        let effects = a.write(2, Subject::Existing(meta()), Class::Add, Doubt::Ask);
        let sent = a.ends(&effects, done());
        a.on(Event::Repair { ticket: Ticket(3), resource: meta(), from: site("B") });
        let (map, snapshot) = stages[1].1.machine.snapshot(&meta()).unwrap();
        let fetched = Event::Fetched { map, snapshot };
        if arrived {
            stages[0].1.on(fetched.clone());
        }
        talk(&mut stages, from("A", sent));
        if !arrived {
            stages[0].1.on(fetched);
        }
        let effects = stages[0].1.on(Event::Installed { resource: meta(), local: None });
        let executed = effects.iter().find_map(|effect| match effect {
            Effect::Execute { operation, .. } => Some((&operation.id, operation.body.is_some())),
            _ => None,
        });
        assert_eq!(executed, Some((&op(2), true)), "{effects:?}");
    }
}

#[test]
fn what_was_asked_for_by_an_id_that_is_another_by_now_is_not_made() {
    let (mut stage, op) = making(Doubt::Ask);
    made(&mut stage, &op, Outcome::Done { status: 201, local: Some(local("c-7")) });
    let effects = stage.on(Event::ToMake { resource: named(), local: None, doubt: Doubt::Ask });
    assert_eq!((makes(&effects), installs(&effects)), (Vec::new(), vec![(Some(local("c-7")), false)]));
}

#[test]
fn a_creation_in_doubt_is_not_made_again_as_a_copy() {
    let (mut a, mut b) = (Stage::new("A"), Stage::new("B"));
    let sites = [site("A"), site("B")].into();
    let subject = Subject::New { naming: Naming::FirstReplica, level: Level::Eventual, sites };
    let effects = a.write(1, subject, Class::Create, Doubt::Ask);
    let effects = a.ends(&effects, Outcome::Done { status: 201, local: Some(local("a-1")) });
    let mut asked = Vec::new();
    for message in messages(&effects, "B") {
        asked.extend(b.on(Event::Received { from: site("A"), message: message.clone() }));
    }
    b.ends(&asked, Outcome::Unknown);
    let (map, snapshot) = a.machine.snapshot(&named()).unwrap();
    let mut known = snapshot.progress.known.clone();
    known.add(&op(9));
    let told =
        b.on(Event::Received { from: site("A"), message: Message::Behind { map: map.clone(), known } });
    assert!(told.iter().any(|effect| matches!(effect, Effect::CopyState { .. })), "{told:?}");
    let effects = b.on(Event::Fetched { map, snapshot });
    assert!(installs(&effects).is_empty(), "{effects:?}");
    assert_eq!(b.machine.in_doubt().count(), 1);
}

#[test]
fn nothing_is_made_that_is_not_to_be_given_a_state_or_is_being_made() {
    let (other, mut stage) = fetched();
    let to_make = || Event::ToMake { resource: named(), local: None, doubt: Doubt::Ask };
    let [first] = &makes(&stage.on(to_make()))[..] else { panic!("it is not made") };
    assert_eq!(stage.machine.making(&named()).map(|making| &making.op), Some(first));
    let all: Vec<_> = stage.machine.makings().map(|(meta, making)| (meta, &making.op)).collect();
    assert_eq!(all, [(&named(), first)]);
    assert!(makes(&stage.on(to_make())).is_empty(), "it is being made");
    // An attempt before it, or none at all, says nothing of this one.
    let late = made(&mut stage, &op(77), Outcome::Done { status: 201, local: Some(local("c-0")) });
    assert!(installs(&late).is_empty());
    // Nor is another state fetched meanwhile: that an operator wants one is for later.
    stage.on(Event::CopyFailed { resource: named() });
    let effects = stage.on(Event::Repair { ticket: Ticket(3), resource: named(), from: site("A") });
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::CopyState { .. })), "{effects:?}");
    made(&mut stage, first, Outcome::Done { status: 201, local: Some(local("c-7")) });
    assert!(!is_good(&mut stage) && stage.machine.making(&named()).is_none());
    let (map, snapshot) = other.machine.snapshot(&named()).unwrap();
    stage.on(Event::Fetched { map, snapshot });
    assert!(is_good(&mut stage));
    for local in [None, Some(local("c-7"))] {
        let effects = stage.on(Event::ToMake { resource: named(), local, doubt: Doubt::Ask });
        assert!(makes(&effects).is_empty() && installs(&effects).is_empty(), "it has its state");
    }
}

#[test]
fn what_an_operator_says_was_made_needs_its_id_and_what_was_not_has_none() {
    for (executed, id) in [(true, None), (false, Some(local("c-9")))] {
        let (mut stage, op) = making(Doubt::Ask);
        made(&mut stage, &op, Outcome::Unknown);
        let effects = stage.on(Event::Settle { resource: named(), op, executed, local: id });
        assert_eq!(installs(&effects), if executed { vec![] } else { vec![(None, false)] });
        assert_eq!(stage.machine.in_doubt().count(), usize::from(executed));
    }
}

#[test]
fn what_is_to_be_here_no_more_is_not_made_and_not_given_a_state() {
    // Another site says that there is no replica here any more.
    let shrinks = |stage: &mut Stage| {
        let change = Change::Shrink(site("C"));
        stage.on(Event::Change { ticket: Ticket(3), resource: named(), change })
    };
    let (_, mut stage) = fetched();
    shrinks(&mut stage);
    let to_make = Event::ToMake { resource: named(), local: None, doubt: Doubt::Ask };
    assert!(makes(&stage.on(to_make)).is_empty());
    let (mut stage, op) = making(Doubt::Ask);
    shrinks(&mut stage);
    let effects = made(&mut stage, &op, Outcome::Done { status: 201, local: Some(local("c-7")) });
    assert!(installs(&effects).is_empty(), "{effects:?}");
    let (mut stage, op) = making(Doubt::Ask);
    made(&mut stage, &op, Outcome::Unknown);
    shrinks(&mut stage);
    let effects = stage.on(Event::Settle { resource: named(), op, executed: false, local: None });
    assert!(installs(&effects).is_empty(), "{effects:?}");
}
