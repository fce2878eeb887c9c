//! Percent-encoding, as paths and `baggage` have it.

use std::fmt::Write;

use super::error::Fault;

/// What a percent-encoded text stands for.
pub(super) fn decode(text: &[u8]) -> Result<String, Fault> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = after.split_first_chunk::<2>().ok_or(Fault::Percent)?;
        bytes.push(byte(*digits).ok_or(Fault::Percent)?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| Fault::Utf8)
}

/// The same for `baggage`, where some libraries write a space as `+` when they hand a value on
/// (OpenTelemetry's for Python). No scope has a `+` of its own.
pub(super) fn decode_form(text: &[u8]) -> Result<String, Fault> {
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    decode(&spaced)
}

/// A text as a value of `baggage`: what the W3C's grammar does not allow there is encoded, and so is `+`.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !b"\"%+,;\\".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// A text as a value in a query: all but what stands for itself there is encoded.
pub(super) fn encode_query(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

fn byte([high, low]: [u8; 2]) -> Option<u8> {
    let digit = |byte| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}
