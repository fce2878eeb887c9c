//! Refuses HTTP/1 bytes that two parsers could read differently.
//!
//! A mesh stands between a client and a server that each have a parser of their own. Where the two
//! disagree on where a request ends, a client can hide one request inside another (request smuggling).
//! Most parsers are lenient, and each in its own way. So this crate stands before the parser, and passes
//! only bytes that have one reading; everything else is a `400` and a closed connection.
//!
//! [`Guard`] is the judge: bytes in, verdict out. It does no I/O and allocates nothing.
//! [`Guarded`] puts it around a connection, under an HTTP server such as hyper. A server without a parser of its
//! own reads with [`Heads`] and [`Chunks`], which are the same code, and say what they found.
//!
//! In the order in which a byte meets them: `guard` (which part of which request is this?), `line`,
//! `head` and `target` (the request line and the fields), `chunked` (bodies and trailers), `violation`
//! (what was wrong), and for connections `guarded`, `refusal` (the answer) and `aside` (interim answers, which
//! not every server can send).

mod ascii;
mod aside;
mod chunked;
mod guard;
mod guarded;
mod head;
mod limits;
mod line;
mod refusal;
mod target;
mod violation;

pub use ascii::{name_len, text_len};
pub use aside::{Aside, MOST_PER_TURN, Speaker, Turn};
pub use chunked::{Chunks, Piece};
pub use guard::{Guard, Progress};
pub use guarded::Guarded;
pub use head::{Body, Field, Head, Heads};
pub use limits::Limits;
pub use violation::{Part, Rule, Violation};
