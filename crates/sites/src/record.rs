//! What a site says of itself, and the limits on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use scope::Site;
use serde::{Deserialize, Serialize};

/// The identity's public key, hashed: what a certificate proves besides the name.
pub type Fingerprint = [u8; 32];

/// Who a sender is, beside its name: what it proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its identity.
    pub fingerprint: Fingerprint,
    /// When that was issued, by the operator's count: later ones are larger.
    pub issued: u64,
}

/// Numbers that `by` sorts by: load, price, carbon.
pub type Metrics = BTreeMap<Box<str>, f64>;

/// A record must fit into one datagram beside what else is in it.
pub(crate) const RECORD_BYTES: usize = 900;
/// So must a relayed set of metrics.
pub(crate) const METRICS_BYTES: usize = 400;
const NAME_BYTES: usize = 128;

/// What the driver knows of its own site when it starts.
#[derive(Clone, Debug)]
pub struct Own {
    /// Its name.
    pub site: Site,
    /// Its identity.
    pub fingerprint: Fingerprint,
    /// When its identity was issued, by the operator's count: later ones are larger.
    pub issued: u64,
    /// Higher than at any start before: the wall clock in milliseconds, or one more than what was kept.
    pub epoch: u64,
    /// The wall clock at `now`, in milliseconds since 1970. It orders definitions of zones.
    pub wall_ms: u64,
    /// What it says of itself.
    pub says: Says,
    /// Its metrics.
    pub metrics: Metrics,
    /// Sites that were known before a restart: they are probed, and believed until that fails.
    pub known: Vec<Arc<Record>>,
}

/// The part of a record that a site can change while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Says {
    /// Where its datagrams go and its link listens: `host:port`.
    pub address: Box<str>,
    /// The services it offers, by canonical name; nothing if it offers all.
    pub services: Option<BTreeSet<Box<str>>>,
    /// The application, such as `openstack`.
    pub kind: Box<str>,
    /// The application's version.
    pub kind_version: Box<str>,
    /// Archipel's version.
    pub version: Box<str>,
    /// Labels.
    pub labels: BTreeMap<Box<str>, Box<str>>,
}

/// What a site says of itself, as all sites hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its name.
    pub site: Site,
    /// When it started.
    pub epoch: u64,
    /// Counts its records since.
    pub version: u32,
    /// Its identity.
    pub fingerprint: Fingerprint,
    /// When that was issued.
    pub issued: u64,
    /// The rest.
    pub says: Says,
}

/// The bytes of a record, beside the name and version, which are read without it.
#[derive(Deserialize)]
struct Body {
    fingerprint: Fingerprint,
    issued: u64,
    says: Says,
}

#[derive(Serialize)]
struct BodyOf<'a> {
    fingerprint: &'a Fingerprint,
    issued: u64,
    says: &'a Says,
}

impl Record {
    /// The identity that it is of.
    pub(crate) fn identity(&self) -> Identity {
        Identity { fingerprint: self.fingerprint, issued: self.issued }
    }

    /// The bytes of it that travel.
    pub(crate) fn body(&self) -> Vec<u8> {
        let body = BodyOf { fingerprint: &self.fingerprint, issued: self.issued, says: &self.says };
        // Bytes to memory: it cannot fail.
        postcard::to_allocvec(&body).unwrap_or_default()
    }

    /// Reads it, if it is within the limits.
    pub(crate) fn read(site: &str, epoch: u64, version: u32, bytes: &[u8]) -> Option<Record> {
        if bytes.len() > RECORD_BYTES {
            return None;
        }
        let body: Body = postcard::from_bytes(bytes).ok()?;
        let says = body.says;
        let site = (site.len() <= NAME_BYTES).then(|| Site::new(site)).flatten()?;
        (!says.address.is_empty()).then_some(Record {
            site,
            epoch,
            version,
            fingerprint: body.fingerprint,
            issued: body.issued,
            says,
        })
    }

    /// Whether it is within the limits.
    pub(crate) fn check(&self) -> Result<(), TooLarge> {
        let bytes = self.body().len();
        let name = self.site.name().len();
        if bytes > RECORD_BYTES || name > NAME_BYTES || self.says.address.is_empty() {
            return Err(TooLarge { bytes, limit: RECORD_BYTES });
        }
        Ok(())
    }
}

/// What a site says of itself does not fit into a datagram, or lacks an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    bytes: usize,
    limit: usize,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "what the site says of itself takes {} bytes of at most {}: it needs an address, a name of at most \
             {NAME_BYTES} bytes, and fewer or shorter labels, services or metrics",
            self.bytes, self.limit
        )
    }
}

impl std::error::Error for TooLarge {}

/// Metrics, and the bytes of them that travel.
#[derive(Debug)]
pub(crate) struct Measures {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Measures {
    /// Metrics within the limits, if there are any.
    pub(crate) fn new(mut metrics: Metrics) -> Result<Option<Arc<Measures>>, TooLarge> {
        metrics.retain(|_, value| !value.is_nan());
        if metrics.is_empty() {
            return Ok(None);
        }
        // Into memory it cannot fail.
        let bytes = postcard::to_allocvec(&metrics).unwrap_or_default();
        if bytes.len() > METRICS_BYTES {
            return Err(TooLarge { bytes: bytes.len(), limit: METRICS_BYTES });
        }
        Ok(Some(Arc::new(Measures { bytes: bytes.into(), metrics: Arc::new(metrics) })))
    }

    /// Reads what another site measures. No bytes are no metrics.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Arc<Measures>>, TooLarge> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let read = (bytes.len() <= METRICS_BYTES).then(|| postcard::from_bytes(bytes).ok()).flatten();
        Measures::new(read.ok_or(TooLarge { bytes: bytes.len(), limit: METRICS_BYTES })?)
    }
}
