//! The one spelling of what may be an identifier.
//!
//! JSON allows `\u0031` for `1`. No service writes identifiers so, but a client may, to name what it must not
//! name. Such escapes are replaced by the character itself; spaces after the string make up for their length,
//! since those mean nothing there. Everything else stays as it is.

use bytes::Bytes;
use memchr::{memchr, memchr_iter};

use crate::block::{BLOCK, blocks, equal};
use crate::id::is_id;
use crate::rewriter::Refused;

/// How many spaces one string may need. No encoder writes so many such escapes.
const MOST_SPACES: usize = 64 << 10;

/// A JSON text whose spelling is made plain as it comes.
#[derive(Debug, Default)]
pub(crate) struct Spelling {
    quotes: Quotes,
    /// The start of an escape that goes on.
    held: Vec<u8>,
    /// Owed after the string.
    spaces: usize,
}

/// Whether a place is inside of a string.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quotes {
    pub(crate) open: bool,
}

impl Quotes {
    /// Goes over bytes that cut no escape.
    pub(crate) fn pass(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(at) = memchr(b'\\', rest) {
            self.count(rest.get(..at).unwrap_or_default());
            rest = rest.get(at + 2..).unwrap_or_default();
        }
        self.count(rest);
    }

    /// Goes over bytes without escapes.
    pub(crate) fn count(&mut self, bytes: &[u8]) {
        /// From here on, it is worth what it takes to start.
        const LONG: usize = 1024;
        self.open ^= if bytes.len() < LONG {
            // The compiler takes many at once.
            bytes.iter().fold(0, |odd, byte| odd ^ u8::from(*byte == b'"')) == 1
        } else {
            memchr_iter(b'"', bytes).count() % 2 == 1
        };
    }
}

/// The quotes of a text without escapes, up to one place after the other.
pub(crate) struct Counted<'a> {
    whole: &'a [[u8; BLOCK]],
    last: [u8; BLOCK],
    /// Blocks that were counted.
    blocks: usize,
    /// Has as many bits, or an even number less.
    quotes: u64,
}

impl<'a> Counted<'a> {
    /// Whether a string is open at the text's start.
    pub(crate) fn new(text: &'a [u8], open: Quotes) -> Counted<'a> {
        let (whole, last) = blocks(text);
        Counted { whole, last, blocks: 0, quotes: u64::from(open.open) }
    }

    /// Whether a place, not before the one that was asked for last, is inside of a string.
    pub(crate) fn is_open(&mut self, at: usize) -> bool {
        let upto = at / BLOCK;
        for block in self.whole.get(self.blocks..upto).unwrap_or_default() {
            self.quotes ^= equal(block, b'"');
        }
        self.blocks = upto;
        let before = equal(self.whole.get(upto).unwrap_or(&self.last), b'"') & ((1 << (at % BLOCK)) - 1);
        (self.quotes ^ before).count_ones() % 2 == 1
    }
}

/// What a backslash starts.
enum Escape {
    /// It goes on in bytes that are not there yet.
    Cut,
    /// What may be of an identifier.
    Plain(u8),
    /// Anything else: it stays.
    Other,
}

impl Spelling {
    pub(crate) fn quotes(&self) -> Quotes {
        self.quotes
    }

    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// The next bytes, but for an escape that they cut. `last`: there are no more.
    pub(crate) fn push(&mut self, chunk: Bytes, last: bool) -> Result<Bytes, Refused> {
        let chunk = if self.held.is_empty() {
            chunk
        } else {
            let mut joined = std::mem::take(&mut self.held);
            joined.extend_from_slice(&chunk);
            Bytes::from(joined)
        };
        let mut plain = Plain { text: Vec::new(), from: 0 };
        let mut at = 0;
        loop {
            let rest = chunk.get(at..).unwrap_or_default();
            let next = memchr(b'\\', rest);
            let (part, escaped) = rest.split_at(next.unwrap_or(rest.len()));
            if self.spaces > 0
                && let Some(close) = memchr(b'"', part)
            {
                plain.replace(&chunk, at + close + 1, 0);
                plain.text.resize(plain.text.len() + std::mem::take(&mut self.spaces), b' ');
            }
            self.quotes.count(part);
            at += part.len();
            if escaped.is_empty() {
                break;
            }
            match escape(escaped) {
                Escape::Cut if !last => {
                    self.held = escaped.to_vec();
                    break;
                }
                Escape::Plain(byte) if self.quotes.open => {
                    plain.replace(&chunk, at, 6);
                    plain.text.push(byte);
                    at += 6;
                    self.spaces += 5;
                    if self.spaces > MOST_SPACES {
                        return Err(Refused::Spelling);
                    }
                }
                _ => at = chunk.len().min(at + 2),
            }
        }
        let end = chunk.len() - self.held.len();
        if last && self.spaces > 0 {
            plain.replace(&chunk, end, 0);
            plain.text.resize(plain.text.len() + std::mem::take(&mut self.spaces), b' ');
        }
        Ok(plain.finish(&chunk, end))
    }
}

/// A copy of a chunk with something replaced. None is made before that.
struct Plain {
    text: Vec<u8>,
    /// What comes before was copied or replaced.
    from: usize,
}

impl Plain {
    /// Copies up to here, and leaves out some bytes.
    fn replace(&mut self, chunk: &[u8], at: usize, length: usize) {
        self.text.extend_from_slice(chunk.get(self.from..at).unwrap_or_default());
        self.from = at + length;
    }

    fn finish(mut self, chunk: &Bytes, end: usize) -> Bytes {
        if self.from == 0 && self.text.is_empty() {
            return chunk.slice(..end);
        }
        self.replace(chunk, end, 0);
        Bytes::from(self.text)
    }
}

fn escape(bytes: &[u8]) -> Escape {
    if let Some([b'\\', b'u', b'0', b'0', high, low]) = bytes.first_chunk() {
        let digits = [*high, *low];
        let byte = std::str::from_utf8(&digits).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok());
        // The text "+1" is a number, too.
        let byte = byte.filter(|byte| high.is_ascii_digit() && (is_id(*byte) || *byte == b'%'));
        return byte.map_or(Escape::Other, Escape::Plain);
    }
    let goes_on = match bytes {
        [_, b'u', b'0', b'0', digit] => digit.is_ascii_digit(),
        [_] | [_, b'u'] | [_, b'u', b'0'] | [_, b'u', b'0', b'0'] => true,
        _ => false,
    };
    if goes_on { Escape::Cut } else { Escape::Other }
}
