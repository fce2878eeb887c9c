//! Sites over a network that loses, doubles, delays and cuts; meshes that crash at any effect; clocks that
//! run at their own pace; services that refuse, fail and do not answer; clients that write and read.

use std::collections::{BTreeMap, BTreeSet};

use replica::{
    Authority, Body, Class, Doubt, Effect, Event, Execution, Key, Level, LocalId, Machine, Message, Meta,
    Naming, OpId, Operation, Outcome, Record, Reply, Settings, Subject, Ticket, Timer, Who, Write,
};
use scope::Site;

use crate::app::App;
use crate::chance::Chance;
use crate::history::{History, Moment, Op};
use crate::service::Service;

/// A request that the service has not answered.
struct Request {
    operation: Operation,
    execution: Execution,
    local: Option<LocalId>,
    authority: Authority,
}

/// Records, and the stored requests.
type Disk = (BTreeMap<Key, Vec<u8>>, BTreeSet<String>);

pub(crate) struct Place {
    pub(crate) site: Site,
    pub(crate) machine: Machine,
    pub(crate) service: Service,
    disk: BTreeMap<Key, Vec<u8>>,
    requests: Vec<Request>,
    probes: Vec<(Meta, OpId)>,
    copies: Vec<(Meta, Site)>,
    installs: Vec<(Meta, Option<LocalId>)>,
    /// Copies that the service is asked to make.
    makes: Vec<(Meta, OpId)>,
    reads: Vec<(Ticket, Option<LocalId>)>,
    has_read: Vec<Ticket>,
    spool: BTreeMap<Meta, App>,
    timers: BTreeSet<Timer>,
    /// The stored requests.
    bodies: BTreeSet<String>,
    skew_ms: u64,
    /// A copy of its disk, with the stored requests.
    copy: Option<Disk>,
}

/// The resource that all write and read.
pub(crate) fn meta() -> Meta {
    Meta("register".into())
}

pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) places: Vec<Place>,
    pub(crate) chance: Chance,
    pub(crate) fair: bool,
    pub(crate) level: Level,
    pub(crate) cut: BTreeSet<usize>,
    pub(crate) history: History,
    /// Messages, with the bodies that went with them.
    network: Vec<(usize, usize, Vec<u8>, Vec<String>)>,
    now_ms: u64,
    tickets: u64,
    asked: BTreeMap<Ticket, (Write, usize)>,
    values: BTreeMap<Ticket, Option<i64>>,
    pub(crate) told: BTreeMap<Ticket, Reply>,
    /// Whose service refuses what its client asks for.
    pub(crate) refusing: Option<usize>,
    /// Whose service refuses what that of another site executed.
    pub(crate) differing: Option<usize>,
    /// Services refuse what has lost its sender's token.
    pub(crate) distrust: bool,
    /// Whose service executes what it is asked for and does not say so.
    pub(crate) mute: Option<usize>,
    /// Whose service takes no state of another replica.
    pub(crate) stubborn: Option<usize>,
    /// Nobody looks at what is in doubt.
    pub(crate) unattended: bool,
    pub(crate) crashes: usize,
    pub(crate) diverged: usize,
    pub(crate) unproven: usize,
}

impl World {
    pub(crate) fn new(seed: u64, sites: usize, level: Level) -> World {
        let mut chance = Chance::new(seed);
        let mut places = Vec::new();
        for index in 0..sites {
            let site = Site::new(&format!("Site{index}")).unwrap();
            places.push(Place {
                machine: Machine::restore(site.clone(), Settings::default(), []),
                service: Service::new(site.name()),
                site,
                disk: BTreeMap::new(),
                requests: Vec::new(),
                probes: Vec::new(),
                copies: Vec::new(),
                installs: Vec::new(),
                makes: Vec::new(),
                reads: Vec::new(),
                has_read: Vec::new(),
                spool: BTreeMap::new(),
                timers: BTreeSet::new(),
                bodies: BTreeSet::new(),
                skew_ms: chance.next() % 5_000,
                copy: None,
            });
        }
        let mut world = World {
            seed,
            places,
            chance,
            fair: false,
            level,
            cut: BTreeSet::new(),
            history: History::default(),
            network: Vec::new(),
            now_ms: 0,
            tickets: 0,
            asked: BTreeMap::new(),
            values: BTreeMap::new(),
            told: BTreeMap::new(),
            refusing: None,
            differing: None,
            distrust: false,
            mute: None,
            stubborn: None,
            unattended: false,
            crashes: 0,
            diverged: 0,
            unproven: 0,
        };
        (0..sites).for_each(|at| world.restart(at));
        world
    }

