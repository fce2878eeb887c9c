//! Rewrites identifiers in declared places of a JSON document as it comes, and in nothing else.
//!
//! An identifier that other things may have, too, such as a number that counts, is one only where it is said to be: the member
//! `/id` of a document, the member `/post_id` of each item of a list. A document is taken by 64 bytes: which of them are brackets,
//! colons and commas outside of strings is told for all at once. Looked at are only those in containers that lead to such a place;
//! the rest is counted.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use crate::block::{BLOCK, blocks, either_bracket, equal};
use crate::rewriter::Refused;

/// The longest value that is looked at, with the spaces around it. No identifier and no address is longer.
const MOST_BYTES: usize = 8 << 10;
/// So many spaces may stand between a member's name and its colon.
const MOST_SPACES: usize = 16;
/// The longest name of a member, in bytes.
const MOST_NAME: usize = 128;

/// No place is below.
const NONE: u16 = u16::MAX;

/// Where identifiers are in a document. Each place has a number, which says whose they are.
#[derive(Clone, Debug)]
pub struct Places {
    nodes: Arc<Vec<Node>>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    members: Vec<(Box<[u8]>, u16)>,
    /// The last bytes of their names, each as the bit of its lowest six: most names of a document have others.
    lasts: u64,
    each: Option<u16>,
    place: Option<u16>,
}

/// What becomes of a value in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placed {
    /// It stays.
    Keep,
    /// It is this one. A number stays a number where that is one.
    Replace(String),
    /// No client may name it: a 404.
    Hidden,
}

impl Default for Places {
    fn default() -> Places {
        Places { nodes: Arc::new(vec![Node::default()]) }
    }
}

impl Places {
    /// Identifiers are at this JSON pointer, in which `*` is each element of an array. False: that is no such pointer.
    pub fn add(&mut self, pointer: &str, place: u16) -> bool {
        let Some(steps) = pointer.strip_prefix('/') else { return false };
        let nodes = Arc::make_mut(&mut self.nodes);
        let mut at = 0;
        for step in steps.split('/') {
            let step = step.replace("~1", "/").replace("~0", "~");
            let Ok(new) = u16::try_from(nodes.len()) else { return false };
            if new == NONE || step.is_empty() || step.len() > MOST_NAME {
                return false;
            }
            let Some(node) = nodes.get_mut(at) else { return false };
            let known = if step == "*" { node.each } else { node.member(step.as_bytes()) };
            at = usize::from(known.unwrap_or(new));
            if known.is_none() {
                if step == "*" {
                    node.each = Some(new);
                } else {
                    node.lasts |= step.bytes().last().map_or(0, |last| 1 << (last & 63));
                    node.members.push((step.as_bytes().into(), new));
                }
                nodes.push(Node::default());
            }
        }
        if let Some(node) = nodes.get_mut(at) {
            node.place = Some(place);
        }
        true
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    fn node(&self, at: u16) -> Option<&Node> {
        self.nodes.get(usize::from(at))
    }
}

impl Node {
    fn member(&self, name: &[u8]) -> Option<u16> {
        self.members.iter().find(|(own, _)| **own == *name).map(|(_, node)| *node)
    }
}

/// A container that leads to a place, around what comes next.
#[derive(Clone, Copy, Debug)]
struct Frame {
    node: u16,
    array: bool,
}

/// Rewrites one document.
///
/// What is not changed is passed on without a copy. Held back is only a value that may be in a place, of which at most
/// [`PlacesRewriter::MOST_HELD`]. A refusal is final, and what was passed on before it ends before that value.
#[derive(Debug)]
pub struct PlacesRewriter {
    places: Places,
    /// Lengths of names: what stands before a colon is looked at no further back.
    window: usize,
    frames: Vec<Frame>,
    /// Containers around that lead nowhere.
    depth: usize,
    /// What the next value is.
    next: u16,
    /// A value that may be in a place has begun. What came of it in earlier chunks is held.
    pending: Option<u16>,
    held: Vec<u8>,
    /// The last bytes of what came before, for names that were cut.
    tail: Vec<u8>,
    quoted: bool,
    escaped: bool,
    /// So many bytes ago was the last backslash, at least.
    plain: usize,
    seen: usize,
    rewritten: u64,
    refused: Option<Refused>,
}

/// What was done of a chunk.
struct Written<'c> {
    chunk: &'c Bytes,
    copy: Vec<u8>,
    copied: usize,
}

impl PlacesRewriter {
    /// The most bytes that are held back.
    pub const MOST_HELD: usize = MOST_BYTES;

