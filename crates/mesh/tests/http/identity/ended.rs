//! Tokens that have expired, of work that takes longer.

use mesh::Accept;

use super::world::{World, ask, login};
use super::{assert_not_valid, text, told, world};

const ALSO_ENDED: &str = "GET /v3/auth/tokens?allow_expired=1";

/// Alice's token of A, which B knows of and which has expired since.
fn ended(world: &World) -> String {
    let token = world.visits("alice", "demo");
    world.keystones[0].end(&token);
    token
}

#[test]
fn one_that_ended_counts_where_a_service_asks_for_it_and_nowhere_else() {
    let world = world(Some(Accept::All));
    let token = ended(&world);
    assert_not_valid(&world.validate(&token));
    let told = told(&world.validate_by(ALSO_ENDED, &token));
    assert_eq!((text(&told, "/token/user/id"), text(&told, "/token/roles/0/name")), ("B-alice", "reader"));
    // No login went to the other site: it asked with its own.
    let asked = world.keystones[0].validations().pop().unwrap();
    assert!(asked.field("x-auth-token").unwrap().starts_with("A-token"));
    assert!(!format!("{:?}", world.keystones[0].upstream.seen()).contains("B-token"));
}

#[test]
fn who_may_not_validate_tokens_may_not_ask_for_one_that_ended() {
    let world = world(Some(Accept::All));
    let token = ended(&world);
    let to = world.address(1, "identity", true);
    let mallory = login(world.address(1, "identity", false), "alice", "demo", "");
    let before = world.keystones[0].validations().len();
    for asker in [mallory.as_str(), token.as_str(), "made-up"] {
        let fields = format!("X-Auth-Token: {asker}\r\nX-Subject-Token: {token}\r\n");
        assert_ne!(ask(to, ALSO_ENDED, &fields, "").status(), 200, "{asker}");
    }
    assert_eq!(world.keystones[0].validations().len(), before, "its issuer was not asked");
}

#[test]
fn one_that_was_revoked_is_refused_also_where_it_is_asked_for_like_this() {
    let world = world(Some(Accept::All));
    let token = ended(&world);
    world.keystones[0].revoke(&token);
    assert_not_valid(&world.validate_by(ALSO_ENDED, &token));
}

#[test]
fn a_client_with_a_scope_gets_nothing_of_a_token_that_ended() {
    let world = world(Some(Accept::All));
    let token = ended(&world);
    for (line, scope) in
        [(ALSO_ENDED, "identity: A"), ("GET /_scope/identity:A/v3/auth/tokens?allow_expired=1", "")]
    {
        let scope = if scope.is_empty() { String::new() } else { format!("X-Scope: {scope}\r\n") };
        let fields = format!("X-Auth-Token: {token}\r\nX-Subject-Token: {token}\r\n{scope}");
        let answer = ask(world.address(1, "identity", false), line, &fields, "");
        assert_eq!(answer.status(), 401, "{}", answer.text());
    }
}
