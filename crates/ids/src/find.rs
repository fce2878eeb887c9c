//! Finds the identifiers in a text.
//!
//! UUIDs stand between other characters than letters and digits, so also in `volume-<uuid>` and `<uuid>.img`;
//! anything else is a whole run of the characters that identifiers have. `%2F` and, in JSON, `\n` and `\u00e9`
//! are characters of their own, whatever letters they are written with; nothing starts right after a `%`.
//!
//! No byte is looked at alone: of 64 at once, hyphens as far apart as those of a UUID are told, digits that a UUID
//! without hyphens must have, and where words start and end.

use memchr::memchr2;

use crate::block::{BLOCK, blocks, equal, ids_among, sixteens_of_hex};
use crate::id::{DASHED, PLAIN, all_hex, dashed, is_id, plain};
use crate::table::{Direction, Seen, Shapes, Table};

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
pub(crate) struct Hit<'a> {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) seen: Seen<'a>,
}

/// Those in a text that start before `limit`, in order, none within another.
///
/// UUIDs are first found, then looked up, so that the processor waits for many leaves, and then for many entries, of a
/// large table at once.
pub(crate) fn hits<'a>(table: &'a Table, direction: Direction, text: Text<'_>, limit: usize) -> Vec<Hit<'a>> {
    let mut hits = Vec::new();
    if table.has_uuids() {
        // As many as services write in a list.
        let mut found = Vec::with_capacity(text.bytes.len() / 128);
        uuids(text, |start, length, uuid| found.push((start, length, uuid)));
        fetch(found.iter().map(|found| table.touch(found.2, direction)));
        let mut near = Vec::with_capacity(found.len());
        for found in &found {
            if let Some(at) = table.near(found.2, direction) {
                near.push((found, at));
            }
        }
        hits.reserve(near.len());
        fetch(near.iter().map(|(found, near)| near.touch(found.2)));
        for ((start, length, uuid), near) in near {
            if *start < limit
                && let Some(seen) = near.seen(*uuid, direction)
            {
                hits.push(Hit { start: *start, end: start + length, seen });
            }
        }
    }
    if table.has_tokens() {
        words(text, table.shapes(direction), |start, word| {
            if let Some(seen) = table.token(word, direction).filter(|_| start < limit) {
                hits.push(Hit { start, end: start + word.len(), seen });
            }
        });
        apart(&mut hits);
    }
    hits
}

/// Reads what is looked at next, in a loop so short that the processor waits for many lines of memory at once.
fn fetch(lines: impl Iterator<Item = bool>) {
    std::hint::black_box(lines.fold(false, |all, line| all ^ line));
}

/// Puts in order what may be in two runs. Of two at one place, the longer stays; of two that overlap, the first.
fn apart(hits: &mut Vec<Hit<'_>>) {
    hits.sort_by_key(|hit| (hit.start, std::cmp::Reverse(hit.end)));
    let mut end = 0;
    hits.retain(|hit| {
        let apart = hit.start >= end;
        end = if apart { hit.end } else { end };
        apart
    });
}

/// The UUIDs of a text, in order. Since letters and digits are neither before nor after one, none is within another.
fn uuids(text: Text<'_>, mut found: impl FnMut(usize, usize, u128)) {
    let (whole, last) = blocks(text.bytes);
    let mut hyphens_before = 0;
    // What was looked at for UUIDs without hyphens.
    let mut done = 0;
    for (index, block) in whole.iter().chain([&last]).enumerate() {
        let hyphens = equal(block, b'-');
        let earlier = |bytes: u32| hyphens << bytes | hyphens_before >> (u64::BITS - bytes);
        let fourth_hyphens = hyphens & earlier(5) & earlier(10) & earlier(15);
        hyphens_before = hyphens;
        let mut places = fourth_hyphens | sixteens_of_hex(block);
        while places != 0 {
            let bit = places.trailing_zeros();
            places &= places - 1;
            let at = index * BLOCK + bit as usize;
            if fourth_hyphens >> bit & 1 == 1 {
                text.with_hyphens(at, &mut found);
            } else if at >= done {
                done = text.without_hyphens(at, &mut found);
            }
        }
    }
}

