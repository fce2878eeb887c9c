//! Who is probed when, through whom, and what comes of it.

use std::collections::{BTreeMap, BTreeSet};

use sites::{Config, Event, Notice, Reach, Status};

use super::coordinates::vitals;
use super::planet::statement;
use super::wire::{Head, Item, ToldStatus, place, told};
use super::{Alone, Done, Duration, Sent, life, ms, name, quiet, record, secs, site};

/// It probes others in turn, every ten seconds, and nothing else.
fn probing() -> Config {
    Config { probe_every: secs(10), probe_at_first_every: secs(10), ..quiet() }
}

fn answered(known: u32, seed: u64, config: Config) -> Alone {
    let mut alone = Alone::with(config, known, seed);
    alone.answer = (1..=known).map(|number| (number, ms(20))).collect();
    alone
}

fn to(sent: &[Sent]) -> Vec<u32> {
    sent.iter().map(|sent| sent.to).collect()
}

#[test]
fn each_has_its_turn_before_one_has_two_in_an_order_that_changes() {
    let mut alone = answered(3, 1, probing());
    let mut orders = BTreeMap::new();
    for _ in 0..120 {
        alone.run(secs(30));
        let order = to(&alone.done().pings());
        assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), [1, 2, 3].into(), "{order:?}");
        *orders.entry(order).or_insert(0) += 1;
    }
    assert_eq!(orders.len(), 6, "{orders:?}");
    assert!(orders.values().all(|count| *count >= 8), "{orders:?}");
}

