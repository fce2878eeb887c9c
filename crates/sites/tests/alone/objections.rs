//! What others say of this site: what it objects to, and how it goes beyond what they believe.

use sites::{Event, Notice, Own, Record, Status};

use super::planet::{fingerprint, own};
use super::wire::{Head, Item, Life, ToldStatus, Vitals, place, told};
use super::{Alone, life, name, quiet, record, site};

/// How it lives, as it says itself: its epoch, its version and its count.
fn own_life(alone: &mut Alone) -> (u64, u32, u32) {
    let (_, _, items) = alone.question();
    let [Item::Site(told), ..] = &items[..] else { panic!("{items:?}") };
    assert_eq!(told.life.site, name(0));
    (told.life.epoch - record(0).epoch, told.version, told.life.refuted)
}

fn ahead(epoch: u64, refuted: u32) -> Life {
    Life { site: name(0), epoch: record(0).epoch + epoch, refuted }
}

fn suspected(life: Life) -> Item {
    Item::Suspect { life, by: name(2) }
}

#[test]
fn it_goes_beyond_the_life_that_others_believe_to_have_ended() {
    let objected = [Notice::Objected];
    for end in [Item::Dead, Item::Left, suspected] {
        let mut alone = Alone::new(3);
        alone.told(1, &[end(life(0, 0))]);
        let done = alone.done();
        assert_eq!(done.notices(), objected);
        assert!(
            done.news().iter().all(|sent| sent.items == [Item::Alive(life(0, 1))]) && !done.news().is_empty()
        );
        // It is said again, to a site that has objected since.
        alone.told(1, &[end(life(0, 0))]);
        assert_eq!(alone.done().notices(), []);
        alone.told(1, &[end(life(0, 6))]);
        assert_eq!((alone.done().notices(), own_life(&mut alone)), (objected.to_vec(), (0, 0, 7)));
        alone.told(1, &[end(ahead(5, 3))]);
        assert_eq!((alone.done().notices(), own_life(&mut alone)), (objected.to_vec(), (6, 0, 0)));
        alone.told(1, &[end(ahead(5, 9))]);
        assert_eq!(alone.done().notices(), []);
    }
}

#[test]
fn that_it_lives_is_no_lie_unless_it_is_further_than_it_is() {
    let mut alone = Alone::new(3);
    alone.told(1, &[Item::Dead(life(0, 3))]);
    alone.done();
    for refuted in [0, 3, 4] {
        alone.told(1, &[Item::Alive(life(0, refuted))]);
        assert_eq!(alone.done().notices(), [], "{refuted}");
    }
    alone.told(1, &[Item::Alive(life(0, 5))]);
    assert_eq!((alone.done().notices(), own_life(&mut alone)), (vec![Notice::Objected], (0, 0, 6)));
}

#[test]
fn a_life_that_is_centuries_ahead_is_not_gone_beyond() {
    let farthest = 1 << 44;
    for (epoch, expected) in [(farthest, farthest + 1), (farthest + 1, 0), (3 * farthest, 0)] {
        let mut alone = Alone::new(3);
        alone.told(1, &[Item::Dead(ahead(epoch, 0))]);
        assert_eq!(own_life(&mut alone).0, expected);
    }
    // At the end of its counts begins a new life.
    let mut alone = Alone::new(3);
    alone.told(1, &[Item::Dead(ahead(0, u32::MAX))]);
    assert_eq!(own_life(&mut alone), (1, 0, 0));
}

#[test]
fn a_new_life_counts_its_records_anew() {
    let mut alone = Alone::new(3);
    let mut says = record(0).says;
    says.labels.insert("region".into(), "us".into());
    alone.act(|machine, now, effects| machine.set_own(says, now, effects)).unwrap();
    assert_eq!(own_life(&mut alone), (0, 1, 0));
    alone.told(1, &[Item::Dead(ahead(4, 0))]);
    assert_eq!(own_life(&mut alone), (5, 0, 0));
    assert_eq!(alone.seen(0).record.says.labels.get("region").map(AsRef::as_ref), Some("us"));
}

