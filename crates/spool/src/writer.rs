//! Writing one body.

use std::sync::Arc;

use bytes::Bytes;
use ring::digest::{Context, SHA256};
use tokio::sync::oneshot;

use crate::disk::{self, BodyFile};
use crate::entry::{Entry, Live};
use crate::error::Error;
use crate::format::{self, BodyKey, SEGMENT};
use crate::id::Id;
use crate::metrics::Counters;
use crate::spool::{Inner, Stored};

/// So much may wait for the disk's own leisure. More would wait in memory that a site may not have, and make the last
/// sync long.
const UNSYNCED_BYTES: u64 = 16 << 20;

/// A body on its way to the disk. Dropped before [`Writer::finish`], it leaves nothing behind.
pub struct Writer {
    spool: Arc<Inner>,
    entry: Arc<Entry>,
    /// What is not yet a segment: whether it is the last one is not known before more comes.
    segment: Vec<u8>,
    len: u64,
    expected: Option<u64>,
    sink: Sink,
    ended: bool,
}

/// Where the file's end is.
enum Sink {
    Idle(Box<Tail>),
    /// With a thread of the pool.
    Busy(oneshot::Receiver<Result<Box<Tail>, Error>>),
    Failed(Error),
}

/// The end of a file that grows.
struct Tail {
    entry: Arc<Entry>,
    key: Arc<BodyKey>,
    file: Option<Arc<dyn BodyFile>>,
    digest: Context,
    /// The number of the next segment.
    next: u32,
    unsynced: u64,
}

impl Writer {
    pub(crate) fn new(spool: Arc<Inner>, entry: Arc<Entry>, key: BodyKey, expected: Option<u64>) -> Writer {
        let tail = Tail {
            entry: Arc::clone(&entry),
            key: Arc::new(key),
            file: None,
            digest: Context::new(&SHA256),
            next: 0,
            unsynced: 0,
        };
        let sink = Sink::Idle(Box::new(tail));
        Writer { spool, entry, segment: Vec::new(), len: 0, expected, sink, ended: false }
    }

    /// The name that the body will have. It can be read under it already: readers follow.
    #[must_use]
    pub fn id(&self) -> Id {
        self.entry.id
    }

    /// How many bytes it took so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.len
    }

    /// Adds to the body, and waits while the disk is behind. An error is for good: the body cannot be finished.
    ///
    /// Not to be called again after a call that was cancelled: some of the chunk may have been taken.
    pub async fn push(&mut self, mut chunk: Bytes) -> Result<(), Error> {
        if let Sink::Failed(error) = &self.sink {
            return Err(error.clone());
        }
        let len = self.len + chunk.len() as u64;
        let admitted = match self.expected {
            Some(expected) if len > expected => Err(Error::WrongLength { expected, got: len }),
            Some(_) => Ok(()),
            None => self.entry.reserve(len),
        };
        if let Err(error) = admitted {
            return Err(self.fail(error));
        }
        self.len = len;
        while !chunk.is_empty() {
            if self.segment.len() == SEGMENT {
                self.flush(false).await?;
            }
            let free = SEGMENT - self.segment.len();
            let some = chunk.split_to(free.min(chunk.len()));
            self.segment.extend_from_slice(&some);
        }
        Ok(())
    }

    /// Makes the body durable. Once this returns, a restart finds all of it; if it fails, nothing of it.
    pub async fn finish(mut self) -> Result<Stored, Error> {
        if let Some(expected) = self.expected.filter(|expected| *expected != self.len) {
            return Err(self.fail(Error::WrongLength { expected, got: self.len }));
        }
        self.flush(true).await?;
        let tail = self.settle().await?;
        self.ended = true;
        let mut sha256 = [0; 32];
        sha256.copy_from_slice(tail.digest.finish().as_ref());
        Ok(Stored { id: self.entry.id, len: self.len, sha256 })
    }

    /// Waits for the segment before this one, and hands this one to the pool.
    async fn flush(&mut self, last: bool) -> Result<(), Error> {
        let mut tail = self.settle().await?;
        let place = match self.entry.ground.pool.place().await {
            Ok(place) => place,
            Err(error) => return Err(self.fail(error)),
        };
        let (segment, len) = (std::mem::take(&mut self.segment), self.len);
        let answered = self.entry.ground.pool.begin(place, move || {
            let entry = Arc::clone(&tail.entry);
            let written = tail.write(segment, last, len).map(|()| tail);
            written.inspect_err(|error| {
                Counters::add(&entry.ground.counters.disk_faults, 1);
                entry.fail(error.clone());
            })
        });
        self.sink = Sink::Busy(answered);
        Ok(())
    }

    /// Takes the file's end back from the pool. Nothing is lost if this is cancelled while it waits.
    async fn settle(&mut self) -> Result<Box<Tail>, Error> {
        let settled = match &mut self.sink {
            Sink::Busy(answer) => Some(answer.await.unwrap_or(Err(Error::Closed))),
            Sink::Idle(_) | Sink::Failed(_) => None,
        };
        let sink = std::mem::replace(&mut self.sink, Sink::Failed(Error::Abandoned));
        match (settled, sink) {
            (Some(Ok(tail)), _) | (None, Sink::Idle(tail)) => Ok(tail),
            (Some(Err(error)), _) | (None, Sink::Failed(error)) => Err(self.fail(error)),
            (None, Sink::Busy(_)) => Err(self.fail(Error::Abandoned)),
        }
    }

    /// Nothing more can be written: readers are told, and what waited is dropped.
    fn fail(&mut self, error: Error) -> Error {
        self.entry.fail(error.clone());
        self.segment = Vec::new();
        self.sink = Sink::Failed(error.clone());
        error
    }
}

