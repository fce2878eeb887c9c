//! Resources whose writes have one order: `@quorum` and `@strong`.
//!
//! A write at such a level is an entry in the log of the group of its resource's sites (the crate `order`).
//! The leader accepts it, so that the first execution is with the sender's token. Once it is committed, each
//! site has it in its queue, durably. The leader executes it, and what its service said becomes a second
//! entry, the **verdict**; the others execute it, or not, as the verdict says. Each site takes the turns of
//! one resource in their order, one at a time.
//!
//! - `write`: a client's write becomes an entry, and entries become turns.
//! - `take`: turns are taken: executed, decided, finished.
//! - `mend`: what is in doubt, and replicas that are given the state of another.
//! - `read`: when a replica may be read.
//! - `readmit`: a site whose records were put back takes part again.
//! - `drive`: the log's own events, time, and what the sites tell each other.

mod drive;
mod mend;
mod read;
mod readmit;
mod take;
mod write;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use order::{GroupId, Needs, Orders};
use scope::Site;
use serde::{Deserialize, Serialize};

use crate::event::{Message, Ticket};
use crate::machine::{Machine, Settings};
use crate::map::ReplicaMap;
use crate::operation::{Body, Class, Doubt, LocalId, Meta, OpId, Operation};
use crate::record::{Condition, Record, Running, Stage};
use read::Reading;
use readmit::Recall;
pub use readmit::{Listed, Recollection};

/// What a log holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub(crate) enum Line {
    /// A write, in its place.
    Write {
        /// Where the replicas are.
        map: ReplicaMap,
        operation: Operation,
    },
    /// What is to become of a write before it in the log. The first one counts.
    Ruling { resource: Meta, op: OpId, verdict: Ruling },
}

/// What is to become of a write, at every replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub enum Ruling {
    /// A replica executed it; every other does.
    Execute {
        /// What its service said.
        status: u16,
        /// The name that its service gave the resource, where it names it.
        named: Option<LocalId>,
    },
    /// The leader's service refused it: nobody executes it.
    Refuse {
        /// What it said.
        status: u16,
    },
    /// It could not be asked, or not all sites were there: nobody executes it.
    Withdraw,
}

/// What the service here did with a write that was not decided yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub enum Tried {
    /// Executed it.
    Done {
        /// What it said.
        status: u16,
        /// The id that it gave.
        local: Option<LocalId>,
    },
    /// Refused it.
    Refused {
        /// What it said.
        status: u16,
    },
    /// Could not be asked.
    NotExecuted,
}

/// A write in the queue of its resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Turn {
    /// The write.
    pub(crate) operation: Operation,
    /// What is to become of it, once that is committed.
    pub(crate) verdict: Option<Ruling>,
    /// What the service here did with it.
    pub(crate) tried: Option<Tried>,
}

/// What must survive of an ordered resource, beside its map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Queue {
    /// Writes that are not finished here, by their places in the log.
    pub(crate) turns: BTreeMap<u64, Turn>,
    /// Every write before this place is finished here.
    pub(crate) done: u64,
    /// The service here has the resource.
    pub(crate) exists: bool,
    /// Bodies of finished writes that another member may still have to be sent.
    pub(crate) bodies: BTreeMap<u64, Body>,
}

/// The knowledge that goes with the state of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Copied {
    /// Every write before this place is in it.
    pub(crate) done: u64,
    /// The service had the resource.
    pub(crate) exists: bool,
}

/// One ordered resource at a site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ordered {
    pub map: ReplicaMap,
    pub queue: Queue,
    pub running: Option<Running>,
    pub condition: Condition,
    pub installing: Option<Copied>,
    pub fetching: bool,
    /// The service could not be given what was fetched.
    pub stalled: bool,
    pub copies: usize,
    /// What each other site said it has finished.
    pub peers: BTreeMap<Site, u64>,
    /// A verdict on this one was proposed here, and is not committed.
    pub proposed: Option<OpId>,
    /// Ticks since the first turn waits for all sites.
    pub waited: u32,
    /// Counts divergences: what was read before one does not count after it.
    pub epoch: u64,
    /// How often this site had another lead, because it could not go on with the first turn, and the ticks since then.
    pub handed_over: (u32, u32),
}

