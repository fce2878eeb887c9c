//! Identifiers that clients see, and those that one site's service knows.
//!
//! A replicated resource has one meta-identifier, and at each site a local id, which no client sees. A
//! [`Table`] has the pairs of one site. With it, what goes to the service and what comes back is rewritten:
//! JSON bodies with a [`Rewriter`], URLs and headers with [`Table::rewrite`], entity tags with [`Etags`]. It is
//! pure: bytes in, bytes out.
//!
//! ```text
//! a request:  table.rewrite(path and query, ToService)        Hidden: a 404
//!             table.rewrite(each marked header, ToService)
//!             etags.condition(If-Match, If-None-Match)
//!             a JSON body through Rewriter::new(table, ToService)
//!             Accept-Encoding: identity; without digests
//! an answer:  table.rewrite(Location, Content-Location, Link, …, ToClient); etags.own(ETag)
//!             a JSON body through Rewriter::new(table, ToClient)
//!             without Content-Length unless table.keeps_length()
//! ```
//!
//! **What is found.** UUIDs with or without hyphens, in any case, between other characters than letters and
//! digits; any other identifier only as a whole run of `A-Z a-z 0-9 - . _ ~`. So also within
//! `"http://host/v2/images/<id>/file"`. Short ones, such as `7`, may be any string's content: a table of those
//! is only for bodies in which the profile says that they are identifiers.
//!
//! **What is never touched.** Anything outside of strings, also a number that has the digits of an identifier;
//! file content, which the caller does not pass through here.
//!
//! **Declared places.** A [`PlacesRewriter`] looks at the [`Places`] of a document that are said to have identifiers, such as `/id`
//! and `/post_id` of each item, and at nothing else. There a number stays a number.
//!
//! **Hidden ids.** A body that names a replica's local id is cut before it, and refused. Spelling it with
//! escapes (`\u0031`, `%31` in URLs) does not help.
//!
//! **Length.** With UUIDs a body is as long as it was, to the byte.
//!
//! Markers of pages that are no identifiers are wrapped with their site by `merge`, also for one source.
//!
//! ```
//! use bytes::Bytes;
//! use ids::{Direction, Rewriter, Table};
//!
//! let (meta, local) = ("6e8d6d6a-0f4b-4d9e-9d3c-3f2b8f3a1c11", "b1946ac9-2492-4d23-a47c-235b4d2611b8");
//! let mut table = Table::new();
//! table.insert(meta, local)?;
//! assert_eq!(table.rewrite(&format!("/v2/images/{meta}"), Direction::ToService)?, format!("/v2/images/{local}"));
//! assert!(table.rewrite(&format!("/v2/images/{local}"), Direction::ToService).is_err());
//!
//! let mut rewriter = Rewriter::new(table.clone(), Direction::ToClient);
//! let mut chunks = Vec::new();
//! rewriter.push(Bytes::from(format!("{{\"id\": \"{local}\", \"size\": 1")), &mut chunks)?;
//! rewriter.push(Bytes::from("}"), &mut chunks)?;
//! rewriter.finish(&mut chunks)?;
//! assert_eq!(chunks.concat(), format!("{{\"id\": \"{meta}\", \"size\": 1}}").into_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In the order in which a body meets them: `rewriter` (chunks), `spelling` (escapes), `find` (where identifiers
//! are; `block`, many bytes at once), `table` and `trie` (what they are), `id` (how they look). `text` is for URLs and
//! headers; `index` says what a text names, and replaces nothing.

mod block;
mod etag;
mod find;
mod id;
mod index;
mod placed;
mod places;
mod rewriter;
mod spelling;
mod table;
mod text;
mod trie;

pub use etag::{Condition, Etags, Malformed};
pub use id::is_uuid;
pub use index::Index;
pub use placed::PlacedTable;
pub use places::{Placed, Places, PlacesRewriter};
pub use rewriter::{Refused, Rewriter};
pub use table::{Direction, Found, Table, Unfit};
