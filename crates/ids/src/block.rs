//! Sixty-four bytes at once: which of them are of a kind. The lowest bit is the first byte's.

use wide::u8x16;

/// The bytes of one block.
pub(crate) const BLOCK: usize = 64;

/// A text in blocks: its whole ones, and its rest, with zeros behind it.
pub(crate) fn blocks(text: &[u8]) -> (&[[u8; BLOCK]], [u8; BLOCK]) {
    let (whole, rest) = text.as_chunks();
    let mut last = [0; BLOCK];
    if let Some(start) = last.get_mut(..rest.len()) {
        start.copy_from_slice(rest);
    }
    (whole, last)
}

/// Which are this byte.
#[inline]
pub(crate) fn equal(block: &[u8; BLOCK], byte: u8) -> u64 {
    let byte = u8x16::splat(byte);
    which(block, |bytes| bytes.simd_eq(byte))
}

/// Which are one of these bytes, or one between them.
#[inline]
pub(crate) fn between(block: &[u8; BLOCK], low: u8, high: u8) -> u64 {
    let (low, high) = (u8x16::splat(low), u8x16::splat(high));
    which(block, |bytes| bytes.max(low).min(high).simd_eq(bytes))
}

/// Which open an object or an array, and which close one.
#[inline]
pub(crate) fn either_bracket(block: &[u8; BLOCK]) -> (u64, u64) {
    // `[` and `{` differ in one bit, and so do `]` and `}`.
    let bit = u8x16::splat(0x20);
    let (open, close) = (u8x16::splat(b'{'), u8x16::splat(b'}'));
    (which(block, |bytes| (bytes | bit).simd_eq(open)), which(block, |bytes| (bytes | bit).simd_eq(close)))
}

/// Which are of identifiers.
#[inline]
pub(crate) fn ids_among(block: &[u8; BLOCK]) -> u64 {
    let all = u8x16::splat;
    which(block, |bytes| {
        let letter = ((bytes | all(0x20)) - all(b'a')).simd_lt(all(26));
        let digit = (bytes - all(b'0')).simd_lt(all(10));
        let dash_or_dot = (bytes - all(b'-')).simd_lt(all(2));
        letter | digit | dash_or_dot | bytes.simd_eq(all(b'_')) | bytes.simd_eq(all(b'~'))
    })
}

#[inline]
fn which(block: &[u8; BLOCK], is: impl Fn(u8x16) -> u8x16) -> u64 {
    let (parts, _) = block.as_chunks::<16>();
    parts.iter().rev().fold(0, |bits, part| bits << 16 | u64::from(is(u8x16::new(*part)).to_bitmask()))
}

/// The last byte of each sixteen whose first eight may all be hexadecimal digits. Few others are told so: of those,
/// and of no character before `0` nor between `p` and `z`, just one of two bits is set.
#[inline]
pub(crate) fn sixteens_of_hex(block: &[u8; BLOCK]) -> u64 {
    const ONE_OF_TWO: u64 = 0x4040_4040_4040_4040;
    let (parts, _) = block.as_chunks::<16>();
    parts.iter().rev().fold(0, |bits, [eight @ .., _, _, _, _, _, _, _, _]| {
        let eight = u64::from_le_bytes(*eight);
        bits << 16 | u64::from((eight ^ eight << 2) & ONE_OF_TWO == ONE_OF_TWO) << 15
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::is_id;

    #[test]
    fn bytes_are_told_alike_one_by_one_and_many_at_once() {
        for from in 0..=255_u8 {
            let bytes =
                std::array::from_fn(|at| from.wrapping_add(u8::try_from(at).unwrap().wrapping_mul(37)));
            let bits = |is: &dyn Fn(u8) -> bool| {
                bytes.iter().enumerate().fold(0, |bits, (at, byte)| bits | u64::from(is(*byte)) << at)
            };
            assert_eq!(ids_among(&bytes), bits(&is_id));
            assert_eq!(equal(&bytes, b'"'), bits(&|byte| byte == b'"'));
            assert_eq!(between(&bytes, b'1', b'~'), bits(&|byte| (b'1'..=b'~').contains(&byte)));
        }
    }

    #[test]
    fn no_sixteen_hexadecimal_digits_are_missed() {
        for digit in b"0123456789abcdefABCDEF" {
            let mut block = [*digit; BLOCK];
            assert_eq!(sixteens_of_hex(&block), 0x8000_8000_8000_8000);
            block[20] = b'"';
            assert_eq!(sixteens_of_hex(&block), 0x8000_8000_0000_8000);
        }
    }
}
