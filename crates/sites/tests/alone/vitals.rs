//! What a site says of itself now and then: which of two counts, who passes it on, and how often it is said anew.

use std::time::Duration;

use scope::View;
use sites::{Config, Event, Metrics};

use super::wire::{Head, Item, Vitals, place};
use super::{Alone, Sent, ms, name, quiet, record, secs, site};

/// What is said of a site's load, with its count; by itself, or by another.
fn load(of: u32, named: bool, tick: u32, load: f64) -> Item {
    Item::Vitals(Vitals {
        site: if named { name(of) } else { String::new() },
        epoch: record(of).epoch,
        tick,
        coordinate: place([1.0; 4], 1.0, 0.5),
        metrics: postcard::to_allocvec(&Metrics::from([("load".into(), load)])).unwrap(),
    })
}

fn known(alone: &Alone, of: u32) -> Option<f64> {
    let view = alone.machine.snapshot();
    view.metric(view.find(&name(of)).unwrap(), "load")
}

/// Somebody asks: the answer tells vitals of others.
fn relayed(alone: &mut Alone) -> Vec<String> {
    alone.done();
    alone.hear(9, &Head::Ping { nonce: 7 }, &[]);
    let sent = alone.done().sent();
    let named = |item: &Item| matches!(item, Item::Vitals(vitals) if !vitals.site.is_empty());
    let acks = sent.iter().filter(|sent| matches!(sent.head, Head::Ack { .. }));
    acks.flat_map(|sent| &sent.items).filter(|item| named(item)).map(|item| item.site().to_owned()).collect()
}

fn own_tick(sent: &Sent) -> u32 {
    let own = |item: &Item| match item {
        Item::Vitals(vitals) if vitals.site.is_empty() => Some(vitals.tick),
        _ => None,
    };
    sent.items.iter().find_map(own).unwrap()
}

#[test]
fn of_two_the_later_counts_in_whatever_order_they_come() {
    let mut alone = Alone::new(9);
    alone.told(2, &[load(2, false, 10, 0.1)]);
    assert_eq!(known(&alone, 2), Some(0.1));
    for tick in [10, 9, 0] {
        alone.told(3, &[load(2, true, tick, 0.9)]);
        assert_eq!(known(&alone, 2), Some(0.1), "{tick}");
    }
    alone.told(3, &[load(2, true, 11, 0.2)]);
    assert_eq!(known(&alone, 2), Some(0.2));
    // Another life's count says nothing of this one.
    let Item::Vitals(mut vitals) = load(2, true, 99, 0.8) else { unreachable!() };
    vitals.epoch -= 1;
    alone.told(3, &[Item::Vitals(vitals.clone())]);
    vitals.epoch += 2;
    alone.told(3, &[Item::Vitals(vitals.clone())]);
    assert_eq!(known(&alone, 2), Some(0.2));
    // What cannot be read leaves what was known.
    (vitals.epoch, vitals.metrics) = (record(2).epoch, vec![200; 5]);
    alone.told(3, &[Item::Vitals(vitals)]);
    assert_eq!(known(&alone, 2), Some(0.2));
    alone.done();
    alone.run(secs(10));
    alone.told(3, &[load(2, true, 100, 0.3)]);
    alone.told(3, &[load(2, true, 101, 0.3)]);
    assert!(alone.done().changed(), "another load is shown");
    alone.run(secs(10));
    alone.told(3, &[load(2, true, 102, 0.3)]);
    assert!(!alone.done().changed(), "the same is not");
}

#[test]
fn whole_steps_are_passed_on_four_times_and_what_is_between_never() {
    let mut alone = Alone::new(9);
    alone.told(2, &[load(2, false, 5, 0.1)]);
    assert_eq!(relayed(&mut alone), [""; 0]);
    alone.told(2, &[load(2, false, 0x100, 0.2)]);
    for _ in 0..4 {
        assert_eq!(relayed(&mut alone), [name(2)]);
    }
    assert_eq!(relayed(&mut alone), [""; 0]);
    for tick in [0x101, 0x1ff] {
        alone.told(2, &[load(2, false, tick, 0.3)]);
        assert_eq!(relayed(&mut alone), [""; 0], "{tick:x}");
    }
    // Each step counts, also for who missed the one before, and who hears of it from others.
    alone.told(3, &[load(2, true, 0x305, 0.4)]);
    assert_eq!(relayed(&mut alone), [name(2)]);
    // What whole states say is no news.
    alone.given(3, &[load(4, true, 0x200, 0.4)]);
    assert_eq!(known(&alone, 4), Some(0.4));
    assert_eq!(relayed(&mut alone), [name(2)]);
    alone.given(3, &[load(4, true, 0x201, 0.4)]);
    assert_eq!(relayed(&mut alone), [name(2)]);
}

