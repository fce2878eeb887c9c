//! What one site answers and wants done, write by write.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "the helpers of a test fail the test, as the test itself does"
)]

mod absent;
mod background;
mod compared;
mod copies;
mod delivered;
mod executed;
mod group;
mod moved;
mod old_records;
mod overruled;
mod reads;
mod resource;
mod restored;
mod told;
mod turns;
mod unheard;

use std::collections::{BTreeMap, BTreeSet};

use replica::{
    Authority, Body, Change, Class, Content, Digest, Doubt, Effect, Epoch, Event, Execution, Key, Level,
    LocalId, Machine, Mark, Message, Meta, Naming, OpId, Outcome, Record, Reply, Settings, Subject, Ticket,
    Timer, Unreadable, Who, Write,
};
use scope::Site;

fn site(name: &str) -> Site {
    Site::new(name).unwrap()
}

/// A client's write, with a short body.
fn write(subject: Subject, class: Class, doubt: Doubt) -> Write {
    let on_behalf_of =
        Who { site: site("A"), user: "ada".into(), project: None, roles: Vec::new(), time_ms: 0 };
    Write { subject, class, doubt, on_behalf_of, body: Body("b".into()), long: false }
}

/// An operation that A accepted before it ever restarted.
fn op(counter: u64) -> OpId {
    OpId { site: site("A"), epoch: Epoch::default(), counter }
}

fn meta() -> Meta {
    Meta("r".into())
}

/// A site whose effects are looked at, with its disk.
struct Stage {
    machine: Machine,
    disk: BTreeMap<Key, Record>,
}

impl Stage {
    fn new(name: &str) -> Stage {
        Stage::with(name, Settings::default())
    }

    fn with(name: &str, settings: Settings) -> Stage {
        Stage { machine: Machine::restore(site(name), settings, []), disk: BTreeMap::new() }
    }

    /// The effects but for `Persist`, which is done.
    fn on(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.machine.on(0, event, &mut effects);
        self.keep(effects)
    }

    fn keep(&mut self, mut effects: Vec<Effect>) -> Vec<Effect> {
        if matches!(effects.first(), Some(Effect::Persist { .. })) {
            let Effect::Persist { put, remove } = effects.remove(0) else { unreachable!() };
            self.disk.extend(put.into_iter().map(|record| (record.key(), record)));
            self.disk.retain(|key, _| !remove.contains(key));
        }
        effects
    }

    /// The process ends, and starts with what was durable.
    fn restart(&mut self, name: &str) -> Vec<Effect> {
        self.machine = Machine::restore(site(name), Settings::default(), self.disk.values().cloned());
        let mut effects = Vec::new();
        self.machine.start(0, 7, &mut effects);
        self.keep(effects)
    }

    /// The same, and no other site says anything for so long that none is waited for.
    fn restart_alone(&mut self, name: &str) -> Vec<Effect> {
        let mut effects = self.restart(name);
        effects.extend(self.on(Event::Fired(Timer::Trust)));
        effects
    }

    /// Another site says that the records here are not old.
    fn welcome(&mut self, by: &str) -> Vec<Effect> {
        let (run, latest) = (self.machine.next_op().epoch, (Epoch::default(), 0));
        let message = Message::Welcome { run, behind: None, latest };
        self.on(Event::Received { from: site(by), message })
    }

    fn write(&mut self, ticket: u64, subject: Subject, class: Class, doubt: Doubt) -> Vec<Effect> {
        self.on(Event::Accept { ticket: Ticket(ticket), write: write(subject, class, doubt) })
    }

    /// What the service is asked ends so.
    fn ends(&mut self, effects: &[Effect], outcome: Outcome) -> Vec<Effect> {
        let asked = effects.iter().find_map(|effect| match effect {
            Effect::Execute { operation, execution, .. } => {
                Some((operation.resource.clone(), execution.clone()))
            }
            _ => None,
        });
        let (resource, execution) = asked.expect("nothing is executed");
        self.on(Event::Executed { resource, execution, outcome })
    }
}

fn new(level: Level) -> Subject {
    Subject::New { naming: Naming::Chosen(meta()), level, sites: [site("A"), site("B")].into() }
}

fn done() -> Outcome {
    Outcome::Done { status: 201, local: None }
}

fn replies(effects: &[Effect]) -> Vec<&Reply> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Answer { reply, .. } => Some(reply),
            _ => None,
        })
        .collect()
}

