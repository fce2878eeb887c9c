//! Which tables and indexes there are: in the program, and as the store remembers them.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::key::Key;
use crate::record::{Entry, Layout, Record, decode};
use crate::{Error, Limits};

/// The tables of a program. Each record's table is named once.
#[derive(Default)]
pub struct Schema {
    tables: Vec<Table>,
    layouts: BTreeMap<TypeId, Box<dyn Any + Send + Sync>>,
}

/// The index entries that a row must have, from its primary key's bytes and its value.
type Entries = Box<dyn Fn(&[u8], &[u8], &Limits) -> Result<Vec<Entry>, Error> + Send + Sync>;

/// A table without its record's type.
pub(crate) struct Table {
    pub(crate) description: TableDescription,
    pub(crate) entries: Entries,
}

/// A table as the store remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TableDescription {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) key: String,
    pub(crate) version: u16,
    pub(crate) indexes: Vec<IndexDescription>,
}

/// An index as the store remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IndexDescription {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) unique: bool,
    pub(crate) key: String,
}

impl Schema {
    /// No tables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With the table of `R`.
    #[must_use]
    pub fn table<R: Record>(mut self) -> Self {
        let layout = Layout::<R>::new();
        let index = |index: &crate::AnyIndex<R>| IndexDescription {
            number: index.number,
            name: index.name.to_owned(),
            unique: index.unique,
            key: index.shape.clone(),
        };
        let description = TableDescription {
            number: R::TABLE.number,
            name: R::TABLE.name.to_owned(),
            key: R::Key::shape(),
            version: R::VERSION,
            indexes: layout.indexes().iter().map(index).collect(),
        };
        let own = Layout::<R>::new();
        let entries: Entries = Box::new(move |primary, value, limits| {
            let record: R = decode(value)?;
            if record.key().bytes() != primary {
                return Err(Error::Corrupt(format!(
                    "a record of table `{}` has another's key",
                    R::TABLE.name
                )));
            }
            own.entries(&record, limits)
        });
        self.tables.push(Table { description, entries });
        self.layouts.insert(TypeId::of::<R>(), Box::new(layout));
        self
    }

    pub(crate) fn tables(&self) -> &[Table] {
        &self.tables
    }

    pub(crate) fn layout<R: Record>(&self) -> Result<&Layout<R>, Error> {
        let layout = self.layouts.get(&TypeId::of::<R>()).and_then(|layout| layout.downcast_ref());
        layout.ok_or_else(|| Error::Schema(format!("table `{}` is not in the schema", R::TABLE.name)))
    }

    pub(crate) fn describe(&self) -> Vec<TableDescription> {
        self.tables.iter().map(|table| table.description.clone()).collect()
    }

    /// Refuses numbers and names that are used twice.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let tables = self.tables.iter().map(|table| &table.description);
        distinct("table", tables.clone().map(|table| (table.number, table.name.as_str())))?;
        for table in tables {
            let indexes = table.indexes.iter().map(|index| (index.number, index.name.as_str()));
            distinct(&format!("index of `{}`", table.name), indexes)?;
        }
        Ok(())
    }
}

fn distinct<'a>(what: &str, all: impl Iterator<Item = (u32, &'a str)>) -> Result<(), Error> {
    let (mut numbers, mut names) = (BTreeSet::new(), BTreeSet::new());
    for (number, name) in all {
        if !numbers.insert(number) || !names.insert(name) {
            return Err(Error::Schema(format!("{what} `{name}`, number {number}: used twice")));
        }
    }
    Ok(())
}

/// What has to be done so that a store has the program's indexes: (table, index) numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Indexes in the store that nobody would keep up to date.
    pub(crate) drop: BTreeSet<(u32, u32)>,
    /// Indexes that are not in the store, or not as they should be.
    pub(crate) build: BTreeSet<(u32, u32)>,
}

/// Compares what the program has with what the store has. Data that would be lost or misread is an error.
pub(crate) fn compare(program: &[TableDescription], stored: &[TableDescription]) -> Result<Changes, Error> {
    let mut changes = Changes::default();
    for old in stored {
        let Some(new) = program.iter().find(|table| table.number == old.number) else {
            let (name, number) = (&old.name, old.number);
            return Err(Error::Schema(format!(
                "the store has a table `{name}`, number {number}, which is unknown here"
            )));
        };
        same_table(new, old)?;
        for index in old.indexes.iter().filter(|index| !new.indexes.contains(index)) {
            changes.drop.insert((old.number, index.number));
        }
    }
    for new in program {
        let old = stored.iter().find(|table| table.number == new.number);
        for index in &new.indexes {
            if !old.is_some_and(|old| old.indexes.contains(index)) {
                changes.build.insert((new.number, index.number));
            }
        }
    }
    Ok(changes)
}

fn same_table(new: &TableDescription, old: &TableDescription) -> Result<(), Error> {
    if new.name != old.name {
        let number = new.number;
        return Err(Error::Schema(format!(
            "table {number} is `{}` in the store and `{}` here",
            old.name, new.name
        )));
    }
    if new.key != old.key {
        let name = &new.name;
        return Err(Error::Schema(format!(
            "the key of table `{name}` is {} in the store and {} here",
            old.key, new.key
        )));
    }
    if new.version < old.version {
        let what = format!("table `{}`", new.name);
        return Err(Error::Newer { what, found: old.version.into(), supported: new.version.into() });
    }
    Ok(())
}
