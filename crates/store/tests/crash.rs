//! Killed at any moment, a store opens with every acknowledged session and nothing half done.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod common;
#[path = "common/disk.rs"]
#[allow(unreachable_pub)]
mod disk;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Account, BY_GROUP, Item, account, block_on, item, schema};
use disk::{Loss, Platter};
use store::embedded::Embedded;
use store::{Error, Query, Store};
use tokio::task::LocalSet;

/// Sessions at once, which share a commit.
const AT_ONCE: u32 = 3;
/// A session also changes what the one so many before it wrote.
const BACK: u32 = 2 * AT_ONCE;

/// One session: three records, and a change to an older one. All or nothing of it may be there.
async fn work(store: &Store, number: u32) -> Result<(), Error> {
    let amount = i64::from(number);
    store
        .session(async |session| {
            session.insert(&item(number, "new", 1)).await?;
            session.insert(&account(&format!("{number} from"), -amount)).await?;
            session.insert(&account(&format!("{number} to"), amount)).await?;
            if let Some(old) = number.checked_sub(BACK)
                && let Some(old) = session.get::<Item>(&old).await?
            {
                session.put(&Item { group: "old".to_owned(), ..old }).await?;
            }
            Ok(())
        })
        .await
}

/// Works until something fails, and says which sessions were acknowledged.
async fn work_all(store: &Store, numbers: std::ops::Range<u32>) -> (Vec<u32>, Option<Error>) {
    let numbers: Vec<u32> = numbers.collect();
    let mut acknowledged = Vec::new();
    for round in numbers.chunks(AT_ONCE as usize) {
        let tasks = LocalSet::new();
        let running: Vec<_> = round
            .iter()
            .map(|&number| {
                let store = store.clone();
                (number, tasks.spawn_local(async move { work(&store, number).await }))
            })
            .collect();
        tasks.await;
        let mut failed = None;
        for (number, outcome) in running {
            match outcome.await.unwrap() {
                Ok(()) => acknowledged.push(number),
                Err(error) => failed = Some(error),
            }
        }
        if failed.is_some() {
            return (acknowledged, failed);
        }
    }
    (acknowledged, None)
}

/// Nothing half done, every index right, everything acknowledged there.
async fn invariant_whole(store: &Store, acknowledged: &[u32]) {
    let report = store.check().await.unwrap();
    assert!(report.is_whole(), "{:?}", report.faults);
    let view = store.view().await.unwrap();
    let items = Query::<Item>::all().collect(&view).await.unwrap();
    let items: BTreeMap<u32, Item> = items.into_iter().map(|item| (item.id, item)).collect();
    for number in acknowledged {
        assert!(items.contains_key(number), "session {number} was acknowledged");
    }
    let mut accounts = Vec::new();
    for (number, item) in &items {
        let amount = i64::from(*number);
        accounts.push(account(&format!("{number} from"), -amount));
        accounts.push(account(&format!("{number} to"), amount));
        assert_eq!(item.group == "old", items.contains_key(&(number + BACK)), "{number}");
    }
    accounts.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(Query::<Account>::all().collect(&view).await.unwrap(), accounts);
    let old = items.values().filter(|item| item.group == "old").count() as u64;
    assert_eq!(BY_GROUP.eq(&"old".to_owned()).count(&view).await, Ok(old));
}

async fn open(platter: &Platter) -> Result<Store, Error> {
    Store::open(Embedded::open_on(platter.disks()).await?, schema()).await
}

/// Works until the power fails. Returns what was acknowledged, and whether all was done before.
async fn work_until_cut(platter: &Platter) -> (Vec<u32>, bool) {
    let Ok(store) = open(platter).await else { return (Vec::new(), false) };
    let (acknowledged, failed) = work_all(&store, 0..4 * AT_ONCE).await;
    let closed = store.close().await;
    (acknowledged, failed.is_none() && closed.is_ok() && platter.changes() > 0)
}

