//! The embedded engine: a `redb` file, one thread that commits, and a few that read.
//!
//! A caller's event loop only passes messages. Sessions that come while the disk is busy are made durable
//! together, by the next fsync. After a fault of the disk (a full one, say) the file is opened again, and the
//! engine goes on with what is in it.

mod disk;
mod file;
mod reader;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::{mpsc, oneshot};

pub use disk::Disk;

use self::disk::Locked;
use self::reader::{At, Reading};
use self::writer::Job;
use super::{Answer, Commit, Engine, Outcome, Revision, Snapshot};
use crate::Error;

/// Threads that read. Most reads find their page in memory; two let one wait for the disk.
const READERS: usize = 2;

type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// The engine in one file.
pub struct Embedded {
    link: Arc<Link>,
    jobs: mpsc::Sender<Job>,
}

type Disks = Box<dyn Fn() -> Result<Box<dyn Disk>, Error> + Send + Sync>;

/// What the writer's thread and the callers share.
struct Link {
    disks: Disks,
    syncs: Arc<AtomicU64>,
    latest: RwLock<Result<Arc<At>, Error>>,
}

impl Link {
    /// Shows a state to whoever asks for one from now on.
    fn publish(&self, state: Result<(Revision, file::Pairs, mpsc::Sender<Reading>), Error>) {
        let state =
            state.map(|(revision, pairs, reads)| Arc::new(At { revision, pairs: Arc::new(pairs), reads }));
        *self.latest.write().unwrap_or_else(PoisonError::into_inner) = state;
    }

    fn latest(&self) -> Result<Arc<At>, Error> {
        self.latest.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Embedded {
    /// Opens the file at `path`, or makes one. Its directory must exist.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path: PathBuf = path.as_ref().to_owned();
        let made = path.clone();
        let disks = move || Ok(Box::new(Locked::open(&path)?) as Box<dyn Disk>);
        Self::start(Box::new(disks), move |link| file::make_sure_of(&made, &link.syncs)).await
    }

    /// Opens what is on a disk of another kind. `disks` is called again after each fault.
    pub async fn open_on(
        disks: impl Fn() -> Result<Box<dyn Disk>, Error> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        Self::start(Box::new(disks), |_| Ok(())).await
    }

    async fn start(
        disks: Disks,
        prepare: impl FnOnce(&Link) -> Result<(), Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let link = Link { disks, syncs: Arc::default(), latest: RwLock::new(Err(Error::Closed)) };
        let link = Arc::new(link);
        let (reads, healer) = reader::start(READERS)?;
        let (jobs, opened) = writer::start(Arc::clone(&link), reads, prepare)?;
        *healer.lock().unwrap_or_else(PoisonError::into_inner) = Some(jobs.downgrade());
        opened.await.map_err(|_| Error::Closed)??;
        Ok(Self { link, jobs })
    }
}

/// Sends a question to a thread and waits for its answer. A thread that is gone has closed the store.
fn ask<J: Send + 'static, T: Send + 'static>(
    thread: mpsc::Sender<J>,
    question: impl FnOnce(Reply<T>) -> J + Send + 'static,
) -> Answer<T> {
    Box::pin(async move {
        let (reply, answer) = oneshot::channel();
        thread.send(question(reply)).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    })
}

impl Engine for Embedded {
    fn snapshot(&self) -> Answer<Arc<dyn Snapshot>> {
        let (link, jobs) = (Arc::clone(&self.link), self.jobs.clone());
        Box::pin(async move {
            if let Ok(latest) = link.latest() {
                return Ok(latest as Arc<dyn Snapshot>);
            }
            ask(jobs, Job::Heal).await?;
            Ok(link.latest()? as Arc<dyn Snapshot>)
        })
    }

    fn commit(&self, commit: Commit) -> Answer<Outcome> {
        ask(self.jobs.clone(), |reply| Job::Commit(commit, reply))
    }

    fn syncs(&self) -> u64 {
        self.link.syncs.load(Ordering::Relaxed)
    }

    fn close(&self) -> Answer<()> {
        let jobs = self.jobs.clone();
        Box::pin(async move {
            match ask(jobs, Job::Close).await {
                Ok(()) | Err(Error::Closed) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}
