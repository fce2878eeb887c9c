//! Calls of the kinds that a real OpenStack makes (`fixtures/openstack.txt`), each attributed to the request that
//! caused it, or to none.

use super::*;

const CALLS: &str = include_str!("fixtures/openstack.txt");

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
fn each_call_is_attributed_to_the_request_that_caused_it() {
    let carry = carry("openstack");
    let mut counts = [0, 0];
    let user = [("x-auth-token", "gAAAAABuser")];
    let (_, one) = handed_on(&carry, &user, "image: Site2");
    let (_, two) = handed_on(&carry, &user, "image: Site3");
    for call in CALLS.split("\n\n").skip(1).map(str::trim) {
        for (handed, scope) in [(&one, "image: Site2"), (&two, "image: Site3")] {
            let id = handed["x-openstack-request-id"].to_str().unwrap();
            let call = call.replace("<injected>", id);
            let mut lines = call.lines().filter(|line| !line.starts_with('#'));
            let (_, uri) = lines.next().unwrap().split_once(' ').unwrap();
            let headers: Vec<_> = lines.map(|line| line.split_once(": ").unwrap()).collect();
            let expected = call.contains(id).then_some(scope);
            counts[usize::from(expected.is_some())] += 1;
            let found = carry.find(&mut get(uri, &headers), &INTERNAL, NOW);
            assert_eq!(scope_of(found).as_deref(), expected, "{call}");
        }
    }
    assert_eq!(counts, [8, 10], "calls of nobody's and of the two requests");
}
