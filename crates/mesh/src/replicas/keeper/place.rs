//! Whether the store is where it was: a copy of its file is another file.
//!
//! A file that tells which file the store was lies beside it. Whoever puts a copy of the directory back puts back that file
//! too, and it names another one. A disk that is put back as a whole names the same: then the other sites' word tells.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::vault;

/// Tells which file the store was, in this file beside it.
const FILE: &str = "replicas.place";

/// The store's file, and what is told of it.
#[derive(Debug)]
pub(super) struct Place {
    directory: PathBuf,
    now: String,
    told: Option<String>,
    /// There was a store before this start.
    existed: bool,
}

impl Place {
    /// Whether there is a store, before one is made.
    pub(super) fn existed(directory: &Path) -> bool {
        directory.join(vault::FILE).exists()
    }

    /// Of a store that is open. `existed`: [`Place::existed`] before it was opened.
    pub(super) fn look(directory: &Path, existed: bool) -> io::Result<Place> {
        let told = match fs::read_to_string(directory.join(FILE)) {
            Ok(told) => Some(told),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let store = fs::metadata(directory.join(vault::FILE))?;
        // Where the file system does not know since when a file is there, its number has to do. A device's number changes
        // with a start of the machine.
        let since = store.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
        let since = since.map_or_else(String::new, |since| format!(" made {}", since.as_nanos()));
        let now = format!("file {}{since}\n", store.ino());
        Ok(Place { directory: directory.to_owned(), now, told, existed })
    }

    /// Whether the store is a copy, as far as can be seen.
    pub(super) fn is_a_copy(&self) -> bool {
        self.existed && self.told.as_ref() != Some(&self.now)
    }

    /// Tells of the store as it is.
    pub(super) fn tell(&self) -> io::Result<()> {
        if self.told.as_ref() == Some(&self.now) {
            return Ok(());
        }
        // Whole or not at all.
        let draft = self.directory.join(format!(".{FILE}"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(self.now.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, self.directory.join(FILE))?;
        File::open(&self.directory)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with a store that was told of.
    fn told() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        assert!(!Place::existed(directory.path()));
        fs::write(directory.path().join(vault::FILE), "store").unwrap();
        let place = Place::look(directory.path(), false).unwrap();
        assert!(!place.is_a_copy(), "it is new");
        place.tell().unwrap();
        directory
    }

    fn is_a_copy(directory: &Path) -> bool {
        Place::look(directory, Place::existed(directory)).unwrap().is_a_copy()
    }

    #[test]
    fn store_that_stays_is_no_copy() {
        let directory = told();
        fs::write(directory.path().join(vault::FILE), "more").unwrap();
        assert!(!is_a_copy(directory.path()));
    }

    #[test]
    fn copied_store_and_one_that_nothing_is_told_of_are_copies() {
        let (directory, other) = (told(), tempfile::tempdir().unwrap());
        for file in [vault::FILE, FILE] {
            fs::copy(directory.path().join(file), other.path().join(file)).unwrap();
        }
        assert!(is_a_copy(other.path()));
        Place::look(other.path(), true).unwrap().tell().unwrap();
        assert!(!is_a_copy(other.path()), "it was told of");
        fs::remove_file(other.path().join(FILE)).unwrap();
        assert!(is_a_copy(other.path()));
    }
}
