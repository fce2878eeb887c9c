//! The steps of the model, and what has to hold in each of its states.

use replica::{Class, Event, Message, OpId, Outcome, Record, Reply, Settings, Timer};
use stateright::{Model, Property};

use crate::rule;
use crate::world::{Faults, Plan, World, meta, site};

/// So many effects of one event at most: a crash after each is a step of its own.
const EFFECTS: usize = 6;

/// A model: its sites, what clients write, and what may go wrong.
#[derive(Clone, Debug)]
pub(crate) struct Sites {
    pub(crate) count: usize,
    pub(crate) plans: Vec<Plan>,
    pub(crate) faults: Faults,
    pub(crate) settings: Settings,
}

/// One thing happens. Where there is a number, the process ends after so many of the effects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Write(usize, Option<usize>),
    Deliver((usize, usize, Vec<u8>), Option<usize>),
    Double((usize, usize, Vec<u8>)),
    Lose((usize, usize, Vec<u8>)),
    /// The service does it and answers.
    Execute(usize, Option<usize>),
    /// The service does it, and the process ends before the answer.
    ExecuteAndEnd(usize),
    Refuse(usize),
    Silence(usize, bool),
    Copy(usize),
    FindOut(usize),
    Fire(usize, Timer),
    Cut(usize, usize),
    Reach(usize, usize),
    End(usize),
}

impl Action {
    /// In words.
    pub(crate) fn tell(&self) -> String {
        match self {
            Action::Deliver((from, to, bytes), _) | Action::Double((from, to, bytes)) => {
                let (message, end) = (Message::read(bytes).unwrap(), self.end());
                format!("{from} -> {to}: {message:?}{end}")
            }
            other => format!("{other:?}"),
        }
    }

    fn end(&self) -> String {
        match self {
            Action::Deliver(_, Some(after)) => format!(", and an end after {after} effects"),
            Action::Double(_) => ", and once more".to_owned(),
            _ => String::new(),
        }
    }
}

impl Sites {
    fn faulty(&self, state: &World, actions: &mut Vec<Action>) {
        let Faults { crashes, losses, doubles, timers, failures, cuts } = state.faults;
        for message in state.network.iter().filter(|_| doubles > 0) {
            actions.push(Action::Double(message.clone()));
        }
        for message in state.network.iter().filter(|_| losses > 0) {
            actions.push(Action::Lose(message.clone()));
        }
        for (at, place) in state.places.iter().enumerate() {
            let asked = place.request.is_some();
            if crashes > 0 {
                actions.push(Action::End(at));
                actions.extend(asked.then_some(Action::ExecuteAndEnd(at)));
            }
            if failures > 0 && asked {
                actions.extend([Action::Refuse(at), Action::Silence(at, true), Action::Silence(at, false)]);
            }
            for timer in place.timers.iter().filter(|_| timers > 0) {
                actions.push(Action::Fire(at, timer.clone()));
            }
            let others = (0..self.count).filter(|other| *other != at);
            for other in others {
                if place.cut_from.contains(&other) {
                    actions.push(Action::Reach(at, other));
                } else if cuts > 0 {
                    actions.push(Action::Cut(at, other));
                }
            }
        }
    }

    fn step(&self, world: &mut World, action: Action) -> Option<()> {
        match action {
            Action::Write(index, crash) => world.write(index, &self.plans[index], crash),
            Action::Deliver(message, crash) => {
                world.network.remove(&message);
                world.deliver(&message, crash)
            }
            Action::Double(message) => {
                world.faults.doubles -= 1;
                world.deliver(&message, None)
            }
            Action::Lose(message) => {
                world.faults.losses -= 1;
                world.network.remove(&message);
                Some(())
            }
            Action::Execute(at, crash) => {
                let outcome = world.execute(at)?;
                world.answer(at, outcome, crash)
            }
            Action::ExecuteAndEnd(at) => {
                world.execute(at)?;
                world.faults.crashes -= 1;
                world.restart(at);
                Some(())
            }
            Action::Refuse(at) => {
                world.faults.failures -= 1;
                let (op, _) = world.places[at].request.clone()?;
                // Elsewhere it would be a divergence, which is another story.
                (op.id.site == site(at)).then_some(())?;
                let fresh = !world.history.contains_key(&op.id);
                fresh.then_some(())?;
                world.answer(at, Outcome::Refused { status: 403 }, None)
            }
            Action::Silence(at, done) => {
                world.faults.failures -= 1;
                if done {
                    world.execute(at)?;
                }
                world.answer(at, Outcome::Unknown, None)
            }
            Action::Copy(at) => world.copy(at),
            Action::FindOut(at) => world.find_out(at),
            Action::Fire(at, timer) => {
                world.faults.timers -= 1;
                world.places[at].timers.remove(&timer);
                world.event(at, Event::Fired(timer), None)
            }
            Action::Cut(at, other) => {
                world.faults.cuts -= 1;
                world.places[at].cut_from.insert(other);
                world.event(at, Event::Reach { site: site(other), up: false }, None)
            }
            Action::Reach(at, other) => {
                world.places[at].cut_from.remove(&other);
                world.event(at, Event::Reach { site: site(other), up: true }, None)
            }
            Action::End(at) => {
                world.faults.crashes -= 1;
                world.restart(at);
                Some(())
            }
        }
    }
}

