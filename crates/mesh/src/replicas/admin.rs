//! Replicated resources, for whoever administers a site.

use std::collections::BTreeMap;
use std::fmt;

pub use replica::{Change, Level, OpId, Unchangeable, Waiting};
use replica::{Meta, Reply, Standing};
use scope::Site;
use tokio::sync::{mpsc, oneshot};

use super::Order;
pub use super::{Fate, Held, Stand};

/// One replicated resource as this site sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its name for clients: service, colon, path.
    pub name: String,
    /// The name of its kind in the profile, once that is known here.
    pub kind: Option<String>,
    /// When clients are answered, and what orders writes.
    pub level: Level,
    /// Its replicas.
    pub replicas: Vec<Replica>,
    /// How the one here is.
    pub condition: Condition,
    /// It was deleted; its vectors stay.
    pub deleted: bool,
    /// What is on its way here.
    pub transfers: Vec<Transfer>,
}

/// A long body, or a long part of a state, on its way to this site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The site that it comes from, or that was asked first.
    pub from: Site,
    /// What is here.
    pub bytes: u64,
    /// Of how much, where that is known.
    pub of: Option<u64>,
}

/// One replica of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Where.
    pub site: Site,
    /// Its name in that site's service, if it is known here.
    pub local: Option<String>,
    /// Whether its service is known to have it.
    pub made: bool,
    /// Operations that it is not known to have executed.
    pub pending: usize,
    /// What it refused, by the word of its site: 403 where its policy takes nothing from here.
    pub refused: Option<u16>,
    /// When the oldest of them was accepted, in milliseconds of the wall clock.
    pub since_ms: Option<u64>,
    /// It has something else than others, by the last comparison here.
    pub differs: bool,
}

/// How the replica here is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It can be read and written.
    Good,
    /// Its service has not got it yet, or there is no replica here.
    Absent,
    /// Its service refused, with this status, what another executed: it is not read.
    Diverged(u16),
    /// It has something else than most of the others, or than the one that an administrator chose.
    Differs,
    /// It is being given the state of another.
    Copying,
    /// Nobody knows whether its service executed something.
    InDoubt,
    /// Its service was told to delete it, and has it yet.
    Deleting,
    /// This site's records were put back: it is compared with the others before it is used.
    Suspect,
}

/// An operation that a site is not known to have executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Which.
    pub op: OpId,
    /// Of which service.
    pub service: String,
    /// On what, by its name for clients.
    pub resource: String,
    /// What it does: `create`, `replace`, `delete`, `add`, `patch`, `action`; `copy`: a replica was to be made of the state of another.
    pub class: &'static str,
    /// On whose behalf. A copy is Archipel's own.
    pub user: String,
    /// When it was accepted, in milliseconds of the wall clock.
    pub since_ms: u64,
}

/// A name that is reserved, as this site sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Service, colon, path.
    pub name: String,
    /// The request that it is reserved for: the site at which that entered, and a number.
    pub holder: String,
    /// Where it is, or may be: this site, or for a request that entered here, each of its group.
    pub sites: Vec<Site>,
    /// Since when, in milliseconds of the wall clock.
    pub since_ms: u64,
    /// How far the request is.
    pub state: ReservationState,
}

/// How far a request that reserved a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationState {
    /// The name is reserved here, and the entry site will say when it is not any more.
    Held,
    /// The write is under way.
    Executing,
    /// The sites of the group are being asked what became of the write.
    Inquiring,
    /// A service was asked for the write and gave no answer, and what it was to make is not there.
    InDoubt,
    /// The outcome is known, and some sites have not been told yet.
    Releasing,
}

/// The state of one replica, as far as this site knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// Its service has the resource, with all writes that are known here.
    Good,
    /// It has something else than others, by the last comparison here.
    Differs,
    /// It is not known to have executed something, or to have the resource at all.
    Pending,
    /// The resource was deleted, and its service has it no more.
    Deleted,
    /// Its site refused something, with this status.
    Refused(u16),
    /// The replica here, which is none of these.
    Here(Condition),
}

impl Resource {
    /// The state of one of its replicas. What another site has is known from what it confirmed.
    #[must_use]
    pub fn state(&self, replica: &Replica, here: &Site) -> ReplicaState {
        if replica.site == *here {
            return match self.condition {
                Condition::Absent | Condition::Good if self.deleted && !replica.made => ReplicaState::Deleted,
                Condition::Good if replica.differs => ReplicaState::Differs,
                Condition::Good => ReplicaState::Good,
                condition => ReplicaState::Here(condition),
            };
        }
        match replica.refused {
            Some(status) => ReplicaState::Refused(status),
            None if replica.pending > 0 => ReplicaState::Pending,
            None if self.deleted => ReplicaState::Deleted,
            None if !replica.made => ReplicaState::Pending,
            None if replica.differs => ReplicaState::Differs,
            None => ReplicaState::Good,
        }
    }
}

