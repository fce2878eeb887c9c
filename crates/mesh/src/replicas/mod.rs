//! Replicated resources at this site: what cores know of them, and the way to their keeper.
//!
//! One thread, the keeper, drives [`replica::Machine`]: it is one more core, without listeners, so that it sends
//! to services and to other sites as the others do. Cores look up where a resource is in [`Known`], which the
//! keeper writes, and hand it the writes to replicated resources.

pub(crate) mod admin;
mod answer;
pub(crate) mod copies;
mod counts;
pub(crate) mod group;
pub(crate) mod keeper;
mod known;
mod octets;
pub(crate) mod operations;
mod refusals;
mod request;
mod rewrite;
mod taken;
mod understand;
mod upload;
pub(crate) mod walk;
pub(crate) mod wire;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use replica::{Meta, OpId, Reply};
use scope::Site;
use spool::{Id, Spool};
use tokio::sync::{mpsc, oneshot};

use crate::core::Snapshot;
use crate::sites::Sites;

use admin::Admin;
pub(crate) use counts::Counts;
pub(crate) use known::{Known, Place, Seen};
pub(crate) use request::{Content, Kept, Name, Scoped, Wanted};
pub(crate) use rewrite::Rewritten;

/// The cores' way to the keeper, and what it lets them know.
#[derive(Clone)]
pub(crate) struct Replicas {
    pub(crate) known: Arc<Known>,
    pub(crate) orders: mpsc::UnboundedSender<Order>,
    pub(crate) counts: Arc<Counts>,
    /// Long bodies, once the keeper has opened it.
    pub(crate) spool: Arc<OnceLock<Spool>>,
}

impl fmt::Debug for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicas").finish_non_exhaustive()
    }
}

/// What the keeper is asked for by other threads.
pub(crate) enum Order {
    /// A client's write. The answer comes when its level says.
    Write(Box<Wanted>, oneshot::Sender<Answered>),
    /// The body of a client's write comes in, and other sites may have it already.
    Coming(upload::Coming),
    /// Whoever took it in is done with it.
    LetGo(Id),
    /// What became of an operation.
    Fate(OpId, oneshot::Sender<Option<Fate>>),
    /// What another site's keeper says, which is that site by its certificate.
    Asked(Site, wire::Asked, oneshot::Sender<wire::Told>),
    /// What an administrator asks for.
    Admin(Admin),
    /// As other cores: new settings, new sites, a site that is back, and the end.
    Apply(Arc<Snapshot>),
    Sites(Arc<dyn Sites>),
    Hurry(Site),
    Drain(Duration),
}

/// What a write came to.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) reply: Reply,
    /// The operation, where one was recorded.
    pub(crate) op: Option<OpId>,
    /// The resource, by the name that clients use.
    pub(crate) meta: Option<Meta>,
    /// What this site's service answered, ids and all as it said them, where it executed or refused it.
    pub(crate) response: Option<Response<Bytes>>,
    /// What is known of each replica at this moment.
    pub(crate) sites: Vec<(Site, Stand)>,
}

/// How far one replica is with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// Executed it, or skipped it because it lost: this status, where it is known.
    Done(Option<u16>),
    /// Will.
    Pending,
    /// Refused it: the replica there has diverged.
    Diverged(u16),
    /// Nobody knows.
    InDoubt,
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// The resource.
    pub meta: Meta,
    /// How far each replica is.
    pub sites: Vec<(Site, Stand)>,
}

impl Replicas {
    /// Hands a write to the keeper. None: there is none any more, the process ends.
    pub(crate) async fn write(&self, wanted: Box<Wanted>) -> Option<Answered> {
        let (answer, answered) = oneshot::channel();
        self.orders.send(Order::Write(wanted, answer)).ok()?;
        answered.await.ok()
    }

    /// What became of an operation, if it is known here.
    pub(crate) async fn fate(&self, op: OpId) -> Option<Fate> {
        let (answer, answered) = oneshot::channel();
        self.orders.send(Order::Fate(op, answer)).ok()?;
        answered.await.ok().flatten()
    }
}