impl Model for Sites {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.count, self.settings, self.faults)]
    }

    fn actions(&self, state: &World, actions: &mut Vec<Action>) {
        let crashes = || {
            let some = if state.faults.crashes > 0 { EFFECTS } else { 0 };
            std::iter::once(None).chain((0..some).map(Some))
        };
        for (index, _) in self.plans.iter().enumerate().filter(|(index, _)| !state.written.contains(index)) {
            actions.extend(crashes().map(|crash| Action::Write(index, crash)));
        }
        for message in &state.network {
            actions.extend(crashes().map(|crash| Action::Deliver(message.clone(), crash)));
        }
        for (at, place) in state.places.iter().enumerate() {
            if place.request.is_some() {
                actions.extend(crashes().map(|crash| Action::Execute(at, crash)));
            }
            if place.install || place.copy.is_some() {
                actions.push(Action::Copy(at));
            }
            if place.probe.is_some() || place.machine.in_doubt().next().is_some() {
                actions.push(Action::FindOut(at));
            }
        }
        self.faulty(state, actions);
    }

    fn next_state(&self, state: &World, action: Action) -> Option<World> {
        let mut world = state.clone();
        self.step(&mut world, action)?;
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Sites>> {
        vec![
            Property::always(
                "nothing is executed twice, answered twice, or erased too early",
                |_: &Sites, world: &World| world.wrong.is_none(),
            ),
            Property::always("replicas that know the same and rest are equal, as the rule says", equal),
            Property::always("what is acknowledged is durable", acknowledged_is_kept),
            Property::always("no other site hears of what was refused", refused_is_unknown),
            Property::always("from here, all ends well", heals),
        ]
    }
}

/// What a site's records say of the register.
fn progress(world: &World, at: usize) -> Option<&replica::Progress> {
    match world.places[at].disk.get(&replica::Key::State(meta()))? {
        Record::State { progress, running: None, installing: None, .. } => Some(progress),
        _ => None,
    }
}

fn equal(_: &Sites, world: &World) -> bool {
    (0..world.places.len()).all(|at| {
        let Some(progress) = progress(world, at).filter(|it| it.known == it.done) else { return true };
        // A site that started has yet to hear that its records are not old: until then it executes nothing again.
        let place = &world.places[at];
        if place.starts > 0 && !place.machine.is_whole(&meta()) {
            return true;
        }
        let known = world.history.values().filter(|op| progress.known.covers(&op.id));
        world.places[at].app == rule::state(&known.cloned().collect::<Vec<_>>())
    })
}

fn acknowledged_is_kept(_: &Sites, world: &World) -> bool {
    world.told.values().all(|(op, reply)| {
        let Some(op) = op.as_ref().filter(|_| matches!(reply, Reply::Executed { .. })) else { return true };
        let at = (0..world.places.len()).find(|at| site(*at) == op.site);
        let Some(Record::State { progress, .. }) =
            at.and_then(|at| world.places[at].disk.get(&replica::Key::State(meta())))
        else {
            return false;
        };
        progress.done.covers(op)
    })
}

fn is_refused(reply: &Reply) -> bool {
    matches!(reply, Reply::Refused { .. } | Reply::Unavailable | Reply::Beaten)
}

fn refused_is_unknown(_: &Sites, world: &World) -> bool {
    let refused = world.told.values().filter(|(_, reply)| is_refused(reply));
    refused.filter_map(|(op, _)| op.as_ref()).all(|op| !world.history.contains_key(op))
}

/// With no more faults: all come to rest, equal, as the rule says for all that was executed; what was
/// acknowledged is among it; and logs are pruned to the base and each field's last patch, without bodies.
///
/// It is looked at where nothing is under way: without faults every other state leads to such ones, whatever
/// the order, and all of those are explored.
fn heals(_: &Sites, world: &World) -> bool {
    !world.is_idle() || ill(world).is_none()
}

/// What is not well when all should be.
pub(crate) fn ill(world: &World) -> Option<String> {
    let mut world = world.clone();
    if !world.heal() {
        return Some(format!(
            "no rest: {:?}",
            world.places.iter().map(|place| &place.timers).collect::<Vec<_>>()
        ));
    }
    let all: Vec<_> = world.history.values().cloned().collect();
    let expected = rule::state(&all);
    let lost = |(op, reply): &&(Option<OpId>, Reply)| {
        matches!(reply, Reply::Executed { .. })
            && op.as_ref().is_none_or(|op| !world.history.contains_key(op))
    };
    if let Some(lost) = world.told.values().find(lost) {
        return Some(format!("{lost:?} is lost"));
    }
    let long = |record: &&Record| match record {
        Record::Operation(op) => op.body.is_some() || matches!(op.class, Class::Add | Class::Delete),
        _ => false,
    };
    let limit = if expected.0.is_some() { 2 } else { 0 };
    for (at, place) in world.places.iter().enumerate() {
        if place.app != expected {
            return Some(format!("{at} has {:?}, not {expected:?}", place.app));
        }
        if place.machine.kept() > limit || place.disk.values().any(|record| long(&record)) {
            return Some(format!("{at} keeps {:#?}", place.disk));
        }
    }
    world.wrong
}
