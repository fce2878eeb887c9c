//! Fields that some parser accepts, and should not.

use super::{Case, bad};
use http1guard::Rule;

fn get(fields: &str) -> String {
    format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n")
}

#[rustfmt::skip] // One case, one line.
pub fn cases() -> Vec<Case> {
    vec![
        bad("a field that ends in lf", b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", Rule::BareLf),
        bad("an empty line that ends in lf, after a head", b"GET / HTTP/1.1\r\nHost: a\r\n\n", Rule::BareLf),
        bad("lf lf ends a head", b"GET / HTTP/1.1\r\nHost: a\n\n", Rule::BareLf),
        bad("a cr inside a value", get("Host: a\r\nX: b\rTransfer-Encoding: chunked"), Rule::BareCr),
        bad("a cr at the end of a value", get("Host: a\r\nX: b\r"), Rule::BareCr),
        bad("a cr alone for the empty line", b"GET / HTTP/1.1\r\nHost: a\r\n\rX: b\r\n\r\n", Rule::BareCr),
        bad("a cr in a name", get("Host: a\r\nX\rY: b"), Rule::BareCr),
        bad("a space before the colon", get("Host: a\r\nContent-Length : 5"), Rule::SpaceBeforeColon),
        bad("a tab before the colon", get("Host: a\r\nTransfer-Encoding\t: chunked"), Rule::SpaceBeforeColon),
        bad("a space inside a name", get("Host: a\r\nX Y: b"), Rule::SpaceBeforeColon),
        bad("a folded value", get("Host: a\r\nX: b\r\n c"), Rule::Folding),
        bad("a folded value with a tab", get("Host: a\r\nTransfer-Encoding:\r\n\tchunked"), Rule::EncodingValue),
        bad("a folded value that has a tab", get("Host: a\r\nX: b\r\n\tchunked"), Rule::Folding),
        bad("whitespace before the first field", get(" Host: a"), Rule::Folding),
        bad("a line of whitespace", get("Host: a\r\n "), Rule::Folding),
        bad("no colon", get("Host: a\r\nGET /admin"), Rule::SpaceBeforeColon),
        bad("a name alone", get("Host: a\r\nX"), Rule::FieldName),
        bad("no name", get("Host: a\r\n: b"), Rule::FieldName),
        bad("a bracket in a name", get("Host: a\r\nX(Y): b"), Rule::FieldName),
        bad("a nul in a name", get("Host: a\r\nTransfer-Encoding\0: chunked"), Rule::FieldName),
        bad("a byte above ascii in a name", get("Host: a\r\nX\u{e9}: b"), Rule::FieldName),
        bad("a vertical tab in a name", get("Host: a\r\n\x0bX: b"), Rule::FieldName),
        bad("a nul in a value", get("Host: a\r\nX: a\0b"), Rule::Control),
        bad("an escape in a value", get("Host: a\r\nX: \x1b[31m"), Rule::Control),
        bad("a delete in a value", get("Host: a\r\nX: \x7f"), Rule::Control),
        bad("a vertical tab before a value", get("Host: a\r\nTransfer-Encoding: \x0bchunked"), Rule::Control),
        bad("a form feed in a value", get("Host: a\r\nX: a\x0cb"), Rule::Control),
        bad("no host", get("X: a"), Rule::NoHost),
        bad("no field at all", b"GET / HTTP/1.1\r\n\r\n", Rule::NoHost),
        bad("two hosts", get("Host: a\r\nHost: b"), Rule::TwoHosts),
        bad("two hosts that are equal", get("Host: a\r\nX: y\r\nhost: a"), Rule::TwoHosts),
        bad("two hosts in http 1.0", b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", Rule::TwoHosts),
        bad("an empty host", get("Host:"), Rule::HostValue),
        bad("two hosts in one", get("Host: a, b"), Rule::HostValue),
        bad("a path in the host", get("Host: a/b"), Rule::HostValue),
        bad("a user in the host", get("Host: u@a"), Rule::HostValue),
        bad("a tab after the host", get("Host: a\t"), Rule::HostValue),
        bad("an empty port", get("Host: a:"), Rule::HostValue),
        bad("a port of letters", get("Host: a:http"), Rule::HostValue),
        bad("a port that is too large", get("Host: a:65536"), Rule::HostValue),
        bad("a port of many digits", get("Host: a:99999999999999999999"), Rule::HostValue),
        bad("two ports", get("Host: a:80:81"), Rule::HostValue),
        bad("an open bracket", get("Host: [::1"), Rule::HostValue),
        bad("bytes after a bracket", get("Host: [::1]a"), Rule::HostValue),
        bad("a name in brackets", get("Host: [a]"), Rule::HostValue),
        bad("a zone in brackets", get("Host: [fe80::1%25eth0]"), Rule::HostValue),
        bad("a percent in the host", get("Host: a%00"), Rule::HostValue),
        bad("a host beyond ascii", get("Host: \u{e9}"), Rule::HostValue),
        bad("101 fields", get(&format!("Host: a\r\n{}Z: z", "X: y\r\n".repeat(99))), Rule::TooManyFields),
        bad("a value of 33 KiB", get(&format!("Host: a\r\nX: {}", "y".repeat(33 << 10))), Rule::HeadTooLarge),
        bad("a value without end", format!("GET / HTTP/1.1\r\nX: {}", "y".repeat(32 << 10)), Rule::HeadTooLarge),
    ]
}
