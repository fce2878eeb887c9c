//! A site that says anything about replicated resources: the other's machine neither stops nor drowns.

#![no_main]

mod altered;

use std::sync::LazyLock;

use altered::altered;
use libfuzzer_sys::fuzz_target;
use replica::{
    Body, Class, Doubt, Effect, Event, Level, LocalId, Machine, Message, Meta, Naming, Outcome, Settings,
    Subject, Ticket, Who, Write,
};
use scope::Site;

const SITES: [&str; 3] = ["A", "B", "C"];

fn site(name: &str) -> Site {
    Site::new(name).expect("a name")
}

/// Three sites whose services do all that they are asked for, and all that was said between them.
struct World {
    machines: Vec<Machine>,
    messages: Vec<Vec<u8>>,
    tickets: u64,
    ticks: u32,
}

impl World {
    fn new() -> World {
        let machines = SITES.map(|name| Machine::restore(site(name), Settings::default(), [])).into();
        let mut world = World { machines, messages: Vec::new(), tickets: 0, ticks: 0 };
        for at in 0..SITES.len() {
            let mut effects = Vec::new();
            world.machines[at].start(1, 7, &mut effects);
            world.carry_out(at, effects);
            for other in SITES {
                world.on(at, Event::Reach { site: site(other), up: true });
            }
        }
        world
    }

    fn on(&mut self, at: usize, event: Event) {
        let mut effects = Vec::new();
        self.machines[at].on(1, event, &mut effects);
        self.carry_out(at, effects);
    }

    fn carry_out(&mut self, at: usize, effects: Vec<Effect>) {
        let mut queue: Vec<(usize, Effect)> = effects.into_iter().map(|effect| (at, effect)).collect();
        for _ in 0..2000 {
            let Some((at, effect)) = queue.pop() else { return };
            let mut effects = Vec::new();
            let to = match effect {
                Effect::Execute { operation, execution, local, .. } => {
                    let local = local.or(Some(LocalId("local".into())));
                    let outcome = Outcome::Done { status: 200, local };
                    let event = Event::Executed { resource: operation.resource, execution, outcome };
                    self.machines[at].on(1, event, &mut effects);
                    at
                }
                Effect::Send { to, message } => {
                    self.messages.push(message.bytes());
                    let Some(to) = SITES.iter().position(|name| *name == to.name()) else { continue };
                    let event = Event::Received { from: site(SITES[at]), message };
                    self.machines[to].on(1, event, &mut effects);
                    to
                }
                // Elections.
                Effect::Wake { timer: timer @ replica::Timer::Order, .. } if self.ticks < 100 => {
                    self.ticks += 1;
                    self.machines[at].on(1, Event::Fired(timer), &mut effects);
                    at
                }
                _ => continue,
            };
            queue.splice(0..0, effects.into_iter().map(|effect| (to, effect)));
        }
    }

    fn write(&mut self, at: usize, subject: Subject, class: Class) {
        self.tickets += 1;
        let on_behalf_of =
            Who { site: site(SITES[at]), user: "ada".into(), project: None, roles: Vec::new(), time_ms: 0 };
        let write =
            Write { subject, class, doubt: Doubt::Repeat, on_behalf_of, body: Body("b".into()), long: false };
        self.on(at, Event::Accept { ticket: Ticket(self.tickets), write });
    }
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let mut world = World::new();
    let meta = |name: &str| Meta(name.into());
    let sites = || SITES.map(site).into();
    for (name, level) in [("easy", Level::Eventual), ("most", Level::Quorum), ("strict", Level::Strong)] {
        let subject = Subject::New { naming: Naming::Chosen(meta(name)), level, sites: sites() };
        world.write(0, subject, Class::Create);
        world.write(1, Subject::Existing(meta(name)), Class::Add);
        world.write(0, Subject::Existing(meta(name)), Class::Replace);
    }
    world.write(0, Subject::Existing(meta("easy")), Class::Delete);
    let resources = vec![meta("easy"), meta("most"), meta("strict")];
    world.on(1, Event::Received { from: site("A"), message: Message::Inquire { resources } });
    for message in [Message::Differs { resource: meta("most") }] {
        world.messages.push(message.bytes());
    }
    world.messages.sort();
    world.messages.dedup();
    world
});

// Up to six messages, each in 40 bytes: who says it, then which and what is changed in it.
fuzz_target!(|input: &[u8]| {
    let world = &*WORLD;
    let mut here = world.machines[1].clone();
    for part in input.chunks(40).take(6) {
        let Some((who, rest)) = part.split_first() else { return };
        let Ok(message) = Message::read(&altered(&world.messages, rest)) else { continue };
        let from = site(SITES[usize::from(who % 2) * 2]);
        let mut effects = Vec::new();
        here.on(2, Event::Received { from, message }, &mut effects);
        assert!(effects.len() < 4000, "{}", effects.len());
        // One write of what was decided, and before all else.
        let persists = effects.iter().filter(|effect| matches!(effect, Effect::Persist { .. })).count();
        assert!(persists <= 1);
        assert!(persists == 0 || matches!(effects.first(), Some(Effect::Persist { .. })));
    }
});
