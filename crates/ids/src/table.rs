//! Which identifier is which: what clients see, and what one site's service knows.

use std::{fmt, sync::Arc};

use crate::block::{BLOCK, between};
use crate::id::{Id, Known, uuid};
use crate::trie::{Near, Trie, place};

/// Which way a text goes, and so what is replaced in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// An answer: local ids become meta-identifiers.
    ToClient,
    /// A request: meta-identifiers become local ids. A client knows no local id: one that it names is hidden.
    ToService,
}

/// What an identifier is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is replaced by this one.
    Mapped(String),
    /// A replica's local id, which no client may name: a 404.
    Hidden,
    /// None of ours. It stays.
    Unknown,
}

/// Why a pair was not taken. The table is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// One is empty, longer than 128 bytes, or has other characters than `A-Z a-z 0-9 - . _ ~`.
    Spelling,
    /// One is a UUID and one is not.
    Form,
    /// The local id is that of another resource.
    Taken,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unfit::Spelling => "an identifier has 1 to 128 of the characters A-Z a-z 0-9 - . _ ~",
            Unfit::Form => "a UUID can only stand for a UUID",
            Unfit::Taken => "the local id is that of another resource",
        })
    }
}

impl std::error::Error for Unfit {}

/// The identifiers of one site's replicas, both ways.
///
/// A copy is a snapshot: it takes some pointers, and shares what is not changed later. Readers keep theirs
/// without locks; a writer changes a copy and puts it in the place of the old one.
///
/// A UUID is matched with and without hyphens, in capitals or not, and keeps the form in which it was found.
/// Anything else is matched as it is.
#[derive(Clone, Debug, Default)]
pub struct Table {
    uuids: Pairs<u128>,
    tokens: Pairs<Arc<[u8]>>,
    /// What local tokens look like, and what any do.
    local_shapes: Shapes,
    shapes: Shapes,
    /// How many pairs of tokens differ in length.
    uneven: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Pairs<K> {
    locals: Trie<K>,
    metas: Trie<K>,
}

impl<K> Default for Pairs<K> {
    fn default() -> Self {
        Pairs { locals: Trie::default(), metas: Trie::default() }
    }
}

/// What was found in a text, if it is anything. Small: many are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen<'a> {
    Mapped(Known<'a>),
    Hidden,
}

impl Table {
    /// Nothing is mapped.
    #[must_use]
    pub fn new() -> Table {
        Table::default()
    }

    /// How many pairs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.uuids.locals.len() + self.tokens.locals.len()
    }

    /// Whether there is nothing to rewrite.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a text stays as long as it is, so that its `Content-Length` holds.
    #[must_use]
    pub fn keeps_length(&self) -> bool {
        self.uneven == 0
    }

    /// The resource `meta` is `local` here, and no longer what it was. A pair of equals is no pair: there is
    /// nothing to rewrite.
    pub fn insert(&mut self, meta: &str, local: &str) -> Result<(), Unfit> {
        let read = |text: &str| Id::read(text.as_bytes()).ok_or(Unfit::Spelling);
        match (read(meta)?, read(local)?) {
            (Id::Uuid(meta), Id::Uuid(local)) => self.uuids.insert::<u128>(meta, local).map(drop),
            (Id::Token(meta), Id::Token(local)) => {
                let (meta_bytes, local_bytes) = (meta.len(), local.len());
                let old = self.tokens.insert::<[u8]>(Arc::clone(&meta), Arc::clone(&local))?;
                self.uneven -= usize::from(old.is_some_and(|old| old.len() != meta_bytes));
                self.uneven += usize::from(meta_bytes != local_bytes);
                self.local_shapes.add(&local);
                self.shapes.add(&local);
                self.shapes.add(&meta);
                Ok(())
            }
            _ => Err(Unfit::Form),
        }
    }

    /// The resource has no replica here any more, or was let go. False if there was none.
    pub fn remove(&mut self, meta: &str) -> bool {
        match Id::read(meta.as_bytes()) {
            Some(Id::Uuid(meta)) => self.uuids.remove(&meta).is_some(),
            Some(Id::Token(meta)) => {
                let old = self.tokens.remove::<[u8]>(&meta);
                self.uneven -= usize::from(old.as_ref().is_some_and(|old| old.len() != meta.len()));
                old.is_some()
            }
            None => false,
        }
    }

    /// The identifier is found in what goes to the service, and stands for itself.
    pub(crate) fn mark(&mut self, id: &Id) {
        match id {
            Id::Uuid(uuid) => drop(self.uuids.locals.insert::<u128>(*uuid, *uuid)),
            Id::Token(token) => {
                self.shapes.add(token);
                self.tokens.locals.insert::<[u8]>(Arc::clone(token), Arc::clone(token));
            }
        }
    }

    pub(crate) fn unmark(&mut self, id: &Id) {
        match id {
            Id::Uuid(uuid) => drop(self.uuids.locals.remove(uuid)),
            Id::Token(token) => drop(self.tokens.locals.remove::<[u8]>(token)),
        }
    }

