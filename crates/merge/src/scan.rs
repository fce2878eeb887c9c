//! Cuts the bytes of a list into its items and the members beside them, as they come.
//!
//! The structure around items is checked here; what is inside an item or a member by `check`, which finds its
//! end. So whatever leaves is JSON in itself.

use bytes::{Buf, Bytes};

use crate::check::{Check, Flaw, Unwatched};
use crate::error::Fault;
use crate::item::{Item, Reading, Wanted};
use crate::limits::Limits;

/// Where the items of a list are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The answer is an array.
    Array,
    /// They are in this member of an object.
    Member(String),
}

/// What was found.
#[derive(Debug)]
pub(crate) enum Event {
    Item(Item),
    /// A member beside the items: its name, and its value.
    Member(String, Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    /// After `{`, or after `,` in it: `}` is allowed only in the former.
    Key {
        first: bool,
    },
    InKey,
    Colon,
    Value,
    InValue,
    AfterValue,
    /// After `[`, or after `,` in it.
    Item {
        first: bool,
    },
    InItem,
    AfterItem,
    End,
}

/// A list that is being cut.
#[derive(Debug)]
pub(crate) struct Scan {
    shape: Shape,
    state: State,
    check: Check,
    /// What has come of a key, a value or an item that is not whole.
    part: Vec<u8>,
    reading: Reading,
    key: String,
    items_seen: bool,
    envelope_left: usize,
    item_bytes: usize,
}

impl Scan {
    pub(crate) fn new(shape: Shape, limits: &Limits) -> Scan {
        Scan {
            shape,
            state: State::Start,
            check: Check::new(limits.depth),
            part: Vec::new(),
            reading: Reading::default(),
            key: String::new(),
            items_seen: false,
            envelope_left: limits.envelope_bytes,
            item_bytes: limits.item_bytes,
        }
    }

    /// Takes bytes off the input up to the next event. Without one, all of it is taken.
    pub(crate) fn step(&mut self, input: &mut Bytes, wanted: &Wanted) -> Result<Option<Event>, Fault> {
        loop {
            match self.state {
                State::InKey | State::InValue | State::InItem => {
                    let Some(raw) = self.next(input, wanted)? else { return Ok(None) };
                    if let Some(event) = self.whole(raw)? {
                        return Ok(Some(event));
                    }
                }
                _ => {
                    let space = input.len() - input.trim_space().len();
                    input.advance(space);
                    let Some(&byte) = input.first() else { return Ok(None) };
                    if self.structure(byte)? {
                        input.advance(1);
                    }
                }
            }
        }
    }

    /// Takes a key, a value or an item off the input. If it is not whole yet, all of the input is of it.
    fn next(&mut self, input: &mut Bytes, wanted: &Wanted) -> Result<Option<Bytes>, Fault> {
        let before = self.part.len();
        if before > 0 {
            self.part.extend_from_slice(input);
        }
        let text: &[u8] = if before > 0 { &self.part } else { input };
        let end = match self.state {
            State::InItem => self.check.end_in(text, &mut self.reading.of(wanted)),
            _ => self.check.end_in(text, &mut Unwatched),
        };
        let end = end.map_err(|flaw| self.fault(flaw))?;
        let most = if self.state == State::InItem { self.item_bytes } else { self.envelope_left };
        if end.unwrap_or(text.len()) > most {
            return Err(Fault::TooLarge(match self.state {
                State::InItem => "an item",
                _ => "what is beside the items",
            }));
        }
        let Some(end) = end else {
            if before == 0 {
                self.part.extend_from_slice(input);
            }
            input.clear();
            return Ok(None);
        };
        if before == 0 {
            return Ok(Some(input.split_to(end)));
        }
        input.advance(end - before);
        let mut whole = std::mem::take(&mut self.part);
        whole.truncate(end);
        Ok(Some(Bytes::from(whole)))
    }

    /// Whether the list is whole.
    pub(crate) fn is_at_end(&self) -> bool {
        self.state == State::End
    }