#[test]
fn a_state_that_tells_its_own_record_is_right_or_objected_to_or_a_claim() {
    let taken = || vec![Notice::NameTaken(site(0))];
    let objected = || vec![Notice::Objected];
    let record = |issued: u64, epoch: u64, finger: u32| {
        let mut record = record(0);
        (record.issued, record.fingerprint) = (issued, fingerprint(finger));
        record.epoch += epoch;
        record
    };
    let (dead, left, alive) = (ToldStatus::Dead(3), ToldStatus::Left(3), ToldStatus::Alive);
    // The site's own identity was issued as the third, and its count is 2.
    let cases: [(Record, ToldStatus, u32, Vec<Notice>); 16] = [
        (record(3, 0, 0), alive, 2, vec![]),
        (record(3, 0, 0), alive, 1, vec![]),
        (record(3, 0, 0), alive, 3, objected()),
        (record(3, 0, 0), dead, 2, objected()),
        (record(3, 0, 0), left, 2, objected()),
        (record(3, 0, 0), dead, 1, vec![]),
        (record(3, 0, 0), dead, 3, objected()),
        (record(3, 1, 0), alive, 0, objected()),
        (record(3, 1, 0), dead, 0, objected()),
        // This site, before it had a new identity.
        (record(2, 0, 9), alive, 2, vec![]),
        (record(2, 1, 9), alive, 0, objected()),
        (record(2, 0, 9), dead, 2, objected()),
        // Somebody else.
        (record(3, 1, 9), alive, 0, taken()),
        (record(4, 0, 9), alive, 2, taken()),
        (record(4, 1, 9), dead, 0, taken()),
        (record(3, 0, 9), alive, 2, taken()),
    ];
    for (record, status, refuted, expected) in cases {
        let known = vec![super::record(1).into(), super::record(2).into()];
        let mut alone = Alone::of(Own { issued: 3, known, ..own(0) }, quiet(), 1);
        alone.told(1, &[Item::Dead(life(0, 1))]);
        alone.done();
        alone.given(1, &[told(&record, status, refuted)]);
        let case = (record.issued, record.epoch, status, refuted);
        assert_eq!(alone.done().notices(), expected, "{case:?}");
    }
}

#[test]
fn what_is_wrong_is_told_with_a_probe_and_its_answer() {
    let acked = |alone: &mut Alone| {
        let sent = alone.done().sent();
        let ack = sent.iter().find(|sent| matches!(sent.head, Head::Ack { nonce: 7 })).unwrap();
        let no_vitals = |item: &&Item| !matches!(item, Item::Vitals(_));
        ack.items.iter().filter(no_vitals).cloned().collect::<Vec<_>>()
    };
    let ping = |alone: &mut Alone, items: &[Item]| alone.hear(2, &Head::Ping { nonce: 7 }, items);
    let mut alone = Alone::new(30);
    ping(&mut alone, &[]);
    assert_eq!(acked(&mut alone), []);
    // The one that asks is wrong about this site, and this site objects.
    ping(&mut alone, &[suspected(life(0, 0))]);
    assert!(acked(&mut alone).contains(&Item::Alive(life(0, 1))));
    // This site is wrong about the one that asks. When all is told that is news, that is told still.
    alone.told(1, &[Item::Dead(life(2, 0))]);
    alone.run(super::secs(10));
    alone.done();
    ping(&mut alone, &[]);
    assert_eq!(acked(&mut alone), [Item::Dead(life(2, 0))]);
    ping(&mut alone, &[Item::Alive(life(2, 1))]);
    assert_eq!(alone.status(2), Status::Alive);
    alone.run(super::secs(10));
    alone.done();
    ping(&mut alone, &[]);
    assert_eq!(acked(&mut alone), []);
    // To a hello it says who it is, and what it knows of the one that asks.
    alone.hear(2, &Head::Hello { nonce: 7 }, &[]);
    assert_eq!(acked(&mut alone), [Item::Alive(life(2, 1)), told(&record(0), ToldStatus::Alive, 1)]);
}

#[test]
fn later_vitals_than_its_own_are_made_up() {
    let vitals = |epoch: u64, tick: u32| {
        let coordinate = place([0.0; 4], 1.0, 1.0);
        let epoch = record(0).epoch + epoch;
        Item::Vitals(Vitals { site: name(0), epoch, tick, coordinate, metrics: Vec::new() })
    };
    let mut alone = Alone::new(3);
    alone.told(1, &[vitals(0, 0), vitals(1, 9)]);
    assert_eq!((alone.done().notices(), own_life(&mut alone).0), (vec![], 0));
    alone.told(1, &[vitals(0, 500)]);
    assert_eq!((alone.done().notices(), own_life(&mut alone).0), (vec![Notice::Objected], 1));
}

#[test]
fn a_site_that_leaves_answers_nobody_and_objects_to_nothing() {
    let mut alone = Alone::new(3);
    alone.told(1, &[Item::Dead(life(3, 0))]);
    alone.on(Event::Leave);
    alone.run(super::secs(5));
    alone.done();
    alone.hear(2, &Head::Ping { nonce: 7 }, &[Item::Dead(life(0, 5))]);
    alone.hear(2, &Head::Hello { nonce: 7 }, &[]);
    let done = alone.done();
    assert!(done.sent().is_empty() && done.notices().is_empty(), "{:?}", done.sent());
}