fn messages<'a>(effects: &'a [Effect], to: &str) -> Vec<&'a Message> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send { to: site, message } if site.name() == to => Some(message),
            _ => None,
        })
        .collect()
}

fn sends_operations(effects: &[Effect]) -> bool {
    let some = |message: &&Message| matches!(message, Message::Operations { operations, .. } if !operations.is_empty());
    messages(effects, "B").iter().any(some)
}

/// A site with a resource that it has created and sent on.
fn created() -> Stage {
    let mut stage = Stage::new("A");
    let effects = stage.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
    stage.ends(&effects, done());
    stage
}

#[test]
fn a_write_is_recorded_before_it_is_executed_and_executed_before_it_is_answered_and_sent() {
    let mut machine = Stage::new("A");
    let effects = machine.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
    assert!(machine.disk.keys().any(|key| matches!(key, Key::Operation(_))));
    assert!(matches!(&effects[0], Effect::Execute { authority: Authority::Sender, .. }));
    assert!(replies(&effects).is_empty() && !sends_operations(&effects));
    let effects = machine.ends(&effects, done());
    assert_eq!(replies(&effects), [&Reply::Executed { status: 201 }]);
    assert!(sends_operations(&effects));
}

#[test]
fn a_deleted_name_that_is_made_anew_has_its_replicas_where_its_new_scope_says() {
    let mut stage = created();
    let made_anew = |stage: &mut Stage, ticket| {
        let sites = [site("A"), site("C")].into();
        let subject = Subject::New { naming: Naming::Chosen(meta()), level: Level::Eventual, sites };
        let effects = stage.write(ticket, subject, Class::Create, Doubt::Repeat);
        let told = stage.ends(&effects, done());
        (stage.machine.map(&meta()).unwrap().members().into_iter().cloned().collect::<Vec<_>>(), told)
    };
    // What is there keeps its place, whatever the scope of the write.
    assert_eq!(made_anew(&mut stage, 2).0, [site("A"), site("B")]);
    let effects = stage.write(3, Subject::Existing(meta()), Class::Delete, Doubt::Repeat);
    stage.ends(&effects, done());
    let (members, told) = made_anew(&mut stage, 4);
    assert_eq!(members, [site("A"), site("C")]);
    assert!(!messages(&told, "C").is_empty() && !messages(&told, "B").is_empty(), "both are told");
}

#[test]
fn a_weak_write_is_answered_when_it_is_recorded() {
    let effects = Stage::new("A").write(1, new(Level::Weak), Class::Create, Doubt::Repeat);
    assert_eq!(replies(&effects), [&Reply::Recorded]);
}

#[test]
fn what_the_first_replica_refuses_no_other_hears_of() {
    let mut stage = Stage::new("A");
    let effects = stage.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
    assert!(messages(&effects, "B").is_empty());
    let effects = stage.ends(&effects, Outcome::Refused { status: 403 });
    assert_eq!(replies(&effects), [&Reply::Refused { status: 403 }]);
    assert!(messages(&effects, "B").is_empty());
    // Nothing stays but the counter: its operation's identity is never given again.
    assert_eq!(stage.disk.keys().collect::<Vec<_>>(), [&Key::Site]);
    let effects = stage.write(2, new(Level::Eventual), Class::Create, Doubt::Repeat);
    assert!(matches!(&effects[0], Effect::Execute { execution, .. } if execution.op.counter == 2));
}

#[test]
fn a_write_that_followed_a_refused_one_has_not_seen_it() {
    let mut stage = created();
    let first = stage.write(2, Subject::Existing(meta()), Class::Add, Doubt::Ask);
    assert!(replies(&stage.write(3, Subject::Existing(meta()), Class::Add, Doubt::Ask)).is_empty());
    let second = stage.ends(&first, Outcome::Refused { status: 409 });
    let Some(Effect::Execute { operation, .. }) =
        second.iter().find(|effect| matches!(effect, Effect::Execute { .. }))
    else {
        panic!("the second is not executed")
    };
    // Else the other sites would wait for one that never comes.
    assert_eq!(operation.seen.of(&op(1)), 1);
}

#[test]
fn a_service_that_cannot_be_asked_is_a_refusal_without_effect() {
    let mut stage = created();
    let effects = stage.write(2, Subject::Existing(meta()), Class::Add, Doubt::Ask);
    let effects = stage.ends(&effects, Outcome::NotExecuted);
    assert_eq!(replies(&effects), [&Reply::Unavailable]);
    assert!(!sends_operations(&effects));
}

