//! Three sites over a network that loses, doubles and delays, with meshes that crash at any moment.

use std::collections::{BTreeMap, BTreeSet};

use replica::{
    Authority, Body, Content, Doubt, Effect, Event, Execution, How, Key, LocalId, Machine, Message, Meta,
    OpId, Operation, Outcome, Record, ReplicaMap, Reply, Settings, Snapshot, Standing, Ticket, Timer, Write,
};
use scope::Site;

use crate::app::App;
use crate::chance::Chance;
use crate::service::Service;

/// A request that the service has not answered.
pub(crate) struct Request {
    operation: Operation,
    execution: Execution,
    local: Option<LocalId>,
    authority: Authority,
}

/// One site.
pub(crate) struct Place {
    pub(crate) site: Site,
    pub(crate) machine: Machine,
    pub(crate) service: Service,
    pub(crate) disk: BTreeMap<Key, Vec<u8>>,
    /// Bodies that came with operations, and were not erased.
    pub(crate) bodies: BTreeMap<OpId, Body>,
    pub(crate) requests: Vec<Request>,
    reads: Vec<(Meta, LocalId)>,
    probes: Vec<(Meta, OpId)>,
    copies: Vec<(Meta, Site)>,
    pub(crate) installs: Vec<(Meta, Option<LocalId>)>,
    /// States that are on their way here.
    fetched: Vec<(ReplicaMap, Snapshot, App)>,
    /// Copies that the service is asked to make.
    makes: Vec<(Meta, OpId)>,
    spool: BTreeMap<Meta, App>,
    timers: BTreeSet<Timer>,
    /// Resources that the service was made to refuse.
    refusing: BTreeSet<Meta>,
    skew_ms: u64,
}

impl Place {
    /// The service makes what was fetched.
    fn make(&mut self, resource: &Meta, op: &OpId) -> LocalId {
        self.service.make(op, self.spool[resource].clone())
    }

    /// The bodies that operations on the disk name.
    pub(crate) fn needed(&self) -> BTreeMap<OpId, Body> {
        let records = self.disk.values().map(|bytes| Record::read(bytes).unwrap());
        let named = records.filter_map(|record| match record {
            Record::Operation(Operation { id, body: Some(body), .. }) => Some((id, body)),
            _ => None,
        });
        named.collect()
    }
}

/// How kind the world is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Anything goes wrong.
    Foul,
    /// Nothing does.
    Fair,
}

pub(crate) struct World {
    seed: u64,
    pub(crate) places: Vec<Place>,
    pub(crate) chance: Chance,
    pub(crate) weather: Weather,
    pub(crate) settings: Settings,
    network: Vec<(usize, Site, Vec<u8>)>,
    now_ms: u64,
    pub(crate) tickets: u64,
    /// What services were asked to execute.
    attempted: BTreeMap<OpId, Operation>,
    /// Operations that were executed, or that more than their first site can know of.
    pub(crate) history: BTreeMap<OpId, Operation>,
    /// What clients were told.
    pub(crate) told: BTreeMap<Ticket, (Option<OpId>, Reply)>,
    /// Replicas that refused without a reason.
    pub(crate) diverged: usize,
    pub(crate) provoked: usize,
    pub(crate) installs: usize,
    pub(crate) crashes: usize,
    pub(crate) doubts: usize,
    /// Replicas that were found to differ.
    pub(crate) differs: Vec<(usize, Meta)>,
    pub(crate) compared: Vec<BTreeMap<Site, Option<Standing>>>,
    pub(crate) released: Vec<(Site, Meta, bool)>,
}

impl World {
    pub(crate) fn new(seed: u64, sites: usize, settings: Settings) -> World {
        let mut chance = Chance::new(seed);
        let mut places = Vec::new();
        for index in 0..sites {
            let site = Site::new(&format!("Site{index}")).unwrap();
            places.push(Place {
                machine: Machine::restore(site.clone(), settings, []),
                service: Service::new(site.name()),
                site,
                disk: BTreeMap::new(),
                bodies: BTreeMap::new(),
                requests: Vec::new(),
                reads: Vec::new(),
                probes: Vec::new(),
                copies: Vec::new(),
                installs: Vec::new(),
                fetched: Vec::new(),
                makes: Vec::new(),
                spool: BTreeMap::new(),
                timers: BTreeSet::new(),
                refusing: BTreeSet::new(),
                skew_ms: chance.next() % 5_000,
            });
        }
        World {
            seed,
            places,
            chance,
            weather: Weather::Foul,
            settings,
            network: Vec::new(),
            now_ms: 0,
            tickets: 0,
            attempted: BTreeMap::new(),
            history: BTreeMap::new(),
            told: BTreeMap::new(),
            diverged: 0,
            provoked: 0,
            installs: 0,
            crashes: 0,
            doubts: 0,
            differs: Vec::new(),
            compared: Vec::new(),
            released: Vec::new(),
        }
    }