    /// What one identifier is.
    #[must_use]
    pub fn find(&self, id: &str, direction: Direction) -> Found {
        let seen = match uuid(id.as_bytes()) {
            Some(uuid) => self.uuid(uuid, direction),
            // Of no other text was a pair taken.
            None => self.token(id.as_bytes(), direction),
        };
        match seen {
            Some(Seen::Mapped(id)) => Found::Mapped(id.text()),
            Some(Seen::Hidden) => Found::Hidden,
            None => Found::Unknown,
        }
    }

    pub(crate) fn has_uuids(&self) -> bool {
        self.uuids.locals.len() > 0
    }

    pub(crate) fn has_tokens(&self) -> bool {
        self.tokens.locals.len() > 0
    }

    pub(crate) fn uuid(&self, uuid: u128, direction: Direction) -> Option<Seen<'_>> {
        self.near(uuid, direction)?.seen(uuid, direction)
    }

    /// Reads what [`Table::near`] reads, and says nothing of use.
    #[inline]
    pub(crate) fn touch(&self, uuid: u128, direction: Direction) -> bool {
        let place = place(&uuid);
        self.uuids.metas.touch(&place)
            ^ (direction == Direction::ToService && self.uuids.locals.touch(&place))
    }

    /// None: it is none of ours. Else it may be, and what it is is read afterwards: of many, then, at once.
    #[inline]
    pub(crate) fn near(&self, uuid: u128, direction: Direction) -> Option<NearUuid<'_>> {
        let place = place(&uuid);
        let meta = self.uuids.metas.near(&place);
        let local = match direction {
            Direction::ToClient => None,
            Direction::ToService => self.uuids.locals.near(&place),
        };
        (meta.is_some() || local.is_some()).then_some(NearUuid { local, meta })
    }

    /// What looks otherwise is no token that counts in this direction.
    pub(crate) fn shapes(&self, direction: Direction) -> &Shapes {
        match direction {
            Direction::ToClient => &self.local_shapes,
            Direction::ToService => &self.shapes,
        }
    }

    pub(crate) fn token(&self, token: &[u8], direction: Direction) -> Option<Seen<'_>> {
        let mapped = |token| Seen::Mapped(Known::Token(token));
        match direction {
            Direction::ToClient => self.tokens.metas.get(token).map(mapped),
            Direction::ToService => match self.tokens.locals.get(token) {
                Some(local) => Some(mapped(local)),
                None => self.tokens.metas.get(token).map(|_| Seen::Hidden),
            },
        }
    }
}

/// Where a UUID may be in the table.
pub(crate) struct NearUuid<'a> {
    /// The local id of the resource that it is for clients.
    local: Option<Near<'a, u128>>,
    /// The meta-identifier of the resource that it is here.
    meta: Option<Near<'a, u128>>,
}

impl<'a> NearUuid<'a> {
    /// Reads what [`NearUuid::seen`] reads, and says nothing of use.
    #[inline]
    pub(crate) fn touch(&self, uuid: u128) -> bool {
        let is = |near: &Option<Near<'_, u128>>| near.as_ref().is_some_and(|near| near.is(&uuid));
        is(&self.meta) ^ is(&self.local)
    }

    /// What the UUID is that this was made for, in the direction that it was made for.
    #[inline]
    pub(crate) fn seen(&self, uuid: u128, direction: Direction) -> Option<Seen<'a>> {
        let mapped = |uuid| Seen::Mapped(Known::Uuid(uuid));
        let meta = || self.meta.as_ref().and_then(|near| near.get(&uuid));
        match direction {
            Direction::ToClient => meta().map(mapped),
            Direction::ToService => match self.local.as_ref().and_then(|near| near.get(&uuid)) {
                Some(local) => Some(mapped(local)),
                None => meta().map(|_| Seen::Hidden),
            },
        }
    }
}

/// The lengths of tokens, by their first byte: most words of a text fit none.
#[derive(Clone, Debug)]
pub(crate) struct Shapes {
    /// The bit n is set if some token with this first byte has, or had, n bytes, or 64 more.
    lengths: Arc<[u64; 256]>,
    /// The lowest first byte, and the highest.
    firsts: (u8, u8),
}

impl Default for Shapes {
    fn default() -> Self {
        Shapes { lengths: Arc::new([0; 256]), firsts: (u8::MAX, 0) }
    }
}

impl Shapes {
    fn add(&mut self, token: &[u8]) {
        if !self.fit(token.first(), token.len())
            && let Some(first) = token.first()
            && let Some(lengths) = Arc::make_mut(&mut self.lengths).get_mut(usize::from(*first))
        {
            *lengths |= 1 << (token.len() & 63);
            self.firsts = (self.firsts.0.min(*first), self.firsts.1.max(*first));
        }
    }

