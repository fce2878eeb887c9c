//! How long a site that does not answer has to object, and who checks it.

use sites::{Config, Notice, Status};

use super::wire::{Head, Item};
use super::{Alone, Duration, life, ms, quiet, secs, site, suspect};

/// When site 2 is dead that others suspect, each after some seconds.
fn dead_after(alone: &mut Alone, said: &[(u64, u32)]) -> Duration {
    // It answers probes here, which is no objection.
    alone.answer.insert(2, ms(1));
    let start = alone.now;
    for (after, by) in said {
        alone.run((start + ms(*after)).saturating_sub(alone.now));
        alone.told(1, &[suspect(2, 0, *by)]);
    }
    alone.run(secs(100));
    let dead = alone.done().when(&Notice::Dead(site(2))).expect("it is dead");
    dead.saturating_sub(start)
}

fn about(time: Duration, ms: f64) {
    let off = time.as_secs_f64() * 1000.0 - ms;
    assert!(off.abs() < 1.0, "{time:?} for {ms} ms");
}

#[test]
fn the_more_others_suspect_it_the_less_time_it_has() {
    // With one more it is five seconds less three times the logarithm of two to that of three.
    for (said, expected) in [
        (&[(0, 3)][..], 5000.0),
        (&[(0, 3), (0, 4)], 3107.2),
        (&[(0, 3), (0, 4), (0, 5)], 2000.0),
        (&[(0, 3), (0, 4), (0, 5), (0, 6)], 2000.0),
        (&[(0, 3), (0, 3), (0, 3)], 5000.0),
        (&[(0, 3), (0, 4), (0, 3), (0, 4)], 3107.2),
        // Its time began with the first.
        (&[(0, 3), (1000, 4)], 3107.2),
        (&[(0, 3), (3000, 4), (3000, 5)], 3000.0),
        (&[(0, 3), (4000, 4)], 4000.0),
        (&[(0, 3), (500, 3), (4000, 3)], 5000.0),
    ] {
        about(dead_after(&mut Alone::new(9), said), expected);
    }
    let five = Config { confirmations: 4, ..quiet() };
    for (said, expected) in [(&[(0, 3), (0, 4)][..], 3707.97), (&[(0, 3), (0, 4), (0, 5), (0, 6)], 2415.96)] {
        about(dead_after(&mut Alone::with(five.clone(), 9, 1), said), expected);
    }
    let none = Config { confirmations: 0, ..quiet() };
    about(dead_after(&mut Alone::with(none, 9, 1), &[(0, 3), (0, 4), (0, 5)]), 5000.0);
}

#[test]
fn among_ten_thousand_it_has_a_quarter_more() {
    about(dead_after(&mut Alone::new(9998), &[(0, 3)]), 5000.0);
    about(dead_after(&mut Alone::new(9999), &[(0, 3)]), 6250.0);
}

#[test]
fn of_those_that_hear_of_it_about_four_check_at_once() {
    let checks = |known: u32| {
        let checked = |seed: &u64| {
            let mut alone = Alone::with(quiet(), known, *seed);
            alone.told(1, &[suspect(2, 0, 3)]);
            let pings = alone.done().pings();
            assert!(pings.iter().all(|sent| sent.to == 2 && sent.items.contains(&suspect(2, 0, 3))));
            // It is not checked anew by each word.
            alone.told(1, &[suspect(2, 0, 4), suspect(2, 0, 3)]);
            assert!(alone.done().pings().is_empty());
            pings.len() == 1
        };
        (0..100).filter(checked).count()
    };
    assert_eq!(checks(3), 100, "four of four");
    assert!((60..98).contains(&checks(4)), "four of five");
    assert!((3..20).contains(&checks(39)), "four of forty");
}

#[test]
fn who_does_not_answer_is_told_first_that_it_is_suspected() {
    let config = Config { probe_every: secs(3), probe_at_first_every: secs(3), ..quiet() };
    let mut alone = Alone::with(config, 40, 1);
    alone.answer = (1..=40).map(|number| (number, ms(20))).collect();
    alone.run(secs(1));
    alone.answer.remove(&2);
    let mut found = false;
    for _ in 0..200 {
        alone.run(secs(1));
        let done = alone.done();
        let Some(at) = done.when(&Notice::Suspected(site(2))) else { continue };
        let word = suspect(2, 0, 0);
        let told: Vec<_> = done.sent().into_iter().filter(|sent| sent.items.contains(&word)).collect();
        assert!(told.iter().all(|sent| sent.at >= at));
        let first = told.iter().find(|sent| sent.head == Head::News).unwrap();
        assert_eq!((first.to, first.at), (2, at));
        assert!(
            told.iter().filter(|sent| sent.at == at && sent.head == Head::News).count() >= 17,
            "and then others"
        );
        found = true;
        break;
    }
    assert!(found);
}

#[test]
fn a_suspicion_of_the_dead_or_by_nobody_is_none() {
    let mut alone = Alone::new(4);
    alone.answer.insert(2, ms(1));
    alone.told(1, &[suspect(2, 0, 77)]);
    assert_eq!((alone.status(2), alone.done().sent().len()), (Status::Alive, 0));
    alone.told(1, &[Item::Dead(life(3, 0))]);
    alone.done();
    alone.told(1, &[suspect(3, 0, 4)]);
    assert_eq!((alone.status(3), alone.done().notices()), (Status::Dead, vec![]));
    // Who objects in time is not dead when the time is over.
    alone.told(1, &[suspect(2, 0, 3)]);
    alone.run(secs(4));
    alone.told(1, &[Item::Alive(life(2, 1))]);
    alone.run(secs(10));
    assert_eq!(alone.status(2), Status::Alive);
    // And has all its time when it is suspected again.
    alone.told(1, &[suspect(2, 1, 3)]);
    let again = alone.now;
    alone.run(secs(10));
    about(alone.done().when(&Notice::Dead(site(2))).unwrap().saturating_sub(again), 5000.0);
}
