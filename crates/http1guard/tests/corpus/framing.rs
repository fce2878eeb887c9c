//! Heads that leave in doubt where the request ends: the classics of request smuggling.

use super::{Case, Expect, bad};
use http1guard::{Part, Rule};

fn post(fields: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n0\r\n\r\nGET /admin HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn after_a_good_one(name: &'static str, fields: &str, rule: Rule) -> Case {
    let bytes = format!("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n{}", post(fields)).into_bytes();
    let forward = &[r#"GET /1 [host: a] "" []"#];
    Case { name, bytes, expect: Expect { forward, refuse: Some((Part::Head, rule)) } }
}

#[rustfmt::skip] // One case, one line.
pub fn cases() -> Vec<Case> {
    vec![
        bad("length and chunked", post("Content-Length: 5\r\nTransfer-Encoding: chunked"), Rule::LengthAndEncoding),
        bad("chunked and length", post("Transfer-Encoding: chunked\r\nContent-Length: 5"), Rule::LengthAndEncoding),
        bad("chunked and length zero", post("Transfer-Encoding: chunked\r\nContent-Length: 0"), Rule::LengthAndEncoding),
        bad("chunked and a length with an underscore", post("Transfer-Encoding: chunked\r\nContent_Length: 5"), Rule::Underscore),
        bad("length and an encoding with an underscore", post("Content-Length: 5\r\nTransfer_Encoding: chunked"), Rule::Underscore),
        bad("a length with an underscore alone", post("Content_Length: 5"), Rule::Underscore),
        bad("two lengths", post("Content-Length: 5\r\nContent-Length: 6"), Rule::TwoLengths),
        bad("two equal lengths", post("Content-Length: 5\r\nContent-Length: 5"), Rule::TwoLengths),
        bad("two lengths in one", post("Content-Length: 5, 5"), Rule::LengthValue),
        bad("an empty length", post("Content-Length:"), Rule::LengthValue),
        bad("a length with a plus", post("Content-Length: +5"), Rule::LengthValue),
        bad("a length with a minus", post("Content-Length: -5"), Rule::LengthValue),
        bad("a hexadecimal length", post("Content-Length: 0x5"), Rule::LengthValue),
        bad("a length with a leading zero", post("Content-Length: 010"), Rule::LengthValue),
        bad("a length with a fraction", post("Content-Length: 5.0"), Rule::LengthValue),
        bad("a length with a space inside", post("Content-Length: 5 5"), Rule::LengthValue),
        bad("a length after a tab", post("Content-Length:\t5"), Rule::LengthValue),
        bad("a length of letters", post("Content-Length: five"), Rule::LengthValue),
        bad("a length in quotes", post("Content-Length: \"5\""), Rule::LengthValue),
        bad("a length of 2^63", post("Content-Length: 9223372036854775808"), Rule::LengthValue),
        bad("a length of 2^64", post("Content-Length: 18446744073709551616"), Rule::LengthValue),
        bad("a length of 2^64 plus five", post("Content-Length: 18446744073709551621"), Rule::LengthValue),
        bad("two encodings", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), Rule::TwoEncodings),
        bad("chunked, then identity", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"), Rule::TwoEncodings),
        bad("identity", post("Transfer-Encoding: identity"), Rule::EncodingValue),
        bad("gzip and chunked", post("Transfer-Encoding: gzip, chunked"), Rule::EncodingValue),
        bad("chunked twice in one", post("Transfer-Encoding: chunked, chunked"), Rule::EncodingValue),
        bad("chunked and a comma", post("Transfer-Encoding: chunked,"), Rule::EncodingValue),
        bad("a comma and chunked", post("Transfer-Encoding: ,chunked"), Rule::EncodingValue),
        bad("chunked with a parameter", post("Transfer-Encoding: chunked;q=1"), Rule::EncodingValue),
        bad("chunked in quotes", post("Transfer-Encoding: \"chunked\""), Rule::EncodingValue),
        bad("xchunked", post("Transfer-Encoding: xchunked"), Rule::EncodingValue),
        bad("chunked in odd letters", post("Transfer-Encoding: cHuNkEd"), Rule::EncodingValue),
        bad("chunked after a tab", post("Transfer-Encoding:\tchunked"), Rule::EncodingValue),
        bad("an empty encoding", post("Transfer-Encoding:"), Rule::EncodingValue),
        bad("chunked in http 1.0", b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Rule::EncodingVersion),
        bad("connect with a length", b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 5\r\n\r\nhello", Rule::ConnectBody),
        bad("connect with chunks", b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Rule::ConnectBody),
        after_a_good_one("two lengths in the second request", "Content-Length: 5\r\nContent-Length: 6", Rule::TwoLengths),
        after_a_good_one("length and chunked in the second request", "Content-Length: 5\r\nTransfer-Encoding: chunked", Rule::LengthAndEncoding),
    ]
}
