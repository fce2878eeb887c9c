//! Sessions at the same time are as if one had come after the other: in the order of their numbers, a plain
//! map that runs them one by one reads and ends the same.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::{BY_GROUP, Item, item, schema};
use store::embedded::Embedded;
use store::engine::Engine;
use store::memory::Memory;
use store::{Error, Limits, Session, Store};

const IDS: u32 = 6;

/// A small generator: the same seed, the same session, also when it runs again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(self.0 >> 33).unwrap() % sides
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Did {
    Got(u32, Option<Item>),
    Counted(String, u64),
    Put(Item),
    /// And whether there was one.
    Deleted(u32, bool),
}

fn group(number: u32) -> String {
    ["a", "b"][number as usize % 2].to_owned()
}

/// Reads at random, and writes what depends on all that was read.
async fn wander(session: &mut Session, seed: u64) -> Result<Vec<Did>, Error> {
    let mut dice = Dice(seed);
    let mut did = Vec::new();
    let mut sum: i16 = 1;
    for _ in 0..=dice.roll(5) {
        let id = dice.roll(IDS);
        match dice.roll(4) {
            0 => {
                let found = session.get::<Item>(&id).await?;
                sum = sum.wrapping_add(found.as_ref().map_or(0, |item| item.rank));
                did.push(Did::Got(id, found));
            }
            1 => {
                let group = group(id);
                let count = BY_GROUP.eq(&group).count(session).await?;
                sum = sum.wrapping_add(i16::try_from(count).unwrap());
                did.push(Did::Counted(group, count));
            }
            2 => {
                let item = item(id, &group(dice.roll(2)), sum);
                session.put(&item).await?;
                did.push(Did::Put(item));
            }
            _ => {
                let deleted = session.delete::<Item>(&id).await?;
                did.push(Did::Deleted(id, deleted.is_some()));
            }
        }
        if dice.roll(3) == 0 {
            tokio::task::yield_now().await;
        }
    }
    Ok(did)
}

fn wrote(did: &[Did]) -> bool {
    did.iter().any(|did| matches!(did, Did::Put(_) | Did::Deleted(_, true)))
}

fn replay(model: &mut BTreeMap<u32, Item>, did: &[Did]) {
    for did in did {
        match did {
            Did::Got(id, found) => assert_eq!(model.get(id), found.as_ref()),
            Did::Counted(group, count) => {
                assert_eq!(model.values().filter(|item| item.group == *group).count() as u64, *count);
            }
            Did::Put(item) => drop(model.insert(item.id, item.clone())),
            Did::Deleted(id, there) => assert_eq!(model.remove(id).is_some(), *there),
        }
    }
}

fn check(engine: Arc<dyn Engine>, seed: u64) {
    const TASKS: u64 = 4;
    const EACH: u64 = 25;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let limits = Limits { attempts: 1000, ..Limits::default() };
    let store = runtime.block_on(Store::open_within(engine, schema(), limits)).unwrap();
    let history = Arc::new(Mutex::new(Vec::new()));
    // Event loops of their own, as the cores have.
    let loops: Vec<_> = (0..TASKS)
        .map(|task| {
            let (store, history) = (store.clone(), Arc::clone(&history));
            std::thread::spawn(move || {
                common::block_on(async {
                    for number in 0..EACH {
                        let seed = seed + task * EACH + number;
                        let (did, place) = store
                            .numbered_session(async |session| wander(session, seed).await)
                            .await
                            .unwrap();
                        history.lock().unwrap().push((place, did));
                    }
                });
            })
        })
        .collect();
    for each in loops {
        each.join().unwrap();
    }
    let mut history = std::mem::take(&mut *history.lock().unwrap());
    // One that only read comes after the session whose state it read.
    history.sort_by_key(|(place, did)| (*place, !wrote(did)));
    let mut model = BTreeMap::new();
    for (_, did) in &history {
        replay(&mut model, did);
    }
    runtime.block_on(async {
        let found = store::Query::<Item>::all().collect(&store.view().await.unwrap()).await.unwrap();
        assert_eq!(found, model.into_values().collect::<Vec<_>>());
        assert!(store.check().await.unwrap().is_whole());
    });
}

#[test]
fn sessions_at_once_are_as_if_one_after_the_other() {
    for seed in 0..8 {
        check(Arc::new(Memory::new()), seed * 1_000_003);
        let directory = tempfile::tempdir().unwrap();
        let engine = common::block_on(Embedded::open(directory.path().join("store"))).unwrap();
        check(Arc::new(engine), seed * 1_000_003 + 17);
    }
}
