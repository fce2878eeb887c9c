//! Sites over a network that loses, doubles, delays and cuts, and that crash at any effect.

use std::collections::{BTreeMap, BTreeSet};

use order::{Effect, Event, GroupId, Key, Message, Needs, Orders, Record, Refusal, Settings, Ticket};
use scope::Site;

use crate::chance::Chance;

pub(crate) struct Place {
    pub(crate) site: Site,
    pub(crate) orders: Orders,
    disk: BTreeMap<Key, Vec<u8>>,
    /// What it was given, as it made it durable: index and entry.
    pub(crate) given: Vec<(u64, Vec<u8>)>,
}

pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) places: Vec<Place>,
    pub(crate) chance: Chance,
    pub(crate) fair: bool,
    pub(crate) group: GroupId,
    settings: Settings,
    pub(crate) network: Vec<(usize, usize, Vec<u8>)>,
    /// Sites on this side of the cut hear none of the others.
    pub(crate) cut: BTreeSet<usize>,
    /// Two sites that do not hear each other.
    pub(crate) deaf: Option<(usize, usize)>,
    tickets: u64,
    pub(crate) asked: BTreeMap<Ticket, (Vec<u8>, u64)>,
    pub(crate) committed: BTreeMap<Ticket, u64>,
    pub(crate) refused: BTreeMap<Ticket, Refusal>,
    pub(crate) confirmed: BTreeMap<Ticket, u64>,
    pub(crate) crashes: usize,
    /// Who leads, as each place was last told.
    pub(crate) told: BTreeMap<usize, Option<Site>>,
}

impl World {
    pub(crate) fn new(seed: u64, sites: usize) -> World {
        World::with(seed, sites, Settings::default())
    }

    pub(crate) fn with(seed: u64, sites: usize, settings: Settings) -> World {
        let names: Vec<_> = (0..sites).map(|index| Site::new(&format!("Site{index}")).unwrap()).collect();
        let group = GroupId { sites: names.iter().cloned().collect(), incarnation: 0 };
        let place = |site: Site| Place {
            orders: Orders::restore(site.clone(), settings, []),
            site,
            disk: BTreeMap::new(),
            given: Vec::new(),
        };
        let mut world = World {
            seed,
            places: names.into_iter().map(place).collect(),
            chance: Chance::new(seed),
            fair: false,
            group,
            settings,
            network: Vec::new(),
            cut: BTreeSet::new(),
            deaf: None,
            tickets: 0,
            asked: BTreeMap::new(),
            committed: BTreeMap::new(),
            refused: BTreeMap::new(),
            confirmed: BTreeMap::new(),
            crashes: 0,
            told: BTreeMap::new(),
        };
        (0..sites).for_each(|at| world.start(at));
        world
    }

    fn bad(&mut self, percent: usize) -> bool {
        !self.fair && self.chance.percent(percent)
    }

    fn start(&mut self, at: usize) {
        let mut effects = Vec::new();
        self.places[at].orders.start(&mut effects);
        self.carry_out(at, effects, false);
    }

