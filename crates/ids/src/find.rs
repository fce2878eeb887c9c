//! Finds the identifiers in a text.
//!
//! UUIDs stand between other characters than letters and digits, so also in `volume-<uuid>` and `<uuid>.img`;
//! anything else is a whole run of the characters that identifiers have. `%2F` and, in JSON, `\n` and `\u00e9`
//! are characters of their own, whatever letters they are written with; nothing starts right after a `%`.
//!
//! Few bytes are looked at one by one: UUIDs are found by their first hyphen, those without hyphens by one of
//! the blocks of 16 bytes that each must cover.

use memchr::memchr;

use crate::id::{DASHED, PLAIN, all_hex, dashed, is_id, plain};
use crate::table::{Direction, Seen, Table};

/// Bytes in which identifiers are looked for.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a> {
    pub(crate) bytes: &'a [u8],
    /// The byte before the first, or 0.
    pub(crate) before: u8,
    /// Whether a backslash starts an escape. None is cut by the text's start.
    pub(crate) json: bool,
}

/// An identifier that is mapped or hidden.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) seen: Seen,
}

/// Those in a text that start before `limit`, in order, none within another.
pub(crate) fn hits(table: &Table, direction: Direction, text: Text<'_>, limit: usize, hits: &mut Vec<Hit>) {
    let mut look = |start, end, seen: Option<Seen>| {
        if let Some(seen) = seen.filter(|_| start < limit) {
            hits.push(Hit { start, end, seen });
        }
    };
    if table.has_uuids() {
        with_hyphens(text, |start, uuid| look(start, start + DASHED, table.uuid(uuid, direction)));
        without_hyphens(text, |start, uuid| look(start, start + PLAIN, table.uuid(uuid, direction)));
    }
    if table.has_tokens() {
        words(text, |start, word| look(start, start + word.len(), table.token(word, direction)));
    }
    // Of two at one place, the longer; of two that overlap, the first.
    hits.sort_unstable_by_key(|hit| (hit.start, std::cmp::Reverse(hit.end)));
    let mut end = 0;
    hits.retain(|hit| {
        let apart = hit.start >= end;
        end = if apart { hit.end } else { end };
        apart
    });
}

fn with_hyphens(text: Text<'_>, mut found: impl FnMut(usize, u128)) {
    // Where a first hyphen can be.
    let mut at = 8;
    while let Some(next) = text.bytes.get(at..).and_then(|rest| memchr(b'-', rest)) {
        let start = at + next - 8;
        at += next + 1;
        let Some(candidate) = text.bytes.get(start..).and_then(<[u8]>::first_chunk) else { return };
        if let Some(uuid) = dashed(candidate) {
            if text.ends(start + DASHED) && text.starts(start) {
                found(start, uuid);
            }
            at = start + DASHED;
        }
    }
}

fn without_hyphens(text: Text<'_>, mut found: impl FnMut(usize, u128)) {
    const BLOCK: usize = PLAIN / 2;
    let (blocks, _) = text.bytes.as_chunks::<BLOCK>();
    // What was looked at.
    let mut done = 0;
    for (index, block) in blocks.iter().enumerate() {
        if !all_hex(block) || index * BLOCK < done {
            continue;
        }
        let after = (index + 1) * BLOCK;
        let rest = text.bytes.get(after..).unwrap_or_default();
        let end = after + rest.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(rest.len());
        done = end;
        let Some(start) = end.checked_sub(PLAIN) else { continue };
        let candidate = text.bytes.get(start..end).and_then(<[u8]>::first_chunk);
        if let Some(uuid) = candidate.and_then(plain)
            && text.starts(start)
        {
            found(start, uuid);
        }
    }
}

fn words<'a>(text: Text<'a>, mut found: impl FnMut(usize, &'a [u8])) {
    let mut at = 0;
    if is_id(text.before) {
        at = text.bytes.iter().position(|byte| !is_id(*byte)).unwrap_or(text.bytes.len());
    }
    loop {
        let Some(rest) = text.bytes.get(at..) else { return };
        let Some(skip) = rest.iter().position(|byte| is_id(*byte)) else { return };
        let start = at + skip;
        let rest = rest.get(skip..).unwrap_or_default();
        let length = rest.iter().position(|byte| !is_id(*byte)).unwrap_or(rest.len());
        at = start + length;
        let word = rest.get(..length).unwrap_or_default();
        let own = text.coded(start, word);
        if let Some(word) = word.get(own..).filter(|word| !word.is_empty()) {
            found(start + own, word);
        }
    }
}

impl Text<'_> {
    /// Whether a UUID may end here.
    fn ends(&self, at: usize) -> bool {
        self.bytes.get(at).is_none_or(|next| !next.is_ascii_alphanumeric())
    }

    /// Whether a UUID may start here.
    fn starts(&self, at: usize) -> bool {
        let head = self.bytes.get(..at).unwrap_or_default();
        let Some(last) = head.last() else { return !self.before.is_ascii_alphanumeric() };
        if self.json {
            match escape(head) {
                Escape::Cut => return false,
                Escape::Whole => return true,
                Escape::None => {}
            }
        }
        !(last.is_ascii_alphanumeric() || *last == b'%')
            || matches!(head, [.., b'%', one, two] if one.is_ascii_hexdigit() && two.is_ascii_hexdigit())
    }

    /// How many bytes of a word belong to the character before it: the `n` of `\n`, the `2F` of `%2F`. All, if
    /// that is broken.
    fn coded(&self, start: usize, word: &[u8]) -> usize {
        let head = self.bytes.get(..start).unwrap_or_default();
        let hex = |count, from| {
            word.get(from..from + count).is_some_and(|part| part.iter().all(u8::is_ascii_hexdigit))
        };
        match head.last() {
            Some(b'\\') if self.json && opens_escape(head) => match word.first() {
                Some(b'u') if hex(4, 1) => 5,
                _ => 1,
            },
            Some(b'%') if hex(2, 0) => 2,
            Some(b'%') => word.len(),
            _ => 0,
        }
    }
}

/// What an escape is to the place after these bytes.
enum Escape {
    /// None is near.
    None,
    /// One ends here.
    Whole,
    /// This place is inside of one.
    Cut,
}

fn escape(head: &[u8]) -> Escape {
    const LONGEST: usize = 6;
    let near = head.get(head.len().saturating_sub(LONGEST)..).unwrap_or_default();
    let Some(back) = near.iter().rev().position(|byte| *byte == b'\\') else { return Escape::None };
    let (upto, after) = head.split_at(head.len() - back);
    if !opens_escape(upto) {
        return if after.is_empty() { Escape::Whole } else { Escape::None };
    }
    match after {
        [] => Escape::Cut,
        [b'u', digits @ ..] if !digits.iter().all(u8::is_ascii_hexdigit) => Escape::None,
        [b'u', digits @ ..] if digits.len() < 4 => Escape::Cut,
        [b'u', ..] | [_] => Escape::Whole,
        _ => Escape::None,
    }
}

/// Whether the last of these bytes, a backslash, is not itself escaped.
pub(crate) fn opens_escape(head: &[u8]) -> bool {
    head.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}
