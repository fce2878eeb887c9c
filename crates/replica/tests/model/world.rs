//! The real machines of a few sites, their disks, services and network, as one state of a model.

use std::collections::{BTreeMap, BTreeSet};

use replica::{
    Body, Class, Doubt, Effect, Event, Execution, How, Key, Level, Machine, Message, Meta, Naming, OpId,
    Operation, Outcome, Record, Reply, Settings, Subject, Ticket, Timer, Who, Write,
};
use scope::Site;

use crate::app::App;

/// A write that some client makes, once, at any moment.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) at: usize,
    pub(crate) class: Class,
    pub(crate) doubt: Doubt,
    pub(crate) body: &'static str,
}

/// What may still go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    pub(crate) crashes: u8,
    pub(crate) losses: u8,
    pub(crate) doubles: u8,
    /// Timers that run out before all else is done.
    pub(crate) timers: u8,
    /// Requests that the service refuses, fails, or leaves without answer.
    pub(crate) failures: u8,
    /// Times that a site takes another for unreachable.
    pub(crate) cuts: u8,
}

/// One site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) machine: Machine,
    pub(crate) disk: BTreeMap<Key, Record>,
    pub(crate) app: App,
    /// The operations whose effect is in the service.
    pub(crate) applied: BTreeSet<OpId>,
    pub(crate) request: Option<(Operation, Execution)>,
    pub(crate) probe: Option<OpId>,
    pub(crate) copy: Option<Site>,
    pub(crate) install: bool,
    pub(crate) spool: App,
    pub(crate) timers: BTreeSet<Timer>,
    pub(crate) cut_from: BTreeSet<usize>,
    pub(crate) starts: u64,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) places: Vec<Place>,
    /// Messages that were sent, each once. A cut is one that stays.
    pub(crate) network: BTreeSet<(usize, usize, Vec<u8>)>,
    /// Which of the planned writes were made.
    pub(crate) written: BTreeSet<usize>,
    pub(crate) faults: Faults,
    /// Every operation that was executed or sent, as it was.
    pub(crate) history: BTreeMap<OpId, Operation>,
    pub(crate) attempted: BTreeMap<OpId, Operation>,
    pub(crate) told: BTreeMap<Ticket, (Option<OpId>, Reply)>,
    /// What must never happen did.
    pub(crate) wrong: Option<String>,
}

pub(crate) fn site(index: usize) -> Site {
    Site::new(&format!("S{index}")).unwrap()
}

pub(crate) fn meta() -> Meta {
    Meta("r".into())
}

/// Timers that only look.
fn looks(timer: &Timer) -> bool {
    matches!(timer, Timer::Survey(_) | Timer::Sweep)
}

impl World {
    /// Some sites, with a register that all have.
    pub(crate) fn new(sites: usize, settings: Settings, faults: Faults) -> World {
        let place = |index| Place {
            machine: Machine::restore(site(index), settings, []),
            disk: BTreeMap::new(),
            app: App::default(),
            applied: BTreeSet::new(),
            request: None,
            probe: None,
            copy: None,
            install: false,
            spool: App::default(),
            timers: BTreeSet::new(),
            cut_from: BTreeSet::new(),
            starts: 0,
        };
        let mut world = World {
            places: (0..sites).map(place).collect(),
            network: BTreeSet::new(),
            written: BTreeSet::new(),
            faults: Faults::default(),
            history: BTreeMap::new(),
            attempted: BTreeMap::new(),
            told: BTreeMap::new(),
            wrong: None,
        };
        let (naming, level) = (Naming::Chosen(meta()), Level::Eventual);
        let subject = Subject::New { naming, level, sites: (0..sites).map(site).collect() };
        world.accept(0, Ticket(0), subject, Class::Create, Doubt::Repeat, "set 23");
        world.heal();
        world.told.clear();
        world.faults = faults;
        world
    }

    pub(crate) fn write(&mut self, index: usize, plan: &Plan, crash: Option<usize>) -> Option<()> {
        self.written.insert(index);
        let ticket = Ticket(u64::try_from(index).unwrap() + 1);
        let event =
            accept(plan.at, ticket, Subject::Existing(meta()), plan.class.clone(), plan.doubt, plan.body);
        self.event(plan.at, event, crash)
    }

