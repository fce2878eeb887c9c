//! A sender that floods the records is stopped by its own limit, and nobody loses a live record.

use std::sync::Arc;

use mesh::carry::Full;

use super::*;

const LIMITS: Limits = Limits { per_sender: 10, total: 50, lifetime: Duration::from_mins(1) };

/// Hands on a request of a sender.
fn send(carry: &Carry, token: &str, now: Duration, random: &mut dyn FnMut(&mut [u8])) -> Result<Key, Error> {
    let mut parts = get("/", &[("x-auth-token", token)]);
    let record = record(carry, &parts.headers, &format!("image: {token}"));
    carry.hand_on(&mut parts, record, now, random).map(|marks| marks.key())
}

#[test]
fn a_flood_is_refused_while_another_sender_is_served_and_no_live_record_is_lost() {
    let (carry, random) = (carry_within("openstack", LIMITS), &mut random());
    let mut keys: Vec<Key> = (0..10).map(|_| send(&carry, "flood", NOW, random).unwrap()).collect();
    for _ in 0..1000 {
        let refused = send(&carry, "flood", NOW, random).unwrap_err();
        assert_eq!(refused, Error::TooManyRecords(Full::Sender));
        assert_eq!(refused.status(), 429);
    }
    keys.push(send(&carry, "other", NOW, random).unwrap());
    assert_eq!(carry.records().held(), 11);
    for key in keys {
        assert!(carry.records().get(key, NOW).is_some());
    }
}

#[test]
fn a_refused_request_is_left_as_it_was() {
    let (carry, random) = (carry_within("openstack", Limits { per_sender: 0, ..LIMITS }), &mut random());
    let mut parts = get("/", &[("x-openstack-request-id", "own")]);
    let before = parts.headers.clone();
    let record = record(&carry, &parts.headers, "image: A");
    let refused = carry.hand_on(&mut parts, record, NOW, random).unwrap_err();
    assert_eq!(refused, Error::TooManyRecords(Full::Sender));
    assert_eq!(parts.headers, before);
}

#[test]
fn senders_together_stay_within_the_total() {
    let (carry, random) = (carry_within("openstack", LIMITS), &mut random());
    let sent: Vec<_> = (0..100).map(|n| send(&carry, &format!("t{n}"), NOW, random)).collect();
    assert_eq!(sent.iter().filter(|key| key.is_ok()).count(), 50);
    assert_eq!(sent[99], Err(Error::TooManyRecords(Full::Site)));
    for key in sent.into_iter().flatten() {
        assert!(carry.records().get(key, NOW).is_some());
    }
}

#[test]
fn room_comes_back_when_records_expire() {
    let (carry, random) = (carry_within("openstack", LIMITS), &mut random());
    for n in 0..50 {
        send(&carry, &format!("t{}", n / 10), NOW, random).unwrap();
    }
    let later = NOW + LIMITS.lifetime;
    assert!(send(&carry, "t0", NOW + Duration::from_nanos(59_999_999_999), random).is_err());
    // The sender that was full, and one that is new.
    assert!(send(&carry, "t0", later, random).is_ok());
    assert!(send(&carry, "new", later, random).is_ok());
}

#[test]
fn expired_records_go_while_others_come() {
    let limits = Limits { per_sender: 10, total: 100_000, lifetime: Duration::from_secs(1) };
    let (carry, random) = (carry_within("openstack", limits), &mut random());
    for n in 0..20_000 {
        let now = NOW + Duration::from_millis(n);
        send(&carry, &format!("t{n}"), now, random).unwrap();
        assert!(carry.records().held() < 2000, "{} are held after {n}", carry.records().held());
    }
}

#[test]
fn what_is_forgotten_makes_room_and_is_lost() {
    let (carry, random) = (carry_within("openstack", LIMITS), &mut random());
    let keys: Vec<Key> = (0..10).map(|_| send(&carry, "a", NOW, random).unwrap()).collect();
    carry.records().forget(keys[3]);
    carry.records().forget(keys[3]);
    assert_eq!((carry.records().held(), carry.records().get(keys[3], NOW)), (9, None));
    assert!(send(&carry, "a", NOW, random).is_ok());
    assert!(send(&carry, "a", NOW, random).is_err());
}

#[test]
fn the_same_random_bytes_twice_never_replace_a_record() {
    let carry = carry_within("openstack", LIMITS);
    let same = &mut |bytes: &mut [u8]| bytes.fill(0xff);
    let first = send(&carry, "a", NOW, same).unwrap();
    let second = send(&carry, "b", NOW, same).unwrap();
    assert_ne!(first, second);
    assert_eq!(&*carry.records().get(first, NOW).unwrap().scope, "image: a");
    assert_eq!(&*carry.records().get(second, NOW).unwrap().scope, "image: b");
}

#[test]
fn a_sender_is_its_token_else_its_network() {
    let carry = carry("openstack");
    let sender = |token: Option<&str>, client: &str| {
        let headers: Vec<_> = token.iter().map(|token| ("x-auth-token", *token)).collect();
        carry.sender(&get("/", &headers).headers, client.parse().unwrap())
    };
    assert_eq!(sender(Some("a"), "192.0.2.1"), sender(Some("a"), "192.0.2.2"));
    assert_ne!(sender(Some("a"), "192.0.2.1"), sender(Some("b"), "192.0.2.1"));
    assert_ne!(sender(None, "192.0.2.1"), sender(None, "192.0.2.2"));
    assert_eq!(sender(None, "192.0.2.1"), sender(None, "::ffff:192.0.2.1"));
    assert_eq!(sender(None, "2001:db8::1"), sender(None, "2001:db8::ffff:1"));
    assert_ne!(sender(None, "2001:db8::1"), sender(None, "2001:db8:0:1::1"));
}

#[test]
fn many_threads_keep_count() {
    let limits = Limits { per_sender: 500, total: 1500, lifetime: Duration::from_mins(1) };
    let carry = Arc::new(carry_within("openstack", limits));
    let threads: Vec<_> = (0..4_u8)
        .map(|thread| {
            let carry = Arc::clone(&carry);
            std::thread::spawn(move || {
                let mut next = u64::from(thread) << 32;
                let random = &mut |bytes: &mut [u8]| {
                    next += 1;
                    bytes[..8].copy_from_slice(&next.to_be_bytes());
                };
                let keys = (0..1000).filter_map(|n| send(&carry, &format!("t{}", n % 2), NOW, random).ok());
                keys.collect::<Vec<Key>>()
            })
        })
        .collect();
    let keys: Vec<Key> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    assert_eq!((keys.len(), carry.records().held()), (1000, 1000));
    assert!(keys.iter().all(|key| carry.records().get(*key, NOW).is_some()));
}
