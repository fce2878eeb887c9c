//! How many sessions a second are made durable, alone and together, and how many reads are answered.
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde::{Deserialize, Serialize};
use store::embedded::Embedded;
use store::memory::Memory;
use store::{AnyIndex, Index, Record, Schema, Store, TableId};
use tokio::task::LocalSet;

#[derive(Serialize, Deserialize)]
struct Row {
    id: u64,
    site: String,
    state: u8,
    body: Vec<u8>,
}

const BY_SITE: Index<Row, (String, u8)> = Index::new(1, "site", |row| (row.site.clone(), row.state));

impl Record for Row {
    type Key = u64;
    const TABLE: TableId = TableId { number: 1, name: "rows" };

    fn key(&self) -> u64 {
        self.id
    }

    fn indexes() -> Vec<AnyIndex<Self>> {
        vec![BY_SITE.any()]
    }
}

/// Rows that are there before: reads go through a tree of some depth.
const ROWS: u64 = 20_000;

fn row(id: u64) -> Row {
    Row { id, site: format!("Site{}", id % 7), state: 0, body: vec![7; 200] }
}

async fn fill(store: &Store) {
    for start in (0..ROWS).step_by(500) {
        store
            .session(async |session| {
                for id in start..start + 500 {
                    session.put(&row(id)).await?;
                }
                Ok::<_, store::Error>(())
            })
            .await
            .unwrap();
    }
}

/// Runs `count` sessions, each changing one row of its own, `at_once` of them at a time.
async fn sessions(store: &Store, count: u64, at_once: u64) -> Duration {
    let began = Instant::now();
    let tasks = LocalSet::new();
    for task in 0..at_once {
        let store = store.clone();
        tasks.spawn_local(async move {
            for number in (task..count).step_by(usize::try_from(at_once).unwrap()) {
                let changed = Row { state: 1, ..row(number * 31 % ROWS) };
                store.session(async |session| session.put(&changed).await).await.unwrap();
            }
        });
    }
    tasks.await;
    began.elapsed()
}

async fn reads(store: &Store, count: u64) -> Duration {
    let began = Instant::now();
    for number in 0..count {
        let view = store.view().await.unwrap();
        black_box(view.get::<Row>(&(number * 7919 % ROWS)).await.unwrap());
    }
    began.elapsed()
}

async fn pages(store: &Store, count: u64) -> Duration {
    let view = store.view().await.unwrap();
    let began = Instant::now();
    for number in 0..count {
        let site = (format!("Site{}", number % 7),);
        black_box(BY_SITE.beginning(&site).page(&view, 100).await.unwrap());
    }
    began.elapsed()
}

fn measure(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let schema = || Schema::new().table::<Row>();
    let (embedded, memory) = runtime.block_on(async {
        let engine = Embedded::open(directory.path().join("store")).await.unwrap();
        let embedded = Store::open(engine, schema()).await.unwrap();
        let memory = Store::open(Memory::new(), schema()).await.unwrap();
        fill(&embedded).await;
        fill(&memory).await;
        (embedded, memory)
    });
    let mut group = criterion.benchmark_group("store");
    group.sample_size(10).throughput(Throughput::Elements(1));
    for (engine, store) in [("embedded", &embedded), ("memory", &memory)] {
        for at_once in [1, 16, 256] {
            group.bench_function(format!("{engine}/sessions/{at_once} at once"), |bencher| {
                bencher.iter_custom(|count| runtime.block_on(sessions(store, count, at_once)));
            });
        }
        group.bench_function(format!("{engine}/reads"), |bencher| {
            bencher.iter_custom(|count| runtime.block_on(reads(store, count)));
        });
        group.bench_function(format!("{engine}/pages of 100 by index"), |bencher| {
            bencher.iter_custom(|count| runtime.block_on(pages(store, count)));
        });
    }
    group.finish();
}

criterion_group!(benches, measure);
criterion_main!(benches);