    fn accept(
        &mut self,
        at: usize,
        ticket: Ticket,
        subject: Subject,
        class: Class,
        doubt: Doubt,
        body: &str,
    ) {
        self.event(at, accept(at, ticket, subject, class, doubt, body), None);
    }

    /// Something happens at a site, which ends after so many effects, if it does. None where there are not so
    /// many.
    pub(crate) fn event(&mut self, at: usize, event: Event, crash: Option<usize>) -> Option<()> {
        self.note(&event);
        let mut effects = Vec::new();
        self.places[at].machine.on(0, event, &mut effects);
        match crash {
            None => self.carry_out_all(at, effects),
            Some(after) if after >= effects.len() => return None,
            Some(after) => {
                effects.truncate(after);
                self.carry_out_all(at, effects);
                self.faults.crashes -= 1;
                self.restart(at);
            }
        }
        Some(())
    }

    /// What was executed is what all must have.
    fn note(&mut self, event: &Event) {
        let op = match event {
            Event::Executed { execution, outcome: Outcome::Done { .. }, .. } => &execution.op,
            Event::Probed { op, executed: Some(true), .. } | Event::Settle { op, executed: true, .. } => op,
            _ => return,
        };
        if let Some(operation) = self.attempted.get(op) {
            self.history.entry(op.clone()).or_insert_with(|| operation.clone());
        }
    }

    fn carry_out_all(&mut self, at: usize, effects: Vec<Effect>) {
        for effect in effects {
            self.carry_out(at, effect);
        }
    }

    fn carry_out(&mut self, at: usize, effect: Effect) {
        let place = &mut self.places[at];
        match effect {
            Effect::Persist { put, remove } => {
                place.disk.extend(put.into_iter().map(|record| (record.key(), record)));
                place.disk.retain(|key, _| !remove.contains(key));
            }
            Effect::Answer { ticket, op, reply } => {
                let twice = self.told.insert(ticket, (op, reply)).is_some();
                self.wrong = self.wrong.take().or(twice.then(|| format!("{ticket:?} is answered twice")));
            }
            Effect::Execute { operation, execution, .. } => {
                self.attempted.insert(operation.id.clone(), operation.clone());
                place.request = Some((operation, execution));
            }
            Effect::Probe { operation, .. } => place.probe = Some(operation.id),
            Effect::Send { to, message } => {
                if let Message::Operations { operations, .. } = &message {
                    self.history.extend(operations.iter().map(|op| (op.id.clone(), op.clone())));
                }
                let to = (0..self.places.len()).find(|index| site(*index) == to).unwrap();
                self.overtake(at, to, &message);
                self.network.insert((at, to, message.bytes()));
            }
            Effect::Wake { timer, .. } if !looks(&timer) => {
                place.timers.insert(timer);
            }
            Effect::CopyState { from, .. } => place.copy = Some(from),
            Effect::Install { .. } => place.install = true,
            Effect::Diverged { .. } => self.wrong = Some(format!("{at} could not follow")),
            _ => {}
        }
    }

    /// A confirmation says all that those before it said: one that is still under way is as good as lost.
    fn overtake(&mut self, from: usize, to: usize, message: &Message) {
        if let Message::Confirm { .. } = message {
            self.network.retain(|(at, other, bytes)| {
                let same = (*at, *other) == (from, to);
                !same || !matches!(Message::read(bytes), Ok(Message::Confirm { .. }))
            });
        }
    }

    /// The process ends, and starts with what was durable. What the service was asked is lost on the way; that
    /// it is executed before is another step.
    pub(crate) fn restart(&mut self, at: usize) {
        let place = &mut self.places[at];
        (place.request, place.probe, place.copy, place.install) = (None, None, None, false);
        place.timers.clear();
        place.cut_from.clear();
        place.starts += 1;
        let settings = Settings::default();
        place.machine = Machine::restore(site(at), settings, place.disk.values().cloned());
        let mut effects = Vec::new();
        place.machine.start(0, place.starts, &mut effects);
        self.carry_out_all(at, effects);
    }

    /// The service does what it was asked.
    pub(crate) fn execute(&mut self, at: usize) -> Option<Outcome> {
        let place = &mut self.places[at];
        let (operation, execution) = place.request.clone()?;
        let Some(body) = &operation.body else {
            self.wrong = Some(format!("the body of {} was erased too early", operation.id));
            return None;
        };
        let done = place.app.execute(&execution, body) || execution.how == How::Create;
        if matches!(execution.how, How::Create | How::Replace | How::Delete) {
            place.applied.clear();
        }
        if done && !place.applied.insert(operation.id.clone()) && operation.class == Class::Add {
            self.wrong = Some(format!("{} is executed twice at {at}", operation.id));
        }
        Some(if done { Outcome::Done { status: 200, local: None } } else { Outcome::Refused { status: 404 } })
    }

