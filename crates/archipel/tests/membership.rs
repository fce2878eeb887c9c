//! Sites that find each other, lose each other, and tell each other about themselves.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use archipel::demo::World;
use serde_json::{Value, json};
use support::members::{
    configure, configured, counted, list, name, ordered, refused, seen, until, until_seen, until_status,
};

#[test]
fn a_site_joins_by_one_address_leaves_dies_and_returns() {
    let world = World::start().unwrap();
    ordered(&world, 0, &["zone", "set", "west=Site1 & Site2"]);
    let fourth = world.add_site().unwrap();
    configure(&world, fourth, |text| format!("version = \"2025.2\"\n{text}\n[labels]\nregion = \"eu\"\n"));
    world.reload_mesh(fourth).unwrap();
    let facts = [
        ("status", json!("alive")),
        ("reach", json!("reachable")),
        ("services", json!(["compute", "image"])),
        ("kind", json!("sample")),
        ("kind_version", json!("2025.2")),
        ("archipel", json!(env!("CARGO_PKG_VERSION"))),
        ("labels", json!({ "region": "eu" })),
        ("address", json!(configured(&world, fourth, "advertise").to_string())),
    ];
    until_seen(&world, &[0, 1, 2], fourth, &facts);
    // Each measures the emulated delay, or more on a busy machine; what is estimated comes near it.
    for (by, rtt_ms) in [(0, 30.0), (1, 50.0), (2, 70.0)] {
        until("the distance of Site4 is known", || {
            let far = seen(&world, by, fourth)["rtt_ms"].as_f64();
            far.is_some_and(|far| far > rtt_ms * 0.9 && far < rtt_ms * 2.0)
        });
    }
    world.until_met().unwrap();
    assert_eq!(list(&world, 2, "where(region = eu)").header("x-served-by"), "image@Site4");

    // As people and as programs see it.
    let table = ordered(&world, 1, &["sites"]);
    let row = table.lines().find(|line| line.starts_with("Site4")).unwrap();
    assert!(row.contains("alive  reachable") && row.ends_with("compute, image"), "{table}");
    assert!(table.lines().any(|line| line.starts_with("Site2  alive  here")), "{table}");
    let json: Value = serde_json::from_str(&ordered(&world, 1, &["sites", "--json"])).unwrap();
    assert_eq!((&json["here"], json["sites"].as_array().unwrap().len()), (&json!("Site2"), 4));

    // It says goodbye, and comes back.
    ordered(&world, fourth, &["leave"]);
    until_status(&world, &[0, 1, 2], fourth, "left");
    until("nobody asks it", || list(&world, 0, "Site4").status() == 400);
    assert_eq!(list(&world, fourth, "here").status(), 200, "its own clients are served");
    let seed = configured(&world, 1, "advertise").to_string();
    ordered(&world, fourth, &["join", &seed]);
    until_status(&world, &[0, 1, 2], fourth, "alive");
    assert!(refused(&world, fourth, &["join", "nonsense"]).contains("nonsense"));

    // It dies, and comes back with all that it knew.
    world.stop_mesh(fourth, Duration::ZERO).unwrap();
    until_status(&world, &[0, 1, 2], fourth, "dead");
    let gone = list(&world, 0, "Site4");
    assert_eq!(gone.status(), 503, "{gone:?}");
    assert!(gone.header("scope-sites").contains("\"Site4\";error=unreachable"), "{gone:?}");
    assert_eq!(list(&world, 0, "Site4 ; Site2").header("x-served-by"), "image@Site2");
    world.start_mesh(fourth).unwrap();
    assert_eq!(ordered(&world, fourth, &["zone", "list"]), "west = Site1 & Site2\n");
    until_seen(&world, &[0, 1, 2], fourth, &[("status", json!("alive")), ("reach", json!("reachable"))]);
    world.until_met().unwrap();
    assert_eq!(list(&world, 0, "Site4").header("x-served-by"), "image@Site4");
}

