//! The HTTP data plane, whole: a real mesh between raw bytes on both sides.
//!
//! Most tests run twice: to the site's own service, and through a second site over a real link.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::indexing_slicing, clippy::string_slice, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "modules of one test binary")]

mod ambiguous;
mod bodies;
mod broken_lists;
mod draining;
mod exclusive;
mod expect;
mod failures;
mod floods;
mod harness;
mod headers;
mod hedging;
mod http2;
mod identity;
mod interim;
mod limits;
mod lists;
mod memory;
mod messages;
mod names;
mod never_twice;
mod operators;
mod paging;
mod records;
mod replicas;
mod resources;
mod sessions;
mod settling;
mod standing;
mod streams;
mod timeouts;
mod tls;
mod tokens;
mod unsafe_ids;
mod upgrade;
mod variants;
mod versions;

/// Which path the meshes of these tests take: `tests/thin` has all of them again, with the other.
const THIN: bool = false;
