//! The merge itself: bytes of sources in, bytes of one answer out.

mod closing;
mod copies;
mod losing;
mod opening;
mod unique;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use bytes::Bytes;
use profile::{List, Next};

use crate::coding::Decoder;
use crate::early::Ahead;
use crate::error::{Broken, Fault};
use crate::item::{Item, Wanted};
use crate::limits::Limits;
use crate::marker::Position;
use crate::order::Rank;
use crate::page::{Page, of_header};
use crate::probe::Probe;
use crate::scan::Shape;
use crate::slot::{Json, Ready, Slot, Status};
use crate::tree::Merged;

pub use copies::Same;
use copies::{Copies, Telling};

/// How large a chunk of the answer becomes before it is given out.
const CHUNK_BYTES: usize = 16 << 10;

/// What a source's answer says before its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head<'a> {
    /// `Content-Type`.
    pub content_type: Option<&'a str>,
    /// `Content-Encoding`.
    pub content_encoding: Option<&'a str>,
    /// `Link`, or the header that the profile names instead ([`Merger::link_header`]).
    pub link: Option<&'a str>,
    /// What the source says of what several have, if it marks that ([`Unconfirmed`](crate::Unconfirmed)).
    pub unconfirmed: Option<&'a str>,
}

/// What happens when a source fails after a part of the answer was given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// The answer breaks off, since its head did not say that something is missing.
    #[default]
    Abort,
    /// The answer goes on without the rest of that source, and [`Merger::failures`] tells.
    Omit,
}

/// What [`Merger::pull`] gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pull {
    /// The next bytes of the answer.
    Chunk(Bytes),
    /// More must be pushed: [`Merger::wants`] says of which sources.
    Pending,
    /// The answer is whole. What sources still have is not needed.
    Done,
    /// It is no list, but one resource: the answer is the nearest source's own, beginning with
    /// [`Merger::take_raw`].
    NotAList,
}

/// A merge of several lists.
#[derive(Debug)]
pub struct Merger {
    list: Rc<List>,
    tree: Merged,
    page: Page,
    limits: Limits,
    late: Late,
    wanted: Wanted,
    /// In the order of the tree.
    slots: Vec<Slot>,
    /// Where each source's slot is, if it has one.
    places: Vec<Option<usize>>,
    shape: Shape,
    phase: Phase,
    probe: Probe,
    /// What was taken of the source that is probed, decoded.
    plain: Vec<u8>,
    ready: BinaryHeap<Reverse<(Rank, usize)>>,
    /// Slots whose next item is not known. Without an order, the current one is the last.
    unready: Vec<usize>,
    positions: Option<Vec<Position>>,
    /// How many items are held for a `^`, and their bytes.
    gathered: (usize, usize),
    items: u64,
    /// How many more items come before the page.
    before: u64,
    out: Vec<u8>,
    /// Nothing is given out before the end, since a header tells the next page.
    hold: bool,
    given: bool,
    /// What is behind each slot, in its order, as long as nothing was given out, and how long it is.
    log: Vec<(usize, Item)>,
    logged: usize,
    copies: Copies,
    header: Option<(String, String)>,
    /// What is no list is certainly one resource.
    is_one: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Answers begin.
    Opening,
    /// The first answer is looked at.
    Probing,
    /// What is under a `^` is collected.
    Gathering,
    /// Items are told.
    Merging,
    /// What follows the items is collected.
    Closing,
    Done,
    NotAList,
    Broken(Broken),
}

/// Whether the merge can go on.
enum Progress {
    Going,
    Blocked,
}

