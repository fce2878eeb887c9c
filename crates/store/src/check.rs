//! Whether what is stored is whole: an administrator's question, and the end of many a test.

use std::collections::BTreeSet;

use crate::Error;
use crate::engine::{Direction, Pair};
use crate::record::{everything, row_key, row_prefix};
use crate::schema::Table;
use crate::view::View;

/// Keys looked at together.
const STEP: usize = 256;
/// Faults that are described; more are only counted.
const DESCRIBED: usize = 100;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records that were read.
    pub records: u64,
    /// Index entries that were read.
    pub entries: u64,
    /// How many faults there are.
    pub fault_count: u64,
    /// The first of them.
    pub faults: Vec<String>,
}

impl Report {
    /// Whether no fault was found.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.fault_count == 0
    }

    fn fault(&mut self, what: String) {
        self.fault_count += 1;
        if self.faults.len() < DESCRIBED {
            self.faults.push(what);
        }
    }
}

/// Every record has its entries, and every entry its record.
pub(crate) async fn check(view: &View) -> Result<Report, Error> {
    let mut report = Report::default();
    let mut rest = Some(everything());
    while let Some(range) = rest {
        let (pairs, next) = view.scan(range, Direction::Forward, STEP).await?;
        rest = next;
        check_rows(view, &pairs, &mut report).await?;
        check_entries(view, &pairs, &mut report).await?;
    }
    Ok(report)
}

/// Who a key belongs to.
enum Place<'a> {
    Row(&'a Table, &'a [u8]),
    Entry(&'a Table),
    Nowhere,
}

fn place<'a>(view: &'a View, key: &'a [u8]) -> Place<'a> {
    for table in view.shared.schema.tables() {
        let number = table.description.number;
        if let Some(primary) = key.strip_prefix(row_prefix(number).as_slice()) {
            return Place::Row(table, primary);
        }
        for index in &table.description.indexes {
            if key.starts_with(&crate::record::index_prefix(number, index.number)) {
                return Place::Entry(table);
            }
        }
    }
    Place::Nowhere
}

async fn check_rows(view: &View, pairs: &[Pair], report: &mut Report) -> Result<(), Error> {
    let mut wanted = Vec::new();
    for (key, value) in pairs {
        match place(view, key) {
            Place::Row(table, primary) => {
                report.records += 1;
                match (table.entries)(primary, value, &view.shared.limits) {
                    Ok(entries) => {
                        wanted.extend(entries.into_iter().map(|entry| (table, entry, primary)));
                    }
                    Err(error) => report.fault(error.to_string()),
                }
            }
            Place::Entry(_) => report.entries += 1,
            Place::Nowhere => report.fault(format!("a key that belongs to no table: {key:?}")),
        }
    }
    let found = view.values(wanted.iter().map(|(_, entry, _)| entry.key.clone()).collect()).await?;
    for ((table, entry, primary), found) in wanted.into_iter().zip(found) {
        if found.as_deref() != Some(primary) {
            let (name, index) = (&table.description.name, entry.name);
            report.fault(format!("table `{name}`: a record is not in index `{index}`: key {primary:?}"));
        }
    }
    Ok(())
}

async fn check_entries(view: &View, pairs: &[Pair], report: &mut Report) -> Result<(), Error> {
    let entries = pairs.iter().filter_map(|(key, primary)| match place(view, key) {
        Place::Entry(table) => Some((table, key, primary)),
        Place::Row(..) | Place::Nowhere => None,
    });
    let entries: Vec<_> = entries.collect();
    let rows = entries.iter().map(|(table, _, primary)| row_key(table.description.number, primary)).collect();
    let rows = view.values(rows).await?;
    for ((table, key, primary), row) in entries.into_iter().zip(rows) {
        let expected = row.and_then(|row| (table.entries)(primary, &row, &view.shared.limits).ok());
        let keys: BTreeSet<_> = expected.into_iter().flatten().map(|entry| entry.key).collect();
        if !keys.contains(key) {
            let name = &table.description.name;
            report.fault(format!("table `{name}`: an index has an entry that no record makes: {key:?}"));
        }
    }
    Ok(())
}
