//! A machine of what was recorded, one record at a time: what rests is packed as it comes.

use std::collections::{BTreeMap, BTreeSet};

use scope::Site;

use crate::clock::Clock;
use crate::entry::Entry;
use crate::epoch::Epoch;
use crate::machine::{Call, Machine, Settings};
use crate::making::Making;
use crate::map::ReplicaMap;
use crate::operation::{Meta, OpId, Operation};
use crate::ordered::{Ordered, Ordering};
use crate::record::{self, Record, Refusal};
use crate::resource::Resource;
use crate::restored::Trust;
use crate::shelf::Shelf;

/// A machine that is being made of its records, in any order.
#[derive(Debug)]
pub struct Restoring {
    here: Site,
    settings: Settings,
    site: (u64, Clock, Epoch),
    entries: Shelf,
    /// Operations whose resources did not come yet, as bytes: there may be many.
    ops: BTreeMap<Meta, Vec<Vec<u8>>>,
    gone: BTreeMap<Meta, ReplicaMap>,
    logs: Vec<order::Record>,
    ordered: BTreeMap<Meta, Ordered>,
    makings: BTreeMap<Meta, Making>,
    refusals: BTreeMap<OpId, Refusal>,
    trust: Trust,
    is_empty: bool,
}

impl Restoring {
    /// Of nothing, so far.
    #[must_use]
    pub fn new(here: Site, settings: Settings) -> Restoring {
        Restoring {
            entries: Shelf::new(here.clone()),
            here,
            settings,
            site: (0, Clock::new(settings.max_drift_ms), Epoch::default()),
            ops: BTreeMap::new(),
            gone: BTreeMap::new(),
            logs: Vec::new(),
            ordered: BTreeMap::new(),
            makings: BTreeMap::new(),
            refusals: BTreeMap::new(),
            trust: Trust::default(),
            is_empty: true,
        }
    }

    /// Whether there was no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Takes in a record. Each key has one.
    pub fn add(&mut self, record: Record) {
        self.is_empty = false;
        match record {
            Record::Site { counter, clock, epoch, .. } => {
                self.site = (counter, clock, epoch);
                self.trust.restore(record);
            }
            Record::Lineage(_) | Record::Heard { .. } => self.trust.restore(record),
            Record::Operation(op) => self.add_operation(op),
            Record::Gone(map) => {
                self.gone.insert(map.meta.clone(), map);
            }
            Record::State { map, progress, running, condition, installing } => {
                let ops = self.take_operations(&map.meta);
                let resource = Resource::restore(progress, ops.map(|op| (op.id.clone(), op)));
                let meta = map.meta.clone();
                self.entries
                    .insert(meta, Entry { running, condition, installing, ..Entry::new(map, resource) });
                self.entries.settle();
            }
            Record::Order(record) => self.logs.push(record),
            Record::Making { resource, making } => {
                self.makings.insert(resource, making);
            }
            Record::Refusal(refusal) => {
                self.refusals.insert(refusal.operation.id.clone(), refusal);
            }
            Record::Ordered { map, queue, running, condition, installing } => {
                let meta = map.meta.clone();
                let entry = Ordered { queue, running, condition, installing, ..Ordered::new(map) };
                self.ordered.insert(meta, entry);
            }
        }
    }

    /// Takes the operations that came before their resource. One that was left out would be lost without a word.
    fn take_operations(&mut self, meta: &Meta) -> impl Iterator<Item = Operation> + use<> {
        let ops = self.ops.remove(meta).unwrap_or_default();
        ops.into_iter().map(|bytes| record::decode(&bytes).expect("it was encoded here"))
    }

    fn add_operation(&mut self, op: Operation) {
        match self.entries.get_mut(&op.resource) {
            Some(entry) => {
                entry.resource.ops.insert(op.id.clone(), op);
                self.entries.settle();
            }
            None => self.ops.entry(op.resource.clone()).or_default().push(record::encode(&op)),
        }
    }

    /// The machine. Then [`Machine::start`].
    #[must_use]
    pub fn done(self) -> Machine {
        let Restoring { here, settings, site: (counter, clock, epoch), entries, gone, .. } = self;
        let ordering = Ordering::restore(&here, &settings, self.logs, self.ordered);
        Machine {
            here,
            settings,
            epoch,
            counter,
            clock,
            entries,
            gone,
            makings: self.makings,
            links: BTreeMap::new(),
            outside: BTreeSet::new(),
            asked: BTreeMap::new(),
            senders: BTreeSet::new(),
            refusals: self.refusals,
            sweeps: false,
            swept: None,
            ordering,
            trust: self.trust,
            call: Call::default(),
        }
    }
}
