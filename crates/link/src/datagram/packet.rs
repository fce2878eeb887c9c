//! The bytes of a datagram.
//!
//! ```text
//! version 1 · flags 1 · run 8 · stamp 8 · seen run 8 · seen stamp 8 · certificate's id 8
//! length 1 · sender's name · length 1 · receiver's name (none: whoever is there)
//! [length 2 · certificate] · length 2 · payload · signature 64
//! ```
//! The signature covers all before it. Nothing is secret: a payload is proven, not hidden.

use ring::signature::ECDSA_P256_SHA256_FIXED;
use ring::signature::UnparsedPublicKey;

const VERSION: u8 = 1;
const CARRIES_CERTIFICATE: u8 = 1;
const ASKS: u8 = 2;
const SIGNATURE_BYTES: usize = 64;

/// What the signature begins with, so that nothing else that a site signs can be taken for a datagram.
pub(super) const CONTEXT: &[u8] = b"archipel datagram\0";

/// The longest that is looked at at all.
const MAX_BYTES: usize = 4096;

/// A moment in one run of one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moment {
    /// A number that the site drew when it started.
    pub(super) run: u64,
    /// Microseconds, rising.
    pub(super) stamp: u64,
}

/// A datagram, read and not yet believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet<'b> {
    pub(super) sent: Moment,
    /// The latest that the sender has seen of the receiver.
    pub(super) seen: Moment,
    /// The beginning of the fingerprint of the sender's certificate.
    pub(super) id: [u8; 8],
    pub(super) from: &'b str,
    pub(super) to: Option<&'b str>,
    /// The sender cannot tell whether what came from the receiver is fresh, or who it is.
    pub(super) asks: bool,
    pub(super) certificate: Option<&'b [u8]>,
    pub(super) payload: &'b [u8],
}

/// A datagram's signature, and what it covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signed<'b> {
    covered: &'b [u8],
    signature: &'b [u8],
}

impl Signed<'_> {
    pub(super) fn is_by(&self, key: &[u8]) -> bool {
        let message = [CONTEXT, self.covered].concat();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(&message, self.signature).is_ok()
    }
}

impl<'b> Packet<'b> {
    /// All but the signature, after the context that it begins with.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = CONTEXT.to_vec();
        let mut flags = 0;
        if self.certificate.is_some() {
            flags |= CARRIES_CERTIFICATE;
        }
        if self.asks {
            flags |= ASKS;
        }
        bytes.extend([VERSION, flags]);
        for number in [self.sent.run, self.sent.stamp, self.seen.run, self.seen.stamp] {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend(self.id);
        for name in [self.from, self.to.unwrap_or("")] {
            bytes.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
            bytes.extend(name.as_bytes());
        }
        for block in self.certificate.into_iter().chain([self.payload]) {
            bytes.extend(u16::try_from(block.len()).unwrap_or(u16::MAX).to_be_bytes());
            bytes.extend(block);
        }
        bytes
    }

    /// Nothing, if it is no datagram of this version, to its last byte.
    pub(super) fn read(bytes: &'b [u8]) -> Option<(Packet<'b>, Signed<'b>)> {
        if bytes.len() > MAX_BYTES {
            return None;
        }
        let (covered, signature) = bytes.split_at_checked(bytes.len().checked_sub(SIGNATURE_BYTES)?)?;
        let mut rest = covered;
        let [version, flags] = take(&mut rest)?;
        if version != VERSION || flags & !(CARRIES_CERTIFICATE | ASKS) != 0 {
            return None;
        }
        let sent = Moment { run: number(&mut rest)?, stamp: number(&mut rest)? };
        let seen = Moment { run: number(&mut rest)?, stamp: number(&mut rest)? };
        let id = take(&mut rest)?;
        let (from, to) = (name(&mut rest)?, name(&mut rest)?);
        let certificate = if flags & CARRIES_CERTIFICATE == 0 { None } else { Some(block(&mut rest)?) };
        let payload = block(&mut rest)?;
        let packet = Packet {
            sent,
            seen,
            id,
            from,
            to: (!to.is_empty()).then_some(to),
            asks: flags & ASKS != 0,
            certificate,
            payload,
        };
        (rest.is_empty() && !from.is_empty()).then_some((packet, Signed { covered, signature }))
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_be_bytes)
}

fn bytes<'b>(rest: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

fn name<'b>(rest: &mut &'b [u8]) -> Option<&'b str> {
    let [length] = take(rest)?;
    str::from_utf8(bytes(rest, length.into())?).ok()
}

fn block<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = take(rest).map(u16::from_be_bytes)?;
    bytes(rest, length.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_datagram_is_read_as_it_was_written(
            numbers in any::<[u64; 4]>(), id in any::<[u8; 8]>(), from in "[^\u{0}]{1,40}", to in ".{0,40}",
            asks in any::<bool>(), certificate in prop::option::of(prop::collection::vec(any::<u8>(), 0..600)),
            payload in prop::collection::vec(any::<u8>(), 0..1200),
        ) {
            let packet = Packet {
                sent: Moment { run: numbers[0], stamp: numbers[1] },
                seen: Moment { run: numbers[2], stamp: numbers[3] },
                id,
                from: &from,
                to: (!to.is_empty()).then_some(&to),
                asks,
                certificate: certificate.as_deref(),
                payload: &payload,
            };
            let mut bytes = packet.write().split_off(CONTEXT.len());
            bytes.extend([0; SIGNATURE_BYTES]);
            prop_assert_eq!(Packet::read(&bytes).map(|(read, _)| read), Some(packet));
            // No part of it is one, nor it with more behind.
            bytes.push(0);
            prop_assert!(Packet::read(&bytes).is_none());
            prop_assert!(Packet::read(&bytes[..bytes.len() - 2]).is_none());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let _ = Packet::read(&bytes);
        }
    }
}
