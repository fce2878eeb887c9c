//! The door: opening a spool, and what concerns all of its bodies.

use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{self, Directory, Disk};
use crate::entry::{Entry, Ground};
use crate::error::Error;
use crate::format::{BodyKey, HEADER, Header};
use crate::id::{Id, is_part};
use crate::key::Key;
use crate::metrics::{Counters, Metrics};
use crate::pool::Pool;
use crate::quota::Quota;
use crate::reader::Reader;
use crate::writer::Writer;

/// Bodies on disk, encrypted, within a quota. Cheap to clone; any thread may use it.
#[derive(Clone)]
pub struct Spool(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) ground: Arc<Ground>,
    bodies: Mutex<BTreeMap<Id, Arc<Entry>>>,
}

/// A stored body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its name in this spool.
    pub id: Id,
    /// Its length in bytes.
    pub len: u64,
    /// The SHA-256 of its bytes.
    pub sha256: [u8; 32],
}

/// What a spool says of a stored body without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub id: Id,
    /// Its length in bytes, as the length of the file has it.
    pub len: u64,
}

/// How full a spool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of files, and bytes reserved for bodies that are being written.
    pub bytes: u64,
    /// The limit for them.
    pub quota: u64,
    /// Stored bodies.
    pub stored: usize,
    /// Bodies that are being written.
    pub unfinished: usize,
}

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Spool").field(&self.usage()).finish()
    }
}

impl Spool {
    /// Opens the spool in a directory, which is made if need be. What was not finished is gone.
    ///
    /// The quota is in bytes of files. If there is more already, nothing is lost, and nothing more is taken.
    pub async fn open(directory: &Path, quota: u64, key: Key) -> Result<Spool, Error> {
        let directory = directory.to_owned();
        Self::open_on(move || Ok(Arc::new(Directory::open(&directory)?)), quota, key).await
    }

    /// Opens the spool on a disk of the caller's, without threads: whoever calls waits for the disk. For a simulation, which
    /// has one thread.
    pub async fn open_here(disk: Arc<dyn Disk>, quota: u64, key: Key) -> Result<Spool, Error> {
        Self::open_with(Pool::here(), move || Ok(disk), quota, key).await
    }

    /// Opens the spool on a disk of the caller's.
    pub async fn open_on(
        disk: impl FnOnce() -> Result<Arc<dyn Disk>, Error> + Send + 'static,
        quota: u64,
        key: Key,
    ) -> Result<Spool, Error> {
        Self::open_with(Pool::start()?, disk, quota, key).await
    }

    async fn open_with(
        pool: Pool,
        disk: impl FnOnce() -> Result<Arc<dyn Disk>, Error> + Send + 'static,
        quota: u64,
        key: Key,
    ) -> Result<Spool, Error> {
        let wrapping = key.clone();
        let (disk, found) = pool
            .run(move || {
                let disk = disk()?;
                let found = tidy(&*disk, &wrapping)?;
                Ok((disk, found))
            })
            .await?;
        let quota = Quota::new(quota);
        let ground = Arc::new(Ground { disk, key, quota, pool, counters: Counters::default() });
        let bodies = found.into_iter().map(|(id, len)| (id, Entry::found(id, &ground, len))).collect();
        Ok(Spool(Arc::new(Inner { ground, bodies: Mutex::new(bodies) })))
    }

    /// Begins a body. With its length known, all that it needs is reserved now; else as it comes.
    pub fn writer(&self, expected_len: Option<u64>) -> Result<Writer, Error> {
        self.writer_as(Id::new()?, expected_len)
    }

    /// Begins a body that has its name already, in the spool of another.
    pub fn writer_as(&self, id: Id, expected_len: Option<u64>) -> Result<Writer, Error> {
        let entry = Entry::new(id, &self.0.ground, expected_len)?;
        let key = BodyKey::new(id, &self.0.ground.key)?;
        match self.0.bodies().entry(id) {
            btree_map::Entry::Occupied(_) => return Err(Error::Exists),
            btree_map::Entry::Vacant(place) => drop(place.insert(Arc::clone(&entry))),
        }
        Ok(Writer::new(Arc::clone(&self.0), entry, key, expected_len))
    }

