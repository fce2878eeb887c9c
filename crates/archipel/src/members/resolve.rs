//! Names to addresses, remembered for a while: a datagram must not wait for a name server each time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long what a name stands for is remembered, and that it stands for nothing.
const FRESH: Duration = Duration::from_secs(30);
/// Names come from other sites: there is an end to them.
const MOST: usize = 1024;

/// What is known of a name.
pub(super) enum Known {
    /// Where it leads, or nowhere.
    Yes(Option<SocketAddr>),
    /// It is to be looked up.
    No,
}

#[derive(Default)]
pub(super) struct Resolver(BTreeMap<Box<str>, (Instant, Option<SocketAddr>)>);

impl Resolver {
    pub(super) fn find(&self, name: &str, now: Instant) -> Known {
        if let Ok(address) = name.parse() {
            return Known::Yes(Some(address));
        }
        match self.0.get(name) {
            Some((at, address)) if now.duration_since(*at) < FRESH => Known::Yes(*address),
            _ => Known::No,
        }
    }

    pub(super) fn learn(&mut self, name: &str, address: Option<SocketAddr>, now: Instant) {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert(name.into(), (now, address));
    }
}
