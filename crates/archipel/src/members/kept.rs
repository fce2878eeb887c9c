//! What is kept of the membership over a restart: who was there, zones, quarantines and revocations.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use link::{Identity, Revocation, Revoked};

/// A file in the state directory, written whole or not at all.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    written: Vec<u8>,
}

/// The identities that were shut out before a restart. What is not the operator's word is left out.
pub fn revoked(state: &Path, identity: &Identity) -> io::Result<Revoked> {
    let (_, bytes) = Kept::open(state)?;
    let revoked = Revoked::default();
    for statement in sites::kept_statements(&bytes) {
        if let Ok(revocation) = Revocation::from_bytes(&statement, identity) {
            revoked.add(revocation);
        }
    }
    Ok(revoked)
}

impl Kept {
    /// What was kept, if anything was.
    pub(super) fn open(state: &Path) -> io::Result<(Kept, Vec<u8>)> {
        fs::create_dir_all(state)?;
        let path = state.join("members");
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        Ok((Kept { path, written: bytes.clone() }, bytes))
    }

    /// Whether this is what is kept.
    pub(super) fn is(&self, bytes: &[u8]) -> bool {
        self.written == bytes
    }

    /// Keeps this instead, if it is different.
    pub(super) fn keep(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        if self.is(&bytes) {
            return Ok(());
        }
        let draft = self.path.with_extension("new");
        let mut file = fs::File::create(&draft)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(draft, &self.path)?;
        self.written = bytes;
        Ok(())
    }
}
