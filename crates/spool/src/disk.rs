//! Where a spool keeps its files: a directory, or what a test puts in its place.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;

/// Files by name. Every call may block; only the spool's own threads make them.
pub trait Disk: Send + Sync + fmt::Debug + 'static {
    /// All names, with the lengths of the files.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;
    /// A new, empty file.
    fn create(&self, name: &str) -> io::Result<Arc<dyn BodyFile>>;
    /// A file that there is. It stays readable after its name is removed.
    fn open(&self, name: &str) -> io::Result<Arc<dyn BodyFile>>;
    /// Gives a file another name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Returns when all names given and removed before will stay so.
    fn sync(&self) -> io::Result<()>;
    /// Lets another have it.
    fn close(&self) -> io::Result<()> {
        Ok(())
    }
}

/// One file of a [`Disk`].
pub trait BodyFile: Send + Sync + fmt::Debug {
    /// Its length.
    fn len(&self) -> io::Result<u64>;
    /// Whether it has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Fills `out` from `offset` on, or fails.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Writes all of `data` at `offset`.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Returns when all that was written before will survive.
    fn sync(&self) -> io::Result<()>;
}

impl BodyFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(out, offset)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_all_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A directory that no other process has open as a spool.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Held open for its lock.
    lock: File,
}

/// The file whose lock says that a spool is open. It is no body's name.
const LOCK: &str = "lock";

impl Directory {
    /// Opens it, and makes it if need be, for this user only.
    pub(crate) fn open(path: &Path) -> Result<Directory, Error> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let mut options = OpenOptions::new();
        let lock = options.write(true).create(true).truncate(false).mode(0o600).open(path.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(Directory { path: path.to_owned(), lock }),
            Err(TryLockError::WouldBlock) => Err(Error::InUse),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

impl Disk for Directory {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if let (Ok(name), Ok(about)) = (entry.file_name().into_string(), entry.metadata())
                && about.is_file()
            {
                found.push((name, about.len()));
            }
        }
        Ok(found)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn BodyFile>> {
        let mut options = OpenOptions::new();
        Ok(Arc::new(options.read(true).write(true).create_new(true).mode(0o600).open(self.path.join(name))?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn BodyFile>> {
        Ok(Arc::new(OpenOptions::new().read(true).write(true).open(self.path.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn close(&self) -> io::Result<()> {
        self.lock.unlock()
    }
}

/// Removes a name, unless it is gone.
pub(crate) fn remove(disk: &dyn Disk, name: &str) -> io::Result<()> {
    match disk.remove(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
