//! Which bytes may stand where.

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
    let (words, rest) = bytes.as_chunks();
    first_marked(words, |word| {
        // A byte below the space borrows from its high bit. Only bytes after such a one can be marked falsely.
        let below = word.wrapping_sub(each(b' ')) & !word;
        let delete = word ^ each(0x7f);
        (below | (delete.wrapping_sub(each(1)) & !delete)) & each(0x80)
    })
    .unwrap_or_else(|| {
        let is_control = |byte: &u8| *byte < b' ' || *byte == 0x7f;
        bytes.len() - rest.len() + rest.iter().position(is_control).unwrap_or(rest.len())
    })
}

/// How many of the first bytes are letters, digits and hyphens, which is all that most names of fields have.
#[must_use]
pub fn name_len(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks();
    first_marked(words, |word| {
        // Without their high bits, bytes are compared by adding: the sum has the high bit from a bound on.
        let low = word & each(0x7f);
        let small = low | each(0x20);
        let from = |word: u64, bound: u8| word + each(0x80 - bound);
        let letters = from(small, b'a') & !from(small, b'z' + 1);
        let digits = from(low, b'0') & !from(low, b'9' + 1);
        let hyphens = from(low, b'-') & !from(low, b'-' + 1);
        (!(letters | digits | hyphens) | word) & each(0x80)
    })
    .unwrap_or_else(|| {
        let is_other = |byte: &u8| !(byte.is_ascii_alphanumeric() || *byte == b'-');
        bytes.len() - rest.len() + rest.iter().position(is_other).unwrap_or(rest.len())
    })
}

/// A word with this byte eight times.
const fn each(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Eight bytes are looked at together: where the first is that is marked, by its high bit.
fn first_marked(words: &[[u8; 8]], marks: impl Fn(u64) -> u64) -> Option<usize> {
    words.iter().enumerate().find_map(|(index, word)| {
        let marked = marks(u64::from_le_bytes(*word));
        (marked != 0).then(|| 8 * index + marked.trailing_zeros() as usize / 8)
    })
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
            for (byte, at) in (0..=255).flat_map(|byte| (0..20).map(move |at| (byte, at))) {
                let mut bytes = [around; 20];
                bytes[at] = byte;
                let first = |is: &dyn Fn(u8) -> bool| bytes.iter().position(|b| !is(*b)).unwrap_or(20);
                let text = first(&|byte| byte != b'\t' && is_field_text(&[byte]));
                assert_eq!(text_len(&bytes), text, "{byte:#x} at {at} among {around:#x}");
                let name = first(&|byte| byte.is_ascii_alphanumeric() || byte == b'-');
                assert_eq!(name_len(&bytes), name, "{byte:#x} at {at} among {around:#x}");
                assert!(bytes[..name].iter().all(|byte| is_token_byte(*byte)));
            }
        }
    }
}
