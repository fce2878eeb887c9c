//! A site: events in, effects out.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use scope::Site;

use crate::clock::Clock;
use crate::entry::Entry;
use crate::epoch::Epoch;
use crate::event::{Effect, Event, Message, Reply, Ticket, Timer};
use crate::making::Making;
use crate::map::ReplicaMap;
use crate::operation::{Meta, OpId, Operation};
use crate::ordered::{Ordered, Ordering};
use crate::record::{Condition, Key, Record, Refusal, Stage};
use crate::resource::Snapshot;
use crate::restore::Restoring;
use crate::restored::Trust;
use crate::shelf::Shelf;

/// What an operator may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// A peer's clock that is ahead by more is reported.
    pub max_drift_ms: u64,
    /// The first pause before something is tried again; it doubles each time.
    pub retry_ms: u64,
    /// The longest such pause.
    pub max_retry_ms: u64,
    /// A site that lacks more operations on a resource gets the state instead.
    pub backlog: usize,
    /// So many operations in one message.
    pub batch: usize,
    /// A site is told again of so many resources at once.
    pub again: usize,
    /// How often what is known is compared with each other site.
    pub survey_ms: u64,
    /// So many resources in one message that lists them.
    pub lines: usize,
    /// How often the contents of some resources are compared.
    pub sweep_ms: u64,
    /// So many resources each time.
    pub sweep: usize,
    /// Between two ticks of the logs that order writes.
    pub tick_ms: u64,
    /// Those logs.
    pub order: order::Settings,
}

impl Default for Settings {
    /// Seconds between sites that are hours away; a clock that is off by half a second is usual. A hundred
    /// thousand resources are read once a day.
    fn default() -> Settings {
        Settings {
            max_drift_ms: 500,
            retry_ms: 1_000,
            max_retry_ms: 60_000,
            backlog: 1_000,
            batch: 64,
            again: 500,
            survey_ms: 600_000,
            lines: 1_000,
            sweep_ms: 60_000,
            sweep: 70,
            tick_ms: 200,
            order: order::Settings::default(),
        }
    }
}

/// So many refusals that nobody was told are kept.
const MAX_REFUSALS: usize = 1_000;

/// How delivery to one site goes, over all resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Link {
    pub down: bool,
    pub attempts: u32,
    /// A timer is running.
    pub armed: bool,
    /// A timer for surveys is.
    pub surveyed: bool,
    /// Resources of which the site has something to confirm.
    pub owed: BTreeSet<Meta>,
    /// Up to where it was told of them again.
    pub told: Option<Meta>,
}

impl Link {
    /// The next so many of what it owes, and whether there are more after them.
    pub(crate) fn next(&mut self, count: usize) -> (Vec<Meta>, bool) {
        let from = self.told.take().map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.owed.range((from, Bound::Unbounded));
        let next: Vec<_> = rest.by_ref().take(count).cloned().collect();
        let more = rest.next().is_some();
        self.told = next.last().filter(|_| more).cloned();
        (next, more)
    }
}

/// What one call collects: it becomes one atomic [`Effect::Persist`], then the effects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    pub wall_ms: u64,
    /// Each resource that was looked at, as it was recorded before.
    touched: BTreeMap<Meta, Option<Record>>,
    /// Operations whose records changed, or went.
    pub ops: BTreeMap<OpId, Option<Operation>>,
    /// The counter or the clock changed.
    pub site: bool,
    pub effects: Vec<Effect>,
    /// Sites that asked for a confirmation.
    pub asking: BTreeSet<(Meta, Site)>,
    /// Each ordered resource that was looked at, as it was recorded before.
    pub ordered: BTreeMap<Meta, Option<Record>>,
    /// Copies that are being made, or are no longer.
    pub makings: BTreeMap<Meta, Option<Making>>,
    /// Refusals that nobody was told, or that are not kept any more.
    pub refusals: BTreeMap<OpId, Option<Refusal>>,
    /// What the logs want recorded, or removed.
    pub order: BTreeMap<order::Key, Option<order::Record>>,
}

