//! Tokens of one site at another: who they are there, and who they are not.

mod behalf;
mod ended;
mod keystone;
mod projects;
mod world;

use std::collections::BTreeMap;

use mesh::Accept;
use serde_json::{Value, json};

use crate::harness::{Message, until};
use keystone::said;
use world::{World, ask, login, named};

/// Alice administers the project at A, and may look at it at B.
fn world(accept: Option<Accept>) -> World {
    let world = World::new(accept);
    world.keystones[0].has("alice", "demo", "admin");
    world.keystones[1].has("alice", "demo", "reader");
    world
}

fn told(answer: &Message) -> Value {
    assert_eq!(answer.status(), 200, "{}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no {pointer}: {value}"))
}

/// As this site's own service says of a token that it did not issue.
fn assert_not_valid(answer: &Message) {
    assert_eq!(answer.status(), 404, "{}", answer.text());
    assert!(answer.text().contains("no such token"), "{}", answer.text());
}

#[test]
fn a_token_of_another_site_is_honoured_with_this_sites_ids_role_and_catalog() {
    let world = world(Some(Accept::All));
    let token = world.visits("alice", "demo");
    let answer = world.validate(&token);
    assert_eq!(answer.field("x-subject-token").as_deref(), Some(token.as_str()));
    let told = told(&answer);
    assert_eq!(text(&told, "/token/user/id"), "B-alice");
    assert_eq!(text(&told, "/token/user/domain/id"), "B-default");
    assert_eq!(text(&told, "/token/project/id"), "B-demo");
    assert_eq!(told.pointer("/token/roles"), Some(&json!([{ "id": "B-reader", "name": "reader" }])));
    let url = text(&told, "/token/catalog/0/endpoints/0/url");
    assert_eq!(url, "http://image.B/v2/B-demo", "addresses of this site, for this project");
    assert!(!told.to_string().contains("A-"), "nothing of the other site: {told}");
    assert_eq!(text(&told, "/token/expires_at"), "2126-11-16T00:00:00.000000Z");
    // Services may ask without wanting to know.
    assert_eq!(world.validate_by("HEAD /v3/auth/tokens", &token).status(), 200);
    until("it is audited", || world.audited().len() == 2);
    assert_eq!(world.audited()[0]["user"], "Default/alice");
    assert!(
        !String::from_utf8_lossy(&world.audit.lock().unwrap()).contains(&token),
        "no token is written down"
    );
}

#[test]
fn a_services_own_token_is_that_service_elsewhere_too() {
    let world = world(Some(Accept::All));
    let token = login(world.address(0, "identity", true), "glance", "service", "");
    let fields = format!("X-Scope: image: B\r\nX-Service-Token: {token}\r\n");
    assert_eq!(ask(world.address(0, "image", false), "GET /v2/images", &fields, "").status(), 200);
    let told = told(&world.validate(&token));
    assert_eq!((text(&told, "/token/user/id"), text(&told, "/token/roles/0/name")), ("B-glance", "service"));
}

#[test]
fn no_token_is_honoured_of_a_site_that_is_not_accepted() {
    let world = world(None);
    let token = world.visits("alice", "demo");
    assert_not_valid(&world.validate(&token));
    assert_eq!(world.keystones[0].validations().len(), 0, "its issuer was not even asked");
    until("it is audited", || !world.audited().is_empty());
    let line = &world.audited()[0];
    assert_eq!(
        (&line["honoured"], &line["why"]),
        (&false.into(), &"this site accepts no tokens of A".into())
    );
}

#[test]
fn a_token_is_honoured_for_the_projects_that_are_accepted_and_no_other() {
    let renamed = BTreeMap::from([(named("demo"), named("demo-of-a"))]);
    let world = world(Some(Accept::Projects(renamed)));
    world.keystones[1].has("alice", "demo-of-a", "member");
    world.keystones[0].has("alice", "other", "admin");
    world.keystones[1].has("alice", "other", "admin");
    let told = told(&world.validate(&world.visits("alice", "demo")));
    assert_eq!(text(&told, "/token/project/name"), "demo-of-a");
    assert_eq!(text(&told, "/token/roles/0/name"), "member");
    assert_not_valid(&world.validate(&world.visits("alice", "other")));
}

