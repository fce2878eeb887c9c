//! What operators decide: the later wins, whatever the order, and shows in the digest.

use std::collections::BTreeSet;
use std::time::Duration;

use sites::{Config, Event, Notice, Status};

use super::planet::statement;
use super::wire::{Item, ToldStatus, told};
use super::{Alone, life, name, own, quiet, record, secs, site};

/// A stamp some milliseconds after the start.
fn stamp(ms: u64) -> u64 {
    (own(0).wall_ms + ms) << 16
}

fn zone(of: &str, stamp: u64, by: u32, text: Option<&str>) -> Item {
    Item::Zone { name: of.into(), stamp, by: name(by), text: text.map(Into::into) }
}

fn quarantine(of: u32, stamp: u64, by: u32, on: bool) -> Item {
    Item::Quarantine { site: name(of), stamp, by: name(by), on }
}

fn text(alone: &Alone, of: &str) -> Option<String> {
    alone.machine.snapshot().zones().find(|(name, _)| *name == of).map(|(_, zone)| zone.text().to_owned())
}

fn set(alone: &mut Alone, of: &str, text: Option<&str>) {
    alone.act(|machine, now, effects| machine.set_zone(of, text, now, effects)).unwrap();
}

fn file(alone: &mut Alone, of: &str, text: &str) {
    alone.act(|machine, now, effects| machine.set_zone_of_file(of, text, now, effects)).unwrap();
}

#[test]
fn of_two_decisions_the_later_counts_and_of_equals_the_last_site_by_name() {
    // From the weakest to the strongest.
    let zones = [
        zone("west", stamp(1), 1, Some("Site00001")),
        zone("west", stamp(1), 2, Some("Site00002")),
        zone("west", stamp(1) + 1, 1, None),
        zone("west", stamp(2), 1, Some("Site00003")),
    ];
    let texts = [Some("Site00001"), Some("Site00002"), None, Some("Site00003")];
    let quarantines = [(stamp(1), 1, true), (stamp(1), 2, false), (stamp(2), 1, true), (stamp(3), 1, false)];
    for order in 0..64 {
        let said = [order % 4, order / 4 % 4, order / 16];
        let mut alone = Alone::new(3);
        for word in said {
            let (stamp, by, on) = quarantines[word];
            alone.told(1, &[zones[word].clone(), quarantine(3, stamp, by, on)]);
        }
        let strongest = *said.iter().max().unwrap();
        assert_eq!(text(&alone, "west").as_deref(), texts[strongest], "{said:?}");
        assert_eq!(alone.seen(3).quarantined, quarantines[strongest].2, "{said:?}");
        // What is known is not passed on again.
        alone.run(secs(60));
        alone.done();
        let (stamp, by, on) = quarantines[strongest];
        alone.told(1, &[zones[strongest].clone(), quarantine(3, stamp, by, on)]);
        let done = alone.done();
        assert!(done.sent().is_empty() && !done.changed());
    }
}

#[test]
fn what_is_decided_here_comes_after_all_that_was_seen() {
    let mut alone = Alone::new(3);
    let ahead = stamp(60 * 60 * 1000);
    alone.told(1, &[zone("west", ahead, 2, Some("Site00001")), quarantine(3, ahead + 7, 2, true)]);
    set(&mut alone, "west", Some("Site00002"));
    assert_eq!(text(&alone, "west").as_deref(), Some("Site00002"));
    alone.on(Event::Quarantine { site: site(3), on: false });
    let news: Vec<Item> = alone.done().news().into_iter().flat_map(|sent| sent.items).collect();
    let said = |item: &Item| match item {
        Item::Zone { stamp, by, .. } | Item::Quarantine { stamp, by, .. } if *by == name(0) => Some(*stamp),
        _ => None,
    };
    let stamps: BTreeSet<u64> = news.iter().filter_map(said).collect();
    assert_eq!(stamps, [ahead + 8, ahead + 9].into());
}

