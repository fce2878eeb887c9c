//! Typed tables with secondary indexes and atomic sessions, over one key/value engine.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use store::{AnyIndex, Error, Index, Record, Schema, Store, TableId, memory::Memory};
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! struct Account {
//!     id: u64,
//!     owner: String,
//!     balance: i64,
//! }
//!
//! const BY_OWNER: Index<Account, String> = Index::new(1, "owner", |account| account.owner.clone());
//!
//! impl Record for Account {
//!     type Key = u64;
//!     const TABLE: TableId = TableId { number: 1, name: "accounts" };
//!     fn key(&self) -> u64 {
//!         self.id
//!     }
//!     fn indexes() -> Vec<AnyIndex<Self>> {
//!         vec![BY_OWNER.any()]
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let store = Store::open(Memory::new(), Schema::new().table::<Account>()).await?;
//! store
//!     .session(async |session| {
//!         session.insert(&Account { id: 1, owner: "Ada".to_owned(), balance: 1000 }).await?;
//!         session.insert(&Account { id: 2, owner: "Ada".to_owned(), balance: 50 }).await
//!     })
//!     .await?;
//! let view = store.view().await?;
//! let rich = BY_OWNER.eq(&"Ada".to_owned()).filter(|account| account.balance > 100).collect(&view).await?;
//! assert_eq!(rich.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! A session is atomic, isolated (serialisable) and, with the embedded engine, durable. Its closure may run
//! more than once. Engine I/O runs in threads of the engine, never in the caller's.

mod backoff;
mod check;
#[cfg(feature = "contract")]
pub mod contract;
pub mod engine;
mod error;
mod join;
mod key;
mod limits;
mod metrics;
mod prepare;
mod query;
mod record;
mod schema;
mod session;
mod store;
mod view;

pub use check::Report;
pub use engine::{embedded, memory};
pub use error::Error;
pub use join::{Join, JoinOne};
pub use key::{Key, PrefixOf};
pub use limits::Limits;
pub use metrics::Metrics;
pub use query::{Continuation, Page, Query};
pub use record::{AnyIndex, Index, Record, TableId};
pub use schema::Schema;
pub use session::Session;
pub use store::Store;
pub use view::View;
