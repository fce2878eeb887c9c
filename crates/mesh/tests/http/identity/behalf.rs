//! On whose behalf the other replicas execute: this site's login, in the project of the sender here, or nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use mesh::Accept;

use super::keystone::Keystone;
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
            // No image is there before it is made.
            true if request.line.starts_with("GET /v2/images/") => "404 Not Found",
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