impl Ordered {
    pub(crate) fn new(map: ReplicaMap) -> Ordered {
        Ordered {
            map,
            queue: Queue::default(),
            running: None,
            condition: Condition::Good,
            installing: None,
            fetching: false,
            stalled: false,
            copies: 0,
            peers: BTreeMap::new(),
            proposed: None,
            waited: 0,
            epoch: 0,
            handed_over: (0, 0),
        }
    }

    pub(crate) fn record(&self) -> Record {
        Record::Ordered {
            map: self.map.clone(),
            queue: self.queue.clone(),
            running: self.running.clone(),
            condition: self.condition,
            installing: self.installing,
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.condition == Condition::Good && self.installing.is_none()
    }

    pub(crate) fn group(&self) -> GroupId {
        group(&self.map)
    }

    /// Whether an operator is asked about what is running.
    pub(crate) fn is_asking(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.stage == Stage::InDoubt)
    }

    /// Whether a turn waits for somebody to find out what becomes of it.
    pub(crate) fn is_undecided(&self) -> bool {
        self.queue.turns.values().any(|turn| turn.verdict.is_none() && turn.tried.is_none())
    }

    /// The first turn, and its place.
    pub(crate) fn first(&self) -> Option<(u64, &Turn)> {
        self.queue.turns.first_key_value().map(|(index, turn)| (*index, turn))
    }

    /// Whether the service here has, or may have, the effect of a write that nobody has decided about.
    pub(crate) fn is_ahead(&self) -> bool {
        let undecided = self.first().filter(|(_, turn)| turn.verdict.is_none());
        undecided
            .is_some_and(|(_, turn)| self.running.is_some() || matches!(turn.tried, Some(Tried::Done { .. })))
    }

    /// Whether the service here made the resource in a turn that is not over.
    pub(crate) fn is_made_ahead(&self) -> bool {
        self.first().is_some_and(|(_, turn)| {
            let makes = matches!(turn.operation.class, Class::Create | Class::Replace);
            makes && matches!(turn.tried, Some(Tried::Done { .. }))
        })
    }

    /// Whether the first turn makes what only the service here could name, and has not named: a copied state
    /// cannot take the place of what nobody can address.
    pub(crate) fn is_nameless(&self, here: &Site) -> bool {
        let creates = self.first().is_some_and(|(_, turn)| turn.operation.class == Class::Create);
        creates && self.map.local(here).is_none()
    }

    /// True where the service here may have made the resource in a turn that is not over, and nobody knows its id there: an operator may.
    pub(crate) fn may_be_made(&self, here: &Site) -> bool {
        let asks = |running: &Running| running.doubted || running.stage != Stage::Waiting;
        let repeats = self.first().is_some_and(|(_, turn)| turn.operation.doubt == Doubt::Repeat);
        self.is_nameless(here) && !repeats && self.running.as_ref().is_some_and(asks)
    }

    /// A place behind that of the write that makes the resource: whoever has finished all before it has made it.
    pub(crate) fn made_before(&self) -> u64 {
        let creates = |(_, turn): &(&u64, &Turn)| turn.operation.class == Class::Create;
        let place = self.queue.turns.iter().find(creates).map(|(place, _)| place.saturating_add(1));
        place.unwrap_or(self.queue.done.max(1))
    }

    /// The other members that are not known to have finished all before this place.
    pub(crate) fn behind(&self, here: &Site, place: u64) -> Vec<Site> {
        let behind = |site: &&Site| *site != here && self.peers.get(*site).is_none_or(|done| *done < place);
        self.map.members().into_iter().filter(behind).cloned().collect()
    }

    /// The resource is not there, and nothing is under way.
    pub(crate) fn is_absent(&self) -> bool {
        self.queue.turns.is_empty() && !self.queue.exists && self.running.is_none() && self.is_good()
    }

    /// Nothing is left to do for it, or to remember of it: no other replica may have to copy that it is not
    /// there.
    pub(crate) fn is_gone(&self, here: &Site) -> bool {
        self.is_absent() && self.queue.bodies.is_empty() && self.behind(here, self.queue.done).is_empty()
    }
}

