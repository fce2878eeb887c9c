//! What others say: what of it is new, and what it changes. Nothing here depends on the order in which it is
//! said, nor on how often.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use scope::{Site, Zone};

use crate::event::{Effect, Notice, Time};
use crate::gossip::About;
use crate::machine::Machine;
use crate::members::{Id, Member, OWN, seconds};
use crate::probe::SHOWN_MS;
use crate::record::{Identity, Measures, Record};
use crate::registers::{Defined, Key, Revocation, STATEMENT_BYTES, Stamp};
use crate::snapshot::Status;
use crate::timers::Timer;
use crate::wire::{Item, Life, Told, ToldStatus, Vitals};

/// A liar who counts up a site's lives must not bring it to their end: within one step of this it objects.
/// In milliseconds it is 500 years: a clock that starts in 1970 is believed.
const FARTHEST_EPOCH: u64 = 1 << 44;
/// Time for one site to answer one other that asks for its new identity.
const GREETING: Duration = Duration::from_millis(2);
/// Statements to be checked that one event may bring up.
const CHECKS: usize = 64;

/// Who says it.
pub(crate) struct Sender<'a> {
    pub(crate) site: &'a Site,
    pub(crate) identity: &'a Identity,
    /// In an exchange of states, not as news.
    pub(crate) whole_state: bool,
}

impl Machine {
    pub(crate) fn say(&mut self, item: Item<'_>, sender: &Sender<'_>) {
        match item {
            Item::Site(told) => self.told(&told, sender),
            Item::Alive(life) => self.told_alive(life),
            Item::Suspect { life, by } => self.told_suspect(life, by),
            Item::Dead(life) => self.told_end(life, Status::Dead),
            Item::Left(life) => self.told_end(life, Status::Left),
            Item::Vitals(vitals) => self.told_vitals(vitals, sender),
            Item::Zone { name, stamp, by, text } => self.told_zone(name, stamp, by, text),
            Item::Quarantine { site, stamp, by, on } => self.told_quarantine(site, stamp, by, on),
            Item::Revoked { site, before, statement } => self.told_revoked(site, before, statement),
        }
    }

    /// The site of a life that is the one we know, and how its count compares to ours.
    fn same_life(&mut self, life: Life<'_>) -> Option<(Id, Ordering)> {
        let id = self.members.find(life.site)?;
        let member = self.members.get(id)?;
        if id == OWN || member.record.epoch != life.epoch || member.status == Status::Revoked {
            return None;
        }
        Some((id, life.refuted.cmp(&member.refuted)))
    }

    fn is_own(&self, name: &str) -> bool {
        self.members.get(OWN).is_some_and(|own| own.site().name() == name)
    }

    /// A record, and what a site believes of its life.
    fn told(&mut self, told: &Told<'_>, sender: &Sender<'_>) {
        let read = || {
            let record = Record::read(told.life.site, told.life.epoch, told.version, told.body)?;
            let forged = record.site == *sender.site && record.identity() != *sender.identity;
            (!forged).then_some(record)
        };
        if self.is_own(told.life.site) {
            return self.told_of_own(told, read());
        }
        let Some(id) = self.members.find(told.life.site) else {
            if let Some(record) = read() {
                self.add(record, told, sender);
            }
            return;
        };
        let Some(member) = self.members.get(id) else { return };
        let known = (member.record.epoch, member.record.version);
        if (told.life.epoch, told.version) > known {
            let Some(record) = read() else { return };
            if !self.renew(id, record, told, sender) {
                return;
            }
        }
        self.told_life(id, told);
    }

