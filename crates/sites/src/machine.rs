//! One site's part in it: what comes in, and to whom it goes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use scope::Site;

use crate::config::Config;
use crate::coordinate::Coordinate;
use crate::event::{Effect, Event, Notice, Time};
use crate::gossip::{About, Gossip};
use crate::members::{Id, Member, Members, OWN};
use crate::merge::Sender;
use crate::probe::Probe;
use crate::record::{Identity, Measures, Metrics, Own, Record, Says, TooLarge};
use crate::registers::{Key, Registers};
use crate::rng::Rng;
use crate::snapshot::Status;
use crate::suspicion::Suspicion;
use crate::timers::{Timer, Timers};
use crate::wire::{self, DATAGRAM_BYTES, Head};

/// Changes of distances alone are announced at most this often.
const MOVES_EVERY: Duration = Duration::from_secs(5);
/// The first distance of a site is announced sooner.
const FIRST_EVERY: Duration = Duration::from_millis(500);

/// Seconds in which a site's messages may still come with the identity that it had before.
const RENEWING: u32 = 10;

/// Membership as one site sees it.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent, and most last for one event")]
pub struct Machine {
    pub(crate) config: Config,
    pub(crate) now: Time,
    /// What the wall clock showed, and when.
    wall: (u64, Time),
    pub(crate) rng: Rng,
    pub(crate) members: Members,
    pub(crate) registers: Registers,
    pub(crate) gossip: Gossip,
    pub(crate) timers: Timers,
    /// Probes that are not answered yet, by their nonce.
    pub(crate) probes: BTreeMap<u64, Probe>,
    pub(crate) suspicions: BTreeMap<Id, Suspicion>,
    /// Sites that others believe to be alive and this one dead, or the other way round.
    pub(crate) contested: BTreeSet<Id>,
    /// Sites that are said to have a new identity, and will be asked for it.
    pub(crate) renewed: BTreeSet<Id>,
    pub(crate) seeds: BTreeSet<Box<str>>,
    /// Where the next of them is whose turn it is.
    pub(crate) seeds_tried: usize,
    pub(crate) seeds_at: Option<Time>,
    pub(crate) out: Vec<Effect>,
    pub(crate) changed: bool,
    /// Something moved, since `moves_at`.
    pub(crate) moved: bool,
    /// How far a site is, was measured for the first time.
    pub(crate) met: bool,
    moves_at: Time,
    /// What this event brings up is known nowhere else.
    pub(crate) first: bool,
    /// Somebody was told wrong things of this site, and this event brought it up.
    pub(crate) objected: bool,
    pub(crate) leaving: bool,
    /// How far this site doubts its own network, from 0 to 4: then it waits longer for others.
    pub(crate) doubt: u32,
    /// Round trips that moved this site.
    pub(crate) samples: u32,
    pub(crate) vitals_at: Time,
    /// Where others were told that this site is.
    pub(crate) published: Coordinate,
    pub(crate) synced_at: Option<Time>,
    wakes_at: Option<Time>,
}

impl Machine {
    /// A site that knows nobody yet, but those that it knew before.
    pub fn new(own: Own, config: Config, seed: u64, now: Time) -> Result<Machine, TooLarge> {
        let (site, epoch) = (own.site, own.epoch);
        let (fingerprint, issued, says) = (own.fingerprint, own.issued, own.says);
        let record = Record { site, epoch, version: 0, fingerprint, issued, says };
        record.check()?;
        let mut member = Member::new(Arc::new(record), 0, Status::Alive, now);
        member.metrics = Measures::new(own.metrics)?;
        let mut rng = Rng::new(seed);
        let mut members = Members::new(member);
        let mut known = own.known;
        known.sort_by(|a, b| a.site.cmp(&b.site));
        known.dedup_by(|a, b| a.site == b.site);
        known.retain(|record| members.find(record.site.name()) != Some(OWN));
        known.truncate(config.members);
        members.load(known.into_iter().map(|record| Member::new(record, 0, Status::Alive, now)), &mut rng);
        let mut timers = Timers::default();
        let mut soon = |within: Duration, timer| {
            timers.set(now + within.mul_f32(rng.unit()), timer);
        };
        soon(config.probe_at_first_every, Timer::Probe);
        soon(config.sync_every, Timer::Sync);
        soon(config.look_for_dead_every, Timer::Dead);
        soon(config.seeds_every, Timer::Seeds);
        let gossip = Gossip::new(config.news_per_second, now);
        Ok(Machine {
            config,
            now,
            wall: (own.wall_ms, now),
            rng,
            members,
            registers: Registers::default(),
            gossip,
            timers,
            probes: BTreeMap::new(),
            suspicions: BTreeMap::new(),
            contested: BTreeSet::new(),
            renewed: BTreeSet::new(),
            seeds: BTreeSet::new(),
            seeds_tried: 0,
            seeds_at: None,
            out: Vec::new(),
            changed: true,
            moved: false,
            met: false,
            moves_at: now,
            first: false,
            objected: false,
            leaving: false,
            doubt: 0,
            samples: 0,
            vitals_at: now,
            published: Coordinate::default(),
            synced_at: None,
            wakes_at: None,
        })
    }

