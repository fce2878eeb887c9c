//! What goes out: news that is passed on at once and a few times more, and vitals that ride on probes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::event::{Effect, Time};
use crate::machine::Machine;
use crate::members::{Id, OWN};
use crate::registers::Key;
use crate::snapshot::Status;
use crate::timers::Timer;
use crate::wire::{self, DATAGRAM_BYTES, Head, Item, Life, Told, ToldStatus};

/// What a probe carries of vitals, in bytes: with it, a site sends below 2 KB in a second.
const PROBE_BYTES: usize = 720;
/// Vitals that wait to be passed on; the oldest give way.
const RELAYED: usize = 512;
/// How often vitals are passed on.
const RELAYS: u8 = 4;

/// What is news.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum About {
    Site(Id),
    Register(Key),
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    /// How many are still to be told.
    left: u32,
    /// With the record, or only the life.
    whole: bool,
}

#[derive(Debug)]
pub(crate) struct Gossip {
    pending: BTreeMap<About, Pending>,
    /// How many are to be told at once.
    eager: usize,
    /// The timer runs.
    waiting: bool,
    relays: VecDeque<(Id, u8)>,
    /// Datagrams that may be sent now.
    tokens: u32,
    tokens_at: Time,
}

impl Gossip {
    pub(crate) fn new(tokens: u32, now: Time) -> Gossip {
        Gossip {
            pending: BTreeMap::new(),
            eager: 0,
            waiting: false,
            relays: VecDeque::new(),
            tokens,
            tokens_at: now,
        }
    }

    /// Vitals that are new here.
    pub(crate) fn relay(&mut self, id: Id) {
        self.relays.push_front((id, RELAYS));
        self.relays.truncate(RELAYED);
    }

    /// Nothing of it is news any more.
    pub(crate) fn drop_site(&mut self, id: Id) {
        self.pending.remove(&About::Site(id));
        self.relays.retain(|(relayed, _)| *relayed != id);
    }

    /// What is to be told first: the least told, of those the latest in the table.
    fn order(&self) -> Vec<About> {
        let mut order: Vec<_> = self.pending.iter().map(|(about, pending)| (pending.left, about)).collect();
        order.sort_by(|a, b| b.cmp(a));
        order.into_iter().map(|(_, about)| about.clone()).collect()
    }

    fn told(&mut self, about: &About, count: u32) {
        if let Some(pending) = self.pending.get_mut(about) {
            pending.left = pending.left.saturating_sub(count);
            if pending.left == 0 {
                self.pending.remove(about);
            }
        }
    }
}

impl Machine {
    /// A site's news. With its record, if that may be new to others.
    pub(crate) fn news(&mut self, id: Id, whole: bool) {
        self.tell(About::Site(id), whole);
    }

    pub(crate) fn tell(&mut self, about: About, whole: bool) {
        let first = matches!(about, About::Site(OWN)) || self.first;
        let fanout = if first { self.config.fanout_first } else { self.config.fanout };
        // Each tells enough that hardly any is left out, whatever their number.
        let left = u32::try_from(self.config.fanout).unwrap_or(4) * (1 + self.digits());
        let before = self.gossip.pending.get(&about).is_some_and(|pending| pending.whole);
        let left = left.max(u32::try_from(fanout).unwrap_or(u32::MAX) + 4);
        self.gossip.pending.insert(about, Pending { left, whole: whole || before });
        self.gossip.eager = self.gossip.eager.max(fanout);
    }

    /// The decimal digits of the number of sites: what grows with its logarithm.
    pub(crate) fn digits(&self) -> u32 {
        u32::try_from(self.members.living()).unwrap_or(u32::MAX).checked_ilog10().unwrap_or(0) + 1
    }

    /// Tells at once what came up during an event.
    pub(crate) fn tell_at_once(&mut self) {
        let eager = std::mem::take(&mut self.gossip.eager);
        if eager > 0 {
            self.spread(eager);
        }
        if !self.gossip.pending.is_empty() && !self.gossip.waiting {
            self.gossip.waiting = true;
            self.timers.set(self.now + self.config.gossip_every, Timer::Gossip);
        }
    }

    pub(crate) fn gossip_round(&mut self) {
        self.gossip.waiting = false;
        self.spread(self.config.fanout);
    }

    /// One datagram of news, to some at random.
    fn spread(&mut self, count: usize) {
        let count = self.allowed(count);
        let targets = self.members.some(count, &mut self.rng, |_| false);
        let sent = u32::try_from(targets.len()).unwrap_or(u32::MAX);
        if sent == 0 {
            return;
        }
        let mut bytes = wire::begin(&Head::News);
        self.add_news(&mut bytes, DATAGRAM_BYTES, sent, usize::MAX);
        for id in targets {
            self.send(id, bytes.clone());
        }
    }

