//! Writing: a session's own view, in which indexes follow their records at once.

use std::collections::BTreeSet;
use std::ops::Deref;

use crate::Error;
use crate::key::Key;
use crate::record::{Entry, Record, decode, encode, row_key};
use crate::view::View;

/// One attempt of a session. It reads as a [`View`] does, and sees its own writes; nobody else does until all of
/// them are durable.
pub struct Session {
    view: View,
}

impl Deref for Session {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl Session {
    pub(crate) fn new(view: View) -> Self {
        Self { view }
    }

    pub(crate) fn into_view(self) -> View {
        self.view
    }

    /// Adds a record. It is an error if there is one with its key.
    pub async fn insert<R: Record>(&mut self, record: &R) -> Result<(), Error> {
        match self.write(record, false).await? {
            None => Ok(()),
            Some(_) => Err(Error::Duplicate { table: R::TABLE.name, index: None }),
        }
    }

    /// Adds a record, or puts it in the place of the one with its key, which is returned.
    pub async fn put<R: Record>(&mut self, record: &R) -> Result<Option<R>, Error> {
        self.write(record, true).await
    }

    /// Takes a record away, and returns it.
    pub async fn delete<R: Record>(&mut self, key: &R::Key) -> Result<Option<R>, Error> {
        let Some(old) = self.view.get::<R>(key).await? else { return Ok(None) };
        let entries = self.entries(&old)?;
        let row = row_key(R::TABLE.number, &key.bytes());
        self.apply(
            std::iter::once(row).chain(entries.into_iter().map(|entry| entry.key)).map(|key| (key, None)),
        )?;
        Ok(Some(old))
    }

    fn entries<R: Record>(&self, record: &R) -> Result<Vec<Entry>, Error> {
        self.view.shared.schema.layout::<R>()?.entries(record, &self.view.shared.limits)
    }

    /// Writes a record unless there is one that may not be replaced. Returns what was there.
    async fn write<R: Record>(&mut self, record: &R, replace: bool) -> Result<Option<R>, Error> {
        let primary = record.key().bytes();
        self.view.shared.limits.key(primary.len())?;
        let new = self.entries(record)?;
        let value = encode(record)?;
        self.view.shared.limits.record(value.len())?;

        let row = row_key(R::TABLE.number, &primary);
        let unique: Vec<&Entry> = new.iter().filter(|entry| entry.unique).collect();
        let keys = std::iter::once(row.clone()).chain(unique.iter().map(|entry| entry.key.clone())).collect();
        let mut found = self.view.values(keys).await?.into_iter();
        let old: Option<R> = found.next().flatten().map(|bytes| decode(&bytes)).transpose()?;
        if old.is_some() && !replace {
            return Ok(old);
        }
        for (entry, holder) in unique.iter().zip(found) {
            if holder.is_some_and(|holder| holder != primary) {
                return Err(Error::Duplicate { table: R::TABLE.name, index: Some(entry.name) });
            }
        }
        let old_entries = old.as_ref().map(|old| self.entries(old)).transpose()?.unwrap_or_default();
        let kept: BTreeSet<&Vec<u8>> = new.iter().map(|entry| &entry.key).collect();
        let had: BTreeSet<&Vec<u8>> = old_entries.iter().map(|entry| &entry.key).collect();
        let gone = had.difference(&kept).map(|key| ((*key).clone(), None));
        let added = kept.difference(&had).map(|key| ((*key).clone(), Some(primary.clone())));
        self.apply(std::iter::once((row, Some(value))).chain(gone).chain(added))?;
        Ok(old)
    }

    /// Takes all of the writes of one step, or none if they are more than a session may have.
    fn apply(&mut self, writes: impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)>) -> Result<(), Error> {
        let limits = self.view.shared.limits;
        let writes: Vec<_> = writes.collect();
        limits.keys(self.view.writes.len() + writes.len())?;
        let size = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len);
        let held: usize = self.view.writes.iter().map(|(key, value)| key.len() + size(value)).sum();
        limits.session(held + writes.iter().map(|(key, value)| key.len() + size(value)).sum::<usize>())?;
        self.view.writes.extend(writes);
        Ok(())
    }
}
