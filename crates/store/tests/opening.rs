//! Opening: only what fits, and with the indexes that the program has.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{Account, BY_GROUP, Item, account, block_on, item, schema};
use serde::{Deserialize, Serialize};
use store::embedded::Embedded;
use store::engine::{Commit, Engine};
use store::memory::Memory;
use store::{AnyIndex, Error, Index, Limits, Query, Record, Schema, Store, TableId};

async fn open(path: &Path) -> Result<Store, Error> {
    Store::open(Embedded::open(path).await?, schema()).await
}

#[test]
fn what_was_written_is_there_after_opening_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    block_on(async {
        // Views of a closed store may live on: they must not keep its file.
        let mut views = Vec::new();
        for round in 0..5 {
            let store = open(&path).await.unwrap();
            let view = store.view().await.unwrap();
            assert_eq!(BY_GROUP.all().count(&view).await, Ok(u64::from(round)));
            store.session(async |session| session.insert(&item(round, "a", 1)).await).await.unwrap();
            assert_eq!(open(&path).await.err(), Some(Error::InUse));
            store.close().await.unwrap();
            assert_eq!(store.view().await.err(), Some(Error::Closed));
            // A view may still know what it shows; it never shows anything else.
            let seen = view.get::<Item>(&round).await;
            assert!(matches!(seen, Ok(None) | Err(Error::Stale | Error::Closed)), "{seen:?}");
            views.push(view);
        }
    });
}

#[test]
fn a_file_that_is_no_store_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    for content in [&b"x"[..], b"not a store at all, but long enough to look at", &[0; 8192]] {
        std::fs::write(&path, content).unwrap();
        let opened = block_on(open(&path));
        assert!(matches!(opened, Err(Error::Foreign(_))), "{:?}", opened.err());
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
    // Of the same library, but somebody else's.
    std::fs::remove_file(&path).unwrap();
    drop(redb::Database::create(&path).unwrap());
    assert!(matches!(block_on(open(&path)), Err(Error::Foreign(_))));
}

#[test]
fn a_creation_that_was_interrupted_is_begun_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    std::fs::write(directory.path().join("store.new"), b"half of a file").unwrap();
    block_on(open(&path)).unwrap();
}

#[test]
fn a_damaged_file_is_an_error_or_harmless_but_never_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    block_on(async {
        let store = open(&path).await.unwrap();
        for id in 0..200 {
            store.session(async |session| session.insert(&item(id, "a", 1)).await).await.unwrap();
            if id % 50 == 0 {
                store.session(async |session| session.put(&account("a", i64::from(id))).await).await.unwrap();
            }
        }
        store.close().await.unwrap();
    });
    let whole = std::fs::read(&path).unwrap();
    let mut seed = 7_u64;
    let mut faults = 0;
    for _ in 0..60 {
        let mut broken = whole.clone();
        for _ in 0..40 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(seed >> 20).unwrap() % broken.len();
            broken[at] ^= 0xff;
        }
        if seed.is_multiple_of(5) {
            broken.truncate(usize::try_from(seed >> 30).unwrap() % whole.len());
        }
        std::fs::write(&path, &broken).unwrap();
        faults += u32::from(block_on(visit(&path)).is_err());
    }
    assert!(faults > 0);
}

/// Uses all that is in a file.
async fn visit(path: &Path) -> Result<(), Error> {
    let store = open(path).await?;
    let report = store.check().await;
    let written = store.session(async |session| session.put(&item(1, "b", 2)).await).await;
    let read = Query::<Account>::all().collect(&store.view().await?).await;
    store.close().await?;
    if !report?.is_whole() {
        return Err(Error::Corrupt("indexes".to_owned()));
    }
    written?;
    read.map(drop)
}

#[test]
fn a_newer_format_is_refused() {
    block_on(async {
        let engine: Arc<dyn Engine> = Arc::new(Memory::new());
        let open = async || Store::open_within(Arc::clone(&engine), schema(), Limits::default()).await;
        open().await.unwrap();
        let set = async |format: &[u8]| {
            let writes = vec![(b"\0format".to_vec(), Some(format.to_vec()))];
            engine.commit(Commit { writes, ..Commit::default() }).await.unwrap();
        };
        set(b"archipel store \0\0\0\x02").await;
        let newer = Error::Newer { what: "the store".to_owned(), found: 2, supported: 1 };
        assert_eq!(open().await.err(), Some(newer));
        set(b"something else").await;
        assert!(matches!(open().await, Err(Error::Foreign(_))));
    });
}

/// Two versions of one table.
macro_rules! plant {
    ($type:ident, $version:literal, [$($index:expr),*], { $($field:ident: $kind:ty),* }) => {
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub(crate) struct $type { $($field: $kind),* }
        impl Record for $type {
            type Key = u64;
            const TABLE: TableId = TableId { number: 7, name: "plants" };
            const VERSION: u16 = $version;
            fn key(&self) -> u64 { self.id }
            fn indexes() -> Vec<AnyIndex<Self>> { vec![$($index.any()),*] }
            fn upgrade(version: u16, bytes: &[u8]) -> Option<Self> { upgrade(version, bytes) }
        }
    };
}

