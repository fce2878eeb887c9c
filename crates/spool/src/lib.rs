//! Bodies of requests, encrypted on disk, for sites that are absent or slow.
//!
//! A body that comes once goes to several consumers, and is kept for whoever is not there:
//!
//! ```
//! use bytes::Bytes;
//! use spool::{Backing, Error, Fanout, Key, Pace, Spool};
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
//! let upload = [Bytes::from_static(b"an image's "), Bytes::from_static(b"data")];
//! let backing = Backing::Kept(spool.clone());
//! let (mut fanout, mut legs) = Fanout::new(backing, &Pace::default(), Some(15), 2)?;
//! for chunk in upload {
//!     fanout.push(chunk).await?;
//! }
//! let ended = fanout.finish().await?;
//! // All of it is durable, and nobody has the last of it yet: now the operation is recorded.
//! let stored = ended.stored();
//! ended.release();
//!
//! let mut leg = legs.remove(0);
//! let mut body = Vec::new();
//! while let Some(bytes) = leg.next().await {
//!     body.extend_from_slice(&bytes?);
//! }
//! assert_eq!(body, b"an image's data");
//!
//! // Later, for a site that was absent; erased once it has confirmed.
//! if let Some(stored) = stored {
//!     let mut rest = spool.reader(stored.id, 11)?;
//!     assert_eq!(rest.next().await, Some(Ok(Bytes::from_static(b"data"))));
//!     spool.erase(stored.id).await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Consumer`] and [`Reader`] are bodies of `http-body`. No call blocks but [`Key::load_or_create`]: the disk is waited
//! for by threads of the spool's own.

mod consumer;
mod disk;
mod entry;
mod error;
mod fanout;
mod format;
mod id;
mod key;
mod memory;
mod metrics;
mod pool;
mod quota;
mod reader;
mod spool;
mod window;
mod writer;

pub use consumer::Consumer;
pub use disk::{BodyFile, Disk};
pub use error::Error;
pub use fanout::{Backing, Ended, Fanout, Pace};
pub use id::{Id, NotAnId};
pub use key::Key;
pub use memory::Memory;
pub use metrics::Metrics;
pub use reader::Reader;
pub use spool::{Listed, Spool, Stored, Usage};
pub use writer::Writer;