    pub(crate) fn propose(&mut self, at: usize, needs: Needs) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let bytes = format!("entry {}", ticket.0).into_bytes();
        self.asked.insert(ticket, (bytes.clone(), 0));
        self.event(at, Event::Propose { ticket, group: self.group.clone(), bytes, needs });
        ticket
    }

    pub(crate) fn confirm(&mut self, at: usize) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let last =
            self.places.iter().filter_map(|place| place.given.last()).map(|(index, _)| *index + 1).max();
        self.asked.insert(ticket, (Vec::new(), last.unwrap_or(0)));
        self.event(at, Event::Confirm { ticket, group: self.group.clone() });
        ticket
    }

    pub(crate) fn event(&mut self, at: usize, event: Event) {
        let mut effects = Vec::new();
        self.places[at].orders.on(event, &mut effects);
        let crashes = self.bad(1);
        self.carry_out(at, effects, crashes);
    }

    fn carry_out(&mut self, at: usize, effects: Vec<Effect>, crashes: bool) {
        let stop = if crashes { self.chance.below(effects.len() + 1) } else { effects.len() };
        for (index, effect) in effects.iter().enumerate() {
            assert!(index == 0 || !matches!(effect, Effect::Persist { .. }), "durable first");
        }
        // What is made of what was committed is durable with the records.
        if stop > 0 {
            let entries = effects.iter().filter_map(|effect| match effect {
                Effect::Committed { index, bytes, .. } => Some((*index, bytes.clone())),
                _ => None,
            });
            self.places[at].given.extend(entries);
        }
        for effect in effects.into_iter().take(stop) {
            self.do_one(at, effect);
        }
        if crashes {
            self.crash(at);
        }
    }

    fn do_one(&mut self, at: usize, effect: Effect) {
        match effect {
            Effect::Persist { put, remove } => {
                let disk = &mut self.places[at].disk;
                disk.extend(put.into_iter().map(|record| (record.key(), record.bytes())));
                for key in remove {
                    disk.remove(&key);
                }
            }
            Effect::Send { to, message } => {
                let to = self.places.iter().position(|place| place.site == to).unwrap();
                self.network.push((at, to, message.bytes()));
            }
            Effect::Committed { index, bytes, ticket, .. } => {
                if let Some(ticket) = ticket {
                    assert_eq!(self.asked[&ticket].0, bytes, "seed {}", self.seed);
                    assert!(self.committed.insert(ticket, index).is_none());
                }
            }
            Effect::Refused { ticket, why } => {
                assert!(self.refused.insert(ticket, why).is_none());
            }
            Effect::Confirmed { ticket, upto } => {
                let before = self.asked[&ticket].1;
                assert!(upto >= before, "seed {}: confirmed {upto}, and {before} was there", self.seed);
                assert!(self.confirmed.insert(ticket, upto).is_none());
            }
            Effect::Leader { leader, .. } => {
                self.told.insert(at, leader);
            }
        }
    }

    pub(crate) fn crash(&mut self, at: usize) {
        self.crashes += 1;
        let place = &mut self.places[at];
        let records: Vec<_> = place.disk.values().map(|bytes| Record::read(bytes).unwrap()).collect();
        place.orders = Orders::restore(place.site.clone(), self.settings, records);
        self.told.remove(&at);
        self.start(at);
    }

    pub(crate) fn step(&mut self) {
        let at = self.chance.below(self.places.len());
        if self.network.is_empty() || self.chance.percent(20) {
            return self.event(at, Event::Tick);
        }
        let near = if self.fair { 1 } else { 12 };
        let index = self.chance.below(self.network.len().min(near));
        let (from, to, bytes) =
            if self.bad(5) { self.network[index].clone() } else { self.network.remove(index) };
        if !self.hears(from, to) || self.bad(4) {
            return;
        }
        let (from, message) = (self.places[from].site.clone(), Message::read(&bytes).unwrap());
        self.event(to, Event::Received { from, message });
    }

    /// A tick everywhere, and all messages, this often; nothing goes wrong but the cut.
    pub(crate) fn quiet(&mut self, ticks: usize) {
        self.fair = true;
        for _ in 0..ticks {
            (0..self.places.len()).for_each(|at| self.event(at, Event::Tick));
            while !self.network.is_empty() {
                let (from, to, bytes) = self.network.remove(0);
                if self.hears(from, to) {
                    let (from, message) = (self.places[from].site.clone(), Message::read(&bytes).unwrap());
                    self.event(to, Event::Received { from, message });
                }
            }
        }
    }

    fn hears(&self, from: usize, to: usize) -> bool {
        self.cut.contains(&from) == self.cut.contains(&to)
            && self.deaf != Some((from, to))
            && self.deaf != Some((to, from))
    }

    pub(crate) fn leader(&self) -> usize {
        let leads = |place: &Place| place.orders.leads(&self.group);
        self.places.iter().position(leads).expect("nobody leads")
    }
}
