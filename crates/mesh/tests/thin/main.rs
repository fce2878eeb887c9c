//! The same tests with the thin path on, as it is unless a file says otherwise. What is not for that path must not look
//! different either.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::indexing_slicing, clippy::string_slice, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "modules of one test binary")]
#![allow(dead_code, unused_imports, reason = "the harness has more than these tests use")]

#[path = "../http/ambiguous.rs"]
mod ambiguous;
#[path = "../http/bodies.rs"]
mod bodies;
#[path = "../http/broken_lists.rs"]
mod broken_lists;
#[path = "../http/draining.rs"]
mod draining;
#[path = "../http/expect.rs"]
mod expect;
mod handing_over;
#[path = "../http/harness/mod.rs"]
mod harness;
#[path = "../http/headers.rs"]
mod headers;
#[path = "../http/hedging.rs"]
mod hedging;
#[path = "../http/http2.rs"]
mod http2;
#[path = "../http/identity/mod.rs"]
mod identity;
#[path = "../http/interim.rs"]
mod interim;
#[path = "../http/limits.rs"]
mod limits;
#[path = "../http/lists.rs"]
mod lists;
#[path = "../http/memory.rs"]
mod memory;
#[path = "../http/messages.rs"]
mod messages;
#[path = "../http/names.rs"]
mod names;
#[path = "../http/never_twice.rs"]
mod never_twice;
#[path = "../http/operators.rs"]
mod operators;
#[path = "../http/paging.rs"]
mod paging;
#[path = "../http/records.rs"]
mod records;
#[path = "../http/replicas.rs"]
mod replicas;
#[path = "../http/resources.rs"]
mod resources;
#[path = "../http/sessions.rs"]
mod sessions;
mod several;
#[path = "../http/standing.rs"]
mod standing;
#[path = "../http/streams.rs"]
mod streams;
#[path = "../http/timeouts.rs"]
mod timeouts;
#[path = "../http/tls.rs"]
mod tls;
#[path = "../http/tokens.rs"]
mod tokens;
#[path = "../http/unsafe_ids.rs"]
mod unsafe_ids;
#[path = "../http/upgrade.rs"]
mod upgrade;
#[path = "../http/variants.rs"]
mod variants;
mod ways;

/// Which path the meshes of these tests take.
const THIN: bool = true;
