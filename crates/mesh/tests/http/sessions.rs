//! A session of several requests, such as an upload to a registry, stays at the site that began it.

use mesh::Settings;
use profile::Profile;

use crate::harness::{Isles, Message, Upstream};

/// A registry that begins uploads, goes on with those that it began, and knows no others.
fn registry(name: &'static str) -> Upstream {
    let state = format!("/v2/a/blobs/uploads/of-{name}?_state=a%2Bb");
    Upstream::serving(move |request| {
        let target = request.line.split(' ').nth(1).unwrap();
        let (status, location) = if target == "/v2/a/blobs/uploads/" {
            ("202 Accepted", format!("http://registry{state}"))
        } else if target == state {
            ("202 Accepted", state.clone())
        } else if target == format!("{state}&digest=sha256:00") {
            ("201 Created", "/v2/a/blobs/sha256:00".to_owned())
        } else {
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec();
        };
        format!("HTTP/1.1 {status}\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n").into_bytes()
    })
}

fn oci(settings: &mut Settings) {
    settings.profile = Profile::named("oci").unwrap();
}

fn isles(upstreams: [&Upstream; 3]) -> Isles {
    Isles::tuned(upstreams, oci)
}

fn send(isles: &Isles, line: &str, scope: Option<&str>) -> Message {
    let scope = scope.map(|scope| format!("X-Scope: image: {scope}\r\n")).unwrap_or_default();
    let mut client = isles.connect();
    client.send(format!("{line} HTTP/1.1\r\nHost: registry\r\n{scope}Content-Length: 0\r\n\r\n"));
    client.answer()
}

fn location(answer: &Message) -> String {
    let location = answer.field("location").unwrap_or_else(|| panic!("{answer:?}"));
    location.trim_start_matches("http://registry").to_owned()
}

#[test]
fn later_requests_of_a_session_go_to_the_site_that_began_it() {
    let (a, b) = (registry("a"), registry("b"));
    let isles = isles([&a, &b, &a]);
    for first in ["B", "B ; A", "within(5s, B) | B"] {
        let begun = send(&isles, "POST /v2/a/blobs/uploads/", Some(first));
        assert_eq!(begun.status(), 202, "{begun:?}");
        assert!(begun.field("location").unwrap().starts_with("http://registry/v2/"), "{begun:?}");
        for then in [Some("A"), Some("A ; B"), Some("A & B"), Some("C | A"), None] {
            let more = send(&isles, &format!("PATCH {}", location(&begun)), then);
            assert_eq!(more.status(), 202, "{first}, then {then:?}: {more:?}");
            let ended = send(&isles, &format!("PUT {}&digest=sha256:00", location(&more)), then);
            assert_eq!((ended.status(), &*location(&ended)), (201, "/v2/a/blobs/sha256:00"), "{ended:?}");
        }
    }
    assert!(a.seen().is_empty(), "{:?}", a.seen());
}

#[test]
fn a_session_of_this_site_stays_here_whatever_the_scope_says() {
    let (a, b) = (registry("a"), registry("b"));
    let isles = isles([&a, &b, &b]);
    for first in ["A", "A ; B"] {
        let begun = send(&isles, "POST /v2/a/blobs/uploads/", Some(first));
        let more = send(&isles, &format!("PATCH {}", location(&begun)), Some("B"));
        assert_eq!(more.status(), 202, "{more:?}");
    }
    assert!(b.seen().is_empty());
}

#[test]
fn a_session_of_several_sites_begins_at_one_of_them() {
    let (a, b, c) = (registry("a"), registry("b"), registry("c"));
    let isles = isles([&a, &b, &c]);
    for scope in ["A & B", "(B & A & C) @quorum", "(B | A) & C"] {
        let begun = send(&isles, "POST /v2/a/blobs/uploads/", Some(scope));
        assert!(location(&begun).contains("of-a?"), "{scope}: {begun:?}");
        let ended = send(&isles, &format!("PUT {}&digest=sha256:00", location(&begun)), Some(scope));
        assert_eq!(ended.status(), 201, "{scope}: {ended:?}");
    }
    assert!(b.seen().is_empty() && c.seen().is_empty(), "this site is of each group");
    let begun = send(&isles, "POST /v2/a/blobs/uploads/", Some("B & C"));
    let ended = send(&isles, &format!("PUT {}&digest=sha256:00", location(&begun)), Some("A & B & C"));
    assert_eq!((begun.status(), ended.status()), (202, 201), "{begun:?} {ended:?}");
    assert!(b.seen().is_empty() || c.seen().is_empty(), "one of the two");
}

#[test]
fn addresses_are_untouched_without_a_scope() {
    let a = registry("a");
    let isles = isles([&a, &a, &a]);
    let begun = send(&isles, "POST /v2/a/blobs/uploads/", None);
    assert_eq!(location(&begun), "/v2/a/blobs/uploads/of-a?_state=a%2Bb");
}

#[test]
fn a_session_of_an_unknown_site_is_lost() {
    let a = registry("a");
    let isles = isles([&a, &a, &a]);
    let lost = send(&isles, "PATCH /v2/a/blobs/uploads/of-a?_state=a%2Bb&scope-session=Nowhere", None);
    lost.assert_problem(404, "session-lost");
    assert!(a.seen().is_empty());
}
