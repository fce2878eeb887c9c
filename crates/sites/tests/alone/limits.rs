//! How much is taken, to the byte and the one.

use std::sync::Arc;

use sites::{Config, DATAGRAM_BYTES, Machine, Notice, Own, Record, Says};

use super::planet::own;
use super::wire::{self, Head, Item, Told, ToldStatus, told};
use super::{Alone, START, Status, identity, life, quiet, record, secs, site};

/// A record whose bytes are so many.
fn sized(number: u32, bytes: usize) -> Record {
    let mut record = record(number);
    record.says.labels.insert("long".into(), "x".repeat(500).into());
    let now = postcard::to_allocvec(&(record.fingerprint, record.issued, &record.says)).unwrap().len();
    record.says.labels.insert("long".into(), "x".repeat(500 + bytes - now).into());
    record
}

/// A record of a site whose name has so many bytes.
fn named(bytes: usize) -> Record {
    Record { site: scope::Site::new(&"x".repeat(bytes)).unwrap(), ..record(7) }
}

#[test]
fn a_record_has_nine_hundred_bytes_at_most() {
    for (bytes, taken) in [(899, true), (900, true), (901, false), (950, false)] {
        let record = sized(0, bytes);
        let mut alone = Alone::new(2);
        let says = record.says.clone();
        let own = alone.act(|machine, now, effects| machine.set_own(says, now, effects));
        assert_eq!(own.is_ok(), taken, "{bytes}");
        let own = Own { says: record.says, ..super::own(0) };
        assert_eq!(Machine::new(own, quiet(), 1, START).is_ok(), taken, "{bytes}");
        let Item::Site(other) = told(&sized(7, bytes), ToldStatus::Alive, 0) else { unreachable!() };
        assert_eq!(other.body.len(), bytes);
        alone.told(1, &[Item::Site(other)]);
        assert_eq!(alone.knows(7), taken, "{bytes}");
    }
}

#[test]
fn a_name_has_a_hundred_and_twenty_eight_bytes_at_most() {
    for (bytes, taken) in [(127, true), (128, true), (129, false), (200, false)] {
        let record = named(bytes);
        let own = Own { site: record.site.clone(), ..own(0) };
        assert_eq!(Machine::new(own, quiet(), 1, START).is_ok(), taken, "{bytes}");
        let mut alone = Alone::new(2);
        alone.told(1, &[told(&record, ToldStatus::Alive, 0)]);
        let name = record.site.name().to_owned();
        assert_eq!(alone.machine.snapshot().site(&name).is_some(), taken, "{bytes}");
        let (stamp, by) = (1, super::name(1));
        alone.told(1, &[Item::Quarantine { site: name.clone(), stamp, by: by.clone(), on: true }]);
        let full = alone.done().notices().contains(&Notice::Full(name.as_str().into()));
        assert_eq!(full, !taken, "{bytes}");
        alone.told(1, &[Item::Zone { name: name.clone(), stamp, by, text: Some("Site00001".into()) }]);
        assert_eq!(alone.machine.has_zone(&name), taken, "{bytes}");
    }
}

#[test]
fn what_has_no_address_is_no_record() {
    let nowhere = Record { says: Says { address: "".into(), ..record(7).says }, ..record(7) };
    let mut alone = Alone::new(2);
    alone.told(1, &[told(&nowhere, ToldStatus::Alive, 0)]);
    assert!(!alone.knows(7));
}

#[test]
fn a_datagram_that_is_too_long_is_not_read() {
    for (bytes, read) in [(1099, true), (DATAGRAM_BYTES, true), (1101, false), (1300, false)] {
        let filled = |statement: usize| {
            let revoked = Item::Revoked { site: "x".into(), before: 5, statement: vec![7; statement] };
            wire::write(&Head::News, &[revoked, Item::Dead(life(2, 0))])
        };
        let message = filled(800 + bytes - filled(800).len());
        assert_eq!(message.len(), bytes);
        let mut alone = Alone::new(2);
        alone.hear_as(1, identity(1), message);
        assert_eq!(alone.status(2) == Status::Dead, read, "{bytes}");
    }
}

#[test]
fn a_statement_has_seven_hundred_bytes_at_most_and_few_are_checked_at_once() {
    for (bytes, checked) in [(0, 1), (699, 1), (700, 1), (701, 0), (900, 0)] {
        let mut alone = Alone::new(2);
        alone.told(1, &[Item::Revoked { site: "x".into(), before: 5, statement: vec![7; bytes] }]);
        assert_eq!(alone.done().checks(), checked, "{bytes}");
    }
    for (count, checked) in [(63, 63), (64, 64), (65, 64), (200, 64)] {
        let mut alone = Alone::new(2);
        let many: Vec<Item> = (0..count)
            .map(|number| Item::Revoked { site: super::name(number), before: 5, statement: vec![7] })
            .collect();
        alone.given(1, &many);
        assert_eq!(alone.done().checks(), checked, "{count}");
    }
}

#[test]
fn no_more_sites_are_let_in_than_may_be() {
    let mut alone = Alone::with(Config { members: 4, ..quiet() }, 2, 1);
    alone.told(1, &[told(&record(3), ToldStatus::Alive, 0)]);
    assert_eq!(alone.done().notices(), [Notice::Joined(site(3))]);
    alone.told(1, &[told(&record(4), ToldStatus::Alive, 0)]);
    assert_eq!(alone.done().notices(), [Notice::Full(super::name(4).into())]);
    assert!(alone.knows(3) && !alone.knows(4));
    let known = (1..=9).map(|number| Arc::new(record(number))).collect();
    let alone = Alone::of(Own { known, ..own(0) }, Config { members: 4, ..quiet() }, 1);
    assert_eq!(alone.machine.snapshot().all().count(), 5, "of those that it knew before, as many");
}

#[test]
fn a_zones_text_fits_into_a_datagram() {
    let mut alone = Alone::new(2);
    let text = |bytes: usize| {
        let sites = "Site00001 & ".repeat(58);
        format!("{sites}{}", "x".repeat(bytes - sites.len()))
    };
    for (bytes, taken) in [(699, true), (700, true), (701, false), (702, false)] {
        let zone = format!("z{bytes}");
        let set =
            alone.act(|machine, now, effects| machine.set_zone(&zone, Some(&text(bytes)), now, effects));
        assert_eq!(set.is_ok(), taken, "{bytes}");
        let (name, by) = (format!("t{bytes}"), super::name(1));
        alone.told(1, &[Item::Zone { name: name.clone(), stamp: 1, by, text: Some(text(bytes)) }]);
        assert_eq!(alone.machine.has_zone(&name), taken, "{bytes}");
    }
    // A scope of a request may be longer.
    assert!(Config::default().dialect.scope(&format!("image: {}", text(800))).is_ok());
    alone.run(secs(60));
    assert!(alone.done().sent().iter().all(|sent| sent.bytes <= DATAGRAM_BYTES));
}

#[test]
fn what_cannot_be_read_is_left_out() {
    let mut alone = Alone::new(2);
    let Item::Site(good) = told(&record(7), ToldStatus::Alive, 0) else { unreachable!() };
    alone.told(1, &[Item::Site(Told { body: good.body[..20].to_vec(), ..good.clone() })]);
    assert!(!alone.knows(7));
    alone.told(1, &[Item::Site(good)]);
    assert!(alone.knows(7));
}