    /// How many datagrams of these may be sent now.
    fn allowed(&mut self, count: usize) -> usize {
        let per_second = self.config.news_per_second;
        let elapsed = self.now.saturating_sub(self.gossip.tokens_at);
        let fresh = u32::try_from(elapsed.as_millis()).unwrap_or(u32::MAX).saturating_mul(per_second) / 1000;
        if fresh > 0 {
            self.gossip.tokens = self.gossip.tokens.saturating_add(fresh).min(per_second);
            self.gossip.tokens_at = self.now;
        }
        let allowed = u32::try_from(count).unwrap_or(u32::MAX).min(self.gossip.tokens);
        self.gossip.tokens -= allowed;
        allowed as usize
    }

    /// Adds the least told news, up to `most`, each of which `count` sites get to know.
    fn add_news(&mut self, bytes: &mut Vec<u8>, limit: usize, count: u32, most: usize) {
        if self.gossip.pending.is_empty() {
            return;
        }
        for about in self.gossip.order().into_iter().take(most) {
            let whole = self.gossip.pending.get(&about).is_some_and(|pending| pending.whole);
            let added = match &about {
                About::Site(id) => self.add_site(*id, whole, bytes, limit),
                About::Register(key) => {
                    self.registers.item(key).is_none_or(|item| wire::add_within(bytes, &item, limit))
                }
            };
            if added {
                self.gossip.told(&about, count);
            } else if limit.saturating_sub(bytes.len()) < 40 {
                break;
            }
        }
    }

    /// Adds what is known of a site's life, after its record or without. Whether it fitted.
    pub(crate) fn add_site(&self, id: Id, whole: bool, bytes: &mut Vec<u8>, limit: usize) -> bool {
        if whole && !self.add_told(id, bytes, limit) {
            return false;
        }
        let Some(member) = self.members.get(id) else { return true };
        let record = &member.record;
        let life = Life { site: record.site.name(), epoch: record.epoch, refuted: member.refuted };
        let item = match member.status {
            Status::Alive if whole => return true,
            Status::Revoked => return true,
            Status::Alive => Item::Alive(life),
            Status::Suspect => Item::Suspect { life, by: self.suspected_by(id).name() },
            Status::Dead => Item::Dead(life),
            Status::Left => Item::Left(life),
        };
        wire::add_within(bytes, &item, limit)
    }

    /// Adds a site's record. Whether it fitted.
    pub(crate) fn add_told(&self, id: Id, bytes: &mut Vec<u8>, limit: usize) -> bool {
        let Some(member) = self.members.get(id) else { return true };
        let record = &member.record;
        let life = Life { site: record.site.name(), epoch: record.epoch, refuted: member.refuted };
        let status = match member.status {
            Status::Alive | Status::Suspect | Status::Revoked => ToldStatus::Alive,
            Status::Dead => ToldStatus::Dead(self.age(member.since)),
            Status::Left => ToldStatus::Left(self.age(member.since)),
        };
        let body = record.body();
        let told = Told { life, status, version: record.version, body: &body };
        wire::add_within(bytes, &Item::Site(told), limit)
    }

    pub(crate) fn age(&self, since: u32) -> u32 {
        crate::members::seconds(self.now).saturating_sub(since)
    }

    /// A probe or its answer: with this site's vitals, some news, and vitals of others.
    pub(crate) fn loaded(&mut self, head: &Head<'_>, about: Option<Id>) -> Vec<u8> {
        let mut bytes = wire::begin(head);
        self.add_vitals(OWN, &mut bytes);
        if let Some(id) = about {
            self.add_site(id, false, &mut bytes, DATAGRAM_BYTES);
        }
        self.add_news(&mut bytes, DATAGRAM_BYTES, 1, 8);
        for _ in 0..self.gossip.relays.len() {
            if bytes.len() + 60 > PROBE_BYTES {
                break;
            }
            let Some((id, left)) = self.gossip.relays.pop_front() else { break };
            self.add_vitals(id, &mut bytes);
            if left > 1 {
                self.gossip.relays.push_back((id, left - 1));
            }
        }
        bytes
    }

    pub(crate) fn add_vitals(&self, id: Id, bytes: &mut Vec<u8>) {
        let Some(member) = self.members.get(id) else { return };
        let site = if id == OWN { "" } else { member.site().name() };
        wire::add_within(bytes, &Item::Vitals(member.vitals(site)), DATAGRAM_BYTES);
    }

    pub(crate) fn send(&mut self, id: Id, bytes: Vec<u8>) {
        let Some(member) = self.members.get(id) else { return };
        let (to, site) = (member.record.says.address.clone(), Some(member.site().clone()));
        self.out.push(Effect::Send { to, site, bytes });
    }

    /// How long until this site tells its vitals anew: what others can take grows with their number.
    pub(crate) fn vitals_every(&self) -> Duration {
        let sites = u32::try_from(self.members.living()).unwrap_or(u32::MAX);
        self.config.vitals_every.max(Duration::from_millis(100).saturating_mul(sites))
    }
}
