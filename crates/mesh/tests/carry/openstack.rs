//! Every call that a real OpenStack made while it was recorded (`fixtures/openstack-zed.recording`), attributed to
//! the request that caused it, or to none.

use std::collections::{BTreeMap, HashMap};

use super::*;

const RECORDING: &str = include_str!("fixtures/openstack-zed.recording");

const ID: &str = "X-OpenStack-Request-ID";
/// What the recording's proxy put on a client's request to Nova.
const INJECTED: [&str; 3] = [ID, "traceparent", "tracestate"];

/// A recorded request.
struct Call {
    caller: &'static str,
    service: &'static str,
    uri: &'static str,
    headers: Vec<(&'static str, &'static str)>,
}

impl Call {
    fn read(text: &'static str) -> Call {
        let mut lines = text.lines();
        let [caller, ">", service, _, uri] = *lines.next().unwrap().split(' ').collect::<Vec<_>>() else {
            panic!("{text}")
        };
        let headers = lines.map(|line| line.split_once(": ").unwrap()).collect();
        Call { caller, service, uri, headers }
    }

    fn id(&self) -> Option<&'static str> {
        let mut ids = self.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(ID));
        let id = ids.next().map(|(_, id)| *id);
        assert!(ids.next().is_none());
        id
    }

    fn without(&self, names: &[&str]) -> Parts {
        let kept = |(name, _): &&(&str, &str)| !names.iter().any(|other| name.eq_ignore_ascii_case(other));
        get(self.uri, &self.headers.iter().filter(kept).copied().collect::<Vec<_>>())
    }

    /// The request as it would have been if another id had been handed on.
    fn with(&self, recorded: &str, id: &str) -> Parts {
        let put = |value: &str| value.replace(recorded, id);
        let headers: Vec<_> = self.headers.iter().map(|(name, value)| (*name, put(value))).collect();
        get(self.uri, &headers.iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>())
    }
}

/// Without the comment at its head.
fn recording() -> Vec<Call> {
    RECORDING.split("\n\n").skip(1).map(|call| Call::read(call.trim_end())).collect()
}

/// `^req-[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}$`: Nova drops any other without a word.
fn nova_keeps(id: &str) -> bool {
    let Some(uuid) = id.strip_prefix("req-") else { return false };
    let groups: Vec<&str> = uuid.split('-').collect();
    let digits = |group: &str| group.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]) && groups.iter().all(|group| digits(group))
}

#[test]
fn every_id_has_the_form_that_nova_keeps() {
    let carry = carry("openstack");
    for nonce in [0, u64::MAX, 0xa << 60, 1, 0x0123_4567_89ab_cdef] {
        let mut parts = get("/v2.1/servers", &[]);
        let record = record(&carry, &parts.headers, "image: Site2");
        let random = &mut |bytes: &mut [u8]| {
            let len = bytes.len().min(8);
            bytes[..len].copy_from_slice(&nonce.to_be_bytes()[..len]);
        };
        carry.hand_on(&mut parts, record, NOW, random).unwrap();
        let ids = values(&parts.headers, "X-OpenStack-Request-ID");
        assert!(ids.len() == 1 && nova_keeps(ids[0]), "{ids:?}");
    }
}

#[test]
fn every_recorded_call_is_attributed_to_the_request_that_caused_it() {
    let carry = carry("openstack");
    // Recorded id to ours, and the scope of the request that had it.
    let mut handed: HashMap<&str, (String, String)> = HashMap::new();
    let mut caused = BTreeMap::new();
    let mut nobodys = BTreeMap::new();
    for call in recording() {
        if call.caller.starts_with("client") {
            // What a client sends has no key: a scope of its own for each request tells them apart.
            let mut parts = call.without(&INJECTED);
            assert_eq!(carry.find(&mut parts, &PUBLIC, NOW), Ok(Found::Nothing));
            if call.service == "nova@1" {
                let scope = format!("image: Site{}", handed.len());
                let record = record(&carry, &parts.headers, &scope);
                carry.hand_on(&mut parts, record, NOW, &mut random()).unwrap();
                let id = values(&parts.headers, ID)[0].to_owned();
                assert!(handed.insert(call.id().unwrap(), (id, scope)).is_none());
            }
            continue;
        }
        let recorded = call.id().unwrap_or("none");
        let cause = handed.get(recorded);
        let (id, scope) = cause.map_or((recorded, None), |(id, scope)| (id.as_str(), Some(scope.as_str())));
        let mut parts = call.with(recorded, id);
        let found = scope_of(carry.find(&mut parts, &INTERNAL, NOW));
        assert_eq!(found.as_deref(), scope, "{} > {} {}", call.caller, call.service, call.uri);
        // A key is taken out, and nothing else.
        let rest = if scope.is_some() { call.without(&[ID]) } else { call.without(&[]) };
        assert_eq!(parts.headers, rest.headers);
        let counts = if scope.is_some() { &mut caused } else { &mut nobodys };
        *counts.entry((call.caller, call.service)).or_insert(0) += 1;
    }
    assert_eq!(handed.len(), 35);
    assert_eq!(caused.into_iter().collect::<Vec<_>>(), CAUSED);
    assert_eq!(nobodys.into_iter().collect::<Vec<_>>(), NOBODYS);
}

/// All that nova-api and the scheduler ask for, and what compute does for a request: also after the message bus,
/// and at the other site.
const CAUSED: [((&str, &str), usize); 8] = [
    (("nova-api@1", "glance@1"), 8),
    (("nova-api@1", "glance@2"), 2),
    (("nova-api@1", "neutron@1"), 25),
    (("nova-compute@1", "glance@1"), 16),
    (("nova-compute@1", "glance@2"), 2),
    (("nova-compute@1", "neutron@1"), 12),
    (("nova-compute@1", "placement@1"), 25),
    (("nova-scheduler@1", "placement@1"), 12),
];

/// Logins, the discovery before them, and validations at keystone; periodic tasks of compute, with ids of their own.
const NOBODYS: [((&str, &str), usize); 9] = [
    (("glance@1", "keystone@1"), 5),
    (("glance@2", "keystone@1"), 4),
    (("neutron@1", "keystone@1"), 9),
    (("nova-api@1", "keystone@1"), 10),
    (("nova-compute@1", "keystone@1"), 3),
    (("nova-compute@1", "neutron@1"), 16),
    (("nova-compute@1", "placement@1"), 14),
    (("nova-compute@2", "placement@2"), 6),
    (("placement@1", "keystone@1"), 1),
];

#[test]
fn without_a_key_of_ours_no_recorded_call_is_anybodys() {
    let carry = carry("openstack");
    // Records there are, also of the same tokens.
    for call in recording() {
        let mut parts = call.without(&INJECTED);
        let record = record(&carry, &parts.headers, "image: Site2");
        carry.hand_on(&mut parts, record, NOW, &mut random()).unwrap();
    }
    for call in recording() {
        for names in [&[][..], &[ID]] {
            let mut parts = call.without(names);
            // An id of somebody else's stays.
            assert_eq!(carry.find(&mut parts, &INTERNAL, NOW), Ok(Found::Nothing));
            assert_eq!(parts.headers, call.without(names).headers);
        }
    }
}
