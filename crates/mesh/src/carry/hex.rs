//! Hexadecimal digits, of which every scoped request gets eighty: `format!` takes 150 instructions for two.

/// Appends two digits for each byte, and a dash before those at these places.
pub(super) fn push(text: &mut String, bytes: &[u8], dashes: &[usize]) {
    for (index, byte) in bytes.iter().enumerate() {
        if dashes.contains(&index) {
            text.push('-');
        }
        text.push(char::from(digit(byte >> 4)));
        text.push(char::from(digit(byte & 0xf)));
    }
}

/// Writes two digits for each byte.
pub(super) fn write(text: &mut [u8], bytes: &[u8]) {
    for (two, byte) in text.as_chunks_mut().0.iter_mut().zip(bytes) {
        *two = [byte >> 4, byte & 0xf].map(digit);
    }
}

fn digit(value: u8) -> u8 {
    if value < 10 { b'0' + value } else { b'a' - 10 + value }
}
