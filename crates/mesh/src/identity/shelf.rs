//! The part of the ledger that survives a restart: written by a thread of its own, which no request waits for.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use store::{Error, Query, Record, Schema, Store, TableId, embedded::Embedded};

use super::now;

/// The store's file.
const FILE: &str = "issuers.redb";

/// Rows that may wait for the disk. Past it they are dropped: the next request says the same again.
const WAITING: usize = 4096;
/// Rows that are written together.
const TOGETHER: usize = 512;
/// What is over is removed this often.
const SWEEP: Duration = Duration::from_hours(1);
/// How long the end of a mesh waits for the last rows.
const LAST_ROWS: Duration = Duration::from_secs(5);

/// Which site answered for a token, by the token's hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) token: u128,
    pub(crate) site: String,
    /// In seconds since 1970.
    pub(crate) until: u64,
}

impl Record for Row {
    type Key = u128;
    const TABLE: TableId = TableId { number: 1, name: "issuers" };

    fn key(&self) -> u128 {
        self.token
    }
}

/// Where rows are put.
pub(crate) struct Shelf {
    rows: Option<SyncSender<Row>>,
    /// Ends when the last row is written. The lock is never waited for.
    written: Option<Mutex<Receiver<()>>>,
}

impl Shelf {
    /// Opens what is in a directory, or makes it. Says what is there.
    pub(crate) fn open(directory: &Path) -> Result<(Shelf, Vec<Row>), String> {
        let file = directory.join(FILE);
        let (rows, received) = sync_channel(WAITING);
        let (opened, waiting) = channel();
        let (done, written) = channel::<()>();
        let at = file.clone();
        let spawned = std::thread::Builder::new().name("issuers".to_owned()).spawn(move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(opened.send(Err(error.to_string()))),
            };
            runtime.block_on(async move {
                let store = match open(&at).await {
                    Ok((store, rows)) => {
                        let _ = opened.send(Ok(rows));
                        store
                    }
                    Err(error) => return drop(opened.send(Err(error.to_string()))),
                };
                keep(&store, &received).await;
                let _ = store.close().await;
            });
            drop(done);
        });
        spawned.map_err(|error| error.to_string())?;
        let ended = || "the thread ended".to_owned();
        let kept = waiting.recv().unwrap_or_else(|_| Err(ended()));
        let kept = kept.map_err(|why| format!("cannot use `{}`: {why}", file.display()))?;
        Ok((Shelf { rows: Some(rows), written: Some(Mutex::new(written)) }, kept))
    }

    /// Writes a row down, some time soon.
    pub(crate) fn put(&self, row: Row) {
        if let Some(rows) = &self.rows {
            let _ = rows.try_send(row);
        }
    }
}

/// What was put is written before a process may end.
impl Drop for Shelf {
    fn drop(&mut self) {
        self.rows = None;
        if let Some(written) = self.written.take() {
            let written = written.into_inner().unwrap_or_else(PoisonError::into_inner);
            let _ = written.recv_timeout(LAST_ROWS);
        }
    }
}

async fn open(file: &Path) -> Result<(Store, Vec<Row>), Error> {
    let store = Store::open(Embedded::open(file).await?, Schema::new().table::<Row>()).await?;
    sweep(&store).await?;
    let rows = Query::<Row>::all().collect(&store.view().await?).await?;
    Ok((store, rows))
}

/// Writes what comes, until nobody can send any more. A disk that takes nothing loses rows, never requests.
async fn keep(store: &Store, rows: &Receiver<Row>) {
    let mut swept = Instant::now();
    loop {
        let mut batch = match rows.recv_timeout(SWEEP) {
            Ok(row) => vec![row],
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        batch.extend(rows.try_iter().take(TOGETHER));
        let write = store.session(async |session| {
            for row in &batch {
                session.put(row).await?;
            }
            Ok::<_, Error>(())
        });
        let _ = write.await;
        if swept.elapsed() >= SWEEP {
            swept = Instant::now();
            let _ = sweep(store).await;
        }
    }
}

async fn sweep(store: &Store) -> Result<(), Error> {
    let now = now();
    let over = Query::<Row>::all().filter(move |row| row.until <= now).collect(&store.view().await?).await?;
    for part in over.chunks(TOGETHER) {
        let delete = store.session(async |session| {
            for row in part {
                session.delete::<Row>(&row.token).await?;
            }
            Ok::<_, Error>(())
        });
        delete.await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_there_again_until_it_is_over() {
        let directory = tempfile::tempdir().unwrap();
        let row = |token, until| Row { token, site: "B".to_owned(), until };
        let (shelf, rows) = Shelf::open(directory.path()).unwrap();
        assert_eq!(rows, []);
        let lasting = row(1, now() + 1000);
        shelf.put(lasting.clone());
        shelf.put(row(2, 5));
        drop(shelf);
        let (shelf, rows) = Shelf::open(directory.path()).unwrap();
        assert_eq!(rows, [lasting]);
        drop(shelf);
    }
}
