//! Bytes as hexadecimal digits, for documents and command lines.

use std::fmt::Write;

/// Two lower-case digits for each byte.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // A string takes what it is given.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What [`encode`] wrote.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    rest.is_empty().then(|| bytes.collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        for bytes in [&[][..], &[0], &[0xff, 0x10, 7]] {
            assert_eq!(decode(&encode(bytes)).as_deref(), Some(bytes));
        }
        for text in ["0", "0g", "+1", "é"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
