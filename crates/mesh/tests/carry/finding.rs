//! Each carrier of a scope, which one wins, and what is left of the request.

use mesh::carry::{Carrier, Error, Fault};

use super::*;

fn written(text: &str, carrier: Carrier) -> Found {
    Found::Written { text: text.to_owned(), carrier }
}

fn malformed(carrier: Carrier, fault: Fault) -> Error {
    Error::Malformed { carrier, fault }
}

#[test]
fn a_request_without_a_scope_is_left_as_it_is() {
    for profile in ["rest", "openstack"] {
        for entry in [PUBLIC, INTERNAL] {
            let headers = [
                ("traceparent", "anything"),
                ("tracestate", "a=1 , b=2"),
                ("tracestate", ",c=3,"),
                ("baggage", "k = v;p=1, scoped=x"),
                ("x-openstack-request-id", "req-of-theirs"),
                ("x_openstack_request_id", "req-of-theirs"),
            ];
            let mut parts = get("/v2/images?scope=a", &headers);
            let before = (parts.uri.clone(), parts.headers.clone());
            assert_eq!(carry(profile).find(&mut parts, &entry, NOW), Ok(Found::Nothing));
            assert_eq!((parts.uri, parts.headers), before);
        }
    }
}

#[test]
fn the_header_is_read_and_taken_out() {
    let mut parts = get("/images", &[("X-Scope", r#"{"image": "A & B"}"#), ("accept", "*/*")]);
    let found = carry("rest").find(&mut parts, &PUBLIC, NOW);
    assert_eq!(found, Ok(written(r#"{"image": "A & B"}"#, Carrier::Header)));
    assert_eq!(parts.headers, get("/", &[("accept", "*/*")]).headers);
}

#[test]
fn two_headers_are_refused() {
    let mut parts = get("/", &[("x-scope", "image: A"), ("X-Scope", "image: A")]);
    let found = carry("rest").find(&mut parts, &PUBLIC, NOW);
    assert_eq!(found, Err(malformed(Carrier::Header, Fault::Twice)));
    assert_eq!(found.unwrap_err().status(), 400);
}

#[test]
fn a_prefix_of_the_path_is_read_and_taken_off() {
    for (uri, text, left) in [
        ("/_scope/image:A&B/v2/images?limit=2", "image:A&B", "/v2/images?limit=2"),
        ("/_scope/image%3A%20A%20%7c%20B/v2/images", "image: A | B", "/v2/images"),
        ("/_scope/{\"image\":\"A|B\"}/", "{\"image\":\"A|B\"}", "/"),
        ("/_scope/image:A%3BB/a%2Fb//c?q=/_scope/x", "image:A;B", "/a%2Fb//c?q=/_scope/x"),
        ("/_scope/image:A%2FB/v2", "image:A/B", "/v2"),
        ("/_scope/image:A+B/v2", "image:A+B", "/v2"),
        ("/_scope/image:A", "image:A", "/"),
        ("/_scope/image:A?q", "image:A", "/?q"),
        ("/_scope//v2", "", "/v2"),
        ("http://host:81/_scope/image:A/v2?q=1", "image:A", "http://host:81/v2?q=1"),
    ] {
        let mut parts = get(uri, &[]);
        assert_eq!(carry("rest").find(&mut parts, &PUBLIC, NOW), Ok(written(text, Carrier::Path)), "{uri}");
        assert_eq!(parts.uri.to_string(), left, "{uri}");
    }
}

#[test]
fn paths_that_only_look_like_the_prefix_are_left() {
    for uri in ["/", "/_scope", "/_scopes/a/b", "/v2/_scope/a/b", "/%5Fscope/a/b", "*"] {
        let mut parts = get(uri, &[]);
        assert_eq!(carry("rest").find(&mut parts, &PUBLIC, NOW), Ok(Found::Nothing));
        assert_eq!(parts.uri.to_string(), uri);
    }
}

#[test]
fn a_prefix_that_cannot_be_read_is_refused() {
    for (uri, fault) in [
        ("/_scope/image:%4/x", Fault::Percent),
        ("/_scope/image:%/x", Fault::Percent),
        ("/_scope/image:%+1/x", Fault::Percent),
        ("/_scope/image:%ff/x", Fault::Utf8),
        ("/_scope/image:A/_scope/image:B/x", Fault::Twice),
    ] {
        assert_eq!(
            carry("rest").find(&mut get(uri, &[]), &PUBLIC, NOW),
            Err(malformed(Carrier::Path, fault)),
            "{uri}"
        );
    }
}

#[test]
fn a_scope_in_baggage_is_read_and_other_members_stay() {
    for (sent, text, left) in [
        (&["scope=image:%20A%3BB"][..], "image: A;B", &[][..]),
        (&["user=u1, scope=image:A;p=1 ,k = v;x"], "image:A", &["user=u1,k = v;x"]),
        (&["a=1", "scope = image%3A+A", "b=2,, c=3"], "image: A", &["a=1", "b=2,, c=3"]),
        (&["%73cope=image:A"], "image:A", &[]),
        (&["scope=image:A,a=1,scope=image%3AA"], "image:A", &["a=1"]),
    ] {
        let headers: Vec<_> = sent.iter().map(|value| ("baggage", *value)).collect();
        let mut parts = get("/", &headers);
        assert_eq!(carry("rest").find(&mut parts, &PUBLIC, NOW), Ok(written(text, Carrier::Baggage)));
        assert_eq!(values(&parts.headers, "baggage"), left);
    }
}

#[test]
fn a_scope_in_baggage_that_cannot_be_read_is_refused_only_where_it_counts() {
    for (sent, fault) in [
        ("scope=%", Fault::Percent),
        ("scope=%c3%28", Fault::Utf8),
        ("scope=image:A,scope=image:B,scope=image:B", Fault::Twice),
    ] {
        let carry = carry("rest");
        let mut parts = get("/", &[("baggage", sent)]);
        assert_eq!(carry.find(&mut parts, &PUBLIC, NOW), Err(malformed(Carrier::Baggage, fault)));
        let mut parts = get("/", &[("baggage", sent), ("x-scope", "image: A")]);
        assert_eq!(carry.find(&mut parts, &PUBLIC, NOW), Ok(written("image: A", Carrier::Header)));
        assert!(parts.headers.is_empty());
    }
}

#[test]
fn the_first_carrier_wins_and_all_are_taken_out() {
    let carry = carry("rest");
    let (_, handed) = handed_on(&carry, &[], "image: Key");
    let key = ("tracestate", handed["tracestate"].to_str().unwrap());
    let baggage = ("baggage", "scope=image:Baggage");
    let entry = Entry { default: Some("image: Default"), ..INTERNAL };
    for (uri, headers, scope) in [
        ("/_scope/image:Path/x", &[("x-scope", "image: Header"), key, baggage][..], "image: Header"),
        ("/_scope/image:Path/x", &[key, baggage], "image:Path"),
        ("/x", &[key, baggage], "image: Key"),
        ("/x", &[baggage], "image:Baggage"),
        ("/x", &[], "image: Default"),
        ("/x", &[("x-scope", ""), key, baggage], ""),
    ] {
        let mut parts = get(uri, headers);
        assert_eq!(scope_of(carry.find(&mut parts, &entry, NOW)).as_deref(), Some(scope));
        assert_eq!(parts.uri, "/x");
        assert!(parts.headers.is_empty(), "{:?}", parts.headers);
    }
}

#[test]
fn what_only_peers_may_say_is_taken_out_everywhere() {
    for entry in [PUBLIC, INTERNAL] {
        let mut parts = get(
            "/",
            &[("Archipel-Leg", "1"), ("archipel-leg", "2"), ("archipel-", "3"), ("archipelago", "4")],
        );
        assert_eq!(carry("rest").find(&mut parts, &entry, NOW), Ok(Found::Nothing));
        assert_eq!(parts.headers, get("/", &[("archipelago", "4")]).headers);
    }
}