#[test]
fn who_is_not_here_or_disabled_or_has_no_role_here_is_nobody_here() {
    let world = world(Some(Accept::All));
    world.keystones[0].has("bob", "demo", "admin");
    world.keystones[0].has("alice", "secret", "admin");
    let [bob, secret, alice] = [("bob", "demo"), ("alice", "secret"), ("alice", "demo")]
        .map(|(user, project)| world.visits(user, project));
    let b = &world.keystones[1].known;
    assert_not_valid(&world.validate(&bob));
    b.lock().unwrap().users.insert("bob".to_owned(), true);
    assert_not_valid(&world.validate(&bob));
    assert_not_valid(&world.validate(&secret));
    told(&world.validate(&alice));
    for (users, projects) in [(false, true), (true, false)] {
        b.lock().unwrap().users.insert("alice".to_owned(), users);
        b.lock().unwrap().projects.insert("demo".to_owned(), projects);
        assert_not_valid(&world.validate(&alice));
    }
    b.lock().unwrap().projects.insert("demo".to_owned(), true);
    told(&world.validate(&alice));
    b.lock().unwrap().roles.remove(&("alice".to_owned(), "demo".to_owned())).unwrap();
    assert_not_valid(&world.validate(&alice));
}

#[test]
fn what_is_revoked_where_it_was_issued_is_refused_here_at_once() {
    let world = world(Some(Accept::All));
    let token = world.visits("alice", "demo");
    told(&world.validate(&token));
    world.keystones[0].revoke(&token);
    assert_not_valid(&world.validate(&token));
}

#[test]
fn no_token_but_the_one_that_is_asked_about_goes_to_its_issuer() {
    let world = world(Some(Accept::All));
    let token = world.visits("alice", "demo");
    told(&world.validate(&token));
    let asked = world.keystones[0].validations();
    assert_eq!(asked.len(), 1);
    for name in ["x-auth-token", "x-subject-token"] {
        assert_eq!(asked[0].field(name).as_deref(), Some(token.as_str()));
    }
    let all = format!("{:?}", world.keystones[0].upstream.seen());
    assert!(!all.contains("B-token"), "{all}");
}

#[test]
fn a_services_login_never_leaves_its_site_and_a_users_goes_where_its_scope_says() {
    let world = world(Some(Accept::All));
    let elsewhere = "X-Scope: identity: A, image: A\r\n";
    let own = login(world.address(1, "identity", true), "glance", "service", elsewhere);
    assert!(own.starts_with("B-token"), "{own}");
    let token = login(world.address(1, "identity", false), "alice", "demo", elsewhere);
    assert!(token.starts_with("A-token"), "{token}");
    // Who saw it issued knows by whom.
    assert_eq!(text(&told(&world.validate(&token)), "/token/user/id"), "B-alice");
}

#[test]
fn an_identity_service_that_takes_no_token_of_another_site_says_what_to_do() {
    let world = world(Some(Accept::All));
    let elsewhere = "X-Scope: identity: B\r\n";
    let ask = |token: &str| {
        let fields = format!("{elsewhere}X-Auth-Token: {token}\r\n");
        ask(world.address(0, "identity", false), "GET /v3/users", &fields, "")
    };
    let refused = ask(&login(world.address(0, "identity", false), "alice", "demo", ""));
    refused.assert_problem(401, "token-of-another-site");
    assert!(refused.text().contains("log in there"), "{}", refused.text());
    let token = login(world.address(0, "identity", false), "alice", "demo", elsewhere);
    assert_eq!(ask(&token).status(), 200, "{token}");
}

#[test]
fn a_validation_goes_where_the_token_was_issued_whatever_scope_it_carries() {
    let world = world(Some(Accept::All));
    let to = world.address(1, "identity", true);
    let own = login(to, "glance", "service", "");
    let alice = login(world.address(1, "identity", false), "alice", "demo", "");
    let fields = format!("X-Scope: identity: A\r\nX-Auth-Token: {own}\r\nX-Subject-Token: {alice}\r\n");
    assert_eq!(ask(to, "GET /v3/auth/tokens", &fields, "").status(), 200);
    assert_eq!(world.keystones[0].upstream.seen().len(), 0, "nothing went there");
}

#[test]
fn a_client_says_by_its_scope_where_its_token_is_known() {
    let world = world(Some(Accept::All));
    let token = login(world.address(0, "identity", false), "alice", "demo", "");
    assert_not_valid(&world.validate(&token));
    let fields = format!("X-Scope: identity: A, image: B\r\nX-Auth-Token: {token}\r\n");
    assert_eq!(ask(world.address(1, "image", false), "GET /v2/images", &fields, "").status(), 200);
    assert_eq!(text(&told(&world.validate(&token)), "/token/user/id"), "B-alice");
}

