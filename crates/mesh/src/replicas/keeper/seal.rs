//! What is kept on the disk is sealed: bodies of writes wait there for sites that are away.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

/// The site's own key, in this file beside the store.
pub(super) const FILE: &str = "replicas.key";

const KEY_BYTES: usize = 32;
const SALT_BYTES: usize = 32;

/// Seals and opens. Each value has a key of its own, derived from the site's with a random salt: there is no
/// nonce to use twice, however many values are written.
pub(super) struct Seal(Prk);

struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        KEY_BYTES
    }
}

impl Seal {
    /// Reads the key, or makes one where there is nothing yet that needs the old one.
    pub(super) fn open(directory: &Path, may_make: bool) -> Result<Seal, String> {
        let path = directory.join(FILE);
        let at = |what: &str| format!("{}: {what}", path.display());
        let key = match File::open(&path) {
            Ok(file) => read(file).map_err(|error| at(&error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound && may_make => {
                make(directory, &path).map_err(|error| at(&format!("cannot be made: {error}")))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(at(
                    "is missing; what was kept of replicated resources cannot be read without it",
                ));
            }
            Err(error) => return Err(at(&format!("cannot be read: {error}"))),
        };
        Ok(Seal(Salt::new(HKDF_SHA256, b"archipel replicas").extract(&key)))
    }

    /// Seals a value. `place` is where it belongs: it cannot be opened as another's.
    pub(super) fn seal(&self, place: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).ok()?;
        let mut sealed = value.to_vec();
        let tag = self.key(&salt)?.seal_in_place_separate_tag(nonce(), Aad::from(place), &mut sealed).ok()?;
        Some([&salt, sealed.as_slice(), tag.as_ref()].concat())
    }

    /// Opens what was sealed for this place.
    pub(super) fn unseal(&self, place: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (salt, value) = sealed.split_first_chunk::<SALT_BYTES>()?;
        let mut value = value.to_vec();
        let length = self.key(salt)?.open_in_place(nonce(), Aad::from(place), &mut value).ok()?.len();
        value.truncate(length);
        Some(value)
    }

    fn key(&self, salt: &[u8; SALT_BYTES]) -> Option<LessSafeKey> {
        let mut key = [0; KEY_BYTES];
        self.0.expand(&[salt], Length).ok()?.fill(&mut key).ok()?;
        UnboundKey::new(&CHACHA20_POLY1305, &key).ok().map(LessSafeKey::new)
    }
}

/// Always the same: no key is used twice.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

fn read(mut file: File) -> Result<[u8; KEY_BYTES], String> {
    let others = file.metadata().map_err(|error| error.to_string())?.permissions().mode() & 0o077;
    if others != 0 {
        return Err("other users may read it; take that from them (chmod 600)".to_owned());
    }
    let mut key = Vec::new();
    file.read_to_end(&mut key).map_err(|error| format!("cannot be read: {error}"))?;
    key.try_into().map_err(|_| format!("is not a key of {KEY_BYTES} bytes"))
}

fn make(directory: &Path, path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(|error| io::Error::other(error.to_string()))?;
    // Whole or not at all: half a key would be taken for one.
    let draft = directory.join(format!(".{FILE}"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(&key)?;
    file.sync_all()?;
    std::fs::rename(&draft, path)?;
    File::open(directory)?.sync_all()?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_opened_in_its_place_only_and_by_its_key_only() {
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let seal = Seal::open(ours.path(), true).unwrap();
        let sealed = seal.seal(b"here", b"content").unwrap();
        assert!(!sealed.windows(7).any(|part| part == b"content"));
        assert_ne!(sealed, seal.seal(b"here", b"content").unwrap());
        let again = Seal::open(ours.path(), false).unwrap();
        assert_eq!(again.unseal(b"here", &sealed).as_deref(), Some(&b"content"[..]));
        assert_eq!(again.unseal(b"there", &sealed), None);
        assert_eq!(Seal::open(theirs.path(), true).unwrap().unseal(b"here", &sealed), None);
    }

    #[test]
    fn a_key_that_is_missing_where_it_is_needed_or_open_to_others_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let error = Seal::open(directory.path(), false).err().unwrap();
        assert!(error.contains("replicas.key: is missing"), "{error}");
        Seal::open(directory.path(), true).unwrap();
        let path = directory.path().join(FILE);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = Seal::open(directory.path(), true).err().unwrap();
        assert!(error.contains("chmod 600"), "{error}");
    }
}
