//! Replicated records whose ids count, as clients of three sites see them: A and B have replicas, C has none.

use std::net::SocketAddr;

use profile::Profile;
use proptest::prelude::*;
use sample::records::{RecordIds, Records};
use serde_json::{Value, json};

use crate::harness::{ANY_PORT, Conn, Isles, Message, until};
use crate::replicas::replicating;

const COUNTING: &str = r#"
description = "posts and comments"
[[kinds]]
name = "post"
path = "/posts"
ids = "integer"
[[kinds]]
name = "comment"
path = "/comments"
ids = "integer"
refs = { "/post_id" = "post" }
parameters = { post_id = "post" }
"#;

/// The least number that a replicated resource has for clients.
const FROM: u64 = 1 << 52;

/// Three sites, each with a records service.
pub struct World {
    pub isles: Isles,
    pub records: Vec<Records>,
    services: Vec<sample::Handle>,
    _directory: tempfile::TempDir,
}

impl World {
    /// With a profile that says nothing of their ids.
    pub fn undeclared(ids: [RecordIds; 3]) -> World {
        World::with(ids, None)
    }

    /// Services that count, with a profile that says so.
    pub fn counting() -> World {
        World::with([RecordIds::Integers, RecordIds::Integers, RecordIds::Integers], Some(COUNTING))
    }

    pub fn with(ids: [RecordIds; 3], kinds: Option<&str>) -> World {
        let directory = tempfile::tempdir().unwrap();
        let records: Vec<_> = ids.into_iter().map(Records::new).collect();
        let spawn = |records: &Records| sample::Handle::spawn_thread(records.clone(), ANY_PORT).unwrap();
        let services: Vec<_> = records.iter().map(spawn).collect();
        let addresses: Vec<SocketAddr> = services.iter().map(sample::Handle::address).collect();
        let root = directory.path().to_owned();
        let isles = Isles::at([addresses[0], addresses[1], addresses[2]], |settings| {
            if let Some(kinds) = kinds {
                settings.profile.kinds = Profile::read(kinds).unwrap().kinds;
            }
            replicating(settings, &root);
        });
        isles.acquaint();
        World { isles, records, services, _directory: directory }
    }

    pub fn at(&self, site: usize, line: &str, scope: &str, body: &str) -> Message {
        ask(self.isles.connect_to(site), line, scope, body)
    }

    /// A service is asked itself.
    pub fn own(&self, site: usize, line: &str, body: &str) -> Message {
        ask(Conn::to(self.services[site].address()), line, "", body)
    }
}

fn ask(mut client: Conn, line: &str, scope: &str, body: &str) -> Message {
    let scope = if scope.is_empty() { String::new() } else { format!("X-Scope: image: {scope}\r\n") };
    let length = body.len();
    client.send(format!(
        "{line} HTTP/1.1\r\nHost: x\r\n{scope}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    client.answer_to(line)
}

pub fn json(answer: &Message) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("{}", answer.text()))
}

impl World {
    /// Something new at A and B, which both have made: its id for clients.
    fn make(&self, site: usize, collection: &str, record: &Value) -> u64 {
        let made = self.at(site, &format!("POST /{collection}"), "A & B", &record.to_string());
        assert_eq!(made.status(), 201, "{}", made.text());
        let id = json(&made)["id"].as_u64().unwrap();
        assert!(id >= FROM, "{id}");
        for site in 0..2 {
            until("it is there", || self.ids(site, collection, "").contains(&id));
        }
        id
    }

    fn ids(&self, site: usize, collection: &str, scope: &str) -> Vec<u64> {
        let list = self.at(site, &format!("GET /{collection}"), scope, "");
        json(&list).as_array().unwrap().iter().map(|record| record["id"].as_u64().unwrap()).collect()
    }

    /// What a service itself has, by its own ids.
    fn there(&self, site: usize, collection: &str) -> Vec<Value> {
        self.records[site].all(collection)
    }
}