#[test]
fn a_wrong_word_on_who_issued_a_token_takes_nothing_from_it() {
    let mut world = world(Some(Accept::All));
    let token = login(world.address(1, "identity", false), "alice", "demo", "");
    // Also where nobody remembers that it was issued here.
    world.restart(1);
    world.shows(&token);
    assert_eq!(text(&told(&world.validate(&token)), "/token/roles/0/name"), "reader");
    assert_eq!(world.keystones[0].validations().len(), 0, "who is said to have issued it has no say");
    world.stop(0);
    assert_eq!(text(&told(&world.validate(&token)), "/token/roles/0/name"), "reader");
}

#[test]
fn a_restart_still_knows_who_issued_a_token_and_no_file_has_it() {
    let mut world = world(Some(Accept::All));
    let token = world.visits("alice", "demo");
    told(&world.validate(&token));
    world.restart(1);
    assert_eq!(text(&told(&world.validate(&token)), "/token/user/id"), "B-alice");
    assert!(world.kept(1).iter().all(|file| !contains(file, token.as_bytes())));
}

fn contains(file: &[u8], what: &[u8]) -> bool {
    file.windows(what.len()).any(|part| part == what)
}

#[test]
fn with_its_issuer_gone_a_token_cannot_be_judged_and_local_ones_are_as_ever() {
    let mut world = world(Some(Accept::All));
    let token = world.visits("alice", "demo");
    told(&world.validate(&token));
    let own = login(world.address(1, "identity", false), "alice", "demo", "");
    world.stop(0);
    world.validate(&token).assert_problem(503, "token-unknown");
    let told = told(&world.validate(&own));
    assert_eq!(text(&told, "/token/user/id"), "B-alice");
}

#[test]
fn what_an_issuer_says_that_does_not_fit_is_not_valid_and_never_passed_on() {
    let world = world(Some(Accept::All));
    let token = world.visits("alice", "demo");
    let about = format!("X-Subject-Token: {token}\r\n");
    let good = told(&world.validate(&token));
    let with = |pointer: &str, value: Value| {
        let mut other = good.clone();
        *other.pointer_mut(pointer).unwrap() = value;
        said(200, &about, &other)
    };
    let huge = json!({ "token": "x".repeat(2 << 20) });
    for (what, lie) in [
        ("not JSON", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil".to_vec()),
        ("another shape", said(200, &about, &json!([1, 2, 3]))),
        ("deep", said(200, &about, &(0..100).fold(json!(1), |inner, _| json!({ "token": inner })))),
        ("huge", said(200, &about, &huge)),
        ("of nobody", with("/token/user", Value::Null)),
        ("of somebody who is not here", with("/token/user/name", "mallory".into())),
        ("of a name that is a query", with("/token/user/name", "mallory&name=alice".into())),
        ("in no project", with("/token/project", Value::Null)),
        ("about another token", said(200, "X-Subject-Token: A-token-99\r\n", &good)),
        ("about no token", said(200, "", &good)),
        ("success of another kind", said(204, &about, &json!({}))),
        ("elsewhere", said(301, "Location: http://evil/\r\n", &json!({}))),
    ] {
        world.keystones[0].known.lock().unwrap().lie = Some(lie);
        let answer = world.validate(&token);
        assert!(answer.status() == 404, "{what}: {} {}", answer.status(), answer.text());
    }
    world.keystones[0].known.lock().unwrap().lie = Some(said(500, &about, &good));
    world.validate(&token).assert_problem(503, "token-unknown");
    world.keystones[0].known.lock().unwrap().lie = None;
    told(&world.validate(&token));
}

#[test]
fn a_login_of_the_site_that_ended_is_renewed() {
    let world = world(Some(Accept::All));
    let token = world.visits("alice", "demo");
    told(&world.validate(&token));
    let of_archipel = |known: &BTreeMap<String, (String, String)>| {
        let own = known.iter().find(|(_, (user, _))| user == "archipel");
        own.map(|(token, _)| token.clone())
    };
    let first = of_archipel(&world.keystones[1].known.lock().unwrap().tokens).unwrap();
    world.keystones[1].revoke(&first);
    told(&world.validate(&token));
    assert_ne!(of_archipel(&world.keystones[1].known.lock().unwrap().tokens).unwrap(), first);
}
