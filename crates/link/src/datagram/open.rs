//! Receiving: cheap questions first, signatures after, and nothing is remembered of what is not proven.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::CertificateError;
use rustls::pki_types::{CertificateDer, UnixTime};

use super::packet::{Packet, Signed};
use super::window::Window;
use super::{Shared, State, id};
use crate::certificate::{Certificate, Fingerprint, micros};
use crate::tls;

/// How far the first stamp of a run may be from our clock, if it has nothing better to show.
const FRESH: Duration = Duration::from_mins(1);

/// Believes what other sites of the same authority sent to this one.
#[derive(Debug)]
pub struct Opener(pub(super) Arc<Shared>);

/// A datagram that is proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The site that signed it.
    pub from: String,
    /// With which certificate.
    pub fingerprint: Fingerprint,
    /// When that was issued.
    pub issued: SystemTime,
    /// What it says; nothing, if it is only about certificates.
    pub payload: Vec<u8>,
    /// It refused something of ours for want of a proof: send
    /// [`introduce`](super::Sealer::introduce), or what was lost once more.
    pub asks: bool,
}

/// Why a datagram was not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It is no datagram of this version.
    Malformed,
    /// It is for another site.
    NotForUs,
    /// It has the name of this very site: its own, come back, or somebody else with the same name.
    OurName,
    /// The certificate of this site, if it is one, is not known here and was not carried.
    Unknown(String),
    /// Its certificate is not by our authority, or not of the site that it names.
    OtherAuthority,
    /// Its certificate is past its time, or before.
    Expired,
    /// Its certificate was taken back.
    Revoked,
    /// A later certificate of this site is known.
    Superseded,
    /// It is not signed with the key of its certificate.
    Forged,
    /// It was seen before, or is older than this site remembers.
    Replayed,
    /// It is by this site, and can be a replay of something older.
    Unproven(String),
}

impl Refusal {
    /// The site to [`ask`](super::Sealer::ask) for a proof, at the address that the datagram came from.
    #[must_use]
    pub fn ask(&self) -> Option<&str> {
        match self {
            Refusal::Unknown(site) | Refusal::Unproven(site) => Some(site),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Malformed => "this is no datagram",
            Refusal::NotForUs => "this datagram is for another site",
            Refusal::OurName => "this datagram has the name of this very site",
            Refusal::Unknown(site) => return write!(f, "the certificate of {site:?} is not known yet"),
            Refusal::OtherAuthority => "its certificate is of another authority, or of another site",
            Refusal::Expired => "its certificate is out of its time; check the clocks of both sites",
            Refusal::Revoked => "its certificate was revoked",
            Refusal::Superseded => "a later certificate of this site is known",
            Refusal::Forged => "its signature is wrong",
            Refusal::Replayed => "it was seen before",
            Refusal::Unproven(site) => return write!(f, "{site:?} has not shown yet that it sends now"),
        })
    }
}

impl std::error::Error for Refusal {}

impl Opener {
    /// Checks a datagram, and takes it: the same bytes are refused from then on.
    pub fn open(&self, bytes: &[u8], now: SystemTime) -> Result<Opened, Refusal> {
        let ours = &self.0;
        let (packet, signed) = Packet::read(bytes).ok_or(Refusal::Malformed)?;
        if packet.to.is_some_and(|to| to != ours.site) {
            return Err(Refusal::NotForUs);
        }
        if packet.from == ours.site {
            return Err(Refusal::OurName);
        }
        match self.known_key(&packet, now)? {
            Some(key) if signed.is_by(&key) => {}
            Some(_) => return Err(Refusal::Forged),
            None => self.meet(&packet, signed, now)?,
        }
        let (fingerprint, issued) = self.take(&packet, now)?;
        Ok(Opened {
            from: packet.from.to_owned(),
            fingerprint,
            issued,
            payload: packet.payload.to_vec(),
            asks: packet.asks,
        })
    }

    /// Keeps a site's certificate that came in another way, so that its first datagram is believed at
    /// once. The site that it names.
    pub fn learn(&self, certificate: &[u8], now: SystemTime) -> Result<String, Refusal> {
        let read = self.believe(certificate, None, now)?;
        self.keep(&read, id(certificate))?;
        Ok(read.site)
    }

