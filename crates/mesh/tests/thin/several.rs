//! Reads from several sites are answered on the connection that they came on, which stays on the thin path.

use crate::harness::{Conn, Isles, Upstream, head};

/// What each service answers with.
fn answer(body: &str) -> String {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-OWN: 1";
    format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// The list of a site with one cart.
fn list(id: &str) -> String {
    format!(r#"{{"carts":[{{"id":"{id}"}}]}}"#)
}

fn carts() -> [Upstream; 3] {
    ["a", "b", "c"].map(|id| Upstream::answering(&answer(&list(id))))
}

const MERGED: &str = r#"{"carts":[{"id":"a","scope_site":"A"},{"id":"b","scope_site":"B"}]}"#;

/// The other path would write the names of fields in small letters.
#[track_caller]
fn assert_thin(client: &mut Conn, body: &str) {
    client.send("GET /carts HTTP/1.1\r\nHost: service\r\n\r\n");
    let answer = answer(body);
    assert_eq!(String::from_utf8(client.exactly(answer.len())).unwrap(), answer);
}

#[test]
fn lists_are_answered_in_their_turn_and_the_connection_stays() {
    let upstreams = carts();
    let isles = Isles::new([&upstreams[0], &upstreams[1], &upstreams[2]]);
    let mut client = isles.connect();
    // The last ones take a way that is remembered.
    client.send(head("A & B", "GET /carts", "").repeat(4));
    for _ in 0..4 {
        let answer = client.answer();
        assert_eq!(answer.text(), MERGED);
        assert_eq!(answer.field("content-length"), Some(MERGED.len().to_string()));
        assert_eq!(answer.field("transfer-encoding"), None);
    }
    assert_thin(&mut client, &list("a"));
    // What went wrong is told there, too.
    client.send(head("B & C", "GET /carts?page=2", ""));
    client.answer().assert_problem(422, "not-mergeable");
    assert_thin(&mut client, &list("a"));
    assert_eq!(isles.counted("answers_merged"), 4);
}

#[test]
fn a_client_that_wants_no_more_than_a_list_gets_no_more() {
    let upstreams = carts();
    let isles = Isles::new([&upstreams[0], &upstreams[1], &upstreams[2]]);
    let mut client = isles.connect();
    client.send(head("A & B", "GET /carts", "Connection: close\r\n"));
    let answer = client.answer();
    assert_eq!(answer.text(), MERGED);
    assert_eq!(answer.field("connection").as_deref(), Some("close"));
    client.assert_closed();
}

#[test]
fn a_list_that_is_not_short_is_told_in_chunks() {
    let item = format!(r#"{{"id":"x","padding":"{}"}}"#, "x".repeat(1000));
    let list = format!(r#"{{"carts":[{}]}}"#, vec![item; 100].join(","));
    let upstream = Upstream::answering(&answer(&list));
    let isles = Isles::new([&upstream; 3]);
    let mut client = isles.connect();
    client.send(head("A & B", "GET /carts", ""));
    let answer = client.answer();
    assert_eq!(answer.field("transfer-encoding").as_deref(), Some("chunked"));
    assert_eq!(answer.field("content-length"), None);
    assert_eq!(answer.text().matches("scope_site").count(), 200);
    assert_thin(&mut client, &list);
}

#[test]
fn a_resource_that_comes_slowly_begins_at_once() {
    let slow = Upstream::noting(|conn, _| {
        if conn.request().is_some() {
            conn.send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\n");
            // The body never comes: it goes once the client has.
            conn.rest();
        }
    });
    let other = Upstream::fine();
    let isles = Isles::new([&slow, &other, &other]);
    let mut client = isles.connect();
    client.send(head("A & B", "GET /cart", ""));
    assert_eq!(client.head().map(|head| head.status()), Some(200));
}
