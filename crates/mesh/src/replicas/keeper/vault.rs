//! What the keeper must not forget, on this site's disk. Every value is sealed.

use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use store::engine::Engine;
use store::{Error, Limits, Query, Schema, Store, TableId};

use super::seal::Seal;
use crate::replicas::request::Kept;

/// The store's file.
pub(super) const FILE: &str = "replicas.redb";

/// More than any call of the machine writes: a write and its body are a few MiB at most.
const LIMITS: Limits = Limits {
    key_bytes: 8 << 10,
    record_bytes: 64 << 20,
    session_keys: 1 << 18,
    session_bytes: 1 << 30,
    attempts: 32,
    backoff: std::time::Duration::from_micros(500),
};

/// Rows that are in memory at once while all are looked at.
const PAGE: usize = 64;
const RECORDS_PAGE: usize = 512;

/// A table of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    /// What the machine records.
    Machine,
    /// Writes, by their ids.
    Kept,
    /// Operations that are over.
    Finished,
    /// What kind a resource is of, by its name for clients.
    Shape,
    /// States of other replicas on their way into the service here, by the resource's name for clients.
    Copy,
    /// Replicas that are none any more, until the service has removed them.
    Released,
    /// Names that are reserved here.
    Reservation,
    /// Claims of requests that entered here, by their numbers.
    Claim,
    /// Up to where the numbers of a range were given, by the range.
    Allocation,
}

/// A row of one table.
#[derive(Serialize, Deserialize)]
struct Row<const TABLE: u32> {
    key: Vec<u8>,
    #[serde(with = "crate::replicas::octets")]
    sealed: Vec<u8>,
}

const NAMES: [&str; 9] =
    ["machine", "kept", "finished", "shapes", "copies", "released", "reservations", "claims", "allocations"];

impl<const TABLE: u32> store::Record for Row<TABLE> {
    type Key = Vec<u8>;
    const TABLE: TableId = TableId { number: TABLE + 1, name: name(TABLE) };

    fn key(&self) -> Vec<u8> {
        self.key.clone()
    }
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const fn name(table: u32) -> &'static str {
    NAMES[table as usize]
}

/// One change of one row: a new value, or none any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) table: Table,
    pub(super) key: Vec<u8>,
    pub(super) value: Option<Vec<u8>>,
}

impl Change {
    pub(super) fn put(table: Table, key: impl Into<Vec<u8>>, value: &impl Serialize) -> Change {
        // Into memory, types without a length unknown beforehand: it cannot fail.
        let value = postcard::to_allocvec(value).unwrap_or_default();
        Change { table, key: key.into(), value: Some(value) }
    }

    pub(super) fn remove(table: Table, key: impl Into<Vec<u8>>) -> Change {
        Change { table, key: key.into(), value: None }
    }

    /// About how much of a session it takes.
    pub(super) fn bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Vec::len) + 64
    }
}

/// The store, and what opens its values.
#[derive(Clone)]
pub(super) struct Vault {
    store: Store,
    seal: Arc<Seal>,
}

impl Vault {
    /// Opens what is in a directory, or makes it.
    pub(super) async fn open(directory: &Path) -> Result<Vault, String> {
        let file = directory.join(FILE);
        let at = |error: Error| format!("{}: {error}", file.display());
        let seal = Seal::open(directory, !file.exists())?;
        let engine = store::embedded::Embedded::open(&file).await.map_err(at)?;
        Vault::on(Arc::new(engine), seal).await.map_err(at)
    }

    /// On an engine that is open.
    pub(super) async fn on(engine: Arc<dyn Engine>, seal: Seal) -> Result<Vault, Error> {
        let schema = Schema::new()
            .table::<Row<0>>()
            .table::<Row<1>>()
            .table::<Row<2>>()
            .table::<Row<3>>()
            .table::<Row<4>>()
            .table::<Row<5>>()
            .table::<Row<6>>()
            .table::<Row<7>>()
            .table::<Row<8>>();
        let store = Store::open_within(engine, schema, LIMITS).await?;
        Ok(Vault { store, seal: Arc::new(seal) })
    }

    /// Makes changes durable, all or none. Made twice, they are as if made once.
    pub(super) async fn commit(&self, changes: &[Change]) -> Result<(), Error> {
        let mut sealed = Vec::with_capacity(changes.len());
        for change in changes {
            let value = match &change.value {
                Some(value) => Some(self.sealed(change.table, &change.key, value)?),
                None => None,
            };
            sealed.push((change.table, change.key.clone(), value));
        }
        self.store
            .session(async |session| {
                for (table, key, value) in &sealed {
                    match table {
                        Table::Machine => write::<0>(session, key, value.as_ref())?,
                        Table::Kept => write::<1>(session, key, value.as_ref())?,
                        Table::Finished => write::<2>(session, key, value.as_ref())?,
                        Table::Shape => write::<3>(session, key, value.as_ref())?,
                        Table::Copy => write::<4>(session, key, value.as_ref())?,
                        Table::Released => write::<5>(session, key, value.as_ref())?,
                        Table::Reservation => write::<6>(session, key, value.as_ref())?,
                        Table::Claim => write::<7>(session, key, value.as_ref())?,
                        Table::Allocation => write::<8>(session, key, value.as_ref())?,
                    }
                }
                Ok::<(), Error>(())
            })
            .await
    }