#[test]
fn an_action_that_cannot_be_repeated_needs_an_order() {
    let mut stage = created();
    let action = Class::Action { idempotent: false };
    assert_eq!(
        replies(&stage.write(2, Subject::Existing(meta()), action, Doubt::Ask)),
        [&Reply::NotRepeatable]
    );
    for level in [Level::Quorum, Level::Strong] {
        let mut alone = Stage::new("A");
        let effects = alone.write(1, new(level), Class::Create, Doubt::Repeat);
        assert!(
            !effects.iter().any(|effect| matches!(effect, Effect::Execute { .. } | Effect::Answer { .. }))
        );
        let mut effects = Vec::new();
        for _ in 0..20 {
            effects.extend(alone.on(Event::Fired(Timer::Order)));
        }
        assert_eq!(replies(&effects), [&Reply::NoMajority]);
    }
}

#[test]
fn after_a_crash_each_kind_is_repeated_probed_or_shown() {
    for doubt in [Doubt::Repeat, Doubt::Probe, Doubt::Ask] {
        let mut stage = created();
        stage.write(2, Subject::Existing(meta()), Class::Add, doubt);
        let effects = stage.restart_alone("A");
        assert!(
            !effects.iter().any(|effect| matches!(effect, Effect::Execute { .. })),
            "it may have been executed"
        );
        match doubt {
            Doubt::Repeat => {
                let effects = stage.on(Event::Fired(Timer::Retry(meta())));
                assert!(matches!(&effects[0], Effect::Execute { authority: Authority::Unproven, .. }));
            }
            Doubt::Probe => assert!(effects.iter().any(|effect| matches!(effect, Effect::Probe { .. }))),
            Doubt::Ask => assert!(effects.iter().any(|effect| matches!(effect, Effect::InDoubt { .. }))),
        }
    }
}

#[test]
fn what_is_in_doubt_is_shown_until_it_is_settled_and_never_guessed() {
    for executed in [true, false] {
        let mut stage = created();
        stage.write(2, Subject::Existing(meta()), Class::Add, Doubt::Ask);
        for _ in 0..3 {
            stage.restart_alone("A");
            assert_eq!(stage.machine.in_doubt().count(), 1);
        }
        let blocked = stage.write(3, Subject::Existing(meta()), Class::Add, Doubt::Ask);
        assert_eq!(replies(&blocked), [&Reply::NotGood]);
        let op = op(2);
        let effects = stage.on(Event::Settle { resource: meta(), op: op.clone(), executed, local: None });
        assert_eq!(effects.iter().any(|effect| matches!(effect, Effect::Execute { .. })), !executed);
        assert_eq!(stage.machine.in_doubt().count(), 0);
        assert_eq!(stage.machine.pending(&site("B")).any(|pending| pending.id == op), executed);
    }
}

#[test]
fn the_first_replica_names_what_its_service_names_itself() {
    let mut a = Stage::new("A");
    let subject = Subject::New {
        naming: Naming::FirstReplica,
        level: Level::Eventual,
        sites: [site("A"), site("B")].into(),
    };
    let effects = a.write(1, subject, Class::Create, Doubt::Probe);
    let local = |name: &str| Some(LocalId(name.into()));
    let effects = a.ends(&effects, Outcome::Done { status: 201, local: local("a-1") });
    let name = Meta("a-1".into());
    let mut b = Stage::new("B");
    let mut asked = Vec::new();
    for message in messages(&effects, "B") {
        asked.extend(b.on(Event::Received { from: site("A"), message: message.clone() }));
    }
    b.ends(&asked, Outcome::Done { status: 201, local: local("b-9") });
    let map = b.machine.map(&name).unwrap();
    assert_eq!((map.local(&site("A")), map.local(&site("B"))), (local("a-1"), local("b-9")));
    assert!(a.disk.contains_key(&Key::State(name)) && a.disk.len() == 3, "the name before is gone");
}

