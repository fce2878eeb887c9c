//! A key brings back the scope of the request that caused a call, and nothing else does.

use super::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn a_key_comes_back_through_each_of_its_carriers() {
    for (profile, carriers) in
        [("rest", &["tracestate", "baggage"][..]), ("openstack", &["tracestate", "x-openstack-request-id"])]
    {
        let carry = carry(profile);
        let (_, handed) = handed_on(&carry, &[], "image: A");
        for carrier in carriers {
            let mut parts = get("/", &[(carrier, handed[*carrier].to_str().unwrap())]);
            let Ok(Found::Caused(found)) = carry.find(&mut parts, &INTERNAL, NOW) else {
                panic!("{carrier}")
            };
            assert_eq!(found, record(&carry, &HeaderMap::new(), "image: A"));
            assert!(parts.headers.is_empty(), "{:?}", parts.headers);
        }
    }
}

#[test]
fn two_scopes_within_one_trace_and_with_one_token_stay_apart() {
    let carry = carry("openstack");
    let shared = [("traceparent", PARENT), ("x-auth-token", "one")];
    let (first, one) = handed_on(&carry, &shared, "image: A");
    let (second, two) = handed_on(&carry, &shared, "image: B");
    assert_ne!(first, second);
    for (headers, scope) in [(one, "image: A"), (two, "image: B")] {
        assert_eq!(values(&headers, "traceparent"), [PARENT]);
        let mut parts = get("/", &[]);
        parts.headers = headers;
        assert_eq!(scope_of(carry.find(&mut parts, &INTERNAL, NOW)).as_deref(), Some(scope));
    }
    // The same trace and token without a key select neither.
    assert_eq!(carry.find(&mut get("/", &shared), &INTERNAL, NOW), Ok(Found::Nothing));
}

#[test]
fn a_forged_key_is_somebody_elses_id() {
    let carry = carry("openstack");
    let (key, handed) = handed_on(&carry, &[], "image: A");
    let id = handed["x-openstack-request-id"].to_str().unwrap();
    let last = if id.ends_with('0') { "1" } else { "0" };
    let forged = format!("{}{last}", &id[..id.len() - 1]);
    let mac_of_another = format!("archipel={:016x}{}", key.nonce() ^ 1, &key.write(profile::Form::Hex)[16..]);
    for headers in [[("x-openstack-request-id", &*forged)], [("tracestate", &*mac_of_another)]] {
        let mut parts = get("/", &headers);
        assert_eq!(carry.find(&mut parts, &INTERNAL, NOW), Ok(Found::Nothing));
        assert_eq!(parts.headers, get("/", &headers).headers);
    }
}

#[test]
fn a_key_of_another_site_is_somebody_elses_id() {
    let there = Carry::new(
        &Profile::named("openstack").unwrap().propagation,
        Secret::new([9; 16]),
        Limits::default(),
    );
    let (_, handed) = handed_on(&there.unwrap(), &[], "image: A");
    let mut parts = get("/", &[]);
    parts.headers = handed.clone();
    assert_eq!(carry("openstack").find(&mut parts, &INTERNAL, NOW), Ok(Found::Nothing));
    assert_eq!(parts.headers, handed);
}

#[test]
fn a_replayed_key_of_an_expired_record_is_scope_lost() {
    let limits = Limits { lifetime: Duration::from_secs(10), ..Limits::default() };
    let carry = carry_within("rest", limits);
    let (_, handed) = handed_on(&carry, &[], "image: A");
    let find = |now| {
        let mut parts = get("/", &[]);
        parts.headers = handed.clone();
        carry.find(&mut parts, &Entry { default: Some("image: B"), ..INTERNAL }, now)
    };
    assert_eq!(scope_of(find(NOW + Duration::from_nanos(9_999_999_999))).as_deref(), Some("image: A"));
    assert_eq!(find(NOW + limits.lifetime), Err(Error::ScopeLost));
    assert_eq!(Error::ScopeLost.status(), 503);
}

#[test]
fn a_key_that_a_client_sends_is_neither_honoured_nor_handed_on() {
    for profile in ["rest", "openstack"] {
        let carry = carry(profile);
        let (key, handed) = handed_on(&carry, &[("tracestate", "a=1"), ("baggage", "b=2")], "image: A");
        let mut parts = get("/", &[]);
        parts.headers = handed;
        parts.headers.remove("traceparent");
        // The scope itself is the client's to send; here it is the key that counts.
        parts
            .headers
            .insert("baggage", format!("archipel={},b=2", key.write(profile::Form::Hex)).parse().unwrap());
        if profile == "openstack" {
            parts.headers.remove("baggage");
        }
        assert_eq!(carry.find(&mut parts, &PUBLIC, NOW), Ok(Found::Nothing));
        let left = if profile == "rest" {
            &[("tracestate", "a=1"), ("baggage", "b=2")][..]
        } else {
            &[("tracestate", "a=1")]
        };
        assert_eq!(parts.headers, get("/", left).headers);
    }
}