    /// One value, if it is there.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        table: Table,
        key: &[u8],
    ) -> Result<Option<T>, Error> {
        let view = self.store.view().await?;
        let key = key.to_vec();
        let sealed = match table {
            Table::Machine => view.get::<Row<0>>(&key).await?.map(|row| row.sealed),
            Table::Kept => view.get::<Row<1>>(&key).await?.map(|row| row.sealed),
            Table::Finished => view.get::<Row<2>>(&key).await?.map(|row| row.sealed),
            Table::Shape => view.get::<Row<3>>(&key).await?.map(|row| row.sealed),
            Table::Copy => view.get::<Row<4>>(&key).await?.map(|row| row.sealed),
            Table::Released => view.get::<Row<5>>(&key).await?.map(|row| row.sealed),
            Table::Reservation => view.get::<Row<6>>(&key).await?.map(|row| row.sealed),
            Table::Claim => view.get::<Row<7>>(&key).await?.map(|row| row.sealed),
            Table::Allocation => view.get::<Row<8>>(&key).await?.map(|row| row.sealed),
        };
        sealed.map(|sealed| self.opened(table, &key, &sealed)).transpose()
    }

    /// Every value of a table with its key.
    pub(super) async fn all<T: DeserializeOwned>(&self, table: Table) -> Result<Vec<(Vec<u8>, T)>, Error> {
        let rows = match table {
            Table::Machine => self.rows::<0>().await?,
            Table::Kept => self.rows::<1>().await?,
            Table::Finished => self.rows::<2>().await?,
            Table::Shape => self.rows::<3>().await?,
            Table::Copy => self.rows::<4>().await?,
            Table::Released => self.rows::<5>().await?,
            Table::Reservation => self.rows::<6>().await?,
            Table::Claim => self.rows::<7>().await?,
            Table::Allocation => self.rows::<8>().await?,
        };
        let opened = |(key, sealed): (Vec<u8>, Vec<u8>)| {
            let value = self.opened(table, &key, &sealed)?;
            Ok((key, value))
        };
        rows.into_iter().map(opened).collect()
    }

    /// Goes through the kept writes, which together may be more than fits in memory.
    pub(super) async fn each_kept(&self, mut see: impl FnMut(Kept)) -> Result<(), Error> {
        self.each::<1, _>(Table::Kept, PAGE, |_, kept| {
            see(kept);
            Ok(())
        })
        .await
    }

    /// Goes through the machine's records, which are read into less than they are.
    pub(super) async fn each_record(
        &self,
        mut see: impl FnMut(Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.each::<0, _>(Table::Machine, RECORDS_PAGE, |_, record| see(record)).await
    }

    /// Goes through what is addressed how.
    pub(super) async fn each_shape<T: DeserializeOwned>(
        &self,
        mut see: impl FnMut(Vec<u8>, T),
    ) -> Result<(), Error> {
        self.each::<3, _>(Table::Shape, RECORDS_PAGE, |key, shape| {
            see(key, shape);
            Ok(())
        })
        .await
    }

    async fn each<const TABLE: u32, T: DeserializeOwned>(
        &self,
        table: Table,
        page: usize,
        mut see: impl FnMut(Vec<u8>, T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let view = self.store.view().await?;
        let mut query = Query::<Row<TABLE>>::all();
        loop {
            let page = query.page(&view, page).await?;
            for row in page.found {
                let value = self.opened(table, &row.key, &row.sealed)?;
                see(row.key, value)?;
            }
            let Some(next) = page.next else { return Ok(()) };
            query = Query::all().after(&next);
        }
    }

    async fn rows<const TABLE: u32>(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Error> {
        let view = self.store.view().await?;
        let rows = Query::<Row<TABLE>>::all().collect(&view).await?;
        Ok(rows.into_iter().map(|row| (row.key, row.sealed)).collect())
    }

    pub(super) async fn close(&self) {
        // What was committed is durable already.
        let _ = self.store.close().await;
    }

    fn sealed(&self, table: Table, key: &[u8], value: &[u8]) -> Result<Vec<u8>, Error> {
        let no_randomness = || Error::Io("the system gives no randomness to seal with".to_owned());
        self.seal.seal(&place(table, key), value).ok_or_else(no_randomness)
    }

    fn opened<T: DeserializeOwned>(&self, table: Table, key: &[u8], sealed: &[u8]) -> Result<T, Error> {
        let damaged =
            |what: &str| Error::Corrupt(format!("a value of table `{}` {what}", name(table as u32)));
        let value = self
            .seal
            .unseal(&place(table, key), sealed)
            .ok_or_else(|| damaged("was sealed with another key, or changed"))?;
        postcard::from_bytes(&value).map_err(|_| damaged("cannot be read"))
    }
}

fn place(table: Table, key: &[u8]) -> Vec<u8> {
    [&[table as u8], key].concat()
}

fn write<const TABLE: u32>(
    session: &mut store::Session,
    key: &[u8],
    sealed: Option<&Vec<u8>>,
) -> Result<(), Error> {
    let key = key.to_vec();
    match sealed {
        Some(sealed) => session.set(&Row::<TABLE> { key, sealed: sealed.clone() }),
        None => session.unset::<Row<TABLE>>(&key),
    }
}
