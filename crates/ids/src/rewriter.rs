//! Rewrites the identifiers in a JSON body, as it comes.

use std::fmt;

use bytes::{Buf, Bytes};
use memchr::memchr;

use crate::find::{self, Text, opens_escape};
use crate::id::{DASHED, MOST_BYTES, is_id};
use crate::spelling::{Counted, Quotes, Spelling};
use crate::table::{Direction, Seen, Table};

/// As much as stays in a processor's cache while it is gone over several times.
const BLOCK: usize = 32 << 10;

/// A run of characters longer than this is no token, also if its first are an escape's.
const LONGEST_RUN: usize = MOST_BYTES + 6;

/// How many bytes of a chunk are joined with those held back. More than can be held back of both.
const BORDER: usize = 2 * LONGEST_RUN;

/// Why a body goes no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The client names a replica's local id, this one: a 404.
    Hidden(String),
    /// It is not in UTF-8, as JSON is: what it names cannot be told. A 415.
    Encoding,
    /// One string has thousands of letters and digits written as escapes. A 422.
    Spelling,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Hidden(id) => write!(f, "there is no resource '{id}'"),
            Refused::Encoding => f.write_str("the body is not in UTF-8"),
            Refused::Spelling => f.write_str("a string of the body is made of escapes"),
        }
    }
}

impl std::error::Error for Refused {}

/// Rewrites the identifiers in the strings of a JSON body, keys and values, and in nothing else.
///
/// What is not changed is passed on without a copy. Held back is only what may be the start of an identifier:
/// the run of identifier characters at the end of a chunk, of which at most [`Rewriter::MOST_HELD`].
///
/// A refusal is final. What was passed on before it ends before the identifier that is refused, so that a
/// service that gets it never has a whole body.
#[derive(Debug)]
pub struct Rewriter {
    table: Table,
    direction: Direction,
    spelling: Spelling,
    held: Vec<u8>,
    /// Whether what is held is in a string.
    quotes: Quotes,
    /// The byte before what is held.
    before: u8,
    /// Bytes that came, up to four.
    seen: usize,
    rewritten: u64,
    refused: Option<Refused>,
}

impl Rewriter {
    /// The most bytes that are held back.
    pub const MOST_HELD: usize = LONGEST_RUN + 6;

    /// A rewriter of one body, with the table as it is now.
    #[must_use]
    pub fn new(table: Table, direction: Direction) -> Rewriter {
        Rewriter {
            table,
            direction,
            spelling: Spelling::default(),
            held: Vec::new(),
            quotes: Quotes::default(),
            before: 0,
            seen: 0,
            rewritten: 0,
            refused: None,
        }
    }

