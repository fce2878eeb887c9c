//! One list of the lists of several sites.
//!
//! A [`Merger`] takes the bytes of each source's answer as they come and gives the bytes of one answer. It is
//! pure: no socket, clock, task or randomness. The mesh drives it:
//!
//! ```text
//! Page::plan(list, tree, request, sites)      or Refused: the request cannot be merged
//! ask each source page.query(source), which for some is nothing
//! merger.open(source, head), or merger.fail(source), for each that was asked; what an Early has read of it
//! loop {
//!     match merger.pull()? {
//!         Chunk   => send it to the client
//!         Pending => wait for any answer to begin, or for any source of merger.wants(); push, end or fail it
//!         Done, NotAList => break
//!     }
//! }
//! ```
//!
//! **What is a list** is told by the profile, or by the first answer's shape: an array, or an object with one
//! array of objects. Anything else is [`Pull::NotAList`], and the bytes that were taken come back.
//!
//! **The order** depends on the answers only, never on when they come: as the request asks, ties by the order
//! of the tree; without any, one source after the other.
//!
//! **Pages.** A marker of the merged list has each site's own position. What was read of a site and not told
//! is asked for again; a page ends where a site that has more has run dry; a site that was missing stays at
//! its position, and joins later. So each item is told once.
//!
//! **Memory** is bounded by [`Limits`]: an item, what is beside the items and some bytes ahead of each source.
//! Only a `^` holds whole lists, and only a page that is told in a header is held to its end.
//!
//! **Faults** of a source concern that source. What leaves is JSON, whatever comes in: an item is checked as a
//! whole before any of it is told.
//!
//! ```
//! use bytes::Bytes;
//! use merge::{Head, Late, Limits, Merged, Merger, Page, Pull, Request};
//!
//! let list = profile::Profile::named("rest").unwrap().lists.of("shop", "/carts").unwrap();
//! let tree = Merged::Union(vec![Merged::Source(0), Merged::Source(1)]);
//! let request = Request { path: "/carts".into(), query: "sort=id&limit=2".into(), ..Request::default() };
//! let page = Page::plan(&list, &tree, &request, &["Paris", "Rome"])?;
//! assert_eq!(page.query(0), Some("sort=id&limit=2"));
//!
//! let mut merger = Merger::new(list, tree, page, Limits::default(), Late::Abort);
//! let answers = [r#"{"carts": [{"id": 1}, {"id": 3}]}"#, r#"{"carts": [{"id": 2}]}"#];
//! for (source, answer) in answers.into_iter().enumerate() {
//!     merger.open(source, Head { content_type: Some("application/json"), ..Head::default() });
//!     merger.push(source, Bytes::from(answer));
//!     merger.end(source);
//! }
//! let Pull::Chunk(merged) = merger.pull()? else { panic!("all was pushed") };
//! let items = br#"{"carts":[{"id": 1,"scope_site":"Paris"},{"id": 2,"scope_site":"Rome"}],"next":"/carts?"#;
//! assert!(merged.starts_with(items));
//! assert_eq!(merger.pull()?, Pull::Done);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In the order in which an answer meets them: `page` (what is asked; `query`, `marker`, `order`), `coding`,
//! `probe` (is it a list), `scan` (bytes to items; `check`), `item`, `lane` and `slot` (one source), `merger` (all of
//! them), `tree` (`&` and `^`), `envelope` (what is beside the items; `sum`). `early` is for answers
//! that come while others are waited for, `totals` for documents that are no lists.

mod check;
mod coding;
mod early;
mod envelope;
mod error;
mod item;
mod lane;
mod limits;
mod marker;
mod marking;
mod merger;
mod order;
mod page;
mod probe;
mod query;
mod scan;
mod slot;
mod sum;
mod tellers;
mod totals;
mod tree;

pub use early::{Ahead, Early};
pub use error::{Broken, Fault, PageRefused, Refused};
pub use limits::Limits;
pub use marking::Marking;
pub use merger::{Head, Late, Merger, Pull, Same};
pub use page::{Page, Request};
pub use tellers::{Mark, Unconfirmed};
pub use totals::Totals;
pub use tree::Merged;