/// All replicated resources at one site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    pub(crate) here: Site,
    pub(crate) settings: Settings,
    pub(crate) epoch: Epoch,
    pub(crate) counter: u64,
    pub(crate) clock: Clock,
    pub(crate) entries: Shelf,
    /// Resources that this site has no replica of any more.
    pub(crate) gone: BTreeMap<Meta, ReplicaMap>,
    /// Copies that the service here is asked to make.
    pub(crate) makings: BTreeMap<Meta, Making>,
    pub(crate) links: BTreeMap<Site, Link>,
    /// Sites of which nothing will be heard again.
    pub(crate) outside: BTreeSet<Site>,
    /// Clients that wait.
    pub(crate) asked: BTreeMap<OpId, Ticket>,
    /// Operations whose sender's token is still at hand.
    pub(crate) senders: BTreeSet<OpId>,
    /// Refusals that nobody was told: the last [`MAX_REFUSALS`].
    pub(crate) refusals: BTreeMap<OpId, Refusal>,
    /// A timer for sweeps is running.
    pub(crate) sweeps: bool,
    /// Up to where the last sweep came.
    pub(crate) swept: Option<Meta>,
    /// Resources whose writes have one order.
    pub(crate) ordering: Ordering,
    /// How far the records here are trusted.
    pub(crate) trust: Trust,
    pub(crate) call: Call,
}

impl Machine {
    /// A site with what it recorded before: nothing, the first time. Then [`Machine::start`].
    #[must_use]
    pub fn restore(here: Site, settings: Settings, records: impl IntoIterator<Item = Record>) -> Machine {
        let mut restoring = Restoring::new(here, settings);
        records.into_iter().for_each(|record| restoring.add(record));
        restoring.done()
    }

    /// Takes up what was under way, in a new run. An execution that had no outcome is in doubt. `draw` is
    /// random, another one at each start: a site whose records are an old copy knows by nothing else that
    /// it runs anew.
    pub fn start(&mut self, wall_ms: u64, draw: u64, effects: &mut Vec<Effect>) {
        self.begin(wall_ms);
        let next = self.epoch.next(wall_ms, draw);
        let before = std::mem::replace(&mut self.epoch, next);
        self.entries.set_epoch(next);
        self.call.site = true;
        self.begin_run(before);
        self.greet();
        let (under_way, resting) = self.entries.by_state();
        // Each is asked what it has of what rests, as much at once as after a long cut.
        for (site, metas) in resting {
            self.watch(&site);
            self.owe(&site, metas);
        }
        for meta in under_way {
            self.touch(&meta);
            let Some(entry) = self.entries.get(&meta) else { continue };
            let stage = entry.running.as_ref().map(|running| running.stage);
            if entry.installing.is_some() {
                self.go_on_installing(&meta);
            } else if entry.condition != Condition::Good {
                self.wake(Timer::Copy(meta.clone()), 1);
            }
            match stage {
                Some(Stage::Sent | Stage::Probing | Stage::InDoubt) => self.doubt(&meta),
                Some(Stage::Waiting) => self.wake(Timer::Retry(meta), 1),
                None => {}
            }
        }
        let mut wanted = Vec::new();
        self.ordering.orders.start(&mut wanted);
        self.ordering.inbox.extend(wanted);
        for meta in self.ordering.entries.keys().cloned().collect::<Vec<_>>() {
            self.restart_ordered(&meta);
        }
        self.end(effects);
    }

    /// Something happened at this moment of the wall clock.
    pub fn on(&mut self, wall_ms: u64, event: Event, effects: &mut Vec<Effect>) {
        self.begin(wall_ms);
        match self.under_current_name(event) {
            Event::Accept { ticket, write } => self.accept(ticket, write),
            Event::Received { from, message } => self.received(&from, message),
            Event::Reach { site, up } => self.reach(&site, up),
            Event::ShutOut { site, out } => self.shut_out(&site, out),
            Event::Fired(Timer::Deliver(site)) => self.deliver_again(&site),
            Event::Fired(Timer::Order) => self.tick(),
            Event::Fired(Timer::Trust) => self.wait_no_longer(),
            Event::Change { ticket, resource, change } => self.change(ticket, &resource, &change),
            Event::Read { ticket, resource, confirm } => self.client_reads(ticket, &resource, confirm),
            Event::HasRead { ticket } => self.has_read(ticket),
            Event::Expired { ticket } => self.expired(ticket),
            event => match self.on_making(event) {
                Some(event) if event.resource().is_some_and(|meta| self.is_ordered(meta)) => {
                    self.on_ordered(event);
                }
                Some(event) => self.on_resource(event),
                None => {}
            },
        }
        self.end(effects);
    }

