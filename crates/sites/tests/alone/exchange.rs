//! Exchanges of whole states: whatever differs shows in the digests, and only that travels.

use std::collections::{BTreeMap, BTreeSet};

use sites::{Config, Event, Record};

use super::planet::statement;
use super::wire::{self, Exchange, Item, ToldStatus, Vitals, told};
use super::{Alone, Duration, life, name, quiet, record, secs, site};

/// The names of the sites whose records are told.
fn names(items: &[Item]) -> Vec<&str> {
    items.iter().filter(|item| matches!(item, Item::Site(_))).map(Item::site).collect()
}

/// The numbers of the bits that are set.
fn bits(bytes: &[u8]) -> Vec<usize> {
    (0..bytes.len() * 8).filter(|bit| bytes[bit / 8] >> (bit % 8) & 1 == 1).collect()
}

#[test]
fn whatever_differs_of_a_site_shows_and_suspicion_does_not() {
    let at_first = Alone::new(24).buckets();
    assert_eq!(at_first.len(), 256);
    for number in 2..=24 {
        let record = |epoch: u64, version: u32| {
            let mut record = record(number);
            (record.epoch, record.version) = (record.epoch + epoch, version);
            told(&record, ToldStatus::Alive, 0)
        };
        let changes = [
            Item::Alive(life(number, 1)),
            Item::Alive(life(number, 2)),
            Item::Dead(life(number, 0)),
            Item::Left(life(number, 0)),
            Item::Dead(life(number, 1)),
            record(0, 1),
            record(0, 2),
            record(1, 0),
            record(2, 0),
            record(1, 1),
            record(1 << 40, 0),
        ];
        let mut digests = BTreeSet::new();
        for change in &changes {
            let mut alone = Alone::new(24);
            alone.told(1, std::slice::from_ref(change));
            let now = alone.buckets();
            let differ: Vec<u64> =
                (0..256).filter(|at| now[*at] != at_first[*at]).map(|at| now[at]).collect();
            assert_eq!(differ.len(), 1, "{change:?}");
            digests.insert(differ[0]);
        }
        assert_eq!(digests.len(), changes.len(), "of {number}");
        let mut alone = Alone::new(24);
        alone.told(1, &[super::suspect(number, 0, 1)]);
        assert_eq!(alone.buckets(), at_first);
    }
}

/// Worked out apart from the code. Where two versions of it digest differently, each exchange is of all that there is.
#[test]
fn digests_are_the_same_at_sites_of_every_version() {
    let mut alone = Alone::new(3);
    let later = Record { version: 5, ..record(3) };
    alone.told(1, &[Item::Dead(life(2, 3)), told(&later, ToldStatus::Alive, 0)]);
    let (stamp, by) = ((record(0).epoch + 1) << 16, name(1));
    alone.told(1, &[Item::Zone { name: "west".into(), stamp, by, text: Some("Site00001".into()) }]);
    alone.told(1, &[Item::Quarantine { site: name(3), stamp: stamp + 5, by: name(2), on: true }]);
    alone.on(Event::Revoked { statement: statement(9, 7), site: site(9), before: 7 });
    let (buckets, registers, _) = alone.question();
    let digests: Vec<(usize, u64)> =
        buckets.into_iter().enumerate().filter(|(_, digest)| *digest != 0).collect();
    let expected = [
        (121, 0xb636_cd01_9637_e44a),
        (180, 0x7801_3816_de6f_3cf2),
        (190, 0x3819_21a9_bab4_9711),
        (211, 0x8f25_5180_dbff_ecb9),
    ];
    assert_eq!((digests, registers), (expected.to_vec(), 0x95ed_36aa_aef9_044a));
}

