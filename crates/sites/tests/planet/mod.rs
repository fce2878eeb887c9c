//! A modelled planet: sites in and around cities, light in glass along great circles with detours, the way
//! to each site, jitter, loss, splits. Time is counted, not passed: a run is the same on every machine.
#![allow(dead_code, reason = "each test and the example use their part")]
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::must_use_candidate, missing_docs)]
#![allow(unreachable_pub, reason = "it is a module of more than one crate")]

pub mod figures;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use scope::Site;
use sites::{
    Config, Effect, Event, Fingerprint, Identity, Machine, Metrics, Notice, Own, Record, Says, Time,
};

/// IP and UDP, and the signature that the driver adds.
pub const OVERHEAD_BYTES: u64 = 28 + 100;
/// TCP, TLS and HTTP around a question or answer on a warm connection.
pub const SYNC_OVERHEAD_BYTES: u64 = 300;

/// Latitude and longitude of where people live.
#[rustfmt::skip]
const CITIES: [(f64, f64); 24] = [
    (40.7, -74.0),
    (34.1, -118.2),
    (41.9, -87.6),
    (19.4, -99.1),
    (-23.6, -46.6),
    (-34.6, -58.4),
    (51.5, -0.1),
    (48.9, 2.4),
    (50.1, 8.7),
    (41.0, 29.0),
    (55.8, 37.6),
    (30.0, 31.2),
    (6.5, 3.4),
    (-26.2, 28.0),
    (-1.3, 36.8),
    (25.2, 55.3),
    (19.1, 72.9),
    (28.6, 77.2),
    (1.4, 103.8),
    (22.3, 114.2),
    (31.2, 121.5),
    (35.7, 139.7),
    (37.6, 127.0),
    (-33.9, 151.2),
];

#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A place: a unit vector from the middle of the earth, and the milliseconds, both ways, of getting to it.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: [f64; 3],
    access_ms: f64,
}

enum What {
    Wake,
    Datagram { from: u32, bytes: Vec<u8> },
    Ask { from: u32, bytes: Vec<u8> },
    Answer { from: u32, bytes: Vec<u8> },
}

/// When each site heard of something.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    pub since: Time,
    pub heard: BTreeMap<u32, Time>,
}

pub struct Planet {
    pub now: Time,
    pub machines: Vec<Option<Machine>>,
    pub rng: Rng,
    pub loss: f64,
    /// Sites of different halves do not hear each other.
    pub half: Vec<u8>,
    /// One-way cuts.
    pub cut: BTreeSet<(u32, u32)>,
    pub sent_bytes: u64,
    pub datagrams: u64,
    pub synced_bytes: u64,
    pub largest_datagram: usize,
    /// Deaths that were declared of sites that were up.
    pub false_deaths: u64,
    pub names_taken: u64,
    pub suspicions: u64,
    /// What sites noticed of a site that is watched.
    pub watch: BTreeMap<u32, Watch>,
    /// A digest of all that was sent: the same for the same run.
    pub trace: u64,
    places: Vec<Place>,
    sites: Vec<Site>,
    pub identities: Vec<Identity>,
    wakes: Vec<Time>,
    queue: BinaryHeap<Reverse<(Time, u64, u32)>>,
    slots: Vec<Option<What>>,
    free: Vec<usize>,
    events: u64,
    effects: Vec<Effect>,
}

pub fn name(site: u32) -> String {
    format!("Site{site:05}")
}

pub fn fingerprint(site: u32) -> Fingerprint {
    let mut fingerprint = [0; 32];
    fingerprint[..4].copy_from_slice(&site.to_le_bytes());
    fingerprint[4] = 1;
    fingerprint
}

/// The identity that a site has at first.
pub fn identity(site: u32) -> Identity {
    Identity { fingerprint: fingerprint(site), issued: 1 }
}

/// The kind of record that a site of a real application has.
pub fn record(site: u32) -> Record {
    let text = |text: &str| text.into();
    let services = ["compute", "identity", "image", "network", "placement"].map(Into::into);
    Record {
        site: Site::new(&name(site)).unwrap(),
        epoch: 1_700_000_000_000,
        version: 0,
        fingerprint: fingerprint(site),
        issued: 1,
        says: Says {
            address: format!("s{site}:7400").into(),
            services: Some(services.into_iter().collect()),
            kind: text("openstack"),
            kind_version: text("2025.2"),
            version: text("0.1.0"),
            labels: [(text("region"), text("eu")), (text("tier"), text("edge"))].into_iter().collect(),
        },
    }
}

pub fn own(site: u32) -> Own {
    let record = record(site);
    Own {
        site: record.site,
        fingerprint: record.fingerprint,
        issued: record.issued,
        epoch: record.epoch,
        wall_ms: record.epoch,
        says: record.says,
        // Thousands of sites that hold thousands of metrics do not fit into the memory of one machine.
        metrics: if site < 2000 { Metrics::from([("load".into(), f64::from(site))]) } else { Metrics::new() },
        known: Vec::new(),
    }
}

