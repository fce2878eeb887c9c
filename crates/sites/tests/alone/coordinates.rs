//! Where a site finds itself to be: Vivaldi, worked out by hand, and what it makes of what others say.

use scope::View;
use sites::{Coordinate, Event, Snapshot};

use super::wire::{Item, Vitals, parts, place};
use super::{Alone, Duration, ms, name, record, secs, site};

/// What a site says of where it is.
pub(crate) fn vitals(number: u32, tick: u32, coordinate: Coordinate) -> Item {
    Item::Vitals(Vitals {
        site: String::new(),
        epoch: record(number).epoch,
        tick,
        coordinate,
        metrics: Vec::new(),
    })
}

fn measure(alone: &mut Alone, number: u32, rtt: Duration) {
    alone.on(Event::Measured { site: site(number), rtt });
}

fn distance(view: &Snapshot, from: u32, to: u32) -> Option<(Duration, f32)> {
    view.distance(view.find(&name(from)).unwrap(), view.find(&name(to)).unwrap())
}

#[test]
fn a_round_trip_moves_a_site_by_its_share_of_what_it_is_off() {
    // Where the other is, the round trip in milliseconds, and where this site is then. The last but one is quite sure of
    // itself; of the third, the estimate is off by more than what was measured, which bounds it.
    let steps = [
        (([30.0, 40.0, 0.0, 0.0], 10.0, 0.5), 100, ([-3.74219, -4.98959, 0.0, 0.0], 1.30363, 1.293_656)),
        (
            ([-20.0, 10.0, 5.0, -5.0], 3.0, 0.3),
            20,
            ([-4.64376, -4.15835, 0.27727, -0.27727], 1.06498, 1.107_43),
        ),
        (
            ([100.0, 0.0, 0.0, 0.0], 1.0, 1.0),
            30,
            ([-0.78189, -4.00489, 0.26704, -0.26704], 0.98877, 1.093_316),
        ),
        (
            ([3.0, -2.0, 8.0, 1.0], 40.0, 0.0),
            200,
            ([-3.62453, -5.51185, -5.54542, -1.21941], 31.7979, 1.007_59),
        ),
        (
            ([0.0, 0.0, 0.0, 10.0], 2.0, 1.5),
            4,
            ([-3.59416, -5.46566, -5.49895, -1.12538], 31.51465, 1.006_828),
        ),
    ];
    let mut alone = Alone::new(5);
    for (number, ((at, height, error), rtt, expected)) in (1..).zip(steps) {
        alone.told(number, &[vitals(number, 1, place(at, height, error))]);
        measure(&mut alone, number, ms(rtt));
        let (at, height, error) = parts(&alone.seen(0).coordinate);
        let close = |a: f32, b: f32| (a - b).abs() < 1e-3;
        let all = at.iter().zip(expected.0).all(|(a, b)| close(*a, b));
        assert!(
            all && close(height, expected.1) && close(error, expected.2),
            "step {number}: {at:?}, {height}, {error}"
        );
    }
}

#[test]
fn who_is_at_the_same_place_is_left_in_any_direction() {
    let (mut up, mut down) = ([0; 4], [0; 4]);
    for seed in 0..24 {
        let mut alone = Alone::with(super::quiet(), 1, seed);
        measure(&mut alone, 1, ms(100));
        // An eighth of the 99.9 ms that it is off by, of which the map takes a tenth.
        let (at, ..) = parts(&alone.seen(0).coordinate);
        for (way, moved) in at.iter().enumerate() {
            assert!(moved.abs() <= 0.5 * 1.25, "{at:?}");
            up[way] += u32::from(*moved > 0.05);
            down[way] += u32::from(*moved < -0.05);
        }
    }
    assert!(up.iter().chain(&down).all(|count| *count > 4), "{up:?} {down:?}");
}

#[test]
fn what_every_way_costs_is_a_quarter_of_a_minute_at_most() {
    let mut alone = Alone::new(1);
    for _ in 0..60 {
        measure(&mut alone, 1, secs(59));
    }
    let (at, height, error) = parts(&alone.seen(0).coordinate);
    assert!(at.iter().all(|one| one.is_finite()) && error < 1.5);
    assert!((14_000.0..=15_000.0).contains(&height), "{height}");
}

#[test]
fn the_distance_between_two_others_is_known_when_both_said_where_they_are() {
    let mut alone = Alone::new(3);
    alone.told(1, &[vitals(1, 1, place([0.0, 0.0, 0.0, 0.0], 1.0, 0.2))]);
    measure(&mut alone, 1, ms(70));
    let view = alone.machine.snapshot();
    assert_eq!(distance(&view, 1, 2), None, "of one nothing is known");
    assert_eq!(distance(&view, 2, 3), None);
    assert_eq!(distance(&view, 0, 1), Some((ms(70), 0.05)), "measured");
    assert_eq!(distance(&view, 1, 0), Some((ms(70), 0.05)));
    alone.told(2, &[vitals(2, 1, place([3.0, 0.0, 0.0, 4.0], 2.0, 0.3))]);
    let view = alone.machine.snapshot();
    let (rtt, error) = distance(&view, 1, 2).unwrap();
    assert!((rtt.as_secs_f64() - 0.008).abs() < 1e-6, "{rtt:?}");
    assert!((error - 0.3).abs() < 1e-6, "{error}");
    assert_eq!(distance(&view, 2, 1), Some((rtt, error)));
    measure(&mut alone, 0, ms(5));
    assert_eq!(alone.seen(0).measured, None, "there is no way to itself");
}

#[test]
fn a_place_that_cannot_be_is_not_believed() {
    let good = place([1.0, 2.0, 3.0, 4.0], 5.0, 0.5);
    let at = |one: f32| place([0.0, 0.0, one, 0.0], 5.0, 0.5);
    let mut alone = Alone::new(1);
    alone.told(1, &[vitals(1, 1, good)]);
    let wrong = [
        at(f32::NAN),
        at(f32::INFINITY),
        at(60_000.0),
        at(-70_000.0),
        place([0.0; 4], f32::NAN, 0.5),
        place([0.0; 4], 60_000.0, 0.5),
        place([0.0; 4], -1.0, 0.5),
        place([0.0; 4], 5.0, f32::NAN),
        place([0.0; 4], 5.0, -0.1),
        place([0.0; 4], 5.0, 1.6),
    ];
    for (tick, wrong) in (2..).zip(wrong) {
        alone.told(1, &[vitals(1, tick, wrong)]);
        assert_eq!(alone.seen(1).coordinate, good, "{wrong:?}");
    }
    for (tick, sane) in (20..).zip([at(59_999.0), at(-59_999.0), place([0.0; 4], 0.0, 1.5)]) {
        alone.told(1, &[vitals(1, tick, sane)]);
        assert_eq!(alone.seen(1).coordinate, sane);
    }
}