    /// Takes a chunk, and gives what can be passed on: none, one or some chunks.
    pub fn push(&mut self, chunk: Bytes, out: &mut impl Extend<Bytes>) -> Result<(), Refused> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        if self.table.is_empty() {
            emit(chunk, out);
            return Ok(());
        }
        let outcome = self.blocks(chunk, out);
        self.refused = outcome.clone().err();
        outcome
    }

    /// The body is over: gives what was held back.
    pub fn finish(&mut self, out: &mut impl Extend<Bytes>) -> Result<(), Refused> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        let outcome = self.rest(out);
        self.refused = outcome.clone().err();
        outcome
    }

    /// How many identifiers were replaced.
    #[must_use]
    pub fn rewritten(&self) -> u64 {
        self.rewritten
    }

    /// How many bytes are held back now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len() + self.spelling.held()
    }

    fn blocks(&mut self, mut chunk: Bytes, out: &mut impl Extend<Bytes>) -> Result<(), Refused> {
        self.check_encoding(&chunk)?;
        while !chunk.is_empty() {
            let block = chunk.split_to(chunk.len().min(BLOCK));
            let plain = self.spelling.push(block, false)?;
            self.block(plain, out)?;
        }
        Ok(())
    }

    fn rest(&mut self, out: &mut impl Extend<Bytes>) -> Result<(), Refused> {
        let plain = self.spelling.push(Bytes::new(), true)?;
        self.held.extend_from_slice(&plain);
        let held = Bytes::from(std::mem::take(&mut self.held));
        self.scan(&held, held.len(), out).map(drop)
    }

    /// Some services read JSON in UTF-16 and UTF-32, too, and tell it by the zeros or the mark at its start.
    fn check_encoding(&mut self, chunk: &[u8]) -> Result<(), Refused> {
        let start = chunk.get(..chunk.len().min(4 - self.seen)).unwrap_or_default();
        self.seen += start.len();
        if start.iter().any(|byte| matches!(byte, 0 | 0xfe | 0xff)) { Err(Refused::Encoding) } else { Ok(()) }
    }

    /// Takes plain bytes. The spelling's quotes are those at their end, and so also at the start of what is
    /// then held: a quote is never held back.
    fn block(&mut self, mut block: Bytes, out: &mut impl Extend<Bytes>) -> Result<(), Refused> {
        if !self.held.is_empty() {
            let mut border = std::mem::take(&mut self.held);
            let held = border.len();
            let taken = block.len().min(BORDER);
            border.extend_from_slice(block.get(..taken).unwrap_or_default());
            let border = Bytes::from(border);
            let used = self.scan(&border, decided(&border), out)?;
            if taken == block.len() {
                self.held = border.get(used..).unwrap_or_default().to_vec();
                self.quotes = self.spelling.quotes();
                return Ok(());
            }
            self.quotes.pass(border.get(..used).unwrap_or_default());
            // No more is held back than was joined, so at least what was held before is used up.
            block.advance(used.saturating_sub(held).min(block.len()));
        }
        let used = self.scan(&block, decided(&block), out)?;
        self.held = block.get(used..).unwrap_or_default().to_vec();
        self.quotes = self.spelling.quotes();
        Ok(())
    }

    /// Passes on the bytes up to `limit`, or up to the end of an identifier across it. Says how many.
    fn scan(&mut self, bytes: &Bytes, limit: usize, out: &mut impl Extend<Bytes>) -> Result<usize, Refused> {
        let text = Text { bytes, before: self.before, json: true };
        let hits = find::hits(&self.table, self.direction, text, limit);
        let (mut quotes, mut counted) = (self.quotes, Counted::new(bytes, self.quotes));
        let (mut copied, mut passed) = (0, 0);
        let mut copy = Vec::new();
        let mut refused = None;
        let escapes = !hits.is_empty() && memchr(b'\\', bytes).is_some();
        for hit in hits {
            if escapes {
                quotes.pass(bytes.get(passed..hit.start).unwrap_or_default());
                passed = hit.start;
            }
            if !(if escapes { quotes.open } else { counted.is_open(hit.start) }) {
                continue;
            }
            let found = bytes.get(hit.start..hit.end).unwrap_or_default();
            match hit.seen {
                Seen::Mapped(id) => {
                    if copy.capacity() == 0 {
                        copy.reserve(bytes.len() + DASHED);
                    }
                    copy.extend_from_slice(bytes.get(copied..hit.end).unwrap_or_default());
                    id.replace(found, &mut copy);
                    copied = hit.end;
                    self.rewritten += 1;
                }
                Seen::Hidden => {
                    refused = Some((hit.start, Refused::Hidden(String::from_utf8_lossy(found).into_owned())));
                    break;
                }
            }
        }
        let end = refused.as_ref().map_or(limit.max(copied), |(start, _)| *start);
        if copied == 0 {
            emit(bytes.slice(..end), out);
        } else {
            copy.extend_from_slice(bytes.get(copied..end).unwrap_or_default());
            emit(Bytes::from(copy), out);
        }
        if let Some((_, refused)) = refused {
            return Err(refused);
        }
        if let Some(last) = end.checked_sub(1).and_then(|last| bytes.get(last)) {
            self.before = *last;
        }
        Ok(end)
    }
}

/// How many of these bytes are decided, whatever comes after them: all but the run at their end, with what may
/// be a part of its first character.
fn decided(bytes: &[u8]) -> usize {
    let run = bytes.iter().rev().take(LONGEST_RUN + 1).take_while(|byte| is_id(**byte)).count();
    if run > LONGEST_RUN {
        // Only a UUID can still be found in it.
        return bytes.len() - DASHED;
    }
    let (head, _) = bytes.split_at(bytes.len() - run);
    match head {
        // No JSON, but services may read it: it is not cut either.
        [before @ .., b'%'] if before.ends_with(b"\\") && opens_escape(before) => before.len() - 1,
        [before @ .., b'%'] => before.len(),
        [before @ .., b'\\'] if opens_escape(head) => before.len(),
        _ => head.len(),
    }
}

fn emit(chunk: Bytes, out: &mut impl Extend<Bytes>) {
    if !chunk.is_empty() {
        out.extend([chunk]);
    }
}