    fn bad(&mut self, percent: usize) -> bool {
        !self.fair && self.chance.percent(percent)
    }

    fn ticket(&mut self, op: Op) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.history.0.push(Moment::Asked(ticket, op));
        ticket
    }

    pub(crate) fn write(&mut self, at: usize, op: Op) -> Ticket {
        let ticket = self.ticket(op);
        let sites = self.places.iter().map(|place| place.site.clone()).collect();
        let repeated = self.chance.percent(50);
        let (class, doubt, body) = match op {
            Op::Set(n) => (Class::Create, Doubt::Repeat, format!("set {n}")),
            Op::Add(n) => (Class::Add, if repeated { Doubt::Probe } else { Doubt::Ask }, format!("add {n}")),
            Op::Read => unreachable!(),
        };
        let subject = match class {
            Class::Create => Subject::New { naming: Naming::Chosen(meta()), level: self.level, sites },
            _ => Subject::Existing(meta()),
        };
        self.asks(at, ticket, subject, class, doubt, &body);
        ticket
    }

    /// A write that the history leaves out.
    pub(crate) fn put(
        &mut self,
        at: usize,
        subject: Subject,
        class: Class,
        doubt: Doubt,
        body: &str,
    ) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.asks(at, ticket, subject, class, doubt, body);
        ticket
    }

    fn asks(&mut self, at: usize, ticket: Ticket, subject: Subject, class: Class, doubt: Doubt, body: &str) {
        let site = self.places[at].site.clone();
        let on_behalf_of = Who { site, user: "ada".into(), project: None, roles: Vec::new(), time_ms: 0 };
        let write = Write { subject, class, doubt, on_behalf_of, body: Body(body.into()), long: false };
        self.asked.insert(ticket, (write.clone(), 0));
        self.accept(at, ticket, write);
    }

    fn accept(&mut self, at: usize, ticket: Ticket, write: Write) {
        self.places[at].bodies.insert(write.body.0.to_string());
        self.event(at, Event::Accept { ticket, write });
    }

    pub(crate) fn read(&mut self, at: usize) -> Ticket {
        let ticket = self.ticket(Op::Read);
        let (resource, confirm) = (meta(), self.level == Level::Quorum);
        self.event(at, Event::Read { ticket, resource, confirm });
        ticket
    }

    /// A site is handed a write that another one leads.
    fn hand_on(&mut self, ticket: Ticket, site: &Site) -> bool {
        let Some((write, hops)) = self.asked.get_mut(&ticket) else { return false };
        *hops += 1;
        if *hops > 3 {
            return false;
        }
        let write = write.clone();
        let at = self.places.iter().position(|place| place.site == *site).unwrap();
        self.accept(at, ticket, write);
        true
    }

    pub(crate) fn event(&mut self, at: usize, event: Event) {
        self.now_ms += 7;
        let place = &mut self.places[at];
        let mut effects = Vec::new();
        place.machine.on(self.now_ms + place.skew_ms, event, &mut effects);
        self.carry_out(at, effects);
    }

    fn carry_out(&mut self, at: usize, effects: Vec<Effect>) {
        let persists = effects.iter().filter(|effect| matches!(effect, Effect::Persist { .. })).count();
        assert!(persists <= 1 && (persists == 0 || matches!(effects[0], Effect::Persist { .. })));
        let stop =
            if self.bad(25) && self.bad(1) { self.chance.below(effects.len() + 1) } else { usize::MAX };
        for (index, effect) in effects.into_iter().enumerate() {
            if index == stop {
                return self.crash(at);
            }
            self.do_one(at, effect);
        }
    }

    fn do_one(&mut self, at: usize, effect: Effect) {
        let place = &mut self.places[at];
        match effect {
            Effect::Persist { put, remove } => {
                place.disk.extend(put.into_iter().map(|record| (record.key(), record.bytes())));
                for key in remove {
                    place.disk.remove(&key);
                }
            }
            Effect::Answer { ticket, reply: Reply::Elsewhere(site), .. } => {
                if !self.hand_on(ticket, &site) {
                    self.answered(ticket, Reply::Unavailable);
                }
            }
            Effect::Answer { ticket, reply, .. } => self.answered(ticket, reply),
            Effect::Execute { operation, execution, local, authority } => {
                let body = operation.body.as_ref().unwrap();
                assert!(place.bodies.contains(&*body.0), "seed {}: {body:?} was erased", self.seed);
                self.unproven += usize::from(authority == Authority::Unproven);
                place.requests.push(Request { operation, execution, local, authority });
            }
            Effect::Probe { operation, .. } => place.probes.push((operation.resource, operation.id)),
            Effect::Read { ticket, local, .. } => place.reads.push((ticket, local)),
            Effect::Send { to, message } => {
                let named = Machine::bodies(&message).into_iter().map(|body| body.0.to_string());
                let bodies = named.filter(|body| place.bodies.contains(body)).collect();
                let to = self.places.iter().position(|place| place.site == to).unwrap();
                self.network.push((at, to, message.bytes(), bodies));
            }
            Effect::Wake { timer, .. } => {
                place.timers.insert(timer);
            }
            Effect::CopyState { resource, from } => place.copies.push((resource, from)),
            Effect::Install { resource, local, .. } => place.installs.push((resource, local)),
            Effect::Make { resource, op } => place.makes.push((resource, op)),
            Effect::ProbeMade { resource, op } => place.probes.push((resource, op)),
            Effect::Diverged { .. } => self.diverged += 1,
            Effect::Erase(body) => {
                place.bodies.remove(&*body.0);
            }
            Effect::InDoubt { .. }
            | Effect::Release { .. }
            | Effect::Skewed { .. }
            | Effect::Finished { .. }
            | Effect::Digest { .. }
            | Effect::Compared { .. }
            | Effect::Differs { .. } => {}
        }
    }

    fn answered(&mut self, ticket: Ticket, reply: Reply) {
        let value = self.values.remove(&ticket).flatten();
        self.history.told(ticket, &reply, value);
        assert!(self.told.insert(ticket, reply).is_none(), "seed {}: answered twice", self.seed);
    }

    /// The mesh ends, and starts with exactly what was durable. What the service was asked, it may do.
    pub(crate) fn crash(&mut self, at: usize) {
        self.crashes += 1;
        for request in std::mem::take(&mut self.places[at].requests) {
            let does = self.chance.percent(50);
            let service = &mut self.places[at].service;
            if does {
                service.execute(&request.operation, &request.execution, request.local);
            } else {
                service.ignore(&request.operation.id);
            }
        }
        for (resource, op) in std::mem::take(&mut self.places[at].makes) {
            if self.chance.percent(50) {
                let place = &mut self.places[at];
                place.service.make(&op, place.spool[&resource].clone());
            }
        }
        self.restart(at);
    }

    /// A copy is made of what is durable at a site.
    pub(crate) fn copy_disk(&mut self, at: usize) {
        let place = &mut self.places[at];
        place.copy = Some((place.disk.clone(), place.bodies.clone()));
    }

    /// The copy takes the place of what is durable, and the site starts with that; its service keeps what it has. `hint`: the driver sees
    /// that. False where there is no copy.
    pub(crate) fn put_back(&mut self, at: usize, hint: bool) -> bool {
        let Some((disk, bodies)) = self.places[at].copy.take() else { return false };
        self.crash(at);
        let place = &mut self.places[at];
        (place.disk, place.bodies) = (disk, bodies);
        self.restart_with(at, hint);
        true
    }

    fn restart(&mut self, at: usize) {
        self.restart_with(at, false);
    }

    fn restart_with(&mut self, at: usize, hint: bool) {
        let place = &mut self.places[at];
        (place.probes, place.copies, place.installs, place.timers) = Default::default();
        (place.reads, place.has_read) = Default::default();
        let records = place.disk.values().map(|bytes| Record::read(bytes).unwrap());
        place.machine = Machine::restore(place.site.clone(), Settings::default(), records);
        if hint {
            place.machine.distrust();
        }
        let mut effects = Vec::new();
        place.machine.start(self.now_ms, self.chance.next(), &mut effects);
        for effect in effects {
            self.do_one(at, effect);
        }
    }

    /// One thing happens, somewhere.
    pub(crate) fn step(&mut self) {
        let at = self.chance.below(self.places.len());
        match self.chance.below(100) {
            0..=59 => self.message(),
            60..=69 => self.request(at),
            70..=81 => self.timer(at),
            82..=85 => self.copy(at),
            86..=89 => self.probe(at),
            90..=98 => self.reading(at),
            _ => self.settle(at),
        }
    }

    /// A message arrives: once, twice or never.
    fn message(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let near = if self.fair || self.chance.percent(70) { 1 } else { 8 };
        let index = self.chance.below(self.network.len().min(near));
        let (from, to, bytes, bodies) =
            if self.bad(2) { self.network[index].clone() } else { self.network.remove(index) };
        if self.cut.contains(&from) != self.cut.contains(&to) || self.bad(1) {
            return;
        }
        let (from, message) = (self.places[from].site.clone(), Message::read(&bytes).unwrap());
        self.places[to].bodies.extend(bodies);
        self.event(to, Event::Received { from, message });
    }

    /// The service answers.
    fn request(&mut self, at: usize) {
        if self.places[at].requests.is_empty() {
            return;
        }
        let Request { operation, execution, local, authority } = self.places[at].requests.swap_remove(0);
        let (silent, deaf) = (self.bad(8) || self.mute == Some(at), self.bad(8));
        let refuses = self.bad(if authority == Authority::Site { 1 } else { 10 })
            || (self.refusing == Some(at) && authority == Authority::Sender)
            || (self.differing == Some(at) && authority == Authority::Site)
            || (self.distrust && authority == Authority::Unproven);
        let service = &mut self.places[at].service;
        let outcome = if refuses {
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

    fn timer(&mut self, at: usize) {
        let timers: Vec<_> = self.places[at].timers.iter().cloned().collect();
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

    /// A client's read reaches the service, or its answer the mesh.
    fn reading(&mut self, at: usize) {
        if self.chance.percent(50)
            && let Some(ticket) = self.places[at].has_read.pop()
        {
            return self.event(at, Event::HasRead { ticket });
        }
        if let Some((ticket, local)) = self.places[at].reads.pop() {
            let value = self.value(at, local.as_ref());
            self.values.insert(ticket, value);
            self.places[at].has_read.push(ticket);
        }
    }

    pub(crate) fn value(&self, at: usize, local: Option<&LocalId>) -> Option<i64> {
        let register = self.places[at].service.registers.get(local?)?;
        register.0.as_ref().map(|register| register.value)
    }

    /// A state is fetched from another site, or a fetched one is installed.
    fn copy(&mut self, at: usize) {
        if let Some((resource, op)) = self.places[at].makes.pop() {
            return self.make(at, resource, op);
        }
        if let Some((resource, local)) = self.places[at].installs.pop() {
            if self.bad(10) {
                return self.crash(at);
            }
            if self.stubborn == Some(at) {
                return self.event(at, Event::CopyFailed { resource });
            }
            let Some(local) = local else {
                return self.event(at, Event::ToMake { resource, local: None, doubt: Doubt::Ask });
            };
            let place = &mut self.places[at];
            place.service.erased(&local);
            place.service.registers.insert(local.clone(), place.spool[&resource].clone());
            if self.bad(10) {
                return self.crash(at);
            }
            return self.event(at, Event::Installed { resource, local: Some(local) });
        }
        let Some((resource, from)) = self.places[at].copies.pop() else { return };
        let from = self.places.iter().position(|place| place.site == from).unwrap();
        let cut = self.cut.contains(&at) != self.cut.contains(&from);
        let taken = if cut || self.bad(20) { None } else { self.places[from].machine.snapshot(&resource) };
        let Some((map, snapshot)) = taken else {
            return self.event(at, Event::CopyFailed { resource });
        };
        let theirs = map.local(&self.places[from].site);
        let state = theirs.and_then(|local| self.places[from].service.registers.get(&local).cloned());
        self.places[at].spool.insert(resource, state.unwrap_or_default());
        self.event(at, Event::Fetched { map, snapshot });
    }

    /// The service makes a copy, or does not, and says so, or does not.
    fn make(&mut self, at: usize, resource: Meta, op: OpId) {
        let (silent, deaf) = (self.bad(20), self.bad(20));
        let place = &mut self.places[at];
        let made = (!deaf).then(|| place.service.make(&op, place.spool[&resource].clone()));
        let outcome = match made {
            _ if silent => Outcome::Unknown,
            Some(local) => Outcome::Done { status: 201, local: Some(local) },
            None => Outcome::NotExecuted,
        };
        self.event(at, Event::Made { resource, op, outcome });
    }

    /// The operator looks, and says what is true.
    pub(crate) fn settle(&mut self, at: usize) {
        if self.unattended {
            return;
        }
        let place = &self.places[at];
        let found = place.machine.in_doubt().next().map(|(meta, op)| (meta.clone(), op.clone()));
        if let Some((resource, op)) = found {
            let (executed, local) = place.service.fates.get(&op).cloned().unwrap_or_default();
            self.event(at, Event::Settle { resource, op, executed, local });
        }
    }

    /// Messages come, and no service but this one answers, until it has executed something.
    pub(crate) fn until_executed(&mut self, at: usize) {
        while self.places[at].requests.is_empty() {
            assert!(!self.network.is_empty(), "nothing will be executed");
            self.message();
        }
        self.request(at);
    }

    /// Messages come until a client of this site may read.
    pub(crate) fn until_readable(&mut self, at: usize) {
        while self.places[at].reads.is_empty() {
            assert!(!self.network.is_empty(), "nothing will be read");
            self.message();
        }
    }

    /// Its read reaches the service, and the answer the mesh.
    pub(crate) fn reads(&mut self, at: usize) {
        while !self.places[at].reads.is_empty() || !self.places[at].has_read.is_empty() {
            self.reading(at);
        }
    }

    /// Nothing goes wrong any more but the cut, for so many ticks.
    pub(crate) fn quiet(&mut self, ticks: usize) {
        self.fair = true;
        for _ in 0..ticks {
            for at in 0..self.places.len() {
                for timer in std::mem::take(&mut self.places[at].timers) {
                    self.event(at, Event::Fired(timer));
                }
            }
            for _ in 0..40 {
                while !self.network.is_empty() {
                    self.message();
                }
                for at in 0..self.places.len() {
                    self.request(at);
                    self.copy(at);
                    self.probe(at);
                    self.reading(at);
                }
            }
            (0..self.places.len()).for_each(|at| self.settle(at));
        }
    }
}
