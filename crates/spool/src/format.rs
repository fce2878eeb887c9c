//! A body's file: a header with the body's own key, wrapped, then segments.
//!
//! Each segment is sealed with its number and whether it is the last one (the STREAM construction of Hoang,
//! Reyhanitabar, Rogaway and Vizár): one that is missing, moved, repeated, changed or appended is found when it is
//! read. The header is written last, so that an unfinished file is of no use to anybody.

use ring::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};

use crate::error::Error;
use crate::id::Id;
use crate::key::{KEY_LEN, Key, cipher, random};

/// Bytes of a body in one segment: large enough that the tag costs nothing, small enough to be held by every reader.
pub(crate) const SEGMENT: usize = 64 << 10;
pub(crate) const TAG: usize = 16;
const SEALED: u64 = (SEGMENT + TAG) as u64;

const MAGIC: &[u8; 8] = b"ARCHSPL1";
const WRAPPED: usize = KEY_LEN + TAG;
/// The magic, a nonce, the wrapped key. Smaller than a sector: a disk writes all of it or nothing.
pub(crate) const HEADER: usize = MAGIC.len() + NONCE_LEN + WRAPPED;

/// The key of one body.
pub(crate) struct BodyKey {
    id: Id,
    cipher: LessSafeKey,
    header: [u8; HEADER],
}

/// What a file begins with.
pub(crate) enum Header {
    Whole(Box<BodyKey>),
    /// Somebody was erasing the file.
    Erased,
}

impl BodyKey {
    /// A new one, wrapped by the spool's.
    pub(crate) fn new(id: Id, key: &Key) -> Result<BodyKey, Error> {
        let bytes = random::<KEY_LEN>()?;
        let nonce = random::<NONCE_LEN>()?;
        let mut wrapped = bytes;
        let tag = key
            .0
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), about(id), &mut wrapped)
            .map_err(|_| Error::Key("it does not wrap the key of a body".to_owned()))?;
        let parts = MAGIC.iter().chain(&nonce).chain(&wrapped).chain(tag.as_ref());
        let mut header = [0; HEADER];
        header.iter_mut().zip(parts).for_each(|(to, from)| *to = *from);
        Ok(BodyKey { id, cipher: cipher(&bytes)?, header })
    }

    /// The one in a file's header.
    pub(crate) fn unwrap(id: Id, key: &Key, mut header: [u8; HEADER]) -> Result<Header, Error> {
        if header.iter().all(|byte| *byte == 0) {
            return Ok(Header::Erased);
        }
        let kept = header;
        let Some((nonce, wrapped)) = header.split_at_mut_checked(MAGIC.len()).and_then(|(magic, rest)| {
            let rest = rest.split_at_mut_checked(NONCE_LEN)?;
            (magic == MAGIC).then_some(rest)
        }) else {
            return Err(Error::Damaged("it does not begin as a body does"));
        };
        let wrong =
            |_| Error::Damaged("its key cannot be unwrapped: the file was changed, or the spool's key was");
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(wrong)?;
        let bytes = key.0.open_in_place(nonce, about(id), wrapped).map_err(wrong)?;
        let bytes = <[u8; KEY_LEN]>::try_from(&*bytes).map_err(|_| Error::Damaged("its key is too short"))?;
        Ok(Header::Whole(Box::new(BodyKey { id, cipher: cipher(&bytes)?, header: kept })))
    }

    pub(crate) fn header(&self) -> &[u8; HEADER] {
        &self.header
    }

    /// Encrypts a segment in place. No number is sealed twice with one key.
    pub(crate) fn seal(&self, number: u32, last: bool, segment: &mut Vec<u8>) -> Result<(), Error> {
        let sealed = self.cipher.seal_in_place_append_tag(self.nonce(number, last), Aad::empty(), segment);
        sealed.map_err(|_| Error::TooLarge)
    }

    /// Decrypts a segment in place.
    pub(crate) fn open(&self, number: u32, last: bool, segment: &mut Vec<u8>) -> Result<(), Error> {
        let opened = self.cipher.open_in_place(self.nonce(number, last), Aad::empty(), segment);
        let len = opened.map_err(|_| Error::Damaged("a segment is not the one that was written"))?.len();
        segment.truncate(len);
        Ok(())
    }

    /// The key is the body's alone, so that the number alone makes it unique.
    fn nonce(&self, number: u32, last: bool) -> Nonce {
        let parts =
            self.id.bytes().iter().copied().take(7).chain(number.to_be_bytes()).chain([u8::from(last)]);
        let mut nonce = [0; NONCE_LEN];
        nonce.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        Nonce::assume_unique_for_key(nonce)
    }
}

/// A header belongs to one name: files cannot be exchanged.
fn about(id: Id) -> Aad<[u8; Id::LEN]> {
    Aad::from(*id.bytes())
}

/// How many segments a body has. An empty one has one, which says that it is whole.
pub(crate) fn segments(len: u64) -> Result<u32, Error> {
    u32::try_from(len.div_ceil(SEGMENT as u64).max(1)).map_err(|_| Error::TooLarge)
}

/// The length of the file of a body.
pub(crate) fn file_len(len: u64) -> Result<u64, Error> {
    Ok(HEADER as u64 + len + u64::from(segments(len)?) * TAG as u64)
}

/// The length of the body in a file, if there can be one.
pub(crate) fn body_len(file_len: u64) -> Option<u64> {
    let sealed = file_len.checked_sub(HEADER as u64)?;
    sealed.checked_sub(sealed.div_ceil(SEALED).max(1) * TAG as u64)
}

/// Where a segment begins in the file.
pub(crate) fn position(number: u32) -> u64 {
    HEADER as u64 + u64::from(number) * SEALED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_body_follows_from_that_of_its_file() {
        let edge = SEGMENT as u64;
        for len in [0, 1, edge - 1, edge, edge + 1, 2 * edge - 1, 2 * edge, 5 * edge + 7] {
            assert_eq!(body_len(file_len(len).unwrap()), Some(len));
        }
        assert_eq!(body_len(HEADER as u64 + TAG as u64 - 1), None);
        assert_eq!(body_len(0), None);
    }

    #[test]
    fn a_segment_opens_only_as_what_it_was_sealed_as() {
        let id = Id::new().unwrap();
        let key = BodyKey::new(id, &Key::new(&[7; KEY_LEN]).unwrap()).unwrap();
        let mut sealed = b"a body".to_vec();
        key.seal(3, false, &mut sealed).unwrap();
        for (number, last, opens) in
            [(3, false, true), (3, true, false), (2, false, false), (4, false, false)]
        {
            let mut segment = sealed.clone();
            assert_eq!(key.open(number, last, &mut segment).is_ok(), opens, "{number} {last}");
            assert!(!opens || segment == b"a body");
        }
    }

    #[test]
    fn a_header_opens_only_under_its_name_and_key() {
        let (id, other) = (Id::new().unwrap(), Id::new().unwrap());
        let key = Key::new(&[7; KEY_LEN]).unwrap();
        let header = *BodyKey::new(id, &key).unwrap().header();
        assert!(matches!(BodyKey::unwrap(id, &key, header), Ok(Header::Whole(_))));
        assert!(BodyKey::unwrap(other, &key, header).is_err());
        assert!(BodyKey::unwrap(id, &Key::new(&[8; KEY_LEN]).unwrap(), header).is_err());
        assert!(matches!(BodyKey::unwrap(id, &key, [0; HEADER]), Ok(Header::Erased)));
    }
}
