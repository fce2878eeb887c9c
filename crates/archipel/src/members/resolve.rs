//! Names to addresses, remembered for a while: a datagram must not wait for a name server each time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;

/// How long what a name stands for is remembered, and that it stands for nothing.
const FRESH: Duration = Duration::from_secs(30);
/// Names come from other sites: there is an end to them.
const MOST: usize = 1024;
/// Datagrams that wait for one name.
const WAITING: usize = 8;

/// What is to be done with datagrams for a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// These go there.
    pub(super) send: Option<(SocketAddr, Vec<Vec<u8>>)>,
    /// The name is to be looked up, and what comes of it [learnt](Resolver::learn).
    pub(super) look_up: bool,
}

#[derive(Debug, Default)]
struct Name {
    /// Where it led when that was last known.
    address: Option<SocketAddr>,
    /// When it was last looked up.
    at: Option<Instant>,
    looking: bool,
    waiting: Vec<Vec<u8>>,
}

#[derive(Debug, Default)]
pub(super) struct Resolver(BTreeMap<Box<str>, Name>);

impl Resolver {
    /// Datagrams for a name. They wait only if it never led anywhere, and is being looked up.
    pub(super) fn way(&mut self, name: &str, datagrams: Vec<Vec<u8>>, now: Instant) -> Way {
        if let Ok(address) = name.parse() {
            return Way { send: Some((address, datagrams)), look_up: false };
        }
        if self.0.len() >= MOST && !self.0.contains_key(name) {
            self.0.clear();
        }
        let known = self.0.entry(name.into()).or_default();
        let stale = known.at.is_none_or(|at| now.duration_since(at) >= FRESH);
        let look_up = stale && !known.looking;
        known.looking |= look_up;
        if let Some(address) = known.address {
            return Way { send: Some((address, datagrams)), look_up };
        }
        if known.looking {
            let room = WAITING.saturating_sub(known.waiting.len());
            known.waiting.extend(datagrams.into_iter().take(room));
        }
        Way { send: None, look_up }
    }

    /// What came of looking a name up, and what waited for it. A name server that fails for a while does not
    /// undo what it said before.
    pub(super) fn learn(
        &mut self,
        name: &str,
        address: Option<SocketAddr>,
        now: Instant,
    ) -> Option<(SocketAddr, Vec<Vec<u8>>)> {
        let known = self.0.entry(name.into()).or_default();
        (known.at, known.looking) = (Some(now), false);
        known.address = address.or(known.address);
        let waiting = std::mem::take(&mut known.waiting);
        known.address.map(|address| (address, waiting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(byte: u8) -> Vec<Vec<u8>> {
        vec![vec![byte]]
    }

    #[test]
    fn a_name_is_looked_up_once_at_a_time_and_what_waits_for_it_is_sent() {
        let (mut resolver, now) = (Resolver::default(), Instant::now());
        let address: SocketAddr = "192.0.2.1:7400".parse().unwrap();
        assert_eq!(resolver.way("a:1", one(1), now), Way { send: None, look_up: true });
        assert_eq!(resolver.way("a:1", one(2), now), Way { send: None, look_up: false });
        assert_eq!(resolver.learn("a:1", Some(address), now), Some((address, vec![vec![1], vec![2]])));
        let there = |look_up| Way { send: Some((address, one(3))), look_up };
        assert_eq!(resolver.way("a:1", one(3), now), there(false));
        assert_eq!(resolver.way("192.0.2.1:7400", one(3), now), there(false));
        assert_eq!(resolver.way("a:1", one(3), now + FRESH), there(true));
        assert_eq!(resolver.way("a:1", one(3), now + FRESH), there(false));
    }

    #[test]
    fn a_lookup_that_fails_does_not_undo_one_that_worked() {
        let (mut resolver, now) = (Resolver::default(), Instant::now());
        let address: SocketAddr = "192.0.2.1:7400".parse().unwrap();
        resolver.way("a:1", one(1), now);
        assert_eq!(resolver.learn("a:1", None, now), None);
        assert_eq!(resolver.way("a:1", one(1), now), Way { send: None, look_up: false });
        assert!(resolver.way("a:1", one(1), now + FRESH).look_up);
        resolver.learn("a:1", Some(address), now + FRESH);
        assert!(resolver.way("a:1", one(1), now + 2 * FRESH).look_up);
        resolver.learn("a:1", None, now + 2 * FRESH);
        let there = Way { send: Some((address, one(2))), look_up: false };
        assert_eq!(resolver.way("a:1", one(2), now + 2 * FRESH), there);
    }
}
