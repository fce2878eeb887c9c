//! Copies of one resource, which several sources have: told once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::Merger;
use crate::item;

/// How many copies are looked out for in one list. What comes after is told as often as it is there.
const MOST: usize = 100_000;

/// What the items with one id are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Same {
    /// Each source's own, and equal by chance.
    No,
    /// Copies of one resource.
    Yes {
        /// Where it is, for the tag of what is told; else that of the source that is told.
        sites: Option<String>,
    },
}

type Rule = Box<dyn Fn(&str) -> Same>;

/// Which items were told that others may be copies of.
#[derive(Default)]
pub(super) struct Copies {
    rule: Option<Rule>,
    told: BTreeSet<String>,
    /// Left out while nothing was given out: the slot, and what it would have told. If the source that told it fails,
    /// these take its place.
    spare: BTreeMap<String, Vec<(usize, Vec<u8>)>>,
}

impl fmt::Debug for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copies").field("told", &self.told).finish_non_exhaustive()
    }
}

/// What is to be done with an item.
pub(super) enum Telling {
    /// It is one of its kind.
    Alone,
    /// The first of several: this is its id, and its tag.
    First(String, Option<Vec<u8>>),
    /// One was told.
    Again(String),
}

impl Merger {
    /// Tells copies of one resource once: what an id is, is asked of this.
    #[must_use]
    pub fn once(mut self, rule: impl Fn(&str) -> Same + 'static) -> Merger {
        self.copies.rule = Some(Box::new(rule));
        self
    }
}

impl Copies {
    pub(super) fn look<'i>(&mut self, id: impl FnOnce() -> Option<&'i str>, tag: Option<&String>) -> Telling {
        let Some(rule) = &self.rule else { return Telling::Alone };
        let Some(id) = id() else { return Telling::Alone };
        if self.told.contains(id) {
            return Telling::Again(id.to_owned());
        }
        let Same::Yes { sites } = rule(id) else { return Telling::Alone };
        if self.told.len() >= MOST {
            return Telling::Alone;
        }
        self.told.insert(id.to_owned());
        let tag = sites.zip(tag).map(|(sites, name)| item::tag(name, &sites));
        Telling::First(id.to_owned(), tag)
    }

    /// Keeps what was left out, as long as it may be needed.
    pub(super) fn spare(&mut self, id: String, index: usize, bytes: Vec<u8>) {
        self.spare.entry(id).or_default().push((index, bytes));
    }

    /// What takes the place of an item whose source failed.
    pub(super) fn instead(&mut self, id: &str) -> Option<(usize, Vec<u8>)> {
        let spare = self.spare.get_mut(id).filter(|spare| !spare.is_empty());
        let instead = spare.map(|spare| spare.remove(0));
        if instead.is_none() {
            self.told.remove(id);
        }
        instead
    }

    /// What a source that failed left out is not there any more.
    pub(super) fn forget(&mut self, failed: usize) {
        for spare in self.spare.values_mut() {
            spare.retain(|(index, _)| *index != failed);
        }
    }

    /// Nothing that was told can be taken back any more.
    pub(super) fn given(&mut self) {
        self.spare = BTreeMap::new();
    }
}
