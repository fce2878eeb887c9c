//! What a site says in writing: others can pass it on, and cannot change it.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::sign::SigningKey;
use rustls::{RootCertStore, SignatureScheme};
use serde::{Deserialize, Serialize};

use crate::certificate::Certificate;
use crate::identity::{Fault, Identity, IdentityError};
use crate::revoked::Revoked;
use crate::tls;

/// Comes first in all that is signed here, so that nothing else that a site signs can be taken for it.
const CONTEXT: &[u8] = b"archipel statement 1\0";

/// The keys of `archipel init`, and what an operator's own authority may give.
const SCHEMES: [SignatureScheme; 4] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
];

/// Signs for this site, and checks what sites signed.
#[derive(Clone)]
pub struct Notary(Arc<Shared>);

struct Shared {
    certificate: Vec<u8>,
    key: Arc<dyn SigningKey>,
    roots: Arc<RootCertStore>,
    revoked: Revoked,
}

/// A signature, with what is needed to check it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    /// How it was made, as TLS numbers it.
    pub scheme: u16,
    /// The certificate of the site that signed.
    pub certificate: Vec<u8>,
    /// The signature itself.
    pub signature: Vec<u8>,
}

impl Notary {
    /// For the site of this identity; it believes nobody who is revoked.
    pub fn new(identity: &Identity, revoked: &Revoked) -> Result<Notary, IdentityError> {
        let crypto = |error: rustls::Error| IdentityError::new(Fault::Crypto).because(error);
        let key = tls::provider().key_provider.load_private_key(identity.key()).map_err(crypto)?;
        let (certificate, roots) = (identity.certificate().to_vec(), tls::roots(identity)?);
        Ok(Notary(Arc::new(Shared { certificate, key, roots, revoked: revoked.clone() })))
    }

    /// Signs this. Nothing, if the key cannot.
    #[must_use]
    pub fn sign(&self, said: &[u8]) -> Option<Signed> {
        let signer = self.0.key.choose_scheme(&SCHEMES)?;
        let signature = signer.sign(&[CONTEXT, said].concat()).ok()?;
        Some(Signed { scheme: signer.scheme().into(), certificate: self.0.certificate.clone(), signature })
    }

    /// Whether this site signed it: with a certificate that is valid, or was when it says that it signed, and that is
    /// not revoked.
    #[must_use]
    pub fn is_by(&self, site: &str, said: &[u8], signed: &Signed, when: SystemTime) -> bool {
        let certificate = CertificateDer::from(signed.certificate.as_slice());
        let Some(read) = Certificate::read(&certificate).filter(|read| read.site == site) else {
            return false;
        };
        if self.0.revoked.shuts_out(&read.site, read.issued) {
            return false;
        }
        let provider = tls::provider();
        let is_valid = |time: SystemTime| {
            let time = UnixTime::since_unix_epoch(time.duration_since(UNIX_EPOCH).unwrap_or_default());
            tls::chain(&certificate, &[], &self.0.roots, time, &provider).is_ok()
        };
        if !is_valid(SystemTime::now()) && !is_valid(when) {
            return false;
        }
        let (said, scheme) = ([CONTEXT, said].concat(), SignatureScheme::from(signed.scheme));
        let known = provider.signature_verification_algorithms.mapping;
        let ways = known.iter().filter(|(known, _)| *known == scheme && SCHEMES.contains(known));
        ways.flat_map(|(_, ways)| *ways)
            .any(|way| way.verify_signature(&read.key, &said, &signed.signature).is_ok())
    }
}

impl fmt::Debug for Notary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notary")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Authority;

    const DAY: Duration = Duration::from_hours(24);

    fn notary(identity: &Identity) -> Notary {
        Notary::new(identity, &Revoked::default()).unwrap()
    }

    #[test]
    fn what_a_site_signed_is_its_own_word_and_nobody_elses() {
        let authority = Authority::create("Test").unwrap();
        let [first, second] = ["Site1", "Site2"].map(|site| notary(&authority.issue(site).unwrap()));
        let now = SystemTime::now();
        let signed = first.sign(b"yes").unwrap();
        assert!(second.is_by("Site1", b"yes", &signed, now) && first.is_by("Site1", b"yes", &signed, now));
        assert!(!second.is_by("Site1", b"no", &signed, now));
        assert!(!second.is_by("Site2", b"yes", &signed, now));
        // Not with the certificate of the other, which is no secret.
        let claimed = Signed { certificate: signed.certificate.clone(), ..second.sign(b"yes").unwrap() };
        assert!(!second.is_by("Site1", b"yes", &claimed, now));
        let stranger = notary(&Authority::create("Other").unwrap().issue("Site1").unwrap());
        assert!(!second.is_by("Site1", b"yes", &stranger.sign(b"yes").unwrap(), now));
        for scheme in [0, u16::from(SignatureScheme::ED25519)] {
            assert!(!second.is_by("Site1", b"yes", &Signed { scheme, ..signed.clone() }, now));
        }
        let nothing = Signed { certificate: Vec::new(), signature: Vec::new(), ..signed };
        assert!(!second.is_by("Site1", b"yes", &nothing, now));
    }

    #[test]
    fn a_certificate_counts_that_was_valid_when_it_was_used_unless_it_is_revoked() {
        let authority = Authority::create("Test").unwrap();
        let now = SystemTime::now();
        let old = authority.issue_between("Site1", now - 3 * DAY, now - 2 * DAY).unwrap();
        let signed = notary(&old).sign(b"yes").unwrap();
        let revoked = Revoked::default();
        let second = Notary::new(&authority.issue("Site2").unwrap(), &revoked).unwrap();
        assert!(second.is_by("Site1", b"yes", &signed, now - Duration::from_hours(60)));
        assert!(!second.is_by("Site1", b"yes", &signed, now));
        let young = notary(&authority.issue("Site1").unwrap()).sign(b"yes").unwrap();
        assert!(second.is_by("Site1", b"yes", &young, now));
        assert!(revoked.add(authority.revoke("Site1", SystemTime::now()).unwrap()));
        assert!(!second.is_by("Site1", b"yes", &young, now));
    }
}