    /// The input is over.
    pub(crate) fn finish(&self) -> Result<(), Fault> {
        match self.state {
            State::End if self.items_seen => Ok(()),
            State::End => Err(Fault::Shape),
            _ => Err(Fault::Json("it ends too early")),
        }
    }

    fn fault(&self, flaw: Flaw) -> Fault {
        match (flaw, self.state) {
            (Flaw::TooDeep, _) => Fault::TooLarge("the depth of the answer"),
            (Flaw::Malformed, State::InItem) => Fault::Json("an item is malformed"),
            (Flaw::Malformed, State::InKey) => Fault::Json("a name is malformed"),
            (Flaw::Malformed, _) => Fault::Json("a value is malformed"),
        }
    }

    /// Takes one byte of structure, and says whether it is used up; else a value starts with it.
    fn structure(&mut self, byte: u8) -> Result<bool, Fault> {
        self.state = match (self.state, byte) {
            (State::Start, b'[') if self.shape == Shape::Array => {
                self.items_seen = true;
                State::Item { first: true }
            }
            (State::Start, b'{') if self.shape != Shape::Array => State::Key { first: true },
            (State::Start, b'{' | b'[') => return Err(Fault::Shape),
            (State::Key { first: true } | State::AfterValue, b'}') => State::End,
            (State::AfterItem | State::Item { first: true }, b']') if self.shape == Shape::Array => {
                State::End
            }
            (State::AfterItem | State::Item { first: true }, b']') => State::AfterValue,
            (State::AfterValue, b',') => State::Key { first: false },
            (State::AfterItem, b',') => State::Item { first: false },
            (State::Colon, b':') => State::Value,
            (State::Key { .. }, b'"') => {
                self.state = State::InKey;
                return Ok(false);
            }
            (State::Value, b'[') if self.at_items() => {
                self.see_items()?;
                State::Item { first: true }
            }
            (State::Value | State::Item { .. }, byte) if !is_delimiter(byte) => {
                self.state = if self.state == State::Value { State::InValue } else { State::InItem };
                return Ok(false);
            }
            (State::End, _) => return Err(Fault::Json("it goes on after its end")),
            _ => return Err(Fault::Json("an unexpected character")),
        };
        Ok(true)
    }

    /// A key, a value or an item is whole.
    fn whole(&mut self, raw: Bytes) -> Result<Option<Event>, Fault> {
        std::str::from_utf8(&raw).map_err(|_| Fault::Json("it is not UTF-8"))?;
        if self.state == State::InItem {
            self.state = State::AfterItem;
            return Ok(Some(Event::Item(std::mem::take(&mut self.reading).item(raw))));
        }
        self.envelope_left = self.envelope_left.saturating_sub(raw.len());
        if self.state == State::InKey {
            self.state = State::Colon;
            self.key = serde_json::from_slice(&raw).map_err(|_| Fault::Json("a name is malformed"))?;
            return Ok(None);
        }
        self.state = State::AfterValue;
        if self.at_items() {
            // Programs in Go write an empty list so.
            if *raw != *b"null" {
                return Err(Fault::Shape);
            }
            self.see_items()?;
            return Ok(None);
        }
        Ok(Some(Event::Member(std::mem::take(&mut self.key), raw.to_vec())))
    }

    fn at_items(&self) -> bool {
        matches!(&self.shape, Shape::Member(name) if *name == self.key)
    }

    fn see_items(&mut self) -> Result<(), Fault> {
        if std::mem::replace(&mut self.items_seen, true) {
            return Err(Fault::Json("it has two members with items"));
        }
        Ok(())
    }
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b',' | b']' | b'}' | b':' | b' ' | b'\t' | b'\r' | b'\n')
}

/// JSON's own white space, which is less than ASCII's.
pub(crate) trait JsonSpace {
    fn trim_space(&self) -> &Self;
}

impl JsonSpace for [u8] {
    fn trim_space(&self) -> &[u8] {
        let mut rest = self;
        while let [b' ' | b'\t' | b'\r' | b'\n', tail @ ..] = rest {
            rest = tail;
        }
        rest
    }
}
