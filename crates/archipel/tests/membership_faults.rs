//! Cuts, splits, silence and slow networks: who is known to be alive, who to be reachable, and what becomes
//! of requests meanwhile.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::net::IpAddr;
use std::time::Duration;

use archipel::demo::World;
use sample::wan::Cut;
use serde_json::json;
use support::members::{
    configure, configured, lasting, list, name, ordered, seen, until, until_seen, until_status,
};

const FINE: [(&str, &str); 2] = [("status", "alive"), ("reach", "reachable")];

/// Waits until sites see each other as they should.
fn until_fine(world: &World, sites: &[usize]) {
    for by in sites {
        for of in sites.iter().filter(|of| *of != by) {
            until_seen(world, &[*by], *of, &FINE.map(|(field, value)| (field, json!(value))));
        }
    }
    world.until_met().unwrap();
}

fn ip(site: usize) -> IpAddr {
    format!("127.1.0.{}", site + 1).parse().unwrap()
}

#[test]
fn both_halves_of_a_split_work_and_merge_by_themselves() {
    let world = World::start().unwrap();
    let fourth = world.add_site().unwrap();
    world.until_met().unwrap();
    let between = [(0, 2), (0, fourth), (1, 2), (1, fourth)];
    let cut = |cut: Option<Cut>| {
        for (one, other) in between {
            world.cut_between(one, other, cut).unwrap();
            world.cut_between(other, one, cut).unwrap();
        }
    };
    cut(Some(Cut::Reset));
    for (half, others) in [([0, 1], [2, fourth]), ([2, fourth], [0, 1])] {
        for of in others {
            until_status(&world, &half, of, "dead");
        }
        let scope = format!("{} & {}", name(half[0]), name(half[1]));
        assert_eq!(list(&world, half[0], &scope).status(), 200, "half of the sites do not work");
        let away = list(&world, half[0], &name(others[0]));
        assert_eq!(away.status(), 503, "{away:?}");
        let partial = list(&world, half[1], "*");
        assert_eq!(partial.status(), 200, "{partial:?}");
        for of in others {
            let missing = format!("\"{}\";error=unreachable", name(of));
            assert!(partial.header("scope-sites").contains(&missing), "{partial:?}");
        }
    }
    // Each half names something; together the names make a circle, which neither could see.
    ordered(&world, 0, &["zone", "set", "red=Site1"]);
    ordered(&world, 2, &["zone", "set", "blue=Site3"]);
    ordered(&world, 0, &["zone", "set", "both=Site1"]);
    ordered(&world, 1, &["zone", "list"]);
    until("the halves agree", || {
        ordered(&world, 1, &["zone", "list"]).lines().count() == 2
            && ordered(&world, fourth, &["zone", "list"]).lines().count() == 1
    });
    ordered(&world, fourth, &["zone", "set", "both=blue"]);
    ordered(&world, 2, &["zone", "set", "red=both"]);
    ordered(&world, 1, &["zone", "set", "blue=red"]);
    cut(None);
    until_fine(&world, &[0, 1, 2, fourth]);
    for by in 0..4 {
        until("the later definitions are everywhere", || {
            ordered(&world, by, &["zone", "list"]) == "blue = red\nboth = blue\nred = both\n"
        });
        until("a circle is refused", || list(&world, by, "red").status() == 400);
    }
    let refused = list(&world, 0, "red");
    assert!(refused.text().contains("red"), "{refused:?}");
    assert_eq!(list(&world, 0, "*").status(), 200, "only who uses it is refused");
    ordered(&world, fourth, &["zone", "set", "both=Site2"]);
    for by in 0..4 {
        until("it is mended", || list(&world, by, "blue").header("x-served-by") == "image@Site2");
    }
}

#[test]
fn a_site_can_be_alive_and_yet_not_be_reachable_from_here() {
    let world = World::start().unwrap();
    for cut in [Cut::Reset, Cut::Stall] {
        // Only what Site1 sends to Site3 is lost.
        world.cut_between(0, 2, Some(cut)).unwrap();
        until_seen(&world, &[0], 2, &[("status", json!("alive")), ("reach", json!("unreachable"))]);
        until("requests fail at once", || {
            let away = list(&world, 0, "Site3");
            away.status() == 503 && away.header("scope-sites").contains("unreachable")
        });
        assert_eq!(list(&world, 0, "Site3 ; Site2").header("x-served-by"), "image@Site2");
        assert!(ordered(&world, 0, &["sites"]).contains("Site3  alive  unreachable"));
        assert_eq!(seen(&world, 1, 2)["reach"], "reachable");
        assert_eq!(list(&world, 1, "Site3").status(), 200, "the others are not concerned");
        world.cut_between(0, 2, None).unwrap();
        until_fine(&world, &[0, 1, 2]);
        assert_eq!(list(&world, 0, "Site3").status(), 200);
    }
}

