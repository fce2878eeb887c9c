//! What the operator decides for all sites: zones and quarantines, of which the later wins, and revocations,
//! which stay.

use std::collections::BTreeMap;

use scope::{Site, Zone};

use crate::rng::{hash, mix};
use crate::wire::Item;

/// The most bytes of a zone's text, so that it fits into a datagram.
pub(crate) const ZONE_BYTES: usize = 700;
/// The most bytes of a statement.
pub(crate) const STATEMENT_BYTES: usize = 700;

/// Stamps of what files say are below this: all others have at least a millisecond.
const OF_FILES: u64 = (1 << 16) - 1;

/// When something was decided, and where: a hybrid logical clock. Of two, the larger wins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Milliseconds since 1970, times 2^16, and a count for what happened within one.
    pub time: u64,
    /// Decides between equals.
    pub by: Site,
}

impl Stamp {
    /// The clock part for a wall clock.
    pub(crate) fn of_ms(ms: u64) -> u64 {
        ms.min(u64::MAX >> 16) << 16
    }

    /// For what a file says: before all that was decided while sites ran. Nothing, if what is known of the
    /// zone wins. What the file said before, at the same site, does not.
    pub(crate) fn of_file(own: &Site, text: &str, known: Option<&Defined>) -> Option<Stamp> {
        let first = Stamp { time: 1, by: own.clone() };
        let Some(known) = known else { return Some(first) };
        if known.text.as_deref() == Some(text) {
            return None;
        }
        let (time, by) = (known.stamp.time, &known.stamp.by);
        let stamp = if by == own && time < OF_FILES { Stamp { time: time + 1, ..first } } else { first };
        (stamp > known.stamp).then_some(stamp)
    }
}

/// A zone as it was defined last, or removed.
#[derive(Clone, Debug)]
pub(crate) struct Defined {
    pub(crate) stamp: Stamp,
    pub(crate) text: Option<Box<str>>,
    /// Read; nothing if it is removed, or cannot be read by this site's dialect.
    pub(crate) zone: Option<Zone>,
}

#[derive(Clone, Debug)]
pub(crate) struct Revocation {
    pub(crate) before: u64,
    pub(crate) statement: Vec<u8>,
}

#[derive(Debug, Default)]
pub(crate) struct Registers {
    pub(crate) zones: BTreeMap<Box<str>, Defined>,
    pub(crate) quarantines: BTreeMap<Site, (Stamp, bool)>,
    pub(crate) revocations: BTreeMap<Site, Revocation>,
    /// The latest stamp that was seen or given.
    clock: u64,
}

/// One of them, by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Zone(Box<str>),
    Quarantine(Site),
    Revocation(Site),
}

impl Registers {
    /// A stamp after all that were seen.
    pub(crate) fn stamp(&mut self, wall_ms: u64, by: &Site) -> Stamp {
        self.clock = self.clock.saturating_add(1).max(Stamp::of_ms(wall_ms.max(1)));
        Stamp { time: self.clock, by: by.clone() }
    }

    pub(crate) fn saw(&mut self, time: u64) {
        self.clock = self.clock.max(time);
    }

    /// Whether an identity is revoked.
    pub(crate) fn revokes(&self, site: &str, issued: u64) -> bool {
        self.revocations.get(site).is_some_and(|revocation| issued < revocation.before)
    }

    /// Whether a zone may be added: removed ones, oldest first, make room.
    pub(crate) fn room_for_zone(&mut self, name: &str, limit: usize) -> bool {
        if self.zones.contains_key(name) || self.zones.len() < limit {
            return true;
        }
        let removed = self.zones.iter().filter(|(_, defined)| defined.text.is_none());
        let oldest = removed.min_by(|a, b| a.1.stamp.cmp(&b.1.stamp)).map(|(name, _)| name.clone());
        oldest.is_some_and(|name| self.zones.remove(&name).is_some())
    }

    pub(crate) fn item(&self, key: &Key) -> Option<Item<'_>> {
        Some(match key {
            Key::Zone(name) => {
                let (name, defined) = self.zones.get_key_value(name)?;
                let (stamp, by) = (defined.stamp.time, defined.stamp.by.name());
                Item::Zone { name, stamp, by, text: defined.text.as_deref() }
            }
            Key::Quarantine(site) => {
                let (site, (stamp, on)) = self.quarantines.get_key_value(site)?;
                Item::Quarantine { site: site.name(), stamp: stamp.time, by: stamp.by.name(), on: *on }
            }
            Key::Revocation(site) => {
                let (site, revocation) = self.revocations.get_key_value(site)?;
                let (before, statement) = (revocation.before, revocation.statement.as_slice());
                Item::Revoked { site: site.name(), before, statement }
            }
        })
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        let zones = self.zones.keys().cloned().map(Key::Zone);
        let quarantines = self.quarantines.keys().cloned().map(Key::Quarantine);
        // What must not be lost comes first, should the rest be cut off.
        self.revocations.keys().cloned().map(Key::Revocation).chain(quarantines).chain(zones)
    }

    /// The same for the same content.
    pub(crate) fn digest(&self) -> u64 {
        let zones = self.zones.iter().map(|(name, defined)| (1, hash(name.as_bytes()), &defined.stamp));
        let quarantines = self.quarantines.iter();
        let quarantines = quarantines.map(|(site, (stamp, _))| (2, hash(site.name().as_bytes()), stamp));
        let stamped = zones.chain(quarantines).map(|(kind, name, stamp)| {
            mix(mix(name ^ kind) ^ stamp.time ^ mix(hash(stamp.by.name().as_bytes())))
        });
        let revoked = self.revocations.iter();
        let revoked = revoked.map(|(site, one)| mix(mix(hash(site.name().as_bytes()) ^ 3) ^ one.before));
        stamped.chain(revoked).fold(0, |sum, one| sum ^ one)
    }
}
