//! A key is for calls with the token of its own client, or of a service; not for those of another client.

use http::HeaderValue;

use super::*;

/// A call with a key that was handed on for `own`, and with this token.
fn call(carry: &Carry, own: &[(&str, &str)], token: Option<&str>, now: Duration) -> Result<Found, Error> {
    let (_, handed) = handed_on(carry, own, "image: A");
    let mut parts = get("/", &[]);
    parts.headers = handed;
    parts.headers.remove("x-auth-token");
    if let Some(token) = token {
        parts.headers.insert("x-auth-token", token.parse().unwrap());
    }
    carry.find(&mut parts, &INTERNAL, now)
}

fn token(carry: &Carry, value: &str) -> mesh::carry::Sender {
    carry.token(&get("/", &[("x-auth-token", value)]).headers).unwrap()
}

const OWN: [(&str, &str); 1] = [("x-auth-token", "own")];

#[test]
fn another_clients_token_with_a_key_is_refused() {
    let carry = carry("openstack");
    assert!(call(&carry, &OWN, Some("thief"), NOW).is_ok(), "a token that was never seen");
    carry.is_of_a_client(token(&carry, "own"), NOW);
    carry.is_of_a_client(token(&carry, "thief"), NOW);
    let refused = call(&carry, &OWN, Some("thief"), NOW).unwrap_err();
    assert_eq!(
        (refused, refused.status().as_u16(), refused.code()),
        (Error::NotYours, 403, "scope-not-yours")
    );
    for fine in [Some("own"), Some("unknown"), None] {
        assert_eq!(scope_of(call(&carry, &OWN, fine, NOW)).as_deref(), Some("image: A"), "{fine:?}");
    }
    // What the thief has with its own request, it has.
    assert!(call(&carry, &[("x-auth-token", "thief")], Some("thief"), NOW).is_ok());
}

#[test]
fn a_services_token_is_good_with_every_key() {
    let carry = carry("openstack");
    carry.is_of_a_client(token(&carry, "placement"), NOW);
    assert_eq!(call(&carry, &OWN, Some("placement"), NOW), Err(Error::NotYours));
    carry.is_of_a_service(&HeaderValue::from_static("placement"), NOW);
    assert!(call(&carry, &OWN, Some("placement"), NOW).is_ok());
}

#[test]
fn a_key_of_a_request_without_a_token_is_nobodys() {
    let carry = carry("openstack");
    carry.is_of_a_client(token(&carry, "other"), NOW);
    assert!(call(&carry, &[], Some("other"), NOW).is_ok());
}

#[test]
fn what_was_seen_is_forgotten_in_time() {
    let lifetime = Duration::from_secs(10);
    let carry = carry_within("openstack", Limits { lifetime, ..Limits::default() });
    carry.is_of_a_client(token(&carry, "thief"), NOW.saturating_sub(lifetime / 2));
    assert_eq!(call(&carry, &OWN, Some("thief"), NOW), Err(Error::NotYours));
    assert!(call(&carry, &OWN, Some("thief"), NOW + lifetime / 2).is_ok());
}

/// Its profile names no header for tokens: services have credentials of their own there, in ways not known.
#[test]
fn a_rest_application_has_no_tokens() {
    let carry = carry("rest");
    let headers = get("/", &[("authorization", "Bearer x"), ("x-auth-token", "x")]).headers;
    assert_eq!(carry.token(&headers), None);
}

/// More tokens than are remembered: those that were known stay so, and nothing is refused for being new.
#[test]
fn a_flood_of_tokens_neither_hides_a_thief_nor_refuses_a_stranger() {
    let carry = carry("openstack");
    carry.is_of_a_client(token(&carry, "thief"), NOW);
    for number in 0..200_000 {
        carry.is_of_a_client(token(&carry, &number.to_string()), NOW);
    }
    assert_eq!(call(&carry, &OWN, Some("thief"), NOW), Err(Error::NotYours));
    assert!(call(&carry, &OWN, Some("stranger"), NOW).is_ok());
}
