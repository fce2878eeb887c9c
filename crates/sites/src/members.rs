//! The table of sites: found by name, picked at random, and digested.

use std::sync::Arc;

use scope::Site;

use crate::coordinate::Coordinate;
use crate::event::Time;
use crate::record::{Measures, Record};
use crate::rng::{Rng, hash, mix};
use crate::snapshot::Status;
use crate::wire::Vitals;

/// A place in the table. It stays the same while the site is in it.
pub(crate) type Id = u32;

/// This site.
pub(crate) const OWN: Id = 0;

/// Digests are kept of this many parts of the table: few enough to send in 2 KiB, enough that one
/// difference concerns few sites.
pub(crate) const BUCKETS: usize = 256;

/// Not in the list of those that are probed.
const NOWHERE: u32 = u32::MAX;

/// A site. There may be a hundred million of these in one simulation: they are small.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) record: Arc<Record>,
    pub(crate) metrics: Option<Arc<Measures>>,
    pub(crate) coordinate: Coordinate,
    /// The last round trips measured here, in microseconds; 0 is none.
    pub(crate) rtts: [u32; 3],
    pub(crate) refuted: u32,
    pub(crate) tick: u32,
    /// When it got its status, in seconds.
    pub(crate) since: u32,
    /// Its place among those that are probed.
    place: u32,
    digest: u64,
    pub(crate) status: Status,
    /// The link says that it cannot be reached.
    pub(crate) link_fails: bool,
    /// Probes in a row that it answered through others only.
    pub(crate) misses: u8,
}

impl Member {
    pub(crate) fn new(record: Arc<Record>, refuted: u32, status: Status, now: Time) -> Member {
        Member {
            record,
            metrics: None,
            coordinate: Coordinate::default(),
            rtts: [0; 3],
            refuted,
            tick: 0,
            since: seconds(now),
            place: NOWHERE,
            digest: 0,
            status,
            link_fails: false,
            misses: 0,
        }
    }

    /// The middle of the last measurements: one slow answer says little.
    pub(crate) fn measured_us(&self) -> Option<u32> {
        let [a, b, c] = self.rtts;
        match (a, b, c) {
            (0, _, _) => None,
            (a, 0, _) => Some(a),
            (a, b, 0) => Some(a.min(b)),
            (a, b, c) => Some(a.max(b).min(a.min(b).max(c))),
        }
    }

    pub(crate) fn measure(&mut self, us: u32) {
        let [newest, middle, _] = self.rtts;
        self.rtts = [us.max(1), newest, middle];
    }

    /// What others are told of it now and then.
    pub(crate) fn vitals<'a>(&'a self, site: &'a str) -> Vitals<'a> {
        let metrics = self.metrics.as_ref().map_or(&[][..], |measures| &measures.bytes);
        Vitals { site, epoch: self.record.epoch, tick: self.tick, coordinate: self.coordinate, metrics }
    }

    pub(crate) fn site(&self) -> &Site {
        &self.record.site
    }

    /// Suspicion is local and short: it is no difference between two states.
    fn digested(&self) -> u64 {
        let status = match self.status {
            Status::Alive | Status::Suspect => 0,
            Status::Dead => 1,
            Status::Left => 2,
            // A revocation has a digest of its own.
            Status::Revoked => return 0,
        };
        let key = mix(self.record.epoch ^ (u64::from(self.record.version) << 40));
        mix(key ^ (u64::from(self.refuted) << 8) ^ status ^ hash(self.site().name().as_bytes()))
    }
}

/// Whole seconds: enough for what is kept for hours.
pub(crate) fn seconds(time: Time) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

fn hashed(name: &str) -> u64 {
    mix(hash(name.as_bytes()))
}

/// The part of the table that a name is in.
pub(crate) fn bucket(name: &str) -> usize {
    usize::try_from(hashed(name)).unwrap_or(0) % BUCKETS
}

/// All sites.
#[derive(Debug)]
pub(crate) struct Members {
    slots: Vec<Option<Member>>,
    free: Vec<Id>,
    /// By name.
    order: Vec<Id>,
    /// By the hash of the name: the one that is looked for is about where its hash says.
    index: Vec<(u64, Id)>,
    /// Those that are probed, in the order in which they are; and those dead.
    probed: Vec<Id>,
    dead: Vec<Id>,
    next: usize,
    buckets: Vec<u64>,
}

impl Members {
    pub(crate) fn new(own: Member) -> Members {
        let mut members = Members {
            slots: Vec::new(),
            free: Vec::new(),
            order: Vec::new(),
            index: Vec::new(),
            probed: Vec::new(),
            dead: Vec::new(),
            next: 0,
            buckets: vec![0; BUCKETS],
        };
        members.index.push((hashed(own.site().name()), OWN));
        members.slots.push(Some(own));
        members.order.push(OWN);
        members.redigest(OWN);
        members
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Sites that are alive or suspected, this one included.
    pub(crate) fn living(&self) -> usize {
        self.probed.len() + 1
    }

    pub(crate) fn dead(&self) -> &[Id] {
        &self.dead
    }

    pub(crate) fn get(&self, id: Id) -> Option<&Member> {
        self.slots.get(id as usize)?.as_ref()
    }

    /// Changes one. What it changes of life and record, [`Members::settle`] must follow.
    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut Member> {
        self.slots.get_mut(id as usize)?.as_mut()
    }

    pub(crate) fn find(&self, name: &str) -> Option<Id> {
        let hash = hashed(name);
        let alike = self.index.get(self.lowest(hash)..)?.iter().take_while(|(found, _)| *found == hash);
        let is = |id: &Id| self.get(*id).is_some_and(|member| member.site().name() == name);
        alike.map(|(_, id)| *id).find(is)
    }

    /// The first place in the index whose hash is not lower.
    fn lowest(&self, hash: u64) -> usize {
        let guess = (u128::from(hash) * self.index.len() as u128) >> 64;
        let mut at = usize::try_from(guess).unwrap_or(0);
        while self.index.get(at).is_some_and(|(found, _)| *found < hash) {
            at += 1;
        }
        while at > 0 && self.index.get(at - 1).is_some_and(|(found, _)| *found >= hash) {
            at -= 1;
        }
        at
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        let name_of = |id: &Id| self.get(*id).map_or("", |member| member.site().name());
        self.order.binary_search_by(|id| name_of(id).cmp(name))
    }

    /// Every site, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id, &Member)> {
        self.order.iter().filter_map(|id| Some((*id, self.get(*id)?)))
    }

