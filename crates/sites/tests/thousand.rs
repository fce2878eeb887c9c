//! A thousand sites around the planet, with 1 % of datagrams lost: the aims, counted in simulated time.

mod planet;

use std::time::Duration;

use planet::Planet;
use planet::figures::percentile;

#[test]
fn a_thousand_sites_hear_of_joins_leaves_and_crashes_in_time() {
    let (count, rounds) = (1000, 10);
    let mut planet = Planet::acquainted(count + rounds, count, 1);
    planet.run_for(Duration::from_secs(30));
    let since = planet.reset_counts();

    let (mut heard, mut crashes) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        planet.join(count + round);
        planet.run_for(Duration::from_secs(2));
        heard.push(planet.spread(count + round).all);

        let gone = planet.random_up();
        planet.leave(gone);
        planet.run_for(Duration::from_secs(2));
        planet.crash(gone);
        heard.push(planet.spread(gone).all);
    }
    for _ in 0..3 {
        let victim = planet.random_up();
        planet.watch(victim);
        planet.crash(victim);
        planet.run_for(Duration::from_secs(10));
        crashes.push(planet.spread(victim).all);
    }
    heard.sort();
    assert!(percentile(&heard, 0.99).unwrap() < Duration::from_secs(1), "joins and leaves: {heard:?}");
    assert!(crashes.iter().all(|time| *time < Duration::from_secs(10)), "crashes: {crashes:?}");
    assert_eq!(planet.false_deaths, 0);
    let bytes = planet.bytes_per_second(since);
    assert!(bytes < 5000.0, "{bytes} bytes per site and second");
    assert!(planet.largest_datagram <= sites::DATAGRAM_BYTES);
}

/// Fewer sites, for longer: where a site is shows after some minutes. `./bench sites` says it of more.
#[test]
fn distances_between_others_are_known_within_a_tenth() {
    let mut planet = Planet::acquainted(200, 200, 1);
    planet.run_for(Duration::from_mins(5));
    let errors = planet.distance_errors(5000);
    let error = percentile(&errors, 0.5).unwrap();
    assert!(error < 0.1, "distances are off by {error}");
    assert_eq!(planet.false_deaths, 0);
}
