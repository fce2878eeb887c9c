//! Writes that have one order: when each site executes them, and who is told what.

use replica::{Fulfilment, Ruling};

use super::group::Group;
use super::*;

fn refused(status: u16) -> Outcome {
    Outcome::Refused { status }
}

#[test]
fn a_write_at_quorum_is_answered_when_most_have_executed_it_and_at_strong_when_all_have() {
    for (count, level, needed) in
        [(3, Level::Quorum, 2), (2, Level::Quorum, 2), (3, Level::Strong, 3), (2, Level::Strong, 2)]
    {
        let (mut group, leader) = Group::made(count, level);
        let ticket = group.set(leader, Class::Add, Doubt::Ask);
        let mut turn = vec![leader];
        turn.extend(group.others(leader));
        for (index, at) in turn.into_iter().enumerate() {
            let before = if index < needed { None } else { Some(Reply::Executed { status: 201 }) };
            assert_eq!(group.reply(ticket), before, "{level:?} of {count}, executed by {index}");
            group.ends(at, done());
        }
        assert_eq!(group.reply(ticket), Some(Reply::Executed { status: 201 }));
    }
}

#[test]
fn what_is_told_of_ordered_writes_is_how_far_each_site_is_known_to_be() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let [one, two] = group.others(leader)[..] else { panic!() };
    group.set(leader, Class::Add, Doubt::Ask);
    group.set(leader, Class::Add, Doubt::Ask);
    let first = group.op(leader);
    let second = OpId { counter: first.counter + 1, ..first.clone() };
    let standing = |group: &Group, at: usize, op: &OpId| {
        let standing = group.stages[at].machine.standing(&meta(), op).unwrap();
        standing.into_iter().map(|(_, fulfilment)| fulfilment).collect::<Vec<_>>()
    };
    let expected = |of: &[(usize, Fulfilment)]| {
        let mut all = vec![Fulfilment::Pending; 3];
        for (at, fulfilment) in of {
            all[*at] = *fulfilment;
        }
        all
    };
    assert_eq!(standing(&group, leader, &first), expected(&[]));
    let machine = &group.stages[leader].machine;
    assert_eq!(machine.operation(&meta(), &second).unwrap().id, second);
    assert_eq!(machine.kept(), 2);
    // The leader has executed it, and the others know.
    group.ends(leader, done());
    assert_eq!(standing(&group, one, &first), expected(&[(leader, Fulfilment::Done)]));
    assert_eq!(standing(&group, one, &second), expected(&[]));
    let place = group.wanted.iter().find_map(|(_, effect)| match effect {
        Effect::Finished { op, place, .. } if *op == first => Some(*place),
        _ => None,
    });
    let place = place.unwrap();
    let finished = |group: &Group, at: usize, of: usize, place| {
        group.stages[at].machine.has_finished(&meta(), &group.site(of), place)
    };
    assert!(finished(&group, leader, leader, place) && !finished(&group, leader, leader, place + 1));
    assert!(finished(&group, one, leader, place) && !finished(&group, one, leader, place + 1));
    assert!(!finished(&group, leader, one, place) && !finished(&group, one, one, place));
    let waits =
        |group: &Group, at: usize| group.stages[one].machine.unexecuted(&meta(), &group.site(at)).len();
    assert_eq!((waits(&group, leader), waits(&group, one)), (1, 2));
    // One service does not say what it did.
    group.ends(one, Outcome::Unknown);
    assert_eq!(standing(&group, one, &first)[one], Fulfilment::InDoubt);
    assert_eq!(standing(&group, one, &second)[one], Fulfilment::Pending);
    // Another refuses.
    group.ends(two, refused(409));
    assert_eq!(standing(&group, two, &first)[two], Fulfilment::Diverged { status: 409 });
    let status = group.stages[two].machine.status(&meta()).unwrap();
    assert!(status.copying && !status.deleted);
}

#[test]
fn a_site_that_is_one_write_behind_is_told_to_be_so() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let [one, two] = group.others(leader)[..] else { panic!() };
    group.set(leader, Class::Add, Doubt::Ask);
    group.set(leader, Class::Add, Doubt::Ask);
    let first = group.op(leader);
    let second = OpId { counter: first.counter + 1, ..first };
    group.ends(leader, done());
    group.ends(leader, done());
    group.ends(two, done());
    let standing = group.stages[one].machine.standing(&meta(), &second).unwrap();
    let of = |at: usize| standing[at].1;
    assert_eq!((of(leader), of(one), of(two)), (Fulfilment::Done, Fulfilment::Pending, Fulfilment::Pending));
}

