//! Files of images: bytes by which one can tell whose they are, and whether they are all there.

use bytes::Bytes;

use crate::chance::Chance;

/// The file that a client's request of this number sends, of at least so many bytes.
#[must_use]
pub fn make(number: usize, length: usize) -> Bytes {
    let mut bytes = format!("w{number} {length}\n").into_bytes();
    let from = bytes.len();
    bytes.resize(from + length, 0);
    Chance::new(number as u64, "content").fill(&mut bytes[from..]);
    bytes.into()
}

/// What a file is: by which request, and of which length. Nothing, if it is not one of ours, to its last byte.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<(usize, usize)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (number, length) = std::str::from_utf8(&bytes[..end]).ok()?.strip_prefix('w')?.split_once(' ')?;
    let (number, length) = (number.parse().ok()?, length.parse().ok()?);
    (bytes.len() == end + 1 + length && make(number, length) == bytes).then_some((number, length))
}

/// As services and clients write it down.
#[must_use]
pub fn name(bytes: &[u8]) -> String {
    read(bytes).map_or_else(|| DAMAGED.to_owned(), |(number, length)| format!("w{number} {length}"))
}

/// Of what nobody sent.
pub const DAMAGED: &str = "damaged";

/// The file that was written down so.
#[must_use]
pub fn named(name: &str) -> Option<Bytes> {
    let (number, length) = name.strip_prefix('w')?.split_once(' ')?;
    Some(make(number.parse().ok()?, length.parse().ok()?))
}
