//! Sessions: all or nothing, as if alone, within limits.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use common::{
    Account, BY_BALANCE, BY_GROUP, BY_NAME, BY_RANK, BY_TAG, Item, account, add_to, item, on_each_engine,
    on_each_store, schema,
};
use store::{Error, Limits, Query, Store};
use tokio::sync::Barrier;
use tokio::task::LocalSet;

#[test]
fn two_transfers_at_once_both_count() {
    on_each_store(async |store| {
        store
            .session(async |session| {
                session.put(&account("a", 1000)).await?;
                session.put(&account("b", 1000)).await
            })
            .await
            .unwrap();
        // Both have read before either writes, the first time they run.
        let both_have_read = Arc::new(Barrier::new(2));
        let tasks = LocalSet::new();
        for _ in 0..2 {
            let (store, both_have_read) = (store.clone(), Arc::clone(&both_have_read));
            tasks.spawn_local(async move {
                let mut first = true;
                let transfer: Result<(), Error> = store
                    .session(async |session| {
                        session.get::<Account>(&"a".to_owned()).await?;
                        if std::mem::take(&mut first) {
                            both_have_read.wait().await;
                        }
                        add_to(session, "a", -100).await?;
                        add_to(session, "b", 100).await
                    })
                    .await;
                transfer.unwrap();
            });
        }
        tasks.await;
        let view = store.view().await.unwrap();
        let accounts = Query::<Account>::all().collect(&view).await.unwrap();
        assert_eq!(accounts, [account("a", 800), account("b", 1200)]);
        let metrics = store.metrics();
        assert_eq!((metrics.sessions, metrics.commits, metrics.conflicts, metrics.retries), (3, 3, 1, 1));
    });
}

#[test]
fn a_session_that_fails_leaves_nothing() {
    on_each_store(async |store| {
        let failed: Result<(), Error> = store
            .session(async |session| {
                session.put(&item(1, "a", 1)).await?;
                Err(Error::Full)
            })
            .await;
        assert_eq!(failed, Err(Error::Full));
        let view = store.view().await.unwrap();
        assert_eq!(Query::<Item>::all().count(&view).await, Ok(0));
        assert_eq!(BY_GROUP.all().count(&view).await, Ok(0));
    });
}

#[test]
fn a_session_sees_its_own_writes_in_every_index() {
    on_each_store(async |store| {
        store.session(async |session| session.put(&item(1, "a", 1)).await).await.unwrap();
        let work = store.session(async |session| {
            session.put(&item(1, "b", 5)).await?;
            session.put(&item(2, "b", 3)).await?;
            assert_eq!(BY_GROUP.eq(&"a".to_owned()).count(session).await?, 0);
            let ranks = BY_RANK.beginning(&("b".to_owned(),)).collect(session).await?;
            assert_eq!(ranks.iter().map(|item| item.id).collect::<Vec<_>>(), [2, 1]);
            session.delete::<Item>(&2).await?;
            assert_eq!(BY_NAME.eq(&"item 2".to_owned()).first(session).await?, None);
            session.get::<Item>(&1).await
        });
        let found: Result<Option<Item>, Error> = work.await;
        assert_eq!(found.unwrap(), Some(item(1, "b", 5)));
    });
}

#[test]
fn a_unique_key_belongs_to_one_record() {
    on_each_store(async |store| {
        let named = |id, name: &str| Item { name: name.to_owned(), ..item(id, "a", 0) };
        store.session(async |session| session.insert(&named(1, "x")).await).await.unwrap();
        let again = store.session(async |session| session.insert(&named(1, "y")).await).await;
        assert_eq!(again, Err(Error::Duplicate { table: "items", index: None }));
        let taken = store.session(async |session| session.put(&named(2, "x")).await).await;
        assert_eq!(taken, Err(Error::Duplicate { table: "items", index: Some("name") }));
        // The name is free as soon as its holder has another, also in the same session.
        store
            .session(async |session| {
                session.put(&named(1, "z")).await?;
                session.put(&named(2, "x")).await
            })
            .await
            .unwrap();
        // Two sessions that want one name at once: one of them gets it.
        let tasks = LocalSet::new();
        let claims: Vec<_> = (10..14)
            .map(|id| {
                let (store, claim) = (store.clone(), named(id, "wanted"));
                tasks.spawn_local(
                    async move { store.session(async |session| session.insert(&claim).await).await },
                )
            })
            .collect();
        tasks.await;
        let mut won = 0;
        for claim in claims {
            won += u32::from(claim.await.unwrap().is_ok());
        }
        assert_eq!(won, 1);
    });
}

#[test]
fn a_predicate_on_what_is_not_there_is_kept() {
    // Write skew: each session checks that no account is at zero and then takes one there.
    on_each_store(async |store| {
        store
            .session(async |session| {
                session.put(&account("a", 1)).await?;
                session.put(&account("b", 1)).await
            })
            .await
            .unwrap();
        let both_have_read = Arc::new(Barrier::new(2));
        let tasks = LocalSet::new();
        for name in ["a", "b"] {
            let (store, both_have_read) = (store.clone(), Arc::clone(&both_have_read));
            tasks.spawn_local(async move {
                let mut first = true;
                let done: Result<(), Error> = store
                    .session(async |session| {
                        let none_at_zero = BY_BALANCE.eq(&0).count(session).await? == 0;
                        if std::mem::take(&mut first) {
                            both_have_read.wait().await;
                        }
                        if none_at_zero { session.put(&account(name, 0)).await.map(drop) } else { Ok(()) }
                    })
                    .await;
                done.unwrap();
            });
        }
        tasks.await;
        let view = store.view().await.unwrap();
        assert_eq!(BY_BALANCE.eq(&0).count(&view).await, Ok(1));
    });
}

