//! Asking for records: from where, in which order, which of them, how many.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use crate::Error;
use crate::engine::{Direction, Pair, Range, after_key, after_prefix};
use crate::key::{Key, PrefixOf};
use crate::record::{Index, Record, decode, row_key, row_prefix};
use crate::view::View;

/// Keys read at once, at most.
const STEP: usize = 256;

type Filter<R> = Box<dyn Fn(&R) -> bool + Send + Sync>;

/// A question about one table. Its order is that of the primary key, or of the index it was made from.
#[must_use]
pub struct Query<R: Record> {
    range: Range,
    /// Whether the range is one of index entries, rather than of rows.
    indexed: bool,
    direction: Direction,
    filters: Vec<Filter<R>>,
    record: PhantomData<fn() -> R>,
}

/// Where a page ended: the next one begins behind it. It stays good whatever changes in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation(Vec<u8>);

impl Continuation {
    /// As bytes, to hand out.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// From bytes that were handed out. Others lead nowhere, or into the middle of the same question's answers.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

/// Some of the answers to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The answers.
    pub found: Vec<T>,
    /// Where to go on. `None`: these were the last. The next page may turn out empty.
    pub next: Option<Continuation>,
}

impl<R: Record> Query<R> {
    fn new(range: Range, indexed: bool) -> Self {
        Self { range, indexed, direction: Direction::Forward, filters: Vec::new(), record: PhantomData }
    }

    /// Every record.
    pub fn all() -> Self {
        Self::new(Range::of_prefix(row_prefix(R::TABLE.number)), false)
    }

    /// Records with keys in a range.
    pub fn keys(range: impl RangeBounds<R::Key>) -> Self {
        Self::new(within(&row_prefix(R::TABLE.number), &range), false)
    }

    /// Records with keys that begin so.
    pub fn prefix(prefix: &impl PrefixOf<R::Key>) -> Self {
        Self::new(beginning(row_prefix(R::TABLE.number), prefix), false)
    }

    /// In the opposite order.
    pub fn reverse(mut self) -> Self {
        self.direction = match self.direction {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        };
        self
    }

    /// Only records for which this holds, too.
    pub fn filter(mut self, holds: impl Fn(&R) -> bool + Send + Sync + 'static) -> Self {
        self.filters.push(Box::new(holds));
        self
    }

    /// Only what comes behind a page.
    pub fn after(mut self, page: &Continuation) -> Self {
        match self.direction {
            Direction::Forward => self.range.start = after_key(page.0.clone()).max(self.range.start),
            Direction::Backward => self.range.end = page.0.clone().min(self.range.end),
        }
        self
    }

    /// The first `limit` answers.
    pub async fn page(&self, view: &View, limit: usize) -> Result<Page<R>, Error> {
        view.shared.schema.layout::<R>()?;
        let mut found = Vec::new();
        let mut last = None;
        let mut rest = Some(self.range.clone());
        while let Some(range) = rest {
            let wanted = limit - found.len();
            if wanted == 0 {
                return Ok(Page { found, next: last });
            }
            // With a filter most may be dropped; without, nothing is read that is not asked for.
            let step = if self.filters.is_empty() { wanted.min(STEP) } else { STEP };
            let (pairs, next) = view.scan(range, self.direction, step).await?;
            rest = next;
            let keys: Vec<Vec<u8>> = pairs.iter().map(|(key, _)| key.clone()).collect();
            for (record, key) in self.records(view, pairs).await?.into_iter().zip(keys) {
                if self.filters.iter().all(|holds| holds(&record)) {
                    if found.len() == limit {
                        return Ok(Page { found, next: last });
                    }
                    found.push(record);
                    last = Some(Continuation(key));
                }
            }
        }
        Ok(Page { found, next: None })
    }

    /// The first answer.
    pub async fn first(&self, view: &View) -> Result<Option<R>, Error> {
        Ok(self.page(view, 1).await?.found.pop())
    }

    /// Every answer. They must fit in memory.
    pub async fn collect(&self, view: &View) -> Result<Vec<R>, Error> {
        Ok(self.page(view, usize::MAX).await?.found)
    }

    /// How many answers there are.
    pub async fn count(&self, view: &View) -> Result<u64, Error> {
        view.shared.schema.layout::<R>()?;
        let mut count = 0;
        let mut rest = Some(self.range.clone());
        while let Some(range) = rest {
            let (pairs, next) = view.scan(range, self.direction, STEP).await?;
            rest = next;
            count += if self.filters.is_empty() {
                pairs.len() as u64
            } else {
                let records = self.records(view, pairs).await?;
                records.iter().filter(|record| self.filters.iter().all(|holds| holds(record))).count() as u64
            };
        }
        Ok(count)
    }

    /// The records of rows, or of index entries.
    async fn records(&self, view: &View, pairs: Vec<Pair>) -> Result<Vec<R>, Error> {
        if !self.indexed {
            return pairs.iter().map(|(_, value)| decode(value)).collect();
        }
        let rows = pairs.into_iter().map(|(_, primary)| row_key(R::TABLE.number, &primary)).collect();
        let missing =
            || Error::Corrupt(format!("an index of table `{}` has an entry without record", R::TABLE.name));
        let values = view.values(rows).await?;
        values.into_iter().map(|value| decode(&value.ok_or_else(missing)?)).collect()
    }
}

/// What an index finds.
impl<R: Record, K: Key + 'static> Index<R, K> {
    /// Every record that is in the index, in its order.
    pub fn all(&self) -> Query<R> {
        Query::new(Range::of_prefix(self.prefix()), true)
    }

    /// Records with this key.
    pub fn eq(&self, key: &K) -> Query<R> {
        Query::new(beginning(self.prefix(), key), true)
    }

    /// Records with keys in a range.
    pub fn range(&self, range: impl RangeBounds<K>) -> Query<R> {
        Query::new(within(&self.prefix(), &range), true)
    }

    /// Records with keys that begin so.
    pub fn beginning(&self, prefix: &impl PrefixOf<K>) -> Query<R> {
        Query::new(beginning(self.prefix(), prefix), true)
    }
}

fn beginning(mut prefix: Vec<u8>, key: &impl Key) -> Range {
    key.write(&mut prefix);
    Range::of_prefix(prefix)
}

/// The keys behind `prefix` whose first part is in `range`. What follows that part does not count.
fn within<K: Key>(prefix: &[u8], range: &impl RangeBounds<K>) -> Range {
    let at = |key: &K| {
        let mut bytes = prefix.to_vec();
        key.write(&mut bytes);
        bytes
    };
    let start = match range.start_bound() {
        Bound::Included(key) => at(key),
        Bound::Excluded(key) => after_prefix(&at(key)),
        Bound::Unbounded => prefix.to_vec(),
    };
    let end = match range.end_bound() {
        Bound::Included(key) => after_prefix(&at(key)),
        Bound::Excluded(key) => at(key),
        Bound::Unbounded => after_prefix(prefix),
    };
    Range { start, end }
}