    /// A rewriter of one document.
    #[must_use]
    pub fn new(places: Places) -> PlacesRewriter {
        let names = places.nodes.iter().flat_map(|node| &node.members).map(|(name, _)| name.len());
        let window = names.max().unwrap_or_default() * 6 + MOST_SPACES + 3;
        let pending = places.node(0).and_then(|root| root.place);
        PlacesRewriter {
            places,
            window,
            frames: Vec::new(),
            depth: 0,
            next: 0,
            pending,
            held: Vec::new(),
            tail: Vec::new(),
            quoted: false,
            escaped: false,
            plain: 0,
            seen: 0,
            rewritten: 0,
            refused: None,
        }
    }

    /// How many identifiers were replaced.
    #[must_use]
    pub fn rewritten(&self) -> u64 {
        self.rewritten
    }

    /// How many bytes are held back now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Takes a chunk, and gives what can be passed on.
    pub fn push(
        &mut self,
        chunk: Bytes,
        map: &mut impl FnMut(u16, &str) -> Placed,
        out: &mut impl Extend<Bytes>,
    ) -> Result<(), Refused> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        if chunk.is_empty() {
            return Ok(());
        }
        if self.places.is_empty() {
            out.extend([chunk]);
            return Ok(());
        }
        let start = chunk.get(..chunk.len().min(4 - self.seen)).unwrap_or_default();
        self.seen += start.len();
        let outcome = if start.iter().any(|byte| matches!(byte, 0 | 0xfe | 0xff)) {
            Err(Refused::Encoding)
        } else {
            self.chunk(&chunk, map, out)
        };
        self.refused = outcome.clone().err();
        outcome
    }

    /// The document is over: gives what was held back.
    pub fn finish(&mut self, out: &mut impl Extend<Bytes>) -> Result<(), Refused> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        // A value of a document is ended by its container: what is cut is none.
        if !self.held.is_empty() {
            out.extend([Bytes::from(std::mem::take(&mut self.held))]);
        }
        self.pending = None;
        Ok(())
    }

    fn chunk(
        &mut self,
        chunk: &Bytes,
        map: &mut impl FnMut(u16, &str) -> Placed,
        out: &mut impl Extend<Bytes>,
    ) -> Result<(), Refused> {
        let mut written = Written { chunk, copy: Vec::new(), copied: 0 };
        // Where the pending value starts in this chunk: at its start, if it began before.
        let mut start = 0;
        let (whole, last) = blocks(chunk);
        let mut outcome = Ok(());
        for (index, block) in whole.iter().chain([&last]).enumerate() {
            let base = index * BLOCK;
            let length = chunk.len().saturating_sub(base).min(BLOCK);
            if length == 0 {
                break;
            }
            let outside = self.outside(block, length);
            if let Err(refused) = self.block(block, base, outside, &mut start, &mut written, map) {
                outcome = Err(refused);
                break;
            }
        }
        let end = match self.pending {
            Some(_) => start,
            None => chunk.len(),
        };
        let upto = if outcome.is_err() { start } else { end };
        if outcome.is_err() {
            self.held.clear();
        } else if self.pending.is_some() {
            self.held.extend_from_slice(chunk.get(start..).unwrap_or_default());
            if self.held.len() > MOST_BYTES {
                written.flush(start);
                written.copy.append(&mut self.held);
                written.copied = chunk.len();
                self.pending = None;
            }
        }
        written.end(upto, out);
        self.remember(chunk);
        outcome
    }

    /// Which bytes of a block are outside of strings.
    fn outside(&mut self, block: &[u8; BLOCK], length: usize) -> u64 {
        let mut quotes = equal(block, b'"');
        let backslashes = equal(block, b'\\');
        self.plain = if backslashes == 0 { self.plain.saturating_add(length) } else { 0 };
        if backslashes != 0 || self.escaped {
            let mut escaped = u64::from(self.escaped);
            let mut rest = backslashes & !escaped;
            while rest != 0 {
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                let next = 1_u64.checked_shl(bit + 1).unwrap_or_default();
                escaped |= next;
                rest &= !next;
            }
            quotes &= !escaped;
            // The last byte is a backslash that escapes what comes in the next block.
            let last = 1_u64 << (length - 1);
            self.escaped = backslashes & last != 0 && escaped & last == 0;
        }
        let mut inside = quotes;
        for shift in [1, 2, 4, 8, 16, 32] {
            inside ^= inside << shift;
        }
        if self.quoted {
            inside = !inside;
        }
        self.quoted = inside >> (length - 1) & 1 == 1;
        !inside
    }

    fn block(
        &mut self,
        block: &[u8; BLOCK],
        base: usize,
        outside: u64,
        start: &mut usize,
        written: &mut Written<'_>,
        map: &mut impl FnMut(u16, &str) -> Placed,
    ) -> Result<(), Refused> {
        let (opens, closes) = either_bracket(block);
        let (opens, closes) = (opens & outside, closes & outside);
        // Nothing leads to a place, and nothing in this block leads out of here.
        if self.depth > closes.count_ones() as usize {
            self.depth = self.depth + opens.count_ones() as usize - closes.count_ones() as usize;
            return Ok(());
        }
        let (colons, commas) = (equal(block, b':') & outside, equal(block, b',') & outside);
        let mut events = opens | closes | colons | commas;
        while events != 0 {
            let bit = events & events.wrapping_neg();
            let at = base + bit.trailing_zeros() as usize;
            events ^= bit;
            if self.depth > 0 {
                if opens & bit != 0 {
                    self.depth += 1;
                } else if closes & bit != 0 {
                    self.depth -= 1;
                }
            } else if colons & bit != 0 {
                self.colon(at, start, written.chunk);
            } else if opens & bit != 0 {
                self.open(at, block, base, start, written);
            } else {
                if let Some(place) = self.pending.take() {
                    self.value(place, *start, at, written, map)?;
                }
                if closes & bit != 0 {
                    let _ = self.frames.pop();
                    self.next = NONE;
                } else {
                    self.element(at, start);
                }
            }
        }
        Ok(())
    }

    /// A container begins.
    fn open(
        &mut self,
        at: usize,
        block: &[u8; BLOCK],
        base: usize,
        start: &mut usize,
        written: &mut Written<'_>,
    ) {
        // It is no identifier, but one may be in it.
        if self.pending.take().is_some() {
            written.release(&mut self.held, *start);
        }
        if self.next == NONE {
            self.depth = 1;
            return;
        }
        let array = block.get(at - base) == Some(&b'[');
        self.frames.push(Frame { node: self.next, array });
        self.next = NONE;
        if array {
            self.element(at, start);
        }
    }

    /// A value begins here that is an element of an array, if anything.
    fn element(&mut self, at: usize, start: &mut usize) {
        self.next = NONE;
        let Some(frame) = self.frames.last().filter(|frame| frame.array) else { return };
        let each = self.places.node(frame.node).and_then(|node| node.each);
        self.begin(each, at, start);
    }

    fn begin(&mut self, node: Option<u16>, at: usize, start: &mut usize) {
        self.next = node.unwrap_or(NONE);
        self.pending = node.and_then(|node| self.places.node(node)).and_then(|node| node.place);
        *start = at + 1;
    }

    /// A member has its name.
    #[inline]
    fn colon(&mut self, at: usize, start: &mut usize, chunk: &[u8]) {
        let Some(frame) = self.frames.last().filter(|frame| !frame.array) else { return };
        let Some(node) = self.places.node(frame.node) else { return };
        // Without an escape in it, a name ends as it is written.
        if self.plain > self.window + BLOCK
            && let Some([last, b'"']) = at.checked_sub(2).and_then(|from| chunk.get(from..at))
            && node.lasts >> (last & 63) & 1 == 0
        {
            self.next = NONE;
            return;
        }
        let child = if at >= self.window {
            name_in(chunk.get(at - self.window..at).unwrap_or_default(), node)
        } else {
            let mut before = self.tail.clone();
            before.extend_from_slice(chunk.get(..at).unwrap_or_default());
            name_in(before.get(before.len().saturating_sub(self.window)..).unwrap_or_default(), node)
        };
        if child.is_some() {
            self.begin(child, at, start);
        } else {
            self.next = NONE;
        }
    }

    /// A value that is in a place is over.
    fn value(
        &mut self,
        place: u16,
        start: usize,
        end: usize,
        written: &mut Written<'_>,
        map: &mut impl FnMut(u16, &str) -> Placed,
    ) -> Result<(), Refused> {
        let here = written.chunk.get(start..end).unwrap_or_default();
        let joined;
        let text = if self.held.is_empty() {
            here
        } else {
            self.held.extend_from_slice(here);
            joined = std::mem::take(&mut self.held);
            &joined
        };
        let trimmed = text.trim_ascii();
        let read = if text.len() > MOST_BYTES { None } else { Scalar::read(trimmed) };
        match read.map(|scalar| (map(place, &scalar.text), scalar)) {
            None | Some((Placed::Keep, _)) => {
                if text.len() != here.len() {
                    written.flush(start);
                    written.copy.extend_from_slice(text);
                    written.copied = end;
                }
            }
            Some((Placed::Replace(new), scalar)) => {
                self.rewritten += 1;
                written.flush(start);
                // The spaces around it stay.
                let before = text.len() - text.trim_ascii_start().len();
                written.copy.extend_from_slice(text.get(..before).unwrap_or_default());
                scalar.spell(&new, &mut written.copy);
                written.copy.extend_from_slice(text.get(before + trimmed.len()..).unwrap_or_default());
                written.copied = end;
            }
            Some((Placed::Hidden, scalar)) => return Err(Refused::Hidden(scalar.text.into_owned())),
        }
        Ok(())
    }

    /// Keeps what a name may be cut from.
    fn remember(&mut self, chunk: &[u8]) {
        if chunk.len() >= self.window {
            self.tail.clear();
        }
        self.tail.extend_from_slice(chunk.get(chunk.len().saturating_sub(self.window)..).unwrap_or_default());
        let surplus = self.tail.len().saturating_sub(self.window);
        self.tail.drain(..surplus);
    }
}

