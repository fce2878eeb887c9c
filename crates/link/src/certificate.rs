//! What a site's certificate says. Whether it can be believed is not asked here.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::digest;
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::name;

/// The first byte of a serial number that tells when its certificate was issued: then eight bytes of
/// microseconds, then eight of chance. Validity cannot tell it: that is backdated, and in whole seconds.
const DATED: u8 = 0x41;
const SERIAL_BYTES: usize = 17;

/// A serial number for a certificate that is issued now.
pub(crate) fn serial(now: SystemTime) -> rcgen::SerialNumber {
    let mut serial = vec![DATED];
    serial.extend(micros(now).to_be_bytes());
    // Two certificates of one microsecond would differ in their keys still.
    serial.extend(getrandom::u64().unwrap_or(0).to_be_bytes());
    rcgen::SerialNumber::from(serial)
}

/// Microseconds since 1970.
pub(crate) fn micros(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// The moment that many microseconds after 1970. (Far beyond what a clock can show, 1970 itself.)
pub(crate) fn moment(micros: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_micros(micros)).unwrap_or(UNIX_EPOCH)
}

/// What a site's certificate says.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    pub(crate) site: String,
    pub(crate) issued: SystemTime,
    pub(crate) until: SystemTime,
    /// The public key's bits.
    pub(crate) key: Vec<u8>,
    pub(crate) fingerprint: Fingerprint,
}

impl Certificate {
    /// Nothing, if it is no certificate or does not name one site.
    pub(crate) fn read(certificate: &CertificateDer<'_>) -> Option<Certificate> {
        let site = name::of_certificate(certificate)?;
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let seconds = |time: i64| UNIX_EPOCH + Duration::from_secs(time.try_into().unwrap_or(0));
        let issued = issued(parsed.raw_serial());
        Some(Certificate {
            site,
            issued: issued.unwrap_or_else(|| seconds(parsed.validity.not_before.timestamp())),
            until: seconds(parsed.validity.not_after.timestamp()),
            key: parsed.public_key().subject_public_key.data.to_vec(),
            fingerprint: Fingerprint::of(certificate),
        })
    }
}

/// The public key's bits of any certificate, also an authority's.
pub(crate) fn public_key(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(parsed.public_key().subject_public_key.data.to_vec())
}

fn issued(serial: &[u8]) -> Option<SystemTime> {
    let dated = serial.strip_prefix(&[DATED]).filter(|_| serial.len() == SERIAL_BYTES)?;
    dated.first_chunk().map(|micros| moment(u64::from_be_bytes(*micros)))
}

/// What tells one certificate from all others: its SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(crate) fn of(certificate: &[u8]) -> Fingerprint {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
        Fingerprint(bytes)
    }

    /// One that was written down.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Fingerprint {
        Fingerprint(bytes)
    }

    /// To write it down.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// As other tools show it, in hexadecimal.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_number_tells_its_moment_and_one_of_another_kind_does_not() {
        let now = moment(1_790_000_000_123_456);
        assert_eq!(issued(serial(now).as_ref()), Some(now));
        for other in [&[][..], &[DATED], &[DATED; 16], &[DATED; 18], &[0x42; SERIAL_BYTES]] {
            assert_eq!(issued(other), None);
        }
    }
}