impl fmt::Display for ReplicaState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplicaState::Good | ReplicaState::Here(Condition::Good) => f.write_str("good"),
            ReplicaState::Differs | ReplicaState::Here(Condition::Differs) => f.write_str("differs"),
            ReplicaState::Pending => f.write_str("pending"),
            ReplicaState::Deleted => f.write_str("deleted"),
            ReplicaState::Refused(403) => f.write_str("refused by policy (403)"),
            ReplicaState::Refused(status) => write!(f, "refused ({status})"),
            ReplicaState::Here(Condition::Absent) => f.write_str("absent"),
            ReplicaState::Here(Condition::Suspect) => f.write_str("suspect"),
            ReplicaState::Here(Condition::Diverged(status)) => write!(f, "diverged ({status})"),
            ReplicaState::Here(Condition::Copying) => f.write_str("copying"),
            ReplicaState::Here(Condition::InDoubt) => f.write_str("in doubt"),
            ReplicaState::Here(Condition::Deleting) => f.write_str("deleting"),
        }
    }
}

/// An operation that waits, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// Which.
    pub operation: Pending,
    /// Why.
    pub why: Held,
}

/// An operation that was refused when its client had been answered already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which.
    pub operation: Pending,
    /// What the service said.
    pub status: u16,
}

/// Numbers of the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Resources that are known here, deleted ones too.
    pub resources: usize,
    /// Operations that are kept.
    pub operations: usize,
    /// Bytes of the bodies that are kept.
    pub kept_bytes: u64,
    /// Operations in doubt here.
    pub in_doubt: usize,
    /// What the disk says, while it takes nothing.
    pub fault: Option<String>,
}

/// What an administrator asks for.
pub(crate) enum Admin {
    Resources(oneshot::Sender<Vec<Resource>>),
    Resource(Meta, oneshot::Sender<Option<Resource>>),
    Waiting(oneshot::Sender<BTreeMap<Site, Waiting>>),
    InDoubt(oneshot::Sender<Vec<Pending>>),
    Withheld(oneshot::Sender<Vec<Withheld>>),
    Refusals(oneshot::Sender<Vec<Refusal>>),
    Counts(oneshot::Sender<Counts>),
    Settle(OpId, bool, Option<String>, oneshot::Sender<Result<(), Refused>>),
    Probe(OpId, oneshot::Sender<Result<Option<bool>, Refused>>),
    Change(Meta, Change, oneshot::Sender<Reply>),
    Mended(Meta, oneshot::Sender<bool>),
    Repair(Meta, Site, oneshot::Sender<Reply>),
    Compare(Meta, oneshot::Sender<BTreeMap<Site, Option<Standing>>>),
    Reservations(oneshot::Sender<Vec<Reservation>>),
    ClearReservation(String, oneshot::Sender<bool>),
}

/// What a site says of its replica, when it is compared with the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The site.
    pub site: Site,
    /// Whether it answered.
    pub answered: bool,
    /// What it has. None while it executes something, or where nothing is to be there.
    pub content: Option<Has>,
}

/// What a service has of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Has {
    /// Content with this digest, without what is each site's own.
    Digest([u8; 32]),
    /// Nothing.
    Nothing,
    /// It could not be read.
    Unread,
}

/// Why the keeper did not do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No such resource, or no such operation in doubt.
    Unknown,
    /// What a service made has an id there, which was not said.
    Nameless,
    /// No service's id of that kind is so.
    BadId,
    /// Replicas cannot be changed so.
    Unchangeable(Unchangeable),
    /// The mesh ends.
    Ends,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Unknown => "nothing of that name is known here",
            Refused::Unchangeable(Unchangeable::Detached) => "the replicas were let go",
            Refused::Unchangeable(Unchangeable::AlreadyThere) => "that site has a replica already",
            Refused::Unchangeable(Unchangeable::NotThere) => "that site has no replica",
            Refused::Unchangeable(Unchangeable::Last) => {
                "it is the last replica: delete the resource, or detach it"
            }
            Refused::Unchangeable(Unchangeable::Ordered) => {
                "its writes have one order (`@quorum`, `@strong`): its sites stay as they were when it was made"
            }
            Refused::Nameless => "the service gave what it made an id: say which (--id)",
            Refused::BadId => "nothing of that kind has such an id",
            Refused::Ends => "the mesh ends",
        })
    }
}

impl std::error::Error for Refused {}

