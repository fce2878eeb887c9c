//! Bodies of requests, encrypted on disk, for sites that are absent or slow.
//!
//! A body is written once, as it comes, and read by whoever is there or comes later:
//!
//! ```
//! use bytes::Bytes;
//! use spool::{Error, Key, Spool};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! # let state = tempfile::tempdir().unwrap();
//! # let state = state.path();
//! let key = Key::load_or_create(&state.join("spool.key"))?;
//! let spool = Spool::open(&state.join("bodies"), 10 << 30, key).await?;
//! # let known = |_| false;
//! spool.retain(known).await?;
//!
//! let mut upload = spool.writer(Some(15))?;
//! // It can be read while it comes.
//! let mut follower = spool.reader(upload.id(), 0)?;
//! for chunk in [Bytes::from_static(b"an image's "), Bytes::from_static(b"data")] {
//!     upload.push(chunk).await?;
//! }
//! // All of it is durable: now the operation is recorded.
//! let stored = upload.finish().await?;
//! let mut body = Vec::new();
//! while let Some(bytes) = follower.next().await {
//!     body.extend_from_slice(&bytes?);
//! }
//! assert_eq!(body, b"an image's data");
//!
//! // Later, for a site that was absent; erased once it has confirmed.
//! let mut rest = spool.reader(stored.id, 11)?;
//! assert_eq!(rest.next().await, Some(Ok(Bytes::from_static(b"data"))));
//! spool.erase(stored.id).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Reader`] is a body of `http-body`. No call blocks but [`Key::load_or_create`]: the disk is waited for by threads of
//! the spool's own.

mod disk;
mod entry;
mod error;
mod format;
mod id;
mod key;
mod metrics;
mod pool;
mod quota;
mod reader;
mod spool;
mod writer;

pub use disk::{BodyFile, Disk};
pub use error::Error;
pub use id::{Id, NotAnId};
pub use key::Key;
pub use metrics::Metrics;
pub use reader::Reader;
pub use spool::{Listed, Spool, Stored, Usage};
pub use writer::Writer;
