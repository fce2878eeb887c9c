//! What can go wrong, sorted by who can do something about it.

use std::fmt;

/// Why a spool did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The bodies kept already leave no room: for the client, a 507.
    OverQuota {
        /// Bytes wanted beyond what was reserved before.
        wanted: u64,
        /// Bytes in use.
        used: u64,
        /// The limit.
        quota: u64,
    },
    /// The disk is full, whatever the quota says: for the client, a 507.
    Full,
    /// The disk failed.
    Io(String),
    /// There is no such body, or no longer.
    Missing,
    /// There is a body of that name.
    Exists,
    /// The body is still being written.
    Unfinished,
    /// The bytes on disk are not those that were written, or another key wrote them.
    Damaged(&'static str),
    /// The body has another length than was said before.
    WrongLength {
        /// What was said.
        expected: u64,
        /// What came; more may have come after it.
        got: u64,
    },
    /// Reading was to begin past the body's end.
    OutOfRange {
        /// The body's length.
        len: u64,
    },
    /// The body is longer than a file can hold (256 TiB).
    TooLarge,
    /// Whoever wrote the body gave up before its end.
    Abandoned,
    /// Another process has the spool open.
    InUse,
    /// The key's file cannot be used.
    Key(String),
    /// The spool was closed.
    Closed,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverQuota { wanted, used, quota } => {
                write!(f, "{wanted} bytes more do not fit: the spool holds {used} of {quota} bytes")
            }
            Self::Full => f.write_str("the spool's disk is full: make room, and the spool goes on by itself"),
            Self::Io(what) => write!(f, "the spool's disk failed: {what}"),
            Self::Missing => f.write_str("the spool has no such body"),
            Self::Exists => f.write_str("the spool has a body of that name"),
            Self::Unfinished => f.write_str("the body is still being written"),
            Self::Damaged(what) => write!(f, "the stored body is damaged: {what}"),
            Self::WrongLength { expected, got } => {
                write!(f, "the body was said to have {expected} bytes, and {got} came")
            }
            Self::OutOfRange { len } => write!(f, "the body ends at byte {len}, before what was asked for"),
            Self::TooLarge => f.write_str("the body is too long for one file"),
            Self::Abandoned => f.write_str("the body broke off before its end"),
            Self::InUse => f.write_str("another process has the spool open"),
            Self::Key(what) => write!(f, "the spool's key cannot be used: {what}"),
            Self::Closed => f.write_str("the spool is closed"),
        }
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Io(error.to_string()),
        }
    }
}
