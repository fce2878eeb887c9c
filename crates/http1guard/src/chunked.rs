//! A chunked body: sizes, chunks, trailers.

use crate::limits::Limits;
use crate::line::{self, Lines};
use crate::violation::{Part, Rule, Violation};

/// How far a chunked body has been read.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkScan {
    at: At,
    lines: Lines,
    extension_bytes: usize,
    trailer_bytes: usize,
    trailer_fields: usize,
}

#[derive(Clone, Copy, Debug, Default)]
enum At {
    #[default]
    Size,
    /// So many bytes of the chunk are to come.
    Data(u64),
    /// The CR LF after them.
    DataEnd,
    Trailers,
}

/// What the first bytes of those presented are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// So many that frame the body: the line of a chunk's size, the end of a chunk, a trailer.
    Frame(usize),
    /// So many of the body itself.
    Data(usize),
    /// So many that frame the body, which ends with them.
    End(usize),
    /// There are too few to tell.
    More,
}

/// Follows the chunked body of a request. The caller presents what it has not taken yet, with more after it.
#[derive(Clone, Debug)]
pub struct Chunks {
    scan: ChunkScan,
    limits: Limits,
}

impl Chunks {
    /// It reads as strictly as [`Guard`](crate::Guard): it does so with the same code.
    #[must_use]
    pub fn new(limits: Limits) -> Chunks {
        Chunks { scan: ChunkScan::default(), limits }
    }

    /// Reads one piece.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Piece, Violation> {
        self.scan.read(bytes, &self.limits).map_err(|rule| Violation { rule, part: Part::Body })
    }
}

impl ChunkScan {
    /// Reads one piece: a line, or bytes of a chunk.
    pub(crate) fn read(&mut self, bytes: &[u8], limits: &Limits) -> Result<Piece, Rule> {
        match self.at {
            At::Size => self.read_size(bytes, limits),
            At::Data(left) => {
                let here = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                let left = left - here as u64;
                self.at = if left == 0 { At::DataEnd } else { At::Data(left) };
                Ok(if here == 0 { Piece::More } else { Piece::Data(here) })
            }
            At::DataEnd => match bytes {
                [] | [b'\r'] => Ok(Piece::More),
                [b'\r', b'\n', ..] => {
                    self.at = At::Size;
                    Ok(Piece::Frame(2))
                }
                _ => Err(Rule::ChunkEnd),
            },
            At::Trailers => self.read_trailer(bytes, limits),
        }
    }

    /// The next line, and its length with its CR LF. What was read before it has been passed on, so it
    /// starts at the first byte.
    fn line<'b>(
        &mut self,
        bytes: &'b [u8],
        limit: usize,
        too_long: Rule,
    ) -> Result<Option<(&'b [u8], usize)>, Rule> {
        let Some(line) = self.lines.next(bytes, limit, too_long)? else {
            return Ok(None);
        };
        let len = self.lines.start;
        self.lines = Lines::default();
        Ok(Some((line, len)))
    }

    fn read_size(&mut self, bytes: &[u8], limits: &Limits) -> Result<Piece, Rule> {
        let Some((line, len)) = self.line(bytes, limits.chunk_line_bytes, Rule::ChunkLineTooLong)? else {
            return Ok(Piece::More);
        };
        let (size, extension) = size_line(line).map_err(|rule| line::blame(line, rule))?;
        self.extension_bytes += extension.len();
        if self.extension_bytes > limits.extension_bytes {
            return Err(Rule::ChunkLineTooLong);
        }
        self.at = if size == 0 { At::Trailers } else { At::Data(size) };
        Ok(Piece::Frame(len))
    }

    fn read_trailer(&mut self, bytes: &[u8], limits: &Limits) -> Result<Piece, Rule> {
        let left = limits.trailer_bytes.saturating_sub(self.trailer_bytes);
        let Some((line, len)) = self.line(bytes, left, Rule::TrailersTooLarge)? else {
            return Ok(Piece::More);
        };
        if line.is_empty() {
            return Ok(Piece::End(len));
        }
        self.trailer_bytes += len;
        self.trailer_fields += 1;
        if self.trailer_fields > limits.fields {
            return Err(Rule::TrailersTooLarge);
        }
        let (name, _) = line::field(line).map_err(|rule| line::blame(line, rule))?;
        if FORBIDDEN_TRAILERS.iter().any(|forbidden| line::is_name(name, forbidden)) {
            return Err(Rule::TrailerName);
        }
        Ok(Piece::Frame(len))
    }
}

/// Fields that are read before the body. A server that merges trailers into the head would find them late, and
/// act on them.
const FORBIDDEN_TRAILERS: &[&[u8]] = &[
    b"connection",
    b"content-length",
    b"expect",
    b"host",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
];

/// A chunk's size and its extension, `;` included.
fn size_line(line: &[u8]) -> Result<(u64, &[u8]), Rule> {
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let (digits, extension) = line.split_at(end);
    let is_plain = (1..=16).contains(&digits.len());
    let size = std::str::from_utf8(digits).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
    let size = size.filter(|&size| is_plain && size <= i64::MAX.unsigned_abs()).ok_or(Rule::ChunkSize)?;
    match extension {
        [] => Ok((size, extension)),
        [b';', first, ..] if first.is_ascii_graphic() && extension.iter().all(u8::is_ascii_graphic) => {
            Ok((size, extension))
        }
        [b';', ..] => Err(Rule::ChunkExtension),
        _ => Err(Rule::ChunkSize),
    }
}
