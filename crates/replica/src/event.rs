//! What happens to a site, and what it wants done.

use std::collections::{BTreeMap, BTreeSet};

use scope::Site;
use serde::{Deserialize, Serialize};

use crate::epoch::Epoch;
use crate::map::{Change, Naming, ReplicaMap, Unchangeable};
use crate::operation::{Body, Class, Doubt, Level, LocalId, Meta, OpId, Operation, Who};
use crate::ordered::{Recollection, Ruling};
use crate::record::{self, Key, Record, Unreadable};
use crate::resource::{Execution, Snapshot};
use crate::restored::Mark;
use crate::standing::{Content, Standing};
use crate::version::Version;

/// The driver's name for a client that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What a write is to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A resource that is replicated already, or was.
    Existing(Meta),
    /// One that this write creates. Its class is [`Class::Create`].
    New {
        /// Who names it.
        naming: Naming,
        /// When clients are answered, and what orders writes.
        level: Level,
        /// Where its replicas are: at least here.
        sites: BTreeSet<Site>,
    },
}

/// A write as the mesh accepts it, authorised, with its stored body.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// To what.
    pub subject: Subject,
    /// How it behaves beside concurrent ones.
    pub class: Class,
    /// What to do where its execution is in doubt.
    pub doubt: Doubt,
    /// On whose behalf.
    pub on_behalf_of: Who,
    /// What is executed. Durable before [`Event::Accept`].
    pub body: Body,
    /// The body is too long for memory: the other sites, and each service, take their time over it.
    pub long: bool,
}

/// What became of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The service executed it.
    Done {
        /// What it said.
        status: u16,
        /// The id that it gave a created resource.
        local: Option<LocalId>,
    },
    /// The service refused it: a 4xx.
    Refused {
        /// What it said.
        status: u16,
    },
    /// Provably not executed: not connected, or a status that the profile lists as without effect.
    NotExecuted,
    /// A 5xx, or no answer: it may have been executed.
    Unknown,
    /// The service took a deletion, and has what is to be deleted yet: something holds it there.
    Begun {
        /// What it said.
        status: u16,
    },
}

/// A timer of the machine's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Send again what this site has not confirmed.
    Deliver(Site),
    /// Execute again.
    Retry(Meta),
    /// Ask again for the state of a replica.
    Copy(Meta),
    /// Wait no longer for what replicas say of themselves.
    Compare(Meta),
    /// Compare what is known here with what is known at this site.
    Survey(Site),
    /// Compare the contents of the next few resources.
    Sweep,
    /// The next tick of the logs that order writes.
    Order,
    /// Wait no longer for sites that do not say whether the records here are old.
    Trust,
}

/// What a site knows of one resource, in a list of many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Line {
    /// Which.
    pub resource: Meta,
    /// What it recorded that others may learn.
    pub known: Version,
    /// What it executed or skipped.
    pub done: Version,
}

