//! One site alone: what it hears is written by the test, byte for byte, and all that it does is read.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "it is a test")]
#![allow(clippy::cast_possible_truncation, reason = "numbers are small")]

mod announced;
mod coordinates;
mod exchange;
mod gossip;
mod limits;
mod objections;
#[path = "../planet/mod.rs"]
mod planet;
mod probes;
mod registers;
mod seeds;
mod suspicion;
mod vitals;
mod wire;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use planet::{identity, name, own, record};
use scope::Site;
use sites::{Config, Effect, Event, Identity, Machine, Notice, Own, Seen, Status, Time};
use wire::{Exchange, Head, Item, Life};

/// When it starts: not at the beginning of time.
const START: Time = Duration::from_hours(1000);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn site(number: u32) -> Site {
    Site::new(&name(number)).unwrap()
}

/// Nothing is done but what a test brings up.
fn quiet() -> Config {
    let never = Duration::from_hours(100_000);
    Config {
        probe_every: never,
        probe_at_first_every: never,
        sync_every: never,
        look_for_dead_every: never,
        seeds_every: never,
        ..Config::default()
    }
}

/// The life of a site that all know of at first.
fn life(number: u32, refuted: u32) -> Life {
    Life { site: name(number), epoch: record(number).epoch, refuted }
}

fn suspect(number: u32, refuted: u32, by: u32) -> Item {
    Item::Suspect { life: life(number, refuted), by: name(by) }
}

struct Alone {
    machine: Machine,
    now: Time,
    wakes: Option<Time>,
    done: Vec<(Time, Effect)>,
    /// Sites that answer probes, after so long.
    answer: BTreeMap<u32, Duration>,
    /// Sites that helpers find to be there.
    vouched: BTreeSet<u32>,
    coming: BTreeMap<(Time, u64), (u32, Vec<u8>)>,
    count: u64,
}

/// A datagram that was sent.
#[derive(Clone, Debug)]
struct Sent {
    at: Time,
    to: u32,
    head: Head,
    items: Vec<Item>,
    bytes: usize,
}

/// What it did since somebody looked.
struct Done(Vec<(Time, Effect)>);

impl Done {
    fn sent(&self) -> Vec<Sent> {
        let sent = |(at, effect): &(Time, Effect)| match effect {
            Effect::Send { to, bytes, .. } => {
                let (head, items) = wire::read(bytes);
                Some(Sent { at: *at, to: number(to), head, items, bytes: bytes.len() })
            }
            _ => None,
        };
        self.0.iter().filter_map(sent).collect()
    }

    fn news(&self) -> Vec<Sent> {
        self.sent().into_iter().filter(|sent| sent.head == Head::News).collect()
    }

    fn pings(&self) -> Vec<Sent> {
        self.sent().into_iter().filter(|sent| matches!(sent.head, Head::Ping { .. })).collect()
    }

    fn hellos(&self) -> Vec<Sent> {
        self.sent().into_iter().filter(|sent| matches!(sent.head, Head::Hello { .. })).collect()
    }

    /// Who was asked to probe for it, and when.
    fn asked(&self) -> Vec<Sent> {
        self.sent().into_iter().filter(|sent| matches!(sent.head, Head::AskFor { .. })).collect()
    }

    fn notices(&self) -> Vec<Notice> {
        let notice = |(_, effect): &(Time, Effect)| match effect {
            Effect::Notice(notice) => Some(notice.clone()),
            _ => None,
        };
        self.0.iter().filter_map(notice).collect()
    }

    fn when(&self, notice: &Notice) -> Option<Time> {
        let is = |effect: &Effect| *effect == Effect::Notice(notice.clone());
        self.0.iter().find(|(_, effect)| is(effect)).map(|(at, _)| *at)
    }

    fn changed(&self) -> bool {
        self.0.iter().any(|(_, effect)| *effect == Effect::Changed)
    }

    /// Statements that are to be checked.
    fn checks(&self) -> usize {
        self.0.iter().filter(|(_, effect)| matches!(effect, Effect::CheckRevocation { .. })).count()
    }

    fn syncs(&self) -> Vec<(Time, u32, Exchange, Vec<Item>)> {
        let sync = |(at, effect): &(Time, Effect)| match effect {
            Effect::Sync { address, bytes, .. } => {
                let (exchange, items) = wire::read(bytes);
                Some((*at, number(address), exchange, items))
            }
            _ => None,
        };
        self.0.iter().filter_map(sync).collect()
    }
}

fn number(address: &str) -> u32 {
    address.trim_start_matches('s').split(':').next().unwrap().parse().unwrap()
}

impl Alone {
    /// Site 0, which knows sites from 1 to this one, and does nothing by itself.
    fn new(known: u32) -> Alone {
        Alone::with(quiet(), known, 1)
    }

    fn with(config: Config, known: u32, seed: u64) -> Alone {
        let known = (1..=known).map(|number| Arc::new(record(number))).collect();
        Alone::of(Own { known, ..own(0) }, config, seed)
    }

