//! Cuts the bytes of a list into its items and the members beside them, as they come.
//!
//! The structure around items is checked here, byte by byte; what is inside an item or a member only as far
//! as it takes to find its end, and by `item` once it is whole. So whatever leaves is JSON in itself.

use memchr::memchr2;
use serde::de::IgnoredAny;

use crate::error::Fault;
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
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// An item's bytes. Whether they are JSON is for the reader of the item to say.
    Item(Vec<u8>),
    /// A member beside the items: its name, and its value, which is JSON.
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
    value: Value,
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
            value: Value::new(limits.depth),
            key: String::new(),
            items_seen: false,
            envelope_left: limits.envelope_bytes,
            item_bytes: limits.item_bytes,
        }
    }

    /// Takes bytes off the input up to the next event. Without one, all of it is taken.
    pub(crate) fn step(&mut self, input: &mut &[u8]) -> Result<Option<Event>, Fault> {
        loop {
            let limit = match self.state {
                State::InItem => self.item_bytes,
                _ => self.envelope_left,
            };
            match self.state {
                State::InKey | State::InValue | State::InItem => {
                    if !self.value.feed(input, limit).map_err(|fault| self.whose(fault))? {
                        return Ok(None);
                    }
                    if let Some(event) = self.whole()? {
                        return Ok(Some(event));
                    }
                }
                _ => {
                    *input = input.trim_space();
                    let Some((&byte, rest)) = input.split_first() else { return Ok(None) };
                    if self.structure(byte)? {
                        *input = rest;
                    }
                }
            }
        }
    }

    /// The input is over.
    pub(crate) fn finish(&self) -> Result<(), Fault> {
        match self.state {
            State::End if self.items_seen => Ok(()),
            State::End => Err(Fault::Shape),
            _ => Err(Fault::Json("it ends too early")),
        }
    }

    fn whose(&self, fault: Fault) -> Fault {
        match fault {
            Fault::TooLarge("value") if self.state == State::InItem => Fault::TooLarge("an item"),
            Fault::TooLarge("value") => Fault::TooLarge("what is beside the items"),
            fault => fault,
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
    fn whole(&mut self) -> Result<Option<Event>, Fault> {
        let raw = self.value.take();
        if self.state == State::InItem {
            self.state = State::AfterItem;
            return Ok(Some(Event::Item(raw)));
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
            if raw != b"null" {
                return Err(Fault::Shape);
            }
            self.see_items()?;
            return Ok(None);
        }
        check(&raw)?;
        Ok(Some(Event::Member(std::mem::take(&mut self.key), raw)))
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

/// Whether bytes are one JSON value.
pub(crate) fn check(raw: &[u8]) -> Result<(), Fault> {
    let text = std::str::from_utf8(raw).map_err(|_| Fault::Json("it is not UTF-8"))?;
    serde_json::from_str(text).map(|IgnoredAny| ()).map_err(|_| Fault::Json("a value is malformed"))
}

/// One value that is being collected.
#[derive(Debug)]
pub(crate) struct Value {
    bytes: Vec<u8>,
    depth: usize,
    max_depth: usize,
    part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    First,
    Scalar,
    String,
    Escape,
    Inside,
}

impl Value {
    pub(crate) fn new(max_depth: usize) -> Value {
        Value { bytes: Vec::new(), depth: 0, max_depth, part: Part::First }
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.part = Part::First;
        std::mem::take(&mut self.bytes)
    }

    /// Takes bytes of the value off the input, and says whether it is whole.
    pub(crate) fn feed(&mut self, input: &mut &[u8], limit: usize) -> Result<bool, Fault> {
        let mut at = 0;
        let whole = loop {
            let Some(rest) = input.get(at..).filter(|rest| !rest.is_empty()) else { break false };
            let (used, whole) = self.piece(rest)?;
            at += used;
            if whole {
                break true;
            }
        };
        let (own, rest) = input.split_at(at);
        if self.bytes.len() + own.len() > limit {
            return Err(Fault::TooLarge("value"));
        }
        self.bytes.extend_from_slice(own);
        *input = rest;
        Ok(whole)
    }

    /// How many bytes from here are of one kind, and whether the value ends with them.
    fn piece(&mut self, rest: &[u8]) -> Result<(usize, bool), Fault> {
        match self.part {
            Part::First => {
                self.part = match rest.first() {
                    Some(b'"') => Part::String,
                    Some(b'{' | b'[') => {
                        self.depth = 1;
                        Part::Inside
                    }
                    _ => Part::Scalar,
                };
                Ok((1, false))
            }
            Part::Scalar => Ok(match rest.iter().position(|byte| is_delimiter(*byte)) {
                Some(at) => (at, true),
                None => (rest.len(), false),
            }),
            Part::Escape => {
                self.part = Part::String;
                Ok((1, false))
            }
            Part::String => {
                let Some(at) = memchr2(b'"', b'\\', rest) else { return Ok((rest.len(), false)) };
                self.part = match rest.get(at) {
                    Some(b'\\') => Part::Escape,
                    _ => Part::Inside,
                };
                Ok((at + 1, self.part == Part::Inside && self.depth == 0))
            }
            Part::Inside => self.inside(rest),
        }
    }

    fn inside(&mut self, rest: &[u8]) -> Result<(usize, bool), Fault> {
        let is_bracket = |byte: &u8| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']');
        let Some(at) = rest.iter().position(is_bracket) else { return Ok((rest.len(), false)) };
        match rest.get(at) {
            Some(b'"') => self.part = Part::String,
            Some(b'{' | b'[') => {
                self.depth += 1;
                if self.depth > self.max_depth {
                    return Err(Fault::TooLarge("the depth of the answer"));
                }
            }
            _ => self.depth -= 1,
        }
        Ok((at + 1, self.depth == 0))
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
