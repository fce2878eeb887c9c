//! What others say of a site: which of two words counts, what is passed on, and what is not believed.

use std::sync::Arc;

use sites::{Event, Identity, Notice, Own, Record, Status};

use super::planet::{fingerprint, own, statement};
use super::wire::{self, Head, Item, Life, ToldStatus, told};
use super::{Alone, life, ms, name, quiet, record, secs, site, suspect};

/// A record of a site that it made later.
fn later(number: u32, epoch: u64, version: u32) -> Record {
    let mut record = record(number);
    record.epoch += epoch;
    record.version = version;
    record.says.labels.insert("made".into(), format!("{epoch} {version}").into());
    record
}

#[test]
fn the_last_word_of_the_latest_count_wins_in_whatever_order_they_are_said() {
    // From the weakest to the strongest.
    let words = [
        (Item::Alive(life(2, 0)), Status::Alive),
        (suspect(2, 0, 3), Status::Suspect),
        (Item::Dead(life(2, 0)), Status::Dead),
        (Item::Left(life(2, 0)), Status::Left),
        (Item::Alive(life(2, 1)), Status::Alive),
        (suspect(2, 1, 3), Status::Suspect),
        (Item::Dead(life(2, 1)), Status::Dead),
        (Item::Left(life(2, 3)), Status::Left),
    ];
    let mut digests = std::collections::BTreeMap::new();
    for order in 0..words.len().pow(3) {
        let said = [order % 8, order / 8 % 8, order / 64];
        let mut alone = Alone::new(3);
        for word in said {
            alone.told(1, &[words[word].0.clone()]);
        }
        let strongest = *said.iter().max().unwrap();
        assert_eq!(alone.status(2), words[strongest].1, "{said:?}");
        // Who was told the same has the same, and says it again without effect.
        alone.done();
        alone.told(1, &[words[strongest].0.clone()]);
        assert_eq!(alone.done().notices(), [], "{said:?}");
        let digest = alone.buckets();
        assert_eq!(*digests.entry(strongest).or_insert_with(|| digest.clone()), digest, "{said:?}");
    }
}

#[test]
fn what_happened_to_a_site_is_noticed_once() {
    let mut alone = Alone::new(4);
    let two = site(2);
    let steps = [
        (Item::Alive(life(2, 1)), None),
        (suspect(2, 1, 3), Some(Notice::Suspected(two.clone()))),
        (suspect(2, 1, 4), None),
        (Item::Alive(life(2, 2)), Some(Notice::Back(two.clone()))),
        (Item::Alive(life(2, 4)), None),
        (Item::Dead(life(2, 4)), Some(Notice::Dead(two.clone()))),
        (Item::Dead(life(2, 4)), None),
        (Item::Left(life(2, 4)), Some(Notice::Left(two.clone()))),
        (Item::Dead(life(2, 4)), None),
        (Item::Alive(life(2, 5)), Some(Notice::Back(two.clone()))),
    ];
    for (said, notice) in steps {
        alone.told(1, std::slice::from_ref(&said));
        assert_eq!(alone.done().notices(), notice.into_iter().collect::<Vec<_>>(), "{said:?}");
    }
    // A suspicion of a later count says that it was there again.
    alone.told(1, &[Item::Dead(life(2, 5))]);
    alone.done();
    alone.told(1, &[suspect(2, 6, 3)]);
    let done = alone.done();
    assert_eq!(done.notices(), [Notice::Back(two.clone()), Notice::Suspected(two)]);
    assert!(done.news().iter().any(|sent| sent.items.contains(&suspect(2, 6, 3))));
}

#[test]
fn what_is_said_of_another_life_is_not_about_this_one() {
    for epoch in [record(2).epoch - 1, record(2).epoch + 1] {
        let life = Life { epoch, ..life(2, 9) };
        let by = name(3);
        for said in [
            Item::Dead(life.clone()),
            Item::Left(life.clone()),
            Item::Suspect { life: life.clone(), by },
            Item::Alive(life.clone()),
        ] {
            let mut alone = Alone::new(3);
            alone.told(1, std::slice::from_ref(&said));
            assert_eq!(alone.status(2), Status::Alive, "{said:?}");
            let done = alone.done();
            assert!(done.notices().is_empty() && done.sent().is_empty(), "{said:?}");
        }
    }
}