#[test]
fn a_new_leader_waits_anew_for_all_sites() {
    let (mut group, leader) = Group::made(3, Level::Strong);
    let others = group.others(leader);
    group.set(leader, Class::Add, Doubt::Ask);
    // The others know no more who has what, and for a while nobody hears anybody.
    group.lost = |_| true;
    for at in &others {
        group.restart(*at);
    }
    group.tick(40);
    group.lost = |_| false;
    group.cut = [leader].into();
    while group.leader().is_none() {
        group.tick_at(&others, 1);
    }
    let next = group.leader().unwrap();
    group.cut.clear();
    group.tick(10);
    assert!(group.is_asked(next), "all have it");
}

#[test]
fn a_name_is_not_given_twice_after_a_site_was_given_back_old_records() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let old = group.stages[leader].disk.clone();
    let sites = ["A", "B", "C"].map(site).into();
    let subject = Subject::New { naming: Naming::FirstReplica, level: Level::Quorum, sites };
    group.write(leader, subject, Class::Create, Doubt::Ask);
    let op = group.op(leader);
    group.stages[leader].disk = old;
    // The others know it by a later run of its log: so it starts once more.
    group.restart(leader);
    group.restart(leader);
    group.tick(60);
    let machine = &group.stages[leader].machine;
    assert!(machine.resources().any(|name| name.0.starts_with('~')), "it has heard of it again");
    assert!(machine.next_op().counter > op.counter);
}

#[test]
fn what_a_leader_could_not_have_executed_nobody_executes() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let ticket = group.set(leader, Class::Add, Doubt::Ask);
    group.ends(leader, Outcome::NotExecuted);
    assert_eq!(group.reply(ticket), Some(Reply::Unavailable));
    assert!(group.asked.is_empty());
}

#[test]
fn another_site_tries_again_what_its_service_could_not_be_asked() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let at = group.others(leader)[0];
    group.set(leader, Class::Add, Doubt::Ask);
    group.ends(leader, done());
    let effects = group.ends(at, Outcome::NotExecuted);
    let waits = |effect: &Effect| matches!(effect, Effect::Wake { timer: Timer::Retry(_), .. });
    assert!(!group.is_asked(at) && effects.iter().any(waits), "{effects:?}");
    group.on(at, Event::Fired(Timer::Retry(meta())));
    group.ends(at, done());
    assert!(!group.diverged(at) && group.is_readable(at));
}

#[test]
fn what_was_deleted_before_is_gone_as_it_should_be_but_nothing_else_is() {
    for (class, good) in [(Class::Delete, true), (Class::Add, false)] {
        for status in [404, 410] {
            let (mut group, leader) = Group::made(3, Level::Quorum);
            let at = group.others(leader)[0];
            group.set(leader, class.clone(), Doubt::Repeat);
            group.ends(leader, done());
            group.ends(at, refused(status));
            assert_eq!(group.diverged(at), !good, "{class:?}");
        }
    }
    // The first one says to a client that it never was; but it may be gone by an attempt before.
    for doubted in [false, true] {
        let (mut group, leader) = Group::made(3, Level::Quorum);
        let ticket = group.set(leader, Class::Delete, Doubt::Repeat);
        if doubted {
            group.ends(leader, Outcome::Unknown);
            assert_eq!(group.reply(ticket), Some(Reply::Unknown));
            group.on(leader, Event::Fired(Timer::Retry(meta())));
        }
        group.ends(leader, refused(404));
        group.all_end();
        assert_eq!(group.is_readable(leader), !doubted);
        assert!(doubted || group.reply(ticket) == Some(Reply::Refused { status: 404 }));
    }
}

#[test]
fn a_leader_in_doubt_tries_again_and_asks_where_that_is_refused() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    group.set(leader, Class::Add, Doubt::Repeat);
    group.ends(leader, Outcome::Unknown);
    for _ in 0..2 {
        group.on(leader, Event::Fired(Timer::Retry(meta())));
        let effects = group.ends(leader, Outcome::NotExecuted);
        let waits = |effect: &Effect| matches!(effect, Effect::Wake { timer: Timer::Retry(_), .. });
        assert!(effects.iter().any(waits) && !group.diverged(leader), "{effects:?}");
    }
    group.on(leader, Event::Fired(Timer::Retry(meta())));
    group.ends(leader, refused(409));
    assert_eq!(group.stages[leader].machine.in_doubt().count(), 1);
    // Another leads now, and finds out.
    assert!(!group.diverged(leader) && !group.is_asked(leader));
}

