//! What is not for the thin path is served by the other, on the same connection and in order; nobody sees where.

use crate::harness::{Front, Upstream, Way};

/// Requests that the thin path does not serve, and the status of their answers.
const ODD: [(&str, &str, &str, u16); 9] = [
    ("GET /odd HTTP/1.1", "Connection: x-hop\r\nX-Hop: 1\r\n", "", 200),
    ("GET /odd HTTP/1.1", "TE: trailers\r\n", "", 200),
    ("GET http://service/odd HTTP/1.1", "", "", 200),
    ("GET /odd HTTP/1.1", "Connection: upgrade\r\nUpgrade: x\r\n", "", 200),
    ("POST /odd HTTP/1.1", "Expect: 100-continue\r\nContent-Length: 2\r\n", "hi", 200),
    (
        "POST /odd HTTP/1.1",
        "Trailer: X\r\nTransfer-Encoding: chunked\r\n",
        "2\r\nhi\r\n0\r\nX: 1\r\n\r\n",
        200,
    ),
    ("GET /odd HTTP/1.1", "X-Scope: image: B\r\n", "", 503),
    ("GET /odd HTTP/1.1", "X-Scope: image: Nowhere\r\n", "", 400),
    ("OPTIONS * HTTP/1.1", "", "", 200),
];

#[test]
fn a_request_that_is_not_for_the_thin_path_is_answered_in_its_turn() {
    for (line, fields, body, status) in ODD {
        for at_once in [true, false] {
            let upstream = Upstream::fine();
            let front = Front::new(Way::Local, &upstream);
            let plain = front.head("GET /plain", "");
            let odd = format!("{line}\r\nHost: service\r\n{fields}\r\n{body}");
            let all = [plain.as_str(), &plain, &odd, &plain];
            let mut client = front.connect();
            if at_once {
                client.send(all.concat());
            }
            let statuses = all.map(|request| {
                if !at_once {
                    client.send(request);
                }
                client.answer().status()
            });
            assert_eq!(statuses, [200, 200, status, 200], "{line} {fields}");
            let seen: Vec<String> = upstream.seen().into_iter().map(|seen| seen.line).collect();
            assert_eq!(seen.iter().filter(|line| *line == "GET /plain HTTP/1.1").count(), 3, "{seen:?}");
            assert_eq!(seen.len(), if status == 200 { 4 } else { 3 }, "{seen:?}");
        }
    }
}

#[test]
fn a_head_may_come_byte_by_byte_or_be_longer_than_a_buffer() {
    let upstream = Upstream::fine();
    let front = Front::new(Way::Local, &upstream);
    let mut client = front.connect();
    for byte in front.head("GET /slow", "X: 1\r\n").bytes() {
        client.send([byte]);
    }
    assert_eq!(client.answer().text(), "fine");
    let long = "x".repeat(20 << 10);
    client.send(front.head("GET /long", &format!("X: {long}\r\n")));
    assert_eq!(client.answer().text(), "fine");
    assert_eq!(upstream.seen()[1].field("x"), Some(long));
}

#[test]
fn fields_are_handed_on_as_they_were_written_and_the_connection_is_kept() {
    let upstream = Upstream::script(|conn| {
        for _ in 0..2 {
            let head = conn.exactly(front_head().len());
            assert_eq!(String::from_utf8(head).unwrap(), front_head());
            conn.send("HTTP/1.1 299 Fine\r\nX-OWN: a  b\r\nContent-Length: 1\r\n\r\nx");
        }
    });
    let front = Front::new(Way::Local, &upstream);
    let mut client = front.connect();
    for _ in 0..2 {
        client.send(front_head().replace("X-ODD", "Connection: Keep-Alive\r\nX-ODD"));
        let answer = "HTTP/1.1 299 Fine\r\nX-OWN: a  b\r\ncontent-length: 1\r\n\r\nx";
        assert_eq!(String::from_utf8(client.exactly(answer.len())).unwrap(), answer);
    }
    assert_eq!(upstream.connections(), 1);
}

fn front_head() -> String {
    "GET /a%20b?c HTTP/1.1\r\nHost: Service\r\nAccept: */*\r\nX-ODD:  a\r\n\r\n".to_owned()
}

#[test]
fn a_refused_body_is_told_and_ends_the_connection() {
    let upstream = Upstream::script(|conn| assert!(conn.request().is_none(), "half a request is none"));
    let front = Front::new(Way::Local, &upstream);
    for body in ["5\r\nhello0\r\n\r\n", "x\r\n", "5\r\nhello\r\n0\r\nContent-Length: 1\r\n\r\n"] {
        let mut client = front.connect();
        client
            .send(front.head("POST /", "Transfer-Encoding: chunked\r\n") + body + &front.head("GET /2", ""));
        client.answer().assert_problem(400, "bad-body");
        client.assert_closed();
    }
}
