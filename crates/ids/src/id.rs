//! What an identifier looks like.

use std::sync::Arc;

use wide::{i16x8, u8x16};

/// The longest identifier that is not a UUID, in bytes.
pub(crate) const MOST_BYTES: usize = 128;

/// A UUID with its hyphens, and without.
pub(crate) const DASHED: usize = 36;
pub(crate) const PLAIN: usize = 32;

/// An identifier. UUIDs are numbers: neither hyphens nor case distinguish them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Id {
    Uuid(u128),
    Token(Arc<[u8]>),
}

impl Id {
    /// None: no identifier has such a character, or such a length.
    pub(crate) fn read(text: &[u8]) -> Option<Id> {
        if let Some(uuid) = uuid(text) {
            return Some(Id::Uuid(uuid));
        }
        let fits = (1..=MOST_BYTES).contains(&text.len()) && text.iter().all(|byte| is_id(*byte));
        fits.then(|| Id::Token(text.into()))
    }
}

/// An identifier where a table has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known<'a> {
    Uuid(&'a u128),
    Token(&'a Arc<[u8]>),
}

impl Known<'_> {
    /// Puts it in the place of `found`, with which the text ends: a UUID with hyphens or capitals only if that had
    /// them.
    #[inline]
    pub(crate) fn replace(self, found: &[u8], text: &mut Vec<u8>) {
        let start = text.len().saturating_sub(found.len());
        match self {
            Known::Uuid(uuid) => write_uuid(*uuid, found, text.get_mut(start..).unwrap_or_default()),
            Known::Token(token) => {
                text.truncate(start);
                text.extend_from_slice(token);
            }
        }
    }

    /// Its usual spelling.
    pub(crate) fn text(self) -> String {
        let mut text = vec![b'-'; DASHED];
        self.replace(&[b'-'; DASHED], &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    pub(crate) fn id(self) -> Id {
        match self {
            Known::Uuid(uuid) => Id::Uuid(*uuid),
            Known::Token(token) => Id::Token(Arc::clone(token)),
        }
    }
}

/// What identifiers are made of. Within a longer text, the others are around them.
pub(crate) fn is_id(byte: u8) -> bool {
    IS_ID.get(usize::from(byte)).copied().unwrap_or(false)
}

static IS_ID: [bool; 256] = {
    let mut table = [false; 256];
    let mut rest: &mut [bool] = &mut table;
    let mut byte: u8 = 0;
    while let Some((is, after)) = rest.split_first_mut() {
        *is = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        byte = byte.wrapping_add(1);
        rest = after;
    }
    table
};

/// Whether an identifier is a UUID, which no service gives twice.
#[must_use]
pub fn is_uuid(id: &str) -> bool {
    uuid(id.as_bytes()).is_some()
}

/// A UUID, in either form.
pub(crate) fn uuid(text: &[u8]) -> Option<u128> {
    match text.len() {
        DASHED => dashed(text.first_chunk()?),
        PLAIN => plain(text.first_chunk()?),
        _ => None,
    }
}

#[inline]
pub(crate) fn dashed(text: &[u8; DASHED]) -> Option<u128> {
    if [text[8], text[13], text[18], text[23]] != [b'-'; 4] {
        return None;
    }
    // Put together in registers: who reads from memory what was just written there in parts has to wait for it.
    let word = |bytes: &[u8]| bytes.first_chunk().map(|word| u128::from(u64::from_le_bytes(*word)));
    let (low, high) = (0xffff_ffff, 0xffff_ffff << 32);
    let fours = |one: &[u8], other: &[u8]| Some(word(one)? & low | word(other)? & high);
    let first = word(text)? | fours(&text[9..], &text[10..])? << 64;
    let second = fours(&text[19..], &text[20..])? | word(&text[28..])? << 64;
    number(first.to_le_bytes(), second.to_le_bytes())
}

#[inline]
pub(crate) fn plain(text: &[u8; PLAIN]) -> Option<u128> {
    let (halves, _) = text.as_chunks();
    let [first, second] = halves else { return None };
    number(*first, *second)
}

/// The number that two times sixteen digits are.
#[inline]
fn number(first: [u8; 16], second: [u8; 16]) -> Option<u128> {
    let (first, second) = (u8x16::new(first), u8x16::new(second));
    if !(are_hex(first) & are_hex(second)).all() {
        return None;
    }
    Some(u128::from_be_bytes(u8x16::narrow_i16x8(pairs(first), pairs(second)).to_array()))
}

/// Eight numbers of two digits each.
#[inline]
fn pairs(digits: u8x16) -> i16x8 {
    let values = (digits & u8x16::splat(0xf)) + (digits.simd_gt(u8x16::splat(b'9')) & u8x16::splat(9));
    let values = values.to_array();
    let (pairs, _) = values.as_chunks();
    let mut lanes = [0; 8];
    for (lane, pair) in lanes.iter_mut().zip(pairs) {
        *lane = i16::from_le_bytes(*pair);
    }
    let lanes = i16x8::new(lanes);
    (lanes << 4 | lanes >> 8) & i16x8::splat(0xff)
}

#[inline]
fn are_hex(digits: u8x16) -> u8x16 {
    let all = u8x16::splat;
    let digit = (digits - all(b'0')).simd_lt(all(10));
    digit | ((digits | all(0x20)) - all(b'a')).simd_lt(all(6))
}

/// Without a branch for each byte: the compiler takes many at once.
pub(crate) fn all_hex<const N: usize>(text: &[u8; N]) -> bool {
    let mut all = true;
    for byte in text {
        let digit = byte.wrapping_sub(b'0') < 10;
        let letter = (byte | 0x20).wrapping_sub(b'a') < 6;
        all &= digit | letter;
    }
    all
}

/// The hyphens are there already. Written in its place: who reads at once what was just written in parts has to wait.
#[inline]
fn write_uuid(uuid: u128, found: &[u8], to: &mut [u8]) {
    let digits = digits_of(uuid, has_capitals(found));
    if let Ok(to) = <&mut [u8; PLAIN]>::try_from(&mut *to) {
        *to = digits;
    } else if let Ok(to) = <&mut [u8; DASHED]>::try_from(to) {
        to[..8].copy_from_slice(&digits[..8]);
        to[9..13].copy_from_slice(&digits[8..12]);
        to[14..18].copy_from_slice(&digits[12..16]);
        to[19..23].copy_from_slice(&digits[16..20]);
        to[24..].copy_from_slice(&digits[20..]);
    }
}

/// Whether a UUID has capitals and no other letters: then its greatest byte is one.
#[inline]
fn has_capitals(uuid: &[u8]) -> bool {
    let (Some(first), Some(last)) = (uuid.first_chunk::<PLAIN>(), uuid.last_chunk()) else { return false };
    let (halves, _) = first.as_chunks();
    let greatest = halves.iter().fold(u8x16::new(*last), |greatest, half| greatest.max(u8x16::new(*half)));
    greatest.simd_gt(u8x16::splat(b'9')).any() && !greatest.simd_gt(u8x16::splat(b'F')).any()
}

/// The digits of a UUID, as [`plain`] reads them.
fn digits_of(uuid: u128, capitals: bool) -> [u8; PLAIN] {
    let bytes = u8x16::new(uuid.to_be_bytes());
    let (high, low) = (bytes >> 4_u32, bytes & u8x16::splat(0xf));
    let beyond = u8x16::splat(if capitals { b'A' } else { b'a' } - b'0' - 10);
    let digits = |values: u8x16| {
        let letters = values.simd_gt(u8x16::splat(9)) & beyond;
        (values + u8x16::splat(b'0') + letters).to_array()
    };
    let mut text = [0; PLAIN];
    text[..16].copy_from_slice(&digits(u8x16::unpack_low(high, low)));
    text[16..].copy_from_slice(&digits(u8x16::unpack_high(high, low)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
    const OTHER: &str = "ffffffff-4e5f-6071-8293-00000000000a";

    #[test]
    fn a_uuid_is_the_same_however_it_is_spelled_and_keeps_its_spelling() {
        let uuid = uuid(UUID.as_bytes()).unwrap();
        let forms: [fn(&str) -> String; 4] = [
            str::to_owned,
            str::to_uppercase,
            |text| text.replace('-', ""),
            |text| text.replace('-', "").to_uppercase(),
        ];
        for form in forms {
            let (spelling, found) = (form(UUID), form(OTHER));
            assert_eq!(Id::read(spelling.as_bytes()), Some(Id::Uuid(uuid)));
            assert!(is_uuid(&spelling));
            let mut written = format!("/{found}").into_bytes();
            Known::Uuid(&uuid).replace(found.as_bytes(), &mut written);
            assert_eq!(String::from_utf8(written).unwrap(), format!("/{spelling}"));
        }
        assert_eq!(Known::Uuid(&uuid).text(), UUID);
    }

    #[test]
    fn what_is_almost_a_uuid_is_a_token_and_what_has_other_characters_is_nothing() {
        let shorter = UUID.trim_start_matches('0');
        for token in [shorter, &UUID.replace('f', "g"), &UUID.replacen('-', "_", 1), "42", "a.b~c_d-e"] {
            assert_eq!(Id::read(token.as_bytes()), Some(Id::Token(token.as_bytes().into())), "{token}");
            assert!(!is_uuid(token));
        }
        for text in ["", "a b", "a/b", "é", "a%20", &"x".repeat(129)] {
            assert_eq!(Id::read(text.as_bytes()), None, "{text}");
        }
    }
}
