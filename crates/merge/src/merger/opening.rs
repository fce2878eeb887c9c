//! The start of the answer: all sources have answered or failed, and the first tells what they answer.

use std::rc::Rc;

use bytes::Bytes;
use profile::Next;

use super::{CHUNK_BYTES, Merger, Phase, Progress};
use crate::error::{Broken, Fault};
use crate::probe::{Look, Probe};
use crate::scan::{JsonSpace, Shape};
use crate::slot::{Json, Slot, Status};

impl Merger {
    pub(super) fn opening(&mut self) -> Progress {
        if self.slots.iter().any(|slot| slot.status == Status::Waiting) {
            return Progress::Blocked;
        }
        self.fix_tellers();
        self.phase = Phase::Probing;
        Progress::Going
    }

    /// The first source whose answer may be JSON: what it is, the whole is.
    fn probed(&self) -> Option<usize> {
        self.slots.iter().position(|slot| slot.is_open() && slot.json != Json::No)
    }

    /// Another source is looked at, from its start.
    fn look_anew(&mut self) {
        self.probe = Probe::default();
        self.plain.clear();
    }

    /// A source fails, which may be the one that is looked at.
    pub(super) fn look_away(&mut self, index: usize) {
        if self.phase == Phase::Probing && self.probed() == Some(index) {
            self.look_anew();
        }
    }

    pub(super) fn probing(&mut self) -> Result<Progress, Broken> {
        let Some(index) = self.probed() else {
            self.phase = self.without_json();
            return Ok(Progress::Going);
        };
        self.as_api(index);
        let Some(slot) = self.slots.get_mut(index) else { return Err(Broken::Nothing) };
        if slot.json == Json::Lines {
            return self.start(Shape::Lines).map(|()| Progress::Going);
        }
        // Nothing was taken of it yet: reading it early has told.
        if let Some(early) = slot.early.as_ref().filter(|early| early.is_sure && slot.raw.is_empty()) {
            let shape = early.shape.clone();
            return self.start(shape).map(|()| Progress::Going);
        }
        let look = match slot.lane.bytes(Some(&mut slot.raw)) {
            Ok((plain, false)) if plain.is_empty() => return Ok(Progress::Blocked),
            Ok((plain, over)) => {
                self.plain.extend_from_slice(&plain);
                self.probe.push(&plain, over, &self.list, &self.limits)
            }
            Err(fault) => Look::Fault(fault),
        };
        match look {
            Look::Undecided => {}
            // Nobody said that it is JSON, and it does not look like a list: it is some text.
            Look::Fault(Fault::Json(_)) if slot.json == Json::Unsaid && !is_open(&self.plain) => {
                slot.json = Json::No;
                self.look_anew();
            }
            Look::NotAList | Look::OneResource if self.list.declared => self.lose(index, Fault::Shape)?,
            Look::NotAList => self.phase = Phase::NotAList,
            Look::OneResource => {
                self.is_one = true;
                self.phase = Phase::NotAList;
            }
            Look::Fault(fault) => self.lose(index, fault)?,
            Look::List(shape) => self.start(shape)?,
        }
        Ok(Progress::Going)
    }

    /// JSON:API says itself how its lists look.
    fn as_api(&mut self, index: usize) {
        let is_api = self.slots.get(index).is_some_and(|slot| slot.json == Json::Api);
        if is_api && self.list.items.is_none() {
            self.list = Rc::new(self.list.as_json_api());
        }
    }

    /// No source that is left has JSON: that is no list but a resource, if it is anything.
    fn without_json(&self) -> Phase {
        let shapeless = |slot: &Slot| slot.is_open() || slot.status == Status::Failed(Fault::Shape);
        match self.slots.iter().any(Slot::is_open) {
            true if !self.list.declared => Phase::NotAList,
            _ if self.list.declared && self.slots.iter().any(shapeless) => Phase::Broken(Broken::NotAList),
            _ => Phase::Broken(Broken::Nothing),
        }
    }

    /// The source that was looked at is a list of this shape: all must be.
    fn start(&mut self, shape: Shape) -> Result<(), Broken> {
        let mut first = Bytes::from(std::mem::take(&mut self.plain));
        let mut read = 0;
        for index in 0..self.slots.len() {
            let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.is_open()) else { continue };
            slot.raw = Vec::new();
            let other = (slot.json == Json::Lines) != (shape == Shape::Lines) && slot.json != Json::Unsaid;
            if slot.json == Json::No || other {
                self.lose(index, Fault::Shape)?;
            } else {
                read += slot.early.as_ref().map_or(0, |early| early.bytes);
                slot.start(&shape, &self.limits, std::mem::take(&mut first));
            }
        }
        // A quarter more, for tags and commas.
        self.out.reserve((read + read / 4).min(self.limits.first_bytes + CHUNK_BYTES));
        let only_header = |way: &Next| matches!(way, Next::Header(_));
        let by_header = self.list.paging.as_ref().is_some_and(|paging| paging.next.iter().all(only_header));
        let linked = by_header || self.list.paging.is_some() && !shape.has_envelope();
        let has_link = |slot: &Slot| slot.is_open() && slot.link.is_some();
        let may_link = self.list.paging.as_ref().is_some_and(|paging| paging.next.iter().any(only_header));
        self.hold = linked && self.page.paged || may_link && self.slots.iter().any(has_link);
        // Who was lost since then tells nothing.
        self.fix_tellers();
        self.shape = shape;
        self.phase = Phase::Gathering;
        Ok(())
    }
}

/// Whether this starts like a list, or is nothing.
fn is_open(plain: &[u8]) -> bool {
    matches!(plain.trim_space().first(), None | Some(b'{' | b'['))
}
