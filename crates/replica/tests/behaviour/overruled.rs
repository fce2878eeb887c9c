//! Sites that lose the lead, are in doubt, or have not what the others have, where writes have one order.

use replica::Unchangeable;

use super::group::Group;
use super::*;

fn copies(effects: &[Effect]) -> Vec<Site> {
    let copies = effects.iter().filter_map(|effect| match effect {
        Effect::CopyState { from, .. } => Some(from.clone()),
        _ => None,
    });
    copies.collect()
}

fn wakes(effects: &[Effect], timer: &Timer) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Wake { timer: own, .. } if own == timer))
}

fn fired(timer: fn(Meta) -> Timer) -> Event {
    Event::Fired(timer(meta()))
}

/// A site whose service refuses what the leader's has executed.
fn diverged() -> (Group, usize, usize) {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let at = group.others(leader)[0];
    group.set(leader, Class::Add, Doubt::Ask);
    group.ends(leader, done());
    group.ends(at, Outcome::Refused { status: 409 });
    group.all_end();
    assert!(group.diverged(at) && !group.is_readable(at));
    (group, leader, at)
}

#[test]
fn who_loses_the_lead_while_its_service_is_busy_is_believed_by_what_that_says() {
    let cases = [
        // It has no effect, as is decided: the client is told so.
        (Outcome::NotExecuted, false, Reply::Refused { status: 403 }),
        (Outcome::Refused { status: 409 }, false, Reply::Refused { status: 403 }),
        (Outcome::Done { status: 201, local: None }, true, Reply::Unknown),
        (Outcome::Unknown, true, Reply::Refused { status: 403 }),
    ];
    for (outcome, diverges, reply) in cases {
        let (mut group, leader) = Group::made(3, Level::Quorum);
        let ticket = group.set(leader, Class::Add, Doubt::Repeat);
        let next = group.overrule(leader);
        assert_eq!(group.reply(ticket), None, "it may have an effect");
        let effects = group.ends(leader, outcome.clone());
        assert_eq!((group.diverged(leader), !group.is_readable(leader)), (diverges, diverges), "{outcome:?}");
        assert!(!wakes(&effects, &Timer::Retry(meta())) && !group.is_asked(leader), "nobody executes it");
        if diverges {
            group.copy(leader, next);
        }
        assert!(group.is_readable(leader));
        assert_eq!(group.reply(ticket), Some(reply), "{outcome:?}");
    }
}

#[test]
fn what_was_in_doubt_when_it_was_decided_that_nobody_executes_it_is_erased() {
    for (class, again) in [(Class::Add, false), (Class::Add, true), (Class::Create, false)] {
        let (mut group, leader) = Group::made(3, Level::Quorum);
        group.set(leader, class, Doubt::Repeat);
        group.ends(leader, Outcome::Unknown);
        if again {
            // The next attempt is under way.
            group.on(leader, fired(Timer::Retry));
        }
        let next = group.overrule(leader);
        if again {
            assert!(!group.diverged(leader));
            group.ends(leader, Outcome::NotExecuted);
        }
        assert!(group.diverged(leader) && !group.is_readable(leader));
        assert_eq!(group.stages[leader].machine.in_doubt().count(), 0);
        group.on(leader, fired(Timer::Retry));
        assert!(!group.is_asked(leader));
        group.copy(leader, next);
        assert!(group.is_readable(leader));
    }
}

#[test]
fn what_a_probe_finds_not_executed_is_not_executed_where_nobody_is_to() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    group.set(leader, Class::Add, Doubt::Probe);
    let op = group.op(leader);
    group.ends(leader, Outcome::Unknown);
    group.overrule(leader);
    group.on(leader, Event::Probed { resource: meta(), op, executed: Some(false), local: None });
    assert!(!group.is_asked(leader) && !group.diverged(leader) && group.is_readable(leader));
    assert_eq!(group.stages[leader].machine.in_doubt().count(), 0);
    // Where all execute it, it is executed here too.
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let at = group.others(leader)[0];
    group.set(leader, Class::Add, Doubt::Probe);
    let op = group.op(leader);
    group.ends(leader, done());
    group.ends(at, Outcome::Unknown);
    group.on(at, Event::Probed { resource: meta(), op, executed: Some(false), local: None });
    assert!(group.is_asked(at));
}

