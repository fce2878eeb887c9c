//! What an identifier looks like.

use std::sync::Arc;

/// The longest identifier that is not a UUID, in bytes.
pub(crate) const MOST_BYTES: usize = 128;

/// A one in each byte.
const ONES: u64 = 0x0101_0101_0101_0101;

/// A UUID with its hyphens, and without.
pub(crate) const DASHED: usize = 36;
pub(crate) const PLAIN: usize = 32;

/// An identifier. UUIDs are numbers: neither hyphens nor case distinguish them.
#[derive(Clone, Debug, PartialEq, Eq)]
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

    /// Writes it in the place of `found`: a UUID with hyphens or capitals only if that had them.
    pub(crate) fn write(&self, found: &[u8], to: &mut Vec<u8>) {
        match self {
            Id::Uuid(uuid) => write_uuid(*uuid, found, to),
            Id::Token(token) => to.extend_from_slice(token),
        }
    }

    /// Its usual spelling.
    pub(crate) fn text(&self) -> String {
        let mut text = Vec::new();
        self.write(&[b'-'; DASHED], &mut text);
        String::from_utf8_lossy(&text).into_owned()
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

/// Which of 64 bytes are such: the lowest bit is the first byte's. The compiler takes many at once.
pub(crate) fn ids_among(bytes: &[u8; 64]) -> u64 {
    let mut are = [0_u8; 64];
    for (is, byte) in are.iter_mut().zip(bytes) {
        let letter = (byte | 0x20).wrapping_sub(b'a') < 26;
        let digit = byte.wrapping_sub(b'0') < 10;
        let equals = |other| u8::from(*byte == other);
        let other = equals(b'-') | equals(b'.') | equals(b'_') | equals(b'~');
        *is = u8::from(letter) | u8::from(digit) | other;
    }
    let (eights, _) = are.as_chunks::<8>();
    // The product has the eight lowest bits of its bytes in its highest byte.
    let bits = |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    eights.iter().rev().fold(0, |all, eight| all << 8 | bits(eight))
}

/// A UUID, in either form.
pub(crate) fn uuid(text: &[u8]) -> Option<u128> {
    match text.len() {
        DASHED => dashed(text.first_chunk()?),
        PLAIN => plain(text.first_chunk()?),
        _ => None,
    }
}

pub(crate) fn dashed(text: &[u8; DASHED]) -> Option<u128> {
    if [text[8], text[13], text[18], text[23]] != [b'-'; 4] {
        return None;
    }
    let mut digits = [0; PLAIN];
    digits[..8].copy_from_slice(&text[..8]);
    digits[8..12].copy_from_slice(&text[9..13]);
    digits[12..16].copy_from_slice(&text[14..18]);
    digits[16..20].copy_from_slice(&text[19..23]);
    digits[20..].copy_from_slice(&text[24..]);
    plain(&digits)
}

pub(crate) fn plain(text: &[u8; PLAIN]) -> Option<u128> {
    if !all_hex(text) {
        return None;
    }
    let (eights, _) = text.as_chunks::<8>();
    Some(eights.iter().fold(0, |uuid, eight| uuid << 32 | u128::from(eight_digits(*eight))))
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

/// The number that eight hexadecimal digits are, which are taken all at once: each byte to its value, then
/// twos, fours and eights of them together.
fn eight_digits(text: [u8; 8]) -> u64 {
    let bytes = u64::from_be_bytes(text);
    let letters = bytes >> 6 & ONES;
    let values = (bytes & 0x0f0f_0f0f_0f0f_0f0f) + letters * 9;
    let twos = (values | values >> 4) & 0x00ff_00ff_00ff_00ff;
    let fours = (twos | twos >> 8) & 0x0000_ffff_0000_ffff;
    (fours | fours >> 16) & 0xffff_ffff
}

fn write_uuid(uuid: u128, found: &[u8], to: &mut Vec<u8>) {
    let capitals = has_capitals(found);
    let mut digits = [0; PLAIN];
    let (eights, _) = digits.as_chunks_mut::<8>();
    let bytes = uuid.to_be_bytes();
    let (fours, _) = bytes.as_chunks::<4>();
    for (eight, four) in eights.iter_mut().zip(fours) {
        *eight = digits_of(u32::from_be_bytes(*four), capitals);
    }
    if found.len() != DASHED {
        to.extend_from_slice(&digits);
        return;
    }
    let mut text = [b'-'; DASHED];
    text[..8].copy_from_slice(&digits[..8]);
    text[9..13].copy_from_slice(&digits[8..12]);
    text[14..18].copy_from_slice(&digits[12..16]);
    text[19..23].copy_from_slice(&digits[16..20]);
    text[24..].copy_from_slice(&digits[20..]);
    to.extend_from_slice(&text);
}

/// Whether a UUID has capitals and no other letters.
fn has_capitals(uuid: &[u8]) -> bool {
    const LETTERS: u64 = 0x40 * ONES;
    let (eights, _) = uuid.as_chunks::<8>();
    let (mut large, mut small) = (0, 0);
    for eight in eights.iter().chain(uuid.last_chunk()) {
        let bytes = u64::from_le_bytes(*eight);
        // Of digits and the hyphen, the bit 0x40 is not set; of letters, 0x20 is if they are small.
        large |= bytes & !(bytes << 1);
        small |= bytes & bytes << 1;
    }
    large & LETTERS != 0 && small & LETTERS == 0
}

/// The eight hexadecimal digits of a number, all at once, as [`eight_digits`] reads them.
fn digits_of(number: u32, capitals: bool) -> [u8; 8] {
    let eight = u64::from(number);
    let fours = (eight | eight << 16) & 0x0000_ffff_0000_ffff;
    let twos = (fours | fours << 8) & 0x00ff_00ff_00ff_00ff;
    let values = (twos | twos << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // Six more than ten or more are sixteen or more.
    let letters = (values + 6 * ONES) >> 4 & ONES;
    let beyond = u64::from(if capitals { b'A' } else { b'a' } - b'0' - 10);
    (values + u64::from(b'0') * ONES + letters * beyond).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";

    #[test]
    fn a_uuid_is_the_same_however_it_is_spelled_and_keeps_its_spelling() {
        let plain = UUID.replace('-', "");
        let id = Id::read(UUID.as_bytes()).unwrap();
        for spelling in [UUID.to_owned(), UUID.to_uppercase(), plain.to_uppercase(), plain] {
            assert_eq!(Id::read(spelling.as_bytes()).as_ref(), Some(&id));
            let mut written = Vec::new();
            id.write(spelling.as_bytes(), &mut written);
            assert_eq!(String::from_utf8(written).unwrap(), spelling);
        }
        assert_eq!(id.text(), UUID);
    }

    #[test]
    fn bytes_of_identifiers_are_told_alike_one_by_one_and_many_at_once() {
        for from in 0..=255_u8 {
            let bytes =
                std::array::from_fn(|at| from.wrapping_add(u8::try_from(at).unwrap().wrapping_mul(37)));
            let bits =
                bytes.iter().enumerate().fold(0, |bits, (at, byte)| bits | u64::from(is_id(*byte)) << at);
            assert_eq!(ids_among(&bytes), bits);
        }
    }

    #[test]
    fn what_is_almost_a_uuid_is_a_token_and_what_has_other_characters_is_nothing() {
        let shorter = UUID.trim_start_matches('0');
        for token in [shorter, &UUID.replace('f', "g"), &UUID.replacen('-', "_", 1), "42", "a.b~c_d-e"] {
            assert_eq!(Id::read(token.as_bytes()), Some(Id::Token(token.as_bytes().into())), "{token}");
        }
        for text in ["", "a b", "a/b", "é", "a%20", &"x".repeat(129)] {
            assert_eq!(Id::read(text.as_bytes()), None, "{text}");
        }
    }
}
