//! What is sent to whom, and what is made of what comes.

use replica::Version;

use super::*;

fn two(settings: Settings) -> [(&'static str, Stage); 2] {
    let mut stages = [("A", Stage::with("A", settings)), ("B", Stage::with("B", settings))];
    let effects = stages[0].1.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
    talk(&mut stages, from("A", effects));
    stages
}

fn add(stage: &mut Stage) -> Vec<Effect> {
    let effects = stage.write(2, Subject::Existing(meta()), Class::Add, Doubt::Repeat);
    stage.ends(&effects, done())
}

fn received(by: &str, message: Message) -> Event {
    Event::Received { from: site(by), message }
}

/// How many operations B is given, and whether it is told that it has to take the state.
fn given(effects: &[Effect]) -> (usize, bool) {
    let operations = messages(effects, "B").into_iter().map(|message| match message {
        Message::Operations { operations, .. } => operations.len(),
        _ => 0,
    });
    let behind = messages(effects, "B").into_iter().any(|message| matches!(message, Message::Behind { .. }));
    (operations.sum(), behind)
}

#[test]
fn a_site_that_lacks_no_more_than_is_sent_gets_operations_and_else_the_state() {
    let mut stages = two(Settings { backlog: 2, ..Settings::default() });
    let a = &mut stages[0].1;
    let again = |a: &mut Stage| given(&a.on(Event::Fired(Timer::Deliver(site("B")))));
    assert_eq!(given(&add(a)), (1, false));
    assert_eq!(again(a), (1, false));
    assert_eq!(given(&add(a)), (1, false), "the one before was just sent");
    assert_eq!(again(a), (2, false));
    assert_eq!(given(&add(a)), (0, false));
    assert_eq!(again(a), (0, true));
}

#[test]
fn the_rest_of_what_a_site_lacks_follows_at_once_whoever_accepted_it() {
    let settings = Settings { batch: 2, ..Settings::default() };
    let mut stages = ["A", "B", "C"].map(|name| (name, Stage::with(name, settings)));
    let sites = ["A", "B", "C"].map(site).into();
    let subject = Subject::New { naming: Naming::Chosen(meta()), level: Level::Eventual, sites };
    let effects = stages[0].1.write(1, subject, Class::Create, Doubt::Repeat);
    talk(&mut stages, from("A", effects));
    let [a, b, c] = stages;
    let mut near = [a, c];
    for _ in 0..5 {
        let effects = add(&mut near[1].1);
        talk(&mut near, from("C", effects));
    }
    let [a, _] = near;
    let far = [a, b];
    assert_eq!(far[0].1.machine.pending(&site("B")).count(), 5);
    let [(_, mut a), (_, mut b)] = far;
    let mut said = a.on(Event::Fired(Timer::Deliver(site("B"))));
    // B's service takes its time.
    while !said.is_empty() {
        let told = messages(&said, "B").into_iter().cloned();
        let heard: Vec<_> = told.flat_map(|message| b.on(received("A", message))).collect();
        let told = messages(&heard, "A").into_iter().cloned();
        said = told.flat_map(|message| a.on(received("B", message))).collect();
    }
    assert_eq!(a.machine.pending(&site("B")).count(), 0);
}

#[test]
fn one_part_of_much_follows_the_other_soon() {
    let settings = Settings { again: 1, ..Settings::default() };
    let mut stage = Stage::with("A", settings);
    for number in 0..3 {
        let naming = Naming::Chosen(Meta(format!("r{number}").into()));
        let subject = Subject::New { naming, level: Level::Eventual, sites: [site("A"), site("B")].into() };
        let effects = stage.write(number, subject, Class::Create, Doubt::Repeat);
        stage.ends(&effects, done());
    }
    let effects = stage.on(Event::Fired(Timer::Deliver(site("B"))));
    let after = effects.iter().find_map(|effect| match effect {
        Effect::Wake { timer: Timer::Deliver(_), after_ms } => Some(*after_ms),
        _ => None,
    });
    assert!(after.is_some_and(|after| 0 < after && after < settings.retry_ms), "{after:?}");
}

#[test]
fn a_site_that_could_be_reached_all_the_time_is_not_told_everything_again() {
    let mut stages = two(Settings::default());
    let a = &mut stages[0].1;
    add(a);
    let reach = |up| Event::Reach { site: site("B"), up };
    let effects = a.on(reach(true));
    assert!(matches!(messages(&effects, "B")[..], [Message::Hello { .. }]), "{effects:?}");
    assert_eq!(a.on(reach(false)), []);
    assert_eq!(a.on(reach(false)), []);
    assert!(messages(&a.on(reach(true)), "B").len() > 1);
}

#[test]
fn a_name_that_its_teller_knows_nothing_of_makes_nothing() {
    let (mut a, mut b) = (created(), Stage::new("B"));
    let change = Change::Extend(site("C"));
    a.on(Event::Change { ticket: Ticket(2), resource: meta(), change });
    let map = a.machine.map(&meta()).unwrap().into_owned();
    let (epoch, known, done) = (Epoch::default(), Version::default(), Version::default());
    let says = Message::Confirm { map: map.clone(), epoch, number: 0, known, done };
    b.on(received("A", says));
    b.on(received("A", Message::Operations { map, operations: Vec::new() }));
    assert_eq!(b.machine.map(&meta()), None);
}

#[test]
fn what_a_site_says_in_the_background_of_a_run_before_does_not_count() {
    let mut stages = two(Settings::default());
    let b = &mut stages[1].1;
    let (old, heard) = (Epoch::default(), Epoch { number: 100, draw: 1 });
    let ended = vec![Mark { epoch: old, number: 0 }];
    b.on(received("A", Message::Hello { epoch: heard, heard: None, ended }));
    let (buckets, all) = (vec![1; 256], (0..=255).collect());
    let survey = Message::Survey { epoch: old, buckets };
    let listing = Message::Listing { epoch: old, buckets: all, lines: Vec::new(), answer: true };
    for message in [survey, listing] {
        let effects = b.on(received("A", message));
        let told = &messages(&effects, "A")[..];
        assert!(matches!(told, [Message::Hello { heard: Some(own), .. }] if *own == heard), "{effects:?}");
    }
}

#[test]
fn an_operation_of_another_resource_or_without_a_body_is_not_learnt() {
    let (a, mut b) = (created(), Stage::new("B"));
    let map = a.machine.map(&meta()).unwrap().into_owned();
    let whole = a.machine.operation(&meta(), &op(1)).unwrap().into_owned();
    let mut other = whole.clone();
    other.resource = Meta("other".into());
    let mut empty = whole.clone();
    empty.body = None;
    for operation in [other, empty] {
        b.on(received("A", Message::Operations { map: map.clone(), operations: vec![operation] }));
        assert_eq!(b.machine.kept(), 0);
    }
    let effects = b.on(received("A", Message::Operations { map, operations: vec![whole.clone()] }));
    assert_eq!(
        (b.machine.kept(), Machine::bodies(messages(&add(&mut created()), "B")[0]).len()),
        (1, 0),
        "{effects:?}"
    );
    let message =
        Message::Operations { map: a.machine.map(&meta()).unwrap().into_owned(), operations: vec![whole] };
    assert_eq!(Machine::bodies(&message), [Body("b".into())], "they go with it");
}

fn releases(rest: &[(String, Effect)], at: &str) -> Vec<bool> {
    let releases = rest.iter().filter(|(of, _)| of == at).filter_map(|(_, effect)| match effect {
        Effect::Release { keep, .. } => Some(*keep),
        _ => None,
    });
    releases.collect()
}

#[test]
fn a_replica_is_let_go_when_its_service_is_not_busy_with_it() {
    let mut stages = two(Settings::default());
    let running = stages[1].1.write(2, Subject::Existing(meta()), Class::Add, Doubt::Repeat);
    let change = Change::Shrink(site("B"));
    let effects = stages[0].1.on(Event::Change { ticket: Ticket(3), resource: meta(), change });
    let mut rest = talk(&mut stages, from("A", effects));
    let fires = stages[1].1.on(Event::Fired(Timer::Deliver(site("A"))));
    rest.extend(talk(&mut stages, from("B", fires)));
    assert_eq!(releases(&rest, "B"), [] as [bool; 0]);
    let effects = stages[1].1.ends(&running, done());
    assert_eq!(releases(&talk(&mut stages, from("B", effects)), "B"), [false]);
}

#[test]
fn what_a_service_never_made_under_a_name_is_not_deleted_there_but_what_it_may_have_made_is() {
    for (outcome, keep) in [(Outcome::NotExecuted, true), (Outcome::Unknown, false)] {
        let (mut a, mut b) = (Stage::new("A"), Stage::new("B"));
        let effects = a.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
        let effects = a.ends(&effects, done());
        let mut asked = Vec::new();
        for message in messages(&effects, "B") {
            asked.extend(b.on(received("A", message.clone())));
        }
        b.ends(&asked, outcome);
        let mut stages = [("A", a), ("B", b)];
        let change = Change::Shrink(site("B"));
        let effects = stages[0].1.on(Event::Change { ticket: Ticket(3), resource: meta(), change });
        let mut rest = talk(&mut stages, from("A", effects));
        let fires = stages[1].1.on(Event::Fired(Timer::Deliver(site("A"))));
        rest.extend(talk(&mut stages, from("B", fires)));
        assert_eq!(releases(&rest, "B"), [keep]);
    }
}

#[test]
fn a_site_in_a_new_run_is_asked_again_by_one_timer() {
    let mut stages = two(Settings::default());
    let a = &mut stages[0].1;
    a.on(Event::Fired(Timer::Deliver(site("B"))));
    let hello = |by: &str, number| {
        let epoch = |number| Epoch { number, draw: 1 };
        let ended = vec![Mark::default(), Mark { epoch: epoch(100), number: 0 }];
        received(by, Message::Hello { epoch: epoch(number), heard: None, ended })
    };
    let wakes = |effects: &[Effect]| {
        let own = |effect: &&Effect| matches!(effect, Effect::Wake { timer: Timer::Deliver(_), .. });
        effects.iter().filter(own).count()
    };
    assert_eq!(wakes(&a.on(hello("B", 100))), 1);
    assert_eq!(wakes(&a.on(hello("B", 101))), 0, "it is running");
    a.on(hello("D", 100));
    assert_eq!(wakes(&a.on(hello("D", 101))), 0, "it has no part in anything");
}

#[test]
fn what_is_on_its_way_is_not_forgotten_when_whoever_told_of_it_knows_it_no_more() {
    for installing in [false, true] {
        let (a, mut b) = (created(), Stage::new("B"));
        let (map, snapshot) = a.machine.snapshot(&meta()).unwrap();
        let known = snapshot.progress.known.clone();
        let effects = b.on(received("A", Message::Behind { map: map.clone(), known }));
        assert!(effects.iter().any(|effect| matches!(effect, Effect::CopyState { .. })));
        if installing {
            b.on(Event::Fetched { map: map.clone(), snapshot });
        }
        // A was given back old records.
        let (epoch, known, done) = (Epoch { number: 9, draw: 9 }, Version::default(), Version::default());
        b.on(received("A", Message::Confirm { map, epoch, number: 0, known, done }));
        assert!(b.machine.map(&meta()).is_some() && b.machine.status(&meta()).unwrap().copying);
    }
}

#[test]
fn the_later_of_two_writes_by_the_wall_clock_wins_and_a_clock_that_is_far_ahead_is_told() {
    let mut stages = two(Settings::default());
    let who = Who { site: site("A"), user: "ada".into(), project: None, roles: Vec::new(), time_ms: 0 };
    let mut written = Vec::new();
    // B writes first, and A later, both without having heard of the other.
    for (at, wall_ms) in [(1, 10_000), (0, 10_300)] {
        let (subject, class) = (Subject::Existing(meta()), Class::Replace);
        let write = Write {
            subject,
            class,
            doubt: Doubt::Repeat,
            on_behalf_of: who.clone(),
            body: Body("b".into()),
            long: false,
        };
        let stage = &mut stages[at].1;
        let mut effects = Vec::new();
        stage.machine.on(wall_ms, Event::Accept { ticket: Ticket(5), write }, &mut effects);
        let effects = stage.keep(effects);
        written.push(stage.ends(&effects, done()));
    }
    let message = |effects: &[Effect], to: &str| {
        let some = |message: &&Message| matches!(message, Message::Operations { operations, .. } if !operations.is_empty());
        messages(effects, to).into_iter().find(some).unwrap().clone()
    };
    let executes = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Execute { .. }));
    let skewed = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Skewed { .. }));
    let mut hears = |at: usize, wall_ms: u64, by: &str, message: Message| {
        let mut effects = Vec::new();
        stages[at].1.machine.on(wall_ms, received(by, message), &mut effects);
        (executes(&effects), skewed(&effects))
    };
    assert_eq!(hears(0, 10_400, "B", message(&written[0], "A")), (false, false));
    assert_eq!(hears(1, 10_000, "A", message(&written[1], "B")), (true, false));
    let effects = add(&mut created());
    let mut b = Stage::new("B");
    let mut ahead = message(&effects, "B");
    if let Message::Operations { operations, .. } = &mut ahead {
        operations[0].stamp.wall_ms = 9_000;
        operations[0].seen = Version::default();
    }
    let mut told = Vec::new();
    b.machine.on(8_400, received("A", ahead), &mut told);
    assert!(skewed(&told), "{told:?}");
}
