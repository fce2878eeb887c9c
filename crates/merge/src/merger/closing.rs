//! The end of the answer: what is beside the items, and where the next page starts.

use profile::Next;

use super::{Merger, Phase, Progress};
use crate::envelope::{self, Told};
use crate::error::Broken;
use crate::item::Item;
use crate::lane::Step;
use crate::marker::Position;
use crate::page::Asked;
use crate::scan::Shape;
use crate::slot::{Ready, Slot};

impl Merger {
    pub(super) fn closing(&mut self) -> Result<Progress, Broken> {
        if !self.given && !self.slots.iter().any(Slot::is_open) {
            return Err(Broken::Nothing);
        }
        if self.positions.is_none() {
            if let Progress::Blocked = self.look_ahead()? {
                return Ok(Progress::Blocked);
            }
            if self.phase != Phase::Closing {
                return Ok(Progress::Going);
            }
            self.positions = Some(self.all_positions());
        }
        for index in self.drained() {
            while let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.is_open() && !slot.lane.dry) {
                match slot.lane.step(&self.wanted) {
                    Ok(Step::Item(_)) => {}
                    Ok(Step::Blocked) => return Ok(Progress::Blocked),
                    Ok(Step::Dry) => self.note_next(index),
                    Err(fault) => {
                        self.lose(index, fault)?;
                        return Ok(Progress::Going);
                    }
                }
            }
        }
        let has_more = |slot: &Slot| slot.is_open() && slot.more;
        if self.copies.has_values() && self.page.order.is_none() && self.slots.iter().any(has_more) {
            // A source alone repeats nothing.
            if self.slots.len() > 1 {
                return Err(Broken::ValuesPaged);
            }
        }
        if let Some(slot) = self.slots.iter().find(|slot| slot.is_open() && slot.is_lost_for_more) {
            return Err(Broken::NextUnknown { source: slot.source });
        }
        self.finish();
        self.phase = Phase::Done;
        Ok(Progress::Going)
    }

    /// A full page has a next one only if something is left: finds out, so that the last page says so.
    fn look_ahead(&mut self) -> Result<Progress, Broken> {
        let left =
            |slot: &Slot| slot.is_open() && (slot.head.is_some() || !slot.held.is_empty() || slot.more);
        if let Progress::Blocked = self.pass_over()? {
            return Ok(Progress::Blocked);
        }
        if !self.is_full() {
            return Ok(Progress::Going);
        }
        // Whether a page that was told in part was told in full is also what its token depends on.
        for index in 0..self.slots.len() {
            let begun = self.slots.get(index).is_some_and(Slot::has_told);
            if begun && self.fill(index)? == Ready::Blocked {
                return Ok(Progress::Blocked);
            }
        }
        let mut blocked = false;
        for index in 0..self.slots.len() {
            if self.slots.iter().any(left) {
                return Ok(Progress::Going);
            }
            blocked |= self.fill(index)? == Ready::Blocked;
        }
        Ok(if blocked && !self.slots.iter().any(left) { Progress::Blocked } else { Progress::Going })
    }

    /// Reads on in each source over what others tell, so that it does not come back on a page of its own.
    fn pass_over(&mut self) -> Result<Progress, Broken> {
        let mut blocked = false;
        for index in 0..self.slots.len() {
            while self.slots.get(index).is_some_and(|slot| slot.is_open() && self.may_leave_out(slot)) {
                match self.fill(index)? {
                    Ready::Head if self.is_next_left_out(index) => self.tell(index)?,
                    Ready::Blocked => {
                        blocked = true;
                        break;
                    }
                    Ready::Head | Ready::Dry | Ready::Lost => break,
                }
                if self.phase != Phase::Closing {
                    return Ok(Progress::Going);
                }
            }
        }
        Ok(if blocked { Progress::Blocked } else { Progress::Going })
    }

    /// Whether others may have told what a source has next.
    fn may_leave_out(&self, slot: &Slot) -> bool {
        slot.unconfirmed.is_some() || self.copies.has_values()
    }

    fn is_next_left_out(&self, index: usize) -> bool {
        let Some(slot) = self.slots.get(index) else { return false };
        let value = slot.head.as_ref().and_then(Item::value);
        if value.is_some_and(|value| self.copies.has_told(&value)) {
            return true;
        }
        let id = slot.head_id();
        slot.head.as_ref().zip(id).is_some_and(|(item, id)| self.is_of_another(index, item, &id))
    }

    fn all_positions(&self) -> Vec<Position> {
        let Some(paging) = &self.list.paging else { return Vec::new() };
        let position = |(source, asked): (usize, &Asked)| {
            let slot = self.place(source).and_then(|place| self.slots.get(place));
            slot.map_or_else(|| asked.position.clone(), |slot| slot.position(asked, paging))
        };
        self.page.asked.iter().enumerate().map(position).collect()
    }

    /// The slots that are read to their end for what is beside the items.
    pub(super) fn drained(&self) -> Vec<usize> {
        let open = (0..self.slots.len()).filter(|index| self.slots.get(*index).is_some_and(Slot::is_open));
        let most = match &self.shape {
            shape if !shape.has_envelope() => 0,
            _ if self.has_sums() => usize::MAX,
            _ => 1,
        };
        open.take(most).collect()
    }

    /// Whether there is anything beside the items to be made of all sources'. What the first does not have is not.
    fn has_sums(&self) -> bool {
        let first = self.slots.iter().find(|slot| slot.is_open());
        let of_all: Vec<&str> =
            self.list.sum.iter().chain(&self.list.join).filter_map(|path| path.split('.').next()).collect();
        first.is_some_and(|slot| slot.lane.members.iter().any(|(name, _)| of_all.contains(&name.as_str())))
    }

    fn finish(&mut self) {
        let next = self.next();
        if self.items == 0 {
            self.shape.begin(&mut self.out);
        }
        self.shape.end(&mut self.out);
        if self.shape.has_envelope() {
            let drained = self.drained();
            if let Shape::Inner(..) = self.shape {
                let first = drained.first().and_then(|index| self.slots.get(*index));
                first.iter().flat_map(|slot| &slot.lane.inner).for_each(|(name, raw)| {
                    envelope::member(name, raw, &mut self.out);
                });
                self.out.push(b'}');
            }
            let members =
                drained.iter().filter_map(|index| self.slots.get(*index)).map(|slot| &slot.lane.members);
            let all: Vec<&envelope::Members> = members.collect();
            let next = next.as_ref().map(|(way, value)| (way, value.as_str()));
            envelope::write(&self.list, &self.shape, &all, next, &mut self.out);
            self.out.push(b'}');
        }
        if let Some((Next::Header(name), url)) = next {
            self.header = Some((name, format!("<{url}>; rel=\"next\"")));
        }
        for slot in &mut self.slots {
            slot.lane.close();
        }
    }

    /// How the next page is told, and its URL or token, if there is one.
    fn next(&self) -> Option<(Next, String)> {
        let paging = self.list.paging.as_ref()?;
        let has_more = |slot: &Slot| slot.is_open() && slot.more;
        // Whoever takes no pages is not told of one, only because a site was missing.
        if !self.page.paged && !self.slots.iter().any(has_more) {
            return None;
        }
        let marker = self.page.marker(self.positions.as_deref()?, &self.copies.tellers)?;
        let seen: Option<&Told> = self.slots.iter().find_map(|slot| slot.next.as_ref());
        let is_body = |way: &&Next| !matches!(way, Next::Header(_));
        let way = if self.hold {
            Next::Header(self.link_header().to_owned())
        } else {
            seen.map(|told| &told.way).filter(is_body).or(paging.next.iter().find(is_body))?.clone()
        };
        let absolute = seen.map_or(matches!(way, Next::Links(_) | Next::Header(_)), Told::is_absolute);
        let value = match way {
            Next::Token(_) => marker,
            _ => self.page.url(paging, &marker, absolute),
        };
        Some((way, value))
    }
}
