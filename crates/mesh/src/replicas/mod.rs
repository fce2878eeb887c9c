//! Replicated resources at this site: what cores know of them, and the way to their keeper.
//!
//! One thread, the keeper, drives [`replica::Machine`]: it is one more core, without listeners, so that it sends
//! to services and to other sites as the others do. Cores look up where a resource is in [`Known`], which the
//! keeper writes, and hand it the writes to replicated resources.

pub(crate) mod admin;
pub(crate) mod answer;
pub(crate) mod copies;
mod counts;
mod declared;
mod exact;
mod forms;
pub(crate) mod forward;
pub(crate) mod group;
pub(crate) mod keeper;
mod known;
mod octets;
pub(crate) mod operations;
pub(crate) mod owned;
pub(crate) mod reading;
mod references;
mod refusals;
mod request;
mod rewrite;
mod taken;
mod trying;
pub(crate) mod understand;
mod upload;
pub(crate) mod walk;
pub(crate) mod wire;
pub(crate) mod write_name;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use profile::MetaRange;
use replica::{Meta, OpId, Reply, Ticket};
use scope::Site;
use spool::{Id, Spool};
use tokio::sync::{mpsc, oneshot};

use crate::carry::Sender;
use crate::core::Snapshot;
use crate::reservations::Holder;
use crate::sites::Sites;

use admin::Admin;
pub(crate) use counts::Counts;
use keeper::allocate::{AllocationReply, Unallocated};
pub(crate) use known::{Known, Place, Seen};
pub(crate) use request::{Content, Kept, Name, Scoped, Wanted};
pub(crate) use rewrite::Rewritten;

/// So many writes are on their way to the keeper at once; the next is told to come again. Clients that go away leave
/// theirs there.
const QUEUED: usize = 10_000;

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
    /// A client's read of a resource whose writes have one order: whether a majority is to confirm it. Told when
    /// the service here may be read, or why not.
    Read(Meta, bool, oneshot::Sender<Result<Reading, Reply>>),
    /// The service was read.
    HasRead(Ticket),
    /// The body of a client's write comes in, and other sites may have it already.
    Coming(upload::Coming),
    /// Whoever took it in is done with it.
    LetGo(Id),
    /// What became of an operation.
    Fate(OpId, oneshot::Sender<Option<Fate>>),
    /// Whether a resource is known here to be deleted.
    IsDeleted(Meta, oneshot::Sender<bool>),
    /// A number of this range that no other site gives, for what is made.
    Allocate(MetaRange, AllocationReply),
    /// A name for a write that another site is to accept.
    Reserve(oneshot::Sender<OpId>),
    /// Another site, which was asked to accept a write to this, gave no answer.
    Lost(OpId, Meta, Site),
    /// A request that claimed this name has ended, and nobody knows what became of its write.
    LostClaim(OpId, Meta, u128),
    /// Told when another site, which orders the writes to this, does not answer any more; dropped where it does not.
    Watch(Meta, Site, oneshot::Sender<()>),
    /// The other sites that are known to have all that is known here of a resource.
    ConfirmedBy(Meta, oneshot::Sender<BTreeSet<Site>>),
    /// What another site's keeper says, which is that site by its certificate.
    Asked(Site, wire::Asked, oneshot::Sender<wire::Told>),
    /// A request is about to reserve a name at these sites. Told once that is durable: whether its sender may.
    Claim {
        number: u128,
        name: String,
        sites: Vec<Site>,
        sender: Sender,
        reply: oneshot::Sender<bool>,
    },
    /// It is over, and whether the outcome of its write is known. Told once every site has released the name.
    EndClaim {
        number: u128,
        known: bool,
        reply: Option<oneshot::Sender<()>>,
    },
    /// A write to a reserved name is about to go to the service here. Told once that is durable: whether it may.
    BeginWriting {
        name: String,
        holder: Holder,
        reply: oneshot::Sender<bool>,
    },
    /// It is over, and whether its outcome is known.
    EndWriting {
        name: String,
        holder: Holder,
        known: bool,
    },
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
    /// Will, once what is in the way is gone.
    Held(Held),
    /// The service of the site that accepted it refused it: no site executes it.
    Refused(u16),
    /// Its service answered, or was never asked. With which status is not kept.
    Answered,
}

/// Why the service here has not executed what waits for it, where somebody can do something about that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Its sender had a credential, which is gone, and this site has none of its own for the service.
    NoCredential,
    /// The signature of this site on it is not valid any more: no other site would execute it.
    Unsigned,
    /// The service did not answer, and is asked whether it executed it.
    Probing,
    /// The content that it names is not here, and no site that can be asked gives it.
    Lacking,
    /// The service answers so.
    Status(u16),
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Held::NoCredential => f.write_str("no credential for the service: see [replication.credentials]"),
            Held::Unsigned => f.write_str("this site's signature on it is not valid any more"),
            Held::Probing => f.write_str("the service did not answer, and is asked whether it executed it"),
            Held::Lacking => {
                f.write_str("what it names is not here yet, and no other site that can be asked gives it")
            }
            Held::Status(status) => write!(f, "the service answers {status}"),
        }
    }
}

