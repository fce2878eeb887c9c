//! The threads that read: a page that is not in memory must not hold up an event loop.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::file::{self, Pairs};
use super::writer::Job;
use super::{Reply, ask};
use crate::Error;
use crate::engine::{Answer, Direction, Pair, Range, Revision, Snapshot};

/// What a thread is asked to read.
pub(super) enum Reading {
    Get(Arc<Pairs>, Vec<Vec<u8>>, Reply<Vec<Option<Vec<u8>>>>),
    Scan(Arc<Pairs>, Range, Direction, usize, Reply<Vec<Pair>>),
}

/// A state that the writer has shown.
pub(super) struct At {
    pub(super) revision: Revision,
    pub(super) pairs: Arc<Pairs>,
    pub(super) reads: mpsc::Sender<Reading>,
}

impl Snapshot for At {
    fn revision(&self) -> Revision {
        self.revision
    }

    fn get(&self, keys: Vec<Vec<u8>>) -> Answer<Vec<Option<Vec<u8>>>> {
        let pairs = Arc::clone(&self.pairs);
        ask(self.reads.clone(), |reply| Reading::Get(pairs, keys, reply))
    }

    fn scan(&self, range: Range, direction: Direction, limit: usize) -> Answer<Vec<Pair>> {
        let pairs = Arc::clone(&self.pairs);
        ask(self.reads.clone(), move |reply| Reading::Scan(pairs, range, direction, limit, reply))
    }
}

/// Starts threads that share a queue. They end when no snapshot and no engine is left.
pub(super) fn start(threads: usize) -> Result<(mpsc::Sender<Reading>, Healer), Error> {
    /// Reads that wait in the queue; more wait outside.
    const QUEUE: usize = 1024;
    let (reads, queue) = mpsc::channel(QUEUE);
    let queue = Arc::new(Mutex::new(queue));
    let healer: Healer = Arc::default();
    for number in 0..threads {
        let (queue, healer) = (Arc::clone(&queue), Arc::clone(&healer));
        std::thread::Builder::new()
            .name(format!("store-reader-{number}"))
            .spawn(move || while read_one(&queue, &healer) {})?;
    }
    Ok((reads, healer))
}

/// How a reader tells the writer that the file may need to be opened again.
pub(super) type Healer = Arc<Mutex<Option<mpsc::WeakSender<Job>>>>;

fn read_one(queue: &Mutex<mpsc::Receiver<Reading>>, healer: &Healer) -> bool {
    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
    let fault = match next {
        None => return false,
        Some(Reading::Get(pairs, keys, reply)) => answer(file::get(&pairs, &keys), reply),
        Some(Reading::Scan(pairs, range, direction, limit, reply)) => {
            answer(file::scan(&pairs, &range, direction, limit), reply)
        }
    };
    if fault {
        let writer = healer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = writer.as_ref().and_then(mpsc::WeakSender::upgrade) {
            // If its queue is full, the next commit finds out as well.
            drop(writer.try_send(Job::Heal(oneshot::channel().0)));
        }
    }
    true
}

/// Sends the answer, and says whether it was a fault of the disk.
fn answer<T>(result: Result<T, Error>, reply: Reply<T>) -> bool {
    let fault = matches!(result, Err(Error::Io(_)));
    drop(reply.send(result));
    fault
}
