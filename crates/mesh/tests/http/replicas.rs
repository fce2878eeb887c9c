//! Replicated resources, as clients of three sites see them: A and B have replicas, C has none.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use mesh::{Replication, Settings};
use profile::Profile;
use sample::image::{Image, Settings as ImageSettings};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{ANY_PORT, Conn, Isles, Message, nowhere, until};

const SITES: [&str; 3] = ["A", "B", "C"];

/// Three sites, each with an image service.
struct World {
    isles: Isles,
    services: Vec<sample::Handle>,
    _directory: TempDir,
}

/// The site keeps replicas, below this directory.
pub fn replicating(settings: &mut Settings, root: &Path) {
    let directory = root.join(settings.site.name());
    std::fs::create_dir_all(&directory).unwrap();
    settings.replication = Some(Replication {
        accept_from: None,
        directory,
        quota: 1 << 20,
        inline: 1 << 16,
        // These services ask for none.
        credentials: BTreeMap::from([("image".to_owned(), Vec::new())]),
        webhook: None,
    });
}

fn ask(mut client: Conn, line: &str, scope: &str, body: &str) -> Message {
    let scope = if scope.is_empty() { String::new() } else { format!("X-Scope: image: {scope}\r\n") };
    let length = body.len();
    client.send(format!(
        "{line} HTTP/1.1\r\nHost: x\r\n{scope}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    client.answer_to(line)
}

impl World {
    fn new() -> World {
        World::without(&[], &[])
    }

    /// The services of some sites cannot be reached, and some keep no replicas.
    fn without(services_at: &[&str], replication_at: &[&str]) -> World {
        let directory = tempfile::tempdir().unwrap();
        let services: Vec<_> = SITES
            .iter()
            .map(|_| sample::Handle::spawn_thread(Image::new(&ImageSettings::default()), ANY_PORT).unwrap())
            .collect();
        let addresses: Vec<SocketAddr> = services
            .iter()
            .zip(SITES)
            .map(|(service, site)| if services_at.contains(&site) { nowhere() } else { service.address() })
            .collect();
        let root = directory.path().to_owned();
        let isles = Isles::at([addresses[0], addresses[1], addresses[2]], |settings| {
            if replication_at.contains(&settings.site.name()) {
                return;
            }
            settings.profile.kinds = Profile::named("sample").unwrap().kinds;
            replicating(settings, &root);
        });
        isles.acquaint();
        World { isles, services, _directory: directory }
    }

    /// A client of a site asks, with a scope or with none.
    fn at(&self, site: &str, line: &str, scope: &str, body: &str) -> Message {
        let index = SITES.iter().position(|name| *name == site).unwrap();
        ask(self.isles.connect_to(index), line, scope, body)
    }

    /// A new image, whose id is told once every replica is there.
    fn make(&self, site: &str, scope: &str) -> String {
        let answer = self.at(site, "POST /images", scope, r#"{"name":"one"}"#);
        assert_eq!(answer.status(), 201, "{}", answer.text());
        let id = json(&answer)["id"].as_str().unwrap().to_owned();
        // In their lists, which are their own: what is not at a site yet is read from another.
        for site in ["A", "B"] {
            until(&format!("it is at {site}"), || self.ids(site, "") == [&*id]);
        }
        id
    }

    /// The ids and names that a site's service has, as it knows them.
    fn own(&self, site: &str) -> Vec<(String, String)> {
        let index = SITES.iter().position(|name| *name == site).unwrap();
        let list = ask(Conn::to(self.services[index].address()), "GET /images", "", "");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let images = json(&list)["images"].as_array().unwrap().clone();
        images.iter().map(|image| (text(&image["id"]), text(&image["name"]))).collect()
    }

    fn ids(&self, site: &str, scope: &str) -> Vec<String> {
        let list = self.at(site, "GET /images", scope, "");
        assert_eq!(list.status(), 200, "{}", list.text());
        let images = json(&list)["images"].as_array().unwrap().clone();
        images.iter().map(|image| image["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until the services of A and B have just one image, of this name.
    fn both_say(&self, name: &str) {
        for site in ["A", "B"] {
            until(
                &format!("{site} says {name}"),
                || matches!(&self.own(site)[..], [(_, own)] if own == name),
            );
        }
    }
}

fn json(answer: &Message) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("{}", answer.text()))
}

#[test]
fn a_resource_on_two_sites_has_one_id_everywhere_and_no_local_one_is_seen() {
    let world = World::new();
    for (made_at, scope) in [("A", "A & B"), ("B", "(B & (A ; C)) ; C"), ("C", "A & B")] {
        let id = world.make(made_at, scope);
        let has = |site: &str, id: &str| world.own(site).iter().any(|(own, _)| own == id);
        let others: Vec<&str> = ["A", "B"].into_iter().filter(|site| !has(site, &id)).collect();
        assert_eq!(others.len(), 1, "it has the id that the first replica's service gave it");
        for site in ["A", "B"] {
            assert_eq!(world.ids(site, ""), [&*id], "at {site}");
            let image = json(&world.at(site, &format!("GET /images/{id}"), "", ""));
            assert_eq!((image["id"].as_str(), image["name"].as_str()), (Some(&*id), Some("one")));
        }
        for site in SITES {
            assert_eq!(world.ids(site, "A & B & C"), [&*id], "once, for a client of {site}");
            assert_eq!(json(&world.at(site, &format!("GET /images/{id}"), "B", ""))["id"], *id);
        }
        let local = world.own(others[0])[0].0.clone();
        for (site, scope) in [(others[0], ""), ("C", others[0])] {
            let hidden = world.at(site, &format!("GET /images/{local}"), scope, "");
            hidden.assert_problem(404, "not-found");
            world.at(site, &format!("DELETE /images/{local}"), scope, "").assert_problem(404, "not-found");
        }
        assert!(world.own("C").is_empty());
        assert_eq!(world.at("B", &format!("DELETE /images/{id}"), "", "").status(), 204);
        for site in ["A", "B"] {
            until("it is gone", || world.own(site).is_empty());
            until("it is gone for clients", || {
                world.at(site, &format!("GET /images/{id}"), "", "").status() == 404
            });
        }
    }
}

#[test]
fn a_write_from_any_site_reaches_every_replica_whatever_its_scope() {
    let world = World::new();
    let id = world.make("A", "A & B");
    let line = format!("PATCH /images/{id}");
    for (number, (site, scope)) in
        [("A", ""), ("B", ""), ("B", "A"), ("A", "C"), ("C", "B"), ("C", "A | B"), ("C", "A & B")]
            .into_iter()
            .enumerate()
    {
        let name = format!("name {number}");
        let answer = world.at(site, &line, scope, &json!({ "name": name }).to_string());
        assert_eq!(answer.status(), 200, "{site} {scope}: {}", answer.text());
        assert_eq!(json(&answer)["id"], *id, "{site} {scope}");
        let sites = answer.field("scope-sites").unwrap_or_default();
        assert!(sites.contains("\"A\"") && sites.contains("\"B\""), "{site} {scope}: {sites}");
        world.both_say(&name);
    }
    let answer = world.at("B", &format!("PUT /images/{id}/file"), "", "content");
    assert!(answer.status() < 300, "{}", answer.text());
    let file = || world.at("A", &format!("GET /images/{id}/file"), "", "");
    until("the file is at A", || file().body == b"content");
}

#[test]
fn who_has_read_what_is_not_at_the_site_yet_can_write_to_it() {
    let world = World::without(&["A", "B"], &[]);
    let made = world.at("C", "POST /images", "A & B & C", r#"{"name":"one"}"#);
    assert_eq!(made.status(), 201, "{}", made.text());
    let path = format!("/images/{}", json(&made)["id"].as_str().unwrap());
    for site in ["A", "B"] {
        until(&format!("{site} knows it"), || world.at(site, &format!("GET {path}"), "", "").status() == 200);
    }
    // B asks A first, which has yet to make it, too.
    for (site, method, below, body) in
        [("B", "PUT", "/file", "content"), ("B", "PATCH", "", r#"{"name":"two"}"#), ("A", "DELETE", "", "")]
    {
        let answer = world.at(site, &format!("{method} {path}{below}"), "", body);
        assert!(answer.status() < 300, "{method} at {site}: {}", answer.text());
    }
    assert!(world.own("C").is_empty(), "all were executed there");
    let late = world.at("C", &format!("PATCH {path}"), "", r#"{"name":"three"}"#);
    assert_eq!(late.status(), 404, "{}", late.text());
}

#[test]
fn a_site_that_knows_nothing_of_a_resource_is_not_asked_what_it_thinks_of_it() {
    let world = World::without(&["B"], &["A"]);
    let made = world.at("C", "POST /images", "A & B & C", r#"{"name":"one"}"#);
    assert_eq!(made.status(), 201, "{}", made.text());
    let path = format!("/images/{}", json(&made)["id"].as_str().unwrap());
    let read = || world.at("B", &format!("GET {path}"), "", "");
    // Until B has heard of it, it has only its own service to ask, which is not there.
    until("B has it from C", || read().status() == 200);
    for _ in 0..3 {
        assert_eq!(read().status(), 200);
        let answer = world.at("B", &format!("PATCH {path}"), "", r#"{"name":"two"}"#);
        assert_eq!(answer.status(), 200, "{}", answer.text());
    }
    assert!(world.own("A").is_empty());
}

#[test]
fn what_became_of_a_write_can_be_asked_for_at_its_address() {
    let world = World::new();
    let answer = world.at("A", "POST /images", "A & B", r#"{"name":"one"}"#);
    let operation = answer.field("scope-operation").unwrap();
    assert!(operation.starts_with("A/"), "{operation}");
    let fate = world.at("A", &format!("GET /_scope/operations/{operation}"), "", "");
    if fate.status() == 200 {
        assert_eq!(json(&fate)["operation"], *operation);
        let site =
            |name: &str| json(&fate)["sites"].as_array().unwrap().iter().any(|site| site["site"] == *name);
        assert!(site("A") && site("B"), "{}", fate.text());
    } else {
        // Every replica has executed it: it is forgotten.
        fate.assert_problem(404, "no-such-operation");
    }
    world.at("A", "GET /_scope/operations/A/999", "", "").assert_problem(404, "no-such-operation");
}

#[test]
fn a_replicated_write_is_tried_elsewhere_only_where_nothing_was_executed() {
    let world = World::new();
    let answer = world.at("C", "POST /images", "(A & B) ; C", r#"{"name":"one"}"#);
    assert_eq!(answer.status(), 201, "{}", answer.text());
    world.both_say("one");
    assert!(world.own("C").is_empty());
    world.at("C", "POST /images", "A ^ (B & C)", "{}").assert_problem(422, "unsupported-plan");
    // What is wrong with a request is so everywhere: no other site is asked.
    let answer = world.at("A", "POST /images", "A", r#"{"name":"alone"}"#);
    let alone = format!("DELETE /images/{}", json(&answer)["id"].as_str().unwrap());
    world.at("C", &alone, "(A & B) ; C", "").assert_problem(422, "not-replicable");
    world.at("A", &alone, "(A & B) ; C", "").assert_problem(422, "not-replicable");
    assert_eq!(world.own("A").len(), 2, "nothing was deleted");
}

#[test]
fn a_write_to_several_sites_of_what_is_nowhere_is_told_as_a_service_tells_it() {
    let world = World::new();
    let nowhere = "/images/0b7a4e0c-0000-4000-8000-000000000001";
    for made in [false, true] {
        if made {
            world.make("A", "A & B");
        }
        for site in SITES {
            let of_service = world.at(site, &format!("GET {nowhere}"), site, "");
            assert_eq!(of_service.status(), 404);
            for (method, below, body) in
                [("DELETE", "", ""), ("PATCH", "", r#"{"name":"x"}"#), ("PUT", "/file", "x")]
            {
                let answer = world.at(site, &format!("{method} {nowhere}{below}"), "A & B", body);
                assert_eq!(answer.status(), 404, "{method} at {site}: {}", answer.text());
                assert_eq!(answer.text(), of_service.text(), "{method} at {site}");
            }
        }
    }
}

#[test]
fn ordered_writes_and_confirmed_reads_find_their_way_from_a_site_without_a_replica() {
    let world = World::new();
    for (level, made_at) in [("@quorum", "C"), ("@strong", "B")] {
        let scope = format!("(A & B) {level}");
        let id = world.make(made_at, &scope);
        for (site, name) in [("A", "two"), ("B", "three"), ("C", "four")] {
            // C never had a replica: its clients name sites that have.
            let own = if site == "C" { scope.as_str() } else { "" };
            let line = format!("PATCH /images/{id}");
            let answer = world.at(site, &line, own, &json!({ "name": name }).to_string());
            assert_eq!(answer.status(), 200, "{} at {site}", answer.text());
            for reader in SITES {
                let read = world.at(reader, &format!("GET /images/{id}"), &scope, "");
                assert_eq!(read.status(), 200, "{}", read.text());
                assert_eq!(
                    (&json(&read)["name"], &json(&read)["id"]),
                    (&json!(name), &json!(id)),
                    "at {reader}"
                );
            }
        }
        let both = world.at("C", &format!("GET /images/{id}"), "(A & B) @strong", "");
        assert_eq!(both.status(), if level == "@strong" { 200 } else { 501 }, "{}", both.text());
        let list = world.at("A", "GET /images", &scope, "");
        assert_eq!(list.status(), 501, "lists are not confirmed: {}", list.text());
        assert_eq!(world.at("A", &format!("DELETE /images/{id}"), "", "").status(), 204);
        for site in ["A", "B"] {
            until(&format!("it is gone at {site}"), || world.own(site).is_empty());
        }
    }
    let id = world.make("A", "A & B");
    for site in SITES {
        let read = world.at(site, &format!("GET /images/{id}"), "(A & B) @quorum", "");
        assert_eq!(read.status(), 501, "nothing orders its writes: {}", read.text());
    }
    let alone = world.at("A", "POST /images", "A @quorum", r#"{"name":"one"}"#);
    assert_eq!(alone.status(), 422, "{}", alone.text());
}

#[test]
fn method_that_the_profile_does_not_know_is_refused_before_any_site_is_asked() {
    let world = World::new();
    let id = world.make("A", "A & B");
    let new = "/images/0b7a4e0c-0000-4000-8000-000000000001";
    for site in SITES {
        for (line, scope) in [
            (format!("MKCOL {new}"), "A & B"),
            (format!("MKCOL {new}/x"), "A & B"),
            (format!("LOCK /images/{id}"), "A & B"),
        ] {
            let answer = world.at(site, &line, scope, "");
            answer.assert_problem(422, "not-replicable");
            assert!(answer.text().contains("the profile does not say what a "), "{}", answer.text());
        }
    }
    // Without a scope it would reach every replica.
    world.at("B", &format!("LOCK /images/{id}"), "", "").assert_problem(422, "not-replicable");
}

#[test]
fn coded_json_is_refused_where_ids_in_it_would_have_to_be_replaced() {
    let world = World::new();
    let id = world.make("A", "A & B");
    for (line, scope) in [("POST /images".to_owned(), "A & B"), (format!("PATCH /images/{id}"), "")] {
        let mut client = world.isles.connect_to(0);
        let scope = if scope.is_empty() { String::new() } else { format!("X-Scope: image: {scope}\r\n") };
        client.send(format!(
            "{line} HTTP/1.1\r\nHost: x\r\n{scope}Content-Type: application/json\r\nContent-Encoding: gzip\r\n\
             Content-Length: 2\r\n\r\n{{}}"
        ));
        client.answer_to(&line).assert_problem(415, "coded");
    }
    world.both_say("one");
}
