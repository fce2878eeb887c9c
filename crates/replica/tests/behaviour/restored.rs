//! A site is given back what it had recorded, and its service keeps what it has.

use replica::{Condition, Standing};

use super::*;

/// Three sites that have started, each with a service that counts what it executed.
struct Sites {
    stages: Vec<(&'static str, Stage)>,
    executed: BTreeMap<(String, OpId), usize>,
    /// Nothing gets to these, or from them.
    away: BTreeSet<&'static str>,
    /// What operators are shown.
    shown: Vec<(String, Effect)>,
    installed: usize,
}

impl Sites {
    fn new(names: &[&'static str]) -> Sites {
        let mut sites = Sites {
            stages: names.iter().map(|name| (*name, Stage::new(name))).collect(),
            executed: BTreeMap::new(),
            away: BTreeSet::new(),
            shown: Vec::new(),
            installed: 0,
        };
        for name in names {
            sites.start(name);
        }
        sites
    }

    fn stage(&mut self, name: &str) -> &mut Stage {
        &mut self.stages.iter_mut().find(|(own, _)| *own == name).unwrap().1
    }

    fn start(&mut self, name: &str) {
        let starts = u64::try_from(self.executed.len()).unwrap() + 7;
        let stage = self.stage(name);
        stage.machine = Machine::restore(site(name), Settings::default(), stage.disk.values().cloned());
        let mut effects = Vec::new();
        stage.machine.start(starts, starts, &mut effects);
        let effects = stage.keep(effects);
        self.follow(name, effects);
    }

    /// Starts with these records.
    fn restore(&mut self, name: &str, disk: &BTreeMap<Key, Record>) {
        self.stage(name).disk.clone_from(disk);
        self.start(name);
    }

    fn on(&mut self, name: &str, event: Event) {
        let effects = self.stage(name).on(event);
        self.follow(name, effects);
    }

    fn fire(&mut self, name: &str, timer: Timer) {
        self.on(name, Event::Fired(timer));
    }

    fn write(&mut self, name: &str, ticket: u64, subject: Subject, class: Class) {
        let effects = self.stage(name).write(ticket, subject, class, Doubt::Repeat);
        self.follow(name, effects);
    }

    fn follow(&mut self, name: &str, effects: Vec<Effect>) {
        for effect in effects {
            let event = match effect {
                Effect::Send { to, message }
                    if !self.away.contains(to.name()) && !self.away.contains(name) =>
                {
                    let known = self.stages.iter().any(|(own, _)| *own == to.name());
                    if known {
                        self.on(to.name(), Event::Received { from: site(name), message });
                    }
                    continue;
                }
                Effect::Execute { operation, execution, .. } => {
                    *self.executed.entry((name.to_owned(), execution.op.clone())).or_default() += 1;
                    Event::Executed { resource: operation.resource, execution, outcome: done() }
                }
                Effect::CopyState { resource, from } => {
                    match self.stage(from.name()).machine.snapshot(&resource) {
                        Some((map, snapshot)) => Event::Fetched { map, snapshot },
                        None => Event::CopyFailed { resource },
                    }
                }
                Effect::Install { resource, .. } => {
                    self.installed += 1;
                    Event::Installed { resource, local: None }
                }
                Effect::Digest { resource, .. } => Event::Digested { resource, content: self.content(name) },
                Effect::Differs { .. } => {
                    self.shown.push((name.to_owned(), effect));
                    continue;
                }
                _ => continue,
            };
            self.on(name, event);
        }
    }

    /// What a service has: how often it executed what.
    fn content(&self, name: &str) -> Content {
        let own = self.executed.iter().filter(|((at, _), _)| at == name).map(|(_, count)| *count);
        Content::Is(Digest([u8::try_from(own.sum::<usize>()).unwrap(); 32]))
    }

    fn condition(&mut self, name: &str) -> Condition {
        self.stage(name).machine.status(&meta()).unwrap().condition
    }

    fn most(&self) -> usize {
        self.executed.values().copied().max().unwrap()
    }
}

fn of(level: Level, names: &[&str]) -> Subject {
    let sites = names.iter().map(|name| site(name)).collect();
    Subject::New { naming: Naming::Chosen(meta()), level, sites }
}

/// B has executed an addition of A's that C has not heard of, and is given back what it had recorded before.
fn gone_back(level: Level) -> (Sites, BTreeMap<Key, Record>) {
    let mut sites = Sites::new(&["A", "B", "C"]);
    sites.write("A", 1, of(level, &["A", "B", "C"]), Class::Create);
    let old = sites.stage("B").disk.clone();
    sites.away.insert("C");
    sites.write("A", 2, Subject::Existing(meta()), Class::Add);
    sites.away.clear();
    (sites, old)
}

#[test]
fn what_a_restored_site_executed_is_not_executed_again() {
    for level in [Level::Eventual, Level::Weak] {
        let (mut sites, old) = gone_back(level);
        sites.restore("B", &old);
        assert_eq!(sites.condition("B"), Condition::Suspect);
        for _ in 0..2 {
            for name in ["A", "C"] {
                sites.fire(name, Timer::Deliver(site("B")));
            }
        }
        assert_eq!(sites.most(), 1, "{level:?}: {:?}", sites.executed);
        // It is as A is, and goes on with what that knows.
        sites.fire("A", Timer::Deliver(site("C")));
        sites.fire("B", Timer::Copy(meta()));
        assert_eq!((sites.condition("B"), sites.most()), (Condition::Good, 1), "{level:?}");
    }
}

#[test]
fn restored_site_copies_nothing_out_before_it_was_compared() {
    let (mut sites, old) = gone_back(Level::Eventual);
    sites.away.insert("B");
    sites.restore("B", &old);
    assert!(sites.stage("B").machine.snapshot(&meta()).is_none(), "nobody has said that it may");
    sites.away.clear();
    sites.fire("B", Timer::Deliver(site("A")));
    assert!(sites.stage("B").machine.snapshot(&meta()).is_none());
    assert_eq!(sites.condition("B"), Condition::Suspect);
}

#[test]
fn restored_site_is_found_out_also_after_the_others_restarted() {
    let (mut sites, old) = gone_back(Level::Eventual);
    sites.start("A");
    sites.start("C");
    sites.restore("B", &old);
    assert_eq!(sites.condition("B"), Condition::Suspect);
    // It may have run in between without having heard from them.
    let (mut sites, old) = gone_back(Level::Eventual);
    sites.away.insert("B");
    sites.restore("B", &old);
    sites.start("B");
    sites.away.clear();
    sites.fire("B", Timer::Deliver(site("A")));
    assert_eq!(sites.condition("B"), Condition::Suspect);
}

#[test]
fn of_two_of_which_one_is_restored_the_operator_is_asked() {
    let mut sites = Sites::new(&["A", "B"]);
    sites.write("A", 1, of(Level::Eventual, &["A", "B"]), Class::Create);
    let old = sites.stage("B").disk.clone();
    sites.write("A", 2, Subject::Existing(meta()), Class::Add);
    sites.away.insert("B");
    sites.write("A", 3, Subject::Existing(meta()), Class::Add);
    sites.away.clear();
    sites.restore("B", &old);
    for _ in 0..3 {
        sites.fire("B", Timer::Copy(meta()));
    }
    assert_eq!((sites.condition("B"), sites.shown.len()), (Condition::Suspect, 1));
    let refused = sites.stage("B").write(4, Subject::Existing(meta()), Class::Add, Doubt::Repeat);
    assert_eq!(replies(&refused), [&Reply::NotGood]);
    sites.on("B", Event::Repair { ticket: Ticket(5), resource: meta(), from: site("A") });
    assert_eq!((sites.condition("B"), sites.most(), sites.installed), (Condition::Good, 1, 1));
}

#[test]
fn site_that_restarts_goes_on_and_compares_nothing() {
    let (mut sites, _) = gone_back(Level::Eventual);
    sites.start("B");
    assert_eq!(sites.condition("B"), Condition::Good);
    sites.write("B", 3, Subject::Existing(meta()), Class::Add);
    for name in ["A", "B"] {
        sites.fire(name, Timer::Deliver(site("C")));
    }
    assert_eq!((sites.most(), sites.installed), (1, 0));
    let pending = |stage: &Stage, site: &Site| stage.machine.pending(site).count();
    assert_eq!(pending(sites.stage("B"), &site("C")), 0);
}

#[test]
fn site_that_restarts_alone_takes_writes_and_waits_with_those_of_others() {
    let (mut sites, _) = gone_back(Level::Eventual);
    sites.away.extend(["C"]);
    let effects = sites.stage("A").write(3, Subject::Existing(meta()), Class::Add, Doubt::Repeat);
    let told = sites.stage("A").ends(&effects, done());
    sites.away.insert("B");
    sites.start("B");
    for message in messages(&told, "B") {
        let effects = sites.stage("B").on(Event::Received { from: site("A"), message: message.clone() });
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::Execute { .. })), "{effects:?}");
    }
    let own = sites.stage("B").write(4, Subject::Existing(meta()), Class::Add, Doubt::Repeat);
    assert!(own.iter().any(|effect| matches!(effect, Effect::Execute { .. })), "{own:?}");
    sites.stage("B").ends(&own, done());
    let effects = sites.stage("B").welcome("A");
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Execute { .. })), "C was not heard");
    let effects = sites.stage("B").on(Event::Reach { site: site("C"), up: false });
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Execute { .. })), "{effects:?}");
}

