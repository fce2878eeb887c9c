//! `&` and `^` on a read of one resource: one site's own answer, as it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::{Isles, Upstream, head, json, until};

fn not_found() -> Upstream {
    Upstream::answering("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone")
}

fn own(content_type: &str, body: &[u8]) -> Upstream {
    let mut answer = format!("HTTP/1.1 200 OK\r\n{content_type}Content-Length: {}\r\n", body.len());
    answer.push_str("ETag: \"7\"\r\nWarning: 199 - \"mine\"\r\n\r\n");
    let answer = [answer.as_bytes(), body].concat();
    Upstream::serving(move |_| answer.clone())
}

#[test]
fn the_nearest_site_that_has_it_answers_byte_for_byte() {
    let json = "Content-Type: application/json\r\n";
    let bodies: [(&str, &[u8]); 9] = [
        (json, br#"{"id": 7,  "tags": [{"a": 1}]}"#),
        (json, b"7"),
        (json, br#"{"a": [1, 2]}"#),
        ("Content-Type: text/plain\r\n", b"[{\"id\": 1}]"),
        ("Content-Type: application/octet-stream\r\n", &[0, 1, 2, 0xff, b'[']),
        ("", b"fine"),
        ("", b"\xff\xfe"),
        (json, b""),
        ("", b""),
    ];
    for (content_type, body) in bodies {
        let [near, far] = [own(content_type, body), own("Content-Type: text/plain\r\n", b"far")];
        let isles = Isles::new([&near, &far, &not_found()]);
        let answer = isles.ask("B & A", "GET /carts/7", "");
        let what = format!("{content_type} {}", body.escape_ascii());
        assert_eq!(answer.status(), 200, "{what}: {answer:?}");
        if body.is_empty() {
            continue;
        }
        assert_eq!(answer.body, body, "{what}");
        assert_eq!(answer.field("etag").as_deref(), Some("\"7\""), "{what}");
        assert_eq!(answer.field("content-length"), Some(body.len().to_string()), "{what}");
        assert_eq!(answer.field("warning").as_deref(), Some("199 - \"mine\""), "{what}");
        let answer = isles.ask("A & C", "GET /carts/7", "X-Scope-Strict: true\r\n");
        assert_eq!(answer.body, body, "{what}");
        assert_eq!(isles.counted("answers_partial"), 0);
    }
}

#[test]
fn nothing_at_every_site_is_passed_on_as_nothing() {
    for status in ["200 OK", "204 No Content"] {
        let empty = || Upstream::answering(&format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
        let isles = Isles::new([&empty(), &empty(), &not_found()]);
        for scope in ["A & B", "*"] {
            let answer = isles.ask(scope, "GET /ping", "");
            assert!(answer.line.ends_with(status) && answer.body.is_empty(), "{answer:?} {}", answer.text());
        }
    }
}

#[test]
fn a_resource_that_only_one_site_has_is_found_there() {
    let has = Upstream::json(r#"{"id": "x"}"#);
    let isles = Isles::new([&not_found(), &has, &not_found()]);
    for scope in ["A & B", "*", "A ^ B", "one(*)"] {
        let answer = isles.ask(scope, "GET /carts/x", "");
        assert_eq!((answer.status(), answer.text().as_str()), (200, r#"{"id": "x"}"#), "{scope}");
        assert_eq!(answer.field("warning"), None, "{scope}");
        assert!(answer.field("etag").is_some(), "{scope}");
        assert!(answer.field("scope-sites").unwrap().contains("\"A\";status=404"), "{scope}");
    }
    for scope in ["A & C", "A ^ C"] {
        isles.ask(scope, "GET /carts/x", "").assert_problem(404, "not-found");
    }
}

#[test]
fn a_resource_that_two_have_is_a_conflict_where_one_may_have_it() {
    for body in [r#"{"id": "x"}"#, "\"text\""] {
        let [a, b] = [Upstream::json(body), Upstream::json(body)];
        let isles = Isles::new([&a, &b, &not_found()]);
        isles.ask("A ^ B", "GET /carts/x", "").assert_problem(409, "conflict");

        assert_eq!(isles.ask("A ^ B", "HEAD /carts/x", "").status(), 409);
    }
}

#[test]
fn nothing_at_one_site_while_another_is_missing_says_so() {
    let empty = Upstream::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let dead = Upstream::script(|_| {});
    let isles = Isles::new([&empty, &empty, &dead]);
    let answer = isles.ask("A & B & C", "GET /ping", "");
    assert_eq!((answer.status(), answer.body.as_slice()), (200, &b""[..]), "{answer:?}");
    assert!(answer.field("warning").is_some(), "{answer:?}");
    assert_eq!(answer.field("cache-control").as_deref(), Some("no-store"));
    assert_eq!(isles.counted("answers_partial"), 1);
    isles.ask("A & B & C", "GET /ping", "X-Scope-Strict: true\r\n").assert_problem(504, "incomplete");
}

#[test]
fn a_resource_that_two_of_a_part_have_is_a_conflict_too() {
    let has = Upstream::json(r#"{"id": "x"}"#);
    let isles = Isles::new([&has, &has, &has]);
    isles.ask("A & (B ^ C)", "GET /carts/x", "").assert_problem(409, "conflict");
}

#[test]
fn a_head_is_answered_by_the_nearest() {
    let answer = json(r#"{"id": "x"}"#).split("\r\n\r\n").next().unwrap().to_owned() + "\r\n\r\n";
    let has = Upstream::answering(&answer);
    let isles = Isles::new([&not_found(), &has, &has]);
    let answer = isles.ask("A & B", "HEAD /carts/x", "");
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.field("content-length").as_deref(), Some("11"));
    assert!(answer.field("etag").is_some());
    assert_eq!(has.seen().len(), 1);
}

#[test]
fn a_long_resource_is_streamed_and_the_others_are_let_go() {
    const PIECE: usize = 64 << 10;
    let (go, gone) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (wait, left) = (Arc::clone(&go), Arc::clone(&gone));
    let near = Upstream::script(move |conn| {
        conn.request().unwrap();
        let length = 160 * PIECE;
        conn.send(format!("HTTP/1.1 200 OK\r\nContent-Type: image/x\r\nContent-Length: {length}\r\n\r\n"));
        conn.send(vec![b'x'; PIECE]);
        until("the client has the start", || wait.load(Ordering::SeqCst));
        for _ in 1..160 {
            conn.send(vec![b'y'; PIECE]);
        }
    });
    let far = Upstream::script(move |conn| {
        conn.request().unwrap();
        conn.send("HTTP/1.1 200 OK\r\nContent-Type: image/x\r\nContent-Length: 1000000\r\n\r\nstart");
        conn.assert_closed();
        left.store(true, Ordering::SeqCst);
    });
    let isles = Isles::new([&near, &far, &far]);
    let mut client = isles.connect();
    client.send(head("A & B", "GET /images/7/file", ""));
    let answer = client.head().unwrap();
    assert_eq!(answer.field("content-length"), Some((160 * PIECE).to_string()));
    assert!(client.exactly(PIECE) == vec![b'x'; PIECE]);
    go.store(true, Ordering::SeqCst);
    assert!(client.exactly(159 * PIECE) == vec![b'y'; 159 * PIECE]);
    until("the other site is let go", || gone.load(Ordering::SeqCst));
}