#[test]
fn what_is_from_the_future_is_refused_and_does_not_move_the_clock() {
    let config = Config { clock_skew: secs(100), ..quiet() };
    for (after, taken) in [(100_000, true), (100_001, false), (1 << 40, false)] {
        let mut alone = Alone::with(config.clone(), 3, 1);
        alone.told(
            1,
            &[zone("west", stamp(after), 2, Some("Site00001")), quarantine(3, stamp(after), 2, true)],
        );
        assert_eq!((alone.machine.has_zone("west"), alone.seen(3).quarantined), (taken, taken), "{after}");
        let future = [Notice::FromTheFuture("west".into()), Notice::FromTheFuture(name(3).into())];
        assert_eq!(alone.done().notices(), if taken { vec![] } else { future.to_vec() }, "{after}");
        set(&mut alone, "east", Some("Site00001"));
        let news: Vec<Item> = alone.done().news().into_iter().flat_map(|sent| sent.items).collect();
        let Some(Item::Zone { stamp: given, .. }) = news.iter().find(|item| item.site() == "east") else {
            panic!()
        };
        assert_eq!(*given > stamp(50_000), taken);
    }
    // Time passes: then it is not the future any more.
    let mut alone = Alone::with(config, 3, 1);
    alone.run(Duration::from_millis(1));
    alone.told(1, &[quarantine(3, stamp(100_001), 2, true)]);
    assert!(alone.seen(3).quarantined);
    // For a clock that is beyond what stamps can say, nothing is.
    alone.act(|machine, now, _| machine.set_wall((1 << 48) + 5, now));
    alone.told(1, &[quarantine(3, 1 << 60, 2, false)]);
    assert!(!alone.seen(3).quarantined);
}

#[test]
fn a_zone_has_a_name() {
    let mut alone = Alone::new(3);
    alone.told(1, &[zone("", stamp(1), 1, Some("Site00001")), zone("a & b", stamp(1), 1, Some("Site00001"))]);
    assert!(!alone.machine.has_zone("") && !alone.machine.has_zone("a & b"));
    assert!(!alone.done().changed());
    // One that this site cannot read is kept for others.
    alone.told(1, &[zone("west", stamp(1), 1, Some("((("))]);
    assert!(alone.machine.has_zone("west") && text(&alone, "west").is_none());
}

#[test]
fn a_file_counts_before_all_that_was_decided_and_after_what_it_said_before() {
    // What is known, and by whom; whether the file of site 0 counts after it.
    for (known, counts) in [
        (None, true),
        (Some((1, 0)), true),
        (Some((7, 0)), true),
        (Some((65_534, 0)), true),
        (Some((65_535, 0)), false),
        (Some((1, 2)), false),
        (Some((7, 2)), false),
        (Some((stamp(1), 0)), false),
        (Some((stamp(1), 2)), false),
    ] {
        let mut alone = Alone::new(3);
        if let Some((stamp, by)) = known {
            alone.told(1, &[zone("west", stamp, by, Some("Site00001"))]);
        }
        file(&mut alone, "west", "Site00002");
        let expected = if counts { "Site00002" } else { "Site00001" };
        assert_eq!(text(&alone, "west").as_deref(), Some(expected), "{known:?}");
    }
    // What it says already is not said again.
    let mut alone = Alone::new(3);
    file(&mut alone, "west", "Site00002");
    alone.run(secs(60));
    alone.done();
    file(&mut alone, "west", "Site00002");
    let done = alone.done();
    assert!(done.sent().is_empty() && !done.changed());
}

#[test]
fn there_are_so_many_zones_and_those_removed_make_room_the_oldest_first() {
    let mut alone = Alone::with(Config { zones: 3, ..quiet() }, 3, 1);
    for name in ["a", "b", "c"] {
        set(&mut alone, name, Some("Site00001"));
    }
    assert_eq!(alone.done().notices(), []);
    set(&mut alone, "d", Some("Site00001"));
    alone.told(1, &[zone("e", stamp(1), 1, Some("Site00001"))]);
    assert_eq!(alone.done().notices(), [Notice::Full("d".into()), Notice::Full("e".into())]);
    set(&mut alone, "a", Some("Site00002"));
    assert_eq!(text(&alone, "a").as_deref(), Some("Site00002"), "it is there already");
    // Another site removed these, `b` first.
    alone.told(1, &[zone("b", stamp(5), 1, None), zone("a", stamp(9), 1, None)]);
    set(&mut alone, "d", Some("Site00001"));
    assert_eq!(alone.done().notices(), []);
    let is = |alone: &Alone| ["a", "b", "c", "d", "e"].map(|name| alone.machine.has_zone(name));
    assert_eq!(is(&alone), [false, false, true, true, false]);
    // That `a` was removed is still known, and what was said before of it is late.
    alone.told(1, &[zone("a", stamp(8), 1, Some("Site00001"))]);
    assert_eq!(is(&alone), [false, false, true, true, false]);
    alone.told(1, &[zone("e", stamp(1), 1, Some("Site00001"))]);
    assert_eq!(is(&alone), [false, false, true, true, true]);
}