    /// Something happened. What is to be done is added to the effects.
    pub fn on(&mut self, event: Event, now: Time, effects: &mut Vec<Effect>) {
        self.begin(now);
        match event {
            Event::Datagram { from, identity, bytes } => self.datagram(&from, &identity, &bytes),
            Event::Synced { from, identity, bytes } => self.synced(&from, &identity, &bytes),
            Event::Tick => {}
            Event::Join { addresses } => self.join(addresses),
            Event::Leave => self.leave(),
            Event::Quarantine { site, on } => self.quarantine(site, on),
            Event::Revoked { statement, site, before } => self.revoked(statement, site, before),
            Event::Measured { site, rtt } => {
                if let Some(id) = self.members.find(site.name()).filter(|id| *id != OWN) {
                    self.measured(id, rtt);
                }
            }
            Event::Reached { site, works } => self.reached(&site, works),
            Event::Unlinked { site } => self.unlinked(&site),
        }
        self.end(effects);
    }

    /// Changes what this site says of itself. On an error nothing changes.
    pub fn set_own(&mut self, says: Says, now: Time, effects: &mut Vec<Effect>) -> Result<(), TooLarge> {
        let Some(own) = self.members.get(OWN) else { return Ok(()) };
        let mut record = Record::clone(&own.record);
        if record.says == says {
            return Ok(());
        }
        record.says = says;
        record.version = record.version.saturating_add(1);
        record.check()?;
        self.begin(now);
        self.replace_own(record);
        self.news(OWN, true);
        self.end(effects);
        Ok(())
    }

    /// Changes this site's metrics. They travel more slowly than all else. On an error nothing changes.
    pub fn set_metrics(&mut self, metrics: Metrics) -> Result<(), TooLarge> {
        let metrics = Measures::new(metrics)?;
        let bytes = |measures: &Option<Arc<Measures>>| measures.as_ref().map(|known| known.bytes.clone());
        if let Some(own) = self.members.get_mut(OWN).filter(|own| bytes(&own.metrics) != bytes(&metrics)) {
            self.moved = true;
            own.metrics = metrics;
            own.tick = own.tick.saturating_add(u32::from(own.tick & 0xff < 0xff));
        }
        Ok(())
    }

    /// The wall clock, in milliseconds since 1970: it may have been set since.
    pub fn set_wall(&mut self, wall_ms: u64, now: Time) {
        self.wall = (wall_ms, now);
    }

    pub(crate) fn begin(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.first = false;
        self.objected = false;
        while let Some(timer) = self.timers.due(self.now) {
            self.fired(timer);
        }
    }

    pub(crate) fn end(&mut self, effects: &mut Vec<Effect>) {
        self.tell_at_once();
        let every = if self.met { FIRST_EVERY } else { MOVES_EVERY };
        if (self.moved || self.met) && self.now >= self.moves_at + every {
            self.changed = true;
        }
        if std::mem::take(&mut self.changed) {
            (self.moved, self.met) = (false, false);
            self.moves_at = self.now;
            self.out.push(Effect::Changed);
        }
        effects.append(&mut self.out);
        if let Some(next) = self.timers.next().filter(|next| Some(*next) != self.wakes_at) {
            self.wakes_at = Some(next);
            effects.push(Effect::WakeAt(next));
        }
    }

