//! What a site must not forget, and its bytes.

use std::collections::BTreeSet;

use scope::Site;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::epoch::Epoch;
use crate::making::Making;
use crate::map::ReplicaMap;
use crate::operation::{Body, Meta, OpId, Operation};
use crate::ordered::{Copied, Line, Queue};
use crate::resource::{Execution, Progress, Snapshot};
use crate::restored::{Lineage, Mark};

/// The format of the bytes, checked on reading.
const FORMAT: u8 = 1;

/// Names a record: a later one of the same key takes its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash)]
pub enum Key {
    /// The site's own counter and clock.
    Site,
    /// An operation.
    Operation(OpId),
    /// The rest of what is known of a resource.
    State(Meta),
    /// Of the logs that order writes.
    Order(order::Key),
    /// A resource whose writes have one order.
    Ordered(Meta),
    /// A copy that the service here is asked to make.
    Making(Meta),
    /// A refusal that nobody was told.
    Refusal(OpId),
    /// The runs of this site.
    Lineage,
    /// How far the records of another site are.
    Heard(Site),
}

/// How far an execution has come. It is recorded before the service is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub enum Stage {
    /// The service may be executing it. After a restart it is in doubt.
    Sent,
    /// Waiting for a timer to execute it once more: the service provably did not, or repeating is
    /// harmless.
    Waiting,
    /// The service is asked whether it was executed.
    Probing,
    /// In doubt: the operator decides.
    InDoubt,
}

/// The execution that a resource is busy with. There is one at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Running {
    /// What is executed.
    pub execution: Execution,
    /// How far it is.
    pub stage: Stage,
    /// An earlier attempt may have been executed.
    pub doubted: bool,
    /// Attempts so far.
    pub attempts: u32,
}

/// Whether this site's replica can be read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub enum Condition {
    /// Yes.
    Good,
    /// The service refused what the first replica executed: not read, not counted, to be repaired.
    Diverged {
        /// What the service said.
        status: u16,
    },
    /// Its service has something else than most replicas have, or than the one that the operator chose.
    Differs,
    /// The records here were put back, and may be older than what the service has: it is compared first.
    Suspect,
}

/// One durable record. No credential is in any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub enum Record {
    /// The site's own counter and clock.
    Site {
        /// The last counter given to an operation.
        counter: u64,
        /// The clock.
        clock: Clock,
        /// The last run.
        epoch: Epoch,
        /// How often something was recorded.
        number: u64,
    },
    /// An operation.
    Operation(Operation),
    /// The rest of what is known of a resource.
    State {
        /// Where its replicas are.
        map: ReplicaMap,
        /// What is known and executed.
        progress: Progress,
        /// What is being executed.
        running: Option<Running>,
        /// Whether it is good.
        condition: Condition,
        /// The knowledge of another replica whose state the service here is being given.
        installing: Option<Box<Snapshot>>,
    },
    /// A resource of which this site has no replica any more: where its replicas were. A late message, or
    /// one of a site with old records, would make it one again.
    Gone(ReplicaMap),
    /// Of the logs that order writes.
    Order(order::Record),
    /// A resource whose writes have one order.
    Ordered {
        /// Where its replicas are.
        map: ReplicaMap,
        /// What was ordered, and what is finished.
        queue: Queue,
        /// What is being executed.
        running: Option<Running>,
        /// Whether it is good.
        condition: Condition,
        /// The knowledge of another replica whose state the service here is being given.
        installing: Option<Copied>,
    },
    /// A copy that the service here is asked to make.
    Making {
        /// Of what.
        resource: Meta,
        /// How far that is.
        making: Making,
    },
    /// A refusal that nobody was told.
    Refusal(Refusal),
    /// The runs of this site.
    Lineage(Lineage),
    /// How far the records of another site are, as it was heard.
    Heard {
        /// That one.
        site: Site,
        /// So far.
        mark: Mark,
    },
}

/// A write that the service of its own site refused when its client had been answered already: it had no effect anywhere.
/// It is kept so that somebody can see that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Refusal {
    /// The write, without its body.
    pub operation: Operation,
    /// What the service said.
    pub status: u16,
}

/// Bytes that are no record of this format.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Unreadable {
    /// Written by another version.
    Format(u8),
    /// Cut short, or damaged.
    Damaged,
}

impl Record {
    /// Its key.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Record::Site { .. } => Key::Site,
            Record::Operation(op) => Key::Operation(op.id.clone()),
            Record::State { map, .. } | Record::Gone(map) => Key::State(map.meta.clone()),
            Record::Order(record) => Key::Order(record.key()),
            Record::Ordered { map, .. } => Key::Ordered(map.meta.clone()),
            Record::Making { resource, .. } => Key::Making(resource.clone()),
            Record::Refusal(refusal) => Key::Refusal(refusal.operation.id.clone()),
            Record::Lineage(_) => Key::Lineage,
            Record::Heard { site, .. } => Key::Heard(site.clone()),
        }
    }

    /// The ordered writes that it holds, each with the sites that may have them. Their bodies are made durable with it.
    #[must_use]
    pub fn writes(&self) -> Vec<(Operation, BTreeSet<Site>)> {
        let sites = |map: &ReplicaMap| map.involved().cloned().collect::<BTreeSet<_>>();
        match self {
            Record::Order(record) => match record.entry().map(decode::<Line>) {
                Some(Ok(Line::Write { map, operation })) => vec![(operation, sites(&map))],
                _ => Vec::new(),
            },
            Record::Ordered { map, queue, .. } => {
                queue.turns.values().map(|turn| (turn.operation.clone(), sites(map))).collect()
            }
            Record::Site { .. }
            | Record::Operation(_)
            | Record::State { .. }
            | Record::Gone(_)
            | Record::Making { .. }
            | Record::Refusal(_)
            | Record::Lineage(_)
            | Record::Heard { .. } => Vec::new(),
        }
    }

    /// The bodies that it names: what no record names is needed by nobody.
    #[must_use]
    pub fn bodies(&self) -> Vec<Body> {
        let mut bodies: Vec<Body> = self.writes().into_iter().filter_map(|(op, _)| op.body).collect();
        match self {
            Record::Operation(op) => bodies.extend(op.body.clone()),
            Record::Ordered { queue, .. } => bodies.extend(queue.bodies.values().cloned()),
            Record::State { installing: Some(snapshot), .. } => {
                bodies.extend(snapshot.ops.iter().filter_map(|op| op.body.clone()));
            }
            _ => {}
        }
        bodies
    }

    /// Its bytes, to be stored under its key.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads [`Record::bytes`].
    pub fn read(bytes: &[u8]) -> Result<Record, Unreadable> {
        decode(bytes)
    }
}

/// The format, then the value.
pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    // Into memory, types without a length unknown beforehand: it cannot fail.
    let value = postcard::to_allocvec(value).unwrap_or_default();
    let mut bytes = vec![FORMAT];
    bytes.extend(value);
    bytes
}

/// Reads [`encode`].
pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Unreadable> {
    match bytes.split_first() {
        Some((&FORMAT, value)) => match postcard::take_from_bytes(value) {
            Ok((value, [])) => Ok(value),
            _ => Err(Unreadable::Damaged),
        },
        Some((&other, _)) => Err(Unreadable::Format(other)),
        None => Err(Unreadable::Damaged),
    }
}
