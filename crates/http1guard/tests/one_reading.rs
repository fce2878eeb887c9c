//! Never two readings: what the guard passes, hyper and a naive parser read alike.

// A test may panic, and so may what helps it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice)]
#![allow(unreachable_pub)]

mod corpus;
mod support;

use http1guard::Part;
use proptest::prelude::*;
use support::{judge, reference, server};

/// Runs `bytes` through guard and hyper, and compares with what the naive parser reads. Returns the reading.
fn one_reading(runtime: &tokio::runtime::Runtime, bytes: &[u8], size: usize, about: &str) -> Vec<String> {
    let about = format!("{about}, {size} at a time: {}", bytes.escape_ascii());
    let verdict = judge([bytes]);
    let stream = reference::read(&verdict.passed);
    let served = runtime.block_on(server::serve(bytes.chunks(size)));
    assert_eq!(served.readings, stream.requests, "{about}");

    let status = |request: &String| if request.starts_with("CONNECT ") { 404 } else { 200 };
    let mut expected: Vec<u16> = stream.requests.iter().map(status).collect();
    let mut found = served.statuses();
    // Who closed before the bad bytes never hears of them.
    if let Some(violation) = verdict.violation.filter(|_| !stream.closes) {
        expected.push(violation.status());
        let problem = served.answers.ends_with(&format!("\"detail\":\"{violation}\"}}"));
        assert_eq!(problem, violation.part == Part::Head, "{about}\n{}", served.answers);
    } else if stream.is_cut {
        // The service may have begun a request that never ended; it is free to say so.
        found.truncate(expected.len());
    }
    assert_eq!(found, expected, "{about}\n{}", served.answers);
    served.readings
}

#[test]
fn hyper_reads_every_case_as_it_was_meant() {
    let runtime = server::runtime();
    for case in corpus::all() {
        for size in [usize::MAX, 7, 1] {
            let size = size.min(case.bytes.len().max(1));
            let readings = one_reading(&runtime, &case.bytes, size, case.name);
            assert_eq!(readings, case.expect.forward, "{}", case.name);
            assert!(case.expect.refuse.is_some() || judge([&case.bytes[..]]).violation.is_none());
        }
    }
}

/// Pieces of requests that meet rules; put together at random, many are good and many nearly so.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let line = prop::sample::select(vec![
        "GET / HTTP/1.1",
        "POST /a?b=%20 HTTP/1.1",
        "PUT http://a/x HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "CONNECT a:1 HTTP/1.1",
        "get //x HTTP/1.1",
    ]);
    let field = prop::sample::select(vec![
        "X: 1",
        "x-y:  z\t",
        "Upgrade: h2c",
        "Connection: close",
        "Expect: 100-continue",
        "TE: trailers",
        "Content_Type: a",
        "Host: b",
        "Content-Length: 0",
    ]);
    let body = prop::sample::select(vec![
        "\r\n",
        "\r\n",
        "Content-Length: 5\r\n\r\nhello",
        "Content-Length: 18\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n1\r\n\n\r\n0\r\nX-Sum: 1\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    ]);
    (line, prop::collection::vec(field, 0..4), body).prop_map(|(line, fields, body)| {
        let mut lines = vec![line, "Host: a"];
        lines.extend(fields);
        lines.push(body);
        lines.join("\r\n").into_bytes()
    })
}

/// A change to a stream of bytes.
fn change() -> impl Strategy<Value = (prop::sample::Index, u8, u8)> {
    let byte = prop::sample::select(b"\r\n \t\0:;,/0159aA#?*-_\x7f\xff".to_vec());
    (any::<prop::sample::Index>(), byte, 0..3_u8)
}

fn apply(bytes: &mut Vec<u8>, (at, byte, kind): (prop::sample::Index, u8, u8)) {
    let at = at.index(bytes.len() + 1);
    match kind {
        0 => bytes.insert(at, byte),
        1 if at < bytes.len() => bytes[at] = byte,
        _ if at < bytes.len() => drop(bytes.remove(at)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn generated_requests_have_one_reading(
        requests in prop::collection::vec(request(), 1..4),
        changes in prop::collection::vec(change(), 0..3),
        size in 1..200_usize,
    ) {
        let mut bytes = requests.concat();
        for change in changes {
            apply(&mut bytes, change);
        }
        one_reading(&server::runtime(), &bytes, size, "generated");
    }

    #[test]
    fn changed_cases_have_one_reading(
        case in prop::sample::select(corpus::all().into_iter().map(|case| case.bytes).collect::<Vec<_>>()),
        changes in prop::collection::vec(change(), 1..4),
        size in 1..200_usize,
    ) {
        let mut bytes = case;
        for change in changes {
            apply(&mut bytes, change);
        }
        one_reading(&server::runtime(), &bytes, size, "changed");
    }
}
