//! What can go wrong, sorted by who can do something about it.

use std::fmt;

/// Why a store did not do what it was asked. Nothing was changed, except where [`Error::InDoubt`] says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Others changed what the session had read, each time it was run.
    Conflict {
        /// How often the session was run.
        attempts: u32,
    },
    /// The snapshot is no longer served. Take a new one; sessions do so themselves.
    Stale,
    /// There is a record with this key, or with this key of a unique index.
    Duplicate {
        /// The table's name.
        table: &'static str,
        /// The unique index; `None` is the primary key.
        index: Option<&'static str>,
    },
    /// A key, a record or a session is larger than its limit.
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit for it.
        limit: usize,
    },
    /// A session reads and writes more keys than it may.
    TooManyKeys {
        /// The limit.
        limit: usize,
    },
    /// The disk is full. Sessions go on as soon as there is room.
    Full,
    /// The disk or the engine's server failed.
    Io(String),
    /// It is not known whether the session was committed: the disk failed while it was made durable,
    /// and again when it was asked.
    InDoubt,
    /// Another process has the store open.
    InUse,
    /// The file is something else.
    Foreign(String),
    /// The store was written by a newer version.
    Newer {
        /// What was written by it.
        what: String,
        /// The version found.
        found: u32,
        /// The newest version that is understood.
        supported: u32,
    },
    /// The tables in the program and those in the store do not fit.
    Schema(String),
    /// The stored bytes are damaged.
    Corrupt(String),
    /// A record cannot be written as bytes.
    Unwritable(String),
    /// The store was closed.
    Closed,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict { attempts } => {
                write!(f, "other sessions changed what this one had read, {attempts} times in a row")
            }
            Self::Stale => f.write_str("the snapshot is too old and no longer served: take a new one"),
            Self::Duplicate { table, index: None } => write!(f, "table `{table}` has a record with this key"),
            Self::Duplicate { table, index: Some(index) } => {
                write!(f, "table `{table}` has another record with this `{index}`, which is unique")
            }
            Self::TooLarge { what, bytes, limit } => {
                write!(f, "{what} of {bytes} bytes: at most {limit} are allowed")
            }
            Self::TooManyKeys { limit } => write!(f, "a session may read and write {limit} keys at most"),
            Self::Full => f.write_str("the disk is full: make room, and the store goes on by itself"),
            Self::Io(what) => write!(f, "the store's disk failed: {what}"),
            Self::InDoubt => {
                f.write_str("the disk failed while a session was made durable: whether it was is not known")
            }
            Self::InUse => f.write_str("another process has the store open"),
            Self::Foreign(what) => write!(f, "this is not a store: {what}"),
            Self::Newer { what, found, supported } => write!(
                f,
                "{what} has version {found}, and this program knows versions up to {supported}: use a newer program"
            ),
            Self::Schema(what) => write!(f, "the store's tables do not fit this program: {what}"),
            Self::Corrupt(what) => write!(f, "the store is damaged: {what}"),
            Self::Unwritable(what) => write!(f, "a record cannot be written: {what}"),
            Self::Closed => f.write_str("the store is closed"),
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
