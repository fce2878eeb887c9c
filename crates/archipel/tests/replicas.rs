//! Replicated images as clients and operators see them: one id, commands that show and move replicas, and a word
//! when all have executed something.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::sync::mpsc::channel;

use archipel::demo::World;
use sample::wan::Cut;
use serde_json::Value;
use support::members::{ordered, refused, until};
use support::upstream::Upstream;
use support::{Message, PATIENCE, ask, get};

fn image(world: &World, name: &str, scope: &str) -> Message {
    let at = world.address(0, "image").unwrap();
    let made =
        ask(at, "POST", "/images", &[("x-scope", scope)], &format!("{{\"name\":\"{name}\"}}")).unwrap();
    assert_eq!(made.status(), 201, "{made:?}");
    made
}

fn shown(world: &World, site: usize, resource: &str) -> Value {
    serde_json::from_str(&ordered(world, site, &["replicas", "show", resource, "--json"])).unwrap()
}

/// How the replica at a site is, as a site sees it.
fn state(world: &World, by: usize, resource: &str, of: &str) -> String {
    let shown = shown(world, by, resource);
    let places = shown["sites"].as_array().unwrap();
    let place = places.iter().find(|place| place["site"] == of);
    place.map_or_else(String::new, |place| place["state"].as_str().unwrap().to_owned())
}

#[test]
fn an_operator_sees_moves_and_lets_go_of_replicas() {
    let world = World::start().unwrap();
    let id = image(&world, "debian", "image: Site1 & Site2").field("id");
    let resource = format!("image:/images/{id}");
    until("both have it", || state(&world, 0, &resource, "Site2") == "good");
    let listed = ordered(&world, 1, &["replicas", "list"]);
    assert!(listed.contains(&resource) && listed.contains("Site1, Site2"), "{listed}");
    let compared = ordered(&world, 0, &["replicas", "diff", &resource, "--json"]);
    let compared: Value = serde_json::from_str(&compared).unwrap();
    assert_eq!(compared["sites"][0]["digest"], compared["sites"][1]["digest"], "{compared}");

    ordered(&world, 0, &["replicas", "move", &resource, "--from", "Site2", "--to", "Site3", "--wait"]);
    let local = |site: usize| {
        let answer = get(world.address(site, "image").unwrap(), &format!("/images/{id}"), &[]);
        (answer.status(), answer.header("x-served-by").to_owned())
    };
    until("Site3 serves it", || local(2) == (200, "image@Site3".to_owned()));
    until("Site2 does not", || local(1).1 != "image@Site2" || local(1).0 == 404);
    let already = refused(&world, 0, &["replicas", "extend", &resource, "--to", "Site3"]);
    assert!(already.contains("has a replica already"), "{already}");
    let nowhere = refused(&world, 0, &["replicas", "extend", &resource, "--to", "Site9"]);
    assert!(nowhere.contains("there is no site Site9"), "{nowhere}");
    let unknown = refused(&world, 0, &["replicas", "show", "image:/images/nothing"]);
    assert!(unknown.contains("nothing of that name"), "{unknown}");

    ordered(&world, 0, &["replicas", "detach", &resource]);
    let renamed = |site: usize, name: &str| {
        let at = world.address(site, "image").unwrap();
        ask(at, "PATCH", &format!("/images/{id}"), &[], &format!("{{\"name\":\"{name}\"}}")).unwrap()
    };
    assert_eq!(renamed(0, "mine").status(), 200);
    assert_eq!(get(world.address(0, "image").unwrap(), &format!("/images/{id}"), &[]).field("name"), "mine");
}

#[test]
fn what_waits_for_a_site_is_shown_and_a_webhook_hears_when_all_have_executed_it() {
    let (told, heard) = channel();
    let webhook = Upstream::start(move |request| {
        let _ = told.send((request.path().to_owned(), request.text()));
        (200, String::new())
    });
    let settings = format!(
        "[timeouts]\npeer_response = \"2s\"\n[replication]\nwebhook = \"http://{}/done\"\n",
        webhook.address
    );
    let world = World::start_with(&settings).unwrap();
    world.cut(1, Some(Cut::Reset)).unwrap();
    let made = image(&world, "debian", "image: Site1 & Site2");
    assert!(made.header("scope-sites").contains("\"Site2\";pending"), "{made:?}");
    let operation = made.header("scope-operation").to_owned();
    let waiting: Value =
        serde_json::from_str(&ordered(&world, 0, &["operations", "list", "--json"])).unwrap();
    assert_eq!(waiting["pending"][0]["site"], "Site2", "{waiting}");
    let fate = get(world.address(0, "image").unwrap(), &format!("/_scope/operations/{operation}"), &[]);
    assert!(fate.text().contains("pending"), "{fate:?}");
    assert!(heard.try_recv().is_err(), "it was told too early");
    world.cut(1, None).unwrap();
    let (path, text) = heard.recv_timeout(2 * PATIENCE).unwrap();
    assert_eq!(path, "/done");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["operation"], operation.as_str());
    assert_eq!(document["sites"], serde_json::json!(["Site1", "Site2"]));
    let shown = ordered(&world, 0, &["operations", "show", &operation]);
    assert!(!shown.contains("pending") && shown.contains("done"), "{shown}");
    assert_eq!(ordered(&world, 0, &["operations", "list"]).trim(), "nothing waits, and nothing is in doubt");
}
