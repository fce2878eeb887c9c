//! Marks what several sites have in the list of one of them.
//!
//! For whoever merges it, and nobody else: what is beside the items may come in another order.

use std::collections::VecDeque;

use bytes::Bytes;
use profile::List;

use crate::coding::Decoder;
use crate::error::Fault;
use crate::item::Wanted;
use crate::lane::{Lane, Step};
use crate::limits::Limits;
use crate::probe::{Look, Probe};
use crate::scan::Shape;
use crate::tellers::Mark;

/// How much is written before it is given out.
const CHUNK_BYTES: usize = 16 << 10;

/// Whether a source of the merged list has the resource with an id; nothing where only one has it.
type Rule<'a> = &'a dyn Fn(&str) -> Option<Vec<usize>>;

/// A list on its way to whoever merges it. What turns out to be no list stays as it is.
#[derive(Debug)]
pub struct Marking {
    list: List,
    mark: Mark,
    limits: Limits,
    wanted: Wanted,
    state: State,
}

#[derive(Debug)]
enum State {
    /// What has come is not enough to tell a list from a resource.
    Probing {
        probe: Probe,
        bytes: Vec<u8>,
    },
    /// It is a list, of which so many items were written.
    List {
        lane: Box<Lane>,
        shape: Shape,
        items: u64,
    },
    NoList,
}

impl Marking {
    /// For a list that its source sends without any coding.
    #[must_use]
    pub fn new(list: List, mark: Mark, limits: Limits) -> Marking {
        let wanted = Wanted::of_ids(&list);
        let state = State::Probing { probe: Probe::default(), bytes: Vec::new() };
        Marking { list, mark, limits, wanted, state }
    }

    /// Takes more of the list, and gives out what is marked.
    pub fn push(&mut self, bytes: Bytes, has: Rule<'_>, out: &mut VecDeque<Bytes>) -> Result<(), Fault> {
        self.take(bytes, false, has, out)
    }

    /// The list is over.
    pub fn finish(&mut self, has: Rule<'_>, out: &mut VecDeque<Bytes>) -> Result<(), Fault> {
        self.take(Bytes::new(), true, has, out)
    }

    fn take(
        &mut self,
        bytes: Bytes,
        ended: bool,
        has: Rule<'_>,
        out: &mut VecDeque<Bytes>,
    ) -> Result<(), Fault> {
        if let State::Probing { probe, bytes: held } = &mut self.state {
            held.extend_from_slice(&bytes);
            let shape = match probe.push(&bytes, ended, &self.list, &self.limits) {
                Look::Undecided => return Ok(()),
                Look::List(shape @ (Shape::Array | Shape::Member(_))) => Some(shape),
                // Copies in lists of other shapes are told once for each page. What is wrong with it, its reader says.
                Look::List(_) | Look::NotAList | Look::OneResource | Look::Fault(_) => None,
            };
            let held = Bytes::from(std::mem::take(held));
            let Some(shape) = shape else {
                self.state = State::NoList;
                out.push_back(held);
                return Ok(());
            };
            let mut lane = Box::new(Lane::new());
            lane.open(Decoder::new(None, self.limits.expansion)?);
            lane.start(shape.clone(), &self.limits, held);
            self.state = State::List { lane, shape, items: 0 };
        } else if !bytes.is_empty() {
            match &mut self.state {
                State::List { lane, .. } => lane.push(bytes),
                _ => out.push_back(bytes),
            }
        }
        self.write(ended, has, out)
    }

    fn write(&mut self, ended: bool, has: Rule<'_>, out: &mut VecDeque<Bytes>) -> Result<(), Fault> {
        let State::List { lane, shape, items } = &mut self.state else { return Ok(()) };
        if ended {
            lane.end();
        }
        let mut chunk = Vec::new();
        loop {
            match lane.step(&self.wanted)? {
                Step::Item(item) => {
                    if *items == 0 {
                        shape.begin(&mut chunk);
                    } else {
                        chunk.push(b',');
                    }
                    *items += 1;
                    match item.id().and_then(|id| has(&id)) {
                        Some(sources) => {
                            self.mark.write(&item.bytes, |source| sources.contains(&source), &mut chunk);
                        }
                        None => chunk.extend_from_slice(&item.bytes),
                    }
                    if chunk.len() >= CHUNK_BYTES {
                        out.push_back(Bytes::from(std::mem::take(&mut chunk)));
                    }
                }
                Step::Blocked => break,
                Step::Dry => {
                    if *items == 0 {
                        shape.begin(&mut chunk);
                    }
                    chunk.push(b']');
                    if *shape != Shape::Array {
                        for (name, raw) in lane.members.drain(..) {
                            chunk.push(b',');
                            chunk.extend_from_slice(serde_json::Value::from(name).to_string().as_bytes());
                            chunk.push(b':');
                            chunk.extend_from_slice(&raw);
                        }
                        chunk.push(b'}');
                    }
                    break;
                }
            }
        }
        if !chunk.is_empty() {
            out.push_back(Bytes::from(chunk));
        }
        Ok(())
    }
}