#[test]
fn cut_off_at_every_write_nothing_acknowledged_is_lost_and_nothing_is_half_done() {
    block_on(async {
        let new = Platter::default();
        let engine = Embedded::open_on(new.disks()).await.unwrap();
        store::engine::Engine::close(&engine).await.unwrap();
        let new = new.image(Loss::All);
        let whole = Platter::of(new.clone());
        let (all, finished) = work_until_cut(&whole).await;
        assert!(finished && all.len() == 4 * AT_ONCE as usize);
        let changes = whole.changes();
        for cut in 1..=changes {
            let platter = Platter::of(new.clone());
            platter.fail_after(cut);
            let (acknowledged, _) = work_until_cut(&platter).await;
            for loss in [Loss::All, Loss::Nothing, Loss::Some(cut), Loss::Some(cut + changes)] {
                let after = Platter::of(platter.image(loss));
                let store = match open(&after).await {
                    Ok(store) => store,
                    Err(error) => panic!("cut off at {cut} of {changes}, {loss:?}: {error}"),
                };
                invariant_whole(&store, &acknowledged).await;
                let (more, failed) = work_all(&store, 100..102).await;
                assert_eq!(failed, None);
                invariant_whole(&store, &more).await;
            }
        }
    });
}

#[test]
fn a_full_disk_is_said_and_when_there_is_room_it_goes_on() {
    block_on(async {
        let platter = Platter::default();
        let store = open(&platter).await.unwrap();
        let mut acknowledged = work_all(&store, 0..12).await.0;
        // It must not keep the file from being opened again.
        let _old = store.view().await.unwrap();
        platter.set_room(Some(platter.blocks() + 8));
        let (more, failed) = work_all(&store, 12..1_000).await;
        assert_eq!(failed, Some(Error::Full));
        acknowledged.extend(more);
        // What is there can be read, and what is full stays full.
        invariant_whole(&store, &acknowledged).await;
        let next = acknowledged.last().unwrap() + 10 * AT_ONCE;
        let (more, failed) = work_all(&store, next..next + 300).await;
        acknowledged.extend(more);
        assert_eq!(failed, Some(Error::Full));
        platter.set_room(None);
        let (more, failed) = work_all(&store, 10_000..10_030).await;
        assert_eq!(failed, None);
        acknowledged.extend(more);
        invariant_whole(&store, &acknowledged).await;
    });
}

const CHILD: &str = "STORE_CRASH_CHILD";

/// Not a test of its own: what the test below starts, and kills.
#[test]
fn child_that_writes() {
    let Ok(setting) = std::env::var(CHILD) else { return };
    let (first, path) = setting.split_once(' ').unwrap();
    let first: u32 = first.parse().unwrap();
    block_on(async {
        let store = Store::open(Embedded::open(path).await.unwrap(), schema()).await.unwrap();
        for start in (first..).step_by(AT_ONCE as usize) {
            for number in work_all(&store, start..start + AT_ONCE).await.0 {
                let mut out = std::io::stdout().lock();
                writeln!(out, "\nacknowledged {number}").unwrap();
                out.flush().unwrap();
            }
        }
    });
}

/// Starts the child, kills it after so many acknowledgements, and returns all that it gave.
fn kill_after(acknowledgements: usize, first: u32, path: &Path) -> Vec<u32> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_writes", "--nocapture"])
        .env(CHILD, format!("{first} {}", path.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        if let Some(number) = line.unwrap().strip_prefix("acknowledged ") {
            acknowledged.push(number.parse().unwrap());
            if acknowledged.len() == acknowledgements {
                child.kill().unwrap();
            }
        }
    }
    child.wait().unwrap();
    acknowledged
}

#[test]
fn a_killed_process_loses_nothing_it_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut acknowledged = Vec::new();
    for round in 0..8 {
        let seen = kill_after(1 + round * 2, u32::try_from(round).unwrap() * 100_000, &path);
        assert!(seen.len() > round * 2);
        acknowledged.extend(seen);
        block_on(async {
            let store = Store::open(Embedded::open(&path).await.unwrap(), schema()).await.unwrap();
            invariant_whole(&store, &acknowledged).await;
            store.close().await.unwrap();
        });
    }
}