#[test]
fn local_and_replicated_records_of_services_that_count_never_answer_for_each_other() {
    let world = World::counting();
    assert_eq!(world.at(0, "POST /posts", "", r#"{"t": "A's own"}"#).status(), 201);
    let made = world.at(0, "POST /posts", "A & B", r#"{"t": "shared", "room": "1", "n": 1}"#);
    assert_eq!(made.status(), 201, "{}", made.text());
    let id = json(&made)["id"].as_u64().unwrap();
    assert!(id >= FROM && made.field("location").unwrap() == format!("/posts/{id}"), "{made:?}");
    until("B has made it", || world.ids(1, "posts", "") == [id]);
    assert_eq!(world.there(0, "posts")[1]["id"], 2);
    assert_eq!(world.there(1, "posts")[0]["id"], 1);
    let shared = json!({"id": id, "t": "shared", "room": "1", "n": 1});
    for site in 0..2 {
        assert_eq!(json(&world.at(site, &format!("GET /posts/{id}"), "", "")), shared, "at {site}");
    }
    // B's next one is its own, and stays so.
    let own = world.at(1, "POST /posts", "", r#"{"t": "B's own"}"#);
    assert_eq!((own.status(), json(&own)["id"].as_u64()), (201, Some(2)));
    assert_eq!(json(&world.at(1, "GET /posts/2", "", ""))["t"], "B's own");
    assert_eq!(world.ids(1, "posts", ""), [id, 2], "in the service's own order");
    assert_eq!(world.at(1, "DELETE /posts/2", "", "").status(), 204);
    assert_eq!((world.there(0, "posts").len(), world.there(1, "posts").len()), (2, 1));
    // The ids that only services know lead nowhere.
    for (site, local) in [(0, 2), (1, 1)] {
        for method in ["GET", "DELETE", "PUT"] {
            let answer = world.at(
                site,
                &format!("{method} /posts/{local}"),
                "",
                if method == "PUT" { "{}" } else { "" },
            );
            assert_eq!(answer.status(), 404, "{method} {local} at {site}: {}", answer.text());
        }
    }
    assert_eq!(json(&world.at(0, "GET /posts/1", "", ""))["t"], "A's own");
    assert_eq!(world.at(1, &format!("DELETE /posts/{id}"), "", "").status(), 204);
    until("it is gone at both", || world.there(0, "posts").len() == 1 && world.there(1, "posts").is_empty());
    assert_eq!(world.at(0, &format!("GET /posts/{id}"), "", "").status(), 404);
}

#[test]
fn later_writes_and_their_conditions_reach_every_replica() {
    let world = World::counting();
    world.own(0, "POST /posts", "{}");
    let id = world.make(0, "posts", &json!({"t": "one"}));
    let path = format!("/posts/{id}");
    for (site, line, body) in [
        (1, format!("PATCH {path}"), json!({"t": "two"})),
        (0, format!("PUT {path}"), json!({"id": id, "t": "three"})),
        (2, format!("PATCH {path}"), json!({"t": "four"})),
    ] {
        let scope = if site == 2 { "A & B" } else { "" };
        let answer = world.at(site, &line, scope, &body.to_string());
        assert_eq!(
            (answer.status(), json(&answer)["id"].as_u64()),
            (200, Some(id)),
            "{line}: {}",
            answer.text()
        );
        let says = |site: usize| world.there(site, "posts").iter().any(|post| post["t"] == body["t"]);
        // A site whose service has just done it may not have heard that yet: its next write would be beside this one.
        until("both have it", || says(0) && says(1) && world.isles.is_quiet());
    }
    let tag = world.at(1, &format!("GET {path}"), "", "").field("etag").unwrap();
    let write = |condition: &str| {
        let mut client = world.isles.connect_to(1);
        let body = r#"{"t": "five"}"#;
        let length = body.len();
        client.send(format!(
            "PATCH {path} HTTP/1.1\r\nHost: x\r\nIf-Match: {condition}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ));
        client.answer_to("PATCH").status()
    };
    assert_eq!(write("\"B.0000000000000000\""), 412);
    assert_eq!(write(&tag), 200);
    until("A has it", || world.there(0, "posts").iter().any(|post| post["t"] == "five"));
    assert_eq!(write(&tag), 412, "it is another by now");
}

#[test]
fn references_and_filters_have_the_ids_of_each_site() {
    let world = World::counting();
    world.own(0, "POST /posts", "{}");
    world.own(1, "POST /comments", r#"{"post_id": 7}"#);
    let post = world.make(0, "posts", &json!({"t": "p"}));
    let comment = world.make(1, "comments", &json!({"post_id": post, "n": post, "t": post.to_string()}));
    for (site, own_post) in [(0, 2), (1, 1)] {
        let there = world.there(site, "comments").pop().unwrap();
        assert_eq!(there["post_id"], own_post, "{there}");
        assert_eq!((there["n"].as_u64(), there["t"].as_str()), (Some(post), Some(&*post.to_string())));
        let filtered = world.at(site, &format!("GET /comments?post_id={post}"), "", "");
        let expected = json!([{"id": comment, "post_id": post, "n": post, "t": post.to_string()}]);
        assert_eq!(json(&filtered), expected, "at {site}");
        let by_id = world.at(site, &format!("GET /comments?id={comment}"), "", "");
        assert_eq!(json(&by_id), expected, "at {site}");
        let undeclared = world.at(site, &format!("GET /comments?author={post}"), "", "");
        undeclared.assert_problem(422, "undeclared-id");
        assert!(undeclared.text().contains("author"), "{}", undeclared.text());
        // What only the service knows is no post.
        let hidden = world.at(site, &format!("GET /comments?post_id={own_post}"), "", "");
        hidden.assert_problem(404, "not-found");
        let line = "POST /comments";
        let hidden = world.at(site, line, "", &json!({"post_id": own_post}).to_string());
        hidden.assert_problem(404, "not-found");
    }
    let other = world.make(1, "posts", &json!({"t": "q"}));
    let patched =
        world.at(0, &format!("PATCH /comments/{comment}"), "", &json!({"post_id": other}).to_string());
    assert_eq!(json(&patched)["post_id"].as_u64(), Some(other), "{}", patched.text());
    let local = |site: usize| {
        let posts = world.there(site, "posts");
        posts.iter().find(|post| post["t"] == "q").map(|post| post["id"].clone())
    };
    for site in 0..2 {
        until("it refers to the other", || {
            world.there(site, "comments").pop().map(|comment| comment["post_id"].clone()) == local(site)
        });
    }
}

#[test]
fn merged_lists_and_their_pages_tell_each_record_once() {
    let world = World::counting();
    for site in 0..2 {
        world.own(site, "POST /posts", r#"{"t": "own"}"#);
    }
    let mut shared =
        vec![world.make(0, "posts", &json!({"t": "x"})), world.make(1, "posts", &json!({"t": "y"}))];
    shared.sort_unstable();
    let replicated = |ids: &[u64]| {
        let mut ids: Vec<u64> = ids.iter().copied().filter(|id| *id >= FROM).collect();
        ids.sort_unstable();
        ids
    };
    for site in 0..3 {
        let all = world.ids(site, "posts", "A & B");
        assert_eq!((all.len(), replicated(&all)), (4, shared.clone()), "at {site}: {all:?}");
    }
    // Page by page, of one site and of both.
    for scope in ["", "A & B"] {
        let (mut next, mut found) = (Some("/posts?limit=1".to_owned()), Vec::new());
        while let Some(path) = next.take() {
            let page = world.at(0, &format!("GET {path}"), scope, "");
            assert_eq!(page.status(), 200, "{path}: {}", page.text());
            let items = json(&page).as_array().unwrap().clone();
            found.extend(items.iter().map(|record| record["id"].as_u64().unwrap()));
            let link = page.field("link");
            next = link.and_then(|link| Some(link.split_once('<')?.1.split_once('>')?.0.to_owned()));
            assert!(found.len() < 9, "{found:?}");
        }
        let expected = if scope.is_empty() { 3 } else { 4 };
        assert_eq!((found.len(), replicated(&found)), (expected, shared.clone()), "{scope}: {found:?}");
    }
}

#[test]
fn an_id_that_means_two_things_is_a_409_for_every_method() {
    let world = World::counting();
    let id = world.make(0, "posts", &json!({"t": "shared"}));
    // Somebody brings such an id along, to the service itself.
    world.own(1, "POST /posts", &json!({"id": id, "t": "smuggled"}).to_string());
    assert_eq!(json(&world.at(1, &format!("GET /posts/{id}"), "", ""))["t"], "shared");
    assert_eq!(world.at(1, "GET /posts", "", "").status(), 200);
    for (method, body) in [("GET", ""), ("PUT", "{}"), ("PATCH", "{}"), ("DELETE", "")] {
        let answer = world.at(1, &format!("{method} /posts/{id}"), "", body);
        answer.assert_problem(409, "conflict");
        assert!(answer.text().contains(&format!("/posts/{id}")), "{}", answer.text());
    }
    assert_eq!(json(&world.at(0, &format!("GET /posts/{id}"), "", ""))["t"], "shared");
    assert_eq!(world.there(1, "posts").len(), 2, "nothing was deleted");
}

#[test]
fn a_replica_that_is_copied_gets_the_next_id_of_its_service_and_its_references() {
    let world = World::counting();
    world.own(2, "POST /posts", "{}");
    world.own(0, "POST /comments", "{}");
    let post = world.make(0, "posts", &json!({"t": "p"}));
    let comment = world.make(0, "comments", &json!({"post_id": post}));
    for (collection, id) in [("posts", post), ("comments", comment)] {
        world.isles.extend(0, &format!("image:/{collection}/{id}"), "C");
        until("C has it", || world.ids(2, collection, "").contains(&id));
    }
    assert_eq!(world.there(2, "posts")[1], json!({"id": 2, "t": "p"}));
    assert_eq!(world.there(2, "comments"), [json!({"id": 1, "post_id": 2})]);
    let seen = json(&world.at(2, &format!("GET /comments/{comment}"), "", ""));
    assert_eq!(seen, json!({"id": comment, "post_id": post}));
    assert_eq!(json(&world.at(2, "POST /posts", "", "{}"))["id"], 3);
}

#[test]
fn every_level_has_one_number_for_clients_and_each_service_its_own() {
    let world = World::counting();
    world.own(0, "POST /posts", "{}");
    for (number, level) in ["@weak", "@quorum", "@strong"].into_iter().enumerate() {
        let body = json!({"t": level}).to_string();
        let made = world.at(1, "POST /posts", &format!("(A & B) {level}"), &body);
        assert!([201, 202].contains(&made.status()), "{level}: {}", made.text());
        until("both have made it", || {
            (0..2).all(|site| world.ids(site, "posts", "").len() == number + 2 - site)
        });
        let id = world.ids(1, "posts", "")[number];
        assert!(id >= FROM, "{level}: {id}");
        let line = format!("PATCH /posts/{id}");
        until("it is written at A", || {
            world.at(0, &line, "", &json!({"t": format!("{level} two")}).to_string()).status() < 300
        });
        for site in 0..2 {
            let says = || world.there(site, "posts")[number + 1 - site]["t"] == format!("{level} two");
            until("both say so", says);
            let read = || json(&world.at(site, &format!("GET /posts/{id}"), "", ""))["id"].as_u64();
            until("it can be read", || read() == Some(id));
        }
    }
    let own: Vec<u64> = world.there(1, "posts").iter().map(|post| post["id"].as_u64().unwrap()).collect();
    assert_eq!(own, [1, 2, 3]);
}

#[test]
fn what_counts_is_learnt_from_what_is_there() {
    let world = World::undeclared([RecordIds::Integers, RecordIds::Integers, RecordIds::Integers]);
    world.at(0, "POST /posts", "A & B", "{}").assert_problem(422, "unknown-ids");
    world.own(0, "POST /posts", "{}");
    let id = world.make(0, "posts", &json!({"t": "x", "room": "1"}));
    assert_eq!(
        json(&world.at(1, &format!("GET /posts/{id}"), "", "")),
        json!({"id": id, "t": "x", "room": "1"})
    );
    assert_eq!(world.there(1, "posts"), [json!({"id": 1, "t": "x", "room": "1"})]);
}

#[test]
fn a_collection_whose_own_ids_are_in_the_range_takes_no_replicated_record() {
    let world = World::counting();
    world.own(0, "POST /posts", &json!({"id": FROM + 5}).to_string());
    world.at(0, "POST /posts", "A & B", "{}").assert_problem(422, "ids-in-range");
    assert_eq!(world.there(0, "posts").len(), 1);
    assert!(world.there(1, "posts").is_empty());
}

#[test]
fn texts_with_a_prefix_are_ids_where_they_are_declared() {
    let kinds = COUNTING.replace("ids = \"integer\"", "ids = { form = \"text\", prefix = \"usr_\" }");
    let ids = || RecordIds::Prefixed("usr_".to_owned());
    let world = World::with([ids(), ids(), ids()], Some(&kinds));
    world.own(0, "POST /posts", "{}");
    let made = world.at(0, "POST /posts", "A & B", r#"{"owner": "usr_1", "t": "usr_2"}"#);
    assert_eq!(made.status(), 201, "{}", made.text());
    let id = json(&made)["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("usr_") && id.len() == 30, "{id}");
    let expected = json!({"id": id, "owner": "usr_1", "t": "usr_2"});
    for site in 0..2 {
        until("it is there", || world.at(site, &format!("GET /posts/{id}"), "", "").status() == 200);
        assert_eq!(json(&world.at(site, &format!("GET /posts/{id}"), "", "")), expected, "at {site}");
    }
    until("B has made it", || world.there(1, "posts").len() == 1);
    assert_eq!(world.there(1, "posts")[0]["id"], "usr_1");
    assert_eq!(json(&world.at(1, "POST /posts", "", "{}"))["id"], "usr_2");
    assert_eq!(world.at(1, "DELETE /posts/usr_2", "", "").status(), 204);
    assert_eq!(world.there(0, "posts").len(), 2);
}

/// What a client does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Local(usize),
    Shared(usize),
    /// Of what was made, with a number and at a site.
    Patch(usize, usize),
    Delete(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..2_usize).prop_map(Step::Local),
        (0..2_usize).prop_map(Step::Shared),
        (0..8_usize, 0..2_usize).prop_map(|(which, site)| Step::Patch(which, site)),
        (0..8_usize, 0..2_usize).prop_map(|(which, site)| Step::Delete(which, site)),
    ];
    prop::collection::vec(step, 1..12)
}

/// One record that a client made: its id for clients, where it is, what it says now.
#[derive(Clone, Debug)]
struct Made {
    id: u64,
    sites: Vec<usize>,
    says: String,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever clients do, each record answers to its own id only, where it is, and no other is touched.
    #[test]
    fn histories_of_local_and_replicated_records_never_mix(steps in steps()) {
        let world = World::counting();
        let mut made: Vec<Made> = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let says = format!("step {number}");
            let body = json!({"says": says}).to_string();
            match *step {
                Step::Local(site) => {
                    let answer = world.at(site, "POST /posts", "", &body);
                    prop_assert_eq!(answer.status(), 201);
                    made.push(Made { id: json(&answer)["id"].as_u64().unwrap(), sites: vec![site], says });
                }
                Step::Shared(site) => {
                    let id = world.make(site, "posts", &json!({"says": says}));
                    made.push(Made { id, sites: vec![0, 1], says });
                }
                Step::Patch(which, site) => {
                    let Some(own) = made.get_mut(which).filter(|own| own.sites.contains(&site)) else { continue };
                    let answer = world.at(site, &format!("PATCH /posts/{}", own.id), "", &body);
                    prop_assert_eq!(answer.status(), 200, "{}", answer.text());
                    own.says = says;
                }
                Step::Delete(which, site) => {
                    let Some(own) = made.get(which).filter(|own| own.sites.contains(&site)).cloned() else { continue };
                    let answer = world.at(site, &format!("DELETE /posts/{}", own.id), "", "");
                    prop_assert_eq!(answer.status(), 204, "{}", answer.text());
                    made.remove(which);
                }
            }
            for site in 0..2 {
                let mut expected: Vec<&str> =
                    made.iter().filter(|own| own.sites.contains(&site)).map(|own| &*own.says).collect();
                expected.sort_unstable();
                until("the service has what its clients made", || {
                    let there = world.there(site, "posts");
                    let mut there: Vec<&str> = there.iter().map(|post| post["says"].as_str().unwrap()).collect();
                    there.sort_unstable();
                    there == expected
                });
                for own in made.iter().filter(|own| own.sites.contains(&site)) {
                    let answer = world.at(site, &format!("GET /posts/{}", own.id), "", "");
                    prop_assert_eq!(answer.status(), 200, "{:?} at {}: {}", own, site, answer.text());
                    prop_assert_eq!(json(&answer), json!({"id": own.id, "says": own.says}));
                }
                // An id that only one site's service gave means nothing at the other, or that one's own.
                for id in 1..6 {
                    let answer = world.at(site, &format!("GET /posts/{id}"), "", "");
                    let own = made.iter().any(|own| own.id == id && own.sites.contains(&site));
                    prop_assert_eq!(answer.status() == 200, own, "{} at {}: {}", id, site, answer.text());
                }
            }
        }
    }
}