/// Between the machines of two sites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub enum Message {
    /// Operations that the receiver is not known to have; none: only asks for a [`Message::Confirm`].
    Operations {
        /// Where the replicas are.
        map: ReplicaMap,
        /// Each after all that it has seen.
        operations: Vec<Operation>,
    },
    /// What the sender has of a resource, durably.
    Confirm {
        /// Where the replicas are.
        map: ReplicaMap,
        /// In which of the sender's runs that is so.
        epoch: Epoch,
        /// How often the sender had recorded something.
        number: u64,
        /// What it recorded, with all that it accepted.
        known: Version,
        /// What it executed or skipped.
        done: Version,
    },
    /// The receiver lacks more operations than are sent: it takes the state from the sender.
    Behind {
        /// Where the replicas are.
        map: ReplicaMap,
        /// What the sender has.
        known: Version,
    },
    /// The sender runs anew, or can be reached again.
    Hello {
        /// Its run.
        epoch: Epoch,
        /// A later run of the receiver's that the sender heard of: the receiver was given back old records,
        /// and its clock is wrong.
        heard: Option<Epoch>,
        /// Where the sender's records of its runs before this one ended.
        ended: Vec<Mark>,
    },
    /// What the sender knows of all that it shares with the receiver: a number for each bucket.
    Survey {
        /// The sender's run.
        epoch: Epoch,
        /// The numbers.
        buckets: Vec<u64>,
    },
    /// What the sender knows of all that it shares with the receiver in some buckets.
    Listing {
        /// The sender's run.
        epoch: Epoch,
        /// Which buckets.
        buckets: BTreeSet<u8>,
        /// All of them.
        lines: Vec<Line>,
        /// The receiver is to list these as well.
        answer: bool,
    },
    /// Asks for a [`Message::Stands`] about each of these.
    Inquire {
        /// Which.
        resources: Vec<Meta>,
    },
    /// How the sender's replica stands.
    Stands {
        /// Of what.
        resource: Meta,
        /// How.
        standing: Standing,
    },
    /// The receiver's replica is not what most have: it is to compare.
    Differs {
        /// Of what.
        resource: Meta,
    },
    /// Of the logs that order writes. [`crate::Machine::bodies`] names what goes with it.
    Order {
        /// In which of the sender's runs.
        epoch: Epoch,
        /// The number of times that the sender had recorded something.
        number: u64,
        /// The message of the log.
        message: order::Message,
    },
    /// How far the sender's replica of an ordered resource is.
    Done {
        /// Where the replicas are.
        map: ReplicaMap,
        /// Every write before this place in the log is finished.
        done: u64,
        /// The receiver is asked for the same.
        asks: bool,
    },
    /// To the leader: the sender's service executed this when the sender led, and nobody has decided.
    Tried {
        /// Of what.
        resource: Meta,
        /// Which operation.
        op: OpId,
        /// What it would have decided.
        verdict: Ruling,
    },
    /// Answers a [`Message::Hello`].
    Welcome {
        /// The receiver's run that it is about.
        run: Epoch,
        /// The receiver had come so far, as the sender heard: its records are older. None: they are not, as far as the
        /// sender knows.
        behind: Option<Mark>,
        /// The sender's run, and the last number that it gave to an operation.
        latest: (Epoch, u64),
    },
    /// The sender's records were put back: it asks what it may have forgotten of a group.
    Forgot {
        /// The group.
        group: order::GroupId,
        /// The sender's start in which it asks: what it sent in one before does not count any more.
        start: u64,
        /// Its run.
        epoch: Epoch,
    },
    /// Answers a [`Message::Forgot`].
    Recalled {
        /// The group.
        group: order::GroupId,
        /// The receiver's start in which it asked.
        start: u64,
        /// None: the sender's records were put back, too.
        said: Option<Box<Recollection>>,
    },
}

