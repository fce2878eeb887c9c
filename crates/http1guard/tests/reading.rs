//! Whoever reads with `Heads` and `Chunks` gets the guard's verdict, and what a naive parser finds in the same bytes.

// A test may panic, and so may what helps it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice)]
#![allow(unreachable_pub)]

mod corpus;
mod support;

use http1guard::{Body, Chunks, Heads, Limits, Piece, Violation};
use support::{judge, reference};

/// What was told of a stream, written down anew without trailers, and what ended it.
fn told<'b>(pieces: impl IntoIterator<Item = &'b [u8]>) -> (Vec<u8>, Option<Violation>) {
    let mut reader = Reader::default();
    for piece in pieces {
        reader.kept.extend_from_slice(piece);
        while match reader.step() {
            Ok(went_on) => went_on,
            Err(violation) => return (reader.told, Some(violation)),
        } {}
    }
    (reader.told, None)
}

struct Reader {
    heads: Heads,
    kept: Vec<u8>,
    fields: Vec<u8>,
    told: Vec<u8>,
    at: At,
}

enum At {
    Head,
    Length(u64),
    Chunked(Box<Chunks>),
}

impl Default for Reader {
    fn default() -> Reader {
        let heads = Heads::new(Limits::default());
        Reader { heads, kept: Vec::new(), fields: Vec::new(), told: Vec::new(), at: At::Head }
    }
}

impl Reader {
    /// Whether there was enough for a step.
    fn step(&mut self) -> Result<bool, Violation> {
        let taken = match &mut self.at {
            At::Head => {
                let fields = &mut self.fields;
                let head = self.heads.read(&self.kept, |field| {
                    fields.extend_from_slice(&[field.name, b":", field.value, b"\r\n"].concat());
                })?;
                let Some(head) = head else { return Ok(false) };
                let line = [&self.kept[head.method], b" ", &self.kept[head.target]].concat();
                let version = if head.is_http_1_1 { " HTTP/1.1\r\n" } else { " HTTP/1.0\r\n" };
                self.told.extend([&line, version.as_bytes(), fields, b"\r\n"].concat());
                self.fields.clear();
                self.at = match head.body {
                    Body::None | Body::Length(0) => At::Head,
                    Body::Length(left) => At::Length(left),
                    Body::Chunked => At::Chunked(Box::new(Chunks::new(Limits::default()))),
                };
                head.len
            }
            At::Length(left) => {
                let here = self.kept.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                self.told.extend_from_slice(&self.kept[..here]);
                *left -= here as u64;
                if *left == 0 {
                    self.at = At::Head;
                }
                here
            }
            At::Chunked(chunks) => match chunks.read(&self.kept)? {
                Piece::More => 0,
                Piece::Frame(here) => here,
                Piece::Data(here) => {
                    self.told.extend_from_slice(format!("{here:x}\r\n").as_bytes());
                    self.told.extend_from_slice(&self.kept[..here]);
                    self.told.extend_from_slice(b"\r\n");
                    here
                }
                Piece::End(here) => {
                    self.told.extend_from_slice(b"0\r\n\r\n");
                    self.at = At::Head;
                    here
                }
            },
        };
        self.kept.drain(..taken);
        Ok(taken > 0)
    }
}

fn without_trailers(requests: &[String]) -> Vec<&str> {
    requests.iter().map(|request| request.rsplit_once(" [").unwrap().0).collect()
}

#[test]
fn what_is_told_is_what_the_guard_passes() {
    for case in corpus::all() {
        for size in [1, 7, usize::MAX] {
            let (told, violation) = told(case.bytes.chunks(size));
            let verdict = judge(case.bytes.chunks(size));
            assert_eq!(violation, verdict.violation, "{}", case.name);
            let refused = violation.map(|violation| (violation.part, violation.rule));
            assert_eq!(refused, case.expect.refuse, "{}", case.name);
            let meant: Vec<String> = case.expect.forward.iter().map(ToString::to_string).collect();
            let ours = reference::read(&told).requests;
            assert_eq!(without_trailers(&ours), without_trailers(&meant), "{}, by {size} bytes", case.name);
        }
    }
}