/// The group that orders the writes of a resource.
pub(crate) fn group(map: &ReplicaMap) -> GroupId {
    GroupId { sites: map.members().into_iter().cloned().collect(), incarnation: 0 }
}

/// A client that waits for its write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Waiting {
    pub resource: Meta,
    /// Its place, once it is committed.
    pub index: Option<u64>,
    pub verdict: Option<Ruling>,
    /// Ticks that count towards the limit.
    pub ticks: u32,
    /// Of a long body: who has to be there for it to come to an end.
    pub long: Option<(GroupId, Needs)>,
}

/// What was asked of the log, by its ticket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    Write(Box<Operation>),
    Ruling(Meta, OpId),
    Read(Ticket),
}

/// All ordered resources of a site, and the logs that order them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ordering {
    pub orders: Orders,
    pub entries: BTreeMap<Meta, Ordered>,
    /// What the logs want, and was not looked at.
    pub inbox: VecDeque<order::Effect>,
    tickets: u64,
    pub purposes: BTreeMap<order::Ticket, Purpose>,
    pub waiting: BTreeMap<OpId, Waiting>,
    pub reads: BTreeMap<Ticket, Reading>,
    /// Resources with something to do as time goes on.
    pub busy: BTreeSet<Meta>,
    /// Resources of which some member is not known to have finished what is finished here.
    pub unconfirmed: BTreeSet<Meta>,
    /// The last of them whose members were asked.
    pub asked_last: Option<Meta>,
    /// The word of others on groups in which this site is mute.
    pub recall: Recall,
    /// The timer is running.
    pub ticking: bool,
    pub ticks: u32,
}

impl Ordering {
    pub(crate) fn restore(
        here: &Site,
        settings: &Settings,
        records: Vec<order::Record>,
        entries: BTreeMap<Meta, Ordered>,
    ) -> Ordering {
        let busy: BTreeSet<Meta> = entries.keys().cloned().collect();
        let unconfirmed = busy.clone();
        Ordering {
            orders: Orders::restore(here.clone(), settings.order, records),
            entries,
            inbox: VecDeque::new(),
            tickets: 0,
            purposes: BTreeMap::new(),
            waiting: BTreeMap::new(),
            reads: BTreeMap::new(),
            busy,
            unconfirmed,
            asked_last: None,
            recall: Recall::default(),
            ticking: false,
            ticks: 0,
        }
    }

    /// A ticket for something that is asked of a log.
    pub(crate) fn ticket(&mut self, purpose: Purpose) -> order::Ticket {
        self.tickets = self.tickets.saturating_add(1);
        let ticket = order::Ticket(self.tickets);
        self.purposes.insert(ticket, purpose);
        ticket
    }
}

impl Machine {
    /// Whether the writes to a resource have one order.
    pub(crate) fn is_ordered(&self, meta: &Meta) -> bool {
        self.ordering.entries.contains_key(meta)
    }

    /// The bodies that a message to or from another site names. Those that are still here go with it, and are
    /// durable before it is [`crate::Event::Received`]; one that was erased here was given to every site.
    #[must_use]
    pub fn bodies(message: &Message) -> Vec<Body> {
        match message {
            Message::Operations { operations, .. } => {
                operations.iter().filter_map(|op| op.body.clone()).collect()
            }
            Message::Order { .. } | Message::Recalled { .. } => {
                let lines = match message {
                    Message::Order { message, .. } => message.entries(),
                    Message::Recalled { said: Some(said), .. } => said.log.entries(),
                    _ => Vec::new(),
                };
                let lines = lines.iter().filter_map(|bytes| crate::record::decode::<Line>(bytes).ok());
                lines
                    .filter_map(|line| match line {
                        Line::Write { operation, .. } => operation.body,
                        Line::Ruling { .. } => None,
                    })
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// Remembers how an ordered resource was recorded; at the end of the call it is recorded where that
    /// changed.
    pub(crate) fn touch_ordered(&mut self, meta: &Meta) {
        if !self.call.ordered.contains_key(meta) {
            let before = self.ordering.entries.get(meta).map(Ordered::record);
            self.call.ordered.insert(meta.clone(), before);
        }
    }
}
