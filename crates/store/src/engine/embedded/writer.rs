//! The thread that commits. It takes what has queued up while the disk was busy, and makes it durable at once.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::file::{Failed, Store};
use super::reader::Reading;
use super::{Link, Reply};
use crate::Error;
use crate::engine::recent::Recent;
use crate::engine::{Commit, Outcome, Revision};

/// Sessions made durable at once, at most: what waits for one fsync is bounded.
const BATCH_SESSIONS: usize = 512;
/// Bytes made durable at once, at most, give or take one session.
const BATCH_BYTES: usize = 8 << 20;

/// What the thread is asked to do.
pub(super) enum Job {
    Commit(Commit, Reply<Outcome>),
    /// A read failed, or there is nothing to read: see whether the database is well, and open it again if not.
    Heal(Reply<()>),
    Close(Reply<()>),
}

type Waiting = (Commit, Reply<Outcome>);

pub(super) struct Writer {
    pub(super) link: Arc<Link>,
    pub(super) reads: mpsc::Sender<Reading>,
    store: Option<Store>,
    revision: Revision,
    recent: Recent,
}

impl Writer {
    pub(super) fn new(link: Arc<Link>, reads: mpsc::Sender<Reading>) -> Result<Self, Error> {
        let mut writer = Self { link, reads, store: None, revision: 0, recent: Recent::since(0) };
        writer.open()?;
        writer.recent = Recent::since(writer.revision);
        Ok(writer)
    }

    /// Works until nobody can ask any more.
    pub(super) fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut next = None;
        while let Some(job) = next.take().or_else(|| jobs.blocking_recv()) {
            match job {
                Job::Commit(commit, reply) => {
                    let mut batch = vec![(commit, reply)];
                    next = gather(&mut batch, &mut jobs);
                    self.batch(batch);
                }
                Job::Heal(reply) => drop(reply.send(self.heal())),
                Job::Close(reply) => {
                    self.link.publish(Err(Error::Closed));
                    self.store = None;
                    drop(reply.send(Ok(())));
                    return;
                }
            }
        }
    }

    fn batch(&mut self, batch: Vec<Waiting>) {
        if let Err(error) = self.make_sure_of_store() {
            return batch.into_iter().for_each(|(_, reply)| drop(reply.send(Err(error.clone()))));
        }
        let mut staged: Vec<(Revision, Commit, Reply<Outcome>)> = Vec::new();
        let mut refused = Vec::new();
        for (commit, reply) in batch {
            if self.recent.conflicts(&commit) {
                refused.push(reply);
            } else {
                self.revision += 1;
                self.recent.note(self.revision, &commit);
                staged.push((self.revision, commit, reply));
            }
        }
        let commits: Vec<&Commit> = staged.iter().map(|(_, commit, _)| commit).collect();
        let result = if commits.is_empty() { Ok(()) } else { self.commit(&commits) };
        for (revision, _, reply) in staged {
            drop(reply.send(result.clone().map(|()| Outcome::Committed(revision))));
        }
        // Not before: what they conflict with may be in this batch, and they would read the state before it again.
        for reply in refused {
            drop(reply.send(Ok(Outcome::Conflict)));
        }
    }

    fn commit(&mut self, commits: &[&Commit]) -> Result<(), Error> {
        let Some(store) = &self.store else { return Err(Error::Closed) };
        let Err(Failed { error, in_doubt }) = store.commit(commits, self.revision) else {
            self.publish();
            return Ok(());
        };
        // After a fault `redb` refuses everything: the file is opened again, which also tells what it holds.
        match (self.open(), in_doubt) {
            (Ok(found), true) if found == self.revision => Ok(()),
            (Err(_), true) => Err(Error::InDoubt),
            _ => Err(error),
        }
    }

    /// Shows the last commit to readers. The commit is durable, also where showing it fails.
    fn publish(&mut self) {
        match self.store.as_ref().map(Store::read) {
            Some(Ok(pairs)) => self.link.publish(Ok((self.revision, pairs, self.reads.clone()))),
            Some(Err(_)) | None => drop(self.open()),
        }
    }

    /// Opens the file, for the first time or again, and says which revision it holds.
    fn open(&mut self) -> Result<Revision, Error> {
        self.link.publish(Err(Error::Stale));
        self.store = None;
        let opened = (self.link.disks)().and_then(|disk| {
            let store = Store::open(disk, &self.link.syncs)?;
            Ok((store.revision()?, store.read()?, store))
        });
        match opened {
            Ok((found, pairs, store)) => {
                // Revisions of failed commits are not used again: what read before them must not look newer.
                self.revision = self.revision.max(found);
                self.store = Some(store);
                self.link.publish(Ok((self.revision, pairs, self.reads.clone())));
                Ok(found)
            }
            Err(error) => {
                self.link.publish(Err(error.clone()));
                Err(error)
            }
        }
    }

    fn make_sure_of_store(&mut self) -> Result<(), Error> {
        if self.store.is_some() { Ok(()) } else { self.open().map(drop) }
    }

    fn heal(&mut self) -> Result<(), Error> {
        match self.store.as_ref().map(Store::revision) {
            Some(Ok(_)) => Ok(()),
            Some(Err(_)) | None => self.open().map(drop),
        }
    }
}

/// Adds what has queued up, and returns what is not a commit.
fn gather(batch: &mut Vec<Waiting>, jobs: &mut mpsc::Receiver<Job>) -> Option<Job> {
    let size = |commit: &Commit| -> usize {
        commit.writes.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len)).sum()
    };
    let mut bytes: usize = batch.iter().map(|(commit, _)| size(commit)).sum();
    while batch.len() < BATCH_SESSIONS && bytes < BATCH_BYTES {
        match jobs.try_recv() {
            Ok(Job::Commit(commit, reply)) => {
                bytes += size(&commit);
                batch.push((commit, reply));
            }
            Ok(other) => return Some(other),
            Err(_) => break,
        }
    }
    None
}

/// Tells whether the file could be opened.
type Opened = oneshot::Receiver<Result<(), Error>>;

/// Starts the thread, which first opens the file.
pub(super) fn start(
    link: Arc<Link>,
    reads: mpsc::Sender<Reading>,
    prepare: impl FnOnce(&Link) -> Result<(), Error> + Send + 'static,
) -> Result<(mpsc::Sender<Job>, Opened), Error> {
    /// Sessions that wait in the queue; more wait outside.
    const QUEUE: usize = 1024;
    let (jobs, queue) = mpsc::channel(QUEUE);
    let (opened, answer) = oneshot::channel();
    std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || {
        match prepare(&link).and_then(|()| Writer::new(link, reads)) {
            Ok(writer) => {
                drop(opened.send(Ok(())));
                writer.run(queue);
            }
            Err(error) => drop(opened.send(Err(error))),
        }
    })?;
    Ok((jobs, answer))
}
