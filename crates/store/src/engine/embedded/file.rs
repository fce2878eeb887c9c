//! One `redb` database: opening it, committing to it, and reading it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use redb::{Database, ReadOnlyTable, ReadableDatabase, TableDefinition, TableHandle};

use super::disk::{Backend, Disk, Locked, sync_directory_of};
use crate::Error;
use crate::engine::{Commit, Direction, Pair, Range, Revision};

/// Everything that is stored.
const PAIRS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("archipel.pairs");
/// The revision of the last commit. After a failed sync it says whether the commit was made.
const STATE: TableDefinition<'_, &str, u64> = TableDefinition::new("archipel.state");
const REVISION: &str = "revision";
/// What a `redb` file begins with.
const MAGIC: &[u8; 4] = b"redb";
/// Pages kept in memory. The system's cache has the rest; the default of 1 GiB is a site's whole memory.
const CACHE_BYTES: usize = 8 << 20;

pub(super) type Pairs = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// A key and a value where they lie in their page.
type Found<'a> = (redb::AccessGuard<'a, &'static [u8]>, redb::AccessGuard<'a, &'static [u8]>);

/// An open database. Whatever fails in it may leave it unusable: open it again then.
pub(super) struct Store(Database);

/// A failed commit, and whether it may have been made nevertheless.
pub(super) struct Failed {
    pub(super) error: Error,
    pub(super) in_doubt: bool,
}

/// `redb` checks what it reads, but a damaged file may break an assumption before a check does.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Error::Corrupt(said.unwrap_or("reading it failed").to_owned()))
    })
}

/// Sees to it that there is a database at `path`. One appears whole or not at all.
pub(super) fn make_sure_of(path: &Path, syncs: &Arc<AtomicU64>) -> Result<(), Error> {
    if path.try_exists()? {
        return Ok(());
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    let unfinished = Path::new(&unfinished);
    let disk = Locked::create(unfinished)?;
    drop(Store::open(Box::new(disk), syncs)?);
    std::fs::rename(unfinished, path)?;
    Ok(sync_directory_of(path)?)
}

impl Store {
    pub(super) fn open(disk: Box<dyn Disk>, syncs: &Arc<AtomicU64>) -> Result<Self, Error> {
        let new = disk.is_empty()?;
        if !new {
            let mut magic = [0; MAGIC.len()];
            let readable = disk.len()? >= magic.len() as u64;
            if readable {
                disk.read(0, &mut magic)?;
            }
            if &magic != MAGIC {
                return Err(Error::Foreign("the file was not written by a store".to_owned()));
            }
        }
        let backend = Backend { disk, syncs: Arc::clone(syncs) };
        guarded(|| {
            let database = Database::builder()
                .set_cache_size(CACHE_BYTES)
                .create_with_backend(backend)
                .map_err(fault)?;
            if new {
                initialise(&database).map_err(fault)?;
            } else {
                recognise(&database).map_err(fault)?;
            }
            Ok(Self(database))
        })
    }

    /// The revision of the last commit.
    pub(super) fn revision(&self) -> Result<Revision, Error> {
        guarded(|| {
            let table = self.0.begin_read().map_err(fault)?.open_table(STATE).map_err(fault)?;
            let revision = table.get(REVISION).map_err(fault)?;
            Ok(revision.map_or(0, |revision| revision.value()))
        })
    }

    /// All pairs as they are now.
    pub(super) fn read(&self) -> Result<Pairs, Error> {
        guarded(|| self.0.begin_read().map_err(fault)?.open_table(PAIRS).map_err(fault))
    }

    /// Makes all of `commits` durable, or none. `revision` is that of the last of them.
    pub(super) fn commit(&self, commits: &[&Commit], revision: Revision) -> Result<(), Failed> {
        let mut in_doubt = false;
        guarded(|| {
            let transaction = self.stage(commits, revision).map_err(fault)?;
            in_doubt = true;
            transaction.commit().map_err(fault)
        })
        .map_err(|error| Failed { error, in_doubt })
    }

    fn stage(&self, commits: &[&Commit], revision: Revision) -> Result<redb::WriteTransaction, redb::Error> {
        let mut transaction = self.0.begin_write()?;
        // Records hold what strangers sent: with one phase, their content could in theory pass for checksums.
        transaction.set_two_phase_commit(true);
        {
            let mut pairs = transaction.open_table(PAIRS)?;
            for (key, value) in commits.iter().flat_map(|commit| &commit.writes) {
                match value {
                    Some(value) => drop(pairs.insert(key.as_slice(), value.as_slice())?),
                    None => drop(pairs.remove(key.as_slice())?),
                }
            }
            transaction.open_table(STATE)?.insert(REVISION, revision)?;
        }
        Ok(transaction)
    }
}

fn initialise(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(PAIRS)?;
    transaction.open_table(STATE)?.insert(REVISION, 0)?;
    Ok(transaction.commit()?)
}

/// Refuses a database that something else keeps in the same format.
fn recognise(database: &Database) -> Result<(), redb::Error> {
    let tables = database.begin_read()?;
    let ours = |name: &str| tables.list_tables().map(|mut all| all.any(|table| table.name() == name));
    if ours("archipel.pairs")? && ours("archipel.state")? {
        Ok(())
    } else {
        Err(redb::Error::TableDoesNotExist("archipel.pairs".to_owned()))
    }
}

/// The values of `keys`.
pub(super) fn get(pairs: &Pairs, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, Error> {
    let value = |key: &Vec<u8>| {
        let found = pairs.get(key.as_slice()).map_err(fault)?;
        Ok(found.map(|value| value.value().to_vec()))
    };
    guarded(|| keys.iter().map(value).collect())
}

/// The first pairs of a range.
pub(super) fn scan(
    pairs: &Pairs,
    range: &Range,
    direction: Direction,
    limit: usize,
) -> Result<Vec<Pair>, Error> {
    if range.is_empty() {
        return Ok(Vec::new());
    }
    guarded(|| {
        let found = pairs.range(range.start.as_slice()..range.end.as_slice()).map_err(fault)?;
        let pair = |found: Result<Found<'_>, _>| {
            let (key, value) = found.map_err(fault)?;
            Ok((key.value().to_vec(), value.value().to_vec()))
        };
        match direction {
            Direction::Forward => found.take(limit).map(pair).collect(),
            Direction::Backward => found.rev().take(limit).map(pair).collect(),
        }
    })
}

/// What an error of `redb` means to whoever uses a store.
fn fault(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        redb::Error::Io(error) => error.into(),
        redb::Error::PreviousIo => Error::Io("an earlier fault".to_owned()),
        redb::Error::DatabaseClosed => Error::Stale,
        redb::Error::DatabaseAlreadyOpen => Error::InUse,
        redb::Error::UpgradeRequired(version) => {
            Error::Foreign(format!("a database of the old file format {version}"))
        }
        error @ (redb::Error::TableDoesNotExist(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TypeDefinitionChanged { .. }) => Error::Foreign(error.to_string()),
        error => Error::Corrupt(error.to_string()),
    }
}