impl Merger {
    /// A merge of the sources of a tree, of which a page was planned.
    #[must_use]
    pub fn new(list: impl Into<Rc<List>>, tree: Merged, page: Page, limits: Limits, late: Late) -> Merger {
        let list = list.into();
        let mut slots: Vec<Slot> = Vec::new();
        let mut places = vec![None; page.asked.len()];
        for (source, unique) in tree.leaves() {
            if let (Some(place @ None), Some(asked)) = (places.get_mut(source), page.asked.get(source)) {
                *place = Some(slots.len());
                slots.push(Slot::new(source, asked, unique, list.tag.as_ref()));
            }
        }
        let before = page.before;
        Merger {
            wanted: Wanted::new(&list, &page),
            unready: (0..slots.len()).rev().collect(),
            list,
            tree,
            page,
            limits,
            late,
            slots,
            places,
            shape: Shape::Array,
            phase: Phase::Opening,
            probe: Probe::default(),
            plain: Vec::new(),
            ready: BinaryHeap::new(),
            positions: None,
            gathered: (0, 0),
            items: 0,
            before,
            out: Vec::new(),
            hold: false,
            given: false,
            log: Vec::new(),
            logged: 0,
            copies: Copies::default(),
            header: None,
            is_one: false,
        }
    }

    /// The header in which the application tells the next page, if it does so.
    #[must_use]
    pub fn link_header(&self) -> &str {
        let ways = self.list.paging.iter().flat_map(|paging| &paging.next);
        let mut names =
            ways.filter_map(|way| if let Next::Header(name) = way { Some(name.as_str()) } else { None });
        names.next().unwrap_or("link")
    }

    /// A source answers. Nothing is given out before each source that was asked did so, or failed; and not
    /// before there is a fair part of the answer, or all of it: a source that fails until then is left out.
    pub fn open(&mut self, source: usize, head: Head<'_>) {
        let decoder = Decoder::new(head.content_encoding, self.limits.expansion);
        let Some(slot) = self.slot(source).filter(|slot| slot.status == Status::Waiting) else { return };
        match decoder {
            Ok(decoder) => {
                slot.status = Status::Open;
                slot.json = head.content_type.map_or(Json::Unsaid, json_of);
                slot.link = head.link.and_then(of_header);
                slot.unconfirmed = head.unconfirmed.map(str::to_owned);
                slot.lane.open(decoder);
            }
            Err(fault) => slot.fail(fault),
        }
    }

    /// More of a source's body.
    pub fn push(&mut self, source: usize, bytes: Bytes) {
        if let Some(slot) = self.slot(source).filter(|slot| slot.is_open()) {
            slot.push(bytes);
        }
    }

    /// What was read of a source's body already. It is pushed all the same, from its start.
    pub fn read_early(&mut self, source: usize, ahead: Box<Ahead>) {
        if let Some(slot) = self.slot(source).filter(|slot| slot.is_open()) {
            slot.early = Some(ahead);
        }
    }

    /// A source's body is whole.
    pub fn end(&mut self, source: usize) {
        if let Some(slot) = self.slot(source) {
            slot.end();
        }
    }

    /// A source has no answer, or no more of it.
    pub fn fail(&mut self, source: usize) {
        let index = self.place(source);
        // What has been read to its end cannot be lost.
        let is_read = |index: &usize| self.slots.get(*index).is_some_and(|slot| slot.lane.dry);
        let index = index.filter(|index| !is_read(index) && self.phase != Phase::Done);
        if let Some(Err(broken)) = index.map(|index| self.lose(index, Fault::Lost)) {
            self.phase = Phase::Broken(broken);
        }
    }

    /// The sources of which more is wanted now, what is needed most first. Pushing what is not wanted costs
    /// memory and nothing else.
    #[must_use]
    pub fn wants(&self) -> Vec<usize> {
        let wants = |slot: &&Slot| slot.is_open() && slot.lane.wants(self.limits.ahead_bytes);
        match self.phase {
            Phase::Done | Phase::NotAList | Phase::Broken(_) => Vec::new(),
            Phase::Closing if self.positions.is_some() => {
                let drained = self.drained();
                let slots = self.slots.iter().enumerate().filter(|(index, _)| drained.contains(index));
                slots.map(|(_, slot)| slot).filter(wants).map(|slot| slot.source).collect()
            }
            _ => {
                let first = self.unready.last().copied();
                let rest = (0..self.slots.len()).filter(|index| Some(*index) != first);
                let slots = first.into_iter().chain(rest).filter_map(|index| self.slots.get(index));
                slots.filter(wants).map(|slot| slot.source).collect()
            }
        }
    }

