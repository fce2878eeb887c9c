//! Site to site: identities, mutual TLS, pools, the peer protocol. What is carried is not known here.
//!
//! Every site has an [`Identity`], issued by its operator's [`Authority`]. A connection exists only
//! between two identities of one authority, and each side knows the other's name from its certificate:
//! addresses and host names prove nothing here.
//!
//! In the order in which a request meets them: `pool` (the sender: warm connections, lanes, what an
//! error proves), `wire` (the shape of a request between two sites), `interim` (1xx answers on the way back), `tls`,
//! `speaks` (the version that a connection is of),
//! `server` (the receiver).
//! `name`, `certificate` and `identity` are what both ends stand on; `revoked` is whom they believe no more.
//! Beside all that, `datagram` carries small messages between sites that have no connection, and `notary` signs what
//! others pass on.

mod certificate;
pub mod datagram;
mod exec;
mod identity;
mod interim;
mod name;
mod notary;
mod pool;
mod revoked;
mod server;
mod socket;
mod speaks;
mod tls;
mod watched;
mod wire;

pub use certificate::Fingerprint;
pub use exec::Local;
pub use identity::{Authority, Fault, Identity, IdentityError, SiteCertificate, Standing, Validity};
pub use interim::{Ear, Speaker};
pub use notary::{Notary, Signed};
pub use pool::{Kind, Lane, PeerState, Pool, Received, SendError, Sent, Settings};
pub use revoked::{BadRevocation, Revocation, Revoked};
pub use server::{Drain, Draining, Limits, Peer, Server, upgraded};
pub use socket::Socket;
pub use speaks::{Misfit, Since, Speaks};
pub use tls::{ClientTls, Presented, ServerTls};

/// Any error, as libraries around HTTP pass them.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