#[test]
fn no_spelling_of_a_key_gets_past_a_public_listener() {
    let (openstack, rest) = (carry("openstack"), carry("rest"));
    let (_, handed) = handed_on(&openstack, &[], "image: A");
    let id = handed["x-openstack-request-id"].to_str().unwrap();
    let hex = handed_on(&rest, &[], "image: A").0.write(profile::Form::Hex);
    for (carry, name, value) in [
        (&openstack, "x-openstack-request-id", id.to_uppercase()),
        (&openstack, "x-openstack-request-id", format!(" {id}\t")),
        (&openstack, "x_openstack_request_id", id.to_owned()),
        (&openstack, "x-openstack_request-id", id.to_owned()),
        (&rest, "tracestate", format!("archipel=x, archipel = {hex}")),
        (&rest, "tracestate", format!(",,archipel={}", hex.to_uppercase())),
        (&rest, "baggage", format!("archip%65l={hex};p=1")),
    ] {
        let mut parts = get("/", &[(name, &value)]);
        assert_eq!(carry.find(&mut parts, &PUBLIC, NOW), Ok(Found::Nothing));
        assert!(parts.headers.is_empty(), "{:?}", parts.headers);
    }
}

#[test]
fn a_clients_own_request_id_is_replaced_only_when_its_request_is_scoped() {
    let carry = carry("openstack");
    let own = [("x-openstack-request-id", "req-of-theirs"), ("X_OpenStack_Request_ID", "req-of-theirs")];
    let mut parts = get("/", &own);
    assert_eq!(carry.find(&mut parts, &PUBLIC, NOW), Ok(Found::Nothing));
    assert_eq!(parts.headers, get("/", &own).headers);
    let (key, handed) = handed_on(&carry, &own, "image: A");
    assert_eq!(values(&handed, "x-openstack-request-id"), [key.write(profile::Form::ReqUuid)]);
    assert!(!handed.contains_key("x_openstack_request_id"));
}

#[test]
fn a_trace_is_made_where_there_is_no_valid_one_and_kept_where_there_is() {
    let carry = carry("openstack");
    let wrong = [
        "",
        "x",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
    ];
    for parent in wrong {
        let (_, handed) = handed_on(&carry, &[("traceparent", parent)], "image: A");
        let made = values(&handed, "traceparent");
        assert!(made.len() == 1 && made[0].len() == 55 && made[0].starts_with("00-"), "{made:?}");
        // What was made is valid: it is kept.
        assert_eq!(
            values(&handed_on(&carry, &[("traceparent", made[0])], "image: A").1, "traceparent"),
            made
        );
    }
    let later = "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more";
    assert_eq!(values(&handed_on(&carry, &[("traceparent", later)], "image: A").1, "traceparent"), [later]);
    assert!(handed_on(&carry, &[], "image: A").1.contains_key("traceparent"));
}

#[test]
fn our_member_comes_first_and_only_the_last_of_many_is_dropped() {
    let carry = carry("rest");
    let state: Vec<String> = (0..32).map(|n| format!("m{n}={n}")).collect();
    let (key, handed) =
        handed_on(&carry, &[("tracestate", &state.join(",")), ("tracestate", "archipel=old")], "a: A");
    let ours = format!("archipel={}", key.write(profile::Form::Hex));
    assert_eq!(values(&handed, "tracestate"), [format!("{ours},{}", state[..31].join(","))]);
}

#[test]
fn baggage_has_the_scope_and_the_key_before_the_clients_members() {
    let carry = carry("rest");
    let sent = [("baggage", "a=1;p, b=2"), ("baggage", "scope=old,archipel=old,c=%20")];
    let (key, handed) = handed_on(&carry, &sent, "image: A ; B, *: C");
    let ours = format!("archipel={},scope=image:%20A%20%3B%20B%2C%20*:%20C", key.write(profile::Form::Hex));
    assert_eq!(values(&handed, "baggage"), [format!("{ours},a=1;p, b=2,c=%20")]);
}

#[test]
fn a_scope_that_is_too_long_for_baggage_goes_by_its_key() {
    let carry = carry("rest");
    let scope = format!("image: A{}", " ; B".repeat(1500));
    let (key, handed) = handed_on(&carry, &[], &scope);
    assert_eq!(values(&handed, "baggage"), [format!("archipel={}", key.write(profile::Form::Hex))]);
    let mut parts = get("/", &[]);
    parts.headers = handed;
    assert_eq!(scope_of(carry.find(&mut parts, &INTERNAL, NOW)), Some(scope));
}

#[test]
fn a_caused_call_is_one_hop_further_for_the_same_sender_until_hops_run_out() {
    let carry = carry("rest");
    let first = record(&carry, &HeaderMap::new(), "image: A");
    let second = first.caused().unwrap();
    assert_eq!(second, Record { hops: 1, ..first.clone() });
    assert_eq!(Record { hops: u8::MAX, ..first }.caused(), None);
}
