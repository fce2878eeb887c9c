//! How often news is told: to whom, how many times, and how fast at most.

use std::collections::{BTreeMap, BTreeSet};

use sites::{Event, Says};

use super::wire::{self, Head, Item, ToldStatus, told};
use super::{Alone, Duration, life, ms, name, own, quiet, record, secs, site};

/// How many datagrams of news were sent at which time, in milliseconds since then. Each goes to another site.
fn rounds(alone: &mut Alone, time: Duration) -> Vec<(u128, usize)> {
    let start = alone.now;
    alone.run(time);
    let mut rounds = BTreeMap::new();
    for sent in alone.done().news() {
        let to: &mut Vec<u32> = rounds.entry(sent.at.saturating_sub(start).as_millis()).or_default();
        assert!(!to.contains(&sent.to), "twice at once");
        to.push(sent.to);
    }
    rounds.into_iter().map(|(at, to)| (at, to.len())).collect()
}

#[test]
fn news_is_passed_on_some_times_more_among_many_and_then_no_more() {
    for (known, expected) in [
        (2, &[(0, 2), (120, 2), (240, 2), (360, 2)][..]),
        (4, &[(0, 4), (120, 4)]),
        (8, &[(0, 4), (120, 4)]),
        (9, &[(0, 4), (120, 4), (240, 4)]),
        (98, &[(0, 4), (120, 4), (240, 4)]),
        (99, &[(0, 4), (120, 4), (240, 4), (360, 4)]),
        (998, &[(0, 4), (120, 4), (240, 4), (360, 4)]),
        (999, &[(0, 4), (120, 4), (240, 4), (360, 4), (480, 4)]),
    ] {
        let mut alone = Alone::new(known);
        alone.told(1, &[Item::Alive(life(2, 1))]);
        assert_eq!(rounds(&mut alone, secs(60)), expected, "among {known}");
        // A record takes no more.
        alone.told(1, &[told(&record(5000), ToldStatus::Alive, 0), Item::Alive(life(2, 0))]);
        let count: usize = rounds(&mut alone, secs(60)).iter().map(|round| round.1).sum();
        let before: usize = expected.iter().map(|round| round.1).sum();
        assert!((before..=before + 4).contains(&count), "among {known}: {count}");
    }
}

#[test]
fn what_nobody_else_knows_is_told_to_more_at_once() {
    let expected = [(0, 16), (120, 4)];
    let mut alone = Alone::new(49);
    let says = Says { kind: "other".into(), ..own(0).says };
    alone.act(|machine, now, effects| machine.set_own(says, now, effects)).unwrap();
    assert_eq!(rounds(&mut alone, secs(60)), expected, "of itself");
    alone.on(Event::Quarantine { site: site(3), on: true });
    assert_eq!(rounds(&mut alone, secs(60)), expected, "what is decided here");
    alone.act(|machine, now, effects| machine.set_zone("west", Some("Site00001"), now, effects)).unwrap();
    assert_eq!(rounds(&mut alone, secs(60)), expected, "what is decided here");
    alone.hear(60, &Head::Hello { nonce: 1 }, &[told(&record(60), ToldStatus::Alive, 0)]);
    assert_eq!(rounds(&mut alone, secs(60)), expected, "who says hello");
    alone.told(1, &[told(&record(61), ToldStatus::Alive, 0)]);
    assert_eq!(rounds(&mut alone, secs(60)), [(0, 4), (120, 4), (240, 4)], "who did so elsewhere");
}

#[test]
fn of_few_nearly_all_are_found() {
    let mut told = 0;
    for seed in 0..40 {
        let mut alone = Alone::with(quiet(), 17, seed);
        alone.on(Event::Quarantine { site: site(3), on: true });
        told += rounds(&mut alone, ms(1))[0].1;
    }
    // Sixteen of seventeen.
    assert!(told >= 40 * 15, "{told}");
}

#[test]
fn all_are_told_alike() {
    let mut counts = BTreeMap::new();
    for seed in 0..400 {
        let mut alone = Alone::with(quiet(), 40, seed);
        alone.told(1, &[Item::Alive(life(2, 1))]);
        for sent in alone.done().news() {
            *counts.entry(sent.to).or_insert(0) += 1;
        }
    }
    // Forty times each, on average.
    assert!(counts.len() == 40 && counts.values().all(|count| (15..75).contains(count)), "{counts:?}");
}