    fn told_of_own(&mut self, told: &Told<'_>, record: Option<Record>) {
        let Some(own) = self.members.get(OWN) else { return };
        let (life, mine) = ((told.life.epoch, told.life.refuted), (own.record.epoch, own.refuted));
        let same = record.as_ref().is_some_and(|record| record.fingerprint == own.record.fingerprint);
        let older = record.is_some_and(|record| record.issued < own.record.issued);
        let ended = told.status != ToldStatus::Alive;
        // An older identity is this site before it was renewed.
        if !(same || older) {
            let site = own.site().clone();
            return self.notice(Notice::NameTaken(site));
        }
        if life > mine || (ended && life == mine) {
            self.object(told.life);
        }
    }

    /// A site that is new here.
    fn add(&mut self, record: Record, told: &Told<'_>, sender: &Sender<'_>) {
        let forget_after = seconds(self.config.forget_after);
        let (status, age) = match told.status {
            ToldStatus::Alive => (Status::Alive, 0),
            ToldStatus::Dead(age) => (Status::Dead, age),
            ToldStatus::Left(age) => (Status::Left, age),
        };
        if age >= forget_after || self.registers.revokes(record.site.name(), record.issued) {
            return;
        }
        if self.members.len() >= self.config.members {
            return self.notice(Notice::Full(record.site.name().into()));
        }
        let site = record.site.clone();
        let mut member = Member::new(Arc::new(record), told.life.refuted, status, self.now);
        member.since = member.since.saturating_sub(age);
        let id = self.members.insert(member, &mut self.rng);
        self.changed = true;
        if status == Status::Alive {
            self.notice(Notice::Joined(site));
            if !sender.whole_state {
                self.news(id, true);
            }
        }
    }

    /// A newer record of a known name. Whether it was taken.
    fn renew(&mut self, id: Id, record: Record, told: &Told<'_>, sender: &Sender<'_>) -> bool {
        let Some(member) = self.members.get(id) else { return false };
        let old = &member.record;
        let gone = matches!(member.status, Status::Dead | Status::Left | Status::Revoked);
        if record.epoch.saturating_sub(old.epoch) > FARTHEST_EPOCH {
            return false;
        }
        if self.registers.revokes(record.site.name(), record.issued) {
            return false;
        }
        if record.fingerprint != old.fingerprint {
            if record.issued <= old.issued {
                self.claimed(id);
                return false;
            }
            if !gone && record.site != *sender.site {
                // Hearsay: a liar could shut a site out by it. It has to show its new identity itself.
                self.greet_soon(id);
                return false;
            }
        }
        let (reborn, site) = (record.epoch > old.epoch, record.site.clone());
        let status = match told.status {
            _ if !reborn => member.status,
            ToldStatus::Alive => Status::Alive,
            ToldStatus::Dead(_) => Status::Dead,
            ToldStatus::Left(_) => Status::Left,
        };
        let back = gone && status == Status::Alive;
        let now = seconds(self.now);
        if let Some(member) = self.members.get_mut(id) {
            member.record = Arc::new(record);
            if reborn {
                (member.refuted, member.tick, member.status) = (told.life.refuted, 0, status);
                (member.since, member.misses, member.link_fails) = (now, 0, false);
            }
        }
        if reborn {
            self.suspicions.remove(&id);
        }
        self.members.settle(id, &mut self.rng);
        self.changed = true;
        if back {
            self.notice(Notice::Back(site));
        }
        self.news(id, true);
        true
    }

    /// What a whole state says of a known life. It may be old: what it contradicts is asked for.
    fn told_life(&mut self, id: Id, told: &Told<'_>) {
        match told.status {
            ToldStatus::Alive => self.told_alive(told.life),
            ToldStatus::Left(_) => self.told_end(told.life, Status::Left),
            ToldStatus::Dead(_) => {
                let Some((_, order)) = self.same_life(told.life) else { return };
                let Some(member) = self.members.get_mut(id) else { return };
                if order == Ordering::Greater {
                    member.refuted = told.life.refuted;
                }
                let alive = matches!(member.status, Status::Alive | Status::Suspect);
                if order == Ordering::Greater {
                    self.members.settle(id, &mut self.rng);
                }
                if alive && order != Ordering::Less {
                    self.contest(id);
                }
            }
        }
    }