#[test]
fn who_is_gone_is_not_probed_and_who_is_back_is() {
    let mut alone = answered(8, 1, probing());
    let round = |alone: &mut Alone| {
        // Two rounds, as one may have begun; in each, everybody who is there has one turn.
        alone.run(secs(160));
        alone.done();
        let living = 8 - (1..=8).filter(|number| alone.status(*number) != Status::Alive).count() as u64;
        alone.run(secs(10 * living * 4));
        let mut counts = BTreeMap::new();
        for number in to(&alone.done().pings()) {
            *counts.entry(number).or_insert(0) += 1;
        }
        assert!(counts.values().all(|count| (3..=5).contains(count)), "{counts:?}");
        counts.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(round(&mut alone), [1, 2, 3, 4, 5, 6, 7, 8]);
    alone.told(1, &[Item::Dead(life(3, 0)), Item::Left(life(5, 0)), Item::Dead(life(8, 0))]);
    assert_eq!(round(&mut alone), [1, 2, 4, 6, 7]);
    alone.told(1, &[Item::Dead(life(1, 0))]);
    alone.told(2, &[Item::Alive(life(3, 1)), Item::Alive(life(4, 1)), Item::Alive(life(4, 2))]);
    assert_eq!(round(&mut alone), [2, 3, 4, 6, 7]);
    alone.on(Event::Revoked { statement: statement(7, 2), site: site(7), before: 2 });
    assert_eq!(round(&mut alone), [2, 3, 4, 6]);
    alone.told(2, &[Item::Alive(life(8, 1)), Item::Alive(life(1, 1)), Item::Dead(life(6, 0))]);
    assert_eq!(round(&mut alone), [1, 2, 3, 4, 8]);
}

#[test]
fn a_new_site_probes_fast_until_it_has_measured_enough() {
    for (measured, every) in [(0, 200), (59, 200), (60, 1000), (61, 1000)] {
        let mut alone = Alone::with(Config { sync_every: quiet().sync_every, ..Config::default() }, 5, 1);
        for _ in 0..measured {
            alone.on(Event::Measured { site: site(1), rtt: ms(20) });
        }
        alone.run(ms(2100));
        let times: BTreeSet<Duration> = alone.done().pings().iter().map(|sent| sent.at).collect();
        let [first, second, ..] = times.iter().copied().collect::<Vec<_>>()[..] else { panic!("{times:?}") };
        assert_eq!(second.saturating_sub(first), ms(every), "after {measured}");
    }
}

#[test]
fn a_site_that_is_alone_has_little_to_do() {
    let mut alone = Alone::with(Config { look_for_dead_every: secs(1000), ..Config::default() }, 0, 1);
    let mut wakes = 0;
    for _ in 0..600 {
        let before = alone.wakes;
        alone.run(ms(100));
        wakes += u32::from(alone.wakes != before);
    }
    assert!((55..150).contains(&wakes), "{wakes} times in a minute");
}

/// How long after a probe of a site that does not answer others are asked.
fn patience(alone: &mut Alone) -> Duration {
    alone.done();
    for _ in 0..100 {
        alone.run(secs(1));
        let done = alone.done();
        alone.done.extend(done.0.iter().cloned());
        if let Some(asked) = done.asked().first() {
            let Head::AskFor { nonce, site } = asked.head.clone() else { unreachable!() };
            assert_eq!(site, name(2));
            let sent = Done(std::mem::take(&mut alone.done)).pings();
            let ping = sent.iter().find(|sent| sent.head == Head::Ping { nonce }).unwrap();
            return asked.at.saturating_sub(ping.at);
        }
    }
    panic!("nobody was asked")
}

#[test]
fn it_waits_half_as_long_again_as_is_usual_and_a_tenth_of_a_second() {
    for (usual, expected) in
        [(None, 500), (Some(20), 200), (Some(100), 250), (Some(200), 400), (Some(900), 500)]
    {
        let mut alone = answered(8, 1, probing());
        alone.answer.remove(&2);
        if let Some(usual) = usual {
            alone.on(Event::Measured { site: site(2), rtt: ms(usual) });
        }
        assert_eq!(patience(&mut alone), ms(expected), "{usual:?}");
    }
}

#[test]
fn who_doubts_its_own_network_waits_longer() {
    // Each objection is a doubt, and each answer one less.
    for (doubts, expected) in [(0, 500), (1, 1000), (2, 1500), (4, 2500), (6, 2500)] {
        let config = Config { probe_every: secs(1000), probe_at_first_every: secs(1000), ..quiet() };
        let mut alone = Alone::with(config, 8, 1);
        for doubt in 0..doubts {
            alone.told(1, &[Item::Dead(life(0, doubt))]);
        }
        alone.on(Event::Reached { site: site(2), works: false });
        let sent = alone.now;
        alone.run(secs(5));
        let asked = alone.done().asked();
        assert_eq!(asked[0].at.saturating_sub(sent), ms(expected), "{doubts}");
    }
    // So is a site that does not answer at all.
    let mut alone = Alone::new(8);
    alone.on(Event::Reached { site: site(2), works: false });
    alone.run(secs(2));
    assert_eq!(alone.status(2), Status::Suspect);
    alone.done();
    alone.on(Event::Reached { site: site(3), works: false });
    let sent = alone.now;
    alone.run(secs(5));
    let other = |sent: &Sent| matches!(&sent.head, Head::AskFor { site, .. } if *site == name(3));
    let asked = alone.done().asked().into_iter().find(other).unwrap();
    assert_eq!(asked.at.saturating_sub(sent), ms(1000));
}

#[test]
fn three_others_are_asked_and_where_there_are_fewer_it_is_probed_again() {
    for (known, helpers, again) in [(8, 3, 0), (4, 3, 0), (3, 2, 1), (2, 1, 1), (1, 0, 1)] {
        let mut alone = Alone::new(known);
        alone.on(Event::Reached { site: site(1), works: false });
        alone.done();
        alone.run(ms(600));
        let done = alone.done();
        let asked: BTreeSet<u32> = to(&done.asked()).into_iter().collect();
        assert_eq!((asked.len(), done.asked().len()), (helpers, helpers), "{known}");
        assert!(!asked.contains(&1));
        let pings = done.pings();
        assert_eq!(to(&pings), vec![1; again], "{known}");
        // Which of the two it answers is not known: that is no round trip.
        let Some(Sent { head: Head::Ping { nonce }, .. }) = pings.first() else { continue };
        alone.hear(1, &Head::Ack { nonce: *nonce }, &[]);
        assert_eq!((alone.seen(1).measured, alone.status(1)), (None, Status::Alive));
    }
}

/// Site 2 answers others only. When it was probed by `alone`, after the first time.
fn cut(alone: &mut Alone, time: Duration) -> (Vec<Duration>, Vec<Notice>) {
    alone.vouched.insert(2);
    let start = alone.now;
    alone.on(Event::Reached { site: site(2), works: false });
    alone.on(Event::Reached { site: site(2), works: true });
    alone.done();
    alone.run(time);
    let done = alone.done();
    let probed =
        done.pings().iter().filter(|sent| sent.to == 2).map(|sent| sent.at.saturating_sub(start)).collect();
    (probed, done.notices())
}

#[test]
fn who_answers_others_only_is_asked_again_and_unreachable_after_three_times() {
    let mut alone = answered(8, 1, quiet());
    alone.answer.remove(&2);
    // A probe takes half a second, and those that are asked 0.8: then it is once more a second later, and after three
    // times ten.
    let (probed, notices) = cut(&mut alone, secs(32));
    assert_eq!(probed, [2300, 4600, 15_900, 27_200].map(ms));
    assert_eq!(notices, [Notice::Unreachable(site(2))]);
    assert_eq!((alone.status(2), alone.seen(2).reach), (Status::Alive, Reach::Unreachable));
    // It answers the next: that is all.
    alone.answer.insert(2, ms(20));
    alone.run(secs(100));
    let done = alone.done();
    assert_eq!(to(&done.pings()), [2]);
    assert_eq!(done.notices(), [Notice::Reachable(site(2))]);
    assert_eq!(alone.seen(2).reach, Reach::Reachable);
}

#[test]
fn who_answers_after_a_miss_or_is_gone_is_not_asked_again() {
    let mut alone = answered(8, 1, quiet());
    alone.answer.remove(&2);
    let (probed, notices) = cut(&mut alone, ms(1400));
    assert_eq!((probed, notices), (vec![], vec![]));
    // It answers a probe meanwhile.
    alone.answer.insert(2, ms(20));
    alone.on(Event::Reached { site: site(2), works: false });
    alone.run(ms(100));
    assert_eq!(alone.done().notices(), [Notice::Unreachable(site(2))], "says the link, not the probes");
    alone.run(secs(20));
    assert_eq!(to(&alone.done().pings()), [0; 0]);
    alone.on(Event::Reached { site: site(2), works: true });
    alone.answer.remove(&2);
    // It is dead meanwhile.
    cut(&mut alone, ms(1400));
    alone.told(1, &[Item::Dead(life(2, 0))]);
    alone.run(secs(20));
    assert_eq!(to(&alone.done().pings()), [0; 0]);
}

#[test]
fn what_the_link_says_is_checked_when_it_is_bad() {
    let mut alone = Alone::new(3);
    alone.on(Event::Reached { site: site(2), works: true });
    assert!(!alone.done().changed());
    alone.on(Event::Reached { site: site(2), works: false });
    let done = alone.done();
    assert_eq!((to(&done.pings()), done.notices()), (vec![2], vec![Notice::Unreachable(site(2))]));
    alone.on(Event::Reached { site: site(2), works: false });
    alone.on(Event::Reached { site: site(2), works: true });
    let done = alone.done();
    assert_eq!((to(&done.pings()), done.notices()), (vec![], vec![Notice::Reachable(site(2))]));
    alone.on(Event::Unlinked { site: site(2) });
    assert!(!alone.done().changed());
    alone.on(Event::Reached { site: site(2), works: false });
    alone.done();
    alone.on(Event::Unlinked { site: site(2) });
    assert!(alone.done().changed());
    assert_eq!(alone.seen(2).reach, Reach::Reachable);
}

#[test]
fn it_probes_for_another_but_neither_itself_nor_the_one_that_asks() {
    let mut alone = Alone::new(4);
    for who in [0, 2, 77] {
        alone.hear(2, &Head::AskFor { nonce: 9, site: name(who) }, &[]);
        assert!(alone.done().sent().is_empty(), "{who}");
    }
    alone.hear(2, &Head::AskFor { nonce: 9, site: name(3) }, &[]);
    let pings = alone.done().pings();
    assert_eq!(to(&pings), [3]);
    let Head::Ping { nonce } = pings[0].head else { unreachable!() };
    // Only the one that was asked answers for itself.
    alone.hear(4, &Head::Ack { nonce }, &[]);
    assert!(alone.done().sent().is_empty());
    alone.hear(3, &Head::Ack { nonce }, &[]);
    let sent = alone.done().sent();
    assert_eq!((sent[0].to, &sent[0].head), (2, &Head::Vouch { nonce: 9 }));
}

#[test]
fn the_dead_are_looked_for_the_more_the_more_they_are() {
    let config = Config { look_for_dead_every: secs(1), ..quiet() };
    // Of so many others so many are dead: how often one of them is called in 400 seconds.
    let calls = |known: u32, dead: u32, leave: bool| {
        let mut alone = Alone::with(config.clone(), known, 1);
        let said: Vec<Item> = (1..=dead).map(|number| Item::Dead(life(number, 0))).collect();
        for said in said.chunks(20) {
            alone.told(known, said);
        }
        if leave {
            alone.on(Event::Leave);
        }
        alone.run(secs(1));
        alone.done();
        alone.run(secs(400));
        let hellos = alone.done().hellos();
        assert!(
            hellos.iter().all(|sent| sent.to <= dead && sent.items.contains(&Item::Dead(life(sent.to, 0))))
        );
        (hellos.len(), to(&hellos).into_iter().collect::<BTreeSet<_>>().len())
    };
    assert_eq!(calls(10, 0, false).0, 0);
    assert_eq!(calls(10, 8, true).0, 0);
    let (few, _) = calls(101, 1, false);
    assert!((5..35).contains(&few), "four in 101: {few}");
    let (some, whom) = calls(89, 10, false);
    assert!((160..240).contains(&some) && whom == 10, "half of 400: {some}");
    assert_eq!(calls(12, 8, false).0, 400);
}

#[test]
fn all_of_the_dead_are_looked_for_whoever_joins_and_none_that_is_back() {
    let mut alone = Alone::with(Config { look_for_dead_every: secs(1), ..quiet() }, 8, 1);
    let called = |alone: &mut Alone| {
        alone.done();
        alone.run(secs(60));
        to(&alone.done().hellos()).into_iter().collect::<BTreeSet<_>>()
    };
    alone.told(1, &[2, 3, 4, 5].map(|number| Item::Dead(life(number, 0))));
    assert_eq!(called(&mut alone), [2, 3, 4, 5].into());
    alone.told(1, &[told(&record(9), ToldStatus::Alive, 0), Item::Alive(life(3, 1))]);
    assert_eq!(called(&mut alone), [2, 4, 5].into());
    alone.told(1, &[Item::Left(life(4, 0)), Item::Dead(life(0, 0))]);
    assert_eq!(called(&mut alone), [2, 5].into());
}

#[test]
fn who_is_gone_is_forgotten_and_all_that_was_to_be_said_of_it() {
    let config = Config { look_for_dead_every: secs(1), forget_after: secs(60), ..quiet() };
    let mut alone = Alone::with(config, 4, 1);
    let at_first = Alone::new(3).buckets();
    // Where these two are is to be passed on.
    for number in [2, 4] {
        alone.told(number, &[vitals(number, 0x100, place([9.0; 4], 1.0, 0.5))]);
    }
    alone.told(1, &[Item::Left(life(4, 0))]);
    alone.run(secs(59));
    assert!(alone.knows(4));
    alone.run(secs(200));
    assert!(!alone.knows(4) && (0..4).all(|number| alone.knows(number)));
    // As if it had never been there.
    assert_eq!(alone.buckets(), at_first);
    // One that is new may have its place; what was to be said of the other is not said of it.
    alone.told(1, &[told(&record(5), ToldStatus::Alive, 0)]);
    alone.done();
    alone.hear(1, &Head::Ping { nonce: 7 }, &[]);
    let sent = alone.done().sent();
    let told_of = sent[0].items.iter().filter(|item| matches!(item, Item::Vitals(_))).map(Item::site);
    assert_eq!(told_of.collect::<Vec<_>>(), ["", &name(2)]);
    alone.told(1, &[Item::Left(life(5, 0))]);
    alone.run(secs(300));
    alone.told(1, &[told(&record(4), ToldStatus::Alive, 0)]);
    assert_eq!(alone.status(4), Status::Alive);
    assert_eq!(alone.buckets(), Alone::new(4).buckets());
}
