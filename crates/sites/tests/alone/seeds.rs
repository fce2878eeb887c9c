//! Addresses to join by: how often they are tried, and which.

use std::collections::BTreeSet;

use sites::{Config, Event};

use super::wire::{Head, Item, ToldStatus, told};
use super::{Alone, Duration, life, ms, quiet, record, secs};

fn join(alone: &mut Alone, seeds: std::ops::Range<u32>) {
    alone.on(Event::Join { addresses: seeds.map(|number| format!("s{number}:7400").into()).collect() });
}

/// When hellos were said, and to how many.
fn rounds(alone: &mut Alone, time: Duration) -> Vec<(u64, usize)> {
    let start = alone.now;
    alone.run(time);
    let hellos = alone.done().hellos();
    let times: BTreeSet<Duration> = hellos.iter().map(|sent| sent.at).collect();
    let count = |at: Duration| hellos.iter().filter(|sent| sent.at == at).count();
    times.into_iter().map(|at| (at.saturating_sub(start).as_secs(), count(at))).collect()
}

#[test]
fn a_site_that_is_alone_tries_every_second_and_one_that_has_peers_every_minute() {
    let config = Config { seeds_every: secs(60), ..quiet() };
    let mut alone = Alone::with(config.clone(), 0, 1);
    join(&mut alone, 100..103);
    let first = rounds(&mut alone, ms(3500));
    assert_eq!(first, [(0, 3), (1, 3), (2, 3), (3, 3)]);
    // A second join says hello at once, and starts no second round beside the first.
    join(&mut alone, 103..104);
    assert_eq!(rounds(&mut alone, ms(2400)), [(0, 4), (0, 4), (1, 4)]);
    let mut alone = Alone::with(config.clone(), 2, 1);
    join(&mut alone, 100..103);
    assert_eq!(rounds(&mut alone, secs(130)), [(0, 3), (60, 3), (120, 3)]);
    join(&mut alone, 100..103);
    assert_eq!(rounds(&mut alone, secs(130)), [(0, 3), (50, 3), (110, 3)]);
    // Where all others die, or leave, and somebody joins, it is every second again.
    alone.told(1, &[Item::Left(life(2, 0)), Item::Left(life(1, 0))]);
    join(&mut alone, 100..103);
    assert_eq!(rounds(&mut alone, ms(3500)), [(0, 3), (1, 3), (2, 3), (3, 3)]);
    alone.on(Event::Leave);
    join(&mut alone, 100..101);
    assert!(!alone.machine.is_leaving());
}

#[test]
fn of_many_addresses_each_has_its_turn_but_for_those_of_living_sites() {
    let mut alone = Alone::with(Config { seeds_every: secs(60), ..quiet() }, 3, 1);
    alone.told(1, &[Item::Dead(life(3, 0))]);
    join(&mut alone, 1..23);
    let mut tried = alone.done().hellos();
    assert_eq!(tried.len(), 8, "at a time");
    alone.run(secs(130));
    tried.extend(alone.done().hellos());
    let to: BTreeSet<u32> = tried.iter().map(|sent| sent.to).collect();
    assert_eq!(to, (3..23).collect(), "in three rounds, all but the two that are there");
    assert_eq!(tried.len(), 24);
    // They are told who says it.
    assert!(tried.iter().all(|sent| sent.items.contains(&told(&record(0), ToldStatus::Alive, 0))));
}

#[test]
fn who_answers_is_asked_for_all_that_it_knows_but_not_twice_in_a_second() {
    let mut alone = Alone::new(4);
    join(&mut alone, 100..108);
    let hellos = alone.done().hellos();
    let nonce = |at: usize| match hellos[at].head {
        Head::Hello { nonce } => nonce,
        _ => unreachable!(),
    };
    let answered = |alone: &mut Alone, at: usize| {
        alone.hear(1 + at as u32 % 3, &Head::Ack { nonce: nonce(at) }, &[]);
        alone.done().syncs().len()
    };
    assert_eq!(answered(&mut alone, 0), 1);
    alone.run(ms(999));
    assert_eq!(answered(&mut alone, 1), 0);
    alone.run(ms(1));
    assert_eq!(answered(&mut alone, 2), 1);
    alone.run(ms(500));
    assert_eq!(answered(&mut alone, 2), 0, "an answer counts once");
    alone.on(Event::Leave);
    alone.run(ms(499));
    assert_eq!(answered(&mut alone, 3), 0, "too soon, and it leaves");
}