/// Those that look like a token.
fn words<'a>(text: Text<'a>, shapes: &Shapes, mut found: impl FnMut(usize, &'a [u8])) {
    let mut word = |start, end: usize| {
        let own = text.coded(start, end);
        if shapes.fit(text.bytes.get(own), end.wrapping_sub(own))
            && let Some(word) = text.bytes.get(own..end)
        {
            found(own, word);
        }
    };
    // The zeros behind it end the last word.
    let (whole, last) = blocks(text.bytes);
    let coded = memchr2(b'\\', b'%', text.bytes).is_some();
    // Whether the byte before is of an identifier. What goes on from before the text is none, so it starts nowhere.
    let mut inside = u64::from(is_id(text.before));
    let mut start = usize::MAX;
    for (index, block) in whole.iter().chain([&last]).enumerate() {
        let place = |bit: u32| index * BLOCK + bit as usize;
        let are = ids_among(block);
        if inside == 1 && are != u64::MAX {
            word(start, place(are.trailing_ones()));
            start = usize::MAX;
        }
        // After an escape, a word's first byte is another one. The first of a block may be after one, too.
        let escaped = if coded { (equal(block, b'\\') | equal(block, b'%')) << 1 | 1 } else { 0 };
        let mut starts = are & !(are << 1 | inside) & (shapes.firsts(block) | escaped);
        while starts != 0 {
            let bit = starts.trailing_zeros();
            starts &= starts - 1;
            let after = bit + (are >> bit).trailing_ones();
            if after < u64::BITS {
                word(place(bit), place(after));
            } else {
                start = place(bit);
            }
        }
        inside = are >> 63;
    }
}

impl Text<'_> {
    /// The UUID whose last hyphen may be here.
    fn with_hyphens(&self, at: usize, found: &mut impl FnMut(usize, usize, u128)) {
        let Some(start) = at.checked_sub(23) else { return };
        let candidate = self.bytes.get(start..).and_then(<[u8]>::first_chunk);
        if let Some(uuid) = candidate.and_then(dashed)
            && self.ends(start + DASHED)
            && self.starts(start)
        {
            found(start, DASHED, uuid);
        }
    }

    /// The UUID without hyphens of which the sixteen digits up to here, and with it, may be the first of all such. Says
    /// where to look on.
    fn without_hyphens(&self, at: usize, found: &mut impl FnMut(usize, usize, u128)) -> usize {
        let (head, mut rest) = self.bytes.split_at_checked(at + 1).unwrap_or_default();
        if !head.last_chunk::<16>().is_some_and(all_hex) {
            return at;
        }
        while let Some((eight, after)) = rest.split_first_chunk::<8>()
            && all_hex(eight)
        {
            rest = after;
        }
        let more = rest.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let end = self.bytes.len() - rest.len() + more;
        if let Some(start) = end.checked_sub(PLAIN)
            && let Some(uuid) = self.bytes.get(start..end).and_then(<[u8]>::first_chunk).and_then(plain)
            && self.starts(start)
        {
            found(start, PLAIN, uuid);
        }
        end
    }

    /// Whether a UUID may end here.
    fn ends(&self, at: usize) -> bool {
        self.bytes.get(at).is_none_or(|next| !next.is_ascii_alphanumeric())
    }

    /// Whether a UUID may start here.
    #[inline]
    fn starts(&self, at: usize) -> bool {
        let head = self.bytes.get(..at).unwrap_or_default();
        let Some(last) = head.last() else { return !self.before.is_ascii_alphanumeric() };
        // No escape ends or is cut here, or it is a whole one.
        !(last.is_ascii_alphanumeric() || matches!(last, b'%' | b'\\')) || self.starts_after_escape(head)
    }

    #[cold]
    fn starts_after_escape(&self, head: &[u8]) -> bool {
        if self.json {
            match escape(head) {
                Escape::Cut => return false,
                Escape::Whole => return true,
                Escape::None => {}
            }
        }
        matches!(head, [.., b'\\'])
            || matches!(head, [.., b'%', one, two] if one.is_ascii_hexdigit() && two.is_ascii_hexdigit())
    }

    /// Where a word starts without those of its bytes that belong to the character before it: the `n` of `\n`, the
    /// `2F` of `%2F`. At its end, if that is broken.
    fn coded(&self, start: usize, end: usize) -> usize {
        match self.bytes.get(start.wrapping_sub(1)) {
            Some(b'\\' | b'%') => self.coded_word(start, end),
            _ => start,
        }
    }

    #[cold]
    fn coded_word(&self, start: usize, end: usize) -> usize {
        let (head, word) = self.bytes.get(..end).unwrap_or_default().split_at(start.min(end));
        let hex = |count, from| {
            word.get(from..from + count).is_some_and(|part| part.iter().all(u8::is_ascii_hexdigit))
        };
        match head.last() {
            Some(b'\\') if self.json && opens_escape(head) => match word.first() {
                Some(b'u') if hex(4, 1) => start + 5,
                _ => start + 1,
            },
            Some(b'%') if hex(2, 0) => start + 2,
            Some(b'%') => end,
            _ => start,
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
