//! Sites as processes: they meet, renew their identities, stop and leave, and go on without a disk.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::fs;

use serde_json::Value;
use support::members::until;
use support::process::{Home, Running};
use support::upstream::Upstream;

fn configuration(site: &str, service: &Upstream, join: &str) -> String {
    format!(
        "site = \"{site}\"\nprofile = \"rest\"\nidentity = \"identity\"\nstate = \"state\"\nthreads = 1\n\
         [link]\nlisten = \"127.0.0.1:0\"\n{join}\n\
         [services.image]\npublic = [\"127.0.0.1:0\"]\nupstreams = [\"http://{}\"]\n",
        service.address
    )
}

/// Two sites that have met.
fn two(service: &Upstream) -> ((Home, Running), (Home, Running)) {
    let first = Home::new();
    first.write(&configuration("Site1", service, ""));
    let mut one = first.run();
    let second = first.another("Site2");
    second.write(&configuration("Site2", service, &format!("join = [\"{}\"]", one.link_address())));
    let mut other = second.run();
    one.has_said("Site2 has joined");
    other.has_said("Site1 has joined");
    ((first, one), (second, other))
}

fn status(home: &Home, of: &str) -> String {
    let sites = home.archipel(&["sites", "--json"]);
    let sites: Value = serde_json::from_slice(&sites.stdout).unwrap();
    let found = sites["sites"].as_array().unwrap().iter().find(|site| site["site"] == of);
    found.map(|site| site["status"].as_str().unwrap().to_owned()).unwrap_or_default()
}

fn zones(home: &Home) -> String {
    String::from_utf8(home.archipel(&["zone", "list"]).stdout).unwrap()
}

#[test]
fn a_site_that_stops_or_is_killed_is_missed_and_one_that_leaves_is_not() {
    let service = Upstream::saying("here");
    let ((first, mut one), (second, mut other)) = two(&service);
    // A restart is no goodbye: a list that lacks this site must still say so.
    other.signal("TERM");
    assert!(other.exit().success(), "{}", other.rest());
    one.until("Site2 is dead");
    assert_eq!(status(&first, "Site2"), "dead");
    let mut other = second.run();
    one.until("Site2 is back");
    assert!(second.archipel(&["leave"]).status.success());
    one.until("Site2 has left");
    assert_eq!(status(&first, "Site2"), "left");
    other.signal("TERM");
    other.exit();
    let mut other = second.run();
    one.until("Site2 is back");
    other.signal("KILL");
    other.exit();
    one.until("Site2 is dead");
    assert_eq!(status(&first, "Site2"), "dead");
    let _other = second.run();
    one.until("Site2 is back");
    until("Site2 is alive", || status(&first, "Site2") == "alive");
}

#[test]
fn an_identity_is_renewed_by_a_signal() {
    let service = Upstream::saying("here");
    let ((first, mut one), (second, mut other)) = two(&service);
    second.init("Site2", &first.path().join("authority"));
    other.signal("HUP");
    other.until("reloaded");
    // What it says now, it says with the new one.
    assert!(second.archipel(&["zone", "set", "west=Site2"]).status.success());
    until("Site1 believes it", || zones(&first) == "west = Site2\n");
    assert!(first.archipel(&["zone", "set", "east=Site1"]).status.success());
    until("Site2 goes on to listen", || zones(&second) == "east = Site1\nwest = Site2\n");
    assert_eq!(status(&first, "Site2"), "alive");
    let said = one.rest();
    assert!(!said.contains("another identity") && !said.contains("does not answer"), "{said}");
}

#[test]
fn a_state_directory_that_fills_up_is_told_once_and_all_goes_on() {
    let service = Upstream::saying("here");
    let ((first, mut one), (second, _other)) = two(&service);
    until("something is kept", || first.path().join("state/members").exists());
    // Where the new file would be written, there is something that is no file: also who may do everything
    // cannot write there.
    fs::create_dir(first.path().join("state/members.new")).unwrap();
    for zone in ["west=Site1", "west=Site2", "west=Site1 & Site2"] {
        let set = first.archipel(&["zone", "set", zone]);
        assert!(set.status.success(), "{set:?}");
    }
    until("the other site knows it", || zones(&second) == "west = Site1 & Site2\n");
    one.until("what is known of the sites cannot be kept");
    assert!(!one.rest().split_once("cannot be kept").unwrap().1.contains("cannot be kept"), "said twice");
    fs::remove_dir(first.path().join("state/members.new")).unwrap();
    assert!(first.archipel(&["zone", "set", "east=Site2"]).status.success());
    one.signal("TERM");
    assert!(one.exit().success());
    let one = first.run();
    assert_eq!(zones(&first), "east = Site2\nwest = Site1 & Site2\n");
    drop(one);
    fs::write(first.path().join("state/members"), b"\x01\xff damaged \x00").unwrap();
    let mut one = first.run();
    assert!(one.rest().contains("what was kept of the sites cannot be read"), "{}", one.rest());
    assert_eq!(zones(&first).trim(), "");
}
