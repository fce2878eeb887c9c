//! Requests find their scopes, and the calls that they cause find them again, whoever else is sending what.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test fails by panicking"
)]

mod finding;
mod hostile;
mod keys;
mod limits;
mod openstack;
mod tokens;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::HeaderMap;
use http::request::{Parts, Request};
use mesh::carry::{Carry, Entry, Error, Found, Key, Limits, Listener, Record, Secret};
use profile::Profile;
use scope::Site;

const NOW: Duration = Duration::from_secs(100);
const PUBLIC: Entry<'_> = Entry { listener: Listener::Public, default: None };
const INTERNAL: Entry<'_> = Entry { listener: Listener::Internal, default: None };
const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

fn carry(profile: &str) -> Carry {
    carry_within(profile, Limits::default())
}

fn carry_within(profile: &str, limits: Limits) -> Carry {
    let profile = Profile::named(profile).unwrap();
    Carry::new(&profile.propagation, Secret::new(*b"a secret of ours"), limits).unwrap()
}

fn get(uri: &str, headers: &[(&str, &str)]) -> Parts {
    let request = Request::get(uri);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(()).unwrap().into_parts().0
}

fn values<'h>(headers: &'h HeaderMap, name: &str) -> Vec<&'h str> {
    headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
}

/// Bytes that are never the same twice.
fn random() -> impl FnMut(&mut [u8]) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut state = NEXT.fetch_add(1, Ordering::Relaxed);
    move |bytes| {
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = state.to_be_bytes()[0];
        }
    }
}

/// What a client's request with this scope leaves on record.
fn record(carry: &Carry, headers: &HeaderMap, scope: &str) -> Record {
    let here = Site::new("Site1").unwrap();
    let (sender, token) = (carry.sender(headers, CLIENT), carry.token(headers));
    Record { scope: scope.into(), here, hops: 0, sender, token }
}

/// Hands a request on with a scope; returns the headers that its service sees.
fn handed_on(carry: &Carry, headers: &[(&str, &str)], scope: &str) -> (Key, HeaderMap) {
    let mut parts = get("/", headers);
    let record = record(carry, &parts.headers, scope);
    let marks = carry.hand_on(&mut parts, record, NOW, &mut random()).unwrap();
    (marks.key(), parts.headers)
}

fn scope_of(found: Result<Found, Error>) -> Option<String> {
    match found.unwrap() {
        Found::Nothing => None,
        Found::Written { text, .. } => Some(text),
        Found::Caused(record) => Some(record.scope.to_string()),
    }
}
