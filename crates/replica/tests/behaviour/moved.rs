//! A replica that comes back to a site is another one than the site had before.

use super::*;

/// Two sites with a replica each, of which B then has none any more.
fn left() -> [(&'static str, Stage); 2] {
    let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B"))];
    let effects = stages[0].1.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
    talk(&mut stages, from("A", effects));
    assert!(stages[0].1.machine.is_made_at(&meta(), &site("B")));
    let change = Change::Shrink(site("B"));
    let effects = stages[0].1.on(Event::Change { ticket: Ticket(2), resource: meta(), change });
    talk(&mut stages, from("A", effects));
    stages
}

fn come_back(stages: &mut [(&str, Stage); 2]) -> Vec<Effect> {
    let change = Change::Extend(site("B"));
    stages[0].1.on(Event::Change { ticket: Ticket(3), resource: meta(), change })
}

#[test]
fn a_replica_that_comes_back_is_there_once_its_site_says_so() {
    let mut stages = left();
    let effects = come_back(&mut stages);
    assert!(!stages[0].1.machine.is_made_at(&meta(), &site("B")), "it was told of the one before");
    assert!(stages[0].1.machine.confirmed_by(&meta()).is_empty());
    talk(&mut stages, from("A", effects));
    assert!(stages[0].1.machine.is_made_at(&meta(), &site("B")));
}

#[test]
fn what_a_site_says_late_of_the_replica_it_had_says_nothing_of_the_one_that_it_gets() {
    let mut stages = [("A", Stage::new("A")), ("B", Stage::new("B"))];
    let effects = stages[0].1.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
    let rest = talk(&mut stages, from("A", effects));
    assert!(rest.iter().all(|(_, effect)| !matches!(effect, Effect::Send { .. })));
    // B says again what it has, and that is on its way while an operator takes its replica away and gives it back.
    let said = stages[1].1.on(Event::Received {
        from: site("A"),
        message: Message::Operations {
            map: stages[0].1.machine.map(&meta()).unwrap().into_owned(),
            operations: Vec::new(),
        },
    });
    let late: Vec<Message> = messages(&said, "A").into_iter().cloned().collect();
    assert!(!late.is_empty());
    let change = Change::Shrink(site("B"));
    stages[0].1.on(Event::Change { ticket: Ticket(2), resource: meta(), change });
    come_back(&mut stages);
    for message in late {
        stages[0].1.on(Event::Received { from: site("B"), message });
    }
    assert!(!stages[0].1.machine.is_made_at(&meta(), &site("B")));
}