#[test]
fn a_site_that_accepts_and_never_answers_is_found_out_and_found_again() {
    let world = World::start().unwrap();
    world.cut(2, Some(Cut::Stall)).unwrap();
    // From the first moment on, whoever has another choice is served.
    for by in [0, 1] {
        assert_eq!(list(&world, by, "within(500ms, Site3) ; here").status(), 200);
        until_seen(&world, &[by], 2, &[("reach", json!("unreachable"))]);
        let away = list(&world, by, "Site3 ; here");
        assert_eq!(away.header("x-served-by"), format!("image@{}", name(by)), "{away:?}");
    }
    assert_eq!(list(&world, 2, "here").status(), 200, "its own clients are served");
    world.cut(2, None).unwrap();
    until_fine(&world, &[0, 1, 2]);
    assert_eq!(list(&world, 0, "Site3").status(), 200);
}

#[test]
fn a_link_that_flaps_never_harms_local_requests_and_works_when_it_stops() {
    let world = World::start().unwrap();
    let beats = [Duration::from_millis(150), Duration::from_millis(250)];
    for cut in [Cut::Reset, Cut::Stall] {
        let flapping =
            [(0, 2), (2, 0)].map(|(from, to)| world.network().flap(ip(from), ip(to), cut, beats).unwrap());
        for _ in 0..40 {
            for by in 0..3 {
                assert_eq!(list(&world, by, "here").status(), 200);
            }
            assert_eq!(list(&world, 0, "within(300ms, Site3) ; Site2").status(), 200);
        }
        drop(flapping);
        until_fine(&world, &[0, 1, 2]);
        assert_eq!(list(&world, 0, "Site3").status(), 200);
    }
}

#[test]
fn nobody_is_dead_for_a_slow_network_that_loses_some() {
    let world = World::start().unwrap();
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        world.shape(one, other, |shape| {
            (shape.delay, shape.loss_per_million) = (Duration::from_millis(150), 50_000);
        });
    }
    // The sites notice: that takes some round trips, in which somebody could be called dead.
    let known = |by: usize| -> Vec<String> {
        (0..3).map(|of| seen(&world, by, of)["status"].as_str().unwrap_or_default().to_owned()).collect()
    };
    for (by, of) in [(0, 1), (0, 2), (1, 2), (2, 0)] {
        until("the distance is known", || {
            assert!(known(by).iter().all(|status| status != "dead"), "{:?}", known(by));
            seen(&world, by, of)["rtt_ms"].as_f64().is_some_and(|rtt| rtt > 290.0)
        });
    }
    assert_eq!(list(&world, 0, "Site2 & Site3").status(), 200);
}

/// Datagrams do not get through, as behind many firewalls: what the file says is what there is.
#[test]
fn peers_of_the_file_work_together_without_any_datagram() {
    let world = World::start().unwrap();
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        world.shape(one, other, |shape| shape.loss_per_million = 1_000_000);
    }
    for site in 0..3 {
        world.stop_mesh(site, Duration::ZERO).unwrap();
        std::fs::remove_file(world.home(&name(site)).join("state/members")).unwrap();
    }
    let addresses = [0, 1, 2].map(|site| configured(&world, site, "advertise"));
    for site in 0..3 {
        configure(&world, site, |mut text| {
            for other in (0..3).filter(|other| *other != site) {
                text += &format!("\n[peers.{}]\naddress = \"{}\"\n", name(other), addresses[other]);
            }
            text
        });
        world.start_mesh(site).unwrap();
    }
    for by in 0..3 {
        for of in (0..3).filter(|of| *of != by) {
            until("requests work", || list(&world, by, &name(of)).status() == 200);
            assert_eq!(seen(&world, by, of)["status"], "configured");
        }
    }
    until("so do those to all", || {
        let all = list(&world, 0, "*");
        all.status() == 200 && !all.header("scope-sites").contains("error")
    });
    // Once they pass, the sites meet.
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        world.shape(one, other, |shape| shape.loss_per_million = 0);
    }
    until_fine(&world, &[0, 1, 2]);
    let (sites, _) = lasting(&world, 0);
    assert_eq!(sites.len(), 3, "{sites:?}");
}
