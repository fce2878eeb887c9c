//! Exchanges of whole states: two sites compare digests, and only what differs travels.

use std::time::Duration;

use scope::Site;

use crate::event::{Effect, Time};
use crate::machine::Machine;
use crate::members::{BUCKETS, Id, OWN, bucket};
use crate::merge::Sender;
use crate::record::Identity;
use crate::snapshot::Status;
use crate::timers::Timer;
use crate::wire::{self, Exchange, Item};

/// After one exchange, others that are not due wait so long.
const PAUSE: Duration = Duration::from_secs(1);

impl Machine {
    /// Answers another site's [`Effect::Sync`]. Nothing, if it is not to be answered.
    pub fn answer(
        &mut self,
        from: &Site,
        identity: &Identity,
        bytes: &[u8],
        now: Time,
        effects: &mut Vec<Effect>,
    ) -> Option<Vec<u8>> {
        self.begin(now);
        let answer = self.answer_now(from, identity, bytes);
        self.end(effects);
        answer
    }

    fn answer_now(&mut self, from: &Site, identity: &Identity, bytes: &[u8]) -> Option<Vec<u8>> {
        if !self.trusts(from, identity) {
            return None;
        }
        let (exchange, items) = wire::read::<Exchange>(bytes)?;
        let sender = Sender { site: from, identity, whole_state: true };
        for item in items {
            self.say(item, &sender);
        }
        let Exchange::Ask { buckets, registers } = exchange else {
            return Some(wire::begin(&Exchange::Give));
        };
        let differ: Vec<bool> = (self.members.buckets().iter().enumerate())
            .map(|(at, mine)| buckets.get(at) != Some(mine))
            .collect();
        let mine = self.registers.digest();
        let head = Exchange::Answer { differ: pack(&differ), registers: mine };
        let mut bytes = wire::begin(&head);
        self.add_members(&mut bytes, |name| differ.get(bucket(name)).copied().unwrap_or(false));
        if registers != mine {
            self.add_registers(&mut bytes);
        }
        Some(bytes)
    }

    fn add_members(&self, bytes: &mut Vec<u8>, wanted: impl Fn(&str) -> bool) {
        for (id, member) in self.members.iter() {
            if member.status != Status::Revoked && wanted(member.site().name()) {
                self.add_whole(id, bytes);
            }
        }
    }

    /// The records of all other sites, without what changes all the time.
    pub(crate) fn add_records(&self, bytes: &mut Vec<u8>) {
        for (id, member) in self.members.iter() {
            if id != OWN && member.status != Status::Revoked {
                self.add_site(id, true, bytes, usize::MAX);
            }
        }
    }

    fn add_whole(&self, id: Id, bytes: &mut Vec<u8>) {
        self.add_told(id, bytes, usize::MAX);
        let Some(member) = self.members.get(id) else { return };
        wire::add(bytes, &Item::Vitals(member.vitals(member.site().name())));
    }

    pub(crate) fn add_registers(&self, bytes: &mut Vec<u8>) {
        for key in self.registers.keys() {
            if let Some(item) = self.registers.item(&key) {
                wire::add(bytes, &item);
            }
        }
    }

    /// Asks another site.
    pub(crate) fn sync_with(&mut self, id: Id) {
        let soon = self.synced_at.is_some_and(|at| self.now < at + PAUSE);
        let Some(member) = self.members.get(id).filter(|_| !soon && !self.leaving) else { return };
        let (with, address) = (member.site().clone(), member.record.says.address.clone());
        self.synced_at = Some(self.now);
        let buckets = self.members.buckets().to_vec();
        let mut bytes = wire::begin(&Exchange::Ask { buckets, registers: self.registers.digest() });
        self.add_whole(OWN, &mut bytes);
        self.out.push(Effect::Sync { with, address, bytes });
    }

    /// Asks one at random, in its turn. Among many sites, more is told between two exchanges, and less
    /// often.
    pub(crate) fn sync_some(&mut self) {
        let every = self.config.sync_every.mul_f32(0.75 + self.rng.unit() / 2.0);
        self.timers.set(self.now + every, Timer::Sync);
        if let Some(id) = self.members.some(1, &mut self.rng, |_| false).first() {
            self.sync_with(*id);
        }
    }

    /// The answer to a question: what differs there is taken, and what is newer here is given.
    pub(crate) fn synced(&mut self, from: &Site, identity: &Identity, bytes: &[u8]) {
        if !self.trusts(from, identity) {
            return;
        }
        let Some((Exchange::Answer { differ, registers }, items)) = wire::read::<Exchange>(bytes) else {
            return;
        };
        let sender = Sender { site: from, identity, whole_state: true };
        // What the other site has, to see what it lacks.
        let mut theirs = std::collections::BTreeMap::new();
        for item in items {
            if let Item::Site(told) = &item {
                let life = (told.life.epoch, told.life.refuted, told.version, told.status);
                theirs.insert(told.life.site, life);
            }
            self.say(item, &sender);
        }
        let differ = unpack(&differ);
        let mut bytes = wire::begin(&Exchange::Give);
        let empty = bytes.len();
        for (id, member) in self.members.iter() {
            let name = member.site().name();
            let asked = differ.get(bucket(name)).copied().unwrap_or(false);
            let (epoch, refuted, version) = (member.record.epoch, member.refuted, member.record.version);
            let lacks = theirs.get(name).is_none_or(|(their_epoch, their_refuted, their_version, status)| {
                let ended = matches!(member.status, Status::Dead | Status::Left);
                (*their_epoch, *their_refuted, *their_version) != (epoch, refuted, version)
                    || (*status == wire::ToldStatus::Alive) == ended
            });
            if asked && lacks && member.status != Status::Revoked {
                self.add_whole(id, &mut bytes);
            }
        }
        if registers != self.registers.digest() {
            self.add_registers(&mut bytes);
        }
        if bytes.len() == empty {
            return;
        }
        if let Some(member) = self.members.find(from.name()).and_then(|id| self.members.get(id)) {
            let (with, address) = (member.site().clone(), member.record.says.address.clone());
            self.out.push(Effect::Sync { with, address, bytes });
        }
    }
}

fn pack(bits: &[bool]) -> Vec<u8> {
    let byte = |eight: &[bool]| eight.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
    bits.chunks(8).map(byte).collect()
}

fn unpack(bytes: &[u8]) -> Vec<bool> {
    bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1)).take(BUCKETS).collect()
}