    /// The service answers so.
    pub(crate) fn answer(&mut self, at: usize, outcome: Outcome, crash: Option<usize>) -> Option<()> {
        let (operation, execution) = self.places[at].request.take()?;
        self.event(at, Event::Executed { resource: operation.resource, execution, outcome }, crash)
    }

    pub(crate) fn deliver(&mut self, message: &(usize, usize, Vec<u8>), crash: Option<usize>) -> Option<()> {
        let (from, to, bytes) = message;
        let message = Message::read(bytes).unwrap();
        self.event(*to, Event::Received { from: site(*from), message }, crash)
    }

    /// A state is fetched, or given to the service.
    pub(crate) fn copy(&mut self, at: usize) -> Option<()> {
        if self.places[at].install {
            let place = &mut self.places[at];
            (place.install, place.app, place.applied) = (false, place.spool.clone(), BTreeSet::new());
            return self.event(at, Event::Installed { resource: meta(), local: None }, None);
        }
        let from = self.places[at].copy.take()?;
        let from = (0..self.places.len()).find(|index| site(*index) == from)?;
        let Some((map, snapshot)) = self.places[from].machine.snapshot(&meta()) else {
            return self.event(at, Event::CopyFailed { resource: meta() }, None);
        };
        self.places[at].spool = self.places[from].app.clone();
        self.event(at, Event::Fetched { map, snapshot }, None)
    }

    /// The truth about what is probed, or shown to the operator.
    pub(crate) fn find_out(&mut self, at: usize) -> Option<()> {
        let place = &mut self.places[at];
        if let Some(op) = place.probe.take() {
            let executed = Some(place.applied.contains(&op));
            return self.event(at, Event::Probed { resource: meta(), op, executed, local: None }, None);
        }
        let op = place.machine.in_doubt().next().map(|(_, op)| op.clone())?;
        let executed = place.applied.contains(&op);
        self.event(at, Event::Settle { resource: meta(), op, executed, local: None }, None)
    }

    /// Nothing goes wrong any more. False where it does not come to rest.
    pub(crate) fn heal(&mut self) -> bool {
        for _ in 0..200 {
            let mut idle = true;
            for message in std::mem::take(&mut self.network) {
                self.deliver(&message, None);
                idle = false;
            }
            for at in 0..self.places.len() {
                idle &= !self.go_on(at);
            }
            if idle && !self.fire_all() {
                return true;
            }
        }
        false
    }

    fn go_on(&mut self, at: usize) -> bool {
        if let Some(outcome) = self.execute(at) {
            self.answer(at, outcome, None);
            return true;
        }
        if self.copy(at).is_some() || self.find_out(at).is_some() {
            return true;
        }
        if let Some(from) = self.places[at].cut_from.pop_first() {
            self.event(at, Event::Reach { site: site(from), up: true }, None);
            return true;
        }
        false
    }

    /// Every timer runs out. What is under way needs no second try, so only when all else is done.
    fn fire_all(&mut self) -> bool {
        let mut some = false;
        for at in 0..self.places.len() {
            for timer in std::mem::take(&mut self.places[at].timers) {
                self.event(at, Event::Fired(timer), None);
                some = true;
            }
        }
        some
    }

    /// Whether nothing happens any more but timers, faults and new writes.
    pub(crate) fn is_idle(&self) -> bool {
        self.network.is_empty()
            && self.places.iter().all(|place| {
                place.request.is_none()
                    && place.probe.is_none()
                    && place.copy.is_none()
                    && !place.install
                    && place.machine.in_doubt().next().is_none()
            })
    }
}

fn accept(at: usize, ticket: Ticket, subject: Subject, class: Class, doubt: Doubt, body: &str) -> Event {
    let on_behalf_of =
        Who { site: site(at), user: "ada".into(), project: None, roles: Vec::new(), time_ms: 0 };
    let write = Write { subject, class, doubt, on_behalf_of, body: Body(body.into()), long: false };
    Event::Accept { ticket, write }
}
