//! What an identifier looks like.

use std::sync::Arc;

/// The longest identifier that is not a UUID, in bytes.
pub(crate) const MOST_BYTES: usize = 128;

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
    let letters = bytes >> 6 & 0x0101_0101_0101_0101;
    let values = (bytes & 0x0f0f_0f0f_0f0f_0f0f) + letters * 9;
    let twos = (values | values >> 4) & 0x00ff_00ff_00ff_00ff;
    let fours = (twos | twos >> 8) & 0x0000_ffff_0000_ffff;
    (fours | fours >> 16) & 0xffff_ffff
}

fn write_uuid(uuid: u128, found: &[u8], to: &mut Vec<u8>) {
    let any = |is: fn(&u8) -> bool| found.iter().fold(false, |any, byte| any | is(byte));
    let capitals = any(u8::is_ascii_uppercase) && !any(u8::is_ascii_lowercase);
    let ten = if capitals { b'A' - 10 } else { b'a' - 10 };
    let digit = |value: u8| value + if value < 10 { b'0' } else { ten };
    let mut digits = [0; PLAIN];
    let (twos, _) = digits.as_chunks_mut::<2>();
    for (two, byte) in twos.iter_mut().zip(uuid.to_be_bytes()) {
        *two = [digit(byte >> 4), digit(byte & 15)];
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