#[test]
fn an_answer_to_something_else_does_not_count() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    group.set(leader, Class::Add, Doubt::Ask);
    group.set(leader, Class::Add, Doubt::Ask);
    let (_, before, resource, _) = group.asked[0].clone();
    group.ends(leader, done());
    group.all_end();
    let ticket = group.set(leader, Class::Add, Doubt::Ask);
    group.on(leader, Event::Executed { resource, execution: before, outcome: refused(409) });
    group.all_end();
    assert_eq!(group.reply(ticket), Some(Reply::Executed { status: 201 }));
    // Nor does what somebody says of another write that is in doubt.
    group.set(leader, Class::Add, Doubt::Ask);
    group.ends(leader, Outcome::Unknown);
    let settle = |op| Event::Settle { resource: meta(), op, executed: true, local: None };
    group.on(leader, settle(op(99)));
    assert_eq!(group.stages[leader].machine.in_doubt().count(), 1);
    let op = group.stages[leader].machine.in_doubt().next().unwrap().1.clone();
    group.on(leader, Event::Probed { resource: meta(), op: op.clone(), executed: Some(true), local: None });
    assert_eq!(group.stages[leader].machine.in_doubt().count(), 1);
    group.on(leader, settle(op));
    assert_eq!(group.stages[leader].machine.in_doubt().count(), 0);
}

#[test]
fn an_operator_has_the_service_asked_once_more_about_a_turn() {
    for executed in [Some(true), None] {
        let (mut group, leader) = Group::made(3, Level::Quorum);
        group.set(leader, Class::Add, Doubt::Ask);
        group.ends(leader, Outcome::Unknown);
        let op = group.stages[leader].machine.in_doubt().next().unwrap().1.clone();
        group.on(leader, Event::Probe { resource: meta(), op: op.clone() });
        assert_eq!(group.stages[leader].machine.in_doubt().count(), 0);
        group.on(leader, Event::Probed { resource: meta(), op, executed, local: None });
        assert_eq!(group.stages[leader].machine.in_doubt().count(), usize::from(executed.is_none()));
    }
}

#[test]
fn sites_that_were_not_heard_are_asked_how_far_they_are_now_and_then() {
    let (mut group, leader) = Group::made(3, Level::Strong);
    let at = group.others(leader)[0];
    let ticket = group.set(leader, Class::Add, Doubt::Ask);
    let asks = |message: &Message| matches!(message, Message::Done { asks: true, .. });
    let asked = |group: &mut Group, times: usize| {
        let to = group.site(at);
        let effects =
            (0..times).flat_map(|_| group.on(leader, Event::Fired(Timer::Order))).collect::<Vec<_>>();
        messages(&effects, to.name()).into_iter().filter(|message| asks(message)).count()
    };
    assert_eq!(asked(&mut group, 5), 0, "there is nothing that they should have done");
    group.lost = |message| matches!(message, Message::Done { .. });
    group.all_end();
    group.tick(5);
    assert_eq!(group.reply(ticket), None);
    assert_eq!(asked(&mut group, 5), 1);
    group.lost = |_| false;
    group.tick(5);
    assert_eq!(group.reply(ticket), Some(Reply::Executed { status: 201 }));
    // Who has no part in it is told nothing.
    let map = group.stages[leader].machine.map(&meta()).unwrap().into_owned();
    let message = Message::Done { map, done: 0, asks: true };
    assert_eq!(group.stages[leader].on(Event::Received { from: site("D"), message }), []);
}

#[test]
fn what_is_deleted_is_forgotten_also_where_another_site_forgot_it_first() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let others = group.others(leader);
    group.set(leader, Class::Delete, Doubt::Repeat);
    group.ends(leader, done());
    // The leader does not hear that the others have deleted it.
    group.cut = [leader].into();
    group.all_end();
    group.cut.clear();
    group.lost = |message| matches!(message, Message::Done { asks: true, .. });
    group.tick_at(&others, 10);
    let knows = |group: &Group, at: usize| {
        group.stages[at].disk.contains_key(&Key::Ordered(meta()))
            || group.stages[at].machine.map(&meta()).is_some()
    };
    assert!(others.iter().all(|at| !knows(&group, *at)) && knows(&group, leader));
    group.lost = |_| false;
    group.tick(10);
    assert!(!knows(&group, leader));
}

