//! The data plane: listeners, reading the scope, dispatching a plan, bodies, answers.
//!
//! No application is known here by name: what is particular to one is data in its profile.
//!
//! In the order in which a request meets them: `mesh` (threads and listeners), `front`, `http2` and `paced`
//! (connections), `handle` (the walk of a request), `route` (which way it takes), `carry` (which scope it has), `core` (the plan,
//! remembered), `dispatch` (a plan of several sites), `merging` (one answer of several), `judging` (what an answer means to its application),
//! `settling` (what came of it), `leg` (one request to one site), `upstream` (the local
//! service), `inflow` and `body` (bodies), `interim`, `upgrade`, `said` and `problem` (answers), `audit`, `observe`. Beside them
//! `identity`: tokens of other sites, and `replicas`: writes to replicated resources, and their keeper.

mod alarm;
mod audit;
mod backstage;
mod body;
pub mod carry;
mod core;
mod dispatch;
mod front;
mod handle;
mod headers;
mod http2;
mod identity;
mod idle;
mod inflow;
mod interim;
mod judging;
mod leg;
mod listing;
mod merging;
mod mesh;
mod metrics;
mod observe;
mod paced;
mod problem;
mod replicas;
mod reservations;
mod route;
mod said;
mod session;
mod settings;
mod settling;
mod sites;
mod streams;
mod thin;
mod ticket;
mod upgrade;
pub mod upstream;

pub use audit::Audit;
pub use backstage::{Backstage, Question, Reply};
pub use core::PeerSeen;
pub use mesh::{Mesh, StartError};
pub use settings::{
    Accept, Limits, Link, Login, Named, Replication, Service, Settings, Timeouts, Tokens, Webhook,
};
/// Replicated resources, for whoever administers a site.
pub mod replication {
    pub use crate::replicas::admin::{
        Change, Compared, Condition, Counts, Fate, Handle, Has, Held, Level, OpId, Pending, Refusal, Refused,
        Replica, ReplicaState, Reservation, ReservationState, Resource, Stand, Transfer, Unchangeable,
        Waiting, Withheld,
    };
}
pub use sites::{Fixed, Sites, Standing};

/// Any error, as libraries around HTTP pass them.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