#[test]
fn what_a_restored_site_has_and_all_others_lack_is_neither_made_again_nor_deleted() {
    let mut sites = Sites::new(&["A", "B"]);
    sites.write("B", 1, of(Level::Eventual, &["A", "B"]), Class::Create);
    let old = sites.stage("B").disk.clone();
    sites.write("B", 2, Subject::Existing(meta()), Class::Add);
    // A knows nothing of it any more, but how far B was.
    let keeps = |key: &Key, _: &mut Record| !matches!(key, Key::State(_) | Key::Operation(_));
    sites.stage("A").disk.retain(keeps);
    sites.start("A");
    sites.restore("B", &old);
    for _ in 0..3 {
        sites.fire("B", Timer::Copy(meta()));
        sites.fire("B", Timer::Deliver(site("A")));
    }
    assert!(sites.stage("A").machine.map(&meta()).is_none());
    assert_eq!((sites.condition("B"), sites.shown.len()), (Condition::Suspect, 1));
    let Effect::Differs { sites: told, .. } = &sites.shown[0].1 else { unreachable!() };
    let nothing =
        |standing: &Standing| standing.content.is_none() && standing.known == replica::Version::default();
    assert!(told[&site("A")].as_ref().is_some_and(nothing), "{told:?}");
}

#[test]
fn driver_may_say_that_the_records_are_old() {
    let mut sites = Sites::new(&["A", "B"]);
    sites.write("A", 1, of(Level::Eventual, &["A", "B"]), Class::Create);
    let stage = sites.stage("B");
    stage.machine = Machine::restore(site("B"), Settings::default(), stage.disk.values().cloned());
    stage.machine.distrust();
    let mut effects = Vec::new();
    stage.machine.start(99, 99, &mut effects);
    let effects = stage.keep(effects);
    sites.follow("B", effects);
    assert_eq!(sites.condition("B"), Condition::Suspect);
    sites.fire("B", Timer::Copy(meta()));
    assert_eq!(sites.condition("B"), Condition::Good);
}

