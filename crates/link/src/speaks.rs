//! Which versions of what sites say to each other a site speaks, and the one that a connection is of.
//!
//! It is agreed upon in the TLS handshake (ALPN), before a byte of a request: each side names its versions, and the
//! newest that both speak counts. Two that have none in common say so to each other, and nothing else: see
//! `docs/decisions/0011-versions.md`.

use std::fmt;

/// Both lanes, as the first version names them.
const H2: &str = "h2";
const HTTP1: &str = "http/1.1";

/// Spoken by two sites that have no version in common: whoever is connected to says which it speaks, and hangs up.
pub(crate) const MISFITS: &[u8] = b"archipel-versions";

/// The versions that a site speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speaks {
    oldest: u16,
    newest: u16,
}

/// What a request needs of the connection that it is sent on, among its extensions: this version, or a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since(pub u16);

/// What a connection is for, by what its handshake agreed upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agreed {
    Small(u16),
    Long(u16),
    /// There is no version in common.
    Misfits,
}

impl Speaks {
    /// What this program speaks: its own version, and the one before it, so that sites can be upgraded one by one.
    ///
    /// The first named no version.
    pub const NOW: Speaks = Speaks { oldest: 1, newest: 2 };

    /// From one version to another; none where the first is the later one.
    #[must_use]
    pub fn new(oldest: u16, newest: u16) -> Option<Speaks> {
        (1..=newest).contains(&oldest).then_some(Speaks { oldest, newest })
    }

    /// The first of them.
    #[must_use]
    pub const fn oldest(self) -> u16 {
        self.oldest
    }

    /// The last of them.
    #[must_use]
    pub const fn newest(self) -> u16 {
        self.newest
    }

    /// What a client offers for small requests, the newest first.
    pub(crate) fn small(self) -> Vec<Vec<u8>> {
        self.names(&[H2])
    }

    /// The same for long ones.
    pub(crate) fn long(self) -> Vec<Vec<u8>> {
        self.names(&[HTTP1])
    }

    /// What a server takes.
    pub(crate) fn all(self) -> Vec<Vec<u8>> {
        self.names(&[H2, HTTP1])
    }

    fn names(self, lanes: &[&str]) -> Vec<Vec<u8>> {
        let versions = (self.oldest..=self.newest).rev();
        let names = versions.flat_map(|version| lanes.iter().map(move |lane| name(version, lane)));
        names.map(String::into_bytes).chain([MISFITS.to_vec()]).collect()
    }

    /// As it is told to a site that speaks none of them.
    pub(crate) fn told(self) -> String {
        format!("{} {}\n", self.oldest, self.newest)
    }

    /// What such a site said.
    pub(crate) fn read(told: &[u8]) -> Option<Speaks> {
        let (oldest, newest) = std::str::from_utf8(told).ok()?.strip_suffix('\n')?.split_once(' ')?;
        Speaks::new(oldest.parse().ok()?, newest.parse().ok()?)
    }
}

impl fmt::Display for Speaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.oldest == self.newest {
            write!(f, "version {}", self.newest)
        } else {
            write!(f, "versions {} to {}", self.oldest, self.newest)
        }
    }
}

fn name(version: u16, lane: &str) -> String {
    if version == 1 { lane.to_owned() } else { format!("archipel-{version}-{lane}") }
}

/// What a handshake agreed upon.
pub(crate) fn agreed(protocol: Option<&[u8]>) -> Option<Agreed> {
    let protocol = protocol?;
    if protocol == MISFITS {
        return Some(Agreed::Misfits);
    }
    let protocol = std::str::from_utf8(protocol).ok()?;
    let (version, lane) = match protocol.strip_prefix("archipel-") {
        Some(rest) => rest.split_once('-').and_then(|(version, lane)| Some((version.parse().ok()?, lane)))?,
        None => (1, protocol),
    };
    match lane {
        H2 => Some(Agreed::Small(version)),
        HTTP1 => Some(Agreed::Long(version)),
        _ => None,
    }
}

/// Two sites that speak no version in common, as one of them sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// What this site speaks.
    pub ours: Speaks,
    /// What the other speaks.
    pub theirs: Speaks,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Misfit { ours, theirs } = self;
        let older = if theirs.oldest > ours.newest { "this site" } else { "that site" };
        write!(f, "it speaks {theirs} of the protocol between sites, and this site {ours}: upgrade {older}")
    }
}

impl std::error::Error for Misfit {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_read_as_the_same() {
        let speaks = Speaks::new(1, 12).unwrap();
        for (version, name) in (1..=12).rev().zip(speaks.small()) {
            assert_eq!(agreed(Some(&name)), Some(Agreed::Small(version)));
        }
        for (version, name) in (1..=12).rev().zip(speaks.long()) {
            assert_eq!(agreed(Some(&name)), Some(Agreed::Long(version)));
        }
        assert_eq!(speaks.all().last().and_then(|name| agreed(Some(name))), Some(Agreed::Misfits));
        assert_eq!(Speaks::read(speaks.told().as_bytes()), Some(speaks));
        assert_eq!(agreed(Some(b"archipel-x-h2")), None);
        for told in ["", "1", "2 1\n", "0 1\n", "1 2", "1 70000\n"] {
            assert_eq!(Speaks::read(told.as_bytes()), None, "{told:?}");
        }
    }
}
