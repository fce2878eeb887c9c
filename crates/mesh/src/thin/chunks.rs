//! The chunks of an answer, byte for byte as hyper reads them: an answer that one path takes for whole, the other does
//! too. They are framed anew, and trailers are dropped, so that a lenient reading here makes nobody else's.

use http1guard::Piece;
use httparse::{EMPTY_HEADER, Status};

/// More extensions, or trailers, are no answer's.
const EXTENSION_BYTES: usize = 16 << 10;
const TRAILER_BYTES: usize = 16 << 10;

/// The answer cannot be read on: it never becomes whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// Follows the chunks of an answer. The caller presents what it has not taken yet, with more after it.
#[derive(Debug)]
pub(super) struct AnswerChunks {
    at: At,
    /// Of the chunk that is read; what is left of it.
    size: u64,
    extension_bytes: usize,
    /// All lines after the last chunk.
    trailers: Vec<u8>,
    trailer_lines: usize,
    most_trailers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Start,
    Size,
    Space,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// The first byte of a trailer, or of the empty line.
    LineStart,
    Trailer,
    TrailerLf,
    EndLf,
    End,
}

impl AnswerChunks {
    pub(super) fn new(most_trailers: usize) -> AnswerChunks {
        AnswerChunks {
            at: At::Start,
            size: 0,
            extension_bytes: 0,
            trailers: Vec::new(),
            trailer_lines: 0,
            most_trailers,
        }
    }