    /// Something happened to one resource.
    fn on_resource(&mut self, event: Event) {
        match event {
            Event::Executed { resource, execution, outcome } => self.executed(&resource, &execution, outcome),
            Event::Probed { resource, op, executed, local } => {
                self.learnt_fate(&resource, &op, Stage::Probing, executed, local);
            }
            Event::Settle { resource, op, executed, local } => {
                self.learnt_fate(&resource, &op, Stage::InDoubt, Some(executed), local);
            }
            Event::Probe { resource, op } => self.probe_again(&resource, &op),
            Event::Fired(Timer::Retry(meta)) => self.retry(&meta),
            Event::Fired(Timer::Copy(meta)) => self.copy(&meta),
            Event::Fired(Timer::Compare(meta)) => self.conclude(&meta),
            Event::Fired(Timer::Survey(site)) => self.survey(&site),
            Event::Fired(Timer::Sweep) => self.sweep(),
            Event::Compare { ticket, resource } => self.compare_for(ticket, &resource),
            Event::Digested { resource, content } => self.digested(&resource, content),
            Event::Repair { ticket, resource, from } => self.repair_from(ticket, &resource, &from),
            Event::Fetched { map, snapshot } => self.fetched(&map, snapshot),
            Event::Installed { resource, local } => self.installed(&resource, local),
            Event::CopyFailed { resource } => self.copy_failed(&resource),
            Event::Mended { resource } => self.mended(&resource),
            _ => {}
        }
    }

    /// What another replica needs beside the state of this site's service, which is to be read between
    /// two equal answers of this. None while something is being executed, or is not good. A site that is to
    /// have no replica any more gives its state too, for as long as it has it: it may be the last.
    #[must_use]
    pub fn snapshot(&self, meta: &Meta) -> Option<(ReplicaMap, Snapshot)> {
        if self.is_ordered(meta) {
            return self.snapshot_ordered(meta);
        }
        let entry = self.entries.get(meta)?;
        let quiet = entry.running.is_none() && entry.is_good() && self.is_trusted(&entry);
        quiet.then(|| (entry.map.clone(), entry.resource.snapshot()))
    }

