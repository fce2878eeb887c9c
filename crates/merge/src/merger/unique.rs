//! `^`: all items of its operands are collected, and those that more than one has are dropped.

use std::collections::{BTreeMap, BTreeSet};

use super::{Merger, Phase, Progress};
use crate::error::Broken;
use crate::item::Item;
use crate::lane::Step;

impl Merger {
    pub(super) fn gathering(&mut self) -> Result<Progress, Broken> {
        let mut blocked = false;
        for index in 0..self.slots.len() {
            let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.unique) else { continue };
            while slot.is_open() && !slot.lane.dry {
                match slot.lane.step(&self.wanted) {
                    Ok(Step::Item(item)) => {
                        self.gathered.0 += 1;
                        self.gathered.1 += item.bytes.len();
                        slot.held.push_back(item.detached());
                    }
                    Ok(Step::Blocked) => {
                        blocked = true;
                        break;
                    }
                    Ok(Step::Dry) => {}
                    Err(fault) => {
                        slot.fail(fault);
                        break;
                    }
                }
                if self.gathered.0 > self.limits.unique_items || self.gathered.1 > self.limits.unique_bytes {
                    return Err(Broken::UniqueItems);
                }
            }
        }
        if blocked {
            return Ok(Progress::Blocked);
        }
        self.settle_uniques()?;
        self.phase = Phase::Merging;
        Ok(Progress::Going)
    }

    /// Drops the items that more than one operand of a `^` has.
    fn settle_uniques(&mut self) -> Result<(), Broken> {
        let mut ids: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for index in 0..self.slots.len() {
            self.note_next(index);
            let Some(slot) = self.slots.get(index).filter(|slot| slot.unique) else { continue };
            if slot.more {
                return Err(Broken::UniquePaged { source: slot.source });
            }
            ids.insert(slot.source, slot.held.iter().filter_map(Item::id).collect());
        }
        if ids.is_empty() {
            return Ok(());
        }
        let kept = self.tree.kept(&ids);
        for slot in self.slots.iter_mut().filter(|slot| slot.unique) {
            let kept = kept.get(&slot.source);
            slot.held.retain(|item| item.id().is_none_or(|id| kept.is_some_and(|kept| kept.contains(&id))));
        }
        Ok(())
    }
}
