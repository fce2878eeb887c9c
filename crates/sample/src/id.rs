//! Identifiers: version 4 UUIDs for resources, and random bytes for traces.

use std::fmt;

/// The identifier of a resource, in any version of UUID; those chosen here are version 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(u128);

impl Id {
    /// A new one.
    pub(crate) fn random() -> Id {
        let bits = u128::from_be_bytes(random());
        let version = (bits & !(0xf << 76)) | (4 << 76);
        Id((version & !(3 << 62)) | (2 << 62))
    }

    /// Reads `8-4-4-4-12` hexadecimal digits of either case.
    pub(crate) fn parse(text: &str) -> Option<Id> {
        let mut bits = 0_u128;
        let mut length = 0;
        for (at, byte) in text.bytes().enumerate() {
            length += 1;
            if matches!(at, 8 | 13 | 18 | 23) {
                (byte == b'-').then_some(())?;
            } else {
                bits = (bits << 4) | u128::from(char::from(byte).to_digit(16)?);
            }
        }
        (length == 36).then_some(Id(bits))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Id(bits) = self;
        let group = |shift: u32, width: u32| (bits >> shift) & ((1 << width) - 1);
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            group(96, 32),
            group(80, 16),
            group(64, 16),
            group(48, 16),
            group(0, 48)
        )
    }
}

/// Random bytes from the system.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has randomness once it has booted");
    bytes
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes what it is given");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_id_is_a_version_4_uuid_and_reads_back() {
        let id = Id::random();
        let text = id.to_string();
        assert_eq!(text.as_bytes()[14], b'4');
        assert!(matches!(text.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
        assert_eq!(Id::parse(&text), Some(id));
        assert_eq!(Id::parse(&text.to_uppercase()), Some(id));
    }

    #[test]
    fn what_is_not_a_uuid_is_refused() {
        let almost = "6f1e0a3c-1111-4222-8333-44445555666";
        for text in
            ["", "x", almost, &format!("{almost}77"), &format!("{almost}g"), &almost.replace('-', "0")]
        {
            assert_eq!(Id::parse(text), None, "{text}");
        }
    }
}
