//! Sending.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use super::packet::{CONTEXT, Moment, Packet};
use super::{MAX_PAYLOAD_BYTES, Shared};
use crate::name;

/// What fits into one packet on every network that a site is likely to have.
const PACKET_BYTES: usize = 1400;
/// What a datagram has besides names, payload and certificate, at most.
const FRAME_BYTES: usize = 112;

/// Signs what this site sends.
#[derive(Clone, Debug)]
pub struct Sealer(pub(super) Arc<Shared>);

/// What to send, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Sealed {
    /// Our certificate, where the receiver may not have it and it does not fit beside the payload.
    pub introduction: Option<Vec<u8>>,
    /// The payload.
    pub datagram: Vec<u8>,
}

/// Why something was not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealError {
    /// The payload is longer than [`MAX_PAYLOAD_BYTES`].
    TooLong,
    /// No site can have the receiver's name.
    BadName,
    /// The system has no randomness.
    Crypto,
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SealError::TooLong => "this is too long for a datagram",
            SealError::BadName => "no site can have the receiver's name",
            SealError::Crypto => "this could not be signed",
        })
    }
}

impl std::error::Error for SealError {}

impl Sealer {
    /// Signs a payload for a site, or for whoever is there: a first contact, of which only the address is
    /// known.
    pub fn seal(&self, to: Option<&str>, payload: &[u8], now: SystemTime) -> Result<Sealed, SealError> {
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(SealError::TooLong);
        }
        let (_, known) = self.0.state().table.seen_of(to);
        if known {
            return Ok(Sealed { introduction: None, datagram: self.write(to, payload, false, false, now)? });
        }
        let names = self.0.site.len() + to.map_or(0, str::len);
        let fits = FRAME_BYTES + names + self.0.certificate.len() + payload.len() <= PACKET_BYTES;
        let introduction = if fits { None } else { Some(self.write(to, &[], true, false, now)?) };
        Ok(Sealed { introduction, datagram: self.write(to, payload, fits, false, now)? })
    }

    /// Our certificate and nothing else: what a site gets that asks.
    pub fn introduce(&self, to: &str, now: SystemTime) -> Result<Vec<u8>, SealError> {
        self.write(Some(to), &[], true, false, now)
    }

    /// Asks a site whose datagram was refused to show who it is, or that it was no replay; see
    /// [`Refusal::ask`](super::Refusal::ask). Nothing, where there were too many of late: anyone can make
    /// this site ask, and has a site at a forged address get the question.
    #[must_use]
    pub fn ask(&self, site: &str, now: SystemTime) -> Option<Vec<u8>> {
        if !self.0.state().asks.take(now) {
            return None;
        }
        self.write(Some(site), &[], true, true, now).ok()
    }

    fn write(
        &self,
        to: Option<&str>,
        payload: &[u8],
        carry: bool,
        asks: bool,
        now: SystemTime,
    ) -> Result<Vec<u8>, SealError> {
        let ours = &self.0;
        if to.is_some_and(|to| name::to_uri(to).is_err()) {
            return Err(SealError::BadName);
        }
        let (stamp, seen) = {
            let mut state = ours.state();
            (state.next_stamp(now), state.table.seen_of(to).0)
        };
        let packet = Packet {
            sent: Moment { run: ours.run, stamp },
            seen,
            id: ours.id,
            from: &ours.site,
            to,
            asks,
            certificate: carry.then_some(&ours.certificate),
            payload,
        };
        let mut bytes = packet.write();
        let signature = ours.signer.sign(&ours.random, &bytes).map_err(|_| SealError::Crypto)?;
        bytes.extend(signature.as_ref());
        Ok(bytes.split_off(CONTEXT.len()))
    }
}