#[test]
fn after_a_restart_what_was_under_way_is_taken_up_as_its_kind_says() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    group.set(leader, Class::Add, Doubt::Repeat);
    let effects = group.restart(leader);
    assert!(wakes(&effects, &Timer::Retry(meta())) && group.stages[leader].machine.in_doubt().count() == 0);
    assert!(!wakes(&effects, &Timer::Copy(meta())), "it is good");
    // What was shown to the operator is shown, whatever its kind.
    group.on(leader, fired(Timer::Retry));
    group.ends(leader, Outcome::Refused { status: 409 });
    let effects = group.restart(leader);
    assert!(!wakes(&effects, &Timer::Retry(meta())));
    assert_eq!(group.stages[leader].machine.in_doubt().count(), 1);
    let (mut group, leader, at) = diverged();
    assert!(wakes(&group.restart(at), &Timer::Copy(meta())));
    // A service that is between two states is given the one that is here, and is not read before.
    group.on(at, fired(Timer::Copy));
    let (map, snapshot) = group.stages[leader].machine.snapshot(&meta()).unwrap();
    group.on(at, Event::Fetched { map, snapshot });
    let effects = group.restart(at);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Install { .. })), "{effects:?}");
    assert!(!group.is_readable(at));
    group.on(at, Event::Installed { resource: meta(), local: None });
    assert!(group.is_readable(at));
}

#[test]
fn a_state_is_asked_for_once_at_a_time_of_another_site_that_can_be_reached() {
    let (mut group, leader, at) = diverged();
    assert_eq!(copies(&group.on(leader, fired(Timer::Copy))), [], "it is good");
    assert_eq!(copies(&group.on(at, fired(Timer::Copy))), [], "it is being fetched");
    let failed = |group: &mut Group| {
        group.on(at, Event::CopyFailed { resource: meta() });
        copies(&group.on(at, fired(Timer::Copy)))
    };
    let others: BTreeSet<_> = group.others(at).into_iter().map(|other| group.site(other)).collect();
    let asked: BTreeSet<_> = (0..6).flat_map(|_| failed(&mut group)).collect();
    assert_eq!(asked, others);
    let up = |group: &Group, at: usize, up| Event::Reach { site: group.site(at), up };
    let other = group.others(at).into_iter().find(|other| *other != leader).unwrap();
    let event = up(&group, other, false);
    group.on(at, event);
    let asked: BTreeSet<_> = (0..6).flat_map(|_| failed(&mut group)).collect();
    assert_eq!(asked, [group.site(leader)].into());
    let event = up(&group, leader, false);
    group.on(at, event);
    group.on(at, Event::CopyFailed { resource: meta() });
    let effects = group.on(at, fired(Timer::Copy));
    assert!(copies(&effects).is_empty() && wakes(&effects, &Timer::Copy(meta())), "later");
    let event = up(&group, leader, true);
    group.on(at, event);
    group.on(at, fired(Timer::Copy));
    // While the service is being given it, no other is fetched.
    let (map, snapshot) = group.stages[leader].machine.snapshot(&meta()).unwrap();
    group.on(at, Event::Fetched { map, snapshot });
    assert_eq!(copies(&group.on(at, fired(Timer::Copy))), []);
    group.on(at, Event::Installed { resource: meta(), local: None });
    assert!(group.is_readable(at));
}

#[test]
fn what_an_operator_mended_goes_on_and_no_state_is_put_over_it() {
    let (mut group, leader, at) = diverged();
    group.on(at, Event::Mended { resource: meta() });
    assert!(group.is_asked(at), "it is executed now");
    // The state that was asked for before comes while the service is busy.
    let (map, snapshot) = group.stages[leader].machine.snapshot(&meta()).unwrap();
    let effects = group.on(at, Event::Fetched { map, snapshot });
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Install { .. })), "{effects:?}");
    group.ends(at, done());
    assert!(group.is_readable(at));
    // What is good stays as it is.
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let ticket = group.set(leader, Class::Add, Doubt::Ask);
    group.cut = [leader].into();
    group.ends(leader, done());
    group.on(leader, Event::Mended { resource: meta() });
    assert!(!group.is_asked(leader), "it is not executed twice");
    group.cut.clear();
    group.tick(10);
    group.all_end();
    assert!(group.is_readable(leader) && group.reply(ticket).is_some());
}

