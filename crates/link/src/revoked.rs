//! Identities that the authority has taken back, and who must know of it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;

use crate::certificate::{micros, moment, public_key};
use crate::identity::Identity;
use crate::name;

const VERSION: u8 = 1;
/// What the signature begins with, so that nothing else that an authority signs can be taken for this.
const CONTEXT: &[u8] = b"archipel revocation\0";

/// An authority's word that no identity of a site is believed that was issued up to a moment. It can be
/// had from its bytes only with the authority's signature: whoever holds one may pass it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    site: String,
    at: u64,
    signature: Vec<u8>,
}

impl Revocation {
    pub(crate) fn sign<E>(
        site: &str,
        at: SystemTime,
        sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>,
    ) -> Result<Revocation, E> {
        let at = micros(at);
        Ok(Revocation { site: site.to_owned(), at, signature: sign(&said(site, at))? })
    }

    /// To pass on and to keep.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend(self.at.to_be_bytes());
        bytes.push(u8::try_from(self.site.len()).unwrap_or(u8::MAX));
        bytes.extend(self.site.as_bytes());
        bytes.extend(&self.signature);
        bytes
    }

    /// What [`Revocation::to_bytes`] wrote, if it is by an authority that this identity believes.
    pub fn from_bytes(bytes: &[u8], identity: &Identity) -> Result<Revocation, BadRevocation> {
        Revocation::from_authorities(bytes, identity.authorities())
    }

    pub(crate) fn from_authorities(
        bytes: &[u8],
        authorities: &[CertificateDer<'_>],
    ) -> Result<Revocation, BadRevocation> {
        let revocation = Revocation::parse(bytes).ok_or(BadRevocation::Malformed)?;
        let said = said(&revocation.site, revocation.at);
        let signed = authorities.iter().filter_map(public_key).any(|key| {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key).verify(&said, &revocation.signature).is_ok()
        });
        if signed { Ok(revocation) } else { Err(BadRevocation::OtherAuthority) }
    }

    fn parse(bytes: &[u8]) -> Option<Revocation> {
        let (&version, rest) = bytes.split_first()?;
        let (at, rest) = rest.split_first_chunk()?;
        let (&length, rest) = rest.split_first()?;
        let (site, signature) = rest.split_at_checked(length.into())?;
        let site = str::from_utf8(site).ok().filter(|site| name::to_uri(site).is_ok())?.to_owned();
        (version == VERSION).then(|| Revocation {
            site,
            at: u64::from_be_bytes(*at),
            signature: signature.to_vec(),
        })
    }

    /// The site in question.
    #[must_use]
    pub fn site(&self) -> &str {
        &self.site
    }

    /// Identities issued up to here are shut out.
    #[must_use]
    pub fn at(&self) -> SystemTime {
        moment(self.at)
    }
}

fn said(site: &str, at: u64) -> Vec<u8> {
    [CONTEXT, &[VERSION], &at.to_be_bytes(), site.as_bytes()].concat()
}

/// Bytes that are no revocation by this site's authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRevocation {
    /// They are something else, or damaged.
    Malformed,
    /// This site's authority did not sign them.
    OtherAuthority,
}

impl fmt::Display for BadRevocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadRevocation::Malformed => "this is no revocation",
            BadRevocation::OtherAuthority => "this revocation is not by the authority of this site",
        })
    }
}

impl std::error::Error for BadRevocation {}

/// Whom this site believes no more. Copies are one set, for handshakes, connections and datagrams alike.
#[derive(Clone, Debug, Default)]
pub struct Revoked(Arc<Set>);

#[derive(Debug, Default)]
struct Set {
    latest: RwLock<HashMap<String, Revocation>>,
    news: watch::Sender<()>,
}

impl Revoked {
    /// Adds one; whether it says anything new. What exists between this site and the other then ends.
    pub fn add(&self, revocation: Revocation) -> bool {
        let mut latest = self.0.latest.write().unwrap_or_else(PoisonError::into_inner);
        if latest.get(&revocation.site).is_some_and(|known| known.at >= revocation.at) {
            return false;
        }
        latest.insert(revocation.site.clone(), revocation);
        drop(latest);
        self.0.news.send_replace(());
        true
    }

    /// The latest of each site: to pass on, and to keep for the next start.
    #[must_use]
    pub fn all(&self) -> Vec<Revocation> {
        self.0.latest.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Whether an identity of this site, issued then, is shut out.
    #[must_use]
    pub fn shuts_out(&self, site: &str, issued: SystemTime) -> bool {
        let latest = self.0.latest.read().unwrap_or_else(PoisonError::into_inner);
        latest.get(site).is_some_and(|known| micros(issued) <= known.at)
    }

    /// Returns once an identity is shut out.
    pub(crate) async fn shut_out(self, site: String, issued: SystemTime) {
        let mut news = self.0.news.subscribe();
        while !self.shuts_out(&site, issued) {
            // The sender is in `self`: it is never gone.
            let _ = news.changed().await;
        }
    }
}
