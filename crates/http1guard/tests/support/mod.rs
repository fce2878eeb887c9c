//! What the tests share: readings of a byte stream, by a naive parser and by hyper.
#![allow(dead_code)] // Each test file uses a part.

pub mod reference;
pub mod server;

use http1guard::{Guard, Limits, Progress, Violation};

/// A request in one line, the same whoever read it:
/// `POST /x [content-length: 2; host: a] "hi" [trailer: value]`. Fields are sorted by name.
pub fn notation(
    method: &str,
    target: &str,
    fields: &mut [(String, Vec<u8>)],
    body: &[u8],
    trailers: &mut [(String, Vec<u8>)],
) -> String {
    let list = |fields: &mut [(String, Vec<u8>)]| {
        fields.sort_by(|a, b| a.0.cmp(&b.0)); // stable: equal names keep their order
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| format!("{}: {}", name.as_bytes().escape_ascii(), value.escape_ascii()))
            .collect();
        fields.join("; ")
    };
    let (fields, trailers) = (list(fields), list(trailers));
    let target = target.as_bytes().escape_ascii();
    format!("{method} {target} [{fields}] \"{}\" [{trailers}]", body.escape_ascii())
}

/// What the guard said of a stream of bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The bytes that passed.
    pub passed: Vec<u8>,
    pub violation: Option<Violation>,
}

/// Feeds a guard piece by piece, the way `Guarded` does. Every switch of protocols is refused.
pub fn judge<'b>(pieces: impl IntoIterator<Item = &'b [u8]>) -> Verdict {
    let mut guard = Guard::new(Limits::default());
    let (mut kept, mut passed) = (Vec::new(), Vec::new());
    for piece in pieces {
        kept.extend_from_slice(piece);
        let mut start = 0;
        loop {
            match guard.check(&kept[start..]) {
                Ok(Progress::Pass(here)) => {
                    assert!(here > 0, "a pass of nothing would loop for ever");
                    passed.extend_from_slice(&kept[start..start + here]);
                    start += here;
                }
                Ok(Progress::More) => break,
                Ok(Progress::Hold) => assert!(guard.resume()),
                Err(violation) => {
                    assert_eq!(guard.check(b""), Err(violation), "a verdict is final");
                    return Verdict { passed, violation: Some(violation) };
                }
            }
        }
        kept.drain(..start);
    }
    Verdict { passed, violation: None }
}