impl Planet {
    /// Room for `count` sites, none of which runs.
    pub fn new(count: u32, seed: u64) -> Planet {
        let mut rng = Rng(seed);
        let places = (0..count).map(|_| place(&mut rng)).collect();
        Planet {
            now: Time::ZERO,
            machines: (0..count).map(|_| None).collect(),
            loss: 0.01,
            half: vec![0; count as usize],
            cut: BTreeSet::new(),
            sent_bytes: 0,
            datagrams: 0,
            synced_bytes: 0,
            largest_datagram: 0,
            false_deaths: 0,
            suspicions: 0,
            names_taken: 0,
            watch: BTreeMap::new(),
            trace: 0,
            places,
            identities: (0..count).map(identity).collect(),
            sites: (0..count).map(|site| Site::new(&name(site)).unwrap()).collect(),
            wakes: vec![Time::ZERO; count as usize],
            queue: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            events: 0,
            effects: Vec::new(),
            rng,
        }
    }

    /// The first `running` sites run and know each other from before.
    pub fn acquainted(count: u32, running: u32, seed: u64) -> Planet {
        let mut planet = Planet::new(count, seed);
        let known: Vec<Arc<Record>> = (0..running).map(|site| Arc::new(record(site))).collect();
        for site in 0..running {
            let own = Own { known: known.clone(), ..own(site) };
            planet.start(site, own);
        }
        planet
    }

    pub fn start(&mut self, site: u32, own: Own) {
        self.start_with(site, own, Config::default());
    }

    pub fn start_with(&mut self, site: u32, own: Own, config: Config) {
        let seed = self.rng.next();
        self.identities[site as usize] = Identity { fingerprint: own.fingerprint, issued: own.issued };
        self.machines[site as usize] = Some(Machine::new(own, config, seed, self.now).unwrap());
        self.on(site, Event::Tick);
    }

    /// A site that runs gets a new identity.
    pub fn renew(&mut self, site: u32, identity: Identity) {
        self.identities[site as usize] = identity;
        self.with(site, |machine, now, effects| machine.set_identity(identity, now, effects));
    }