/// The keeper, for administrators. Its answers can be awaited on any runtime.
#[derive(Clone)]
pub struct Handle {
    orders: mpsc::UnboundedSender<Order>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl Handle {
    pub(crate) fn new(orders: mpsc::UnboundedSender<Order>) -> Handle {
        Handle { orders }
    }

    /// The resources that are known here.
    pub async fn resources(&self) -> Result<Vec<Resource>, Refused> {
        self.ask(Admin::Resources).await
    }

    /// One of them.
    pub async fn resource(&self, name: &str) -> Result<Resource, Refused> {
        let meta = Meta(name.into());
        self.ask(|reply| Admin::Resource(meta, reply)).await?.ok_or(Refused::Unknown)
    }

    /// What waits for each site.
    pub async fn waiting(&self) -> Result<BTreeMap<Site, Waiting>, Refused> {
        self.ask(Admin::Waiting).await
    }

    /// The operations of which nobody knows whether this site's service executed them.
    pub async fn in_doubt(&self) -> Result<Vec<Pending>, Refused> {
        self.ask(Admin::InDoubt).await
    }

    /// The operations that this site's service has not executed for a reason that somebody can do something about.
    pub async fn withheld(&self) -> Result<Vec<Withheld>, Refused> {
        self.ask(Admin::Withheld).await
    }

    /// The operations that this site accepted, and that its service refused when nobody waited for them any more.
    pub async fn refusals(&self) -> Result<Vec<Refusal>, Refused> {
        self.ask(Admin::Refusals).await
    }

    /// Numbers of the moment.
    pub async fn counts(&self) -> Result<Counts, Refused> {
        self.ask(Admin::Counts).await
    }

    /// Says whether an operation in doubt was executed; if not, it is now. What a service made and named needs the
    /// id that it has there.
    pub async fn settle(&self, op: OpId, executed: bool, id: Option<&str>) -> Result<(), Refused> {
        let id = id.map(str::to_owned);
        self.ask(|reply| Admin::Settle(op, executed, id, reply)).await?
    }

    /// Has the service asked once more whether it executed an operation in doubt, and says what came of that; none: it cannot
    /// be told. That takes until the response limit where there is nothing of it.
    pub async fn probe(&self, op: OpId) -> Result<Option<bool>, Refused> {
        self.ask(|reply| Admin::Probe(op, reply)).await?
    }

    /// Changes where the replicas of a resource are.
    pub async fn change(&self, resource: &str, change: Change) -> Result<(), Refused> {
        let meta = Meta(resource.into());
        match self.ask(|reply| Admin::Change(meta, change, reply)).await? {
            Reply::Changed => Ok(()),
            Reply::Unchanged(why) => Err(Refused::Unchangeable(why)),
            _ => Err(Refused::Unknown),
        }
    }

    /// Says that what made the replica here refuse was mended.
    pub async fn mended(&self, resource: &str) -> Result<(), Refused> {
        let meta = Meta(resource.into());
        let mended = self.ask(|reply| Admin::Mended(meta, reply)).await?;
        mended.then_some(()).ok_or(Refused::Unknown)
    }

    /// Says that the replica here is to be given the state of the one at another site.
    pub async fn repair(&self, resource: &str, from: Site) -> Result<(), Refused> {
        let meta = Meta(resource.into());
        match self.ask(|reply| Admin::Repair(meta, from, reply)).await? {
            Reply::Changed => Ok(()),
            Reply::Unchanged(why) => Err(Refused::Unchangeable(why)),
            _ => Err(Refused::Unknown),
        }
    }

    /// Compares the replicas of a resource: what each site has, none where it did not answer.
    pub async fn compare(&self, resource: &str) -> Result<Vec<Compared>, Refused> {
        let meta = Meta(resource.into());
        let sites = self.ask(|reply| Admin::Compare(meta, reply)).await?;
        if sites.is_empty() {
            return Err(Refused::Unknown);
        }
        let compared = |(site, standing): (Site, Option<Standing>)| Compared {
            site,
            answered: standing.is_some(),
            content: standing.and_then(|standing| standing.content).and_then(|content| match content {
                replica::Content::Is(digest) => Some(Has::Digest(digest.0)),
                replica::Content::Gone => Some(Has::Nothing),
                replica::Content::Unread => Some(Has::Unread),
                replica::Content::Absent => None,
            }),
        };
        Ok(sites.into_iter().map(compared).collect())
    }

    /// The names that are reserved here, and those that requests which entered here have reserved.
    pub async fn reservations(&self) -> Result<Vec<Reservation>, Refused> {
        self.ask(Admin::Reservations).await
    }

    /// Says that what became of the write to a reserved name is known: it is reserved no more.
    pub async fn clear_reservation(&self, name: &str) -> Result<(), Refused> {
        let name = name.to_owned();
        let cleared = self.ask(|reply| Admin::ClearReservation(name, reply)).await?;
        cleared.then_some(()).ok_or(Refused::Unknown)
    }

    /// What became of an operation.
    pub async fn fate(&self, op: OpId) -> Result<Fate, Refused> {
        let (reply, told) = oneshot::channel();
        self.orders.send(Order::Fate(op, reply)).map_err(|_| Refused::Ends)?;
        told.await.map_err(|_| Refused::Ends)?.ok_or(Refused::Unknown)
    }

    async fn ask<T>(&self, admin: impl FnOnce(oneshot::Sender<T>) -> Admin) -> Result<T, Refused> {
        let (reply, told) = oneshot::channel();
        self.orders.send(Order::Admin(admin(reply))).map_err(|_| Refused::Ends)?;
        told.await.map_err(|_| Refused::Ends)
    }
}
