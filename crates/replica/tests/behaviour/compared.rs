//! Replicas that are compared: what is read when, and what is made of it.

use replica::{Condition, Content, Digest, Standing};

use super::*;

/// Three sites with a resource that all have executed.
fn three(level: Level) -> [(&'static str, Stage); 3] {
    let mut stages = ["A", "B", "C"].map(|name| (name, Stage::new(name)));
    let sites = ["A", "B", "C"].map(site).into();
    let subject = Subject::New { naming: Naming::Chosen(meta()), level, sites };
    let effects = stages[0].1.write(1, subject, Class::Create, Doubt::Repeat);
    talk(&mut stages, from("A", effects));
    stages
}

fn inquire(stage: &mut Stage, by: &str) -> Vec<Effect> {
    stage.on(Event::Received { from: site(by), message: Message::Inquire { resources: vec![meta()] } })
}

fn is(letter: u8) -> Content {
    Content::Is(Digest([letter; 32]))
}

fn digested(stage: &mut Stage, content: Content) -> Vec<Effect> {
    stage.on(Event::Digested { resource: meta(), content })
}

/// Another site says that it has this, at the version that this one has now.
fn stands(stage: &mut Stage, by: &str, content: Content) -> Vec<Effect> {
    let progress = stage.machine.snapshot(&meta()).unwrap().1.progress;
    let (known, done, condition) = (progress.known, progress.done, Condition::Good);
    let standing = Standing { known, done, condition, content: Some(content) };
    stage.on(Event::Received { from: site(by), message: Message::Stands { resource: meta(), standing } })
}

fn reads(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Digest { .. })).count()
}

/// What a site is told of the replica.
fn told(effects: &[Effect], to: &str) -> (Condition, Option<Content>) {
    let [Message::Stands { standing, .. }] = messages(effects, to)[..] else { panic!("{effects:?}") };
    (standing.condition, standing.content)
}

fn differs(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Differs { .. }))
}

fn compared(effects: &[Effect]) -> Option<&BTreeMap<Site, Option<Standing>>> {
    effects.iter().find_map(|effect| match effect {
        Effect::Compared { sites, .. } => Some(sites),
        _ => None,
    })
}

#[test]
fn what_is_read_for_several_is_read_once_and_told_to_each() {
    let mut stages = three(Level::Eventual);
    let a = &mut stages[0].1;
    assert_eq!((reads(&inquire(a, "B")), reads(&inquire(a, "C"))), (1, 0));
    let effects = digested(a, is(1));
    assert_eq!(told(&effects, "B"), (Condition::Good, Some(is(1))));
    assert_eq!(told(&effects, "C"), (Condition::Good, Some(is(1))));
}

#[test]
fn a_replica_is_not_read_where_something_is_executed_or_it_is_not_good_or_is_to_differ() {
    let mut stages = three(Level::Eventual);
    let a = &mut stages[0].1;
    let running = a.write(2, Subject::Existing(meta()), Class::Add, Doubt::Repeat);
    let effects = inquire(a, "B");
    assert_eq!((reads(&effects), told(&effects, "B")), (0, (Condition::Good, None)));
    a.ends(&running, done());
    a.on(Event::Repair { ticket: Ticket(3), resource: meta(), from: site("B") });
    let effects = inquire(a, "B");
    assert_eq!((reads(&effects), told(&effects, "B")), (0, (Condition::Differs, None)));
    // What was deleted is not there.
    let c = &mut stages[2].1;
    let effects = c.write(4, Subject::Existing(meta()), Class::Delete, Doubt::Repeat);
    c.ends(&effects, done());
    let effects = inquire(c, "B");
    assert_eq!((reads(&effects), told(&effects, "B")), (0, (Condition::Good, Some(Content::Absent))));
    // At `@weak` whoever asks knows why.
    let mut stages = three(Level::Weak);
    assert_eq!(reads(&inquire(&mut stages[0].1, "B")), 1);
}

#[test]
fn what_was_read_says_nothing_where_it_failed_or_something_was_done_meanwhile() {
    let mut stages = three(Level::Eventual);
    let a = &mut stages[0].1;
    inquire(a, "B");
    assert_eq!(told(&digested(a, Content::Unread), "B").1, None);
    inquire(a, "B");
    let effects = a.write(2, Subject::Existing(meta()), Class::Add, Doubt::Repeat);
    a.ends(&effects, done());
    assert_eq!(told(&digested(a, is(1)), "B").1, None);
    inquire(a, "B");
    a.on(Event::Repair { ticket: Ticket(3), resource: meta(), from: site("C") });
    assert_eq!(told(&digested(a, is(1)), "B"), (Condition::Differs, None));
}