#[test]
fn nobody_speaks_for_a_revoked_site() {
    let mut alone = Alone::new(3);
    alone.on(Event::Revoked { statement: statement(2, 2), site: site(2), before: 2 });
    assert_eq!(alone.done().notices(), [Notice::Revoked(site(2))]);
    for said in [Item::Alive(life(2, 7)), suspect(2, 7, 3), Item::Dead(life(2, 7)), Item::Left(life(2, 7))] {
        alone.told(1, &[said]);
        assert_eq!(alone.status(2), Status::Revoked);
    }
    alone.told(1, &[told(&later(2, 9, 0), ToldStatus::Alive, 0)]);
    assert_eq!(alone.status(2), Status::Revoked);
    assert_eq!(alone.done().notices(), []);
    // Nor does it itself, by what is revoked; a site that is not known yet comes in with a later one only.
    alone.told(2, &[Item::Dead(life(3, 0))]);
    assert_eq!(alone.status(3), Status::Alive);
    alone.on(Event::Revoked { statement: statement(5, 2), site: site(5), before: 2 });
    alone.told(1, &[told(&record(5), ToldStatus::Alive, 0)]);
    assert!(!alone.knows(5));
    alone.told(1, &[told(&Record { issued: 2, ..record(5) }, ToldStatus::Alive, 0)]);
    assert!(alone.knows(5));
}

#[test]
fn a_site_is_new_or_gone_for_so_long_that_it_is_not_taken_in() {
    let config = sites::Config { forget_after: secs(100), ..quiet() };
    for (status, expected) in [
        (ToldStatus::Alive, Some(Status::Alive)),
        (ToldStatus::Dead(99), Some(Status::Dead)),
        (ToldStatus::Left(99), Some(Status::Left)),
        (ToldStatus::Dead(100), None),
        (ToldStatus::Left(1000), None),
    ] {
        let mut alone = Alone::with(config.clone(), 3, 1);
        alone.told(1, &[told(&record(7), status, 3)]);
        let is = alone.machine.snapshot().site(&name(7)).map(|seen| seen.status);
        assert_eq!(is, expected, "{status:?}");
        let joined = if expected == Some(Status::Alive) { vec![Notice::Joined(site(7))] } else { vec![] };
        let done = alone.done();
        assert_eq!(done.notices(), joined, "{status:?}");
        // It is passed on, each time as its record alone.
        let expected = if joined.is_empty() { 0 } else { 4 };
        assert_eq!(done.news().len(), expected);
        assert!(done.news().iter().all(|sent| sent.items == [told(&record(7), status, 3)]));
        // What whole states say is known to many.
        let mut alone = Alone::with(config.clone(), 3, 1);
        alone.given(1, &[told(&record(7), status, 3)]);
        let done = alone.done();
        assert_eq!((done.notices(), done.sent().len()), (joined, 0), "{status:?}");
    }
}

#[test]
fn what_a_site_says_of_itself_later_takes_the_place_of_what_it_said() {
    let mut alone = Alone::new(3);
    let label = |alone: &Alone| alone.seen(2).record.says.labels.get("made").cloned();
    let made = |text: &str| Some(text.into());
    for (epoch, version, expected) in
        [(0, 2, "0 2"), (0, 1, "0 2"), (0, 2, "0 2"), (1, 0, "1 0"), (0, 9, "1 0"), (1, 1, "1 1")]
    {
        alone.told(1, &[told(&later(2, epoch, version), ToldStatus::Alive, 0)]);
        assert_eq!(label(&alone), made(expected), "{epoch} {version}");
    }
    assert_eq!(alone.done().notices(), [], "it was there all the time");
    // Its record and its end may come together.
    alone.told(1, &[told(&later(2, 1, 2), ToldStatus::Left(0), 0)]);
    assert_eq!((alone.status(2), label(&alone)), (Status::Left, made("1 2")));
}

#[test]
fn a_later_record_of_the_same_life_says_nothing_of_its_end() {
    for (end, status) in [(Item::Dead(life(2, 3)), Status::Dead), (Item::Left(life(2, 3)), Status::Left)] {
        let mut alone = Alone::new(3);
        alone.told(1, &[end]);
        alone.done();
        alone.told(1, &[told(&later(2, 0, 1), ToldStatus::Alive, 2)]);
        assert_eq!((alone.status(2), alone.seen(2).record.version), (status, 1));
        assert_eq!(alone.done().notices(), []);
        // And the count is still the one that was known.
        alone.told(1, &[Item::Alive(life(2, 3))]);
        assert_eq!(alone.status(2), status);
        alone.told(1, &[Item::Alive(life(2, 4))]);
        assert_eq!(alone.status(2), Status::Alive);
    }
    let mut alone = Alone::new(3);
    alone.told(1, &[suspect(2, 0, 3)]);
    alone.told(1, &[told(&later(2, 0, 1), ToldStatus::Alive, 0)]);
    assert_eq!(alone.status(2), Status::Suspect);
    alone.run(secs(10));
    assert_eq!(alone.status(2), Status::Dead);
}

