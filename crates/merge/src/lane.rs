//! One source while it is read: bytes in, items out.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::coding::Decoder;
use crate::error::Fault;
use crate::item::{Item, Wanted};
use crate::limits::Limits;
use crate::scan::{Event, Scan, Shape};

/// What a source has next.
#[derive(Debug)]
pub(crate) enum Step {
    Item(Item),
    /// More of it must be pushed.
    Blocked,
    /// It has been read to its end.
    Dry,
}

/// One source.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Pushed, and not yet decoded.
    inbox: VecDeque<Bytes>,
    inbox_bytes: usize,
    /// Decoded, and not yet cut.
    plain: Bytes,
    decoder: Option<Decoder>,
    scan: Option<Scan>,
    ended: bool,
    /// Read to its end, and sound.
    pub(crate) dry: bool,
    /// All items that came, told or not.
    pub(crate) read: u64,
    /// The members beside the items.
    pub(crate) members: Vec<(String, Vec<u8>)>,
    /// The members beside the items' member, where that is in another.
    pub(crate) inner: Vec<(String, Vec<u8>)>,
}

impl Lane {
    pub(crate) fn new() -> Lane {
        Lane {
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            plain: Bytes::new(),
            decoder: None,
            scan: None,
            ended: false,
            dry: false,
            read: 0,
            members: Vec::new(),
            inner: Vec::new(),
        }
    }

    pub(crate) fn open(&mut self, decoder: Decoder) {
        self.decoder = Some(decoder);
    }

    pub(crate) fn push(&mut self, bytes: Bytes) {
        self.inbox_bytes += bytes.len();
        self.inbox.push_back(bytes);
    }

    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    pub(crate) fn wants(&self, ahead_bytes: usize) -> bool {
        !self.ended && self.inbox_bytes < ahead_bytes
    }

    /// Everything that was pushed and not used.
    pub(crate) fn take_inbox(&mut self) -> Vec<Bytes> {
        self.inbox_bytes = 0;
        self.inbox.drain(..).collect()
    }

    /// What is left of the source is of no use.
    pub(crate) fn close(&mut self) {
        self.take_inbox();
        self.plain.clear();
        self.scan = None;
    }

    /// The next decoded bytes, as they are, with those they were decoded from; none if more must come or,
    /// as `true`, if none will.
    pub(crate) fn bytes(&mut self, raw: Option<&mut Vec<Bytes>>) -> Result<(Bytes, bool), Fault> {
        let Some(decoder) = &mut self.decoder else { return Ok((Bytes::new(), false)) };
        let mut raw = raw;
        while let Some(front) = self.inbox.front_mut() {
            let before = front.clone();
            let plain = decoder.decode(front)?;
            let used = before.len() - front.len();
            if let Some(raw) = &mut raw {
                raw.push(before.slice(..used));
            }
            self.inbox_bytes -= used;
            if front.is_empty() {
                self.inbox.pop_front();
            }
            if !plain.is_empty() {
                return Ok((plain, false));
            }
        }
        if self.ended { decoder.finish().map(|rest| (rest, true)) } else { Ok((Bytes::new(), false)) }
    }

    /// Whether all of it was read, as far as it has come: only space may follow.
    pub(crate) fn is_at_end(&self) -> bool {
        self.plain.is_empty() && self.scan.as_ref().is_some_and(Scan::is_at_end)
    }

    /// From here on it is cut, beginning with these bytes.
    pub(crate) fn start(&mut self, shape: Shape, limits: &Limits, first: Bytes) {
        self.scan = Some(Scan::new(shape, limits));
        self.plain = first;
    }

    /// Reads on to the next item.
    pub(crate) fn step(&mut self, wanted: &Wanted) -> Result<Step, Fault> {
        loop {
            let Some(scan) = &mut self.scan else {
                return Ok(if self.dry { Step::Dry } else { Step::Blocked });
            };
            match scan.step(&mut self.plain, wanted)? {
                Some(Event::Item(item)) => {
                    self.read += 1;
                    return Ok(Step::Item(item));
                }
                Some(Event::Member(name, raw)) => self.members.push((name, raw)),
                Some(Event::Inner(name, raw)) => self.inner.push((name, raw)),
                None => {
                    let (plain, over) = self.bytes(None)?;
                    match (plain.is_empty(), over) {
                        (false, _) => self.plain = plain,
                        (true, false) => return Ok(Step::Blocked),
                        (true, true) => return self.finish(),
                    }
                }
            }
        }
    }

    fn finish(&mut self) -> Result<Step, Fault> {
        if let Some(scan) = self.scan.take() {
            scan.finish()?;
        }
        self.dry = true;
        Ok(Step::Dry)
    }
}