impl Written<'_> {
    /// Copies up to here what was not copied.
    fn flush(&mut self, upto: usize) {
        if self.copy.capacity() == 0 {
            self.copy.reserve(self.chunk.len() + self.chunk.len() / 8);
        }
        self.copy.extend_from_slice(self.chunk.get(self.copied..upto).unwrap_or_default());
        self.copied = self.copied.max(upto);
    }

    /// What was held is passed on as it came.
    fn release(&mut self, held: &mut Vec<u8>, start: usize) {
        if !held.is_empty() {
            self.flush(start);
            self.copy.append(held);
        }
    }

    fn end(mut self, upto: usize, out: &mut impl Extend<Bytes>) {
        let whole = if self.copied == 0 && self.copy.is_empty() {
            self.chunk.slice(..upto)
        } else {
            if upto > self.copied {
                self.flush(upto);
            }
            Bytes::from(self.copy)
        };
        if !whole.is_empty() {
            out.extend([whole]);
        }
    }
}

/// The member whose name is the string with which this text ends.
#[inline]
fn name_in(before: &[u8], node: &Node) -> Option<u16> {
    let spaces = before.iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count();
    let (before, _) = before.split_at(before.len() - spaces);
    let before = before.strip_suffix(b"\"").filter(|_| spaces <= MOST_SPACES)?;
    let plain = |(name, child): &(Box<[u8]>, u16)| {
        let rest = before.strip_suffix(&**name)?;
        let quoted = rest.last() == Some(&b'"') && rest.get(..rest.len() - 1)?.last() != Some(&b'\\');
        quoted.then_some(*child)
    };
    node.members.iter().find_map(plain).or_else(|| {
        // Another spelling of it: `\u0069d`.
        let coded = memchr::memchr(b'\\', before).is_some();
        coded.then(|| coded_name(before, node)).flatten()
    })
}

