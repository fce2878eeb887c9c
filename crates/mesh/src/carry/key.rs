//! The key that stands for a scoped request in the calls that it causes.

use std::fmt;
use std::hash::Hasher;

use profile::Form;
use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128, SipHasher24 as SipHasher24Wide};

use super::hex;

/// What this site's keys are made with. Whoever knows it can make keys.
#[derive(Clone)]
pub struct Secret([u8; 16]);

impl Secret {
    /// A secret of 128 random bits.
    #[must_use]
    pub fn new(bits: [u8; 16]) -> Secret {
        Secret(bits)
    }

    /// The key with this nonce.
    #[must_use]
    pub fn key(&self, nonce: u64) -> Key {
        Key { nonce, mac: SipHasher24::new_with_key(&self.0).hash(&nonce.to_be_bytes()) }
    }

    /// The key that a text holds, if it has that form and was made with this secret.
    ///
    /// Digits of either case are read: a service may change it, and what a listener for the public takes
    /// for a foreign id must not become a key behind it.
    #[must_use]
    pub fn read(&self, form: Form, text: &[u8]) -> Option<Key> {
        let bits = bits(form, text.trim_ascii())?.to_be_bytes();
        let (nonce, mac) = bits.split_first_chunk::<8>()?;
        let key = self.key(u64::from_be_bytes(*nonce));
        // One comparison of one machine word: how long it takes does not depend on where they differ.
        (key.mac == u64::from_be_bytes(*mac.first_chunk::<8>()?)).then_some(key)
    }

    /// A hash that nobody without the secret can aim at. It is wider than a MAC and of another family, so
    /// that neither tells anything of the other.
    pub(super) fn hash(&self, parts: &[&[u8]]) -> u128 {
        let mut hasher = SipHasher24Wide::new_with_key(&self.0);
        for part in parts {
            hasher.write(&(part.len() as u64).to_be_bytes());
            hasher.write(part);
        }
        hasher.finish128().as_u128()
    }
}

/// It does not show the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// 64 random bits, and a MAC of 64 bits that only this site can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    nonce: u64,
    mac: u64,
}

impl Key {
    /// The random half.
    #[must_use]
    pub fn nonce(self) -> u64 {
        self.nonce
    }

    /// The key in a form.
    #[must_use]
    pub fn write(self, form: Form) -> String {
        write(u128::from(self.nonce) << 64 | u128::from(self.mac), form)
    }
}

/// 128 bits in a form.
pub(super) fn write(bits: u128, form: Form) -> String {
    let bytes = bits.to_be_bytes();
    let (prefix, dashes): (_, &[usize]) = match form {
        Form::Hex => ("", &[]),
        Form::Uuid => ("", &[4, 6, 8, 10]),
        Form::ReqUuid => ("req-", &[4, 6, 8, 10]),
    };
    let mut text = String::with_capacity(prefix.len() + 2 * bytes.len() + dashes.len());
    text.push_str(prefix);
    hex::push(&mut text, &bytes, dashes);
    text
}

fn bits(form: Form, text: &[u8]) -> Option<u128> {
    match form {
        Form::Hex => (text.len() == 32).then(|| digits(text))?,
        Form::Uuid => {
            let lengths = text.split(|byte| *byte == b'-').map(<[u8]>::len);
            lengths.eq([8, 4, 4, 4, 12]).then(|| digits(text))?
        }
        Form::ReqUuid => {
            let (prefix, uuid) = text.split_first_chunk::<4>()?;
            prefix.eq_ignore_ascii_case(b"req-").then(|| bits(Form::Uuid, uuid))?
        }
    }
}

/// Hexadecimal digits, with dashes where the caller found them in order.
fn digits(text: &[u8]) -> Option<u128> {
    text.iter()
        .filter(|byte| **byte != b'-')
        .try_fold((0u128, 0), |(bits, count), byte| {
            let digit = char::from(*byte).to_digit(16)?;
            Some(((bits << 4) | u128::from(digit), count + 1))
        })
        .and_then(|(bits, count)| (count == 32).then_some(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMS: [Form; 3] = [Form::Hex, Form::Uuid, Form::ReqUuid];

    #[test]
    fn a_key_is_read_in_the_form_it_was_written_in_and_in_no_other() {
        let secret = Secret::new([7; 16]);
        for nonce in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX] {
            let key = secret.key(nonce);
            for written in FORMS {
                let text = key.write(written);
                for read in FORMS {
                    let expected = (read == written).then_some(key);
                    assert_eq!(secret.read(read, text.as_bytes()), expected, "{text} as {read:?}");
                    let upper = text.to_uppercase();
                    assert_eq!(secret.read(read, upper.as_bytes()), expected, "{upper} as {read:?}");
                }
            }
        }
    }

    #[test]
    fn a_key_of_another_secret_or_with_any_bit_changed_is_foreign() {
        let (secret, other) = (Secret::new([7; 16]), Secret::new([8; 16]));
        let text = secret.key(42).write(Form::Hex);
        assert_eq!(other.read(Form::Hex, text.as_bytes()), None);
        let bits = u128::from_str_radix(&text, 16).unwrap();
        for bit in 0..128 {
            let changed = format!("{:032x}", bits ^ (1 << bit));
            assert_eq!(secret.read(Form::Hex, changed.as_bytes()), None, "bit {bit}");
        }
    }

    #[test]
    fn dashes_in_the_wrong_place_are_no_key() {
        let secret = Secret::new([7; 16]);
        let (hex, uuid) = (secret.key(42).write(Form::Hex), secret.key(42).write(Form::Uuid));
        let moved = uuid.replacen('-', "", 1) + "-";
        for wrong in [format!("{hex}-"), hex.replacen('0', "-", 1), moved, uuid.replace('-', "--")] {
            assert_eq!(secret.read(Form::Hex, wrong.as_bytes()), None, "{wrong}");
            assert_eq!(secret.read(Form::Uuid, wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::new([7; 16])), "Secret(..)");
    }
}