    /// The key that a datagram must be signed with, if its certificate is known already.
    fn known_key(&self, packet: &Packet<'_>, now: SystemTime) -> Result<Option<Vec<u8>>, Refusal> {
        let state = self.0.state();
        let Some(known) = state.table.get(packet.from).filter(|known| known.id == packet.id) else {
            return Ok(None);
        };
        if self.0.revoked.shuts_out(packet.from, known.issued) {
            return Err(Refusal::Revoked);
        }
        if now > known.until {
            return Err(Refusal::Expired);
        }
        if known.run == Some(packet.sent.run) && !known.window.is_new(packet.sent.stamp) {
            return Err(Refusal::Replayed);
        }
        Ok(Some(known.key.clone()))
    }

    /// Checks a datagram whose certificate is not known yet, and keeps it.
    fn meet(&self, packet: &Packet<'_>, signed: Signed<'_>, now: SystemTime) -> Result<(), Refusal> {
        let Some(certificate) = packet.certificate else {
            return Err(Refusal::Unknown(packet.from.to_owned()));
        };
        let read = self.believe(certificate, Some(packet.from), now)?;
        if id(certificate) != packet.id || !signed.is_by(&read.key) {
            return Err(Refusal::Forged);
        }
        self.keep(&read, packet.id)
    }

    fn believe(
        &self,
        certificate: &[u8],
        site: Option<&str>,
        now: SystemTime,
    ) -> Result<Certificate, Refusal> {
        let ours = &self.0;
        let certificate = CertificateDer::from(certificate);
        let read = Certificate::read(&certificate).ok_or(Refusal::OtherAuthority)?;
        if site.is_some_and(|site| site != read.site) {
            return Err(Refusal::OtherAuthority);
        }
        if ours.revoked.shuts_out(&read.site, read.issued) {
            return Err(Refusal::Revoked);
        }
        let time = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).unwrap_or_default());
        tls::chain(&certificate, &[], &ours.roots, time, &ours.provider).map_err(|error| match error {
            rustls::Error::InvalidCertificate(
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. },
            ) => Refusal::Expired,
            _ => Refusal::OtherAuthority,
        })?;
        Ok(read)
    }

    /// The latest certificate of a site counts: a box with an older one cannot take its name back.
    fn keep(&self, read: &Certificate, id: [u8; 8]) -> Result<(), Refusal> {
        let mut state = self.0.state();
        let known = state.table.get(&read.site);
        if known.is_some_and(|known| known.id != id && known.issued >= read.issued) {
            return Err(Refusal::Superseded);
        }
        let stamp = state.stamp;
        state.table.put(read, id, stamp);
        Ok(())
    }

    /// Remembers a datagram whose signature is right, unless it came before.
    fn take(&self, packet: &Packet<'_>, now: SystemTime) -> Result<(Fingerprint, SystemTime), Refusal> {
        let mut state = self.0.state();
        let State { table, stamp, .. } = &mut *state;
        let (forgotten, echoes_us) = (table.floor, packet.seen.run == self.0.run);
        let known = table.get_mut(packet.from).ok_or_else(|| Refusal::Unknown(packet.from.to_owned()))?;
        if known.run != Some(packet.sent.run) {
            let after = known.asked.or(known.run.is_none().then_some(forgotten));
            let shown = echoes_us && after.is_some_and(|after| packet.seen.stamp > after);
            let (now, tolerance) = (micros(now), u64::try_from(FRESH.as_micros()).unwrap_or(u64::MAX));
            let floor = now.saturating_sub(tolerance).max(known.window.latest());
            let fresh = packet.sent.stamp > floor && packet.sent.stamp <= now.saturating_add(tolerance);
            if !shown && !fresh {
                // The first doubt counts: what echoes anything after it was sent after it.
                known.asked.get_or_insert(*stamp);
                // Telling what we saw claims nothing for it, and lets the other prove itself.
                known.claimed = Some(packet.sent);
                return Err(Refusal::Unproven(packet.from.to_owned()));
            }
            known.run = Some(packet.sent.run);
            // Of the same run, what came before it was shown by the same proof, or not at all.
            known.window = Window::after(if fresh { floor } else { packet.sent.stamp.saturating_sub(1) });
            known.holds_ours = false;
            known.asked = None;
        }
        if !known.window.take(packet.sent.stamp) {
            return Err(Refusal::Replayed);
        }
        known.claimed = None;
        known.holds_ours = (known.holds_ours || echoes_us) && !packet.asks;
        Ok((known.fingerprint, known.issued))
    }
}
