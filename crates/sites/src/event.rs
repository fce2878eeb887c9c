//! What the driver tells a machine, and what a machine tells the driver.

use std::time::Duration;

use scope::Site;

use crate::record::Identity;

/// The time since a start that the driver chose. It never goes back.
pub type Time = Duration;

/// What happened. An event that comes late, twice, or for what the machine does not know, changes nothing.
#[derive(Clone, Debug)]
pub enum Event {
    /// A datagram came. Its sender is proven, and not revoked; that it is fresh is not relied on.
    Datagram {
        /// Who signed it.
        from: Site,
        /// With which identity.
        identity: Identity,
        /// What [`Effect::Send`] had.
        bytes: Vec<u8>,
    },
    /// The answer to an [`Effect::Sync`].
    Synced {
        /// Who answered.
        from: Site,
        /// With which identity.
        identity: Identity,
        /// What its [`crate::Machine::answer`] gave.
        bytes: Vec<u8>,
    },
    /// The time of [`Effect::WakeAt`] has come.
    Tick,
    /// Find the others through these addresses.
    Join {
        /// `host:port` of some of them.
        addresses: Vec<Box<str>>,
    },
    /// Say goodbye. The driver goes on for about a second, so that it is heard.
    Leave,
    /// Keep a site visible, but unused; or use it again.
    Quarantine {
        /// The site.
        site: Site,
        /// Whether.
        on: bool,
    },
    /// The operator's statement, whose signature the driver checked: identities of this name that were
    /// issued before are not to be trusted.
    Revoked {
        /// The signed bytes.
        statement: Vec<u8>,
        /// Whose.
        site: Site,
        /// An identity with a lower [`crate::Record::issued`] is revoked.
        before: u64,
    },
    /// The link measured a round trip.
    Measured {
        /// To this site.
        site: Site,
        /// How long.
        rtt: Duration,
    },
    /// The link's connection to a site works, or fails.
    Reached {
        /// The site.
        site: Site,
        /// Whether it works.
        works: bool,
    },
    /// The link has no connection to a site any more, nor tries to: what it said last is of no use.
    Unlinked {
        /// The site.
        site: Site,
    },
}

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Sign these bytes and send them as one datagram.
    Send {
        /// `host:port`.
        to: Box<str>,
        /// Who is to read it, and nobody else. Nothing, where that is not known: at an address to join by.
        site: Option<Site>,
        /// At most [`crate::DATAGRAM_BYTES`].
        bytes: Vec<u8>,
    },
    /// Ask a site over the link to exchange states: its [`crate::Machine::answer`] comes back as
    /// [`Event::Synced`]. If that fails, nothing is to be said.
    Sync {
        /// Whom.
        with: Site,
        /// `host:port`.
        address: Box<str>,
        /// The question.
        bytes: Vec<u8>,
    },
    /// Report [`Event::Tick`] at this time; it replaces the one before.
    WakeAt(Time),
    /// Something changed that [`crate::Machine::snapshot`] shows.
    Changed,
    /// A statement came by gossip: if its signature is the operator's, report [`Event::Revoked`].
    CheckRevocation {
        /// The signed bytes.
        statement: Vec<u8>,
    },
    /// Something for the log.
    Notice(Notice),
}

/// What happened to a site, as this one sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It is new.
    Joined(Site),
    /// It said goodbye.
    Left(Site),
    /// It does not answer; it has some seconds to object.
    Suspected(Site),
    /// It did not object.
    Dead(Site),
    /// It was suspected, dead or gone, and is there.
    Back(Site),
    /// It is alive, and cannot be reached from here.
    Unreachable(Site),
    /// It can be reached from here again.
    Reachable(Site),
    /// Its identity is revoked.
    Revoked(Site),
    /// Another identity claims its name, and was refused.
    NameTaken(Site),
    /// A limit on the number of sites or zones keeps this name out.
    Full(Box<str>),
    /// A zone or quarantine of this name has a time of its change that lies in the future.
    FromTheFuture(Box<str>),
    /// Others believe that this site is dead or gone: it objected.
    Objected,
}