#[test]
fn records_name_the_ordered_writes_and_the_bodies_that_others_may_lack() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let away = group.others(leader)[0];
    group.cut = [away].into();
    group.set(leader, Class::Add, Doubt::Ask);
    let op = group.op(leader);
    let sites: BTreeSet<_> = ["A", "B", "C"].map(site).into();
    let named = |group: &Group, of: fn(&Record) -> bool| {
        let records = group.stages[leader].disk.values().filter(|record| of(record));
        records.flat_map(Record::writes).filter(|(own, to)| own.id == op && *to == sites).count()
    };
    assert_eq!(named(&group, |record| matches!(record, Record::Order(_))), 1);
    assert_eq!(named(&group, |record| matches!(record, Record::Ordered { .. })), 1);
    group.all_end();
    assert_eq!(named(&group, |record| matches!(record, Record::Ordered { .. })), 0, "it is finished");
    let bodies = |group: &Group| {
        let own =
            group.stages[leader].disk.values().filter(|record| matches!(record, Record::Ordered { .. }));
        own.flat_map(Record::bodies).count()
    };
    assert_eq!(bodies(&group), 1);
    group.cut.clear();
    group.tick(20);
    group.all_end();
    group.tick(10);
    assert_eq!(bodies(&group), 0);
    assert!(group.count(leader, |effect| matches!(effect, Effect::Erase(_))) > 0);
}

#[test]
fn what_changes_nothing_is_not_recorded() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let persists = |stage: &mut Stage, event: Event| {
        let mut effects = Vec::new();
        stage.machine.on(0, event, &mut effects);
        effects.iter().any(|effect| matches!(effect, Effect::Persist { .. }))
    };
    let stage = &mut group.stages[leader];
    let map = stage.machine.map(&meta()).unwrap().into_owned();
    let from = site(if leader == 0 { "B" } else { "A" });
    let says = Event::Received { from: from.clone(), message: Message::Done { map, done: 0, asks: false } };
    assert!(!persists(stage, says));
    assert!(!persists(stage, Event::Fired(Timer::Retry(meta()))));
    let retry = |name: &str| Event::Fired(Timer::Retry(Meta(name.into())));
    assert!(!persists(stage, retry("unknown")));
    let (mut other, _) = Group::made(2, Level::Quorum);
    let mut unknown = other.stages.remove(1).machine.map(&meta()).unwrap().into_owned();
    unknown.meta = Meta("unknown".into());
    let says =
        Event::Received { from: site("B"), message: Message::Done { map: unknown, done: 0, asks: false } };
    let mut alone = Stage::new("A");
    assert!(!persists(&mut alone, says));
    assert!(!persists(&mut created(), retry("r")));
}

#[test]
fn of_what_was_tried_elsewhere_only_the_leader_decides_and_only_what_is_open() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let others = group.others(leader);
    // Both others refuse what the leader executed: whoever leads next is not good.
    group.set(leader, Class::Add, Doubt::Ask);
    let decided = group.op(leader);
    group.ends(leader, done());
    for at in &others {
        group.ends(*at, refused(409));
    }
    let ticket = group.set(leader, Class::Add, Doubt::Ask);
    let open = group.op(leader);
    let says = |resource, op: &OpId, by: Site| {
        let verdict = Ruling::Execute { status: 201, named: None };
        Event::Received { from: by, message: Message::Tried { resource, op: op.clone(), verdict } }
    };
    let orders = |effects: &[Effect]| {
        effects.iter().any(|effect| matches!(effect, Effect::Send { message: Message::Order { .. }, .. }))
    };
    // The leader is about to find out itself.
    let by = group.site(others[0]);
    assert!(!orders(&group.on(leader, says(meta(), &open, by))));
    group.cut = [leader].into();
    group.ends(leader, done());
    group.tick_at(&others, 60);
    let next = group.leader().unwrap();
    let by = group.site(leader);
    for (op, by) in [(&open, site("D")), (&decided, by.clone()), (&op(99), by.clone())] {
        assert!(!orders(&group.on(next, says(meta(), op, by))), "{op}");
    }
    assert!(orders(&group.on(next, says(meta(), &open, by))));
    group.cut.clear();
    group.tick(10);
    for at in others {
        group.copy(at, leader);
    }
    group.all_end();
    assert!((0..3).all(|at| group.is_readable(at)));
    assert_eq!(group.reply(ticket), Some(Reply::Executed { status: 201 }));
}

