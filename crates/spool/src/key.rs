//! The spool's key: it wraps the keys of bodies, and is kept apart from them.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use ring::aead::{AES_256_GCM, LessSafeKey, UnboundKey};

use crate::error::Error;
use crate::id::Id;

pub(crate) const KEY_LEN: usize = 32;

/// Wraps the key of each body. Without it, what is on disk cannot be read.
#[derive(Clone)]
pub struct Key(pub(crate) LessSafeKey);

/// Never shows the key.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// A key from 32 bytes that nobody can guess.
    pub fn new(bytes: &[u8; KEY_LEN]) -> Result<Key, Error> {
        Ok(Key(cipher(bytes)?))
    }

    /// The key in this file, which is made with mode 0600 if there is none. Blocks; for the start of a process.
    ///
    /// A file that others may read is refused, as is one of another length.
    pub fn load_or_create(path: &Path) -> Result<Key, Error> {
        match fs::metadata(path) {
            Ok(_) => Key::load(path),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                create(path)?;
                Key::load(path)
            }
            Err(error) => Err(Error::Key(format!("{}: {error}", path.display()))),
        }
    }

    fn load(path: &Path) -> Result<Key, Error> {
        let fault = |what: &dyn fmt::Display| Error::Key(format!("{}: {what}", path.display()));
        let mode = fs::metadata(path).map_err(|error| fault(&error))?.mode();
        if mode & 0o077 != 0 {
            return Err(fault(&"others may read it: change its mode to 0600"));
        }
        let bytes = fs::read(path).map_err(|error| fault(&error))?;
        let bytes = <[u8; KEY_LEN]>::try_from(bytes.as_slice())
            .map_err(|_| fault(&format_args!("{} bytes instead of {KEY_LEN}", bytes.len())))?;
        Key::new(&bytes)
    }
}

/// The file appears whole or not at all, and never in the place of another.
fn create(path: &Path) -> Result<(), Error> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", Id::new()?));
    let draft = Path::new(&draft);
    let made = draft_at(draft).and_then(|()| match fs::hard_link(draft, path) {
        // Another process was faster: its key counts.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => Ok(other?),
    });
    let removed = fs::remove_file(draft);
    made?;
    removed?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(File::open(directory)?.sync_all()?)
}

fn draft_at(path: &Path) -> Result<(), Error> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&random::<KEY_LEN>()?)?;
    Ok(file.sync_all()?)
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    outside::random(&mut bytes).map_err(|_| Error::Io("the system gives no random numbers".to_owned()))?;
    Ok(bytes)
}

pub(crate) fn cipher(bytes: &[u8; KEY_LEN]) -> Result<LessSafeKey, Error> {
    let key =
        UnboundKey::new(&AES_256_GCM, bytes).map_err(|_| Error::Key("the cipher refuses it".to_owned()))?;
    Ok(LessSafeKey::new(key))
}
