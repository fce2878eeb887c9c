//! Requests that come again take the way of those before them, which is remembered: nobody sees a difference.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use crate::harness::{Front, Message, Upstream, Way, until};

/// How often each comes: often enough that the last ones are remembered.
const TIMES: usize = 6;

const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Fields of requests that the local service gets.
const FIELDS: [&str; 16] = [
    "",
    "X-Scope: image: here\r\n",
    "x-scope:image: A \r\n",
    "X-Scope: image: here\r\nTraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n",
    "X-Scope: image: here\r\ntraceparent: wrong\r\n",
    "traceparent: wrong\r\n",
    "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n",
    "traceparent: 1\r\ntraceparent: 2\r\n",
    "traceparent: 1\r\ntrace_parent: 2\r\nX-Scope: image: here\r\n",
    "tracestate: a=1, archipel=00000000000000000000000000000000\r\nbaggage: b=2,scope=image%3A%20here\r\n",
    "tracestate: a=1\r\nX-Scope: image: here\r\nbaggage: b=2\r\n",
    "X-Scope: \r\n",
    "Archipel-Scope: image: B\r\nKeep-Alive: 5\r\n",
    "X-Other: 1\r\nX-Scope: image: here\r\nX-Last: 2\r\n",
    "Authorization: Bearer one\r\nX-Scope: image: here\r\n",
    "Connection: keep-alive\r\nX-Scope-Strict: 1\r\nX-Scope: image: here\r\n",
];

/// A request as the service saw it, but for its line, and for the id that is new each time.
fn seen(message: &Message) -> (BTreeSet<(String, String)>, Vec<u8>) {
    let field = |(name, value): &(String, String)| {
        let is_new = name == "traceparent" && is_id(value) && value != VALID;
        (name.to_ascii_lowercase(), if is_new { "new".to_owned() } else { value.clone() })
    };
    (message.fields.iter().map(field).collect(), message.body.clone())
}

fn is_id(value: &str) -> bool {
    let lengths: Vec<usize> = value.split('-').map(str::len).collect();
    lengths == [2, 32, 16, 2] && value.starts_with("00-") && value.ends_with("-01")
}

#[test]
fn a_request_that_comes_again_gets_what_the_first_of_its_kind_got() {
    for line in ["GET /a?b", "POST /a"] {
        for fields in FIELDS {
            let body = if line.starts_with("POST") { "hi" } else { "" };
            let length = if body.is_empty() { "" } else { "Content-Length: 2\r\n" };
            let upstream = Upstream::fine();
            let front = Front::new(Way::Local, &upstream);
            let mut client = front.connect();
            for longer in 0..TIMES {
                let line = format!("{line}{}", "x".repeat(longer % 4));
                client.send(front.head(&line, &format!("{fields}{length}")));
                client.send(body);
                assert_eq!(client.answer().status(), 200, "{fields}");
            }
            let all = upstream.seen();
            for (longer, later) in all.iter().enumerate() {
                assert_eq!(seen(later), seen(&all[0]), "{line} {fields}");
                assert_eq!(later.line, format!("{line}{} HTTP/1.1", "x".repeat(longer % 4)));
            }
            let ids = all.iter().filter_map(|request| request.field("traceparent"));
            let new: Vec<String> = ids.filter(|id| is_id(id) && id != VALID).collect();
            assert_eq!(new.iter().collect::<BTreeSet<_>>().len(), new.len(), "each has one of its own");
            let written = fields.to_lowercase();
            let is_scoped = ["x-scope: image", "x-scope:image", "scope=image"]
                .iter()
                .any(|scope| written.contains(scope));
            assert_eq!(front.counted("requests_scoped_total"), if is_scoped { TIMES as u64 } else { 0 });
            assert_eq!(front.counted("requests_unscoped_total"), if is_scoped { 0 } else { TIMES as u64 });
        }
    }
}

#[test]
fn requests_of_all_kinds_after_each_other_are_not_taken_for_one_another() {
    let upstream = Upstream::fine();
    let front = Front::new(Way::Local, &upstream);
    let mut client = front.connect();
    for _ in 0..TIMES {
        for fields in FIELDS {
            client.send(front.head("GET /", fields));
            assert_eq!(client.answer().status(), 200);
        }
    }
    let all = upstream.seen();
    let (first, later) = all.split_at(FIELDS.len());
    for (place, request) in later.iter().enumerate() {
        assert_eq!(seen(request), seen(&first[place % FIELDS.len()]));
    }
}

#[test]
fn a_way_that_is_known_is_not_taken_while_the_mesh_is_bypassed() {
    let upstream = Upstream::fine();
    let front = Front::new(Way::Local, &upstream);
    let mut client = front.connect();
    for bypassed in [false, true, false] {
        front.bypass(bypassed);
        let before = front.counted("requests_scoped_total");
        for _ in 0..TIMES {
            client.send(front.head("GET /", "X-Scope: image: here\r\n"));
            assert_eq!(client.answer().status(), 200);
            let request = upstream.seen().pop().unwrap();
            assert_eq!(request.field("x-scope"), None);
            assert_eq!(request.field("tracestate").is_some(), !bypassed);
        }
        let counted = front.counted("requests_scoped_total") - before;
        assert_eq!(counted, if bypassed { 0 } else { TIMES as u64 });
    }
}

#[test]
fn limits_hold_for_ways_that_are_known() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let upstream = Upstream::serving(move |request| {
        if request.line.contains("/wait") {
            wait.lock().unwrap().recv().unwrap();
        }
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()
    });
    let front = Front::tuned(Way::Local, upstream.address(), |settings| settings.limits.requests = 1);
    for fields in ["", "X-Scope: image: here\r\n"] {
        let (mut client, mut waiting) = (front.connect(), front.connect());
        for _ in 0..TIMES {
            client.send(front.head("GET /", fields));
            assert_eq!(client.answer().status(), 200, "each gives its place back");
        }
        until("the last is over", || front.in_flight() == 0);
        waiting.send(front.head("GET /wait", fields));
        until("it is in flight", || front.in_flight() == 1);
        client.send(front.head("GET /", fields));
        assert_eq!(client.answer().status(), 503, "{fields}");
        go.send(()).unwrap();
        assert_eq!(waiting.answer().status(), 200);
        until("all are over", || front.in_flight() == 0);
    }
}