#[test]
fn a_difference_concerns_few_of_a_thousand_sites() {
    let mut alone = Alone::new(999);
    let (buckets, registers, _) = alone.question();
    let mut all = 0;
    for at in 0..256 {
        let mut theirs = buckets.clone();
        theirs[at] ^= 1;
        let (answer, items) = alone.ask(2, &Exchange::Ask { buckets: theirs, registers }, &[]).unwrap();
        let Exchange::Answer { differ, registers: same } = answer else { panic!("{answer:?}") };
        assert_eq!((differ.len(), bits(&differ), same), (32, vec![at], registers));
        // Each with where it is and how it does.
        let (sites, vitals) = (names(&items), items.iter().filter(|item| matches!(item, Item::Vitals(_))));
        assert_eq!(sites, vitals.map(Item::site).collect::<Vec<_>>());
        assert!(sites.len() <= 16, "{} in one", sites.len());
        all += sites.len();
    }
    assert_eq!(all, 1000);
    let (_, items) = alone.ask(2, &Exchange::Ask { buckets, registers }, &[]).unwrap();
    assert_eq!(items, [], "who has the same is told nothing");
}

#[test]
fn an_answer_has_all_but_those_that_are_revoked_and_registers_where_they_differ() {
    let mut alone = Alone::new(4);
    alone.told(1, &[Item::Left(life(2, 0)), Item::Dead(life(4, 0))]);
    alone.on(Event::Revoked { statement: statement(3, 2), site: site(3), before: 2 });
    alone.on(Event::Quarantine { site: site(4), on: true });
    let (_, registers, own) = alone.question();
    assert_eq!(names(&own), [name(0)], "who asks says who it is");
    let (answer, items) = alone.ask(1, &Exchange::Ask { buckets: vec![], registers }, &[]).unwrap();
    let Exchange::Answer { differ, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(bits(&differ).len(), 256);
    assert_eq!(names(&items), [name(0), name(1), name(2), name(4)]);
    assert!(items.iter().all(|item| matches!(item, Item::Site(_) | Item::Vitals(_))));
    let (_, items) = alone.ask(1, &Exchange::Ask { buckets: vec![], registers: registers ^ 1 }, &[]).unwrap();
    assert!(matches!(items[8], Item::Revoked { .. }), "what must not be lost comes first: {items:?}");
    assert!(matches!(items[9], Item::Quarantine { on: true, .. }));
    // What is kept over a restart is the same, without this site and what changes all the time.
    let (give, items) = wire::read::<Exchange>(&alone.machine.save());
    assert_eq!((give, names(&items)), (Exchange::Give, vec![&*name(1), &*name(2), &*name(4)]));
    assert!(items.iter().all(|item| !matches!(item, Item::Vitals(_))));
}

/// What site 0 gives to one that answered like this: the names, and all.
fn gives(alone: &mut Alone, differ: Vec<u8>, registers: u64, items: &[Item]) -> (Vec<String>, Vec<Item>) {
    alone.done();
    alone.synced(1, &Exchange::Answer { differ, registers }, items);
    let syncs = alone.done().syncs();
    let [(_, to, exchange, items)] = &syncs[..] else {
        assert!(syncs.is_empty());
        return (Vec::new(), Vec::new());
    };
    assert_eq!((*to, exchange), (1, &Exchange::Give));
    (names(items).into_iter().map(str::to_owned).collect(), items.clone())
}

#[test]
fn what_the_other_lacks_or_has_of_an_earlier_time_is_given_and_nothing_else() {
    let mut alone = Alone::new(12);
    let later = |number: u32, epoch: u64, version: u32| {
        let mut record = record(number);
        (record.epoch, record.version) = (record.epoch + epoch, version);
        record
    };
    alone.told(
        1,
        &[
            Item::Alive(life(2, 3)),
            Item::Dead(life(5, 0)),
            Item::Dead(life(6, 0)),
            Item::Left(life(9, 0)),
            told(&later(8, 0, 2), ToldStatus::Alive, 0),
            told(&later(10, 7, 0), ToldStatus::Alive, 0),
        ],
    );
    alone.on(Event::Revoked { statement: statement(7, 2), site: site(7), before: 2 });
    let (_, registers, _) = alone.question();
    let theirs = [
        told(&record(1), ToldStatus::Alive, 0),
        told(&record(2), ToldStatus::Alive, 2),
        told(&record(3), ToldStatus::Dead(9), 0),
        told(&record(5), ToldStatus::Alive, 0),
        told(&record(6), ToldStatus::Dead(9), 0),
        told(&later(8, 0, 1), ToldStatus::Alive, 0),
        told(&record(9), ToldStatus::Left(9), 0),
        told(&record(10), ToldStatus::Alive, 0),
        told(&later(11, 0, 5), ToldStatus::Alive, 0),
        told(&record(12), ToldStatus::Alive, 4),
    ];
    // 1, 6 and 9 are the same, 7 is revoked, 11 and 12 were taken.
    let expected = [0, 2, 3, 4, 5, 8, 10].map(name).to_vec();
    let (given, items) = gives(&mut alone, vec![0xff; 32], registers, &theirs);
    assert_eq!(given, expected);
    assert!(items.iter().all(|item| matches!(item, Item::Site(_) | Item::Vitals(_))));
    assert_eq!(alone.seen(11).record.version, 5);
    // Where the digests are the same, all is.
    assert_eq!(gives(&mut alone, vec![0; 32], registers, &[]).0, [""; 0]);
    let (given, items) = gives(&mut alone, vec![0; 32], registers ^ 1, &[]);
    assert_eq!((given.len(), items.len()), (0, 1));
    assert!(matches!(items[0], Item::Revoked { .. }));
}

#[test]
fn what_is_given_is_of_the_parts_that_differ() {
    let mut alone = Alone::new(60);
    let (at_first, registers, _) = alone.question();
    let mut parts = BTreeMap::new();
    for number in 2..=60 {
        let mut other = Alone::new(60);
        other.told(1, &[Item::Alive(life(number, 1))]);
        let now = other.buckets();
        let part = (0..256).find(|at| now[*at] != at_first[*at]).unwrap();
        parts.entry(part).or_insert_with(Vec::new).push(name(number));
    }
    assert!(parts.len() > 40);
    for (part, expected) in parts {
        let mut differ = vec![0; 32];
        differ[part / 8] = 1 << (part % 8);
        let (mut given, _) = gives(&mut alone, differ, registers, &[]);
        given.retain(|one| *one != name(0) && *one != name(1));
        assert_eq!(given, expected, "of {part}");
    }
}

#[test]
fn it_asks_one_of_the_others_about_every_so_often() {
    let mut alone = Alone::with(Config { sync_every: secs(100), ..quiet() }, 5, 1);
    alone.told(1, &[Item::Dead(life(5, 0))]);
    alone.run(secs(10_000));
    let syncs = alone.done().syncs();
    let times: Vec<Duration> = syncs.windows(2).map(|two| two[1].0.saturating_sub(two[0].0)).collect();
    assert!(times.iter().all(|time| (75.0..=125.0).contains(&time.as_secs_f64())), "{times:?}");
    assert!(times.iter().any(|time| *time < secs(85)) && times.iter().any(|time| *time > secs(115)));
    let whom: BTreeSet<u32> = syncs.iter().map(|sync| sync.1).collect();
    assert_eq!(whom, [1, 2, 3, 4].into());
}

#[test]
fn who_is_not_who_it_says_is_not_answered() {
    let mut alone = Alone::new(3);
    let ask = wire::write(&Exchange::Ask { buckets: vec![], registers: 0 }, &[]);
    let claim = sites::Identity { fingerprint: [9; 32], issued: 1 };
    let answer = alone.act(|machine, now, effects| machine.answer(&site(2), &claim, &ask, now, effects));
    assert_eq!(answer, None);
    let vitals = Item::Vitals(Vitals {
        site: name(3),
        epoch: record(3).epoch,
        tick: 5,
        coordinate: wire::place([1.0; 4], 1.0, 1.0),
        metrics: Vec::new(),
    });
    let bytes = wire::write(&Exchange::Answer { differ: vec![0xff; 32], registers: 0 }, &[vitals]);
    alone.on(Event::Synced { from: site(2), identity: claim, bytes });
    assert!(alone.done().syncs().is_empty() && !alone.seen(3).coordinate.is_known());
}
