//! The id of a token's project, in a path or a query, at another site.

use std::collections::BTreeMap;

use mesh::Accept;

use super::world;
use super::world::{World, ask, login, named};

/// The targets of the requests that B's image service got when alice of A sent these.
fn sent(world: &World, targets: &[&str]) -> Vec<String> {
    let token = login(world.address(0, "identity", false), "alice", "demo", "");
    for target in targets {
        let fields = format!("X-Scope: image: B\r\nX-Auth-Token: {token}\r\n");
        assert_eq!(
            ask(world.address(0, "image", false), &format!("GET {target}"), &fields, "").status(),
            200
        );
    }
    let target = |line: String| line.split(' ').nth(1).unwrap().to_owned();
    world.images[1].seen().into_iter().map(|request| target(request.line)).collect()
}

#[test]
fn the_tokens_own_project_is_named_as_this_site_does() {
    let world = world(Some(Accept::All));
    let targets = ["/v2/images?limit=1&owner=A-demo", "/v2/images?owner=A-demo&x=A-demo"];
    assert_eq!(
        sent(&world, &targets),
        ["/v2/images?limit=1&owner=B-demo", "/v2/images?owner=B-demo&x=B-demo"]
    );
}

#[test]
fn it_is_the_project_that_this_site_accepts_it_as() {
    let renamed = BTreeMap::from([(named("demo"), named("demo-of-a"))]);
    let world = world(Some(Accept::Projects(renamed)));
    world.keystones[1].has("alice", "demo-of-a", "member");
    assert_eq!(sent(&world, &["/v2/images?owner=A-demo"]), ["/v2/images?owner=B-demo-of-a"]);
}

#[test]
fn any_other_project_and_what_the_profile_does_not_say_stays_as_it_is() {
    let world = world(Some(Accept::All));
    world.keystones[0].has("bob", "other", "admin");
    world.keystones[1].has("bob", "other", "admin");
    let targets = ["/v2/images?owner=A-other", "/v2/images?member=A-demo", "/v2/images/A-demo"];
    assert_eq!(sent(&world, &targets), targets);
}

#[test]
fn nothing_is_named_otherwise_where_the_token_is_not_honoured() {
    let world = world(None);
    assert_eq!(sent(&world, &["/v2/images?owner=A-demo"]), ["/v2/images?owner=A-demo"]);
    assert_eq!(world.keystones[0].validations().len(), 0);
}

#[test]
fn a_client_of_another_site_that_comes_here_may_name_its_project_as_there_from_the_first_request_on() {
    let world = world(Some(Accept::All));
    let token = login(world.address(0, "identity", false), "alice", "demo", "");
    let fields = format!("X-Scope: identity: A, image: B\r\nX-Auth-Token: {token}\r\n");
    assert_eq!(
        ask(world.address(1, "image", false), "GET /v2/images?owner=A-demo", &fields, "").status(),
        200
    );
    assert_eq!(world.images[1].seen()[0].line, "GET /v2/images?owner=B-demo HTTP/1.1");
}
