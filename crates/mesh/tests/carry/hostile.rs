//! Whatever headers and paths hold, finding and handing on neither panic nor touch what is not ours.

use http::HeaderValue;
use proptest::prelude::*;

use super::*;

/// Bytes that can stand in a header, many of them with a meaning somewhere.
fn value() -> impl Strategy<Value = HeaderValue> {
    let piece = prop_oneof![
        Just(b"archipel=".to_vec()),
        Just(b"scope=".to_vec()),
        Just(b"req-".to_vec()),
        Just(b",".to_vec()),
        Just(b"%".to_vec()),
        Just(b"%2".to_vec()),
        Just(b"%c3".to_vec()),
        Just(b" ; = ".to_vec()),
        Just(b"-".to_vec()),
        "[0-9a-f]{1,40}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(piece, 0..12)
        .prop_map(|pieces| pieces.concat())
        .prop_filter_map("not a header's value", |bytes| HeaderValue::from_bytes(&bytes).ok())
}

fn headers() -> impl Strategy<Value = HeaderMap> {
    let names = [
        "tracestate",
        "baggage",
        "traceparent",
        "x-scope",
        "x-openstack-request-id",
        "x_openstack-request_id",
    ];
    let header = (prop::sample::select(names.to_vec()), value());
    prop::collection::vec(header, 0..6).prop_map(|headers| {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value);
        }
        map
    })
}

/// The members of a list that are not ours, in order.
fn others(headers: &HeaderMap, list: &str) -> Vec<Vec<u8>> {
    let ours = |member: &[u8]| {
        let name = member.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
        member.contains(&b'=') && (name == b"archipel" || name == b"scope")
    };
    let members = headers.get_all(list).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    members.filter(|member| !member.trim_ascii().is_empty() && !ours(member)).map(<[u8]>::to_vec).collect()
}

proptest! {
    #[test]
    fn nothing_panics_and_other_members_stay_in_order(
        sent in headers(),
        path in "(/_scope/)?[!-~]{0,20}",
        public in any::<bool>(),
        rest in any::<bool>(),
    ) {
        let carry = carry(if rest { "rest" } else { "openstack" });
        let mut parts = get("/", &[]);
        if let Ok(uri) = format!("/{}", path.trim_start_matches('/')).parse() {
            parts.uri = uri;
        }
        parts.headers = sent.clone();
        if carry.find(&mut parts, if public { &PUBLIC } else { &INTERNAL }, NOW).is_err() {
            return Ok(());
        }
        let record = record(&carry, &parts.headers, "image: A");
        let key = carry.hand_on(&mut parts, record.clone(), NOW, &mut random()).unwrap().key();

        let kept = others(&parts.headers, "tracestate");
        prop_assert!(kept.len() <= 31);
        let mut all = others(&sent, "tracestate");
        // Only the last may be missing, and only where there are too many.
        prop_assert!(kept.len() == all.len() || kept.len() == 31);
        all.truncate(kept.len());
        prop_assert_eq!(kept, all);
        if rest {
            prop_assert_eq!(others(&parts.headers, "baggage"), others(&sent, "baggage"));
        }
        prop_assert_eq!(carry.find(&mut parts, &INTERNAL, NOW), Ok(Found::Caused(record)));
        let hex = key.write(profile::Form::Hex);
        let uuid = key.write(profile::Form::Uuid);
        for value in parts.headers.values() {
            let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
            prop_assert!(!text.contains(&hex) && !text.contains(&uuid), "{text} still has the key");
        }
    }

    #[test]
    fn any_path_behind_a_prefix_is_left_as_it_was(
        scope in "[a-zA-Z:&|^!()@*.,_-]{0,20}",
        rest in "[a-zA-Z0-9%._/-]{0,20}(\\?[a-z=&/]{0,10})?",
    ) {
        prop_assume!(!rest.starts_with("_scope/"));
        let mut parts = get(&format!("/_scope/{scope}/{rest}"), &[]);
        let found = carry("rest").find(&mut parts, &PUBLIC, NOW);
        prop_assert_eq!(scope_of(found), Some(scope));
        prop_assert_eq!(parts.uri.to_string(), format!("/{rest}"));
    }

    #[test]
    fn a_scope_handed_on_in_baggage_is_read_as_it_was(scope in "\\PC{0,60}") {
        let carry = carry("rest");
        let (_, handed) = handed_on(&carry, &[], &scope);
        let text = values(&handed, "baggage")[0].split_once(',').unwrap().1;
        let found = carry.find(&mut get("/", &[("baggage", text)]), &INTERNAL, NOW);
        prop_assert_eq!(scope_of(found), Some(scope));
    }
}