#[test]
fn a_probe_carries_no_more_vitals_than_it_has_room_for() {
    let mut alone = Alone::new(60);
    for number in 1..=60 {
        alone.told(number, &[load(number, false, 0x100, 0.2)]);
    }
    alone.done();
    alone.hear(9, &Head::Ping { nonce: 7 }, &[]);
    let sent = alone.done().sent().remove(0);
    assert!((640..=720).contains(&sent.bytes), "{} bytes", sent.bytes);
    // Each has its turn, four times.
    let mut told = std::collections::BTreeMap::new();
    let mut count = |sent: &Sent| {
        for item in sent.items.iter().filter(|item| !item.site().is_empty()) {
            *told.entry(item.site().to_owned()).or_insert(0) += 1;
        }
    };
    count(&sent);
    for _ in 0..60 {
        alone.hear(9, &Head::Ping { nonce: 7 }, &[]);
        count(&alone.done().sent()[0]);
    }
    assert_eq!(told.len(), 60);
    assert!(told.values().all(|count| *count == 4), "{told:?}");
}

#[test]
fn each_change_counts_one_but_for_the_last_before_a_step() {
    let mut alone = Alone::new(9);
    let tick = |alone: &mut Alone| {
        alone.hear(9, &Head::Ping { nonce: 7 }, &[]);
        own_tick(&alone.done().sent()[0])
    };
    assert_eq!(tick(&mut alone), 0);
    for count in 1..=300u32 {
        if count % 2 == 0 {
            let metrics = Metrics::from([("load".into(), f64::from(count))]);
            alone.machine.set_metrics(metrics.clone()).unwrap();
            alone.machine.set_metrics(metrics).unwrap();
        } else {
            alone.on(Event::Measured { site: site(1), rtt: ms(5) });
        }
        // Else those who are told directly would pass it on, all of them.
        assert_eq!(tick(&mut alone), count.min(0xff), "{count}");
    }
    let mut alone = Alone::new(9);
    for count in 1..=300u32 {
        alone.machine.set_metrics(Metrics::from([("load".into(), f64::from(count))])).unwrap();
        assert_eq!(tick(&mut alone), count.min(0xff), "{count}");
    }
}

/// When a site among so many others begins another step, while it runs for some minutes.
fn steps(known: u32, moving: bool) -> Vec<Duration> {
    let config = Config { probe_every: secs(1), probe_at_first_every: secs(1), ..quiet() };
    let mut alone = Alone::with(config, known, 3);
    alone.answer = (1..=known).map(|number| (number, ms(3))).collect();
    let (mut step, mut at) = (0, Vec::new());
    for second in 0..100u64 {
        if moving {
            // The network to all of them is slower and slower.
            alone.answer.values_mut().for_each(|rtt| *rtt = ms(3 + second * 20));
        }
        alone.run(secs(1));
        for sent in alone.done().pings() {
            if own_tick(&sent) >> 8 != step {
                assert_eq!(own_tick(&sent) >> 8, step + 1);
                (step, at) = (step + 1, [at, vec![sent.at]].concat());
            }
        }
    }
    at.windows(2).map(|two| two[1].saturating_sub(two[0])).collect()
}

#[test]
fn vitals_are_said_anew_every_ten_seconds_and_less_often_among_many() {
    assert_eq!(steps(20, false), [secs(10); 8]);
    assert_eq!(steps(249, false), [secs(25); 2]);
    let moving = steps(249, true);
    assert!(moving.iter().all(|time| *time == secs(10)), "it moves far: {moving:?}");
}