    /// A site is said to have a new identity: it is asked for it, not by all others at the same moment.
    fn greet_soon(&mut self, id: Id) {
        if self.renewed.insert(id) {
            let spread = GREETING.saturating_mul(u32::try_from(self.members.living()).unwrap_or(u32::MAX));
            self.timers.set(self.now + spread.mul_f32(self.rng.unit()), Timer::Greet(id));
        }
    }

    /// Two sites disagree about a third: it is asked itself.
    fn contest(&mut self, id: Id) {
        if self.contested.is_empty() {
            self.timers.set(self.now, Timer::Contested);
        }
        self.contested.insert(id);
    }

    fn told_alive(&mut self, life: Life<'_>) {
        if self.is_own(life.site) {
            let mine = self.members.get(OWN).map(|own| (own.record.epoch, own.refuted));
            if mine.is_some_and(|mine| (life.epoch, life.refuted) > mine) {
                self.object(life);
            }
            return;
        }
        let Some((id, order)) = self.same_life(life) else { return };
        let status = self.members.get(id).map(|member| member.status);
        match (order, status) {
            (Ordering::Greater, _) => self.revive(id, life.refuted),
            (Ordering::Equal, Some(Status::Dead)) => self.contest(id),
            _ => {}
        }
    }

    fn revive(&mut self, id: Id, refuted: u32) {
        let now = seconds(self.now);
        self.suspicions.remove(&id);
        let Some(member) = self.members.get_mut(id) else { return };
        member.refuted = refuted;
        let before = std::mem::replace(&mut member.status, Status::Alive);
        let site = member.site().clone();
        if before != Status::Alive {
            member.since = now;
            self.changed = true;
            self.notice(Notice::Back(site));
        }
        self.members.settle(id, &mut self.rng);
        self.news(id, false);
    }

    /// A site is dead, or said goodbye.
    pub(crate) fn told_end(&mut self, life: Life<'_>, end: Status) {
        if self.is_own(life.site) {
            return self.object_if(life);
        }
        let Some((id, order)) = self.same_life(life) else { return };
        let Some(member) = self.members.get(id) else { return };
        let ended = match member.status {
            Status::Alive | Status::Suspect => false,
            // Goodbye is the last word of a life.
            Status::Dead => end == Status::Dead,
            Status::Left | Status::Revoked => true,
        };
        if order == Ordering::Less || (ended && order == Ordering::Equal) {
            return;
        }
        self.end_life(id, life.refuted, end);
    }

    pub(crate) fn end_life(&mut self, id: Id, refuted: u32, end: Status) {
        let now = seconds(self.now);
        self.suspicions.remove(&id);
        let Some(member) = self.members.get_mut(id) else { return };
        member.refuted = refuted;
        (member.status, member.since) = (end, now);
        let site = member.site().clone();
        self.members.settle(id, &mut self.rng);
        self.changed = true;
        self.notice(if end == Status::Left { Notice::Left(site) } else { Notice::Dead(site) });
        self.news(id, false);
    }

    fn told_suspect(&mut self, life: Life<'_>, by: &str) {
        if self.is_own(life.site) {
            return self.object_if(life);
        }
        let Some((id, order)) = self.same_life(life) else { return };
        let Some(by) = self.members.find(by).and_then(|by| self.members.get(by)) else { return };
        let (by, status) = (by.site().clone(), self.members.get(id).map(|member| member.status));
        match (order, status) {
            (Ordering::Less, _) | (Ordering::Equal, Some(Status::Dead | Status::Left)) => return,
            (Ordering::Greater, _) => self.revive(id, life.refuted),
            _ => {}
        }
        self.suspect(id, by);
    }

