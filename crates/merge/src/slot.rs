//! A source's place in the tree: its answer, and how much of it was told.

use std::collections::VecDeque;

use bytes::Bytes;
use profile::Paging;

use crate::early::{Ahead, push_new};
use crate::envelope::Told;
use crate::error::Fault;
use crate::item::{self, Item, Wanted};
use crate::lane::{Lane, Step};
use crate::limits::Limits;
use crate::marker::Position;
use crate::page::{Asked, has_tokens};
use crate::scan::Shape;
use crate::tellers::Mark;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Its answer has not begun.
    Waiting,
    Open,
    /// Nothing was asked of it.
    Idle,
    Failed(Fault),
}

/// Whether an answer is JSON, by its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    Yes,
    /// One value in each line.
    Lines,
    /// As JSON:API has it: what `data` has is the list.
    Api,
    No,
    /// It has no type.
    Unsaid,
}

/// What a slot has to tell next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    Head,
    Dry,
    Blocked,
    /// It was lost, and the answer begins anew without it.
    Lost,
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) source: usize,
    pub(crate) status: Status,
    pub(crate) lane: Lane,
    /// What was read of it before it was known what all are. Bytes come to it as to the lane.
    pub(crate) early: Option<Box<Ahead>>,
    /// Items that were read early, and how many bytes of those that come were.
    ahead: VecDeque<Item>,
    repeated: usize,
    /// It is under a `^`, and told only once that is settled.
    pub(crate) unique: bool,
    pub(crate) json: Json,
    /// What was taken of it to see what it is, as it came.
    pub(crate) raw: Vec<Bytes>,
    /// The next page, as a header tells it.
    pub(crate) link: Option<String>,
    /// The next page, as it was told in any way, once the answer was read to its end.
    pub(crate) next: Option<Told>,
    /// There is more after this answer.
    pub(crate) more: bool,
    /// There is, and nothing says how to ask for it.
    pub(crate) is_lost_for_more: bool,
    /// Its word on what several have, if it marks that.
    pub(crate) unconfirmed: Option<String>,
    /// `"scope_site":"Site1"`, if items are tagged.
    pub(crate) tag: Option<Vec<u8>>,
    pub(crate) head: Option<Item>,
    pub(crate) held: VecDeque<Item>,
    skip: u64,
    /// How many items are behind it: told, or left to another.
    told: u64,
    /// How many of these are in the answer.
    pub(crate) written: u64,
    /// The bytes of the id of the item that was told last, if it has one.
    last: Option<Vec<u8>>,
}