#[test]
fn all_sites_restarted_know_what_was_said_and_find_each_other_without_the_first() {
    let world = World::start().unwrap();
    let fourth = world.add_site().unwrap();
    world.until_met().unwrap();
    world.authority().save(&world.home("authority")).unwrap();
    ordered(&world, 0, &["zone", "set", "west=Site1 & Site2"]);
    ordered(&world, 1, &["quarantine", "Site1"]);
    let authority = world.home("authority").display().to_string();
    ordered(&world, 2, &["revoke", "Site4", "--authority", &authority]);
    let zones = || [0, 1, 2].map(|site| ordered(&world, site, &["zone", "list"]));
    until("all have the zone", || zones().iter().all(|zones| zones == "west = Site1 & Site2\n"));
    until_status(&world, &[0, 1, 2], fourth, "revoked");
    until_seen(&world, &[0, 1, 2], 0, &[("quarantined", json!(true))]);
    for site in 0..4 {
        world.stop_mesh(site, Duration::ZERO).unwrap();
    }

    // The one that the others were told to join by stays away.
    for site in [fourth, 1, 2] {
        world.start_mesh(site).unwrap();
    }
    until_seen(&world, &[1], 2, &[("status", json!("alive")), ("reach", json!("reachable"))]);
    until_seen(&world, &[2], 1, &[("status", json!("alive")), ("reach", json!("reachable"))]);
    until("they work together", || list(&world, 1, "Site3").header("x-served-by") == "image@Site3");
    for site in [1, 2] {
        assert_eq!(ordered(&world, site, &["zone", "list"]), "west = Site1 & Site2\n");
        assert_eq!(seen(&world, site, 0)["quarantined"], true);
        // The stolen box greets those that it knew, and is not believed.
        let before = counted(&world, site, "archipel_datagrams_refused_total");
        until("its datagrams are refused", || {
            counted(&world, site, "archipel_datagrams_refused_total") > before
        });
        assert_ne!(seen(&world, site, fourth)["status"], "alive");
    }
    until("it is no site any more", || list(&world, 1, "Site4").status() == 400);
    world.start_mesh(0).unwrap();
    until_seen(&world, &[1, 2], 0, &[("status", json!("alive")), ("quarantined", json!(true))]);
    assert_eq!(ordered(&world, 0, &["zone", "list"]), "west = Site1 & Site2\n");
}

#[test]
fn a_site_whose_identity_is_renewed_while_it_runs_goes_on() {
    let world = World::start().unwrap();
    let fingerprint = |by: usize| {
        let view = world.seen_by(by).unwrap();
        view.heard().unwrap().site("Site2").unwrap().record.fingerprint
    };
    let old = fingerprint(1);
    world.renew_identity(1).unwrap();
    world.reload_mesh(1).unwrap();
    until("Site2 has a new identity", || fingerprint(1) != old);
    until("the others know it", || [0, 2].iter().all(|by| fingerprint(*by) == fingerprint(1)));
    until_seen(&world, &[0, 2], 1, &[("status", json!("alive")), ("reach", json!("reachable"))]);
    until("it is asked", || list(&world, 0, "Site2").status() == 200);
    until("it asks", || list(&world, 1, "Site3").status() == 200);
    // News from it and to it goes on too.
    ordered(&world, 1, &["zone", "set", "mine=Site2"]);
    ordered(&world, 0, &["zone", "set", "yours=Site1"]);
    for by in 0..3 {
        until("the zones are known", || {
            ordered(&world, by, &["zone", "list"]) == "mine = Site2\nyours = Site1\n"
        });
    }
    // So does it after a restart, with one more.
    let old = fingerprint(1);
    world.stop_mesh(1, Duration::ZERO).unwrap();
    world.renew_identity(1).unwrap();
    world.start_mesh(1).unwrap();
    until("the others know the next one", || {
        fingerprint(1) != old && [0, 2].iter().all(|by| fingerprint(*by) == fingerprint(1))
    });
    world.until_met().unwrap();
}

#[test]
fn metrics_and_distances_place_requests() {
    let world = World::start().unwrap();
    configure(&world, 2, |text| format!("{text}\n[metrics]\nfile = \"metrics\"\n"));
    std::fs::write(world.home(&name(2)).join("metrics"), "load 0.1\n").unwrap();
    world.reload_mesh(2).unwrap();
    ordered(&world, 0, &["metric", "load=0.7", "price=3"]);
    ordered(&world, 1, &["metric", "load=0.4"]);
    until_seen(&world, &[0, 1, 2], 0, &[("metrics", json!({ "load": 0.7, "price": 3.0 }))]);
    until_seen(&world, &[0, 1, 2], 2, &[("metrics", json!({ "load": 0.1 }))]);
    until_seen(&world, &[0, 1, 2], 1, &[("metrics", json!({ "load": 0.4 }))]);
    for by in 0..3 {
        until("the least loaded is asked", || {
            list(&world, by, "by(load, *)").header("x-served-by") == "image@Site3"
        });
    }
    std::fs::write(world.home(&name(2)).join("metrics"), "load 0.9\n").unwrap();
    ordered(&world, 0, &["metric", "load=0.2", "price="]);
    until_seen(&world, &[0, 1, 2], 0, &[("metrics", json!({ "load": 0.2 }))]);
    until("another is the least loaded", || {
        list(&world, 1, "by(load, *)").header("x-served-by") == "image@Site1"
    });
    let why = refused(&world, 0, &["metric", "load=much"]);
    assert!(why.contains("load=0.7"), "{why}");

    // Site3 never measured how far Site1 and Site2 are from each other: 20 ms. It is itself 40 ms away.
    until("Site3 knows who is around Site2", || {
        let sites = list(&world, 2, "all(around(Site2, 30ms))").header("scope-sites").to_owned();
        sites.contains("Site1") && sites.contains("Site2") && !sites.contains("Site3")
    });
}