#[test]
fn who_has_no_replica_learns_nothing_and_says_nothing_of_one() {
    let mut stages = three(Level::Eventual);
    let a = &mut stages[0].1;
    assert_eq!(inquire(a, "D"), []);
    let message = Message::Differs { resource: meta() };
    assert_eq!(a.on(Event::Received { from: site("D"), message }), []);
    for other in ["A", "D"] {
        let effects = a.on(Event::Repair { ticket: Ticket(2), resource: meta(), from: site(other) });
        assert_eq!(replies(&effects), [&Reply::NoResource]);
        assert!(a.machine.is_readable(&meta()));
    }
}

#[test]
fn a_comparison_ends_when_all_have_answered_or_it_took_too_long() {
    let mut stages = three(Level::Eventual);
    let a = &mut stages[0].1;
    for late in [false, true] {
        let effects = a.on(Event::Compare { ticket: Ticket(2), resource: meta() });
        assert_eq!(
            (reads(&effects), messages(&effects, "B").len(), messages(&effects, "C").len()),
            (1, 1, 1)
        );
        assert_eq!(compared(&digested(a, is(1))), None);
        assert_eq!(compared(&stands(a, "B", is(1))), None);
        let effects = if late { a.on(Event::Fired(Timer::Compare(meta()))) } else { stands(a, "C", is(1)) };
        let sites = compared(&effects).unwrap();
        assert_eq!(sites.values().filter(|standing| standing.is_none()).count(), usize::from(late));
        assert!(!differs(&effects));
    }
}

#[test]
fn a_replica_that_most_others_do_not_agree_with_is_repaired_but_for_what_was_done_meanwhile() {
    let mut stages = three(Level::Eventual);
    let a = &mut stages[0].1;
    let begin = |a: &mut Stage| {
        a.on(Event::Compare { ticket: Ticket(2), resource: meta() });
        digested(a, is(1));
        stands(a, "B", is(2));
    };
    let c = |a: &mut Stage, before: Standing| {
        let message = Message::Stands { resource: meta(), standing: before };
        a.on(Event::Received { from: site("C"), message })
    };
    let standing = |a: &Stage| {
        let progress = a.machine.snapshot(&meta()).unwrap().1.progress;
        let (known, done, condition) = (progress.known, progress.done, Condition::Good);
        Standing { known, done, condition, content: Some(is(2)) }
    };
    begin(a);
    let before = standing(a);
    let running = a.write(3, Subject::Existing(meta()), Class::Add, Doubt::Repeat);
    assert!(!differs(&c(a, before)) && a.machine.is_readable(&meta()), "it is being executed");
    a.ends(&running, done());
    begin(a);
    let before = standing(a);
    let running = a.write(4, Subject::Existing(meta()), Class::Add, Doubt::Repeat);
    a.ends(&running, done());
    assert!(!differs(&c(a, before)) && a.machine.is_readable(&meta()), "it was executed");
    begin(a);
    let before = standing(a);
    assert!(differs(&c(a, before)) && !a.machine.is_readable(&meta()));
}

#[test]
fn what_differs_and_nobody_can_decide_is_shown_so_and_told_to_the_others_once() {
    let mut stages = three(Level::Eventual);
    let a = &mut stages[0].1;
    let compare = |a: &mut Stage, others: [u8; 2]| {
        a.on(Event::Compare { ticket: Ticket(2), resource: meta() });
        digested(a, is(1));
        stands(a, "B", is(others[0]));
        stands(a, "C", is(others[1]))
    };
    let told = |effects: &[Effect]| {
        let differs = |message: &&&Message| matches!(message, Message::Differs { .. });
        ["B", "C"].map(|site| messages(effects, site).iter().filter(differs).count())
    };
    let shown = |a: &Stage| -> Vec<Site> {
        a.machine.status(&meta()).unwrap().differing.into_iter().cloned().collect()
    };
    assert_eq!(shown(a), []);
    let effects = compare(a, [2, 3]);
    assert_eq!((told(&effects), shown(a)), ([1, 1], ["A", "B", "C"].map(site).into()));
    let effects = compare(a, [2, 3]);
    assert_eq!((told(&effects), shown(a).len()), ([0, 0], 3));
    let effects = compare(a, [1, 1]);
    assert_eq!((told(&effects), shown(a)), ([1, 1], vec![]));
    // Where most agree, it is the other that differs.
    let effects = compare(a, [1, 3]);
    assert_eq!((told(&effects), shown(a)), ([0, 1], vec![site("C")]));
}