/// What is not finished is given up.
impl Drop for Writer {
    fn drop(&mut self) {
        if !self.ended {
            self.entry.abandon();
            self.spool.forget(self.entry.id);
        }
    }
}

impl Tail {
    /// Writes the next segment; after the last one, all of it is durable. Blocks.
    fn write(&mut self, mut segment: Vec<u8>, last: bool, len: u64) -> Result<(), Error> {
        let number = self.next;
        let plain = segment.len() as u64;
        self.digest.update(&segment);
        self.key.seal(number, last, &mut segment)?;
        let file = self.file()?;
        file.write(format::position(number), &segment)?;
        self.next = number.checked_add(1).ok_or(Error::TooLarge)?;
        self.unsynced += plain;
        if last {
            self.store(&*file)?;
        } else if self.unsynced >= UNSYNCED_BYTES {
            file.sync()?;
            self.unsynced = 0;
        }
        Counters::add(&self.entry.ground.counters.written_bytes, plain);
        self.entry.progress.send_modify(|progress| {
            progress.segments = self.next;
            if last {
                progress.end.get_or_insert(Ok(len));
            }
        });
        Ok(())
    }

    fn file(&mut self) -> Result<Arc<dyn BodyFile>, Error> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        self.entry.begin_file();
        let file = self.entry.ground.disk.create(&self.entry.id.part())?;
        self.file = Some(Arc::clone(&file));
        self.entry.set_live(Live { file: Arc::clone(&file), key: Arc::clone(&self.key) });
        Ok(file)
    }

    /// The key, then the name: neither is there before what it stands for will survive.
    fn store(&self, file: &dyn BodyFile) -> Result<(), Error> {
        let (id, disk) = (self.entry.id, &self.entry.ground.disk);
        file.write(0, self.key.header())?;
        file.sync()?;
        disk.rename(&id.part(), &id.to_string())?;
        if let Err(error) = disk.sync() {
            // Whether a restart would find it is not known. Nobody knows of it, so that it must not.
            drop(disk::remove(&**disk, &id.to_string()));
            return Err(error.into());
        }
        self.entry.set_stored();
        Counters::add(&self.entry.ground.counters.stored, 1);
        Ok(())
    }
}