impl Slot {
    pub(crate) fn new(source: usize, asked: &Asked, unique: bool, tag: Option<&String>) -> Slot {
        Slot {
            source,
            status: if asked.position.done { Status::Idle } else { Status::Waiting },
            lane: Lane::new(),
            early: None,
            ahead: VecDeque::new(),
            repeated: 0,
            unique,
            json: Json::Unsaid,
            raw: Vec::new(),
            link: None,
            next: None,
            more: false,
            is_lost_for_more: false,
            unconfirmed: None,
            tag: tag.map(|name| item::tag(name, &asked.site)),
            head: None,
            held: VecDeque::new(),
            skip: asked.skip,
            told: 0,
            written: 0,
            last: None,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.status == Status::Open
    }

    pub(crate) fn push(&mut self, bytes: Bytes) {
        if let Some(early) = &mut self.early {
            early.push(bytes.clone());
        }
        push_new(&mut self.lane, &mut self.repeated, bytes);
    }

    pub(crate) fn end(&mut self) {
        if let Some(early) = &mut self.early {
            early.lane.end();
        }
        self.lane.end();
    }

    /// From here on it is cut into items, beginning with these bytes, unless that was done early.
    pub(crate) fn start(&mut self, shape: &Shape, limits: &Limits, first: Bytes) {
        // What is under a `^` is collected as a whole.
        match self.early.take().filter(|early| early.shape == *shape && !self.unique) {
            Some(early) => {
                self.lane = early.lane;
                self.ahead = early.items;
                self.repeated = early.repeated;
            }
            None => self.lane.start(shape.clone(), limits, first),
        }
    }

    fn step(&mut self, wanted: &Wanted) -> Result<Step, Fault> {
        match self.ahead.pop_front() {
            Some(item) => Ok(Step::Item(item)),
            None => self.lane.step(wanted),
        }
    }

    /// Reads on until there is an item to tell.
    pub(crate) fn fill(&mut self, wanted: &Wanted, mark: Option<&Mark>) -> Result<Ready, Fault> {
        if !self.is_open() {
            return Ok(Ready::Dry);
        }
        while self.head.is_none() {
            let mut item = if self.unique {
                match self.held.pop_front() {
                    Some(item) => item,
                    None => return Ok(Ready::Dry),
                }
            } else {
                match self.step(wanted)? {
                    Step::Item(item) => item,
                    Step::Blocked => return Ok(Ready::Blocked),
                    Step::Dry => return Ok(Ready::Dry),
                }
            };
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            if let Some(mark) = mark {
                item.look_for(mark);
            }
            self.head = Some(item);
        }
        Ok(Ready::Head)
    }

    /// The item to tell, which counts as told.
    pub(crate) fn tell(&mut self) -> Option<Item> {
        let item = self.head.take()?;
        self.told += 1;
        self.last = item.id_in(self.last.take().unwrap_or_default()).filter(|id| !id.is_empty());
        Some(item)
    }

    /// The id of the item that was told last.
    pub(crate) fn last(&self) -> Option<&str> {
        std::str::from_utf8(self.last.as_deref()?).ok()
    }

    /// The id of the item to tell.
    pub(crate) fn head_id(&self) -> Option<String> {
        self.head.as_ref()?.id()
    }

    /// Nothing is behind it any more: it begins anew with these items, which it had told.
    pub(crate) fn begin_anew(&mut self, told: impl DoubleEndedIterator<Item = Item>) {
        self.last = None;
        (self.told, self.written) = (0, 0);
        if !self.is_open() {
            return;
        }
        let queue = if self.unique { &mut self.held } else { &mut self.ahead };
        if let Some(head) = self.head.take() {
            queue.push_front(head);
        }
        told.rev().for_each(|item| queue.push_front(item));
    }

    pub(crate) fn has_told(&self) -> bool {
        self.told > 0
    }

    /// Notes what the answer, read to its end, says of more.
    pub(crate) fn note_next(&mut self, paging: Option<&Paging>, shape: &Shape, asked: &Asked) {
        let Some(paging) = paging else { return };
        self.next = Told::of(paging, shape, &self.lane.members, self.link.as_ref());
        let full = asked.limit.is_some_and(|limit| self.lane.read >= limit);
        self.more = self.next.is_some() || paging.guess && full;
        self.is_lost_for_more =
            !paging.counts() && self.next.as_ref().is_some_and(|next| !next.has_marker(paging));
    }

    pub(crate) fn fail(&mut self, fault: Fault) {
        self.status = Status::Failed(fault);
        self.lane.close();
        self.raw = Vec::new();
        self.head = None;
        self.held.clear();
        self.ahead.clear();
        self.early = None;
    }

    /// Where the next page of this source starts.
    pub(crate) fn position(&self, asked: &Asked, paging: &Paging) -> Position {
        let start = &asked.position;
        let whole = self.is_open()
            && self.lane.dry
            && self.head.is_none()
            && self.held.is_empty()
            && self.ahead.is_empty();
        if start.done || whole && !self.more {
            return Position::done();
        }
        // What was read to its end may have to be told anew. Under a `^`, it is an error.
        if let Some(after) = self.next.as_ref().filter(|_| whole).and_then(|next| next.marker(paging)) {
            return Position { done: false, after: Some(after), skip: self.skip };
        }
        let told = Position { skip: start.skip + self.told, ..start.clone() };
        let by_id = !self.unique && !has_tokens(paging) && !paging.counts();
        match self.last().filter(|_| by_id) {
            Some(last) => Position { done: false, after: Some(last.to_owned()), skip: 0 },
            None => told,
        }
    }
}