impl Message {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        record::encode(self)
    }

    /// Reads [`Message::bytes`].
    pub fn read(bytes: &[u8]) -> Result<Message, Unreadable> {
        record::decode(bytes)
    }

    /// The resources of which it says how far its sender is.
    #[must_use]
    pub fn confirms(&self) -> Vec<Meta> {
        match self {
            Message::Confirm { map, .. } | Message::Done { map, .. } => vec![map.meta.clone()],
            Message::Listing { lines, .. } => lines.iter().map(|line| line.resource.clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// The map that a message about one resource carries.
    #[must_use]
    pub fn map(&self) -> Option<&ReplicaMap> {
        match self {
            Message::Operations { map, .. }
            | Message::Confirm { map, .. }
            | Message::Behind { map, .. }
            | Message::Done { map, .. } => Some(map),
            _ => None,
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A client writes.
    Accept {
        /// Who waits.
        ticket: Ticket,
        /// What is written.
        write: Write,
    },
    /// What became of an [`Effect::Execute`]. Each has exactly one, unless the process ends.
    Executed {
        /// Of what.
        resource: Meta,
        /// As it was asked for.
        execution: Execution,
        /// How it ended.
        outcome: Outcome,
    },
    /// What an [`Effect::Probe`] or [`Effect::ProbeMade`] found. None: it cannot be told. That it was not executed is
    /// said only once the service cannot be executing it any more.
    Probed {
        /// Of what.
        resource: Meta,
        /// Which operation.
        op: OpId,
        /// Whether it was executed.
        executed: Option<bool>,
        /// The id of a created resource.
        local: Option<LocalId>,
    },
    /// The operator says what became of an operation in doubt.
    Settle {
        /// Of what.
        resource: Meta,
        /// Which operation.
        op: OpId,
        /// Whether it was executed. If not, it is executed now.
        executed: bool,
        /// The id of a created resource.
        local: Option<LocalId>,
    },
    /// A message came.
    Received {
        /// From whom; the link knows by the certificate.
        from: Site,
        /// What.
        message: Message,
    },
    /// A site can be reached, or not.
    Reach {
        /// Which.
        site: Site,
        /// Whether it can be.
        up: bool,
    },
    /// A site is shut out for good, or is not any more: nothing that it says will be heard. To be said again after a start.
    ShutOut {
        /// Which.
        site: Site,
        /// Whether it is.
        out: bool,
    },
    /// A timer ran out.
    Fired(Timer),
    /// The operator changes where replicas are.
    Change {
        /// Who waits.
        ticket: Ticket,
        /// Of what.
        resource: Meta,
        /// How.
        change: Change,
    },
    /// The state of a replica was fetched, and is durable here beside this; the service has not got it yet.
    Fetched {
        /// Where the replicas are.
        map: ReplicaMap,
        /// [`crate::Machine::snapshot`] of that replica, as it was when its state was read.
        snapshot: Snapshot,
    },
    /// The service here was given the state that was fetched.
    Installed {
        /// Of what.
        resource: Meta,
        /// The id that the service here gave it.
        local: Option<LocalId>,
    },
    /// The service here has to make what an [`Effect::Install`] is to give it, and names it itself: nothing of that was
    /// asked for yet. Then [`Effect::Make`].
    ToMake {
        /// Of what.
        resource: Meta,
        /// The id by which the service was asked for it, as [`Effect::Install`] said.
        local: Option<LocalId>,
        /// What its kind says of a creation in doubt.
        doubt: Doubt,
    },
    /// What became of an [`Effect::Make`]. Each has exactly one, unless the process ends.
    Made {
        /// Of what.
        resource: Meta,
        /// Its name.
        op: OpId,
        /// How it ended.
        outcome: Outcome,
    },
    /// An [`Effect::CopyState`] or [`Effect::Install`] came to nothing.
    CopyFailed {
        /// Of what.
        resource: Meta,
    },
    /// An operator compares the replicas; then [`Effect::Compared`].
    Compare {
        /// Who waits.
        ticket: Ticket,
        /// Of what.
        resource: Meta,
    },
    /// What an [`Effect::Digest`] found.
    Digested {
        /// Of what.
        resource: Meta,
        /// What the service has.
        content: Content,
    },
    /// The operator says that the replica here is to be given the state of the one at another site.
    Repair {
        /// Who waits.
        ticket: Ticket,
        /// Of what.
        resource: Meta,
        /// From where.
        from: Site,
    },
    /// A client reads: [`Effect::Read`], at once or when the replica here may be read, or
    /// [`Effect::Answer`] with why not. Reads at `@weak`, `@eventual`, and at `@quorum` without `confirm`
    /// need not ask: they go to any replica that [`crate::Machine::is_readable`].
    Read {
        /// Who waits.
        ticket: Ticket,
        /// What.
        resource: Meta,
        /// It is scoped `@quorum`: a majority confirms that nothing newer was answered.
        confirm: bool,
    },
    /// The service was read, as [`Effect::Read`] said. What it gave is kept back until [`Reply::Current`].
    HasRead {
        /// Who waits.
        ticket: Ticket,
    },
    /// The operator mended why the replica here refused: it goes on where it stopped.
    Mended {
        /// Of what.
        resource: Meta,
    },
    /// The operator has the service asked once more whether it executed what is in doubt: [`Effect::Probe`], or
    /// [`Effect::ProbeMade`] of a copy.
    Probe {
        /// Of what.
        resource: Meta,
        /// Which operation.
        op: OpId,
    },
    /// A client waits no longer: it was told that nobody knows what becomes of its write, which goes on.
    Expired {
        /// Who waited.
        ticket: Ticket,
    },
}

impl Event {
    /// The resource that it is about, if it is one.
    pub(crate) fn resource(&self) -> Option<&Meta> {
        match self {
            Event::Executed { resource, .. }
            | Event::Probed { resource, .. }
            | Event::Settle { resource, .. }
            | Event::Change { resource, .. }
            | Event::Installed { resource, .. }
            | Event::ToMake { resource, .. }
            | Event::Made { resource, .. }
            | Event::CopyFailed { resource }
            | Event::Read { resource, .. }
            | Event::Compare { resource, .. }
            | Event::Digested { resource, .. }
            | Event::Repair { resource, .. }
            | Event::Mended { resource }
            | Event::Probe { resource, .. }
            | Event::Fired(Timer::Retry(resource) | Timer::Copy(resource) | Timer::Compare(resource)) => {
                Some(resource)
            }
            Event::Fetched { map, .. } => Some(&map.meta),
            Event::Accept { .. }
            | Event::Received { .. }
            | Event::Reach { .. }
            | Event::ShutOut { .. }
            | Event::HasRead { .. }
            | Event::Expired { .. }
            | Event::Fired(
                Timer::Deliver(_) | Timer::Survey(_) | Timer::Sweep | Timer::Order | Timer::Trust,
            ) => None,
        }
    }
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// At `@weak`: it is recorded. 202.
    Recorded,
    /// It is recorded, and this site executed it: the service's own answer.
    Executed {
        /// What the service said.
        status: u16,
    },
    /// The service refused it; no site executes it.
    Refused {
        /// What the service said.
        status: u16,
    },
    /// The service could not be asked; no site executes it. 503.
    Unavailable,
    /// It may have been executed, and goes on: 504 `pending` with the operation's address.
    Unknown,
    /// A concurrent write that it loses to was executed first; no site executes it. 409.
    Beaten,
    /// There is no such resource. 404.
    NoResource,
    /// The replica here is behind or has diverged; another site may take it. 503.
    NotGood,
    /// An action at `@eventual` must be idempotent: `@quorum` would do. 422.
    NotRepeatable,
    /// The level needs one order, and there is one site only. 422.
    NoOrder,
    /// That site leads the group that orders this write: the request, with the sender's token, is to be
    /// handed to it. Nothing was executed.
    Elsewhere(Site),
    /// No majority of the replicas' sites can be reached; no site executes it. 503.
    NoMajority,
    /// At `@strong` all are needed, and this one cannot be reached; no site executes it. 503.
    Missing(Site),
    /// What was read may be given to the client.
    Current,
    /// What is asked makes no sense: a new resource without this site, or not by a create. 422.
    Senseless,
    /// The replicas are where they were asked to be, or will be.
    Changed,
    /// They are not, and why.
    Unchanged(Unchangeable),
}

/// With which credential an operation is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Authority {
    /// The sender's own token, on the request as the client sent it: that is the authorisation.
    Sender,
    /// This site's credential for Archipel, unconditionally: a replica executed it with the sender's token.
    Site,
    /// No replica is known to have executed it, and the sender's request is gone: the execution with it is in doubt, or
    /// never began. As the sender asked, where that was without a credential; else as [`Authority::Site`], or not at all.
    Unproven,
}

/// What is to be done, in this order. **What follows an [`Effect::Persist`] is done only once that is
/// durable**; each call of the machine gives at most one, first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Make these durable, all or none.
    Persist {
        /// Records, each in the place of the one with its key.
        put: Vec<Record>,
        /// Records that are no longer needed.
        remove: Vec<Key>,
    },
    /// Answer the client.
    Answer {
        /// Which.
        ticket: Ticket,
        /// The operation, where one was recorded.
        op: Option<OpId>,
        /// What it is told.
        reply: Reply,
    },
    /// Have the local service execute it, then [`Event::Executed`].
    Execute {
        /// What is executed.
        operation: Operation,
        /// How.
        execution: Execution,
        /// The resource's id in the service; none where it is created.
        local: Option<LocalId>,
        /// With which credential.
        authority: Authority,
    },
    /// Find out whether the effect of this execution is in the local service, then [`Event::Probed`]. That the
    /// operation was executed once is no answer: a replace may have erased it, and this be the next time.
    Probe {
        /// What.
        operation: Operation,
        /// How it was executed.
        execution: Execution,
        /// The resource's id in the service.
        local: Option<LocalId>,
    },
    /// Show the operator that nobody knows whether its effect is in the service here, until
    /// [`Event::Settle`]. It may be the name of an [`Effect::Make`].
    InDoubt {
        /// Of what.
        resource: Meta,
        /// Which operation.
        op: OpId,
    },
    /// Show the operator that the replica here refused what another executed.
    Diverged {
        /// Of what.
        resource: Meta,
        /// Which operation.
        op: OpId,
        /// What the service said.
        status: u16,
    },
    /// Have the local service answer the read, then [`Event::HasRead`].
    Read {
        /// Who waits.
        ticket: Ticket,
        /// What.
        resource: Meta,
        /// The resource's id in the service.
        local: Option<LocalId>,
    },
    /// Send a message. It may be lost, doubled or late.
    Send {
        /// To whom.
        to: Site,
        /// What.
        message: Message,
    },
    /// [`Event::Fired`] after this time. One timer of a name at a time.
    Wake {
        /// Which.
        timer: Timer,
        /// After how long.
        after_ms: u64,
    },
    /// Fetch the state that a replica has, then [`Event::Fetched`] or [`Event::CopyFailed`].
    CopyState {
        /// Of what.
        resource: Meta,
        /// From where.
        from: Site,
    },
    /// Give the service here the state that was fetched, then [`Event::Installed`], [`Event::ToMake`] or
    /// [`Event::CopyFailed`]. Nothing is executed on that resource meanwhile.
    Install {
        /// Of what.
        resource: Meta,
        /// The resource's id in the service; none where it has to be made.
        local: Option<LocalId>,
        /// It was just made of that state: only what is below it is missing.
        made: bool,
    },
    /// Have the service here make a copy of the state that was fetched, by this name, then [`Event::Made`].
    Make {
        /// Of what.
        resource: Meta,
        /// Names it to the service.
        op: OpId,
    },
    /// The resource here is no replica any more.
    Release {
        /// Of what.
        resource: Meta,
        /// Its id in the service.
        local: Option<LocalId>,
        /// Whether it stays, as an ordinary local resource; else it is removed.
        keep: bool,
    },
    /// Read what the service here has of a resource, then [`Event::Digested`]. Nothing waits for it.
    Digest {
        /// Of what.
        resource: Meta,
        /// Its id in the service.
        local: LocalId,
    },
    /// How the replicas of a resource stand, for whoever asked.
    Compared {
        /// Who.
        ticket: Ticket,
        /// Of what.
        resource: Meta,
        /// What each site with a replica said; none where it did not answer.
        sites: BTreeMap<Site, Option<Standing>>,
    },
    /// Show the operator that the replica here has something else than the others: where most are alike and
    /// it is not, it is repaired from one of them; else [`Event::Repair`] says which one is good.
    Differs {
        /// Of what.
        resource: Meta,
        /// What each site with a replica said.
        sites: BTreeMap<Site, Option<Standing>>,
    },
    /// The turn of an ordered write is over at this site.
    Finished {
        /// Of what.
        resource: Meta,
        /// Which.
        op: OpId,
        /// Its place in the order: see [`crate::Machine::has_finished`].
        place: u64,
        /// Whether every replica executes it; else none does.
        executed: bool,
    },
    /// No site needs this body any more.
    Erase(Body),
    /// A site's clock is ahead by more than is tolerated. Nothing breaks, but somebody should know.
    Skewed {
        /// Which.
        site: Site,
        /// By how much.
        ahead_ms: u64,
    },
    /// Find out whether the service here made a copy by this name, then [`Event::Probed`].
    ProbeMade {
        /// Of what.
        resource: Meta,
        /// Names it to the service.
        op: OpId,
    },
}
