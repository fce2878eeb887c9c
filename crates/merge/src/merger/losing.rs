//! A source that fails: it is as if it had not been asked, unless a part of the answer was given out.

use super::{Late, Merger, Phase, begin};
use crate::error::{Broken, Fault};
use crate::slot::Status;

impl Merger {
    pub(super) fn lose(&mut self, index: usize, fault: Fault) -> Result<(), Broken> {
        let Some(slot) = self.slots.get_mut(index) else { return Ok(()) };
        if matches!(slot.status, Status::Failed(_) | Status::Idle) {
            return Ok(());
        }
        slot.fail(fault.clone());
        if self.given && self.late == Late::Abort {
            return Err(Broken::Late { source: slot.source, fault });
        }
        if !self.given && slot.has_told() {
            self.take_back(index);
        }
        Ok(())
    }

    /// An item of this slot was written from here on.
    pub(super) fn ran(&mut self, index: usize, start: usize) {
        if self.given {
            return;
        }
        match self.runs.last_mut() {
            Some((last, run)) if *last == index => run.end = self.out.len(),
            _ => self.runs.push((index, start..self.out.len())),
        }
    }

    /// Takes back the items that a slot has told, of which none was given out.
    fn take_back(&mut self, index: usize) {
        let was_full = self.is_full();
        if let Some(slot) = self.slots.get_mut(index) {
            self.items = self.items.saturating_sub(slot.take_back());
        }
        let told = std::mem::take(&mut self.out);
        let runs = std::mem::take(&mut self.runs);
        for (other, run) in runs.into_iter().filter(|(other, _)| *other != index) {
            if self.out.is_empty() {
                begin(&self.shape, &mut self.out);
            } else {
                self.out.push(b',');
            }
            let start = self.out.len();
            self.out.extend_from_slice(told.get(run).unwrap_or_default());
            self.ran(other, start);
        }
        self.positions = None;
        if was_full && self.phase == Phase::Closing {
            // There is room again.
            self.phase = Phase::Merging;
        }
    }
}
