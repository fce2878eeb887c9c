//! Request lines that some parser accepts, and should not.

use super::{Case, bad};
use http1guard::Rule;

fn long_target(bytes: usize) -> Vec<u8> {
    [b"GET /", "x".repeat(bytes).as_bytes(), b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat()
}

#[rustfmt::skip] // One case, one line.
pub fn cases() -> Vec<Case> {
    vec![
        bad("two empty lines before", b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::BlankLines),
        bad("an empty line that ends in lf", b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::BareLf),
        bad("a space before", b" GET / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::LeadingSpace),
        bad("a tab before", b"\tGET / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::LeadingSpace),
        bad("a cr before", b"\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::BareCr),
        bad("a nul before", b"\0GET / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::Method),
        bad("a tls client hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", Rule::Method),
        bad("a byte order mark", b"\xef\xbb\xbfGET / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::Method),
        bad("a bracket in the method", b"G(T / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::Method),
        bad("a colon in the method", b"GET: / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::Method),
        bad("no version, as in http 0.9", b"GET /\r\n\r\n", Rule::RequestLine),
        bad("a method alone", b"GET\r\n\r\n", Rule::RequestLine),
        bad("two spaces before the target", b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::RequestLine),
        bad("two spaces after the target", b"GET /  HTTP/1.1\r\nHost: a\r\n\r\n", Rule::RequestLine),
        bad("a tab for a space", b"GET\t/\tHTTP/1.1\r\nHost: a\r\n\r\n", Rule::RequestLine),
        bad("a space after the version", b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", Rule::RequestLine),
        bad("no target", b"GET  HTTP/1.1\r\nHost: a\r\n\r\n", Rule::RequestLine),
        bad("a space in the target", b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", Rule::RequestLine),
        bad("version 1.2", b"GET / HTTP/1.2\r\nHost: a\r\n\r\n", Rule::Version),
        bad("version 1.10", b"GET / HTTP/1.10\r\nHost: a\r\n\r\n", Rule::Version),
        bad("version 01.1", b"GET / HTTP/01.1\r\nHost: a\r\n\r\n", Rule::Version),
        bad("version 0.9", b"GET / HTTP/0.9\r\n\r\n", Rule::Version),
        bad("a version in small letters", b"GET / http/1.1\r\nHost: a\r\n\r\n", Rule::Version),
        bad("the preface of http 2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Rule::Version),
        bad("a request line that ends in lf", b"GET / HTTP/1.1\nHost: a\r\n\r\n", Rule::BareLf),
        bad("a cr in the target", b"GET /\rX HTTP/1.1\r\nHost: a\r\n\r\n", Rule::BareCr),
        bad("a cr after the version", b"GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", Rule::BareCr),
        bad("a nul in the target", b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", Rule::TargetByte),
        bad("a delete in the target", b"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", Rule::TargetByte),
        bad("a byte above ascii in the target", b"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", Rule::TargetByte),
        bad("a fragment", b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", Rule::TargetByte),
        bad("a backslash", b"GET /a\\..\\b HTTP/1.1\r\nHost: a\r\n\r\n", Rule::TargetByte),
        bad("a quote in the query", b"GET /?a=\"b\" HTTP/1.1\r\nHost: a\r\n\r\n", Rule::TargetByte),
        bad("angle brackets", b"GET /<a> HTTP/1.1\r\nHost: a\r\n\r\n", Rule::TargetByte),
        bad("a path without a slash", b"GET a/b HTTP/1.1\r\nHost: a\r\n\r\n", Rule::TargetForm),
        bad("a query without a path", b"GET ?a HTTP/1.1\r\nHost: a\r\n\r\n", Rule::TargetForm),
        bad("a star for get", b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", Rule::TargetForm),
        bad("two stars", b"OPTIONS ** HTTP/1.1\r\nHost: a\r\n\r\n", Rule::TargetForm),
        bad("a host and port for get", b"GET a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", Rule::TargetForm),
        bad("a path for connect", b"CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::TargetForm),
        bad("a uri for connect", b"CONNECT http://a:80 HTTP/1.1\r\nHost: a\r\n\r\n", Rule::TargetForm),
        bad("connect without a port", b"CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", Rule::TargetForm),
        bad("another scheme", b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", Rule::TargetForm),
        bad("one slash after the scheme", b"GET http:/a HTTP/1.1\r\nHost: a\r\n\r\n", Rule::TargetForm),
        bad("a uri without a host", b"GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", Rule::HostValue),
        bad("a user in a uri", b"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", Rule::HostValue),
        bad("a uri and another host", b"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", Rule::HostMismatch),
        bad("a uri and another port", b"GET http://a:81/ HTTP/1.1\r\nHost: a\r\n\r\n", Rule::HostMismatch),
        bad("connect and another host", b"CONNECT b:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", Rule::HostMismatch),
        bad("a target of 8 KiB", long_target(8192), Rule::TargetTooLong),
        bad("a request line one byte too long", long_target(7985), Rule::TargetTooLong),
        bad("a request line without end", "x".repeat(8000), Rule::TargetTooLong),
    ]
}
