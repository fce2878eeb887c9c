//! A source that fails: it is as if it had not been asked, unless a part of the answer was given out.

use std::ops::Range;

use super::{Late, Merger, Phase, begin};
use crate::error::{Broken, Fault};
use crate::slot::Status;

impl Merger {
    pub(super) fn lose(&mut self, index: usize, fault: Fault) -> Result<(), Broken> {
        self.look_away(index);
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
    pub(super) fn ran(&mut self, index: usize, start: usize, id: Option<String>) {
        if self.given {
            return;
        }
        let end = self.out.len();
        match self.runs.last_mut() {
            Some(run) if run.index == index && run.id.is_none() && id.is_none() => {
                run.range.end = end;
                run.items += 1;
            }
            _ => self.runs.push(Run { index, range: start..end, items: 1, id }),
        }
    }

    /// Takes back the items that a slot has told, of which none was given out.
    fn take_back(&mut self, index: usize) {
        let was_full = self.is_full();
        if let Some(slot) = self.slots.get_mut(index) {
            slot.take_back();
        }
        self.copies.forget(index);
        let told = std::mem::take(&mut self.out);
        self.items = 0;
        for mut run in std::mem::take(&mut self.runs) {
            let mut bytes = told.get(run.range.clone()).unwrap_or_default();
            // Another source's copy takes the place of what is lost.
            let spare = run.id.as_ref().filter(|_| run.index == index);
            let spare = spare.and_then(|id| self.copies.instead(id));
            match &spare {
                Some((other, copy)) => (run.index, bytes) = (*other, copy),
                None if run.index == index => continue,
                None => {}
            }
            if self.out.is_empty() {
                begin(&self.shape, &mut self.out);
            } else {
                self.out.push(b',');
            }
            let start = self.out.len();
            self.out.extend_from_slice(bytes);
            self.items += run.items;
            self.runs.push(Run { range: start..self.out.len(), ..run });
        }
        self.positions = None;
        if was_full && self.phase == Phase::Closing {
            // There is room again.
            self.phase = Phase::Merging;
        }
    }
}

/// Items of one slot in what is not given out yet.
#[derive(Debug)]
pub(super) struct Run {
    index: usize,
    range: Range<usize>,
    items: u64,
    /// Of one item that others may be copies of.
    id: Option<String>,
}
