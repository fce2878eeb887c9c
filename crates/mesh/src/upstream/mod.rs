//! The instances of one service at this site: HTTP/1.1 to them, balanced and health-checked.
//!
//! Each core has its own [`Upstreams`], with its own connections, so that nothing on a request's path is
//! locked or sent between cores; only the [`Health`] of the targets is shared. A request goes to the
//! healthy target with the fewest requests in flight from this core, on the connection that was used last.
//!
//! **A write never runs twice.** A request moves on to another connection or another target only with a
//! proof that no byte of it left: nothing was connected, or hyper handed it back unwritten. That is
//! independent of the method. Once a connection took it, it is never sent again from here, and an error
//! says [`Sent::Maybe`].
//!
//! In the order in which a request meets them: `send` (which target, and what to do when it fails),
//! `slot` (one target: its idle connections), `connect` (a new connection), `ear` (interim answers), `framing`, `body`
//! (the answer, which gives the connection back), `plain` (a connection that its user drives), `error`. Beside them:
//! [`health`], `tls`.

mod body;
mod connect;
mod ear;
mod error;
mod framing;
pub mod health;
mod plain;
mod send;
mod slot;
mod tls;

use std::sync::Arc;
use std::time::Duration;

pub use body::PooledBody;
pub(crate) use ear::interim;
pub use error::{BoxError, Kind, SendError};
pub(crate) use framing::decimal;
pub use health::Health;
pub(crate) use plain::Leased;
pub use plan::Sent;
pub(crate) use send::Tries;
pub use send::{Alone, Upstreams};
pub use tls::client_tls;

/// One instance of the service.
#[derive(Clone, Debug)]
pub struct Target {
    /// A name or an address. With TLS, its certificate must be for this name.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// `None` is plain HTTP.
    pub tls: Option<Arc<rustls::ClientConfig>>,
}

/// Bounds. The counts are per core: a connection cannot serve a request of another core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// To resolve the name, connect and shake hands, together.
    pub connect_timeout: Duration,
    /// How long a connection is kept without a request. Shorter than the service's own: else it is the
    /// service that closes, perhaps while a request is on its way.
    pub idle_timeout: Duration,
    /// Connections kept without a request, per target.
    pub max_idle: usize,
    /// Connections of any kind per target, those taken over by an upgrade included.
    pub max_connections_per_target: usize,
    /// Headers of an answer.
    pub max_headers: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            connect_timeout: Duration::from_secs(2),
            // Most servers close after 5 s (Node.js, Apache) to 75 s (nginx).
            idle_timeout: Duration::from_secs(4),
            max_idle: 256,
            max_connections_per_target: 4096,
            max_headers: 100,
        }
    }
}
