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
    /// Of all that was written so far, keys and values.
    written: usize,
}

impl Deref for Session {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl Session {
    pub(crate) fn new(view: View) -> Self {
        Self { view, written: 0 }
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

    /// Adds a record, or puts it in the place of the one with its key, without a look at that. Only for a table without
    /// indexes: what they say of the one before is not known.
    pub fn set<R: Record>(&mut self, record: &R) -> Result<(), Error> {
        let primary = record.key().bytes();
        self.view.shared.limits.key(primary.len())?;
        self.is_plain::<R>()?;
        let value = encode(record)?;
        self.view.shared.limits.record(value.len())?;
        self.apply(std::iter::once((row_key(R::TABLE.number, &primary), Some(value))))
    }

    /// Takes a record away, if there is one, without a look at it. Only for a table without indexes.
    pub fn unset<R: Record>(&mut self, key: &R::Key) -> Result<(), Error> {
        self.is_plain::<R>()?;
        self.apply(std::iter::once((row_key(R::TABLE.number, &key.bytes()), None)))
    }

    fn is_plain<R: Record>(&self) -> Result<(), Error> {
        if !self.view.shared.schema.layout::<R>()?.indexes().is_empty() {
            return Err(Error::Schema(format!(
                "table `{}` has indexes: use `put` or `delete`",
                R::TABLE.name
            )));
        }
        Ok(())
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
        let size = |key: &[u8], value: Option<&Vec<u8>>| key.len() + value.map_or(0, Vec::len);
        let new: usize = writes.iter().map(|(key, value)| size(key, value.as_ref())).sum();
        let replaced = writes.iter().filter_map(|(key, _)| Some((key, self.view.writes.get(key)?)));
        let replaced: usize = replaced.map(|(key, value)| size(key, value.as_ref())).sum();
        let written = self.written - replaced + new;
        limits.session(written)?;
        self.view.writes.extend(writes);
        self.written = written;
        Ok(())
    }
}
