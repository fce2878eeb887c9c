//! A source that fails: it is as if it had not been asked, unless a part of the answer was given out.

use super::{Late, Merger, Phase};
use crate::error::{Broken, Fault};
use crate::item::Item;
use crate::slot::Status;

impl Merger {
    pub(super) fn lose(&mut self, index: usize, fault: Fault) -> Result<(), Broken> {
        self.look_away(index);
        let is_over = self.phase == Phase::Closing;
        let Some(slot) = self.slots.get_mut(index) else { return Ok(()) };
        if matches!(slot.status, Status::Failed(_) | Status::Idle) {
            return Ok(());
        }
        slot.fail(fault.clone());
        if !self.given {
            self.begin_anew();
            return Ok(());
        }
        // A page that is over lacks nothing of one that has told nothing on it: that one goes on with the next.
        let spared = is_over && slot.written == 0;
        if self.late == Late::Abort && !spared {
            return Err(Broken::Late { source: slot.source, fault });
        }
        Ok(())
    }

    /// Keeps an item that is behind its slot, as long as nothing was given out.
    pub(super) fn log(&mut self, index: usize, item: Item) {
        if self.given {
            return;
        }
        self.logged += item.bytes.len();
        self.log.push((index, item));
        let shares = self.slots.len().saturating_add(1);
        let first = self.limits.first_bytes.saturating_mul(shares);
        let most = if self.hold { self.limits.held_bytes.max(first) } else { first };
        // What is left to others can be long, and nothing of it is given out.
        if self.logged > most {
            self.given_out();
        }
    }

    /// Nothing that was told can be taken back any more.
    pub(super) fn given_out(&mut self) {
        self.given = true;
        self.log = Vec::new();
    }

    /// Tells anew what was told, without the source that failed: what it was to tell, others do.
    fn begin_anew(&mut self) {
        if !matches!(self.phase, Phase::Merging | Phase::Closing) {
            return;
        }
        let mut told: Vec<Vec<Item>> = self.slots.iter().map(|_| Vec::new()).collect();
        for (index, item) in std::mem::take(&mut self.log) {
            if let Some(of) = told.get_mut(index) {
                of.push(item);
            }
        }
        for (slot, told) in self.slots.iter_mut().zip(told) {
            slot.begin_anew(told.into_iter());
        }
        self.fix_tellers();
        self.logged = 0;
        self.items = 0;
        self.before = self.page.before;
        self.out.clear();
        self.ready.clear();
        self.unready = (0..self.slots.len()).rev().collect();
        self.positions = None;
        self.phase = Phase::Merging;
    }
}
