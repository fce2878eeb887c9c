//! On whose behalf the other replicas execute: this site's login, in the project of the sender here, or nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use mesh::Accept;

use super::keystone::{Keystone, said};
use super::world::{World, ask, login, named};
use crate::harness::{Message, Upstream, until};

/// Tokens that an image service refuses.
type Refused = Arc<Mutex<BTreeSet<String>>>;

/// An image service, which takes whatever comes with a token that it does not refuse.
fn images() -> (Upstream, Refused) {
    let refused = Refused::default();
    let own = Arc::clone(&refused);
    let service = Upstream::serving(move |request| {
        let token = request.field("x-auth-token");
        let known = token.is_some_and(|token| !own.lock().unwrap().contains(&token));
        let status = match known {
            // Nothing is there before it is made.
            true if request.line.starts_with("GET /v2/") => "404 Not Found",
            true => "201 Created",
            false => "401 Unauthorized",
        };
        format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}")
            .into_bytes()
    });
    (service, refused)
}

/// Alice, with a token of A, makes or replaces an image on both sites.
fn makes(world: &World, project: &str) -> (String, Message) {
    makes_one(world, project, "8dcf2c38-8a2f-44bb-9d0b-2d0b4b1b0f6e")
}

fn makes_one(world: &World, project: &str, id: &str) -> (String, Message) {
    let token = login(world.address(0, "identity", false), "alice", project, "");
    let fields =
        format!("X-Scope: image: A & B\r\nX-Auth-Token: {token}\r\nContent-Type: application/json\r\n");
    let to = world.address(0, "image", false);
    let answer = ask(to, &format!("PUT /v2/images/{id}"), &fields, r#"{"name":"one"}"#);
    (token, answer)
}

/// The tokens of the writes that a service got.
fn tokens(service: &Upstream) -> Vec<String> {
    let writes = service.seen().into_iter().filter(|request| request.line.starts_with("PUT"));
    writes.map(|request| request.field("x-auth-token").unwrap_or_default()).collect()
}

fn whose(keystone: &Keystone, token: &str) -> (String, String) {
    keystone.known.lock().unwrap().tokens[token].clone()
}

fn pair(user: &str, project: &str) -> (String, String) {
    (user.to_owned(), project.to_owned())
}

fn world(accept: Option<Accept>) -> (World, Refused) {
    let ((first, _), (second, refused)) = (images(), images());
    let world = World::replicating(accept, [first, second]);
    world.keystones[0].has("alice", "demo", "member");
    world.keystones[1].has("archipel", "demo", "member");
    world.keystones[1].has("archipel", "demo-of-a", "member");
    (world, refused)
}

#[test]
fn the_first_replica_has_the_senders_token_and_the_other_a_login_for_the_senders_project() {
    let (world, _) = world(Some(Accept::All));
    let (token, answer) = makes(&world, "demo");
    assert_eq!(answer.status(), 201, "{}", answer.text());
    until("B executes it", || !tokens(&world.images[1]).is_empty());
    assert_eq!(tokens(&world.images[0]), std::slice::from_ref(&token));
    let [other] = &tokens(&world.images[1])[..] else { panic!("once") };
    assert_eq!(whose(&world.keystones[1], other), pair("archipel", "demo"));
    for index in [0, 1] {
        for file in world.kept(index) {
            assert!(!super::contains(&file, token.as_bytes()) && !super::contains(&file, other.as_bytes()));
        }
    }
}

#[test]
fn the_project_is_the_one_that_the_senders_is_mapped_to() {
    let renamed = BTreeMap::from([(named("demo"), named("demo-of-a"))]);
    let (world, _) = world(Some(Accept::Projects(renamed)));
    assert_eq!(makes(&world, "demo").1.status(), 201);
    until("B executes it", || !tokens(&world.images[1]).is_empty());
    assert_eq!(whose(&world.keystones[1], &tokens(&world.images[1])[0]), pair("archipel", "demo-of-a"));
}

#[test]
fn a_login_that_ended_is_made_anew() {
    let (world, refused) = world(Some(Accept::All));
    assert_eq!(makes(&world, "demo").1.status(), 201);
    until("B executes it", || !tokens(&world.images[1]).is_empty());
    let first = tokens(&world.images[1])[0].clone();
    refused.lock().unwrap().insert(first.clone());
    assert!(matches!(makes(&world, "demo").1.status(), 200 | 201));
    until("B executes it with another", || tokens(&world.images[1]).iter().any(|token| *token != first));
}

#[test]
fn without_a_project_here_nothing_is_executed_as_somebody_else() {
    let (world, _) = world(Some(Accept::Projects(BTreeMap::from([(named("other"), named("demo"))]))));
    world.keystones[0].has("alice", "other", "member");
    assert_eq!(makes(&world, "demo").1.status(), 201, "it is at A");
    // What comes later and is somebody's here is executed.
    let later = "11111111-8a2f-44bb-9d0b-2d0b4b1b0f6e";
    assert_eq!(makes_one(&world, "other", later).1.status(), 201);
    let written = || {
        let writes = world.images[1].seen().into_iter().filter(|request| request.line.starts_with("PUT"));
        writes.map(|request| request.line).collect::<Vec<_>>()
    };
    until("B executes the later one", || !written().is_empty());
    assert_eq!(written(), [format!("PUT /v2/images/{later} HTTP/1.1")]);
}

#[test]
fn who_cannot_be_named_to_the_others_is_told_so_before_anything_is_written() {
    let (world, _) = world(Some(Accept::All));
    let fields = "X-Scope: image: A & B\r\nX-Auth-Token: made-up\r\nContent-Type: application/json\r\n";
    let to = world.address(0, "image", false);
    let answer = ask(to, "PUT /v2/images/8dcf2c38-8a2f-44bb-9d0b-2d0b4b1b0f6e", fields, "{}");
    answer.assert_problem(422, "no-identity");
    assert_eq!(tokens(&world.images[0]), [""; 0]);
}

/// Somebody, with a token of A, sends something about keys.
fn about_keys(world: &World, user: &str, line: &str, scope: &str, body: &str) -> Message {
    let project = if user == "alice" { "demo" } else { "other" };
    let token = login(world.address(0, "identity", false), user, project, "");
    let fields = format!("{scope}X-Auth-Token: {token}\r\nContent-Type: application/json\r\n");
    ask(world.address(0, "image", false), line, &fields, body)
}

/// What a service was asked to write, by the user that this site knows Archipel by, with the body.
fn written(world: &World, index: usize) -> Vec<(String, (String, String), String)> {
    let writes = world.images[index].seen().into_iter().filter(|request| !request.line.starts_with("GET"));
    let told = writes.map(|request| {
        let token = request.field("x-auth-token").unwrap_or_default();
        let line = request.line.trim_end_matches(" HTTP/1.1").to_owned();
        (line, whose(&world.keystones[index], &token), request.text())
    });
    told.collect()
}

const BOTH: &str = "X-Scope: image: A & B\r\n";
const KEY: &str = r#"{"key":{"name":"mine","public":"p"}}"#;

#[test]
fn what_belongs_to_a_user_is_made_for_that_user_by_the_id_that_each_site_has() {
    let (world, _) = world(Some(Accept::All));
    world.keystones[1].has("alice", "demo", "reader");
    let made = about_keys(&world, "alice", "POST /v2/keys", BOTH, KEY);
    assert_eq!(made.status(), 201, "{}", made.text());
    until("B makes it", || !written(&world, 1).is_empty());
    let (line, by, body) = written(&world, 1).remove(0);
    assert_eq!((line.as_str(), by), ("POST /v2/keys", pair("archipel", "service")));
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body, serde_json::json!({"key": {"name": "mine", "public": "p", "user": "B-alice"}}));
    let sent = world.images[1].seen().into_iter().find(|request| request.line.starts_with("POST")).unwrap();
    assert_eq!(sent.field("x-version").as_deref(), Some("keys 2.10"));
    assert!(world.images[0].seen().iter().all(|request| !request.text().contains("user")), "as it was sent");

    // Whoever else has one of that name writes to their own, here.
    world.keystones[0].has("bob", "other", "member");
    let gone = about_keys(&world, "bob", "DELETE /v2/keys/mine", "", "");
    assert_eq!((gone.status(), gone.field("scope-operation")), (201, None));
    let gone = about_keys(&world, "alice", "DELETE /v2/keys/mine", "", "");
    assert_eq!(gone.status(), 201, "{}", gone.text());
    until("B deletes it", || written(&world, 1).len() == 2);
    let (line, by, _) = written(&world, 1).remove(1);
    assert_eq!((line.as_str(), by), ("DELETE /v2/keys/mine?user=B-alice", pair("archipel", "service")));
    assert_eq!(written(&world, 0).iter().filter(|(line, ..)| line.starts_with("DELETE")).count(), 2);
}