#[test]
fn an_old_state_is_not_taken_over() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let at = group.others(leader)[0];
    let (map, old) = group.stages[leader].machine.snapshot(&meta()).unwrap();
    for outcome in [done(), Outcome::Refused { status: 409 }] {
        group.set(leader, Class::Add, Doubt::Ask);
        group.ends(leader, done());
        group.ends(at, outcome);
        group.all_end();
    }
    let effects = group.on(at, Event::Fetched { map, snapshot: old });
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Install { .. })), "{effects:?}");
    assert!(!group.is_readable(at));
}

#[test]
fn a_replica_that_is_busy_gives_no_state() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let at = group.others(leader)[0];
    group.set(leader, Class::Add, Doubt::Ask);
    assert!(group.stages[leader].machine.snapshot(&meta()).is_none());
    group.ends(leader, done());
    assert!(group.stages[leader].machine.snapshot(&meta()).is_some());
    assert!(group.stages[at].machine.snapshot(&meta()).is_none());
}

#[test]
fn a_verdict_on_what_a_copied_state_has_already_says_nothing_of_what_comes_after() {
    let (mut group, leader, at) = diverged();
    group.set(leader, Class::Add, Doubt::Ask);
    group.set(leader, Class::Add, Doubt::Ask);
    // The site has both, and does not hear what becomes of the first, before it has its state.
    group.cut = [at].into();
    group.ends(leader, done());
    let other = group.others(at).into_iter().find(|other| *other != leader).unwrap();
    group.ends(other, done());
    group.copy(at, other);
    assert!(group.is_readable(at) && !group.is_asked(at));
    group.cut.clear();
    group.tick(10);
    assert!(!group.is_asked(at), "the leader has not executed it");
    group.ends(leader, Outcome::Refused { status: 409 });
    assert!(!group.is_asked(at) && group.is_readable(at));
}

#[test]
fn what_has_one_order_is_neither_compared_nor_repaired() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let from = group.site(group.others(leader)[0]);
    let (compare, repair) = (Ticket(90), Ticket(91));
    group.on(leader, Event::Compare { ticket: compare, resource: meta() });
    group.on(leader, Event::Repair { ticket: repair, resource: meta(), from });
    let reply = Some(Reply::Unchanged(Unchangeable::Ordered));
    assert_eq!((group.reply(compare), group.reply(repair)), (reply.clone(), reply));
    let (unknown, change) = (Meta("unknown".into()), Change::Detach);
    let effects = group.on(leader, Event::Change { ticket: Ticket(92), resource: unknown, change });
    assert_eq!(replies(&effects), [&Reply::NoResource]);
}

#[test]
fn a_site_takes_no_write_where_its_replica_is_not_good_or_in_doubt() {
    let (mut group, leader, at) = diverged();
    let ticket = group.set(at, Class::Add, Doubt::Ask);
    assert_eq!(group.reply(ticket), Some(Reply::NotGood));
    let (one, two) = (group.set(leader, Class::Add, Doubt::Ask), group.set(leader, Class::Add, Doubt::Ask));
    assert_eq!((group.reply(one), group.reply(two)), (None, None), "it waits for the one before");
    // No other can lead: nobody else is there.
    group.cut = BTreeSet::from([leader]);
    group.ends(leader, Outcome::Unknown);
    group.tick_at(&[leader], 16);
    let ticket = group.set(leader, Class::Add, Doubt::Ask);
    assert_eq!(group.reply(ticket), Some(Reply::NotGood));
}

#[test]
fn a_leader_in_doubt_has_another_lead_and_takes_its_state() {
    for (class, doubt) in [(Class::Add, Doubt::Ask), (Class::Add, Doubt::Repeat)] {
        let (mut group, leader) = Group::made(3, Level::Quorum);
        let ticket = group.set(leader, class, doubt);
        group.ends(leader, Outcome::Unknown);
        if doubt == Doubt::Repeat {
            group.on(leader, fired(Timer::Retry));
            group.ends(leader, Outcome::Refused { status: 409 });
        }
        assert_eq!(group.reply(ticket), Some(Reply::Unknown));
        group.tick(10);
        let next = group.leader().unwrap();
        assert_ne!(next, leader, "only an operator could end it there");
        group.all_end();
        group.tick(5);
        assert!(group.diverged(leader) && group.stages[leader].machine.in_doubt().count() == 0);
        // The others go on before its replica is good again.
        let ticket = group.set(next, Class::Add, Doubt::Ask);
        group.all_end();
        assert_eq!(group.reply(ticket), Some(Reply::Executed { status: 201 }));
        group.copy(leader, next);
        assert!(group.is_readable(leader));
    }
}

