//! Making an engine ready: the format is checked, and indexes that are new are built.

use std::collections::BTreeSet;

use crate::engine::{Commit, Direction, Engine, Outcome, Range, after_key};
use crate::record::{Entry, index_prefix, row_prefix};
use crate::schema::{Changes, Schema, Table, TableDescription, compare};
use crate::{Error, Limits};

/// The version of how tables, indexes and this description lie in an engine.
const FORMAT: u32 = 1;
const MAGIC: &[u8] = b"archipel store ";
const FORMAT_KEY: &[u8] = b"\0format";
const SCHEMA_KEY: &[u8] = b"\0schema";
/// Keys handled in one commit while an index is built or dropped.
const STEP: usize = 256;

/// Makes `engine` fit `schema`, or says why it does not.
///
/// An index that changes is first taken out of the description, so that what a crash leaves of it is known
/// to be worthless, and put in again when it is whole.
pub(crate) async fn prepare(engine: &dyn Engine, schema: &Schema, limits: &Limits) -> Result<(), Error> {
    schema.validate()?;
    let wanted = schema.describe();
    let Some(stored) = stored(engine).await? else {
        return create(engine, &wanted).await;
    };
    let changes = compare(&wanted, &stored)?;
    let reduced: Vec<_> = wanted.iter().map(|table| without(table, &changes)).collect();
    if reduced != stored {
        describe(engine, &reduced).await?;
    }
    for &(table, index) in changes.drop.union(&changes.build) {
        clear(engine, Range::of_prefix(index_prefix(table, index))).await?;
    }
    for table in schema.tables() {
        let number = table.description.number;
        let new: BTreeSet<u32> =
            changes.build.iter().filter(|(table, _)| *table == number).map(|(_, index)| *index).collect();
        if !new.is_empty() {
            build(engine, table, &new, limits).await?;
        }
    }
    if reduced == wanted { Ok(()) } else { describe(engine, &wanted).await }
}

fn without(table: &TableDescription, changes: &Changes) -> TableDescription {
    let mut table = table.clone();
    table.indexes.retain(|index| !changes.build.contains(&(table.number, index.number)));
    table
}

/// What the store remembers of its tables; `None` if there is nothing in it at all.
async fn stored(engine: &dyn Engine) -> Result<Option<Vec<TableDescription>>, Error> {
    let snapshot = engine.snapshot().await?;
    let found = snapshot.get(vec![FORMAT_KEY.to_vec(), SCHEMA_KEY.to_vec()]).await?;
    let [format, schema] = found.as_slice() else {
        return Err(Error::Corrupt("no answer to a read".to_owned()));
    };
    let Some(format) = format else {
        let everything = Range { start: Vec::new(), end: vec![u8::MAX] };
        let any = snapshot.scan(everything, Direction::Forward, 1).await?;
        return if any.is_empty() {
            Ok(None)
        } else {
            Err(Error::Foreign("it has no format version".to_owned()))
        };
    };
    let version =
        format.strip_prefix(MAGIC).and_then(|version| version.try_into().ok()).map(u32::from_be_bytes);
    match version {
        None => return Err(Error::Foreign("its format version is not one".to_owned())),
        Some(version) if version > FORMAT => {
            return Err(Error::Newer { what: "the store".to_owned(), found: version, supported: FORMAT });
        }
        Some(_) => {}
    }
    let schema = schema.as_deref().and_then(|bytes| postcard::from_bytes(bytes).ok());
    schema.map(Some).ok_or_else(|| Error::Corrupt("the description of its tables cannot be read".to_owned()))
}

async fn create(engine: &dyn Engine, tables: &[TableDescription]) -> Result<(), Error> {
    let mut format = MAGIC.to_vec();
    format.extend_from_slice(&FORMAT.to_be_bytes());
    let writes = vec![(FORMAT_KEY.to_vec(), Some(format)), (SCHEMA_KEY.to_vec(), Some(bytes(tables)?))];
    write(engine, writes).await
}

async fn describe(engine: &dyn Engine, tables: &[TableDescription]) -> Result<(), Error> {
    write(engine, vec![(SCHEMA_KEY.to_vec(), Some(bytes(tables)?))]).await
}

fn bytes(tables: &[TableDescription]) -> Result<Vec<u8>, Error> {
    postcard::to_allocvec(tables).map_err(|error| Error::Unwritable(error.to_string()))
}

async fn write(engine: &dyn Engine, writes: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> Result<(), Error> {
    match engine.commit(Commit { writes, ..Commit::default() }).await? {
        Outcome::Committed(_) => Ok(()),
        Outcome::Conflict => Err(Error::Conflict { attempts: 1 }),
    }
}

/// Deletes a range, step by step.
async fn clear(engine: &dyn Engine, range: Range) -> Result<(), Error> {
    loop {
        let snapshot = engine.snapshot().await?;
        let found = snapshot.scan(range.clone(), Direction::Forward, STEP).await?;
        if found.is_empty() {
            return Ok(());
        }
        write(engine, found.into_iter().map(|(key, _)| (key, None)).collect()).await?;
    }
}

/// Writes the entries of new indexes for every row, step by step.
async fn build(
    engine: &dyn Engine,
    table: &Table,
    new: &BTreeSet<u32>,
    limits: &Limits,
) -> Result<(), Error> {
    let prefix = row_prefix(table.description.number);
    let mut range = Range::of_prefix(prefix.clone());
    loop {
        let snapshot = engine.snapshot().await?;
        let rows = snapshot.scan(range.clone(), Direction::Forward, STEP).await?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        range.start = after_key(last.clone());
        let mut writes = std::collections::BTreeMap::new();
        for (key, value) in &rows {
            let primary = key.strip_prefix(prefix.as_slice()).unwrap_or_default();
            for entry in (table.entries)(primary, value, limits)? {
                if new.contains(&entry.index) {
                    add(&mut writes, table, entry, primary)?;
                }
            }
        }
        let keys: Vec<_> = writes.keys().cloned().collect();
        if snapshot.get(keys).await?.iter().any(Option::is_some) {
            return Err(not_unique(table, None));
        }
        write(engine, writes.into_iter().collect()).await?;
    }
}

fn add(
    writes: &mut std::collections::BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    table: &Table,
    entry: Entry,
    primary: &[u8],
) -> Result<(), Error> {
    match writes.insert(entry.key, Some(primary.to_vec())) {
        None => Ok(()),
        Some(_) => Err(not_unique(table, Some(entry.name))),
    }
}

fn not_unique(table: &Table, index: Option<&str>) -> Error {
    let index = index.map_or_else(|| "a unique index".to_owned(), |name| format!("unique index `{name}`"));
    Error::Schema(format!(
        "{index} cannot be built: two records of table `{}` have one key",
        table.description.name
    ))
}