    /// Somebody may believe that this life of ours has ended, or is about to.
    fn object_if(&mut self, life: Life<'_>) {
        let Some(own) = self.members.get(OWN) else { return };
        if (life.epoch, life.refuted) >= (own.record.epoch, own.refuted) {
            self.object(life);
        }
    }

    /// Goes beyond the life that others speak of, and tells it.
    fn object(&mut self, life: Life<'_>) {
        let Some(own) = self.members.get(OWN).filter(|_| !self.leaving) else { return };
        if life.epoch.saturating_sub(own.record.epoch) > FARTHEST_EPOCH {
            return;
        }
        let next = life.refuted.checked_add(1).filter(|_| life.epoch == own.record.epoch);
        match next {
            Some(refuted) => {
                if let Some(own) = self.members.get_mut(OWN) {
                    own.refuted = refuted;
                }
                self.members.settle(OWN, &mut self.rng);
                self.news(OWN, false);
            }
            None => self.new_epoch(life.epoch.saturating_add(1)),
        }
        self.objected = true;
        self.doubt = (self.doubt + 1).min(4);
        self.notice(Notice::Objected);
    }

    /// Nobody has later vitals of this life of ours than we: they were made up, and ours would count nowhere any more. A new
    /// life's do.
    fn object_to_vitals(&mut self, vitals: &Vitals<'_>) {
        let Some(own) = self.members.get(OWN).filter(|_| !self.leaving) else { return };
        let epoch = own.record.epoch;
        if vitals.epoch == epoch && vitals.tick > own.tick {
            self.new_epoch(epoch.saturating_add(1));
            self.objected = true;
            self.notice(Notice::Objected);
        }
    }

    /// This site has a new identity from now on. That is a new life: nothing that is said of the old one
    /// is about it.
    pub fn set_identity(&mut self, identity: Identity, now: Time, effects: &mut Vec<Effect>) {
        let Some(own) = self.members.get(OWN).filter(|own| own.record.identity() != identity) else { return };
        let record = Record::clone(&own.record);
        let (epoch, Identity { fingerprint, issued }) = (record.epoch.saturating_add(1), identity);
        self.begin(now);
        self.live(Record { epoch, fingerprint, issued, ..record });
        self.end(effects);
    }

    /// A life after a goodbye.
    pub(crate) fn live_again(&mut self) {
        let epoch = self.members.get(OWN).map_or(0, |own| own.record.epoch);
        self.new_epoch(epoch.saturating_add(1));
    }

    fn new_epoch(&mut self, epoch: u64) {
        let Some(record) = self.members.get(OWN).map(|own| Record::clone(&own.record)) else { return };
        self.live(Record { epoch, ..record });
    }

    /// Begins a life with this record.
    fn live(&mut self, record: Record) {
        if let Some(own) = self.members.get_mut(OWN) {
            let status = if self.leaving { Status::Left } else { Status::Alive };
            (own.status, own.refuted, own.tick) = (status, 0, 0);
        }
        self.replace_own(Record { version: 0, ..record });
        self.news(OWN, true);
    }

    fn told_vitals(&mut self, vitals: Vitals<'_>, sender: &Sender<'_>) {
        let of_sender = vitals.site.is_empty();
        let name = if of_sender { sender.site.name() } else { vitals.site };
        let Some(id) = self.members.find(name) else { return };
        if id == OWN {
            return self.object_to_vitals(&vitals);
        }
        let Some(member) = self.members.get_mut(id) else { return };
        let newer = member.record.epoch == vitals.epoch && vitals.tick > member.tick;
        if !newer || !vitals.coordinate.is_sane() {
            return;
        }
        let same = member.metrics.as_ref().map_or(&[][..], |known| &known.bytes) == vitals.metrics;
        if !same {
            let Ok(metrics) = Measures::read(vitals.metrics) else { return };
            member.metrics = metrics;
        }
        // Only whole steps are passed on: see `Machine::publish`.
        let step = vitals.tick >> 8 > member.tick >> 8;
        member.tick = vitals.tick;
        let moved = member.coordinate.shift_ms(&vitals.coordinate) > SHOWN_MS;
        member.coordinate = vitals.coordinate;
        self.moved |= moved || !same;
        if step && !sender.whole_state {
            self.gossip.relay(id);
        }
    }