mod first {
    use super::*;
    pub(crate) const HEIGHT: Index<Plant, u32> = Index::new(1, "height", |plant| plant.height);
    plant!(Plant, 1, [HEIGHT], { id: u64, height: u32 });
    fn upgrade<T>(_: u16, _: &[u8]) -> Option<T> {
        None
    }
    pub(crate) fn plant(id: u64, height: u32) -> Plant {
        Plant { id, height }
    }
}

mod second {
    use super::*;
    pub(crate) const NAME: Index<Plant, String> = Index::unique(2, "name", |plant| plant.name.clone());
    plant!(Plant, 2, [NAME], { id: u64, height: u32, name: String });
    fn upgrade(version: u16, bytes: &[u8]) -> Option<Plant> {
        let (id, height): (u64, u32) = (version == 1).then(|| postcard::from_bytes(bytes).ok()).flatten()?;
        Some(Plant {
            id,
            height,
            name: format!("plant {}", id / 2 * 2 + u64::from(height < 1000) * (id % 2)),
        })
    }
}

async fn garden<R: Record>(engine: &Arc<dyn Engine>) -> Result<Store, Error> {
    Store::open_within(Arc::clone(engine), Schema::new().table::<R>(), Limits::default()).await
}

#[test]
fn a_new_index_is_built_and_an_old_one_dropped() {
    block_on(async {
        let engine: Arc<dyn Engine> = Arc::new(Memory::new());
        let store = garden::<first::Plant>(&engine).await.unwrap();
        for id in 0..600 {
            let height = u32::try_from(id).unwrap();
            store.session(async |session| session.insert(&first::plant(id, height)).await).await.unwrap();
        }
        assert_eq!(first::HEIGHT.range(10..20).count(&store.view().await.unwrap()).await, Ok(10));

        let store = garden::<second::Plant>(&engine).await.unwrap();
        let report = store.check().await.unwrap();
        assert_eq!((report.records, report.entries, report.faults), (600, 600, vec![]));
        let view = store.view().await.unwrap();
        let found = second::NAME.eq(&"plant 300".to_owned()).collect(&view).await.unwrap();
        assert_eq!(found.len(), 1);
        assert!(matches!(
            garden::<first::Plant>(&engine).await,
            Err(Error::Newer { found: 2, supported: 1, .. })
        ));
    });
}

#[test]
fn an_index_that_is_not_unique_is_not_built_as_one() {
    block_on(async {
        let engine: Arc<dyn Engine> = Arc::new(Memory::new());
        let store = garden::<first::Plant>(&engine).await.unwrap();
        for id in 0..600 {
            store.session(async |session| session.insert(&first::plant(id, 1000)).await).await.unwrap();
        }
        let opened = garden::<second::Plant>(&engine).await.err();
        assert!(matches!(opened, Some(Error::Schema(_))), "{opened:?}");
    });
}

#[test]
fn tables_that_do_not_fit_are_refused() {
    #[derive(Serialize, Deserialize)]
    struct Other(String);
    impl Record for Other {
        type Key = String;
        const TABLE: TableId = TableId { number: 7, name: "plants" };
        fn key(&self) -> String {
            self.0.clone()
        }
    }
    block_on(async {
        let engine: Arc<dyn Engine> = Arc::new(Memory::new());
        let store = garden::<first::Plant>(&engine).await.unwrap();
        let unknown = store.session(async |session| session.put(&account("a", 1)).await).await;
        assert!(matches!(unknown, Err(Error::Schema(_))), "a table that was not named");
        assert!(matches!(garden::<Other>(&engine).await, Err(Error::Schema(_))), "another key");
        assert!(matches!(garden::<Item>(&engine).await, Err(Error::Schema(_))), "a table that is not known");
        let twice = Schema::new().table::<Item>().table::<Item>();
        assert!(matches!(Store::open(Memory::new(), twice).await, Err(Error::Schema(_))));
    });
}

#[test]
fn a_check_finds_a_missing_entry_and_one_too_many() {
    block_on(async {
        let engine: Arc<dyn Engine> = Arc::new(Memory::new());
        let store = Store::open_within(Arc::clone(&engine), schema(), Limits::default()).await.unwrap();
        store.session(async |session| session.put(&item(1, "a", 1)).await).await.unwrap();
        let all = store::engine::Range { start: vec![2], end: vec![3] };
        let entries =
            engine.snapshot().await.unwrap().scan(all, store::engine::Direction::Forward, 9).await.unwrap();
        assert_eq!(entries.len(), 4);
        let (entry, primary) = entries.into_iter().next().unwrap();
        let mut moved = entry.clone();
        moved.push(0);
        let writes = vec![(entry, None), (moved, Some(primary)), (vec![1, 9, 9, 9, 9, 9], Some(vec![]))];
        engine.commit(Commit { writes, ..Commit::default() }).await.unwrap();
        assert_eq!(store.check().await.unwrap().fault_count, 3);
    });
}