    /// Where a resource's replicas are, if it is known here.
    #[must_use]
    pub fn map(&self, meta: &Meta) -> Option<Cow<'_, ReplicaMap>> {
        let ordered = || self.ordering.entries.get(meta).map(|entry| Cow::Borrowed(&entry.map));
        let map = |entry| match entry {
            Cow::Borrowed(Entry { map, .. }) => Cow::Borrowed(map),
            Cow::Owned(Entry { map, .. }) => Cow::Owned(map),
        };
        self.entries.get(meta).map(map).or_else(ordered)
    }

    /// The resources that are known here, deleted ones too.
    pub fn resources(&self) -> impl Iterator<Item = &Meta> {
        self.entries.keys().chain(self.ordering.entries.keys())
    }

    /// Whether the replica here may be read.
    #[must_use]
    pub fn is_readable(&self, meta: &Meta) -> bool {
        let ordered = |entry: &Ordered| entry.is_good() && entry.queue.exists;
        self.entries.get(meta).is_some_and(|entry| entry.is_good() && entry.resource.is_here())
            || self.ordering.entries.get(meta).is_some_and(ordered)
    }

    /// Whether the service here shows all that it executed, and all that this site has acknowledged: see
    /// [`crate::Resource::is_whole`]. Where writes have one order, nothing is executed again.
    #[must_use]
    pub fn is_whole(&self, meta: &Meta) -> bool {
        self.entries.get(meta).is_none_or(|entry| {
            let running = entry.running.as_ref().map(|running| &running.execution);
            entry.resource.is_whole(&self.here, running)
        })
    }

    /// Whether the service here has the resource from this site's own executions, good or not. Else, what it has under
    /// that name is another's.
    #[must_use]
    pub fn is_made(&self, meta: &Meta) -> bool {
        self.entries.get(meta).is_some_and(|entry| entry.resource.is_here())
            || self.ordering.entries.get(meta).is_some_and(|entry| entry.queue.exists)
    }

    /// Whether the service here has a resource from an execution of this site, also from one that nobody else will repeat.
    #[must_use]
    pub fn is_in_service(&self, meta: &Meta) -> bool {
        self.is_made(meta) || self.ordering.entries.get(meta).is_some_and(Ordered::is_made_ahead)
    }

    /// Whether another site is known to have made its replica. It is not before it has said so, also again after a restart
    /// of this site; but an id in its service is known for good.
    #[must_use]
    pub fn is_made_at(&self, meta: &Meta, site: &Site) -> bool {
        if let Some(entry) = self.ordering.entries.get(meta) {
            // A site that has not heard of it says how far its log is, which is before the place of what makes it.
            let told = entry.peers.get(site).is_some_and(|done| *done >= entry.made_before());
            return told || !entry.map.chosen && entry.map.local(site).is_some();
        }
        let Some(entry) = self.entries.get(meta) else { return false };
        match entry.peers.get(site).and_then(|peer| peer.said.as_ref()) {
            Some((_, done)) => entry.resource.exists(done),
            None => !entry.map.chosen && entry.map.local(site).is_some(),
        }
    }

    /// Whether an earlier attempt at what is running may have been executed.
    #[must_use]
    pub fn is_doubted(&self, meta: &Meta) -> bool {
        let running = self.status(meta).and_then(|status| status.running);
        running.is_some_and(|running| running.doubted)
    }

    /// Operations of which nobody knows whether they were executed here, and copies of which nobody knows whether they were
    /// made, for the operator.
    pub fn in_doubt(&self) -> impl Iterator<Item = (&Meta, &OpId)> {
        let running = self.entries.open().map(|(meta, entry)| (meta, &entry.running));
        let ordered = self.ordering.entries.iter().map(|(meta, entry)| (meta, &entry.running));
        let running = running.chain(ordered).filter_map(|(meta, running)| {
            let running = running.as_ref().filter(|running| running.stage == Stage::InDoubt)?;
            Some((meta, &running.execution.op))
        });
        let makings = self.makings.iter().filter(|(_, making)| making.stage == Stage::InDoubt);
        running.chain(makings.map(|(meta, making)| (meta, &making.op)))
    }

    /// An operation that is kept.
    #[must_use]
    pub fn operation(&self, meta: &Meta, op: &OpId) -> Option<Cow<'_, Operation>> {
        if let Some(entry) = self.ordering.entries.get(meta) {
            let mut turns = entry.queue.turns.values().map(|turn| &turn.operation);
            return turns.find(|own| own.id == *op).map(Cow::Borrowed);
        }
        match self.entries.get(meta)? {
            Cow::Borrowed(entry) => entry.resource.ops.get(op).map(Cow::Borrowed),
            Cow::Owned(mut entry) => entry.resource.ops.remove(op).map(Cow::Owned),
        }
    }

    /// Operations that a site is not known to have.
    pub fn pending(&self, site: &Site) -> impl Iterator<Item = Operation> {
        let lacking = |entry: &Entry| entry.lacking(site).into_iter().cloned().collect::<Vec<_>>();
        self.entries.iter().flat_map(move |(_, entry)| lacking(&entry))
    }

    /// How many operations are kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        let ordered = self.ordering.entries.values().map(|entry| entry.queue.turns.len());
        ordered.fold(self.entries.kept(), usize::saturating_add)
    }

    /// What the next write that is accepted here will be called.
    #[must_use]
    pub fn next_op(&self) -> OpId {
        OpId { site: self.here.clone(), epoch: self.epoch, counter: self.counter.saturating_add(1) }
    }

    /// A name for a write that another site is to accept: nothing else is called so, here or elsewhere.
    pub fn reserve_op(&mut self) -> OpId {
        let id = self.next_op();
        self.counter = id.counter;
        id
    }

    /// The operation that a client waits for, once its write was accepted.
    #[must_use]
    pub fn accepted(&self, ticket: Ticket) -> Option<&OpId> {
        // The last is the one that is asked for.
        self.asked.iter().rev().find(|(_, own)| **own == ticket).map(|(op, _)| op)
    }

    /// Writes that were refused when their clients had been answered already, as far as they are kept.
    pub fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        self.refusals.values()
    }

    /// What is kept of a write that was refused so.
    #[must_use]
    pub fn refusal(&self, op: &OpId) -> Option<&Refusal> {
        self.refusals.get(op)
    }

    /// A client waits no longer for its write.
    fn expired(&mut self, ticket: Ticket) {
        let Some(op) = self.accepted(ticket).cloned() else { return };
        self.asked.remove(&op);
        self.ordering.waiting.remove(&op);
    }

    /// Keeps what nobody was told of a write that had no effect. The oldest of too many goes.
    pub(crate) fn keep_refusal(&mut self, operation: Operation, status: u16) {
        let id = operation.id.clone();
        let refusal = Refusal { operation: Operation { body: None, ..operation }, status };
        self.call.refusals.insert(id.clone(), Some(refusal.clone()));
        self.refusals.insert(id, refusal);
        if self.refusals.len() > MAX_REFUSALS {
            let oldest = self.refusals.values().min_by_key(|refusal| refusal.operation.stamp);
            if let Some(oldest) = oldest.map(|refusal| refusal.operation.id.clone()) {
                self.refusals.remove(&oldest);
                self.call.refusals.insert(oldest, None);
            }
        }
    }

    /// Remembers how a resource was recorded; at the end of the call it is recorded where that changed.
    pub(crate) fn touch(&mut self, meta: &Meta) {
        if !self.call.touched.contains_key(meta) {
            let before = self.state_record(meta);
            self.call.touched.insert(meta.clone(), before);
        }
    }

    fn state_record(&self, meta: &Meta) -> Option<Record> {
        let gone = || self.gone.get(meta).cloned().map(Record::Gone);
        self.entries.get(meta).map(|entry| entry.record()).or_else(gone)
    }

    /// Tells a client, if it still waits.
    pub(crate) fn answer(&mut self, op: &OpId, reply: Reply) {
        if let Some(ticket) = self.asked.remove(op) {
            self.call.effects.push(Effect::Answer { ticket, op: Some(op.clone()), reply });
        }
    }

    /// Sets a timer, for longer with each attempt.
    pub(crate) fn wake(&mut self, timer: Timer, attempts: u32) {
        let factor = 1_u64.checked_shl(attempts.saturating_sub(1)).unwrap_or(u64::MAX);
        let after_ms = self.settings.retry_ms.saturating_mul(factor).min(self.settings.max_retry_ms);
        self.wake_after(timer, after_ms);
    }

    pub(crate) fn wake_after(&mut self, timer: Timer, after_ms: u64) {
        self.call.effects.push(Effect::Wake { timer, after_ms });
    }

    pub(crate) fn send(&mut self, to: &Site, message: Message) {
        self.call.effects.push(Effect::Send { to: to.clone(), message });
    }

    fn begin(&mut self, wall_ms: u64) {
        self.call = Call { wall_ms, ..Call::default() };
    }

    /// Goes on with every resource that was touched, then gives all that has to be durable, then the rest.
    fn end(&mut self, effects: &mut Vec<Effect>) {
        self.pump();
        for meta in self.call.touched.keys().cloned().collect::<Vec<_>>() {
            self.drive(&meta);
            self.prune(&meta);
            self.deliver(&meta);
        }
        let call = std::mem::take(&mut self.call);
        let (mut put, mut remove) = (self.trust.changes(), Vec::new());
        for (id, op) in call.ops {
            match op {
                Some(op) => put.push(Record::Operation(op)),
                None => remove.push(Key::Operation(id)),
            }
        }
        for (meta, before) in call.touched {
            match self.state_record(&meta) {
                Some(now) if before.as_ref() != Some(&now) => put.push(now),
                None if before.is_some() => remove.push(Key::State(meta)),
                _ => {}
            }
        }
        for (meta, before) in call.ordered {
            match self.ordering.entries.get(&meta).map(Ordered::record) {
                Some(now) if before.as_ref() != Some(&now) => put.push(now),
                None if before.is_some() => remove.push(Key::Ordered(meta)),
                _ => {}
            }
        }
        for (resource, making) in call.makings {
            match making {
                Some(making) => put.push(Record::Making { resource, making }),
                None => remove.push(Key::Making(resource)),
            }
        }
        for (id, refusal) in call.refusals {
            match refusal {
                Some(refusal) => put.push(Record::Refusal(refusal)),
                None => remove.push(Key::Refusal(id)),
            }
        }
        for (key, record) in call.order {
            match record {
                Some(record) => put.push(Record::Order(record)),
                None => remove.push(Key::Order(key)),
            }
        }
        self.entries.settle();
        let records = !put.is_empty() || !remove.is_empty();
        if call.site || records && self.trust.started {
            put.push(self.site_record());
        }
        if !put.is_empty() || !remove.is_empty() {
            effects.push(Effect::Persist { put, remove });
        }
        effects.extend(call.effects.into_iter().map(|effect| self.marked(effect)));
    }
}