    /// Goes on as far as what was pushed allows, and gives out what there is.
    pub fn pull(&mut self) -> Result<Pull, Broken> {
        loop {
            let enough = if self.given { CHUNK_BYTES } else { self.limits.first_bytes };
            if self.out.len() >= enough && !self.hold {
                return Ok(self.chunk());
            }
            if self.hold && self.out.len() > self.limits.held_bytes {
                self.phase = Phase::Broken(Broken::Held);
            }
            let progress = match &self.phase {
                Phase::Opening => Ok(self.opening()),
                Phase::Probing => self.probing(),
                Phase::Gathering => self.gathering(),
                Phase::Merging => self.merging(),
                Phase::Closing => self.closing(),
                Phase::NotAList => return Ok(Pull::NotAList),
                Phase::Broken(broken) => return Err(broken.clone()),
                Phase::Done if self.out.is_empty() => return Ok(Pull::Done),
                Phase::Done => return Ok(self.chunk()),
            };
            match progress {
                Ok(Progress::Going) => {}
                Ok(Progress::Blocked) if self.out.is_empty() || self.hold || !self.given => {
                    return Ok(Pull::Pending);
                }
                Ok(Progress::Blocked) => return Ok(self.chunk()),
                Err(broken) => self.phase = Phase::Broken(broken),
            }
        }
    }