impl Held {
    /// The status that the service answers with.
    #[must_use]
    pub fn status(self) -> Option<u16> {
        match self {
            Held::Status(status) => Some(status),
            Held::NoCredential | Held::Unsigned | Held::Probing | Held::Lacking => None,
        }
    }
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// The resource.
    pub meta: Meta,
    /// How far each replica is.
    pub sites: Vec<(Site, Stand)>,
}

/// The service here may be read now. What it says is kept back until [`Reading::end`].
#[derive(Debug)]
pub(crate) struct Reading {
    ticket: Ticket,
    orders: mpsc::UnboundedSender<Order>,
    told: Option<oneshot::Receiver<Reply>>,
}

impl Reading {
    /// It was read: whether it may be told. [`Reply::Current`] says so.
    pub(crate) async fn end(mut self) -> Reply {
        let Some(told) = self.told.take() else { return Reply::Unavailable };
        let _ = self.orders.send(Order::HasRead(self.ticket));
        told.await.unwrap_or(Reply::Unavailable)
    }
}

impl Drop for Reading {
    /// A client that went away has read all the same: nothing waits for it.
    fn drop(&mut self) {
        if self.told.take().is_some() {
            let _ = self.orders.send(Order::HasRead(self.ticket));
        }
    }
}

impl Replicas {
    /// Hands a write to the keeper. None: there is none any more, the process ends.
    pub(crate) async fn write(&self, wanted: Box<Wanted>) -> Option<Answered> {
        if self.counts.queued.fetch_add(1, Ordering::Relaxed) >= QUEUED {
            self.counts.queued.fetch_sub(1, Ordering::Relaxed);
            let (reply, sites) = (Reply::Unavailable, Vec::new());
            return Some(Answered { reply, op: None, meta: None, response: None, sites });
        }
        let (answer, answered) = oneshot::channel();
        self.orders.send(Order::Write(wanted, answer)).ok()?;
        answered.await.ok()
    }

    /// Waits until the replica here may be read; or says why it may not.
    pub(crate) async fn read(&self, meta: Meta, confirm: bool) -> Result<Reading, Reply> {
        let (begin, told) = oneshot::channel();
        let sent = self.orders.send(Order::Read(meta, confirm, begin));
        sent.map_err(|_| Reply::Unavailable)?;
        told.await.unwrap_or(Err(Reply::Unavailable))
    }

    /// Whether a resource is known here to be deleted.
    pub(crate) async fn is_deleted(&self, meta: Meta) -> bool {
        let (answer, answered) = oneshot::channel();
        self.orders.send(Order::IsDeleted(meta, answer)).is_ok() && answered.await.unwrap_or(false)
    }

    /// A number of this range that no other site gives.
    pub(crate) async fn allocate(&self, range: MetaRange) -> Result<u64, Unallocated> {
        let (reply, told) = oneshot::channel();
        let sent = self.orders.send(Order::Allocate(range, reply));
        sent.map_err(|_| Unallocated::Unavailable)?;
        told.await.unwrap_or(Err(Unallocated::Unavailable))
    }

    /// A name for a write that another site is to accept. None: the process ends.
    pub(crate) async fn reserve(&self) -> Option<OpId> {
        let (answer, answered) = oneshot::channel();
        self.orders.send(Order::Reserve(answer)).ok()?;
        answered.await.ok()
    }

    /// Waits until a site that orders the writes to a resource does not answer any more.
    pub(crate) async fn lose(&self, meta: Meta, site: Site) {
        let (tell, told) = oneshot::channel();
        let watched = self.orders.send(Order::Watch(meta, site, tell)).is_ok();
        if !watched || told.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The other sites that are known to have all that is known here of a resource.
    pub(crate) async fn confirmed_by(&self, meta: Meta) -> BTreeSet<Site> {
        let (answer, answered) = oneshot::channel();
        match self.orders.send(Order::ConfirmedBy(meta, answer)) {
            Ok(()) => answered.await.unwrap_or_else(|_| BTreeSet::new()),
            Err(_) => BTreeSet::new(),
        }
    }

    /// What became of an operation, if it is known here.
    pub(crate) async fn fate(&self, op: OpId) -> Option<Fate> {
        let (answer, answered) = oneshot::channel();
        self.orders.send(Order::Fate(op, answer)).ok()?;
        answered.await.ok().flatten()
    }
}