    fn fired(&mut self, timer: Timer) {
        match timer {
            Timer::Probe => self.probe_next(),
            Timer::Direct(nonce) => self.not_direct(nonce),
            Timer::Indirect(nonce) => self.not_at_all(nonce),
            Timer::Suspicion(id) => self.not_refuted(id),
            Timer::Recheck(id) => self.recheck(id),
            Timer::Gossip => self.gossip_round(),
            Timer::Sync => self.sync_some(),
            Timer::Dead => self.look_for_dead(),
            Timer::Contested => self.ask_contested(),
            Timer::Greet(id) => self.greet(id),
            Timer::Seeds => self.try_seeds(),
        }
    }

    pub(crate) fn notice(&mut self, notice: Notice) {
        self.out.push(Effect::Notice(notice));
    }

    /// The wall clock by the driver's.
    pub(crate) fn wall_ms(&self) -> u64 {
        let (wall_ms, at) = self.wall;
        let since = self.now.saturating_sub(at).as_millis();
        wall_ms.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }

    pub(crate) fn zone_dialect(&self) -> scope::Dialect {
        let mut dialect = self.config.dialect.clone();
        dialect.limits.text_bytes = dialect.limits.text_bytes.min(crate::registers::ZONE_BYTES);
        dialect
    }

    pub(crate) fn replace_own(&mut self, record: Record) {
        if let Some(own) = self.members.get_mut(OWN) {
            own.record = Arc::new(record);
        }
        self.members.settle(OWN, &mut self.rng);
        self.changed = true;
    }

    fn datagram(&mut self, from: &Site, identity: &Identity, bytes: &[u8]) {
        if bytes.len() > DATAGRAM_BYTES || !self.trusts(from, identity) {
            return;
        }
        let Some((head, items)) = wire::read::<Head<'_>>(bytes) else { return };
        let sender = Sender { site: from, identity, whole_state: false };
        // A site that says hello is news that nobody else has.
        self.first = matches!(head, Head::Hello { .. });
        for item in items {
            self.say(item, &sender);
        }
        self.first = false;
        let Some(id) = self.members.find(from.name()) else { return };
        match head {
            Head::Ping { nonce } => self.acknowledge(id, nonce, false),
            Head::Hello { nonce } => self.acknowledge(id, nonce, true),
            Head::Ack { nonce } => self.answered(id, nonce),
            Head::AskFor { nonce, site } => self.probe_for(id, nonce, site),
            Head::Vouch { nonce } => self.vouched(nonce),
            Head::News => {}
        }
    }

    /// Whether a sender is who we know under its name, or new, or that one with a later identity.
    pub(crate) fn trusts(&mut self, from: &Site, identity: &Identity) -> bool {
        if self.registers.revokes(from.name(), identity.issued) {
            return false;
        }
        let Some(id) = self.members.find(from.name()) else { return true };
        let Some(member) = self.members.get(id).filter(|_| id != OWN) else { return false };
        let same = member.record.fingerprint == identity.fingerprint;
        if !same && identity.issued <= member.record.issued {
            self.claimed(id);
            return false;
        }
        true
    }

    /// An identity that is not the one of this name claims it. What was under way when a site got a new one
    /// is no claim.
    pub(crate) fn claimed(&mut self, id: Id) {
        let Some(member) = self.members.get(id) else { return };
        if self.age(member.since) > RENEWING {
            let site = member.site().clone();
            self.notice(Notice::NameTaken(site));
        }
    }

    fn join(&mut self, addresses: Vec<Box<str>>) {
        if std::mem::take(&mut self.leaving) {
            self.live_again();
        }
        self.seeds.extend(addresses);
        self.hello_seeds();
    }

    fn leave(&mut self) {
        self.leaving = true;
        if let Some(own) = self.members.get_mut(OWN) {
            own.status = Status::Left;
        }
        self.members.settle(OWN, &mut self.rng);
        self.news(OWN, false);
        self.changed = true;
    }

    fn quarantine(&mut self, site: Site, on: bool) {
        self.first = true;
        let wall_ms = self.wall_ms();
        let Some(own) = self.members.get(OWN).map(|own| own.site().clone()) else { return };
        let known = self.registers.quarantines.contains_key(&site);
        if !known && self.registers.quarantines.len() >= self.config.members {
            return self.notice(Notice::Full(site.name().into()));
        }
        let stamp = self.registers.stamp(wall_ms, &own);
        self.registers.quarantines.insert(site.clone(), (stamp, on));
        self.tell(About::Register(Key::Quarantine(site)), true);
        self.changed = true;
    }
}