#[test]
fn a_view_does_not_change_and_does_not_disturb() {
    on_each_store(async |store| {
        store.session(async |session| session.put(&account("a", 1)).await).await.unwrap();
        let view = store.view().await.unwrap();
        store.session(async |session| session.put(&account("a", 2)).await).await.unwrap();
        assert_eq!(view.get::<Account>(&"a".to_owned()).await, Ok(Some(account("a", 1))));
        assert_eq!(BY_BALANCE.all().collect(&view).await, Ok(vec![account("a", 1)]));
        assert_eq!(store.metrics().conflicts, 0);
    });
}

#[test]
fn too_much_is_refused_before_anything_is_written() {
    on_each_engine(async |engine| {
        let limits = Limits {
            key_bytes: 20,
            record_bytes: 100,
            session_keys: 20,
            session_bytes: 400,
            ..Limits::default()
        };
        let store = Store::open_within(engine, schema(), limits).await.unwrap();
        let put = async |item: Item| store.session(async |session| session.put(&item).await).await;
        let what = |result: Result<Option<Item>, Error>| match result {
            Err(Error::TooLarge { what, .. }) => what,
            other => panic!("{other:?}"),
        };
        assert_eq!(what(put(Item { name: "n".repeat(30), ..item(1, "a", 1) }).await), "a key");
        assert_eq!(what(put(Item { tags: vec![7; 120], ..item(1, "a", 1) }).await), "a record");
        let many: Result<(), Error> = store
            .session(async |session| {
                for id in 0..9 {
                    session.put(&item(id, "a", 1)).await?;
                }
                Ok(())
            })
            .await;
        assert_eq!(many, Err(Error::TooManyKeys { limit: 20 }));
        let much: Result<(), Error> = store
            .session(async |session| {
                for id in 0..3 {
                    session.put(&Item { tags: vec![7; 80], ..item(id, "a", 1) }).await?;
                }
                Ok(())
            })
            .await;
        assert!(matches!(much, Err(Error::TooLarge { what: "a session", .. })), "{much:?}");
        // A step that is refused leaves what came before, with whole indexes, if the session goes on.
        let some: Result<(), Error> = store
            .session(async |session| {
                let mut id = 0;
                while session.put(&item(id, "a", 1)).await.is_ok() {
                    id += 1;
                }
                Ok(())
            })
            .await;
        some.unwrap();
        let report = store.check().await.unwrap();
        assert!(report.is_whole() && report.records > 0, "{report:?}");
        assert_eq!(BY_TAG.all().count(&store.view().await.unwrap()).await, Ok(0));
    });
}

#[test]
fn a_session_that_always_conflicts_is_given_up() {
    on_each_engine(async |engine| {
        let limits =
            Limits { attempts: 4, backoff: std::time::Duration::from_micros(1), ..Limits::default() };
        let store = Store::open_within(engine, schema(), limits).await.unwrap();
        store.session(async |session| session.put(&account("a", 0)).await).await.unwrap();
        let mut runs = 0;
        let outcome: Result<(), Error> = store
            .session(async |session| {
                runs += 1;
                add_to(session, "a", 1).await?;
                store.session(async |other| add_to(other, "a", 10).await).await
            })
            .await;
        assert_eq!(outcome, Err(Error::Conflict { attempts: 4 }));
        assert_eq!((runs, store.metrics().given_up), (4, 1));
        assert_eq!(store.view().await.unwrap().get(&"a".to_owned()).await, Ok(Some(account("a", 40))));
    });
}

/// A table without indexes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Line {
    number: u32,
    text: String,
}

impl store::Record for Line {
    type Key = u32;
    const TABLE: store::TableId = store::TableId { number: 3, name: "lines" };

    fn key(&self) -> u32 {
        self.number
    }
}

#[test]
fn what_is_written_blindly_has_no_indexes_to_follow() {
    on_each_engine(async |engine| {
        let store = Store::open_within(engine, schema().table::<Line>(), Limits::default()).await.unwrap();
        let line = |number, text: &str| Line { number, text: text.to_owned() };
        let both: Result<(), Error> = store
            .session(async |session| {
                session.set(&line(1, "old"))?;
                session.set(&line(1, "new"))?;
                session.set(&line(2, "gone"))?;
                session.unset::<Line>(&2)?;
                session.unset::<Line>(&3)?;
                assert_eq!(session.get::<Line>(&1).await?, Some(line(1, "new")));
                let refused = |done| matches!(done, Err(Error::Schema(_)));
                assert!(refused(session.set(&account("a", 1))));
                assert!(refused(session.unset::<Account>(&"a".to_owned())));
                Ok(())
            })
            .await;
        both.unwrap();
        let view = store.view().await.unwrap();
        assert_eq!(Query::<Line>::all().collect(&view).await.unwrap(), [line(1, "new")]);
        assert_eq!(Query::<Account>::all().collect(&view).await.unwrap(), []);
    });
}
