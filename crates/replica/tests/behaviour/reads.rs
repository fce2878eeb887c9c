//! When a client may read, and may be told what was read.

use super::group::Group;
use super::*;

fn reads(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Read { .. }))
}

fn read(ticket: u64, confirm: bool) -> Event {
    Event::Read { ticket: Ticket(ticket), resource: meta(), confirm }
}

fn has_read(ticket: u64) -> Event {
    Event::HasRead { ticket: Ticket(ticket) }
}

#[test]
fn where_writes_have_no_one_order_a_good_replica_is_read_as_it_is() {
    let mut stage = Stage::new("A");
    assert_eq!(replies(&stage.on(read(1, false))), [&Reply::NoResource]);
    let effects = stage.write(2, new(Level::Eventual), Class::Create, Doubt::Repeat);
    assert_eq!(replies(&stage.on(read(3, false))), [&Reply::NoResource], "it is not made yet");
    stage.ends(&effects, done());
    assert!(reads(&stage.on(read(4, false))));
    assert_eq!(replies(&stage.on(has_read(4))), [&Reply::Current]);
    stage.on(Event::Repair { ticket: Ticket(5), resource: meta(), from: site("B") });
    assert_eq!(replies(&stage.on(read(6, false))), [&Reply::NotGood]);
}

#[test]
fn what_is_not_made_or_not_good_is_not_read() {
    let mut group = Group::new(2, Settings::default());
    let mut ticket = group.write(0, new(Level::Quorum), Class::Create, Doubt::Repeat);
    group.tick(30);
    let mut leader = 0;
    while let Some(Reply::Elsewhere(at)) = group.reply(ticket) {
        leader = usize::from(at == site("B"));
        ticket = group.write(leader, new(Level::Quorum), Class::Create, Doubt::Repeat);
        group.tick(5);
    }
    assert!(group.is_asked(leader));
    for at in [leader, 1 - leader] {
        assert!(!group.is_readable(at));
        assert_eq!(replies(&group.on(at, read(50, false))), [&Reply::NoResource], "it is not there yet");
    }
    group.ends(leader, done());
    assert!(group.is_readable(leader) && !group.is_readable(1 - leader));
    group.ends(1 - leader, done());
    group.set(leader, Class::Add, Doubt::Ask);
    group.ends(leader, done());
    group.ends(1 - leader, Outcome::Refused { status: 409 });
    assert_eq!(replies(&group.on(1 - leader, read(51, false))), [&Reply::NotGood]);
}

#[test]
fn what_was_read_before_a_replica_diverged_is_not_told_also_where_it_is_good_again() {
    for (confirm, again) in [(true, false), (true, true), (false, false)] {
        let (mut group, leader) = Group::made(3, Level::Quorum);
        let at = group.others(leader)[0];
        group.on(at, read(50, confirm));
        assert_eq!(group.count(at, |effect| matches!(effect, Effect::Read { .. })), 1);
        group.set(leader, Class::Add, Doubt::Ask);
        group.ends(leader, done());
        group.ends(at, Outcome::Refused { status: 409 });
        if again {
            group.copy(at, leader);
            assert!(group.is_readable(at));
        }
        // A read that is not confirmed may be old.
        let reply = if confirm { Reply::NotGood } else { Reply::Current };
        assert_eq!(replies(&group.on(at, has_read(50))), [&reply]);
    }
}

#[test]
fn what_is_not_decided_is_told_to_those_only_who_did_not_ask_for_more() {
    let (mut group, leader) = Group::made(3, Level::Quorum);
    group.on(leader, read(50, true));
    group.on(leader, read(51, false));
    group.set(leader, Class::Add, Doubt::Ask);
    assert_eq!(replies(&group.on(leader, has_read(51))), [&Reply::Current]);
    assert!(replies(&group.on(leader, has_read(50))).is_empty());
    group.all_end();
    assert_eq!(group.reply(Ticket(50)), Some(Reply::Current));
}