#[test]
fn a_member_is_asked_again_after_a_restart_forgot_what_it_said() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let at = group.others(leader)[0];
    group.set(leader, Class::Add, Doubt::Ask);
    group.all_end();
    group.tick(5);
    let other = group.site(leader);
    let is_made = |group: &Group| group.stages[at].machine.is_made_at(&meta(), &other);
    assert!(is_made(&group));
    let name = group.site(at);
    group.stages[at].restart(name.name());
    assert!(!is_made(&group), "what others said is not kept");
    group.tick(10);
    assert!(is_made(&group));
}

#[test]
fn member_that_has_not_heard_of_a_resource_is_not_taken_to_have_made_it() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let [one, cut] = group.others(leader)[..] else { panic!() };
    group.cut = [cut].into();
    let second = Meta("second".into());
    let sites = [leader, one, cut].map(|at| group.site(at)).into();
    let subject = Subject::New { naming: Naming::Chosen(second.clone()), level: Level::Quorum, sites };
    group.write(leader, subject, Class::Create, Doubt::Repeat);
    for _ in 0..10 {
        group.tick_at(&[leader, one], 1);
        group.all_end();
    }
    assert!([leader, one].iter().all(|at| group.stages[*at].machine.is_readable(&second)));
    // It can be asked how far it is, and lacks what was ordered meanwhile.
    group.cut.clear();
    group.lost = |message| matches!(message, Message::Order { .. });
    group.tick_at(&[leader, one], 20);
    let knows =
        |group: &Group, at: usize, of: usize| group.stages[at].machine.is_made_at(&second, &group.site(of));
    assert!(knows(&group, leader, one) && knows(&group, one, leader));
    assert!(!knows(&group, leader, cut) && !knows(&group, one, cut), "it has not made it");
    group.lost = |_| false;
    for _ in 0..10 {
        group.tick(1);
        group.all_end();
    }
    assert!(knows(&group, leader, cut) && knows(&group, one, cut));
}

/// A write with a long body, at the leader.
fn upload(group: &mut Group, leader: usize) -> Ticket {
    let short = write(Subject::Existing(meta()), Class::Replace, Doubt::Repeat);
    let (ticket, write) = (Ticket(99), Write { long: true, ..short });
    group.on(leader, Event::Accept { ticket, write });
    ticket
}

#[test]
fn upload_takes_the_time_that_the_services_of_a_majority_take() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let [one, cut] = group.others(leader)[..] else { panic!() };
    group.cut = [cut].into();
    let ticket = upload(&mut group, leader);
    let there = [leader, one];
    for at in there {
        group.tick_at(&there, 100);
        assert_eq!(group.reply(ticket), None, "a majority is there, and at work");
        group.ends(at, done());
    }
    assert_eq!(group.reply(ticket), Some(Reply::Executed { status: 201 }));
}

#[test]
fn upload_does_not_wait_for_a_majority_that_is_gone() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let ticket = upload(&mut group, leader);
    group.ends(leader, done());
    group.cut = [leader].into();
    group.tick_at(&[leader], 14);
    assert_eq!(group.reply(ticket), None);
    group.tick_at(&[leader], 46);
    assert_eq!(group.reply(ticket), Some(Reply::Unknown));
}

#[test]
fn short_write_is_given_up_also_where_a_majority_is_there() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let ticket = group.set(leader, Class::Replace, Doubt::Repeat);
    group.tick(60);
    assert_eq!(group.reply(ticket), Some(Reply::Unknown));
}

/// A leader whose service is asked to make and name something, and that is not heard any more: the next one's service names it.
/// The leader, and the first name.
fn named_by_another() -> (Group, usize, Meta) {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let sites = (0..3).map(|at| group.site(at)).collect();
    let subject = Subject::New { naming: Naming::FirstReplica, level: Level::Quorum, sites };
    group.write(leader, subject, Class::Create, Doubt::Probe);
    let (_, _, provisional, _) = group.asked.iter().find(|(at, ..)| *at == leader).unwrap().clone();
    (group, leader, provisional)
}

