//! Where the embedded engine keeps its bytes: a file, or what a test puts in its place.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;

/// Bytes that survive, once synced. A simulation has its own, which can fail and lose what was not synced.
pub trait Disk: Send + Sync + std::fmt::Debug + 'static {
    /// How many bytes there are.
    fn len(&self) -> io::Result<u64>;
    /// Whether there are none.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }
    /// Fills `out` with what is at `offset`.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Writes `data` at `offset`.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Cuts off, or adds zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Returns when all that was done before will survive.
    fn sync(&self) -> io::Result<()>;
    /// Lets another have it. Snapshots may hold it for longer, but do not use it any more.
    fn close(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that no other process has open as a store.
#[derive(Debug)]
pub(super) struct Locked(File);

impl Locked {
    /// Opens an existing file.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        Self::lock(OpenOptions::new().read(true).write(true).open(path)?)
    }

    /// Opens an empty file, whatever was there.
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        let mut options = OpenOptions::new();
        let file = Self::lock(options.read(true).write(true).create(true).truncate(false).open(path)?)?;
        file.0.set_len(0)?;
        Ok(file)
    }

    fn lock(file: File) -> Result<Self, Error> {
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(Error::InUse),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

impl Disk for Locked {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn close(&self) -> io::Result<()> {
        self.0.unlock()
    }
}

/// Makes a new name in a directory survive.
pub(super) fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

/// A disk as `redb` wants it. It counts what was made durable.
#[derive(Debug)]
pub(super) struct Backend {
    pub(super) disk: Box<dyn Disk>,
    pub(super) syncs: Arc<AtomicU64>,
}

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.disk.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.disk.close()
    }
}