#[test]
fn what_makes_no_sense_is_refused_at_every_level() {
    for level in [Level::Eventual, Level::Quorum] {
        let new = |sites: &[&str]| {
            let sites = sites.iter().map(|name| site(name)).collect();
            Subject::New { naming: Naming::Chosen(meta()), level, sites }
        };
        let mut stage = Stage::new("A");
        let effects = stage.write(1, new(&["A", "B"]), Class::Replace, Doubt::Repeat);
        assert_eq!(replies(&effects), [&Reply::Senseless]);
        let effects = stage.write(2, new(&["B", "C"]), Class::Create, Doubt::Repeat);
        assert_eq!(replies(&effects), [&Reply::Senseless]);
        assert_eq!(stage.machine.resources().count(), 0);
    }
}

#[test]
fn what_is_made_by_a_service_is_named_once() {
    let mut group = Group::new(2, Settings::default());
    let sites = [site("A"), site("B")].into();
    let subject = Subject::New { naming: Naming::FirstReplica, level: Level::Quorum, sites };
    let mut ticket = group.write(0, subject.clone(), Class::Create, Doubt::Ask);
    group.tick(30);
    let mut leader = 0;
    while let Some(Reply::Elsewhere(at)) = group.reply(ticket) {
        leader = usize::from(at == site("B"));
        ticket = group.write(leader, subject.clone(), Class::Create, Doubt::Ask);
        group.tick(5);
    }
    let made = |name: &str| Outcome::Done { status: 201, local: Some(LocalId(name.into())) };
    group.ends(leader, made("l-1"));
    group.ends(1 - leader, made("o-1"));
    assert_eq!(group.reply(ticket), Some(Reply::Executed { status: 201 }));
    let name = Meta("l-1".into());
    // Made anew under the name that it has.
    let ticket = group.write(leader, Subject::Existing(name.clone()), Class::Create, Doubt::Ask);
    group.ends(leader, made("l-2"));
    group.ends(1 - leader, made("o-2"));
    assert_eq!(group.reply(ticket), Some(Reply::Executed { status: 201 }));
    for stage in &group.stages {
        assert_eq!(stage.machine.resources().collect::<Vec<_>>(), [&name]);
    }
    let ticket = group.write(leader, Subject::Existing(name), Class::Add, Doubt::Ask);
    group.all_end();
    assert_eq!(group.reply(ticket), Some(Reply::Executed { status: 201 }));
}

#[test]
fn a_name_that_a_client_chose_stays_whatever_it_looks_like() {
    let (mut group, leader) = Group::made(2, Level::Quorum);
    let (name, sites) = (Meta("~x".into()), [site("A"), site("B")].into());
    let subject = Subject::New { naming: Naming::Chosen(name.clone()), level: Level::Quorum, sites };
    group.write(leader, subject, Class::Create, Doubt::Ask);
    group.ends(leader, Outcome::Done { status: 201, local: Some(LocalId("l-1".into())) });
    assert!(group.stages[leader].machine.is_readable(&name));
}

#[test]
fn a_verdict_that_the_log_had_no_room_for_is_asked_for_again() {
    let order = order::Settings { limit: 6, ..order::Settings::default() };
    let mut group = Group::new(3, Settings { order, ..Settings::default() });
    let leader = group.make(Level::Quorum);
    let away = group.others(leader)[0];
    group.cut = [away].into();
    let mut tickets = Vec::new();
    // What one site was not given fills the log.
    while tickets.last().is_none_or(|ticket| group.reply(*ticket) != Some(Reply::Unavailable)) {
        tickets.push(group.set(leader, Class::Add, Doubt::Ask));
        assert!(tickets.len() < 20);
    }
    group.all_end();
    group.cut.clear();
    for _ in 0..30 {
        group.tick(1);
        group.all_end();
    }
    tickets.pop();
    for ticket in tickets {
        assert_eq!(group.reply(ticket), Some(Reply::Executed { status: 201 }));
    }
}