/// The others go on without the leader, and it hears of that.
fn name_it_elsewhere(group: &mut Group, leader: usize) -> Meta {
    let others = group.others(leader);
    group.cut = [leader].into();
    for _ in 0..60 {
        group.tick_at(&others, 1);
        for at in &others {
            if group.is_asked(*at) {
                let local = Some(LocalId(format!("made at {at}").into()));
                group.ends(*at, Outcome::Done { status: 201, local });
            }
        }
    }
    group.cut.clear();
    group.tick(20);
    let machine = &group.stages[others[0]].machine;
    let named = machine.resources().find(|name| name.0.starts_with("made at")).unwrap().clone();
    assert!(machine.is_readable(&named));
    named
}

fn here() -> Outcome {
    Outcome::Done { status: 201, local: Some(LocalId("made here".into())) }
}

#[test]
fn answer_of_a_service_counts_though_another_site_named_the_resource_meanwhile() {
    let (mut group, leader, _) = named_by_another();
    let named = name_it_elsewhere(&mut group, leader);
    assert!(!group.stages[leader].machine.is_readable(&named));
    group.ends(leader, here());
    assert!(group.stages[leader].machine.is_readable(&named));
}

#[test]
fn probe_counts_though_another_site_named_the_resource_meanwhile() {
    for executed in [true, false] {
        let (mut group, leader, provisional) = named_by_another();
        let op = group.op(leader);
        group.ends(leader, Outcome::Unknown);
        let named = name_it_elsewhere(&mut group, leader);
        let local = executed.then(|| LocalId("made here".into()));
        group.on(leader, Event::Probed { resource: provisional, op, executed: Some(executed), local });
        if !executed {
            group.ends(leader, here());
        }
        assert!(group.stages[leader].machine.is_readable(&named), "{executed}");
    }
}

#[test]
fn retry_is_under_the_name_that_another_site_gave() {
    let (mut group, leader, _) = named_by_another();
    let op = group.op(leader);
    group.ends(leader, Outcome::Begun { status: 202 });
    let named = name_it_elsewhere(&mut group, leader);
    assert!(
        group.count(
            leader,
            |effect| matches!(effect, Effect::Wake { timer: Timer::Retry(meta), .. } if *meta == named)
        ) > 0
    );
    group.on(leader, Event::Fired(Timer::Retry(named.clone())));
    assert_eq!(group.op(leader), op);
    group.ends(leader, here());
    assert!(group.stages[leader].machine.is_readable(&named));
}

#[test]
fn what_the_service_made_and_nobody_else_will_is_known_to_be_there() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    let second = Meta("second".into());
    let sites = (0..3).map(|at| group.site(at)).collect();
    let subject = Subject::New { naming: Naming::Chosen(second.clone()), level: Level::Quorum, sites };
    group.write(leader, subject, Class::Create, Doubt::Repeat);
    group.overrule(leader);
    assert!(!group.stages[leader].machine.is_in_service(&second), "the service has not answered");
    group.ends(leader, done());
    let machine = &group.stages[leader].machine;
    assert!(machine.is_in_service(&second) && !machine.is_made(&second));
    assert!(group.diverged(leader), "it takes the state of the others, who have none");
}

#[test]
fn ids_of_the_others_are_asked_for_by_the_name_that_the_resource_was_given() {
    let (mut group, leader, provisional) = named_by_another();
    // They know it by its name already, and by no other.
    let map = group.stages[leader].machine.map(&provisional).unwrap().into_owned();
    for other in group.others(leader) {
        let message = Message::Done { map: map.clone(), done: 100, asks: false };
        let from = group.site(other);
        group.on(leader, Event::Received { from, message });
    }
    // The leader hears their ids only if it asks for them.
    group.lost = |message| match message {
        Message::Done { map, asks: true, .. } => {
            !map.involved().filter_map(|site| map.local(site)).any(|local| *local.0 == *"made here")
        }
        _ => false,
    };
    let named = name_it_elsewhere(&mut group, leader);
    group.ends(leader, here());
    group.tick(20);
    let map = group.stages[leader].machine.map(&named).unwrap().into_owned();
    for other in group.others(leader) {
        assert!(map.local(&group.site(other)).is_some(), "{map:?}");
    }
}
