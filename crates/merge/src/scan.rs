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
    /// They are in a member of a member, which is an object: `{"_embedded": {"orders": [...]}}`.
    Inner(String, String),
    /// They are the members of the answer, or of a member of it, each named by its id: `{"a": {...}}`.
    Keyed(Option<String>),
    /// One after the other, each in a line: NDJSON.
    Lines,
}

impl Shape {
    /// Whether anything can be beside the items.
    pub(crate) fn has_envelope(&self) -> bool {
        match self {
            Shape::Array | Shape::Keyed(None) | Shape::Lines => false,
            Shape::Member(_) | Shape::Inner(..) | Shape::Keyed(Some(_)) => true,
        }
    }

    /// Writes the start of a list, up to its first item.
    pub(crate) fn begin(&self, out: &mut Vec<u8>) {
        let mut name = |name: &str| {
            out.push(b'{');
            out.extend_from_slice(serde_json::Value::from(name).to_string().as_bytes());
            out.push(b':');
        };
        match self {
            Shape::Member(member) | Shape::Keyed(Some(member)) => name(member),
            Shape::Inner(outer, inner) => [outer, inner].into_iter().for_each(|own| name(own)),
            Shape::Array | Shape::Keyed(None) | Shape::Lines => {}
        }
        match self {
            Shape::Lines => {}
            Shape::Keyed(_) => out.push(b'{'),
            Shape::Array | Shape::Member(_) | Shape::Inner(..) => out.push(b'['),
        }
    }

    /// Writes the end of the items.
    pub(crate) fn end(&self, out: &mut Vec<u8>) {
        match self {
            Shape::Lines => {}
            Shape::Keyed(_) => out.push(b'}'),
            Shape::Array | Shape::Member(_) | Shape::Inner(..) => out.push(b']'),
        }
    }

    fn is_keyed(&self) -> bool {
        matches!(self, Shape::Keyed(_))
    }
}

/// What was found.
#[derive(Debug)]
pub(crate) enum Event {
    Item(Item),
    /// A member beside the items: its name, and its value.
    Member(String, Vec<u8>),
    /// The same, within the member that has the items' member.
    Inner(String, Vec<u8>),
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
    /// The name of an item.
    InItemKey,
    ItemColon,
    ItemValue,
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
    /// The name of the item that comes.
    item_key: Option<Bytes>,
    /// Inside of the member that has the items' member.
    inside: bool,
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
            item_key: None,
            inside: false,
            items_seen: false,
            envelope_left: limits.envelope_bytes,
            item_bytes: limits.item_bytes,
        }
    }

    /// Takes bytes off the input up to the next event. Without one, all of it is taken.
    pub(crate) fn step(&mut self, input: &mut Bytes, wanted: &Wanted) -> Result<Option<Event>, Fault> {
        loop {
            match self.state {
                State::InKey | State::InValue | State::InItem | State::InItemKey => {
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
        let lines = self.shape == Shape::Lines;
        match self.state {
            State::Start | State::AfterItem if lines => Ok(()),
            // Such services leave out what would be empty.
            State::End if matches!(self.shape, Shape::Inner(..)) => Ok(()),
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
            (State::Start | State::AfterItem, _) if self.shape == Shape::Lines => {
                self.items_seen = true;
                self.state = State::InItem;
                return Ok(false);
            }
            (State::Start, b'{') if self.shape == Shape::Keyed(None) => {
                self.items_seen = true;
                State::Item { first: true }
            }
            (State::Start, b'{') if self.shape != Shape::Array => State::Key { first: true },
            (State::Start, b'{' | b'[') => return Err(Fault::Shape),
            (State::Key { first: true } | State::AfterValue, b'}') if self.inside => {
                self.inside = false;
                State::AfterValue
            }
            (State::Key { first: true } | State::AfterValue, b'}') => State::End,
            (State::AfterItem | State::Item { first: true }, b'}') if self.shape.is_keyed() => {
                if self.shape == Shape::Keyed(None) { State::End } else { State::AfterValue }
            }
            (State::Item { .. }, byte) if self.shape.is_keyed() => {
                if byte != b'"' {
                    return Err(Fault::Json("an unexpected character"));
                }
                self.state = State::InItemKey;
                return Ok(false);
            }
            (State::ItemColon, b':') => State::ItemValue,
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
            (State::Value, b'{') if self.at_outer() => {
                self.inside = true;
                State::Key { first: true }
            }
            (State::Value, b'{') if self.shape.is_keyed() && self.at_items() => {
                self.see_items()?;
                State::Item { first: true }
            }
            (State::Value, b'[') if !self.shape.is_keyed() && self.at_items() => {
                self.see_items()?;
                State::Item { first: true }
            }
            (State::Value | State::Item { .. } | State::ItemValue, byte) if !is_delimiter(byte) => {
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
            let item = std::mem::take(&mut self.reading).item(raw);
            return match self.item_key.take() {
                Some(key) => item.named(key).map(|item| Some(Event::Item(item))),
                None => Ok(Some(Event::Item(item))),
            };
        }
        if self.state == State::InItemKey {
            (self.state, self.item_key) = (State::ItemColon, Some(raw));
            return Ok(None);
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
        if self.at_outer() {
            return if *raw == *b"null" { Ok(None) } else { Err(Fault::Shape) };
        }
        let name = std::mem::take(&mut self.key);
        let member = if self.inside { Event::Inner } else { Event::Member };
        Ok(Some(member(name, raw.to_vec())))
    }

    fn at_items(&self) -> bool {
        match &self.shape {
            Shape::Member(name) | Shape::Keyed(Some(name)) => *name == self.key,
            Shape::Inner(_, name) => self.inside && *name == self.key,
            Shape::Array | Shape::Keyed(None) | Shape::Lines => false,
        }
    }

    fn at_outer(&self) -> bool {
        matches!(&self.shape, Shape::Inner(outer, _) if !self.inside && *outer == self.key)
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
