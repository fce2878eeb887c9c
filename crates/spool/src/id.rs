//! Names of bodies.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;
use crate::key::random;

/// Names a stored body. Never given to two bodies, at whatever site; its text is also the name of the body's file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id([u8; Id::LEN]);

/// The ending of a file that is still being written.
const PART: &str = ".part";

impl Id {
    pub(crate) const LEN: usize = 16;

    pub(crate) fn new() -> Result<Id, Error> {
        Ok(Id(random()?))
    }

    pub(crate) fn bytes(&self) -> &[u8; Id::LEN] {
        &self.0
    }

    /// The name of its file while it is written.
    pub(crate) fn part(self) -> String {
        format!("{self}{PART}")
    }
}

/// Whether a file of this name is one that somebody had not finished.
pub(crate) fn is_part(name: &str) -> bool {
    name.strip_suffix(PART).is_some_and(|name| name.parse::<Id>().is_ok())
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({self})")
    }
}

/// The text is not the name of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnId;

impl fmt::Display for NotAnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the name of a stored body: 32 lower-case hexadecimal digits")
    }
}

impl std::error::Error for NotAnId {}

impl FromStr for Id {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Id, NotAnId> {
        let digits = text.as_bytes();
        if digits.len() != 2 * Id::LEN {
            return Err(NotAnId);
        }
        let mut id = [0; Id::LEN];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            for digit in pair {
                *byte = (*byte << 4) | nibble(*digit).ok_or(NotAnId)?;
            }
        }
        Ok(Id(id))
    }
}

/// One spelling only: a name that is read is printed as it was.
fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}