    fn in_the_future(&mut self, name: &str, stamp: u64) -> bool {
        let skew = u64::try_from(self.config.clock_skew.as_millis()).unwrap_or(u64::MAX);
        let future = stamp > Stamp::of_ms(self.wall_ms().saturating_add(skew));
        if future {
            self.notice(Notice::FromTheFuture(name.into()));
        } else {
            self.registers.saw(stamp);
        }
        future
    }

    fn told_zone(&mut self, name: &str, stamp: u64, by: &str, text: Option<&str>) {
        let Some(by) = Site::new(by) else { return };
        let stamp = Stamp { time: stamp, by };
        if self.registers.zones.get(name).is_some_and(|defined| defined.stamp >= stamp) {
            return;
        }
        let long = text.is_some_and(|text| text.len() > crate::registers::ZONE_BYTES);
        if long || !scope::is_name(name) || name.len() > 128 || self.in_the_future(name, stamp.time) {
            return;
        }
        if !self.registers.room_for_zone(name, self.config.zones) {
            return self.notice(Notice::Full(name.into()));
        }
        let zone = text.and_then(|text| Zone::read(name, text, &self.zone_dialect()).ok());
        self.registers.zones.insert(name.into(), Defined { stamp, text: text.map(Into::into), zone });
        self.changed = true;
        self.tell(About::Register(Key::Zone(name.into())), true);
    }

    fn told_quarantine(&mut self, site: &str, stamp: u64, by: &str, on: bool) {
        let (Some(site), Some(by)) = (Site::new(site), Site::new(by)) else { return };
        let stamp = Stamp { time: stamp, by };
        let known = self.registers.quarantines.get(&site);
        if known.is_some_and(|(known, _)| *known >= stamp) || self.in_the_future(site.name(), stamp.time) {
            return;
        }
        let new = !self.registers.quarantines.contains_key(&site);
        if site.name().len() > 128 || (new && self.registers.quarantines.len() >= self.config.members) {
            return self.notice(Notice::Full(site.name().into()));
        }
        self.registers.quarantines.insert(site.clone(), (stamp, on));
        self.changed = true;
        self.tell(About::Register(Key::Quarantine(site)), true);
    }

    /// A statement whose signature is to be checked, if it says anything new.
    fn told_revoked(&mut self, site: &str, before: u64, statement: &[u8]) {
        let known = self.registers.revocations.get(site).is_some_and(|known| known.before >= before);
        if known || statement.len() > STATEMENT_BYTES {
            return;
        }
        let checks = self.out.iter().filter(|effect| matches!(effect, Effect::CheckRevocation { .. }));
        if checks.count() < CHECKS {
            self.out.push(Effect::CheckRevocation { statement: statement.to_vec() });
        }
    }

    /// A statement that the driver checked. It never un-happens.
    pub(crate) fn revoked(&mut self, statement: Vec<u8>, site: Site, before: u64) {
        if self.registers.revocations.get(&site).is_some_and(|known| known.before >= before) {
            return;
        }
        self.registers.revocations.insert(site.clone(), Revocation { before, statement });
        self.tell(About::Register(Key::Revocation(site.clone())), true);
        self.changed = true;
        let Some(id) = self.members.find(site.name()).filter(|id| *id != OWN) else { return };
        let now = seconds(self.now);
        let Some(member) = self.members.get_mut(id) else { return };
        if member.record.issued < before && member.status != Status::Revoked {
            (member.status, member.since) = (Status::Revoked, now);
            self.suspicions.remove(&id);
            self.members.settle(id, &mut self.rng);
            self.notice(Notice::Revoked(site));
        }
    }
}
