//! Which site issued a token, as far as this site has seen or was told. Only hashes are kept, never a token.
//!
//! A token that is not in the ledger counts as issued here. What is told can be wrong: it says where to ask, and
//! the issuer says whether the token is valid. So a token that was only told of is forgotten first, and no disk sees it
//! before its issuer has answered for it: a flood of made-up tokens costs a bounded part of the memory, and nothing else.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ring::hmac;
use scope::Site;

use super::shelf::{Row, Shelf};

/// Cores rarely want the same part at once.
const SHARDS: usize = 16;

/// Tokens of each kind that are remembered, at most.
const MOST_HERE: usize = 65_536;
const MOST_CLAIMED: usize = 32_768;
const MOST_PROVED: usize = 65_536;

/// How long, in seconds. Most tokens live for hours; what is forgotten is told again by the next request.
const HERE_LIVES_S: u64 = 24 * 3600;
const CLAIM_LIVES_S: u64 = 3600;
const PROOF_LIVES_S: u64 = 24 * 3600;
/// A proof is written down again when it is this much older than the last one.
const RENEWED_S: u64 = 3600;

/// The hash of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mark(u128);

/// Which site issued which token. Shared by all cores: requests without a token of another site, at services other
/// than the one that issues them, do not come here.
pub(crate) struct Ledger {
    key: hmac::Key,
    shards: [Mutex<Shard>; SHARDS],
    shelf: Option<Shelf>,
}

#[derive(Default)]
struct Shard {
    /// Seen to be issued here, each until when that is remembered.
    here: HashMap<u128, u64>,
    /// Told of.
    claimed: HashMap<u128, (Site, u64)>,
    /// Another site answered for these.
    proved: HashMap<u128, (Site, u64)>,
}

impl Ledger {
    /// A ledger with what is on the shelf, if there is one.
    pub(crate) fn new(secret: &[u8], shelf: Option<(Shelf, Vec<Row>)>, now: u64) -> Ledger {
        let shards = std::array::from_fn(|_| Mutex::default());
        let mut ledger = Ledger { key: hmac::Key::new(hmac::HMAC_SHA256, secret), shards, shelf: None };
        if let Some((shelf, rows)) = shelf {
            for row in rows {
                if let Some(site) = Site::new(&row.site).filter(|_| now < row.until) {
                    let mut shard = ledger.shard(Mark(row.token));
                    if shard.proved.len() < MOST_PROVED / SHARDS {
                        shard.proved.insert(row.token, (site, row.until));
                    }
                }
            }
            ledger.shelf = Some(shelf);
        }
        ledger
    }

    /// The hash of a token, which nobody without this site's secret can aim at.
    pub(crate) fn mark(&self, token: &[u8]) -> Mark {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(b"archipel issuer of a token");
        context.update(token);
        let tag = context.sign();
        let half = tag.as_ref().first_chunk::<16>().copied().unwrap_or_default();
        Mark(u128::from_be_bytes(half))
    }

    /// The other site that issued a token, or is said to have.
    pub(crate) fn issuer(&self, token: Mark, now: u64) -> Option<Site> {
        let shard = self.shard(token);
        if shard.here.get(&token.0).is_some_and(|until| now < *until) {
            return None;
        }
        let known = shard.proved.get(&token.0).into_iter().chain(shard.claimed.get(&token.0));
        known.filter(|(_, until)| now < *until).map(|(site, _)| site.clone()).next()
    }

    /// Whether another site has answered for a token.
    pub(crate) fn is_proved(&self, token: Mark, now: u64) -> bool {
        self.shard(token).proved.get(&token.0).is_some_and(|(_, until)| now < *until)
    }

    /// This site's service issued it. Nobody can claim anything else of it.
    pub(crate) fn issued_here(&self, token: Mark, now: u64) {
        let mut shard = self.shard(token);
        shard.claimed.remove(&token.0);
        shard.proved.remove(&token.0);
        if shard.here.len() >= MOST_HERE / SHARDS {
            shard.here.retain(|_, until| now < *until);
        }
        if shard.here.len() < MOST_HERE / SHARDS {
            shard.here.insert(token.0, now.saturating_add(HERE_LIVES_S));
        }
    }