    /// Which bytes may be the first of a token.
    #[inline]
    pub(crate) fn firsts(&self, block: &[u8; BLOCK]) -> u64 {
        between(block, self.firsts.0, self.firsts.1)
    }

    /// Whether a word with this first byte and length may be a token.
    pub(crate) fn fit(&self, first: Option<&u8>, length: usize) -> bool {
        let lengths = first.and_then(|first| self.lengths.get(usize::from(*first)));
        lengths.is_some_and(|lengths| lengths >> (length & 63) & 1 == 1)
    }
}

impl<K: Ord + Clone> Pairs<K> {
    pub(crate) fn len(&self) -> usize {
        self.locals.len()
    }

    /// What an id is replaced by, or `Err`: it is hidden.
    #[inline]
    pub(crate) fn find<Q: Ord + crate::trie::Spread + ?Sized>(
        &self,
        id: &Q,
        direction: Direction,
    ) -> Option<Result<&K, ()>>
    where
        K: std::borrow::Borrow<Q>,
    {
        match direction {
            Direction::ToClient => self.metas.get(id).map(Ok),
            Direction::ToService => match self.locals.get(id) {
                Some(local) => Some(Ok(local)),
                None => self.metas.get(id).map(|_| Err(())),
            },
        }
    }

    /// Gives the local id that was this resource's.
    pub(crate) fn insert<Q: Ord + crate::trie::Spread + ?Sized>(
        &mut self,
        meta: K,
        local: K,
    ) -> Result<Option<K>, Unfit>
    where
        K: std::borrow::Borrow<Q>,
    {
        if self.metas.get(local.borrow()).is_some_and(|other| *other != meta) {
            return Err(Unfit::Taken);
        }
        let old = self.remove(meta.borrow());
        if meta != local {
            self.metas.insert(local.clone(), meta.clone());
            self.locals.insert(meta, local);
        }
        Ok(old)
    }

    pub(crate) fn remove<Q: Ord + crate::trie::Spread + ?Sized>(&mut self, meta: &Q) -> Option<K>
    where
        K: std::borrow::Borrow<Q>,
    {
        let local = self.locals.remove(meta)?;
        self.metas.remove(local.borrow());
        Some(local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{ToClient, ToService};

    const META: &str = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
    const LOCAL: &str = "ffffffff-4e5f-6071-8293-000000000001";

    fn mapped(id: &str) -> Found {
        Found::Mapped(id.to_owned())
    }

    #[test]
    fn clients_see_metas_and_know_no_local_id() {
        let mut table = Table::new();
        table.insert(META, LOCAL).unwrap();
        table.insert("cart-1", "7").unwrap();
        assert_eq!(table.find(LOCAL, ToClient), mapped(META));
        assert_eq!(table.find(META, ToService), mapped(LOCAL));
        assert_eq!(table.find(&META.replace('-', "").to_uppercase(), ToService), mapped(LOCAL));
        assert_eq!(table.find(LOCAL, ToService), Found::Hidden);
        assert_eq!(table.find("7", ToService), Found::Hidden);
        assert_eq!(table.find("8", ToService), Found::Unknown);
        assert_eq!(table.find(META, ToClient), Found::Unknown);
        assert_eq!(
            (table.find("7", ToClient), table.find("cart-1", ToService)),
            (mapped("cart-1"), mapped("7"))
        );
    }

    #[test]
    fn an_id_that_is_the_meta_of_one_and_the_local_of_another_is_the_meta_for_clients() {
        let mut table = Table::new();
        table.insert("7", "12").unwrap();
        table.insert("100", "7").unwrap();
        assert_eq!((table.find("7", ToService), table.find("7", ToClient)), (mapped("12"), mapped("100")));
    }

    #[test]
    fn a_new_replica_replaces_the_old_and_a_removed_one_is_forgotten() {
        let mut table = Table::new();
        table.insert("cart", "17").unwrap();
        assert!(!table.keeps_length());
        let snapshot = table.clone();
        table.insert("cart", "1234").unwrap();
        assert!(table.keeps_length());
        assert_eq!((table.find("17", ToService), table.len()), (Found::Unknown, 1));
        assert_eq!(snapshot.find("17", ToService), Found::Hidden);
        assert!(table.remove("cart") && !table.remove("cart") && table.is_empty());
        assert_eq!(table.find("1234", ToService), Found::Unknown);
        assert!(!snapshot.keeps_length() && table.keeps_length());
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut table = Table::new();
        table.insert("a", "1").unwrap();
        for (meta, local, why) in [
            ("b", "1", Unfit::Taken),
            (META, "x", Unfit::Form),
            ("a b", "x", Unfit::Spelling),
            ("a", "", Unfit::Spelling),
        ] {
            assert_eq!(table.insert(meta, local), Err(why));
        }
        assert_eq!((table.find("a", ToService), table.len()), (mapped("1"), 1));
        table.insert("same", "same").unwrap();
        assert_eq!(table.len(), 1);
    }
}
