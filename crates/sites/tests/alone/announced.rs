//! When it is announced that something changed: a move alone not at once, and not if it is small.

use sites::{Coordinate, Event};

use super::coordinates::vitals;
use super::wire::place;
use super::{Alone, ms, secs, site};

fn at(plane: f32, height: f32) -> Coordinate {
    place([plane, 0.0, 0.0, 0.0], height, 0.5)
}

/// Time passes, and something happens.
fn later(alone: &mut Alone, after: u64) -> bool {
    alone.run(ms(after));
    alone.on(Event::Tick);
    alone.done().changed()
}

#[test]
fn another_sites_move_is_announced_if_it_is_more_than_a_millisecond() {
    let moves = [
        ((10.0, 10.0), (11.5, 10.0), true),
        ((10.0, 10.0), (8.5, 10.0), true),
        ((10.0, 10.0), (11.0, 10.0), false),
        ((10.0, 10.0), (10.9, 10.0), false),
        ((10.0, 10.0), (10.0, 12.0), true),
        ((10.0, 10.0), (10.0, 8.0), true),
        ((10.0, 10.0), (10.0, 9.5), false),
        ((10.0, 10.0), (10.0, 10.5), false),
        ((10.0, 10.0), (10.0, 10.0), false),
        ((10.0, 10.0), (10.6, 10.6), true),
        ((10.0, 10.0), (10.6, 9.4), true),
        ((10.0, 10.0), (10.3, 9.7), false),
    ];
    for (from, to, shown) in moves {
        let mut alone = Alone::new(1);
        alone.told(1, &[vitals(1, 1, at(from.0, from.1))]);
        assert!(later(&mut alone, 10_000));
        alone.told(1, &[vitals(1, 2, at(to.0, to.1))]);
        alone.told(1, &[vitals(1, 3, at(to.0, to.1))]);
        assert_eq!(later(&mut alone, 10_000), shown, "from {from:?} to {to:?}");
    }
}

#[test]
fn a_move_is_announced_after_five_seconds_and_a_first_distance_after_half_of_one() {
    let mut alone = Alone::new(3);
    assert!(!later(&mut alone, 60_000), "nothing happened");
    // Nothing was announced for long: it is at once.
    alone.told(1, &[vitals(1, 1, at(10.0, 1.0))]);
    assert!(later(&mut alone, 0));
    alone.told(1, &[vitals(1, 2, at(20.0, 1.0))]);
    // What follows and is small takes nothing back.
    alone.told(1, &[vitals(1, 3, at(20.0, 1.0))]);
    assert!(!later(&mut alone, 4990));
    assert!(later(&mut alone, 10));
    assert!(!later(&mut alone, 60_000));
    // So near that nothing moves; but how far it is was not known.
    alone.on(Event::Quarantine { site: site(3), on: true });
    assert!(later(&mut alone, 0));
    for number in [1, 2] {
        alone.on(Event::Measured { site: site(number), rtt: ms(1) });
    }
    assert!(!later(&mut alone, 490));
    assert!(later(&mut alone, 10));
    alone.on(Event::Measured { site: site(2), rtt: ms(1) });
    assert!(!later(&mut alone, 60_000), "it is known");
}

/// Round trips of 2 ms, and then some of so many microseconds: whether that is announced.
fn shown_after_two_ms(us: u64, times: usize) -> bool {
    let mut alone = Alone::new(2);
    let measure = |alone: &mut Alone, us: u64| {
        alone.on(Event::Measured { site: site(1), rtt: std::time::Duration::from_micros(us) });
    };
    for _ in 0..30 {
        measure(&mut alone, 2000);
        alone.run(secs(10));
    }
    later(&mut alone, 10_000);
    assert!(!later(&mut alone, 10_000));
    for _ in 0..times {
        measure(&mut alone, us);
    }
    later(&mut alone, 0)
}

#[test]
fn another_round_trip_is_announced_when_it_is_not_the_only_one() {
    assert!(!shown_after_two_ms(2000, 3));
    assert!(!shown_after_two_ms(3000, 3), "a millisecond more is little");
    assert!(shown_after_two_ms(3001, 2));
    assert!(shown_after_two_ms(3001, 3), "what is measured again takes nothing back");
    assert!(!shown_after_two_ms(40_000, 1), "one slow answer says little");
    assert!(shown_after_two_ms(900, 2));
}

#[test]
fn the_own_move_is_announced_if_it_is_more_than_a_millisecond() {
    // The same round trip again and again: what is moved is where this site is.
    let mut alone = Alone::new(1);
    let measure = |alone: &mut Alone| alone.on(Event::Measured { site: site(1), rtt: ms(100) });
    measure(&mut alone);
    assert!(later(&mut alone, 10_000));
    measure(&mut alone);
    assert!(later(&mut alone, 10_000), "it moved by some milliseconds");
    for _ in 0..100 {
        measure(&mut alone);
    }
    later(&mut alone, 10_000);
    measure(&mut alone);
    assert!(!later(&mut alone, 10_000), "it is where it is");
}