    /// Somebody who has the token says that another site issued it.
    pub(crate) fn claim(&self, token: Mark, site: &Site, now: u64) {
        let mut shard = self.shard(token);
        if shard.here.get(&token.0).is_some_and(|until| now < *until)
            || shard.proved.get(&token.0).is_some_and(|(_, until)| now < *until)
        {
            return;
        }
        if shard.claimed.len() >= MOST_CLAIMED / SHARDS && !shard.claimed.contains_key(&token.0) {
            // The older half goes; of a flood that is all younger, all of it. Each request says it again.
            let newer = now.saturating_add(CLAIM_LIVES_S / 2);
            shard.claimed.retain(|_, (_, until)| newer < *until);
            if shard.claimed.len() >= MOST_CLAIMED / SHARDS {
                shard.claimed.clear();
            }
        }
        shard.claimed.insert(token.0, (site.clone(), now.saturating_add(CLAIM_LIVES_S)));
    }

    /// That site answered for it. This is what survives a restart.
    pub(crate) fn prove(&self, token: Mark, site: &Site, now: u64) {
        let until = now.saturating_add(PROOF_LIVES_S);
        let mut shard = self.shard(token);
        if let Some((known, known_until)) = shard.proved.get(&token.0)
            && known == site
            && known_until.saturating_add(RENEWED_S) > until
        {
            return;
        }
        if shard.proved.len() >= MOST_PROVED / SHARDS {
            shard.proved.retain(|_, (_, until)| now < *until);
        }
        if shard.proved.len() >= MOST_PROVED / SHARDS && !shard.proved.contains_key(&token.0) {
            // It stays a claim.
            return;
        }
        shard.claimed.remove(&token.0);
        shard.proved.insert(token.0, (site.clone(), until));
        drop(shard);
        if let Some(shelf) = &self.shelf {
            shelf.put(Row { token: token.0, site: site.name().to_owned(), until });
        }
    }

    fn shard(&self, token: Mark) -> MutexGuard<'_, Shard> {
        let index = usize::try_from(token.0 % SHARDS as u128).unwrap_or_default();
        // The remainder is within them; the first stands for none.
        let [first, ..] = &self.shards;
        self.shards.get(index).unwrap_or(first).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str) -> Site {
        Site::new(name).unwrap()
    }

    fn ledger() -> Ledger {
        Ledger::new(&[7; 16], None, 0)
    }

    #[test]
    fn what_was_issued_here_is_nobody_elses_whatever_is_claimed() {
        let ledger = ledger();
        let own = ledger.mark(b"own");
        ledger.issued_here(own, 0);
        ledger.claim(own, &site("B"), 1);
        assert_eq!(ledger.issuer(own, 2), None);
        // Also where the claim came first.
        let late = ledger.mark(b"late");
        ledger.claim(late, &site("B"), 1);
        assert_eq!(ledger.issuer(late, 2), Some(site("B")));
        ledger.issued_here(late, 2);
        assert_eq!(ledger.issuer(late, 3), None);
    }

    #[test]
    fn the_last_claim_counts_until_a_site_answered_for_the_token() {
        let ledger = ledger();
        let token = ledger.mark(b"t");
        ledger.claim(token, &site("B"), 0);
        ledger.claim(token, &site("C"), 0);
        assert_eq!(ledger.issuer(token, 1), Some(site("C")));
        ledger.prove(token, &site("C"), 1);
        ledger.claim(token, &site("B"), 2);
        assert_eq!(ledger.issuer(token, 3), Some(site("C")));
        assert_eq!(ledger.issuer(token, 1 + PROOF_LIVES_S), None, "what is old is forgotten");
    }

    #[test]
    fn a_flood_of_claims_is_bounded_and_takes_nothing_from_what_was_proved() {
        let ledger = ledger();
        let proved = ledger.mark(b"proved");
        ledger.prove(proved, &site("B"), 0);
        for number in 0..3 * MOST_CLAIMED {
            ledger.claim(ledger.mark(&number.to_be_bytes()), &site("C"), 1);
        }
        let held: usize = ledger.shards.iter().map(|shard| shard.lock().unwrap().claimed.len()).sum();
        assert!(held <= MOST_CLAIMED, "{held}");
        assert_eq!(ledger.issuer(proved, 2), Some(site("B")));
        let last = ledger.mark(b"last");
        ledger.claim(last, &site("B"), 2);
        assert_eq!(ledger.issuer(last, 3), Some(site("B")), "there is room for the next");
    }
}
