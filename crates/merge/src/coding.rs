//! Takes a content coding off, as the bytes come.

use std::io::Write;

use bytes::Bytes;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

use crate::error::Fault;

/// How much coded input is taken at once: it can become a thousand times as much.
const PIECE_BYTES: usize = 512;

/// What any answer may expand to, whatever its coded size.
const FREE_BYTES: u64 = 1 << 20;

/// A decoder of one answer.
#[derive(Debug)]
pub(crate) struct Decoder {
    kind: Kind,
    coded: u64,
    plain: u64,
    expansion: u64,
}

#[derive(Debug)]
enum Kind {
    Identity,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Zlib(Box<ZlibDecoder<Vec<u8>>>),
    Raw(Box<DeflateDecoder<Vec<u8>>>),
    /// `deflate` means zlib's format; some servers leave its header away. Its first byte tells.
    Deflate,
}

impl Decoder {
    /// A decoder for a `Content-Encoding`.
    pub(crate) fn new(coding: Option<&str>, expansion: u64) -> Result<Decoder, Fault> {
        let name = coding.unwrap_or_default().trim().to_ascii_lowercase();
        let kind = match name.as_str() {
            "" | "identity" => Kind::Identity,
            "gzip" | "x-gzip" => Kind::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
            "deflate" => Kind::Deflate,
            _ => return Err(Fault::Coding("is none that can be taken off")),
        };
        Ok(Decoder { kind, coded: 0, plain: 0, expansion })
    }

    /// Takes a piece off the input, and gives what it means, which may be nothing yet.
    pub(crate) fn decode(&mut self, input: &mut Bytes) -> Result<Bytes, Fault> {
        if matches!(self.kind, Kind::Identity) {
            return Ok(std::mem::take(input));
        }
        let piece = input.split_to(input.len().min(PIECE_BYTES));
        if let (Kind::Deflate, Some(first)) = (&self.kind, piece.first()) {
            self.kind = match first & 0x0f {
                8 => Kind::Zlib(Box::new(ZlibDecoder::new(Vec::new()))),
                _ => Kind::Raw(Box::new(DeflateDecoder::new(Vec::new()))),
            };
        }
        let damaged = |_| Fault::Coding("is damaged");
        let plain = match &mut self.kind {
            Kind::Identity | Kind::Deflate => Vec::new(),
            Kind::Gzip(decoder) => {
                decoder.write_all(&piece).and_then(|()| decoder.flush()).map_err(damaged)?;
                std::mem::take(decoder.get_mut())
            }
            Kind::Zlib(decoder) => {
                decoder.write_all(&piece).and_then(|()| decoder.flush()).map_err(damaged)?;
                std::mem::take(decoder.get_mut())
            }
            Kind::Raw(decoder) => {
                decoder.write_all(&piece).and_then(|()| decoder.flush()).map_err(damaged)?;
                std::mem::take(decoder.get_mut())
            }
        };
        self.coded += piece.len() as u64;
        self.count(plain)
    }

    /// The input is over: gives the rest.
    pub(crate) fn finish(&mut self) -> Result<Bytes, Fault> {
        let damaged = |_| Fault::Coding("is damaged");
        let plain = match &mut self.kind {
            Kind::Identity | Kind::Deflate => Vec::new(),
            Kind::Gzip(decoder) => {
                decoder.try_finish().map_err(damaged)?;
                std::mem::take(decoder.get_mut())
            }
            Kind::Zlib(decoder) => {
                decoder.try_finish().map_err(damaged)?;
                std::mem::take(decoder.get_mut())
            }
            Kind::Raw(decoder) => {
                decoder.try_finish().map_err(damaged)?;
                std::mem::take(decoder.get_mut())
            }
        };
        self.count(plain)
    }

    fn count(&mut self, plain: Vec<u8>) -> Result<Bytes, Fault> {
        self.plain += plain.len() as u64;
        if self.plain > FREE_BYTES.max(self.coded.saturating_mul(self.expansion)) {
            return Err(Fault::Coding("expands too much"));
        }
        Ok(Bytes::from(plain))
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn coded(coding: &str, plain: &[u8]) -> Vec<u8> {
        let level = Compression::default();
        let write = |mut to: Box<dyn Write>| to.write_all(plain).unwrap();
        let mut out = Vec::new();
        match coding {
            "gzip" => write(Box::new(GzEncoder::new(&mut out, level))),
            "deflate" => write(Box::new(ZlibEncoder::new(&mut out, level))),
            _ => write(Box::new(DeflateEncoder::new(&mut out, level))),
        }
        out
    }

    fn plain(coding: &str, coded: &[u8], chunk: usize) -> Result<Vec<u8>, Fault> {
        let mut decoder = Decoder::new(Some(coding), 256)?;
        let mut out = Vec::new();
        for chunk in coded.chunks(chunk) {
            let mut input = Bytes::copy_from_slice(chunk);
            while !input.is_empty() {
                out.extend(decoder.decode(&mut input)?);
            }
        }
        out.extend(decoder.finish()?);
        Ok(out)
    }

    #[test]
    fn every_coding_comes_off_however_its_bytes_are_cut() {
        let text: Vec<u8> = (0..30_000_u32).flat_map(|n| n.to_string().into_bytes()).collect();
        for (name, form) in [("gzip", "gzip"), ("GZIP", "gzip"), ("deflate", "deflate"), ("deflate", "raw")] {
            let coded = coded(form, &text);
            for chunk in [1, 7, 1000, coded.len()] {
                assert_eq!(plain(name, &coded, chunk).unwrap(), text, "{name} {form} {chunk}");
            }
        }
        assert_eq!(plain("identity", b"abc", 2).unwrap(), b"abc");
    }

    #[test]
    fn damage_unknown_codings_and_bombs_are_faults() {
        assert!(matches!(plain("br", b"x", 1), Err(Fault::Coding(_))));
        assert!(matches!(plain("gzip, gzip", b"x", 1), Err(Fault::Coding(_))));
        let good = coded("gzip", b"[1,2,3]");
        assert!(matches!(plain("gzip", &good[..good.len() - 3], 5), Err(Fault::Coding(_))));
        let mut bad = good.clone();
        bad[12] ^= 0x55;
        assert!(plain("gzip", &bad, 5).is_err());
        let bomb = coded("gzip", &vec![b' '; 4 << 20]);
        assert_eq!(plain("gzip", &bomb, 4096), Err(Fault::Coding("expands too much")));
    }

    #[test]
    fn a_short_answer_may_become_a_mebibyte_and_a_long_one_as_much_more_as_lists_do() {
        let spaces = |count: usize| plain("gzip", &coded("gzip", &vec![b' '; count]), 4096);
        let free = usize::try_from(FREE_BYTES).unwrap();
        assert_eq!(spaces(free).map(|plain| plain.len()), Ok(free));
        assert_eq!(spaces(free + 1), Err(Fault::Coding("expands too much")));
        let list: Vec<u8> = (0..300_000_u32).flat_map(|n| n.to_string().into_bytes()).collect();
        assert!(list.len() > free);
        assert!(plain("gzip", &coded("gzip", &list), 4096).unwrap() == list);
    }
}
