//! Who a request is counted for.

use std::fmt;
use std::net::IpAddr;

use http::HeaderMap;

use super::Carry;

/// A sender, or the token of one, as a hash that cannot be turned back into a token or an address, or be aimed
/// at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sender(pub(super) u128);

#[cfg(test)]
impl Sender {
    /// One of many, for tests.
    pub(crate) fn numbered(number: u128) -> Sender {
        Sender(number)
    }
}

/// As one site tells another whom a request is counted for.
impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Carry {
    /// Whom a request of another site is counted for. Each of its senders is one here: all of them come
    /// from the same address, and one that floods must not take the place of the others. What the site
    /// says is not believed beyond itself.
    #[must_use]
    pub fn sender_at(&self, site: &str, sender: &[u8]) -> Sender {
        Sender(self.secret.hash(&[b"site", site.as_bytes(), sender]))
    }

    /// What only this site and those that it asks know of a request to this target.
    pub(crate) fn secret_of(&self, target: &str) -> String {
        Sender(self.secret.hash(&[b"mark", target.as_bytes()])).to_string()
    }

    /// Who sent a request: what the headers say that the profile names, else the client's address.
    ///
    /// Nothing is proved: whoever makes up a token per request is a new sender each time, until the records
    /// of all are full. So a request that the application answers with 401 is to be forgotten.
    #[must_use]
    pub fn sender(&self, headers: &HeaderMap, client: IpAddr) -> Sender {
        if let Some(token) = self.token(headers) {
            return token;
        }
        match client.to_canonical() {
            IpAddr::V4(client) => Sender(self.secret.hash(&[&client.octets()])),
            // One host has a whole /64 to choose addresses from.
            IpAddr::V6(client) => {
                let network = client.to_bits() >> 64;
                Sender(self.secret.hash(&[&network.to_be_bytes()]))
            }
        }
    }
}