#[test]
fn peer_that_was_restored_is_greeted_again() {
    let mut sites = Sites::new(&["A", "B"]);
    sites.write("A", 1, of(Level::Eventual, &["A", "B"]), Class::Create);
    let old = sites.stage("B").disk.clone();
    // Of this run of A, B knows nothing any more, and A has been told that B knows.
    sites.start("A");
    sites.fire("A", Timer::Deliver(site("B")));
    sites.restore("B", &old);
    sites.fire("B", Timer::Copy(meta()));
    for name in ["A", "B"] {
        let other = if name == "A" { "B" } else { "A" };
        sites.fire(name, Timer::Deliver(site(other)));
        sites.fire(name, Timer::Deliver(site(other)));
    }
    sites.write("A", 2, Subject::Existing(meta()), Class::Add);
    for name in ["A", "B"] {
        let waiting = sites.stage(name).machine.waiting();
        assert!(waiting.values().all(|waiting| waiting.unexecuted == 0), "{name}: {waiting:?}");
    }
    assert_eq!(sites.most(), 1);
}

#[test]
fn creation_that_a_restored_site_may_have_executed_is_looked_for() {
    let mut sites = Sites::new(&["A", "B"]);
    sites.write("B", 1, of(Level::Eventual, &["A", "B"]), Class::Create);
    let old = sites.stage("B").disk.clone();
    sites.write("B", 2, Subject::Existing(meta()), Class::Add);
    // A makes what each service names, and B executes that, and says so to nobody.
    let (naming, members) = (Naming::FirstReplica, [site("A"), site("B")].into());
    let subject = Subject::New { naming, level: Level::Eventual, sites: members };
    let effects = sites.stage("A").write(3, subject, Class::Create, Doubt::Ask);
    let local = |name: &str| Some(LocalId(name.into()));
    let told = sites.stage("A").ends(&effects, Outcome::Done { status: 201, local: local("a-1") });
    sites.restore("B", &old);
    let mut effects = Vec::new();
    for message in messages(&told, "B") {
        effects.extend(sites.stage("B").on(Event::Received { from: site("A"), message: message.clone() }));
    }
    let name = Meta("a-1".into());
    assert_eq!(sites.stage("B").machine.status(&name).unwrap().condition, Condition::Suspect);
    sites.fire("B", Timer::Copy(name.clone()));
    let doubted = sites.stage("B").machine.in_doubt().map(|(meta, op)| (meta.clone(), op.clone())).next();
    let (resource, op) = doubted.expect("nobody is asked");
    assert_eq!((resource, sites.installed), (name.clone(), 0));
    sites.on("B", Event::Settle { resource: name.clone(), op, executed: true, local: local("b-9") });
    assert_eq!(sites.stage("B").machine.map(&name).unwrap().local(&site("B")), local("b-9"));
}
