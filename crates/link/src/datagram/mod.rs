//! Small messages between sites without a connection: each is signed by its sender's identity, and counts
//! once. They are proven, not secret.
//!
//! **Whose it is.** A receiver needs the sender's certificate. A sender carries it until the other has
//! evidently got it: until something comes back that echoes a moment of this run of ours. Where it does
//! not fit beside the payload it goes ahead, in an introduction of its own. A receiver that does not know
//! a sender (it was restarted, say) asks, with a datagram that carries its own certificate.
//!
//! **That it counts once.** Each start of a site draws a number, its run; stamps rise within a run, from
//! the clock, and a receiver remembers the latest. What remains is the first datagram of a run. It is fresh
//! if it echoes a moment of the receiver that came after the doubt, or, to save that round trip, if its
//! stamp is close to the receiver's clock and later than all that was seen of the sender. So clocks that
//! are wrong, or go back, cost a round trip, and shut nobody out; where they are right, a recorded first
//! datagram could be used for a minute by somebody who also made its receiver forget or never get it.

mod open;
mod packet;
mod seal;
mod table;
mod window;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;

pub use open::{Opened, Opener, Refusal};
pub use seal::{SealError, Sealed, Sealer};
use table::Table;

use crate::certificate::micros;
use crate::identity::{Fault, Identity, IdentityError};
use crate::revoked::Revoked;
use crate::tls;

/// The longest payload.
pub const MAX_PAYLOAD_BYTES: usize = 1200;

/// Asking for certificates answers to addresses that anyone can forge: this many per second, at most.
const ASKS_PER_SECOND: u64 = 50;
const ASKS_AT_ONCE: u64 = 200;

/// Both ends of a site's datagrams. A renewed identity takes a new pair: to the others it is a new run.
pub fn pair(identity: &Identity, revoked: Revoked) -> Result<(Sealer, Opener), IdentityError> {
    let crypto = |error: ring::error::KeyRejected| {
        let why = format!("the key is not the P-256 that `archipel init` makes: {error}");
        IdentityError::new(Fault::Crypto).because(why)
    };
    let random = SystemRandom::new();
    let key = identity.key();
    let signer = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.secret_der(), &random)
        .map_err(crypto)?;
    let run = getrandom::u64().map_err(|error| IdentityError::new(Fault::Crypto).because(error))?;
    let shared = Arc::new(Shared {
        site: identity.site().to_owned(),
        certificate: identity.certificate().to_vec(),
        id: id(identity.certificate()),
        run,
        signer,
        random,
        roots: tls::roots(identity)?,
        provider: tls::provider(),
        revoked,
        state: Mutex::default(),
    });
    Ok((Sealer(Arc::clone(&shared)), Opener(shared)))
}

/// What both ends share.
struct Shared {
    site: String,
    certificate: Vec<u8>,
    id: [u8; 8],
    run: u64,
    signer: EcdsaKeyPair,
    random: SystemRandom,
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
    revoked: Revoked,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    table: Table,
    /// The last stamp of ours.
    stamp: u64,
    asks: Asks,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A moment, later than all before it.
    fn next_stamp(&mut self, now: SystemTime) -> u64 {
        self.stamp = micros(now).max(self.stamp + 1);
        self.stamp
    }
}

/// How many asks there may still be.
#[derive(Default)]
struct Asks {
    spent: u64,
    since: Option<SystemTime>,
}

impl Asks {
    fn take(&mut self, now: SystemTime) -> bool {
        let passed = self.since.and_then(|since| now.duration_since(since).ok());
        // A clock that goes back begins anew.
        if self.since.is_none_or(|since| now < since) {
            self.since = Some(now);
        } else if let Some(passed) = passed.filter(|passed| *passed >= Duration::from_secs(1)) {
            self.spent = self.spent.saturating_sub(passed.as_secs().saturating_mul(ASKS_PER_SECOND));
            self.since = Some(now);
        }
        let may = self.spent < ASKS_AT_ONCE;
        self.spent += u64::from(may);
        may
    }
}

/// The beginning of a certificate's fingerprint: enough to tell the few of one site apart.
fn id(certificate: &[u8]) -> [u8; 8] {
    let fingerprint = crate::certificate::Fingerprint::of(certificate);
    fingerprint.as_bytes().first_chunk().copied().unwrap_or_default()
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Datagrams").field("site", &self.site).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Authority;

    #[test]
    fn a_site_cannot_speak_in_the_name_of_another() {
        let authority = Authority::create("Test").unwrap();
        let of = |site| pair(&authority.issue(site).unwrap(), Revoked::default()).unwrap();
        let now = SystemTime::now();
        let ((honest, _), (_, receiver)) = (of("Site1"), of("Site2"));
        let (mut insider, opener) = of("Site3");
        drop(opener);
        Arc::get_mut(&mut insider.0).unwrap().site = "Site1".to_owned();
        let claim = || insider.seal(Some("Site2"), b"I am Site1", now).unwrap().datagram;
        assert_eq!(receiver.open(&claim(), now), Err(Refusal::OtherAuthority));
        let said = honest.seal(Some("Site2"), b"so am I", now).unwrap().datagram;
        assert_eq!(receiver.open(&said, now).unwrap().from, "Site1");
        assert_eq!(receiver.open(&claim(), now), Err(Refusal::OtherAuthority));
        // Nor with the certificate of the other, which is no secret.
        let ours = Arc::get_mut(&mut insider.0).unwrap();
        (ours.certificate, ours.id) = (honest.0.certificate.clone(), honest.0.id);
        let claim = insider.seal(Some("Site2"), b"I am Site1", now).unwrap().datagram;
        assert_eq!(receiver.open(&claim, now), Err(Refusal::Forged));
    }
}