    /// The length of a body, if it is stored.
    #[must_use]
    pub fn stored_len(&self, id: Id) -> Option<u64> {
        let bodies = self.0.bodies();
        bodies.get(&id).filter(|entry| entry.is_stored())?.end()?.ok()
    }

    /// Reads a body from an offset on. One that is still being written is followed to its end.
    pub fn reader(&self, id: Id, from: u64) -> Result<Reader, Error> {
        let entry = self.0.bodies().get(&id).cloned().ok_or(Error::Missing)?;
        Reader::new(entry, from)
    }

    /// Erases a stored body, for good. Says whether it was there. Who reads it already may go on.
    pub async fn erase(&self, id: Id) -> Result<bool, Error> {
        let Some(entry) = self.0.bodies().get(&id).cloned() else { return Ok(false) };
        if !entry.is_stored() {
            return Err(Error::Unfinished);
        }
        let disk = Arc::clone(&self.0.ground.disk);
        self.0.ground.pool.run(move || Ok(erase(&*disk, &id.to_string())?)).await?;
        // Of two that erase it at once, one did.
        let first = self.0.bodies().remove(&id).is_some();
        if first {
            entry.set_erased();
            Counters::add(&self.0.ground.counters.erased, 1);
        }
        Ok(first)
    }

    /// Erases the stored bodies that nobody knows of, and says how many there were. For the start: a body that was
    /// made durable just before a crash may have been recorded nowhere.
    pub async fn retain(&self, known: impl Fn(Id) -> bool) -> Result<usize, Error> {
        let mut erased = 0;
        for Listed { id, .. } in self.list() {
            if !known(id) && self.erase(id).await? {
                erased += 1;
            }
        }
        Ok(erased)
    }

    /// All stored bodies.
    #[must_use]
    pub fn list(&self) -> Vec<Listed> {
        let bodies = self.0.bodies();
        let stored = bodies.values().filter(|entry| entry.is_stored());
        stored
            .map(|entry| Listed { id: entry.id, len: entry.end().and_then(Result::ok).unwrap_or(0) })
            .collect()
    }

    /// How full it is.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let bodies = self.0.bodies();
        let stored = bodies.values().filter(|entry| entry.is_stored()).count();
        let quota = &self.0.ground.quota;
        Usage { bytes: quota.used(), quota: quota.limit(), stored, unfinished: bodies.len() - stored }
    }

    /// What was counted since it was opened.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.0.ground.counters.read()
    }

    /// Does what was begun, and lets another have the directory. Everything else that is asked fails.
    pub async fn close(&self) -> Result<(), Error> {
        self.0.ground.pool.close().await;
        Ok(self.0.ground.disk.close()?)
    }
}

impl Inner {
    fn bodies(&self) -> MutexGuard<'_, BTreeMap<Id, Arc<Entry>>> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No new reader can find it.
    pub(crate) fn forget(&self, id: Id) {
        let forgotten = self.bodies().remove(&id);
        // Not under the lock: it may be the last hold on it.
        drop(forgotten);
    }
}

/// Removes what was not finished, or not quite erased, and says which bodies there are.
fn tidy(disk: &dyn Disk, key: &Key) -> Result<Vec<(Id, u64)>, Error> {
    let mut found = Vec::new();
    for (name, len) in disk.list()? {
        if is_part(&name) {
            erase(disk, &name)?;
        } else if let Ok(id) = name.parse::<Id>() {
            match read_header(disk, id, key) {
                Ok(Header::Erased) => erase(disk, &name)?,
                // A damaged one says so when it is read.
                Ok(Header::Whole(_)) | Err(_) => found.push((id, len)),
            }
        }
    }
    Ok(found)
}

fn read_header(disk: &dyn Disk, id: Id, key: &Key) -> Result<Header, Error> {
    let mut header = [0; HEADER];
    disk.open(&id.to_string())?.read(0, &mut header)?;
    BodyKey::unwrap(id, key, header)
}

/// First the wrapped key goes, so that what a disk may keep of a removed file cannot be read; then the file. On a disk
/// that is too full even for that, the file at least.
fn erase(disk: &dyn Disk, name: &str) -> io::Result<()> {
    if let Ok(file) = disk.open(name) {
        drop(file.write(0, &[0; HEADER]).and_then(|()| file.sync()));
    }
    disk::remove(disk, name)?;
    disk.sync()
}