#[test]
fn a_new_life_begins_as_it_is_told_and_ends_all_that_was_said_of_the_one_before() {
    let two = site(2);
    let cases = [
        (None, ToldStatus::Alive, Status::Alive, vec![]),
        (None, ToldStatus::Dead(5), Status::Dead, vec![]),
        (None, ToldStatus::Left(5), Status::Left, vec![]),
        (Some(Item::Dead(life(2, 3))), ToldStatus::Alive, Status::Alive, vec![Notice::Back(two.clone())]),
        (Some(Item::Left(life(2, 3))), ToldStatus::Alive, Status::Alive, vec![Notice::Back(two)]),
        (Some(Item::Dead(life(2, 3))), ToldStatus::Dead(5), Status::Dead, vec![]),
        (Some(suspect(2, 3, 3)), ToldStatus::Alive, Status::Alive, vec![]),
    ];
    for (before, said, status, notices) in cases {
        let mut alone = Alone::new(3);
        alone.answer.insert(2, ms(1));
        if let Some(before) = &before {
            alone.told(1, std::slice::from_ref(before));
        }
        alone.done();
        alone.told(1, &[told(&later(2, 1, 0), said, 0)]);
        assert_eq!(alone.done().notices(), notices, "{before:?}, then {said:?}");
        alone.run(secs(20));
        assert_eq!(alone.status(2), status, "{before:?}, then {said:?}");
        // Its count began anew.
        alone.told(1, &[Item::Left(Life { epoch: record(2).epoch + 1, ..life(2, 0) })]);
        assert_eq!(alone.status(2), Status::Left);
    }
}

#[test]
fn a_life_that_is_centuries_ahead_is_not_believed() {
    let farthest = 1 << 44;
    for (ahead, believed) in [(farthest, true), (farthest + 1, false), (2 * farthest, false)] {
        let mut alone = Alone::new(3);
        alone.told(1, &[told(&later(2, ahead, 0), ToldStatus::Alive, 0)]);
        assert_eq!(alone.seen(2).record.epoch == record(2).epoch + ahead, believed, "{ahead}");
    }
}

#[test]
fn who_proves_one_identity_cannot_show_another() {
    let forged = Record { fingerprint: fingerprint(77), issued: 5, ..later(2, 1, 0) };
    let mut alone = Alone::new(3);
    alone.told(2, &[told(&forged, ToldStatus::Alive, 0)]);
    assert_eq!(*alone.seen(2).record, record(2));
    let new = Record { fingerprint: fingerprint(77), ..record(7) };
    alone.hear(7, &Head::Hello { nonce: 1 }, &[told(&new, ToldStatus::Alive, 0)]);
    assert!(!alone.knows(7));
    alone.hear(7, &Head::Hello { nonce: 1 }, &[told(&record(7), ToldStatus::Alive, 0)]);
    assert!(alone.knows(7));
    // With its proof, and issued later, it takes its place at once.
    let bytes = wire::write(&Head::News, &[told(&forged, ToldStatus::Alive, 0)]);
    alone.hear_as(2, forged_identity(), bytes);
    assert_eq!(*alone.seen(2).record, forged);
}

fn forged_identity() -> Identity {
    Identity { fingerprint: fingerprint(77), issued: 5 }
}

#[test]
fn an_identity_that_was_not_issued_later_ends_nobody_and_is_noticed_as_a_claim() {
    let claim = Record { fingerprint: fingerprint(77), ..later(2, 0, 1) };
    // What was under way while a site got a new identity is no claim.
    for (after, notices) in
        [(10, vec![]), (11, vec![Notice::NameTaken(site(2))]), (50, vec![Notice::NameTaken(site(2))])]
    {
        let mut alone = Alone::new(3);
        alone.run(secs(after));
        alone.told(1, &[told(&claim, ToldStatus::Left(0), 0)]);
        assert_eq!(alone.done().notices(), notices, "after {after} s");
        assert_eq!((alone.status(2), &*alone.seen(2).record), (Status::Alive, &record(2)));
        // Nor is anything believed that it says of others.
        let bytes = wire::write(&Head::News, &[Item::Dead(life(3, 0))]);
        alone.hear_as(2, Identity { fingerprint: fingerprint(77), issued: 1 }, bytes);
        assert_eq!((alone.status(3), alone.done().notices()), (Status::Alive, notices));
    }
}