#[test]
fn a_record_that_is_still_to_be_told_is_told_with_what_follows() {
    let mut alone = Alone::new(49);
    alone.told(1, &[told(&record(60), ToldStatus::Alive, 0)]);
    alone.done();
    alone.told(1, &[Item::Alive(life(60, 1))]);
    let news = alone.done().news();
    assert!(!news.is_empty());
    assert!(news.iter().all(|sent| sent.items == [told(&record(60), ToldStatus::Alive, 1)]), "{news:?}");
    // A suspicion of it comes after its record.
    alone.told(1, &[super::suspect(60, 1, 3)]);
    let expected = [told(&record(60), ToldStatus::Alive, 1), super::suspect(60, 1, 3)];
    assert!(alone.done().news().iter().all(|sent| sent.items == expected));
    // And once all is told, only what is new.
    alone.run(secs(1));
    alone.done();
    alone.told(1, &[Item::Alive(life(60, 2))]);
    assert!(alone.done().news().iter().all(|sent| sent.items == [Item::Alive(life(60, 2))]));
}

#[test]
fn what_is_small_fills_the_room_that_what_is_large_leaves() {
    let large = |number: u32| {
        let mut record = record(number);
        record.says.labels.insert("long".into(), "x".repeat(550).into());
        told(&record, ToldStatus::Alive, 0)
    };
    let mut alone = Alone::new(49);
    alone.told(1, &[Item::Alive(life(5, 1))]);
    alone.told(1, &[large(60)]);
    alone.done();
    alone.told(1, &[large(61)]);
    let news = alone.done().news();
    assert!(news.iter().all(|sent| sent.items == [large(61), Item::Alive(life(5, 1))]), "{news:?}");
    // Whatever there is to be told, it is told in datagrams that every path carries whole.
    for number in 62..80 {
        alone.told(1, &[large(number), Item::Alive(life(number - 60, 3))]);
    }
    alone.hear(3, &Head::Ping { nonce: 7 }, &[]);
    alone.hear(3, &Head::Hello { nonce: 7 }, &[]);
    alone.run(secs(60));
    let sent = alone.done().sent();
    assert!(sent.iter().all(|sent| sent.bytes <= sites::DATAGRAM_BYTES));
    let known: BTreeSet<String> =
        sent.iter().flat_map(|sent| &sent.items).map(|item| item.site().into()).collect();
    assert!((62..80).all(|number| known.contains(&name(number))));
}

#[test]
fn a_datagram_is_filled_to_its_last_byte() {
    let zone = |of: &str, bytes: usize| {
        let (stamp, by) = (record(1).epoch << 16, name(1));
        Item::Zone { name: of.into(), stamp, by, text: Some("x".repeat(bytes)) }
    };
    let filled = |bytes: usize| wire::write(&Head::News, &[zone("b", bytes), zone("a", 700)]);
    let fits = 300 + sites::DATAGRAM_BYTES - filled(300).len();
    for (bytes, together) in [(fits, true), (fits + 1, false)] {
        let mut alone = Alone::new(49);
        alone.told(1, &[zone("a", 700)]);
        alone.done();
        alone.told(1, &[zone("b", bytes)]);
        let news = alone.done().news();
        assert!(!news.is_empty());
        let expected = if together { vec![zone("b", bytes), zone("a", 700)] } else { vec![zone("b", bytes)] };
        assert!(news.iter().all(|sent| sent.items == expected), "{bytes}");
        assert_eq!(news[0].bytes == sites::DATAGRAM_BYTES, together);
    }
}

/// Something new that is heard.
fn hear_new(alone: &mut Alone, number: u32) {
    let (site, by) = (name(number), name(1));
    let stamp = record(1).epoch << 16;
    alone.told(1, &[Item::Quarantine { site, stamp, by, on: true }]);
}

#[test]
fn more_than_fifty_datagrams_of_news_in_a_second_wait() {
    let mut alone = Alone::new(200);
    let sent = |alone: &mut Alone| alone.done().news().len();
    for number in 0..40 {
        hear_new(&mut alone, number);
    }
    assert_eq!(sent(&mut alone), 50);
    alone.run(ms(1000));
    let second = sent(&mut alone);
    assert!((10..=50).contains(&second), "{second}");
    alone.run(secs(60));
    sent(&mut alone);
    // However long nothing was said, it is not more at once.
    for number in 40..80 {
        hear_new(&mut alone, number);
    }
    assert_eq!(sent(&mut alone), 50);
    // Also where something is heard each few milliseconds.
    for number in 80..180 {
        alone.run(ms(10));
        hear_new(&mut alone, number);
    }
    let busy = sent(&mut alone);
    assert!((40..=50).contains(&busy), "{busy}");
}