    /// Reads one piece.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<Piece, Broken> {
        if self.at == At::Data && !bytes.is_empty() {
            let here = bytes.len().min(usize::try_from(self.size).unwrap_or(usize::MAX));
            self.size -= here as u64;
            if self.size == 0 {
                self.at = At::DataCr;
            }
            return Ok(Piece::Data(here));
        }
        for (index, byte) in bytes.iter().enumerate() {
            self.at = self.frame(*byte)?;
            match self.at {
                At::End => return Ok(Piece::End(index + 1)),
                At::Data => return Ok(Piece::Frame(index + 1)),
                _ => {}
            }
        }
        Ok(if bytes.is_empty() { Piece::More } else { Piece::Frame(bytes.len()) })
    }

    /// What comes after this byte of the frame.
    fn frame(&mut self, byte: u8) -> Result<At, Broken> {
        match (self.at, byte) {
            (At::Start | At::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).ok_or(Broken)?;
                let size = self.size.checked_mul(16).and_then(|size| size.checked_add(digit.into()));
                self.size = size.ok_or(Broken)?;
                Ok(At::Size)
            }
            (At::Size | At::Space, b' ' | b'\t') => Ok(At::Space),
            (At::Size | At::Space, b';') => Ok(At::Extension),
            (At::Size | At::Space | At::Extension, b'\r') => Ok(At::SizeLf),
            (At::Extension, b'\n') => Err(Broken),
            (At::Extension, _) => {
                self.extension_bytes += 1;
                if self.extension_bytes < EXTENSION_BYTES { Ok(At::Extension) } else { Err(Broken) }
            }
            (At::SizeLf, b'\n') => Ok(if self.size == 0 { At::LineStart } else { At::Data }),
            (At::DataCr, b'\r') => Ok(At::DataLf),
            (At::DataLf, b'\n') => Ok(At::Start),
            (At::LineStart | At::Trailer | At::TrailerLf | At::EndLf, byte) => self.trailer(byte),
            _ => Err(Broken),
        }
    }

    fn trailer(&mut self, byte: u8) -> Result<At, Broken> {
        self.trailers.push(byte);
        let next = match (self.at, byte) {
            (At::LineStart, b'\r') => At::EndLf,
            (At::Trailer, b'\r') => At::TrailerLf,
            (At::LineStart | At::Trailer, _) => At::Trailer,
            (At::TrailerLf, b'\n') if self.trailer_lines < self.most_trailers => {
                self.trailer_lines += 1;
                At::LineStart
            }
            (At::EndLf, b'\n') if self.trailer_lines == 0 => At::End,
            (At::EndLf, b'\n') if self.are_fields() => At::End,
            _ => return Err(Broken),
        };
        if self.trailers.len() < TRAILER_BYTES { Ok(next) } else { Err(Broken) }
    }

    /// Whether the trailers are what they should be.
    fn are_fields(&self) -> bool {
        let mut fields = vec![EMPTY_HEADER; self.trailer_lines];
        matches!(httparse::parse_headers(&self.trailers, &mut fields), Ok(Status::Complete(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body, and how many bytes it took, if it is whole; however it is cut.
    fn read(bytes: &[u8], most_trailers: usize) -> Result<Option<(Vec<u8>, usize)>, Broken> {
        let all = [1, 2, 7, usize::MAX].map(|cut| {
            let (mut chunks, mut body, mut at) = (AnswerChunks::new(most_trailers), Vec::new(), 0);
            for piece in bytes.chunks(cut) {
                let mut left = piece;
                while !left.is_empty() {
                    let here = match chunks.read(left)? {
                        Piece::More => break,
                        Piece::Frame(here) => here,
                        Piece::Data(here) => {
                            body.extend_from_slice(&left[..here]);
                            here
                        }
                        Piece::End(here) => return Ok(Some((body, at + here))),
                    };
                    at += here;
                    left = &left[here..];
                }
            }
            Ok(None)
        });
        assert!(all.windows(2).all(|two| two[0] == two[1]), "{} {all:?}", bytes.escape_ascii());
        let [first, ..] = all;
        first
    }

    #[test]
    fn chunks_are_read_as_servers_write_them() {
        for good in [
            &b"5\r\nhello\r\n0\r\n\r\n"[..],
            b"5  \r\nhello\r\n0\r\n\r\n",
            b"0000000000000000000000005\r\nhello\r\n000\r\n\r\n",
            b"2\r\nhe\r\n3 ;x=\" y\"\t\r\nllo\r\n0;\r\nHost: x\r\n\r\n",
            b"5;\xa2\0\r\nhello\r\n0\r\nX: \xa2\r\nY:\r\n\r\n",
            // A line's end of its own kind within the trailers does not end them.
            b"5\r\nhello\r\n0\r\nX: 1\n\nHTTP/1.1 200 OK\r\n\r\n",
        ] {
            let whole = Ok(Some((b"hello".to_vec(), good.len())));
            assert_eq!(read(good, 100), whole, "{}", good.escape_ascii());
            assert_eq!(read(&[good, b"HTTP/1.1 200 OK\r\n\r\n"].concat(), 100), whole);
            for cut in 0..good.len() {
                assert_eq!(read(&good[..cut], 100), Ok(None), "{}", good[..cut].escape_ascii());
            }
        }
    }

    #[test]
    fn what_has_two_readings_is_broken() {
        for bad in [
            &b" 5\r\nhello\r\n0\r\n\r\n"[..],
            b"\r\n",
            b"5 1\r\nhello\r\n",
            b"5 \xa2x\r\nhello\r\n0\r\n\r\n",
            b"5;\rx\r\nhello\r\n",
            b"5;\n\r\nhello\r\n",
            b"5\nhello\n",
            b"5\r\nhello0\r\n\r\n",
            b"5\r\nhello\n0\r\n\r\n",
            b"-5\r\n",
            b"0x5\r\nhello\r\n",
            b"10000000000000000\r\n",
            b"0\r\n\rx",
            b"0\r\nX: 1\rY\r\n\r\n",
            b"0\r\nX : 1\r\n\r\n",
            b"0\r\nX\r\n\r\n",
            b"0\r\nX: 1\nY: 2\r\n\r\n",
        ] {
            assert_eq!(read(bad, 100), Err(Broken), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn extensions_and_trailers_have_limits() {
        let trailers = |lines| [&b"0\r\n"[..], &b"X: 1\r\n".repeat(lines), b"\r\n"].concat();
        assert!(matches!(read(&trailers(3), 3), Ok(Some(_))));
        assert_eq!(read(&trailers(4), 3), Err(Broken));
        let long = |bytes| [&b"0\r\nX: "[..], &b"x".repeat(bytes), b"\r\n\r\n"].concat();
        assert!(matches!(read(&long(TRAILER_BYTES - 8), 3), Ok(Some(_))));
        assert_eq!(read(&long(TRAILER_BYTES), 3), Err(Broken));
        let extended = |bytes| [&b"0;"[..], &b"x".repeat(bytes), b"\r\n\r\n"].concat();
        assert!(matches!(read(&extended(EXTENSION_BYTES - 1), 3), Ok(Some(_))));
        assert_eq!(read(&extended(EXTENSION_BYTES), 3), Err(Broken));
    }
}