    fn bad(&mut self, percent: usize) -> bool {
        self.weather == Weather::Foul && self.chance.percent(percent)
    }

    pub(crate) fn write(&mut self, at: usize, write: Write) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.event(at, Event::Accept { ticket, write });
        ticket
    }

    /// Something happens at a site, and it does what it wants, or crashes on the way.
    pub(crate) fn event(&mut self, at: usize, event: Event) {
        self.now_ms += 7;
        self.note(&event);
        let place = &mut self.places[at];
        let (mut effects, gone) = (Vec::new(), gone(&event));
        place.machine.on(self.now_ms + place.skew_ms, event, &mut effects);
        // The attempt before deleted it, unless the service said so first: then nobody executes that.
        if let Some((resource, op)) = gone
            && let Some(operation) = place.machine.operation(&resource, &op)
        {
            self.history.entry(op).or_insert_with(|| operation.into_owned());
        }
        self.carry_out(at, effects);
    }

    /// What was executed belongs to the history, also where no other site hears of it. What has no name yet
    /// is sent under its own.
    fn note(&mut self, event: &Event) {
        let op = match event {
            Event::Executed { execution, outcome: Outcome::Done { .. }, .. } => &execution.op,
            Event::Probed { op, executed: Some(true), .. } | Event::Settle { op, executed: true, .. } => op,
            _ => return,
        };
        let named = |op: &&Operation| !op.resource.0.starts_with('~');
        if let Some(operation) = self.attempted.get(op).filter(named) {
            self.history.entry(op.clone()).or_insert_with(|| operation.clone());
        }
    }

    fn carry_out(&mut self, at: usize, effects: Vec<Effect>) {
        let persists = effects.iter().filter(|effect| matches!(effect, Effect::Persist { .. })).count();
        assert!(persists <= 1 && (persists == 0 || matches!(effects[0], Effect::Persist { .. })));
        for effect in effects {
            if self.bad(1) {
                return self.crash(at);
            }
            self.do_one(at, effect);
        }
    }

    fn do_one(&mut self, at: usize, effect: Effect) {
        let place = &mut self.places[at];
        match effect {
            Effect::Persist { put, remove } => {
                for record in put {
                    place.disk.insert(record.key(), record.bytes());
                    if let Record::Operation(Operation { id, body: Some(body), .. }) = record {
                        place.bodies.insert(id, body);
                    }
                }
                for key in remove {
                    place.disk.remove(&key);
                    if let Key::Operation(op) = key {
                        place.bodies.remove(&op);
                    }
                }
            }
            Effect::Answer { ticket, op, reply } => {
                assert!(self.told.insert(ticket, (op, reply)).is_none(), "answered twice");
            }
            Effect::Execute { operation, execution, local, authority } => {
                self.attempted.insert(operation.id.clone(), operation.clone());
                place.requests.push(Request { operation, execution, local, authority });
            }
            Effect::Probe { operation, .. } => place.probes.push((operation.resource, operation.id)),
            Effect::Send { to, message } => {
                if let Message::Operations { operations, .. } = &message {
                    self.history.extend(operations.iter().map(|op| (op.id.clone(), op.clone())));
                }
                self.network.push((at, to, message.bytes()));
            }
            Effect::Wake { timer, .. } => {
                place.timers.insert(timer);
            }
            Effect::CopyState { resource, from } => place.copies.push((resource, from)),
            Effect::Install { resource, local, .. } => place.installs.push((resource, local)),
            Effect::Make { resource, op } => place.makes.push((resource, op)),
            Effect::ProbeMade { resource, op } => place.probes.push((resource, op)),
            Effect::Diverged { resource, .. } => {
                self.diverged += 1;
                place.refusing.insert(resource);
            }
            Effect::Release { resource, local, keep } => {
                if let Some(local) = local.filter(|_| !keep) {
                    place.service.registers.remove(&local);
                }
                self.released.push((place.site.clone(), resource, keep));
            }
            Effect::Digest { resource, local } => place.reads.push((resource, local)),
            Effect::Compared { sites, .. } => self.compared.push(sites),
            Effect::Differs { resource, .. } => self.differs.push((at, resource)),
            Effect::InDoubt { .. } => self.doubts += 1,
            // Others may have the same here, which is not so outside of tests.
            Effect::Erase(body) => {
                let needed = place.needed();
                place.bodies.retain(|op, kept| *kept != body || needed.contains_key(op));
            }
            Effect::Skewed { .. } | Effect::Read { .. } | Effect::Finished { .. } => {}
        }
    }

    /// The mesh ends, and starts with exactly what was durable. What the service was asked, it may do.
    pub(crate) fn crash(&mut self, at: usize) {
        self.crashes += 1;
        for request in std::mem::take(&mut self.places[at].requests) {
            let service = &mut self.places[at].service;
            if self.chance.percent(50) {
                service.execute(&request.operation, &request.execution, request.local);
            } else {
                service.ignore(&request.operation.id);
            }
        }
        for (resource, op) in std::mem::take(&mut self.places[at].makes) {
            if self.chance.percent(50) {
                self.places[at].make(&resource, &op);
            }
        }
        let place = &mut self.places[at];
        (place.reads, place.probes, place.copies, place.installs, place.timers) = Default::default();
        place.fetched.clear();
        // A start erases what nothing names.
        place.bodies = place.needed();
        let records = place.disk.values().map(|bytes| Record::read(bytes).unwrap());
        place.machine = Machine::restore(place.site.clone(), self.settings, records);
        let mut effects = Vec::new();
        place.machine.start(self.now_ms, self.chance.next(), &mut effects);
        for effect in effects {
            self.do_one(at, effect);
        }
    }

    /// One thing happens, somewhere.
    pub(crate) fn step(&mut self) {
        let at = self.chance.below(self.places.len());
        match self.chance.below(10) {
            0..=3 => self.message(),
            4..=6 => self.request(at),
            7 => self.timer(at),
            8 if self.chance.percent(50) => self.read(at),
            8 => self.copy(at),
            _ => self.probe(at),
        }
    }

    /// A message arrives: any, once, twice or never.
    fn message(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let index = self.chance.below(self.network.len());
        let (from, to, bytes) =
            if self.bad(15) { self.network[index].clone() } else { self.network.swap_remove(index) };
        if self.bad(20) {
            return;
        }
        let from = self.places[from].site.clone();
        let Some(to) = self.places.iter().position(|place| place.site == to) else { return };
        let message = Message::read(&bytes).unwrap();
        self.event(to, Event::Received { from, message });
    }

    /// The service answers.
    fn request(&mut self, at: usize) {
        if self.places[at].requests.is_empty() {
            return;
        }
        let Request { operation, execution, local, authority } = self.places[at].requests.swap_remove(0);
        let (silent, deaf) = (self.bad(10), self.bad(10));
        let refuses = self.bad(if authority == Authority::Sender { 10 } else { 1 });
        let service = &mut self.places[at].service;
        let outcome = if refuses && authority != Authority::Unproven {
            self.provoked += usize::from(authority == Authority::Site);
            service.ignore(&operation.id);
            Outcome::Refused { status: 403 }
        } else if deaf {
            service.ignore(&operation.id);
            if silent { Outcome::Unknown } else { Outcome::NotExecuted }
        } else {
            let outcome = service.execute(&operation, &execution, local);
            if silent { Outcome::Unknown } else { outcome }
        };
        self.event(at, Event::Executed { resource: operation.resource, execution, outcome });
    }

    /// The service is read, with what it has at this moment.
    fn read(&mut self, at: usize) {
        let Some((resource, local)) = self.places[at].reads.pop() else { return };
        let content = if self.bad(20) { Content::Unread } else { self.places[at].service.content(&local) };
        self.event(at, Event::Digested { resource, content });
    }

    /// Timers that run for ever, only to look.
    fn looks(timer: &Timer) -> bool {
        matches!(timer, Timer::Survey(_) | Timer::Sweep)
    }

    fn timer(&mut self, at: usize) {
        let fair = self.weather == Weather::Fair;
        let busy = !self.network.is_empty() || self.places.iter().any(|place| !place.reads.is_empty());
        // In fair weather nobody runs out of patience with those who answer.
        let late = |timer: &Timer| World::looks(timer) || (busy && matches!(timer, Timer::Compare(_)));
        let timers = self.places[at].timers.iter().filter(|timer| !fair || !late(timer));
        let timers: Vec<_> = timers.cloned().collect();
        if !timers.is_empty() {
            let timer = timers[self.chance.below(timers.len())].clone();
            self.places[at].timers.remove(&timer);
            self.event(at, Event::Fired(timer));
        }
    }

    /// The truth is found, or not.
    fn probe(&mut self, at: usize) {
        let Some((resource, op)) = self.places[at].probes.pop() else { return };
        let (done, local) = self.places[at].service.fates.get(&op).cloned().unwrap_or_default();
        let executed = if self.bad(20) { None } else { Some(done) };
        self.event(at, Event::Probed { resource, op, executed, local });
    }

    /// A state is fetched from another site, or a fetched one is installed.
    fn copy(&mut self, at: usize) {
        if let Some((resource, op)) = self.places[at].makes.pop() {
            return self.make(at, resource, op);
        }
        if let Some((resource, local)) = self.places[at].installs.pop() {
            if self.bad(20) {
                return self.crash(at);
            }
            let Some(local) = local else {
                let doubt = [Doubt::Ask, Doubt::Probe, Doubt::Repeat][self.chance.below(3)];
                return self.event(at, Event::ToMake { resource, local: None, doubt });
            };
            let place = &mut self.places[at];
            place.service.erased(&local);
            place.service.registers.insert(local.clone(), place.spool[&resource].clone());
            if self.bad(20) {
                return self.crash(at);
            }
            self.installs += 1;
            return self.event(at, Event::Installed { resource, local: Some(local) });
        }
        if !self.bad(50)
            && let Some((map, snapshot, state)) = self.places[at].fetched.pop()
        {
            self.places[at].spool.insert(map.meta.clone(), state);
            return self.event(at, Event::Fetched { map, snapshot });
        }
        let Some((resource, from)) = self.places[at].copies.pop() else { return };
        let from = self.places.iter().position(|place| place.site == from).unwrap();
        let taken = if self.bad(20) { None } else { self.places[from].machine.snapshot(&resource) };
        let Some((map, snapshot)) = taken else {
            return self.event(at, Event::CopyFailed { resource });
        };
        let ops = snapshot.ops.iter().filter(|op| op.body.is_some());
        self.history.extend(ops.map(|op| (op.id.clone(), op.clone())));
        let theirs = map.local(&self.places[from].site);
        let state = theirs.and_then(|local| self.places[from].service.registers.get(&local).cloned());
        self.places[at].fetched.push((map, snapshot, state.unwrap_or_default()));
    }

    /// The service makes a copy, or does not, and says so, or does not.
    fn make(&mut self, at: usize, resource: Meta, op: OpId) {
        let (silent, deaf) = (self.bad(20), self.bad(20));
        let made = (!deaf).then(|| self.places[at].make(&resource, &op));
        let outcome = match made {
            _ if silent => Outcome::Unknown,
            Some(local) => Outcome::Done { status: 201, local: Some(local) },
            None => Outcome::NotExecuted,
        };
        if self.bad(10) {
            return self.crash(at);
        }
        self.event(at, Event::Made { resource, op, outcome });
    }

    /// The operator looks, and says what is true.
    pub(crate) fn settle(&mut self, at: usize) {
        let place = &self.places[at];
        let found = place.machine.in_doubt().next().map(|(meta, op)| (meta.clone(), op.clone()));
        if let Some((resource, op)) = found {
            let (executed, local) = place.service.fates.get(&op).cloned().unwrap_or_default();
            self.event(at, Event::Settle { resource, op, executed, local });
        }
        // Where all refuse, there is no good one to copy from.
        if let Some(resource) = self.places[at].refusing.pop_first() {
            self.event(at, Event::Mended { resource });
        }
    }

    /// Nothing goes wrong any more, for as long as it takes.
    pub(crate) fn heal(&mut self) {
        self.weather = Weather::Fair;
        self.settle_down();
        // Whatever differs is found when all have looked; what that brings up, when they have again.
        for _ in 0..3 {
            for at in 0..self.places.len() {
                let looks: Vec<_> =
                    self.places[at].timers.iter().filter(|timer| World::looks(timer)).cloned().collect();
                for timer in looks {
                    self.places[at].timers.remove(&timer);
                    self.event(at, Event::Fired(timer));
                }
            }
            self.settle_down();
        }
    }

    /// Until nothing is left to do.
    pub(crate) fn settle_down(&mut self) {
        for round in 0..100_000 {
            self.step();
            if round % 20 == 0 {
                (0..self.places.len()).for_each(|at| self.settle(at));
            }
            if round % 100 == 0 && self.is_quiet() {
                return;
            }
        }
        let waiting = |place: &Place| (place.timers.clone(), place.requests.len(), place.copies.clone());
        let waiting: Vec<_> = self.places.iter().map(waiting).collect();
        panic!("seed {}: it does not come to rest: {waiting:?}", self.seed);
    }

    fn is_quiet(&self) -> bool {
        self.network.is_empty()
            && self.places.iter().all(|place| {
                place.timers.iter().all(World::looks)
                    && place.reads.is_empty()
                    && place.requests.is_empty()
                    && place.probes.is_empty()
                    && place.copies.is_empty()
                    && place.installs.is_empty()
                    && place.fetched.is_empty()
                    && place.makes.is_empty()
                    && place.machine.in_doubt().next().is_none()
            })
    }
}

/// A delete of what is gone by then.
fn gone(event: &Event) -> Option<(Meta, OpId)> {
    match event {
        Event::Executed { resource, execution, outcome: Outcome::Refused { status: 404 } }
            if execution.how == How::Delete =>
        {
            Some((resource.clone(), execution.op.clone()))
        }
        _ => None,
    }
}