    fn of(own: Own, config: Config, seed: u64) -> Alone {
        let mut alone = Alone {
            machine: Machine::new(own, config, seed, START).unwrap(),
            now: START,
            wakes: None,
            done: Vec::new(),
            answer: BTreeMap::new(),
            vouched: BTreeSet::new(),
            coming: BTreeMap::new(),
            count: 0,
        };
        alone.on(Event::Tick);
        alone.done.clear();
        alone
    }

    fn on(&mut self, event: Event) {
        self.act(|machine, now, effects| machine.on(event, now, effects));
    }

    fn act<R>(&mut self, act: impl FnOnce(&mut Machine, Time, &mut Vec<Effect>) -> R) -> R {
        let mut effects = Vec::new();
        let result = act(&mut self.machine, self.now, &mut effects);
        for effect in effects {
            match &effect {
                Effect::WakeAt(at) => self.wakes = Some(*at),
                Effect::Send { to, bytes, .. } => self.answers(number(to), bytes),
                _ => {}
            }
            self.done.push((self.now, effect));
        }
        result
    }

    /// What comes back from the others, if they are there.
    fn answers(&mut self, to: u32, bytes: &[u8]) {
        let head = match wire::read(bytes).0 {
            Head::Ping { nonce } | Head::Hello { nonce } => Head::Ack { nonce },
            Head::AskFor { nonce, site } if self.vouched.contains(&number(&site.replace("Site", "s"))) => {
                Head::Vouch { nonce }
            }
            _ => return,
        };
        if let Some(after) = self.answer.get(&to) {
            self.count += 1;
            self.coming.insert((self.now + *after, self.count), (to, wire::write(&head, &[])));
        }
    }

    fn hear_as(&mut self, from: u32, identity: Identity, bytes: Vec<u8>) {
        self.on(Event::Datagram { from: site(from), identity, bytes });
    }

    fn hear(&mut self, from: u32, head: &Head, items: &[Item]) {
        self.hear_as(from, identity(from), wire::write(head, items));
    }

    /// A site says something, as news.
    fn told(&mut self, from: u32, items: &[Item]) {
        self.hear(from, &Head::News, items);
    }

    /// A site gives what it has, in an exchange of states.
    fn given(&mut self, from: u32, items: &[Item]) {
        assert_eq!(self.ask(from, &Exchange::Give, items).map(|(answer, _)| answer), Some(Exchange::Give));
    }

    fn ask(&mut self, from: u32, exchange: &Exchange, items: &[Item]) -> Option<(Exchange, Vec<Item>)> {
        let bytes = wire::write(exchange, items);
        let answer = self
            .act(|machine, now, effects| machine.answer(&site(from), &identity(from), &bytes, now, effects));
        answer.map(|bytes| wire::read(&bytes))
    }

    fn synced(&mut self, from: u32, answer: &Exchange, items: &[Item]) {
        let bytes = wire::write(answer, items);
        self.on(Event::Synced { from: site(from), identity: identity(from), bytes });
    }

    /// Lets time pass: it is woken when it asked for it.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let comes = self.coming.keys().next().map(|(at, _)| *at);
            let Some(next) = self.wakes.into_iter().chain(comes).min().filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            if comes == Some(next) {
                let (_, (from, bytes)) = self.coming.pop_first().unwrap();
                self.hear_as(from, identity(from), bytes);
            } else {
                self.wakes = None;
                self.on(Event::Tick);
            }
        }
        self.now = end;
    }

    /// What it did since the last look.
    fn done(&mut self) -> Done {
        Done(std::mem::take(&mut self.done))
    }

    fn seen(&self, number: u32) -> Seen {
        self.machine.snapshot().site(&name(number)).unwrap().clone()
    }

    fn knows(&self, number: u32) -> bool {
        self.machine.snapshot().site(&name(number)).is_some()
    }

    fn status(&self, number: u32) -> Status {
        self.seen(number).status
    }

    /// Site 1 answered at an address to join by, so it is asked to exchange states. What the question says.
    fn question(&mut self) -> (Vec<u64>, u64, Vec<Item>) {
        let (before, answer) = (std::mem::take(&mut self.done), std::mem::take(&mut self.answer));
        self.run(secs(1));
        self.on(Event::Join { addresses: vec!["s99999:7400".into()] });
        let hello = self.done().hellos().into_iter().find(|sent| sent.to == 99999).unwrap();
        let Head::Hello { nonce } = hello.head else { unreachable!() };
        self.hear(1, &Head::Ack { nonce }, &[]);
        let (_, _, exchange, items) = self.done().syncs().remove(0);
        (self.done, self.answer) = (before, answer);
        let Exchange::Ask { buckets, registers } = exchange else { panic!("{exchange:?}") };
        (buckets, registers, items)
    }

    fn buckets(&mut self) -> Vec<u64> {
        self.question().0
    }
}
