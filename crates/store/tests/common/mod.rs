//! Records and engines for the tests.
#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used)]

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use store::embedded::Embedded;
use store::engine::Engine;
use store::memory::Memory;
use store::{AnyIndex, Error, Index, Record, Schema, Session, Store, TableId};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Item {
    pub id: u32,
    pub group: String,
    pub rank: i16,
    pub tags: Vec<u8>,
    pub name: String,
}

pub const BY_GROUP: Index<Item, String> = Index::new(1, "group", |item| item.group.clone());
pub const BY_RANK: Index<Item, (String, i16)> =
    Index::new(2, "group and rank", |item| (item.group.clone(), item.rank));
pub const BY_TAG: Index<Item, u8> = Index::each(3, "tag", |item| item.tags.clone());
pub const BY_NAME: Index<Item, String> = Index::unique(4, "name", |item| item.name.clone());
/// Computed: how far the rank is from zero.
pub const BY_SIZE: Index<Item, u16> = Index::new(5, "size", |item| item.rank.unsigned_abs());

impl Record for Item {
    type Key = u32;
    const TABLE: TableId = TableId { number: 1, name: "items" };

    fn key(&self) -> u32 {
        self.id
    }

    fn indexes() -> Vec<AnyIndex<Self>> {
        vec![BY_GROUP.any(), BY_RANK.any(), BY_TAG.any(), BY_NAME.any(), BY_SIZE.any()]
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    pub name: String,
    pub balance: i64,
}

pub const BY_BALANCE: Index<Account, i64> = Index::new(1, "balance", |account| account.balance);

impl Record for Account {
    type Key = String;
    const TABLE: TableId = TableId { number: 2, name: "accounts" };

    fn key(&self) -> String {
        self.name.clone()
    }

    fn indexes() -> Vec<AnyIndex<Self>> {
        vec![BY_BALANCE.any()]
    }
}

pub fn schema() -> Schema {
    Schema::new().table::<Item>().table::<Account>()
}

pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

/// Runs a test on each engine.
pub fn on_each_engine(test: impl AsyncFn(Arc<dyn Engine>)) {
    block_on(test(Arc::new(Memory::new())));
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let engine = Embedded::open(directory.path().join("store")).await.unwrap();
        test(Arc::new(engine)).await;
    });
}

/// Runs a test on a store over each engine, and checks the store afterwards.
pub fn on_each_store(test: impl AsyncFn(Store)) {
    on_each_engine(async |engine| {
        let store = Store::open_within(engine, schema(), store::Limits::default()).await.unwrap();
        test(store.clone()).await;
        let report = store.check().await.unwrap();
        assert!(report.is_whole(), "{:?}", report.faults);
    });
}

pub fn item(id: u32, group: &str, rank: i16) -> Item {
    Item { id, group: group.to_owned(), rank, tags: Vec::new(), name: format!("item {id}") }
}

pub fn account(name: &str, balance: i64) -> Account {
    Account { name: name.to_owned(), balance }
}

pub async fn add_to(session: &mut Session, name: &str, amount: i64) -> Result<(), Error> {
    let mut account: Account = session.get(&name.to_owned()).await?.unwrap();
    account.balance += amount;
    session.put(&account).await.map(drop)
}
