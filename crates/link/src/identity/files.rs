//! Files of an identity: written whole or not at all, never over another.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use super::error::{Fault, IdentityError};

/// A file to write.
pub(super) struct File<'a> {
    pub(super) name: &'static str,
    pub(super) content: &'a str,
    pub(super) secret: bool,
}

/// Writes these files into a directory, which is made if need be. If one cannot be written, or exists
/// with another content, none of them is left behind.
pub(super) fn write(dir: &Path, files: &[File<'_>]) -> Result<(), IdentityError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| IdentityError::new(Fault::Unwritable).at(dir).because(error))?;
    let mut made = Vec::new();
    for file in files {
        match write_one(dir, file) {
            Ok(true) => made.push(dir.join(file.name)),
            Ok(false) => {}
            Err(error) => {
                for path in made {
                    let _ = fs::remove_file(path);
                }
                return Err(error);
            }
        }
    }
    // The names survive a crash only once the directory is on the disk too.
    fs::File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|error| IdentityError::new(Fault::Unwritable).at(dir).because(error))
}

/// Whether a file was made: one that is there with this very content is left alone.
fn write_one(dir: &Path, file: &File<'_>) -> Result<bool, IdentityError> {
    let path = dir.join(file.name);
    if fs::read(&path).is_ok_and(|content| !file.secret && content == file.content.as_bytes()) {
        return Ok(false);
    }
    // Without randomness, a draft that a crash left behind could be in the way.
    let draft = dir.join(format!(".{}.{:x}", file.name, getrandom::u64().unwrap_or(0)));
    let result = write_draft(&draft, file).and_then(|()| {
        // A link fails where a rename would replace: of two writers, one wins and the other is told.
        fs::hard_link(&draft, &path)
    });
    let _ = fs::remove_file(&draft);
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(IdentityError::new(Fault::Exists).at(&path))
        }
        Err(error) => Err(IdentityError::new(Fault::Unwritable).at(&path).because(error)),
    }
}

fn write_draft(path: &Path, file: &File<'_>) -> io::Result<()> {
    let mode = if file.secret { 0o600 } else { 0o644 };
    let mut draft = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    draft.write_all(file.content.as_bytes())?;
    draft.sync_all()
}

/// Puts a file in the place of another, whole or not at all.
pub(super) fn replace(path: &Path, content: &str) -> Result<(), IdentityError> {
    let unwritable = |error: io::Error| IdentityError::new(Fault::Unwritable).at(path).because(error);
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let draft = path.with_file_name(format!(".{name}.{:x}", getrandom::u64().unwrap_or(0)));
    let file = File { name: "", content, secret: false };
    let replaced = write_draft(&draft, &file).and_then(|()| fs::rename(&draft, path));
    replaced.map_err(|error| {
        let _ = fs::remove_file(&draft);
        unwritable(error)
    })?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(unwritable)
}

/// The text of a file.
pub(super) fn read(path: &Path) -> Result<String, IdentityError> {
    fs::read_to_string(path).map_err(|error| {
        let fault = match error.kind() {
            io::ErrorKind::NotFound => Fault::Missing,
            io::ErrorKind::InvalidData => Fault::Malformed,
            _ => Fault::Unreadable,
        };
        IdentityError::new(fault).at(path).because(error)
    })
}