#[cold]
fn coded_name(before: &[u8], node: &Node) -> Option<u16> {
    let opens = |at: &usize| {
        let slashes = before.get(..*at).unwrap_or_default().iter().rev().take_while(|byte| **byte == b'\\');
        before.get(*at) == Some(&b'"') && slashes.count() % 2 == 0
    };
    let start = (0..before.len()).rev().find(opens)?;
    node.member(unescaped(before.get(start + 1..)?)?.as_bytes())
}

/// A number, or a string.
struct Scalar<'s> {
    text: Cow<'s, str>,
    string: bool,
}

impl<'s> Scalar<'s> {
    fn read(value: &'s [u8]) -> Option<Scalar<'s>> {
        if let Some(inner) = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) {
            return Some(Scalar { text: unescaped(inner)?, string: true });
        }
        let text = std::str::from_utf8(value).ok()?;
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return (!text.is_empty()).then(|| Scalar { text: text.into(), string: false });
        }
        // `1.0` and `1e0` are the number 1.
        let number = text.starts_with(|first: char| first.is_ascii_digit() || first == '-');
        let number: f64 = text.parse().ok().filter(|_| number)?;
        let whole = number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&number);
        whole.then(|| Scalar { text: format!("{number:.0}").into(), string: false })
    }

    /// Writes another identifier as this one was spelled.
    fn spell(&self, new: &str, to: &mut Vec<u8>) {
        let digits = !new.is_empty() && new.bytes().all(|byte| byte.is_ascii_digit());
        if !self.string && digits && (new.len() == 1 || !new.starts_with('0')) {
            return to.extend_from_slice(new.as_bytes());
        }
        to.push(b'"');
        for byte in new.bytes() {
            match byte {
                b'"' | b'\\' => to.extend([b'\\', byte]),
                0..0x20 => to.extend(format!("\\u{byte:04x}").bytes()),
                _ => to.push(byte),
            }
        }
        to.push(b'"');
    }
}

/// The content of a JSON string.
fn unescaped(content: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(content).ok()?;
    if !text.contains('\\') {
        return Some(text.into());
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        if next != '\\' {
            plain.push(next);
            continue;
        }
        plain.push(match rest.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => {
                let digits = rest.as_str().get(..4)?;
                let code = u32::from_str_radix(digits, 16).ok()?;
                rest = rest.as_str().get(4..)?.chars();
                char::from_u32(code)?
            }
            other => other,
        });
    }
    Some(plain.into())
}
