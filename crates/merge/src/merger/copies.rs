//! What several sources have: one of them tells it, and only once.

use std::collections::BTreeSet;
use std::fmt;

use super::Merger;
use crate::error::Broken;
use crate::item::{self, Item};
use crate::limits::Limits;
use crate::tellers::{Joining, Tellers};

/// How many copies are looked out for in one answer, where no mark says who tells them. What comes after is told as often
/// as it is there.
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

/// Who tells what several have, and what was told of it.
#[derive(Default)]
pub(super) struct Copies {
    pub(super) tellers: Tellers,
    rule: Option<Rule>,
    told: BTreeSet<String>,
    /// Texts and numbers that were told, and how long they are together.
    values: BTreeSet<String>,
    /// Names of items that were told, where items have names.
    names: BTreeSet<String>,
    value_bytes: usize,
}

impl fmt::Debug for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copies").field("told", &self.told).finish_non_exhaustive()
    }
}

/// What is to be done with an item.
pub(super) enum Telling {
    /// It is told, with this tag in place of its source's.
    Told(Option<Vec<u8>>),
    /// Another source tells it, or has told it.
    LeftOut,
}

impl Merger {
    /// Tells copies of one resource once: what an id is, is asked of this.
    #[must_use]
    pub fn once(mut self, rule: impl Fn(&str) -> Same + 'static) -> Merger {
        self.copies.rule = Some(Box::new(rule));
        self
    }

    /// Who tells what several have: those of earlier pages, and those that answer now. A `^` compares all that its
    /// operands have, so that nothing is left to one of them.
    pub(super) fn fix_tellers(&mut self) {
        self.copies.told.clear();
        self.copies.values.clear();
        self.copies.names.clear();
        self.copies.value_bytes = 0;
        self.copies.tellers = self.page.tellers.clone();
        let marks = |slot: &crate::slot::Slot| slot.is_open() && slot.unconfirmed.is_some();
        if self.copies.tellers.is_empty() && !self.slots.iter().any(marks) {
            return;
        }
        let joining = self.slots.iter().filter(|slot| slot.is_open() && !slot.unique);
        let joining = joining.filter_map(|slot| {
            let site = self.page.asked.get(slot.source)?.site.as_str();
            Some(Joining { source: slot.source, site, unconfirmed: slot.unconfirmed.as_deref() })
        });
        self.copies.tellers.join(&joining.collect::<Vec<_>>());
    }

    /// Sources that do not say readably what others lack. What another tells in their place may be missing.
    pub fn unread(&self) -> impl Iterator<Item = usize> + '_ {
        self.copies.tellers.unread()
    }

    /// Whether another source than this slot's tells an item.
    pub(super) fn is_of_another(&self, index: usize, item: &Item, id: &str) -> bool {
        let slot = self.slots.get(index).filter(|slot| !slot.unique);
        let has = self.page.mark.as_ref().and_then(|mark| item.sources(mark));
        match (slot, has) {
            (Some(slot), Some(has)) => self.copies.tellers.of(has, id) != Some(slot.source),
            _ => false,
        }
    }
}

impl Copies {
    /// Notes a text or a number. Whether it was not told before.
    pub(super) fn is_new(&mut self, value: String, limits: &Limits) -> Result<bool, Broken> {
        self.value_bytes += value.len();
        if self.values.len() >= limits.unique_items || self.value_bytes > limits.held_bytes {
            return Err(Broken::Values);
        }
        let length = value.len();
        let is_new = self.values.insert(value);
        if !is_new {
            self.value_bytes -= length;
        }
        Ok(is_new)
    }

    /// Notes the name of an item. Whether no other has it.
    pub(super) fn is_new_name(&mut self, name: &str, limits: &Limits) -> Result<bool, Broken> {
        self.value_bytes += name.len();
        if self.names.len() >= limits.unique_items || self.value_bytes > limits.held_bytes {
            return Err(Broken::Values);
        }
        Ok(self.names.insert(name.to_owned()))
    }

    pub(super) fn has_values(&self) -> bool {
        !self.values.is_empty()
    }

    /// Whether a text or a number was told.
    pub(super) fn has_told(&self, value: &str) -> bool {
        self.values.contains(value)
    }

    /// What is to be done with an item that its slot tells.
    pub(super) fn look(&mut self, id: Option<&str>, tag: Option<&String>) -> Telling {
        let (Some(rule), Some(id)) = (&self.rule, id) else { return Telling::Told(None) };
        if self.told.contains(id) {
            return Telling::LeftOut;
        }
        let Same::Yes { sites } = rule(id) else { return Telling::Told(None) };
        if self.told.len() < MOST {
            self.told.insert(id.to_owned());
        }
        Telling::Told(sites.zip(tag).map(|(sites, name)| item::tag(name, &sites)))
    }
}