#[test]
fn a_new_identity_that_others_tell_of_is_asked_for_not_by_all_at_one_moment() {
    let (mut times, sites) = (std::collections::BTreeSet::new(), 200);
    for seed in 0..10 {
        let mut alone = Alone::with(quiet(), sites - 1, seed);
        let renewed = Record { fingerprint: fingerprint(77), issued: 5, ..later(2, 1, 0) };
        for _ in 0..3 {
            alone.told(1, &[told(&renewed, ToldStatus::Alive, 0)]);
        }
        assert_eq!(*alone.seen(2).record, record(2));
        alone.run(secs(10));
        let hellos = alone.done().hellos();
        let [hello] = &hellos[..] else { panic!("{hellos:?}") };
        assert_eq!(hello.to, 2);
        times.insert(hello.at.saturating_sub(super::START));
    }
    assert!(times.len() > 5, "{times:?}");
    // Two milliseconds for each that asks.
    assert!(
        times.iter().all(|time| *time <= ms(400)) && times.iter().any(|time| *time > ms(200)),
        "{times:?}"
    );
}

#[test]
fn a_state_that_says_dead_of_a_living_site_has_it_asked_and_does_not_end_it() {
    // The count of the one that is known, of the one that is told, whether the site is asked.
    for (known, said, asked) in [(0, 0, true), (0, 3, true), (3, 2, false)] {
        let mut alone = Alone::new(3);
        alone.told(1, &[Item::Alive(life(2, known))]);
        alone.done();
        alone.given(1, &[told(&record(2), ToldStatus::Dead(5), said)]);
        alone.run(ms(1));
        assert_eq!(alone.status(2), Status::Alive);
        let pings: Vec<u32> = alone.done().pings().iter().map(|sent| sent.to).collect();
        assert_eq!(pings, if asked { vec![2] } else { vec![] }, "{known}, {said}");
        // Of two counts the higher is kept, and shows.
        let mut other = Alone::new(3);
        other.told(1, &[Item::Alive(life(2, known.max(said)))]);
        assert_eq!(alone.buckets(), other.buckets(), "{known}, {said}");
    }
    // One that is believed dead, and said to be, is not.
    let mut alone = Alone::new(3);
    alone.told(1, &[Item::Dead(life(2, 1))]);
    alone.done();
    for said in [1, 2] {
        alone.given(1, &[told(&record(2), ToldStatus::Dead(5), said)]);
        alone.run(secs(1));
        assert!(alone.done().sent().iter().all(|sent| sent.head == Head::News));
    }
    // And one that is believed dead, and said to live, is said hello to.
    alone.given(1, &[told(&record(2), ToldStatus::Alive, 2)]);
    alone.run(ms(1));
    let hellos: Vec<u32> = alone.done().hellos().iter().map(|sent| sent.to).collect();
    assert_eq!((hellos, alone.status(2)), (vec![2], Status::Dead));
}

#[test]
fn contested_sites_are_asked_five_at_a_time() {
    let mut alone = Alone::new(12);
    let dead: Vec<Item> = (1..=12).map(|number| told(&record(number), ToldStatus::Dead(5), 0)).collect();
    alone.given(1, &dead);
    let asked: Vec<usize> = (0..5)
        .map(|round| {
            alone.run(ms(if round == 0 { 1 } else { 100 }));
            alone.done().pings().len()
        })
        .collect();
    assert_eq!(asked, [5, 5, 2, 0, 0]);
}

#[test]
fn what_was_known_before_is_known_once_and_this_site_is_not_among_it() {
    let known = [0, 2, 2, 1].map(|number| Arc::new(record(number))).to_vec();
    let alone = Alone::of(Own { known, ..own(0) }, quiet(), 1);
    let names: Vec<String> =
        alone.machine.snapshot().all().map(|seen| seen.record.site.to_string()).collect();
    assert_eq!(names, [name(0), name(1), name(2)]);
}
