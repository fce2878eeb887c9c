//! How a request carries its scope, and how the calls that it causes are recognised.
//!
//! An unmodified service does not hand on a header that it has never heard of. So for each scoped request
//! the mesh mints a [`Key`], records what the key stands for, and puts it where the application's profile
//! says that services hand things on. A later call with that key was caused by that request.
//!
//! A trace id or a token alone never selects a scope: many requests share them. But the token of another client
//! shows that a key was not handed on.
//!
//! In the order in which a request meets them: `find` (what it carries, taken out of it), `path`, `members`
//! (lists such as `tracestate`), `percent`, `key`, `hex`, `sender`, `session`, `records`, `tokens`, `hand_on`, `trace`, `identify`. There is
//! no socket, clock or randomness here: time is a duration since any fixed start, the same for all calls.

mod error;
mod find;
mod hand_on;
mod hex;
mod identify;
mod key;
mod members;
mod names;
mod path;
mod percent;
mod records;
mod sender;
pub(crate) mod session;
mod tokens;
mod trace;

use http::header::InvalidHeaderName;
use profile::Propagation;

pub use error::{Carrier, Error, Fault};
pub use find::{Entry, Found, Listener};
pub use hand_on::Marks;
pub use key::{Key, Secret};
pub use records::{Full, Limits, Record, Records};
pub use sender::Sender;

use names::Names;
use tokens::Tokens;

/// One application's way of carrying scopes, and the keys that were handed on. Shared by all cores.
#[derive(Debug)]
pub struct Carry {
    names: Names,
    secret: Secret,
    records: Records,
    tokens: Tokens,
}

impl Carry {
    /// An application that hands on what its profile says. The secret is this site's alone: a key of
    /// another site is a foreign id here.
    pub fn new(
        propagation: &Propagation,
        secret: Secret,
        limits: Limits,
    ) -> Result<Carry, InvalidHeaderName> {
        let (names, tokens) = (Names::new(propagation)?, Tokens::new(limits.lifetime));
        Ok(Carry { names, secret, records: Records::new(limits), tokens })
    }

    /// Whether a field of a request, by its name, has anything to do with scopes: who leaves the others out of
    /// the heads that it shows here changes nothing.
    pub(crate) fn concerns(&self, name: &[u8]) -> bool {
        self.names.has(name)
    }

    /// Whether the target of a request carries a scope, or the site of a session.
    pub(crate) fn is_in_target(target: &[u8]) -> bool {
        path::is_scoped(target) || session::is_marked(target)
    }

    /// The keys that were handed on.
    #[must_use]
    pub fn records(&self) -> &Records {
        &self.records
    }
}