/// Lets every message between two sites arrive, and every execution succeed.
fn talk(stages: &mut [(&str, Stage)], mut todo: Vec<(String, Effect)>) -> Vec<(String, Effect)> {
    let mut rest = Vec::new();
    while !todo.is_empty() {
        let (at, effect) = todo.remove(0);
        let (to, event) = match effect {
            Effect::Send { to, message } => {
                (to.name().to_owned(), Event::Received { from: site(&at), message })
            }
            Effect::Execute { operation, execution, .. } => {
                (at, Event::Executed { resource: operation.resource, execution, outcome: done() })
            }
            Effect::CopyState { resource, from } => {
                let from = &stages.iter().find(|(name, _)| *name == from.name()).unwrap().1;
                let (map, snapshot) = from.machine.snapshot(&resource).unwrap();
                (at, Event::Fetched { map, snapshot })
            }
            Effect::Install { resource, .. } => (at, Event::Installed { resource, local: None }),
            Effect::Digest { resource, .. } => {
                (at, Event::Digested { resource, content: Content::Is(Digest([1; 32])) })
            }
            other => {
                rest.push((at, other));
                continue;
            }
        };
        if let Some((name, stage)) = stages.iter_mut().find(|(name, _)| *name == to) {
            let effects = stage.on(event);
            todo.extend(effects.into_iter().map(|effect| ((*name).to_owned(), effect)));
        }
    }
    rest
}

fn from(name: &str, effects: Vec<Effect>) -> Vec<(String, Effect)> {
    effects.into_iter().map(|effect| (name.to_owned(), effect)).collect()
}

#[test]
fn replicas_move_to_a_site_that_copies_them_and_leave_the_other() {
    let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B")), ("C", Stage::new("C"))];
    let effects = stages[0].1.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
    talk(&mut stages, from("A", effects));
    // What every replica has executed has no body left: a new replica takes the state.
    assert!(stages[0].1.machine.pending(&site("B")).next().is_none());
    let change = Change::Move { from: site("B"), to: site("C") };
    let effects = stages[0].1.on(Event::Change { ticket: Ticket(2), resource: meta(), change });
    let rest = talk(&mut stages, from("A", effects));
    assert!(stages[2].1.machine.is_readable(&meta()));
    let released =
        |(at, effect): &(String, Effect)| at == "B" && matches!(effect, Effect::Release { keep: false, .. });
    assert!(
        rest.iter().any(released) || {
            // B waits until C knows, too; its timer sees to that.
            let effects = stages[1].1.on(Event::Fired(Timer::Deliver(site("C"))));
            talk(&mut stages, from("B", effects)).iter().any(released)
        }
    );
    assert!(stages[1].1.machine.map(&meta()).is_none());
}

#[test]
fn detached_replicas_stay_as_ordinary_resources_of_their_sites() {
    let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B"))];
    let effects = stages[0].1.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
    talk(&mut stages, from("A", effects));
    let effects =
        stages[1].1.on(Event::Change { ticket: Ticket(2), resource: meta(), change: Change::Detach });
    let rest = talk(&mut stages, from("B", effects));
    let released = rest.iter().filter(|(_, effect)| matches!(effect, Effect::Release { keep: true, .. }));
    assert_eq!(released.count(), 2);
    assert!(stages.iter().all(|(_, stage)| {
        let own =
            |record: &Record| matches!(record, Record::Site { .. } | Record::Gone(_) | Record::Heard { .. });
        stage.disk.values().all(own)
    }));
}

#[test]
fn a_replica_that_refuses_what_the_first_executed_is_not_read_until_it_was_copied() {
    let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B"))];
    let effects = stages[0].1.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
    talk(&mut stages, from("A", effects));
    let effects = stages[0].1.write(2, Subject::Existing(meta()), Class::Add, Doubt::Ask);
    let effects = stages[0].1.ends(&effects, done());
    let mut asked = Vec::new();
    for message in messages(&effects, "B") {
        asked.extend(stages[1].1.on(Event::Received { from: site("A"), message: message.clone() }));
    }
    let effects = stages[1].1.ends(&asked, Outcome::Refused { status: 409 });
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Diverged { status: 409, .. })));
    assert!(!stages[1].1.machine.is_readable(&meta()));
    let refused = stages[1].1.write(3, Subject::Existing(meta()), Class::Add, Doubt::Ask);
    assert_eq!(replies(&refused), [&Reply::NotGood]);
    talk(&mut stages, from("B", effects));
    assert!(stages[1].1.machine.is_readable(&meta()));
}

#[test]
fn a_record_of_another_format_or_cut_short_is_not_read() {
    let stage = created();
    for record in stage.disk.values() {
        let bytes = record.bytes();
        assert_eq!(Record::read(&bytes).as_ref(), Ok(record));
        for end in 0..bytes.len() {
            assert_eq!(Record::read(&bytes[..end]), Err(Unreadable::Damaged));
        }
        let other = [&[99], &bytes[1..]].concat();
        assert_eq!(Record::read(&other), Err(Unreadable::Format(99)));
    }
}