#[test]
fn what_belongs_to_a_user_who_has_no_role_here_is_not_made() {
    let (world, _) = world(Some(Accept::All));
    world.keystones[1].has("alice", "elsewhere", "admin");
    assert_eq!(about_keys(&world, "alice", "POST /v2/keys", BOTH, KEY).status(), 201, "it is at A");
    // What comes later, and may be, is.
    assert_eq!(makes(&world, "demo").1.status(), 201);
    until("B executes the later one", || !written(&world, 1).is_empty());
    assert!(written(&world, 1).iter().all(|(line, ..)| line.starts_with("PUT")));
}

#[test]
fn what_each_site_would_make_otherwise_or_for_somebody_else_is_refused() {
    let (world, _) = world(Some(Accept::All));
    for (line, body) in [
        ("POST /v2/keys", r#"{"key":{"name":"mine"}}"#),
        ("POST /v2/keys", r#"{"key":{"name":"mine","public":"p","user":"A-bob"}}"#),
        ("POST /v2/keys?user=A-bob", KEY),
    ] {
        about_keys(&world, "alice", line, BOTH, body).assert_problem(422, "not-replicable");
    }
    assert!(written(&world, 0).is_empty());
}

#[test]
fn while_nobody_can_say_whose_it_is_a_write_to_what_belongs_to_users_is_not_sent() {
    let (world, _) = world(Some(Accept::All));
    world.keystones[1].has("alice", "demo", "reader");
    assert_eq!(about_keys(&world, "alice", "POST /v2/keys", BOTH, KEY).status(), 201);
    until("B makes it", || !written(&world, 1).is_empty());
    let token = login(world.address(0, "identity", false), "alice", "demo", "");
    let out = serde_json::json!({ "error": "out of order" });
    world.keystones[0].known.lock().unwrap().lie = Some(said(503, "", &out));
    let fields = format!("X-Auth-Token: {token}\r\n");
    let answer = ask(world.address(0, "image", false), "DELETE /v2/keys/mine", &fields, "");
    answer.assert_problem(503, "no-identity");
    for index in [0, 1] {
        assert!(written(&world, index).iter().all(|(line, ..)| !line.starts_with("DELETE")));
    }
}
