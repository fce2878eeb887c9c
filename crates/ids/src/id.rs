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
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
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
    let (mut high, mut low, mut bad) = (0, 0, 0);
    digits(text.get(..8)?, &mut high, &mut bad);
    digits(text.get(9..13)?, &mut high, &mut bad);
    digits(text.get(14..18)?, &mut high, &mut bad);
    digits(text.get(19..23)?, &mut low, &mut bad);
    digits(text.get(24..)?, &mut low, &mut bad);
    (bad < NO_DIGIT).then_some(u128::from(high) << 64 | u128::from(low))
}

pub(crate) fn plain(text: &[u8; PLAIN]) -> Option<u128> {
    let (mut high, mut low, mut bad) = (0, 0, 0);
    digits(text.get(..16)?, &mut high, &mut bad);
    digits(text.get(16..)?, &mut low, &mut bad);
    (bad < NO_DIGIT).then_some(u128::from(high) << 64 | u128::from(low))
}

/// Shifts digits in. What is none leaves a mark in `bad`: asking at each would take longer.
fn digits(text: &[u8], number: &mut u64, bad: &mut u8) {
    for byte in text {
        let digit = VALUES.get(usize::from(*byte)).copied().unwrap_or(NO_DIGIT);
        *bad |= digit;
        *number = *number << 4 | u64::from(digit & 15);
    }
}

const NO_DIGIT: u8 = 0x80;
static VALUES: [u8; 256] = values();

#[allow(clippy::indexing_slicing, reason = "it runs when this is compiled")]
const fn values() -> [u8; 256] {
    let mut values = [NO_DIGIT; 256];
    let mut digit: u8 = 0;
    while digit < 16 {
        let low = b"0123456789abcdef"[digit as usize];
        values[low as usize] = digit;
        values[low.to_ascii_uppercase() as usize] = digit;
        digit += 1;
    }
    values
}

fn write_uuid(uuid: u128, found: &[u8], to: &mut Vec<u8>) {
    let capitals = found.iter().any(u8::is_ascii_uppercase) && !found.iter().any(u8::is_ascii_lowercase);
    let digits: &[u8; 16] = if capitals { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let mut text = [b'-'; DASHED];
    let mut rest = uuid;
    let hyphens = found.len() == DASHED;
    let length = if hyphens { DASHED } else { PLAIN };
    for (index, place) in text.iter_mut().enumerate().take(length).rev() {
        if !(hyphens && matches!(index, 8 | 13 | 18 | 23)) {
            *place = digits.get((rest & 15) as usize).copied().unwrap_or(b'0');
            rest >>= 4;
        }
    }
    to.extend_from_slice(text.get(..length).unwrap_or_default());
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
