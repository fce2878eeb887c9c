//! Records together with those of another table that belong to them.

use crate::Error;
use crate::key::Key;
use crate::query::{Continuation, Page, Query};
use crate::record::{Index, Record, decode, row_key};
use crate::view::View;

/// A question whose answers are records of `L`, each with all of the records of `R` that an index finds for it.
#[must_use]
pub struct Join<'i, L: Record, R: Record, K> {
    left: Query<L>,
    index: &'i Index<R, K>,
    key: fn(&L) -> K,
}

/// A question whose answers are records of `L`, each with the record of `R` whose primary key it names.
#[must_use]
pub struct JoinOne<L: Record, R: Record> {
    left: Query<L>,
    key: fn(&L) -> R::Key,
}

impl<L: Record> Query<L> {
    /// With the records of another table that have `key` in an index of theirs. Those without any stay.
    pub fn join<R: Record, K: Key + 'static>(
        self,
        index: &Index<R, K>,
        key: fn(&L) -> K,
    ) -> Join<'_, L, R, K> {
        Join { left: self, index, key }
    }

    /// With the record of another table that has this primary key. Those without one stay.
    pub fn join_one<R: Record>(self, key: fn(&L) -> R::Key) -> JoinOne<L, R> {
        JoinOne { left: self, key }
    }
}

impl<L: Record, R: Record, K: Key + 'static> Join<'_, L, R, K> {
    /// Only what comes behind a page.
    pub fn after(mut self, page: &Continuation) -> Self {
        self.left = self.left.after(page);
        self
    }

    /// The first `limit` answers.
    pub async fn page(&self, view: &View, limit: usize) -> Result<Page<(L, Vec<R>)>, Error> {
        let Page { found: left, next } = self.left.page(view, limit).await?;
        let mut found = Vec::with_capacity(left.len());
        for left in left {
            let right = self.index.eq(&(self.key)(&left)).collect(view).await?;
            found.push((left, right));
        }
        Ok(Page { found, next })
    }

    /// Every answer. They must fit in memory.
    pub async fn collect(&self, view: &View) -> Result<Vec<(L, Vec<R>)>, Error> {
        Ok(self.page(view, usize::MAX).await?.found)
    }
}

impl<L: Record, R: Record> JoinOne<L, R> {
    /// Only what comes behind a page.
    pub fn after(mut self, page: &Continuation) -> Self {
        self.left = self.left.after(page);
        self
    }

    /// The first `limit` answers.
    pub async fn page(&self, view: &View, limit: usize) -> Result<Page<(L, Option<R>)>, Error> {
        view.shared.schema.layout::<R>()?;
        let Page { found: left, next } = self.left.page(view, limit).await?;
        let keys = left.iter().map(|left| row_key(R::TABLE.number, &(self.key)(left).bytes())).collect();
        let right = view.values(keys).await?;
        let pair =
            |(left, right): (L, Option<Vec<u8>>)| Ok((left, right.map(|bytes| decode(&bytes)).transpose()?));
        let found = left.into_iter().zip(right).map(pair).collect::<Result<_, Error>>()?;
        Ok(Page { found, next })
    }

    /// Every answer. They must fit in memory.
    pub async fn collect(&self, view: &View) -> Result<Vec<(L, Option<R>)>, Error> {
        Ok(self.page(view, usize::MAX).await?.found)
    }
}
