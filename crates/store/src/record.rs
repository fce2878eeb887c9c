//! Records, and the indexes declared on them.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::engine::Range;
use crate::key::Key;
use crate::{Error, Limits};

/// The first byte of each key says what is there.
const ROW: u8 = 1;
const INDEX: u8 = 2;

/// A table's name and number. Both are written into the store, and neither is given away again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableId {
    /// Begins the table's keys.
    pub number: u32,
    /// For people.
    pub name: &'static str,
}

/// What a table holds.
pub trait Record: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The primary key.
    type Key: Key;

    /// The table.
    const TABLE: TableId;

    /// The version of the record's fields. One that was written by a later version is refused.
    const VERSION: u16 = 1;

    /// The primary key. A record whose key changes is another record.
    fn key(&self) -> Self::Key;

    /// Every index of the table.
    #[must_use]
    fn indexes() -> Vec<AnyIndex<Self>> {
        Vec::new()
    }

    /// A record from what an earlier version wrote; `None` if it cannot be read.
    #[must_use]
    fn upgrade(_version: u16, _bytes: &[u8]) -> Option<Self> {
        None
    }
}

/// Another way to find a table's records: by one field, by several as a tuple, or by what is computed from them.
///
/// An index is a constant, beside its record. If what it computes changes, it needs a new number.
pub struct Index<R, K> {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
    pub(crate) unique: bool,
    keys: Keys<R, K>,
}

enum Keys<R, K> {
    One(fn(&R) -> K),
    Each(fn(&R) -> Vec<K>),
}

impl<R: Record, K: Key + 'static> Index<R, K> {
    /// Any number of records may have a key.
    #[must_use]
    pub const fn new(number: u32, name: &'static str, key: fn(&R) -> K) -> Self {
        Self { number, name, unique: false, keys: Keys::One(key) }
    }

    /// One record may have a key.
    #[must_use]
    pub const fn unique(number: u32, name: &'static str, key: fn(&R) -> K) -> Self {
        Self { number, name, unique: true, keys: Keys::One(key) }
    }

    /// A record has any number of keys, or none. It is found once for each.
    #[must_use]
    pub const fn each(number: u32, name: &'static str, keys: fn(&R) -> Vec<K>) -> Self {
        Self { number, name, unique: false, keys: Keys::Each(keys) }
    }

    /// The index without its key's type, for [`Record::indexes`].
    #[must_use]
    pub fn any(&self) -> AnyIndex<R> {
        let keys: KeysOf<R> = match self.keys {
            Keys::One(key) => Box::new(move |record| vec![key(record).bytes()]),
            Keys::Each(keys) => Box::new(move |record| keys(record).iter().map(Key::bytes).collect()),
        };
        AnyIndex { number: self.number, name: self.name, unique: self.unique, shape: K::shape(), keys }
    }

    /// What every entry of the index begins with.
    pub(crate) fn prefix(&self) -> Vec<u8> {
        index_prefix(R::TABLE.number, self.number)
    }
}

/// The keys of a record, as bytes.
type KeysOf<R> = Box<dyn Fn(&R) -> Vec<Vec<u8>> + Send + Sync>;

/// An index without its key's type.
pub struct AnyIndex<R> {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
    pub(crate) unique: bool,
    pub(crate) shape: String,
    keys: KeysOf<R>,
}

/// An index entry: its key in the engine, which holds the primary key's bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) index: u32,
    pub(crate) unique: bool,
    pub(crate) name: &'static str,
}

/// How a table's records lie in the engine.
pub(crate) struct Layout<R> {
    indexes: Vec<AnyIndex<R>>,
}

impl<R: Record> Layout<R> {
    pub(crate) fn new() -> Self {
        Self { indexes: R::indexes() }
    }

    pub(crate) fn indexes(&self) -> &[AnyIndex<R>] {
        &self.indexes
    }

    /// Every index entry of a record, sorted, none twice.
    pub(crate) fn entries(&self, record: &R, limits: &Limits) -> Result<Vec<Entry>, Error> {
        let primary = record.key().bytes();
        let mut entries = Vec::new();
        for index in &self.indexes {
            for bytes in (index.keys)(record) {
                limits.key(bytes.len())?;
                let mut key = index_prefix(R::TABLE.number, index.number);
                key.extend_from_slice(&bytes);
                if !index.unique {
                    key.extend_from_slice(&primary);
                }
                entries.push(Entry { key, index: index.number, unique: index.unique, name: index.name });
            }
        }
        entries.sort_unstable();
        entries.dedup();
        Ok(entries)
    }
}

/// What every row of a table begins with.
pub(crate) fn row_prefix(table: u32) -> Vec<u8> {
    let mut key = vec![ROW];
    key.extend_from_slice(&table.to_be_bytes());
    key
}

/// What every entry of an index begins with.
pub(crate) fn index_prefix(table: u32, index: u32) -> Vec<u8> {
    let mut key = vec![INDEX];
    key.extend_from_slice(&table.to_be_bytes());
    key.extend_from_slice(&index.to_be_bytes());
    key
}

/// Every row and every index entry of every table.
pub(crate) fn everything() -> Range {
    Range { start: vec![ROW], end: vec![INDEX + 1] }
}

/// The row whose primary key has these bytes.
pub(crate) fn row_key(table: u32, primary: &[u8]) -> Vec<u8> {
    let mut key = row_prefix(table);
    key.extend_from_slice(primary);
    key
}

/// A record as bytes, behind its version.
pub(crate) fn encode<R: Record>(record: &R) -> Result<Vec<u8>, Error> {
    postcard::to_extend(record, R::VERSION.to_be_bytes().to_vec())
        .map_err(|error| Error::Unwritable(format!("table `{}`: {error}", R::TABLE.name)))
}

/// A record from bytes.
pub(crate) fn decode<R: Record>(bytes: &[u8]) -> Result<R, Error> {
    let table = R::TABLE.name;
    let damaged = || Error::Corrupt(format!("a record of table `{table}` cannot be read"));
    let (version, fields) = bytes.split_first_chunk().ok_or_else(damaged)?;
    let version = u16::from_be_bytes(*version);
    if version > R::VERSION {
        let what = format!("a record of table `{table}`");
        return Err(Error::Newer { what, found: version.into(), supported: R::VERSION.into() });
    }
    if version < R::VERSION {
        return R::upgrade(version, fields).ok_or_else(damaged);
    }
    match postcard::take_from_bytes(fields) {
        Ok((record, [])) => Ok(record),
        Ok(_) | Err(_) => Err(damaged()),
    }
}
