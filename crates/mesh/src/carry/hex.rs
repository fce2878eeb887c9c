//! Hexadecimal digits, of which every scoped request gets eighty: `format!` takes 150 instructions for two.

/// Appends two digits for each byte, and a dash before those at these places.
pub(super) fn push(text: &mut String, bytes: &[u8], dashes: &[usize]) {
    for (index, byte) in bytes.iter().enumerate() {
        if dashes.contains(&index) {
            text.push('-');
        }
        text.push(digit(byte >> 4));
        text.push(digit(byte & 0xf));
    }
}

fn digit(value: u8) -> char {
    char::from(if value < 10 { b'0' + value } else { b'a' - 10 + value })
}
