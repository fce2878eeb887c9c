//! Answers that are read while others are waited for, so that little is left to do once the last is there.

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use profile::List;

use crate::coding::Decoder;
use crate::item::{Item, Wanted};
use crate::lane::{Lane, Step};
use crate::limits::Limits;
use crate::merger::{Head, json_of};
use crate::page::Page;
use crate::probe::{guess, is_beside_items};
use crate::scan::Shape;
use crate::slot::Json;

/// More items of one answer are not read early: each takes more memory than its bytes.
const MOST_ITEMS: usize = 128;

/// There is room for so many from the start, within a kibibyte: more is slow to allocate.
const FEW_ITEMS: usize = 11;

/// Reads the first bytes of answers before it is known which of them are merged.
#[derive(Debug)]
pub struct Early {
    list: Rc<List>,
    wanted: Wanted,
    limits: Limits,
}

/// What was read of an answer.
#[derive(Debug)]
pub struct Ahead {
    pub(crate) shape: Shape,
    /// What was read of it shows that it is a list of this shape, whatever follows.
    pub(crate) is_sure: bool,
    pub(crate) lane: Lane,
    pub(crate) items: VecDeque<Item>,
    /// How many bytes these have.
    pub(crate) bytes: usize,
    /// How many bytes that were read here will be pushed again.
    pub(crate) repeated: usize,
}

impl Early {
    /// For a merge of lists of which a page was planned.
    #[must_use]
    pub fn new(list: impl Into<Rc<List>>, page: &Page, limits: Limits) -> Early {
        let list = list.into();
        Early { wanted: Wanted::new(&list, page), list, limits }
    }

    /// Reads the first bytes of an answer, if they are of a list. What is wrong with them is not told here:
    /// all of it is pushed to the merger too, which takes from here what it would read in the same way.
    pub fn read(&self, head: Head<'_>, bytes: Bytes) -> Option<Box<Ahead>> {
        let repeated = bytes.len();
        let mut lane = Lane::new();
        lane.open(Decoder::new(head.content_encoding, self.limits.expansion).ok()?);
        lane.push(bytes);
        let (first, _) = lane.bytes(None).ok()?;
        let is_probed = first.len() <= self.limits.probe_bytes;
        let shape = match head.content_type.map(json_of) {
            Some(Json::Lines) => Shape::Lines,
            _ => guess(&first, &self.list, &self.limits)?,
        };
        lane.start(shape.clone(), &self.limits, first);
        let (mut items, mut bytes) = (VecDeque::with_capacity(FEW_ITEMS), 0);
        while items.len() < MOST_ITEMS && bytes < self.limits.ahead_bytes {
            match lane.step(&self.wanted).ok()? {
                Step::Item(item) => {
                    bytes += item.bytes.len();
                    items.push_back(item);
                }
                Step::Blocked | Step::Dry => break,
            }
        }
        let is_sure = is_probed && self.is_sure(&shape, &lane);
        Some(Box::new(Ahead { shape, is_sure, lane, items, bytes, repeated }))
    }

    /// Whether a probe would find this shape, too: by what an answer begins with, or by all of it.
    fn is_sure(&self, shape: &Shape, lane: &Lane) -> bool {
        if matches!(shape, Shape::Array | Shape::Lines | Shape::Keyed(None)) || self.list.items.is_some() {
            return true;
        }
        lane.is_at_end() && lane.members.iter().all(|(name, raw)| is_beside_items(name, raw, &self.list))
    }
}

impl Ahead {
    /// More of the answer, or what was read already.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        push_new(&mut self.lane, &mut self.repeated, bytes);
    }
}

/// Pushes what is not a repetition.
pub(crate) fn push_new(lane: &mut Lane, repeated: &mut usize, mut bytes: Bytes) {
    let old = bytes.split_to(bytes.len().min(*repeated));
    *repeated -= old.len();
    if !bytes.is_empty() {
        lane.push(bytes);
    }
}
