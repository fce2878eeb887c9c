//! Whose token a call carries, as far as the mesh has seen: a client's, or one that a service got for itself.
//!
//! A key is for the calls of one request, and these carry its client's token or a service's own. Whoever sends
//! one with the token of another client has it from somewhere else. Only hashes are kept, never a token.
//!
//! A token that the mesh has not seen is let pass: after a restart those of all services are unknown until
//! they log in again, and every scoped request would fail until then.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;

use super::Carry;
use super::records::{Record, SHARDS, lock, low_bits, pick};
use super::sender::Sender;

/// Tokens of each kind that are remembered, at most. Past it new ones are not: they stay unknown.
const MOST_CLIENTS: usize = 65_536;
const MOST_SERVICES: usize = 8192;

/// How long a service's token is remembered. Most live for hours; what is forgotten is unknown again.
const SERVICE_LIFETIME: Duration = Duration::from_hours(24);

/// A full shard is looked through for tokens to forget at most this often.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The tokens that were seen.
#[derive(Debug)]
pub(super) struct Tokens {
    clients: Seen,
    services: Seen,
}

impl Tokens {
    /// A client's token is remembered for as long as its requests may cause calls.
    pub(super) fn new(lifetime: Duration) -> Tokens {
        Tokens {
            clients: Seen::new(MOST_CLIENTS, lifetime),
            services: Seen::new(MOST_SERVICES, SERVICE_LIFETIME),
        }
    }
}

impl Carry {
    /// The token of a request, as a hash: what the headers say that the profile names. With a profile that
    /// names none, no request has one, and nothing is compared.
    #[must_use]
    pub fn token(&self, headers: &HeaderMap) -> Option<Sender> {
        let mut parts: Vec<&[u8]> = Vec::new();
        for name in &self.names.sender {
            for value in headers.get_all(name) {
                parts.extend([name.as_str().as_bytes(), value.as_bytes()]);
            }
        }
        (!parts.is_empty()).then(|| Sender(self.secret.hash(&parts)))
    }

    /// A client's scoped request was let in with this token, at a listener for the public.
    pub fn is_of_a_client(&self, token: Sender, now: Duration) {
        self.tokens.clients.note(token, now);
    }

    /// The header in which the answer to this request has a token for whoever asked, if it is a login.
    pub(crate) fn login(&self, service: &str, head: &Parts) -> Option<&HeaderName> {
        let login = self.names.logins.iter().find(|login| {
            login.service == service
                && *login.method == head.method
                && head.uri.path().trim_end_matches('/').ends_with(&*login.path)
        });
        login.map(|login| &login.header)
    }

    /// A service got this token for itself.
    pub fn is_of_a_service(&self, token: &HeaderValue, now: Duration) {
        for name in &self.names.sender {
            let token = Sender(self.secret.hash(&[name.as_str().as_bytes(), token.as_bytes()]));
            self.tokens.services.note(token, now);
        }
    }

    /// Whether a call with these headers may be one that the recorded request caused.
    pub(super) fn may_be_caused(&self, record: &Record, headers: &HeaderMap, now: Duration) -> bool {
        let (Some(own), Some(token)) = (record.token, self.token(headers)) else { return true };
        own == token || self.tokens.services.has(token, now) || !self.tokens.clients.has(token, now)
    }
}

/// Tokens, and until when they are remembered.
#[derive(Debug)]
struct Seen {
    shards: [Mutex<Shard>; SHARDS],
    most: usize,
    lifetime: Duration,
}

#[derive(Debug, Default)]
struct Shard {
    until: HashMap<Sender, Duration>,
    next_sweep: Duration,
}

impl Seen {
    fn new(most: usize, lifetime: Duration) -> Seen {
        Seen { shards: std::array::from_fn(|_| Mutex::default()), most: most / SHARDS, lifetime }
    }

    fn has(&self, token: Sender, now: Duration) -> bool {
        lock(self.shard(token)).until.get(&token).is_some_and(|until| now < *until)
    }

    fn note(&self, token: Sender, now: Duration) {
        let mut shard = lock(self.shard(token));
        let until = now.saturating_add(self.lifetime);
        if let Some(known) = shard.until.get_mut(&token) {
            *known = until;
            return;
        }
        if shard.until.len() >= self.most && now >= shard.next_sweep {
            shard.next_sweep = now.saturating_add(SWEEP_EVERY);
            shard.until.retain(|_, until| now < *until);
        }
        if shard.until.len() < self.most {
            shard.until.insert(token, until);
        }
    }

    fn shard(&self, token: Sender) -> &Mutex<Shard> {
        pick(&self.shards, low_bits(token.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_tokens_is_bounded_and_forgotten() {
        let seen = Seen::new(1024, Duration::from_mins(1));
        let held = || seen.shards.iter().map(|shard| lock(shard).until.len()).sum::<usize>();
        let token =
            |number: u64| Sender(u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
        seen.note(token(0), Duration::ZERO);
        for number in 1..10_000 {
            seen.note(token(number), Duration::ZERO);
        }
        assert!(held() <= 1024, "{}", held());
        assert!(seen.has(token(0), Duration::from_secs(59)), "nobody's is forgotten for another's");
        assert!(!seen.has(token(0), Duration::from_mins(1)));
        // What is over makes room.
        for number in 10_000..10_100 {
            seen.note(token(number), Duration::from_secs(61));
            assert!(seen.has(token(number), Duration::from_secs(61)));
        }
        assert!(held() <= 1024);
    }
}
