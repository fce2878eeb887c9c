//! Which bytes may stand where.

use wide::u8x16;

const TOKEN: [bool; 256] = table(b"!#$%&'*+-.^_`|~");

/// RFC 3986, and what it wants encoded but clients send as it is: `[`, `]`, `^`, `{`, `|`, `}`. Not the
/// backslash, which some servers read as a slash, nor what hyper refuses.
const TARGET: [bool; 256] = table(b"-._~:/?@!$&'()*+,;=%[]^{|}");

const HOST: [bool; 256] = table(b"-._~");

const fn table(signs: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        let mut rest = signs;
        let mut found = byte.is_ascii_alphanumeric();
        while let [first, others @ ..] = rest {
            found |= *first == byte;
            rest = others;
        }
        // In a `const`, an index that is out of bounds does not compile.
        #[expect(clippy::indexing_slicing)]
        {
            table[byte as usize] = found;
        }
        byte += 1;
    }
    table
}

fn has(table: &[bool; 256], byte: u8) -> bool {
    table.get(usize::from(byte)).copied().unwrap_or(false)
}

/// Whether all are in the table. It looks at every byte even after a bad one: without an early exit the
/// compiler unrolls, and good bytes are what mostly comes.
fn all(table: &[bool; 256], bytes: &[u8]) -> bool {
    bytes.iter().fold(1, |good, &byte| good & u8::from(has(table, byte))) == 1
}

pub(crate) fn is_token_byte(byte: u8) -> bool {
    has(&TOKEN, byte)
}

pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && all(&TOKEN, bytes)
}

pub(crate) fn is_target(bytes: &[u8]) -> bool {
    all(&TARGET, bytes)
}

pub(crate) fn is_host_name(bytes: &[u8]) -> bool {
    !bytes.is_empty() && all(&HOST, bytes)
}

/// Whether a field's value has only tabs, spaces, visible characters, and bytes above ASCII.
pub(crate) fn is_field_text(bytes: &[u8]) -> bool {
    // No early exit here either: sixteen bytes are compared at a time.
    let is_control = |b: u8| (b < b' ' && b != b'\t') || b == 0x7f;
    bytes.iter().fold(0, |bad, &byte| bad | u8::from(is_control(byte))) == 0
}

/// How many of the first bytes are text: all up to the first control character, of which a tab is one here.
#[must_use]
pub fn text_len(bytes: &[u8]) -> usize {
    let all = u8x16::splat;
    first_other(
        bytes,
        |sixteen| !(up_to(sixteen, b' ' - 1) | sixteen.simd_eq(all(0x7f))),
        |byte| byte >= b' ' && byte != 0x7f,
    )
}

/// How many of the first bytes are letters, digits and hyphens, which is all that most names of fields have.
#[must_use]
pub fn name_len(bytes: &[u8]) -> usize {
    let all = u8x16::splat;
    first_other(
        bytes,
        |sixteen| {
            let letters = up_to((sixteen | all(0x20)) - all(b'a'), 25);
            let digits = up_to(sixteen - all(b'0'), 9);
            letters | digits | sixteen.simd_eq(all(b'-'))
        },
        |byte| byte.is_ascii_alphanumeric() || byte == b'-',
    )
}

/// Which are at most this. The least of two is one instruction on any machine, to compare them is not.
fn up_to(sixteen: u8x16, most: u8) -> u8x16 {
    sixteen.min(u8x16::splat(most)).simd_eq(sixteen)
}

/// Sixteen bytes are looked at together, and the last few one by one: where the first is that is not of a kind.
fn first_other(bytes: &[u8], are: impl Fn(u8x16) -> u8x16, is: impl Fn(u8) -> bool) -> usize {
    let (blocks, rest) = bytes.as_chunks::<16>();
    for (index, block) in blocks.iter().enumerate() {
        let others = !are(u8x16::new(*block)).to_bitmask() & 0xffff;
        if others != 0 {
            return 16 * index + others.trailing_zeros() as usize;
        }
    }
    bytes.len() - rest.len() + rest.iter().position(|byte| !is(*byte)).unwrap_or(rest.len())
}

/// Takes spaces off both ends. Not tabs: where this is used, they are refused.
pub(crate) fn trim_spaces(mut bytes: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = bytes {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte, at every place, among bytes of every kind.
    #[test]
    fn bytes_are_judged_alike_wherever_they_stand() {
        for around in [b'a', b'-', b' ', b'~', 0x80, 0xff] {
            for (byte, at) in (0..=255).flat_map(|byte| (0..40).map(move |at| (byte, at))) {
                let mut bytes = [around; 40];
                bytes[at] = byte;
                let first = |is: &dyn Fn(u8) -> bool| bytes.iter().position(|b| !is(*b)).unwrap_or(40);
                let text = first(&|byte| byte != b'\t' && is_field_text(&[byte]));
                assert_eq!(text_len(&bytes), text, "{byte:#x} at {at} among {around:#x}");
                let name = first(&|byte| byte.is_ascii_alphanumeric() || byte == b'-');
                assert_eq!(name_len(&bytes), name, "{byte:#x} at {at} among {around:#x}");
                assert!(bytes[..name].iter().all(|byte| is_token_byte(*byte)));
            }
        }
    }
}