#[test]
fn as_many_sites_are_quarantined_as_there_may_be() {
    let mut alone = Alone::with(Config { members: 3, ..quiet() }, 2, 1);
    for number in [1, 2] {
        alone.on(Event::Quarantine { site: site(number), on: true });
    }
    alone.told(1, &[quarantine(7, stamp(1), 1, true)]);
    assert_eq!(alone.done().notices(), []);
    alone.on(Event::Quarantine { site: site(8), on: true });
    alone.told(1, &[quarantine(9, stamp(1), 1, true)]);
    assert_eq!(alone.done().notices(), [Notice::Full(name(8).into()), Notice::Full(name(9).into())]);
    // Those that are known are changed still.
    alone.on(Event::Quarantine { site: site(1), on: false });
    alone.told(1, &[quarantine(2, stamp(1), 1, false)]);
    assert_eq!(alone.done().notices(), []);
    assert_eq!([1, 2].map(|number| alone.seen(number).quarantined), [false, false]);
}

#[test]
fn a_statement_is_checked_if_it_says_more_than_is_known() {
    let mut alone = Alone::new(4);
    let revoked = |before: u64| Event::Revoked { statement: statement(2, before), site: site(2), before };
    let said = |before: u64| Item::Revoked { site: name(2), before, statement: statement(2, before) };
    let checks = |alone: &mut Alone, before: u64| {
        alone.told(1, &[said(before)]);
        alone.done().checks()
    };
    assert_eq!(checks(&mut alone, 1), 1);
    alone.on(revoked(1));
    let done = alone.done();
    assert!(done.news().iter().all(|sent| sent.items == [said(1)]) && done.changed());
    assert_eq!(alone.status(2), Status::Alive, "it was issued then");
    assert_eq!([0, 1, 2].map(|before| checks(&mut alone, before)), [0, 0, 1]);
    alone.on(revoked(3));
    assert_eq!((alone.status(2), alone.done().notices()), (Status::Revoked, vec![Notice::Revoked(site(2))]));
    for before in [3, 2] {
        alone.on(revoked(before));
        assert!(!alone.done().changed());
    }
    assert_eq!([2, 3, 4].map(|before| checks(&mut alone, before)), [0, 0, 1]);
    // Who was revoked is so once; and what is issued later is let in again, until that is revoked.
    alone.on(revoked(4));
    assert_eq!(alone.done().notices(), []);
    let mut later = record(2);
    (later.issued, later.epoch) = (4, later.epoch + 1);
    alone.told(1, &[told(&later, ToldStatus::Alive, 0)]);
    assert_eq!((alone.status(2), alone.done().notices()), (Status::Alive, vec![Notice::Back(site(2))]));
    alone.told(1, &[Item::Dead(life(3, 0))]);
    assert_eq!(alone.status(3), Status::Dead);
}

#[test]
fn whatever_differs_of_what_was_decided_shows() {
    let digest = |items: &[Item]| {
        let mut alone = Alone::new(2);
        for item in items {
            match item {
                Item::Revoked { site, before, statement } => {
                    let (site, before) = (scope::Site::new(site).unwrap(), *before);
                    alone.on(Event::Revoked { statement: statement.clone(), site, before });
                }
                _ => alone.told(1, std::slice::from_ref(item)),
            }
        }
        alone.question().1
    };
    let revoked = |of: u32, before: u64| Item::Revoked { site: name(of), before, statement: vec![1] };
    let mut digests = BTreeSet::new();
    let (mut all, mut count) = (Vec::new(), 0);
    for of in 10..34 {
        for one in [
            zone(&name(of), stamp(1), 1, None),
            zone(&name(of), stamp(1) + 1, 1, None),
            zone(&name(of), stamp(3), 1, None),
            zone(&name(of), stamp(1), 2, None),
            zone(&name(of), stamp(1) + 1, 2, None),
            zone(&name(of), stamp(1), of, None),
            zone(&name(of), stamp(1) + 1, of, None),
            quarantine(of, stamp(1), 1, true),
            quarantine(of, stamp(1) + 1, 1, true),
            quarantine(of, stamp(1), 2, true),
            revoked(of, 1),
            revoked(of, 2),
            revoked(of, 3),
        ] {
            digests.insert(digest(&[one]));
            count += 1;
        }
        all.extend([quarantine(of, stamp(1), 1, true), revoked(of, 1), zone(&name(of), stamp(1), 1, None)]);
    }
    assert_eq!(digests.len(), count);
    // Of many, too; and in whatever order they were decided.
    let before = digest(&all);
    for of in 10..34 {
        all.push(quarantine(of, stamp(2), 1, true));
        assert_ne!(digest(&all), before);
        all.pop();
    }
    all.reverse();
    assert_eq!(digest(&all), before);
    assert_eq!(digest(&[]), 0);
}
