//! Interim answers (1xx) on the shared connections, where hyper carries none.
//!
//! A request that wants to hear them has a number. They come back in frames of a type of the link's own, between those
//! of HTTP/2, each with the number of its request: `said` puts them there, `heard` takes them out again. Frames of
//! unknown types are ignored by whoever speaks HTTP/2 (RFC 9113, 4.1), and nobody gets one who did not ask for it.
//!
//! A connection is one stream of bytes: what was said before an answer is heard before it, and waits for nothing.

mod frame;
mod heard;
mod said;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use http::{HeaderMap, StatusCode};

pub(crate) use heard::{Ears, Hearing};
pub use said::Speaker;
pub(crate) use said::{Mouth, Saying};

/// Is told of each interim answer to one request, before the answer.
pub type Ear = Arc<dyn Fn(StatusCode, &HeaderMap) + Send + Sync>;
