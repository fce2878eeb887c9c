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

/// Takes spaces off both ends. Not tabs: where this is used, they are refused.
pub(crate) fn trim_spaces(mut bytes: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = bytes {
        bytes = rest;
    }
    bytes
}
