//! Requests as bytes, each with the verdict it deserves. Most were used against real servers once.

mod bodies;
mod fields;
mod framing;
mod good;
mod request_lines;

use http1guard::{Part, Rule};

pub struct Case {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    pub expect: Expect,
}

pub struct Expect {
    /// The requests that pass, in the notation of `support::notation`.
    pub forward: &'static [&'static str],
    /// The rule that ends the connection after them.
    pub refuse: Option<(Part, Rule)>,
}

fn good(name: &'static str, bytes: &[u8], forward: &'static [&'static str]) -> Case {
    Case { name, bytes: bytes.to_vec(), expect: Expect { forward, refuse: None } }
}

fn bad(name: &'static str, bytes: impl AsRef<[u8]>, rule: Rule) -> Case {
    let expect = Expect { forward: &[], refuse: Some((Part::Head, rule)) };
    Case { name, bytes: bytes.as_ref().to_vec(), expect }
}

/// The head is good, the body is not.
fn bad_body(name: &'static str, body: impl AsRef<[u8]>, rule: Rule) -> Case {
    let mut bytes = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    bytes.extend_from_slice(body.as_ref());
    let expect = Expect { forward: &[], refuse: Some((Part::Body, rule)) };
    Case { name, bytes, expect }
}

pub fn all() -> Vec<Case> {
    [good::cases(), request_lines::cases(), fields::cases(), framing::cases(), bodies::cases()]
        .into_iter()
        .flatten()
        .collect()
}