    /// Adds a site whose name is not there, and lets it be probed at a random turn.
    pub(crate) fn insert(&mut self, member: Member, rng: &mut Rng) -> Id {
        let at = self.position(member.site().name()).unwrap_or_else(|at| at);
        let hash = hashed(member.site().name());
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            Id::try_from(self.slots.len() - 1).unwrap_or(Id::MAX)
        });
        if let Some(slot) = self.slots.get_mut(id as usize) {
            *slot = Some(member);
        }
        self.order.insert(at.min(self.order.len()), id);
        self.index.insert(self.lowest(hash), (hash, id));
        self.settle(id, rng);
        id
    }

    /// Adds many sites at once, whose names are not there, each once.
    pub(crate) fn load(&mut self, members: impl Iterator<Item = Member>, rng: &mut Rng) {
        for member in members {
            let id = Id::try_from(self.slots.len()).unwrap_or(Id::MAX);
            self.index.push((hashed(member.site().name()), id));
            self.order.push(id);
            self.slots.push(Some(member));
            self.settle(id, rng);
        }
        self.index.sort_unstable();
        let mut order = std::mem::take(&mut self.order);
        let name_of = |id: &Id| self.get(*id).map_or("", |member| member.site().name());
        order.sort_by(|a, b| name_of(a).cmp(name_of(b)));
        self.order = order;
    }

    pub(crate) fn remove(&mut self, id: Id) {
        let Some(member) = self.get(id) else { return };
        let (name, digest) = (member.site().clone(), member.digest);
        self.unlist(id);
        if let Ok(at) = self.position(name.name()) {
            self.order.remove(at);
        }
        let hash = hashed(name.name());
        if let Some(at) = self.index.iter().position(|one| *one == (hash, id)) {
            self.index.remove(at);
        }
        if let Some(sum) = self.buckets.get_mut(bucket(name.name())) {
            *sum ^= digest;
        }
        if let Some(slot) = self.slots.get_mut(id as usize) {
            *slot = None;
            self.free.push(id);
        }
    }

    /// Brings lists and digests in line with what a site has become.
    pub(crate) fn settle(&mut self, id: Id, rng: &mut Rng) {
        self.redigest(id);
        let Some(status) = self.get(id).map(|member| member.status) else { return };
        self.unlist(id);
        if id == OWN {
            return;
        }
        match status {
            Status::Alive | Status::Suspect => {
                self.probed.push(id);
                let (last, turn) = (self.probed.len() - 1, rng.below(self.probed.len()));
                self.probed.swap(last, turn);
                self.place(last);
                self.place(turn);
            }
            Status::Dead => self.dead.push(id),
            Status::Left | Status::Revoked => {}
        }
    }

    fn unlist(&mut self, id: Id) {
        let Some(member) = self.get_mut(id) else { return };
        let place = std::mem::replace(&mut member.place, NOWHERE) as usize;
        if self.probed.get(place) == Some(&id) {
            self.probed.swap_remove(place);
            self.place(place);
        } else {
            self.dead.retain(|dead| *dead != id);
        }
    }

    /// Tells the site at this turn where it is.
    fn place(&mut self, turn: usize) {
        let Some(id) = self.probed.get(turn).copied() else { return };
        if let Some(member) = self.get_mut(id) {
            member.place = u32::try_from(turn).unwrap_or(NOWHERE);
        }
    }

    fn redigest(&mut self, id: Id) {
        let Some(member) = self.get_mut(id) else { return };
        let new = member.digested();
        let old = std::mem::replace(&mut member.digest, new);
        let at = bucket(member.site().name());
        if let Some(sum) = self.buckets.get_mut(at) {
            *sum ^= old ^ new;
        }
    }

    pub(crate) fn buckets(&self) -> &[u64] {
        &self.buckets
    }

    /// Whose turn it is to be probed. Every site gets its turn before one has two; then they are shuffled.
    pub(crate) fn turn(&mut self, rng: &mut Rng) -> Option<Id> {
        if self.next >= self.probed.len() {
            self.next = 0;
            for at in (1..self.probed.len()).rev() {
                self.probed.swap(at, rng.below(at + 1));
            }
            for at in 0..self.probed.len() {
                self.place(at);
            }
        }
        let id = self.probed.get(self.next).copied();
        self.next += 1;
        id
    }

    /// Some living sites at random, each once, without those for which `skip` holds.
    pub(crate) fn some(&self, count: usize, rng: &mut Rng, skip: impl Fn(Id) -> bool) -> Vec<Id> {
        let mut some = Vec::with_capacity(count);
        if self.probed.len() <= count {
            some.extend(self.probed.iter().copied().filter(|id| !skip(*id)));
            return some;
        }
        // Few are skipped: some tries more than wanted find the others.
        for _ in 0..count * 3 + 8 {
            if some.len() == count {
                break;
            }
            let Some(id) = self.probed.get(rng.below(self.probed.len())) else { break };
            if !some.contains(id) && !skip(*id) {
                some.push(*id);
            }
        }
        some
    }
}