#[test]
fn sites_that_know_the_same_say_so_in_one_message_however_much_it_is() {
    let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B"))];
    for index in 0..300 {
        let naming = Naming::Chosen(Meta(format!("r{index}").into()));
        let subject = Subject::New { naming, level: Level::Eventual, sites: [site("A"), site("B")].into() };
        let effects = stages[0].1.write(index, subject, Class::Create, Doubt::Repeat);
        talk(&mut stages, from("A", effects));
    }
    let survey = stages[0].1.on(Event::Fired(Timer::Survey(site("B"))));
    let [message] = messages(&survey, "B")[..] else { panic!("{survey:?}") };
    assert!(message.bytes().len() < 3_000);
    let answer = stages[1].1.on(Event::Received { from: site("A"), message: message.clone() });
    assert_eq!(answer, []);
}

#[test]
fn a_site_that_lost_everything_gets_its_replicas_back() {
    let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B"))];
    let effects = stages[0].1.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
    talk(&mut stages, from("A", effects));
    stages[1].1 = Stage::new("B");
    let effects = stages[0].1.on(Event::Fired(Timer::Survey(site("B"))));
    talk(&mut stages, from("A", effects));
    let effects = stages[0].1.on(Event::Fired(Timer::Deliver(site("B"))));
    talk(&mut stages, from("A", effects));
    assert!(stages[1].1.machine.is_readable(&meta()));
}

#[test]
fn a_peer_that_heard_of_a_later_run_says_so_and_is_believed() {
    let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B"))];
    let effects = stages[0].1.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
    talk(&mut stages, from("A", effects));
    // A ran for the hundredth time when its records, and its clock, were put back.
    let (epoch, ended) = (Epoch { number: 100, draw: 1 }, vec![Mark::default()]);
    let message = Message::Hello { epoch, heard: None, ended };
    stages[1].1.on(Event::Received { from: site("A"), message });
    let effects = stages[0].1.restart("A");
    let rest = talk(&mut stages, from("A", effects));
    assert!(!rest.is_empty());
    let Some(Record::Site { epoch, .. }) = stages[0].1.disk.get(&Key::Site) else { panic!("no record") };
    assert!(epoch.number > 100);
    // What it has is compared first.
    let effects = stages[0].1.on(Event::Fired(Timer::Copy(meta())));
    talk(&mut stages, from("A", effects));
    let effects = stages[1].1.on(Event::Fired(Timer::Deliver(site("A"))));
    talk(&mut stages, from("B", effects));
    assert_eq!(stages[1].1.machine.pending(&site("A")).count(), 0);
}

#[test]
fn a_site_is_told_of_much_in_parts_and_of_nearly_nothing_while_it_is_down() {
    const MANY: usize = 1_800;
    let again = Settings::default().again;
    let timer = Timer::Deliver(site("B"));
    let arms = |effects: &[Effect]| {
        effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Wake { timer: own, .. } if *own == timer))
            .count()
    };
    let mut stage = Stage::new("A");
    for number in 0..MANY {
        let naming = Naming::Chosen(Meta(format!("r{number}").into()));
        let subject = Subject::New { naming, level: Level::Eventual, sites: [site("A"), site("B")].into() };
        let effects = stage.write(number as u64, subject, Class::Create, Doubt::Repeat);
        stage.ends(&effects, done());
    }
    stage.on(Event::Reach { site: site("B"), up: false });
    for _ in 0..3 {
        let effects = stage.on(Event::Fired(timer.clone()));
        assert!(messages(&effects, "B").len() <= 1, "{effects:?}");
        assert_eq!(arms(&effects), 1, "it goes on");
    }
    let mut told = BTreeSet::new();
    let mut effects = stage.on(Event::Reach { site: site("B"), up: true });
    for _ in 0..MANY.div_ceil(again) {
        let about: BTreeSet<_> = messages(&effects, "B")
            .into_iter()
            .filter_map(|message| Some(message.map()?.meta.clone()))
            .collect();
        assert!(about.len() <= again, "{} at once", about.len());
        told.extend(about);
        assert_eq!(arms(&effects), 1, "it goes on");
        effects = stage.on(Event::Fired(timer.clone()));
    }
    assert_eq!(told.len(), MANY);
}

#[test]
fn a_site_can_be_moved_to_another_thread() {
    fn moves<T: Send>(_: &T) {}
    moves(&Stage::new("A").machine);
}