    /// Whether the whole answer was given out.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done && self.out.is_empty()
    }

    /// The sources that failed, and why.
    pub fn failures(&self) -> impl Iterator<Item = (usize, &Fault)> {
        self.slots.iter().filter_map(|slot| match &slot.status {
            Status::Failed(fault) => Some((slot.source, fault)),
            _ => None,
        })
    }

    /// The header of the answer that tells the next page, known before the first chunk is given out. Sites'
    /// own headers of that name are not for the client.
    #[must_use]
    pub fn header(&self) -> Option<(&str, &str)> {
        self.header.as_ref().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether what is no list has an id of its own. If not, sites may have told different things.
    #[must_use]
    pub fn is_one_resource(&self) -> bool {
        self.is_one
    }

    /// What was pushed of a source, as it was, where the answer is no list.
    pub fn take_raw(&mut self, source: usize) -> Vec<Bytes> {
        let Some(slot) = self.slot(source) else { return Vec::new() };
        let mut raw = std::mem::take(&mut slot.raw);
        raw.extend(slot.lane.take_inbox());
        raw
    }

    fn place(&self, source: usize) -> Option<usize> {
        self.places.get(source).copied().flatten()
    }

    fn slot(&mut self, source: usize) -> Option<&mut Slot> {
        let place = self.place(source)?;
        self.slots.get_mut(place)
    }

    fn chunk(&mut self) -> Pull {
        self.given_out();
        // The next may be a little longer than it should.
        let room = if self.phase == Phase::Merging { CHUNK_BYTES + CHUNK_BYTES / 8 } else { 0 };
        Pull::Chunk(Bytes::from(std::mem::replace(&mut self.out, Vec::with_capacity(room))))
    }

    fn note_next(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.lane.dry) else { return };
        if let Some(asked) = self.page.asked.get(slot.source) {
            slot.note_next(self.list.paging.as_ref(), &self.shape, asked);
        }
    }

    /// Reads a slot on to its next item. A slot that fails once something was given out is dry.
    fn fill(&mut self, index: usize) -> Result<Ready, Broken> {
        let Some(slot) = self.slots.get_mut(index) else { return Ok(Ready::Dry) };
        let before = slot.lane.dry;
        match slot.fill(&self.wanted, self.page.mark.as_ref()) {
            Ok(ready) => {
                if slot.lane.dry && !before {
                    self.note_next(index);
                }
                Ok(ready)
            }
            Err(fault) => {
                let failed = if self.given { Ready::Dry } else { Ready::Lost };
                self.lose(index, fault).map(|()| failed)
            }
        }
    }

    fn is_full(&self) -> bool {
        self.page.limit.is_some_and(|limit| self.items >= limit)
    }

    /// Tells one item, or finds that the page is at its end: it is full, or has come to where a source that
    /// has more has run dry. To go on from there would break the order, or tell a later source too early.
    fn merging(&mut self) -> Result<Progress, Broken> {
        if self.is_full() {
            self.phase = Phase::Closing;
            return Ok(Progress::Going);
        }
        while let Some(index) = self.unready.last().copied() {
            match self.fill(index)? {
                Ready::Blocked => return Ok(Progress::Blocked),
                Ready::Lost => return Ok(Progress::Going),
                Ready::Dry => {
                    self.unready.pop();
                    if self.slots.get(index).is_some_and(|slot| slot.is_open() && slot.more) {
                        if self.page.by_number {
                            let source = self.slots.get(index).map_or(0, |slot| slot.source);
                            return Err(Broken::Window { source });
                        }
                        self.phase = Phase::Closing;
                        return Ok(Progress::Going);
                    }
                }
                Ready::Head if self.page.order.is_none() => {
                    return self.tell(index).map(|()| Progress::Going);
                }
                Ready::Head => {
                    self.unready.pop();
                    let item = self.slots.get(index).and_then(|slot| slot.head.as_ref());
                    if let (Some(order), Some(item)) = (&self.page.order, item) {
                        let rank = order.rank((1..).map(|field| item.field(field)));
                        self.ready.push(Reverse((rank, index)));
                    }
                }
            }
        }
        match self.ready.pop() {
            None => self.phase = Phase::Closing,
            Some(Reverse((_, index))) => {
                self.unready.push(index);
                self.tell(index)?;
            }
        }
        Ok(Progress::Going)
    }

    /// Writes a slot's item, unless another source tells it.
    fn tell(&mut self, index: usize) -> Result<(), Broken> {
        let Some(slot) = self.slots.get_mut(index) else { return Ok(()) };
        // A slot may have failed since it had this item.
        let Some(item) = slot.tell() else { return Ok(()) };
        if self.is_left_out(index, &item) || !self.is_new_value(&item)? {
            self.log(index, item);
            return Ok(());
        }
        let Some(slot) = self.slots.get_mut(index) else { return Ok(()) };
        let Telling::Told(tag) = self.copies.look(slot.last(), self.list.tag.as_ref()) else {
            self.log(index, item);
            return Ok(());
        };
        if item.is_named() && !self.copies.is_new_name(slot.last().unwrap_or_default(), &self.limits)? {
            return Err(Broken::SameName { name: slot.last().unwrap_or_default().to_owned() });
        }
        slot.written += 1;
        if self.before > 0 {
            // Of a page before this one.
            self.before -= 1;
            self.log(index, item);
            return Ok(());
        }
        if self.items == 0 {
            self.shape.begin(&mut self.out);
        } else if self.shape != Shape::Lines {
            self.out.push(b',');
        }
        self.items += 1;
        item.write(tag.as_deref().or(slot.tag.as_deref()), &mut self.out);
        if self.shape == Shape::Lines {
            self.out.push(b'\n');
        }
        self.log(index, item);
        Ok(())
    }

    /// Whether a text or a number is told for the first time: lists of these are sets.
    fn is_new_value(&mut self, item: &Item) -> Result<bool, Broken> {
        let Some(value) = item.value() else { return Ok(true) };
        if self.page.limit.is_some() && self.page.order.is_none() && self.slots.len() > 1 {
            return Err(Broken::ValuesPaged);
        }
        self.copies.is_new(value, &self.limits)
    }

    /// Whether an item that its slot has just told is another's to tell.
    fn is_left_out(&self, index: usize, item: &Item) -> bool {
        let id = self.slots.get(index).filter(|_| item.is_marked()).and_then(Slot::last);
        id.is_some_and(|id| self.is_of_another(index, item, id))
    }
}

/// Which JSON a media type is.
pub(crate) fn json_of(content_type: &str) -> Json {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" | "application/x-jsonlines" => {
            Json::Lines
        }
        "application/vnd.api+json" => Json::Api,
        "application/json" | "text/json" => Json::Yes,
        _ if essence.ends_with("+json") => Json::Yes,
        _ => Json::No,
    }
}