    pub fn up(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.machines).filter(|(_, machine)| machine.is_some()).map(|(site, _)| site)
    }

    pub fn random_up(&mut self) -> u32 {
        loop {
            let site = self.rng.below(self.machines.len());
            if self.machines[site].is_some() {
                return site as u32;
            }
        }
    }

    pub fn crash(&mut self, site: u32) {
        self.machines[site as usize] = None;
    }

    pub fn machine(&self, site: u32) -> &Machine {
        self.machines[site as usize].as_ref().unwrap()
    }

    /// Changes a machine in a way that is no event.
    pub fn with<R>(&mut self, site: u32, act: impl FnOnce(&mut Machine, Time, &mut Vec<Effect>) -> R) -> R {
        let mut effects = std::mem::take(&mut self.effects);
        let result = act(self.machines[site as usize].as_mut().unwrap(), self.now, &mut effects);
        self.carry_out(site, &mut effects);
        self.effects = effects;
        result
    }

    pub fn on(&mut self, site: u32, event: Event) {
        let mut effects = std::mem::take(&mut self.effects);
        if let Some(machine) = &mut self.machines[site as usize] {
            machine.on(event, self.now, &mut effects);
        }
        self.carry_out(site, &mut effects);
        self.effects = effects;
    }

    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(Reverse((at, _, _))) = self.queue.peek() {
            if *at > end {
                break;
            }
            let Some(Reverse((at, tag, slot))) = self.queue.pop() else { break };
            self.now = at;
            let what = self.slots[slot as usize].take().unwrap();
            self.free.push(slot as usize);
            self.happen((tag & 0xffff_ffff) as u32, what);
        }
        self.now = end;
    }

    fn happen(&mut self, to: u32, what: What) {
        let sites = std::mem::take(&mut self.sites);
        let identities = std::mem::take(&mut self.identities);
        let identity = |from: u32| (sites[from as usize].clone(), identities[from as usize]);
        match what {
            What::Wake if self.wakes[to as usize] == self.now => self.on(to, Event::Tick),
            What::Datagram { from, bytes } => {
                let (from, identity) = identity(from);
                self.on(to, Event::Datagram { from, identity, bytes });
            }
            What::Ask { from, bytes } if self.machines[to as usize].is_some() => {
                let (asker, identity) = identity(from);
                let answer = self.with(to, |machine, now, effects| {
                    machine.answer(&asker, &identity, &bytes, now, effects)
                });
                if let Some(bytes) = answer {
                    self.synced_bytes += bytes.len() as u64 + SYNC_OVERHEAD_BYTES;
                    self.deliver(to, from, What::Answer { from: to, bytes });
                }
            }
            What::Wake | What::Ask { .. } => {}
            What::Answer { from, bytes } => {
                let (from, identity) = identity(from);
                self.on(to, Event::Synced { from, identity, bytes });
            }
        }
        (self.sites, self.identities) = (sites, identities);
    }

    fn carry_out(&mut self, site: u32, effects: &mut Vec<Effect>) {
        for effect in effects.drain(..) {
            match effect {
                Effect::Send { to, bytes, .. } => self.datagram(site, number(&to), bytes),
                Effect::Sync { address, bytes, .. } => {
                    self.synced_bytes += bytes.len() as u64 + SYNC_OVERHEAD_BYTES;
                    self.deliver(site, number(&address), What::Ask { from: site, bytes });
                }
                Effect::WakeAt(at) => {
                    self.wakes[site as usize] = at;
                    self.push(at.max(self.now), site, What::Wake);
                }
                Effect::CheckRevocation { statement } => {
                    let (site_name, before) = statement_of(&statement);
                    let revoked = Event::Revoked { statement, site: site_name, before };
                    // The driver checks the signature and reports back.
                    let mut effects = Vec::new();
                    if let Some(machine) = &mut self.machines[site as usize] {
                        machine.on(revoked, self.now, &mut effects);
                    }
                    self.carry_out(site, &mut effects);
                }
                Effect::Notice(notice) => self.noticed(site, &notice),
                Effect::Changed => {}
            }
        }
    }

    fn noticed(&mut self, by: u32, notice: &Notice) {
        let about = match notice {
            Notice::Suspected(_) => {
                self.suspicions += 1;
                return;
            }
            Notice::NameTaken(_) => {
                self.names_taken += 1;
                return;
            }
            Notice::Dead(site)
            | Notice::Joined(site)
            | Notice::Left(site)
            | Notice::Back(site)
            | Notice::Revoked(site) => site,
            _ => return,
        };
        let about: u32 = number(about.name());
        let dead = matches!(notice, Notice::Dead(_));
        let apart = self.half[about as usize] != self.half[by as usize];
        if dead && self.machines[about as usize].is_some() && !apart {
            self.false_deaths += 1;
        }
        if let Some(watch) = self.watch.get_mut(&about) {
            watch.heard.entry(by).or_insert(self.now);
        }
    }

    fn datagram(&mut self, from: u32, to: u32, bytes: Vec<u8>) {
        self.datagrams += 1;
        self.largest_datagram = self.largest_datagram.max(bytes.len());
        self.sent_bytes += bytes.len() as u64 + OVERHEAD_BYTES;
        self.trace =
            mix(self.trace ^ u64::from(to) ^ ((bytes.len() as u64) << 32) ^ self.now.as_nanos() as u64);
        if self.rng.unit() >= self.loss {
            self.deliver(from, to, What::Datagram { from, bytes });
        }
    }

    fn deliver(&mut self, from: u32, to: u32, what: What) {
        let outside = to as usize >= self.machines.len();
        if outside || self.half[from as usize] != self.half[to as usize] || self.cut.contains(&(from, to)) {
            return;
        }
        let jitter = 1.0 + 0.05 * self.rng.unit();
        let ms = self.rtt_ms(from, to) / 2.0 * jitter + 0.3 * self.rng.unit();
        self.push(self.now + Duration::from_nanos((ms * 1e6) as u64), to, what);
    }

    fn push(&mut self, at: Time, to: u32, what: What) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(what);
        self.events += 1;
        self.queue.push(Reverse((at, self.events << 32 | u64::from(to), slot as u32)));
    }

    /// The round trip between two sites when nothing disturbs it. Each pair has its own detour.
    pub fn rtt_ms(&self, from: u32, to: u32) -> f64 {
        let (a, b) = (self.places[from as usize], self.places[to as usize]);
        let cosine: f64 = a.at.iter().zip(&b.at).map(|(a, b)| a * b).sum();
        let km = cosine.clamp(-1.0, 1.0).acos() * 6371.0;
        let pair = mix(u64::from(from.min(to)) << 32 | u64::from(from.max(to)));
        let detour = 1.4 * (0.9 + 0.2 * (pair >> 11) as f64 / (1u64 << 53) as f64);
        2.0 * km / 200.0 * detour + a.access_ms + b.access_ms
    }
}

/// The statements of the tests: a name and a number, as if signed.
pub fn statement(site: u32, before: u64) -> Vec<u8> {
    format!("{} {before}", name(site)).into_bytes()
}

fn statement_of(statement: &[u8]) -> (Site, u64) {
    let text = std::str::from_utf8(statement).unwrap();
    let (site, before) = text.split_once(' ').unwrap();
    (Site::new(site).unwrap(), before.parse().unwrap())
}

fn number(address: &str) -> u32 {
    let digits = address.trim_start_matches(|c: char| !c.is_ascii_digit());
    digits.split(':').next().unwrap().parse().unwrap()
}

/// Somewhere within some hundred kilometres of a city.
fn place(rng: &mut Rng) -> Place {
    let (latitude, longitude) = CITIES[rng.below(CITIES.len())];
    let latitude = (latitude + (rng.unit() - 0.5) * 8.0).to_radians();
    let longitude = (longitude + (rng.unit() - 0.5) * 8.0).to_radians();
    let at = [latitude.cos() * longitude.cos(), latitude.cos() * longitude.sin(), latitude.sin()];
    Place { at, access_ms: 1.0 + 9.0 * rng.unit() }
}
