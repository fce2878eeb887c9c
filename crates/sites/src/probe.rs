//! Who is there: probes in turn, through others where they fail, and of those that are believed dead.

use std::time::Duration;

use scope::Site;

use crate::event::{Effect, Notice, Time};
use crate::machine::Machine;
use crate::members::{Id, Member, OWN, seconds};
use crate::snapshot::Status;
use crate::timers::Timer;
use crate::wire::{self, DATAGRAM_BYTES, Head};

/// So many probes in a row must fail, while others vouch for a site, until it counts as unreachable.
pub(crate) const MISSES: u8 = 3;
/// Contested sites are asked, a few at a time, this often.
const CONTESTED_EVERY: Duration = Duration::from_millis(100);
const CONTESTED: usize = 5;
/// A new site probes fast until it has measured so many round trips.
const SAMPLES_AT_FIRST: u32 = 60;
/// A move that is further than this is worth a look at the new distances.
pub(crate) const SHOWN_MS: f32 = 1.0;
const SHOWN_US: u32 = 1000;
/// A site that moved further than this tells it soon.
const MOVED_MS: f32 = 5.0;
/// Probes that wait for an answer. More are not needed, whatever others ask for.
const PROBES: usize = 4096;

/// A question on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    why: Why,
    sent: Time,
    /// Another site reached it.
    vouched: bool,
    /// It was asked twice: which of the two it answers is not known.
    repeated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// It is alive as far as we know; others are asked if it does not answer.
    Alive(Id),
    /// It is dead as far as we know.
    Dead(Id),
    /// Another site asked for it.
    For { id: Id, asker: Id, nonce: u64 },
    /// An address to join by.
    Seed,
}

/// Addresses to join by that are tried together.
const SEEDS_AT_ONCE: usize = 8;

impl Machine {
    pub(crate) fn own_site(&self) -> &Site {
        // The own site is never removed: the fallback is not reached.
        self.members.get(OWN).map_or_else(|| unreachable!("the own site is in the table"), Member::site)
    }

    /// The next in turn.
    pub(crate) fn probe_next(&mut self) {
        let at_first = self.samples < SAMPLES_AT_FIRST && self.members.living() > 1;
        let every = if at_first { self.config.probe_at_first_every } else { self.config.probe_every };
        self.timers.set(self.now + every, Timer::Probe);
        if self.leaving {
            return;
        }
        self.publish();
        if let Some(id) = self.members.turn(&mut self.rng) {
            self.probe_again(id);
        }
    }

    /// Once in a while this site's vitals are to be passed on by others: their count goes up by a whole
    /// step. Between, it goes up by one with each change, which only those see who are told directly.
    fn publish(&mut self) {
        let vitals_every = self.vitals_every();
        let Some(own) = self.members.get_mut(OWN) else { return };
        let moved = self.published.shift_ms(&own.coordinate) > MOVED_MS;
        let every = if moved { self.config.vitals_every } else { vitals_every };
        if self.now < self.vitals_at + every {
            return;
        }
        (self.vitals_at, self.published) = (self.now, own.coordinate);
        own.tick = ((own.tick >> 8) + 1) << 8;
    }

    /// Probes a site that is alive as far as we know.
    pub(crate) fn probe_again(&mut self, id: Id) {
        let suspected = self.members.get(id).is_some_and(|member| member.status != Status::Alive);
        let nonce = self.start(Why::Alive(id), self.direct_timeout(id));
        let bytes = self.loaded(&Head::Ping { nonce }, suspected.then_some(id));
        self.send(id, bytes);
    }

    fn start(&mut self, why: Why, timeout: Duration) -> u64 {
        let nonce = self.rng.next();
        if self.probes.len() >= PROBES {
            self.probes.pop_first();
        }
        self.probes.insert(nonce, Probe { why, sent: self.now, vouched: false, repeated: false });
        self.timers.set(self.now + timeout * (1 + self.doubt), Timer::Direct(nonce));
        nonce
    }

    /// What is known of the distance, and some.
    fn direct_timeout(&self, id: Id) -> Duration {
        let most = self.config.direct_timeout;
        let Some(us) = self.members.get(id).and_then(Member::measured_us) else { return most };
        let usual = Duration::from_micros(u64::from(us));
        (usual + usual / 2 + Duration::from_millis(100)).clamp(Duration::from_millis(200).min(most), most)
    }

    /// Nothing came back yet: others are asked.
    pub(crate) fn not_direct(&mut self, nonce: u64) {
        let Some(probe) = self.probes.get(&nonce) else { return };
        let Why::Alive(id) = probe.why else {
            self.probes.remove(&nonce);
            return;
        };
        self.timers.set(self.now + self.config.indirect_timeout, Timer::Indirect(nonce));
        let Some(site) = self.members.get(id).map(|member| member.site().clone()) else { return };
        let helpers = self.members.some(self.config.helpers, &mut self.rng, |helper| helper == id);
        if helpers.len() < self.config.helpers {
            // Among few sites, a lost datagram would soon be a suspicion.
            if let Some(probe) = self.probes.get_mut(&nonce) {
                probe.repeated = true;
            }
            let bytes = self.loaded(&Head::Ping { nonce }, None);
            self.send(id, bytes);
        }
        for helper in helpers {
            let bytes = wire::begin(&Head::AskFor { nonce, site: site.name() });
            self.send(helper, bytes);
        }
    }

    /// Nothing came back, or only through others.
    pub(crate) fn not_at_all(&mut self, nonce: u64) {
        let Some(Probe { why: Why::Alive(id), vouched, .. }) = self.probes.remove(&nonce) else { return };
        if self.leaving {
            return;
        }
        if vouched {
            return self.missed(id);
        }
        self.doubt = (self.doubt + 1).min(4);
        let own = self.own_site().clone();
        self.first = true;
        self.suspect(id, own);
        self.first = false;
    }

    /// It is there, but does not answer here.
    fn missed(&mut self, id: Id) {
        let Some(member) = self.members.get_mut(id) else { return };
        member.misses = member.misses.saturating_add(1);
        let (misses, site) = (member.misses, member.site().clone());
        if misses == MISSES {
            self.changed = true;
            self.notice(Notice::Unreachable(site));
        }
        let again = if misses < MISSES { 1 } else { 10 };
        self.timers.set(self.now + Duration::from_secs(again), Timer::Recheck(id));
    }

    /// Whether a site that did not answer here does now.
    pub(crate) fn recheck(&mut self, id: Id) {
        let in_doubt = self.members.get(id).is_some_and(|member| {
            matches!(member.status, Status::Alive | Status::Suspect) && member.misses > 0
        });
        if in_doubt {
            self.probe_again(id);
        }
    }

    /// A site answered a probe.
    pub(crate) fn answered(&mut self, from: Id, nonce: u64) {
        let Some(probe) = self.probes.get(&nonce).copied() else { return };
        let expected = match probe.why {
            Why::Alive(id) | Why::Dead(id) | Why::For { id, .. } => id == from,
            Why::Seed => true,
        };
        if !expected {
            return;
        }
        self.probes.remove(&nonce);
        self.doubt = self.doubt.saturating_sub(1);
        if !probe.repeated {
            self.measured(from, self.now.saturating_sub(probe.sent));
        }
        self.answers_here(from);
        match probe.why {
            Why::For { asker, nonce, .. } => {
                let bytes = wire::begin(&Head::Vouch { nonce });
                self.send(asker, bytes);
            }
            // It has been somewhere else, or we have.
            Why::Dead(_) | Why::Seed => self.sync_with(from),
            Why::Alive(_) => {}
        }
    }

    fn answers_here(&mut self, id: Id) {
        let Some(member) = self.members.get_mut(id) else { return };
        let misses = std::mem::take(&mut member.misses);
        let site = member.site().clone();
        if misses >= MISSES {
            self.changed = true;
            self.notice(Notice::Reachable(site));
        }
    }

    pub(crate) fn vouched(&mut self, nonce: u64) {
        if let Some(probe) = self.probes.get_mut(&nonce) {
            probe.vouched = true;
        }
    }

    /// A round trip to a site: where it says it is, and how far that is, move this one.
    pub(crate) fn measured(&mut self, id: Id, rtt: Duration) {
        let Some(member) = self.members.get_mut(id) else { return };
        let known = member.measured_us();
        member.measure(u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX));
        let (coordinate, us) = (member.coordinate, member.measured_us().unwrap_or(0));
        let Some(own) = self.members.get_mut(OWN) else { return };
        let before = own.coordinate;
        own.coordinate.update(&coordinate, Duration::from_micros(u64::from(us)), &mut self.rng);
        // The last count of a step is not left: the next is a step.
        own.tick = own.tick.saturating_add(u32::from(own.tick & 0xff < 0xff));
        self.samples = self.samples.saturating_add(1);
        self.met |= known.is_none();
        self.moved |= known.is_some_and(|known| known.abs_diff(us) > SHOWN_US);
        self.moved |= before.shift_ms(&own.coordinate) > SHOWN_MS;
    }

    /// The link's word on whether a site can be reached.
    pub(crate) fn reached(&mut self, site: &Site, works: bool) {
        let Some(id) = self.members.find(site.name()).filter(|id| *id != OWN) else { return };
        let Some(member) = self.members.get_mut(id) else { return };
        if member.link_fails == works {
            member.link_fails = !works;
            self.changed = true;
            self.notice(if works {
                Notice::Reachable(site.clone())
            } else {
                Notice::Unreachable(site.clone())
            });
            if !works {
                self.probe_again(id);
            }
        }
    }

    /// The link has nothing to say of a site any more. What the probes say counts.
    pub(crate) fn unlinked(&mut self, site: &Site) {
        let Some(id) = self.members.find(site.name()).filter(|id| *id != OWN) else { return };
        if let Some(member) = self.members.get_mut(id) {
            self.changed |= std::mem::take(&mut member.link_fails);
        }
    }

    pub(crate) fn acknowledge(&mut self, id: Id, nonce: u64, hello: bool) {
        let Some(status) = self.members.get(id).map(|member| member.status) else { return };
        if self.leaving || status == Status::Revoked {
            return;
        }
        // What is wrong about the asker is told, so that it can object.
        let wrong = hello || status != Status::Alive;
        let mut bytes = self.loaded(&Head::Ack { nonce }, wrong.then_some(id));
        if hello || self.objected {
            let mut own = bytes.clone();
            if self.add_site(OWN, hello, &mut own, DATAGRAM_BYTES) {
                bytes = own;
            } else {
                bytes = wire::begin(&Head::Ack { nonce });
                self.add_site(OWN, hello, &mut bytes, DATAGRAM_BYTES);
            }
        }
        self.send(id, bytes);
    }

    /// Probes a site for another that cannot reach it.
    pub(crate) fn probe_for(&mut self, asker: Id, nonce: u64, site: &str) {
        let Some(id) = self.members.find(site).filter(|id| *id != OWN && *id != asker) else { return };
        let why = Why::For { id, asker, nonce };
        let nonce = self.start(why, self.config.indirect_timeout);
        let bytes = self.loaded(&Head::Ping { nonce }, None);
        self.send(id, bytes);
    }

    /// Says hello to a site that is believed dead, and what it is believed to be.
    fn call_dead(&mut self, id: Id) {
        let Some(address) = self.members.get(id).map(|member| member.record.says.address.clone()) else {
            return;
        };
        self.hello(Why::Dead(id), address, Some(id));
    }

    /// Has a living site show who it is now.
    pub(crate) fn greet(&mut self, id: Id) {
        self.renewed.remove(&id);
        let living = |member: &&Member| matches!(member.status, Status::Alive | Status::Suspect);
        if let Some(member) = self.members.get(id).filter(living).filter(|_| !self.leaving) {
            let address = member.record.says.address.clone();
            self.hello(Why::Alive(id), address, None);
        }
    }

    fn hello(&mut self, why: Why, to: Box<str>, about: Option<Id>) {
        let nonce = self.start(why, Duration::from_secs(2));
        let mut bytes = wire::begin(&Head::Hello { nonce });
        self.add_site(OWN, true, &mut bytes, DATAGRAM_BYTES);
        self.add_vitals(OWN, &mut bytes);
        if let Some(id) = about {
            self.add_site(id, false, &mut bytes, DATAGRAM_BYTES);
        }
        let site = match why {
            Why::Alive(id) | Why::Dead(id) | Why::For { id, .. } => {
                self.members.get(id).map(|member| member.site().clone())
            }
            Why::Seed => None,
        };
        self.out.push(Effect::Send { to, site, bytes });
    }

    /// Looks for one of the dead: often if there are many, as after a split, so that all of them together
    /// are looked for at a rate that hardly depends on their number. And forgets those long gone.
    pub(crate) fn look_for_dead(&mut self) {
        self.timers.set(self.now + self.config.look_for_dead_every, Timer::Dead);
        let dead = self.members.dead().len();
        if dead > 0 && !self.leaving && self.rng.below(self.members.living()) < dead * 4 {
            let chosen = self.rng.below(dead);
            if let Some(id) = self.members.dead().get(chosen).copied() {
                self.call_dead(id);
            }
        }
        if self.rng.below(12) == 0 {
            self.forget();
        }
    }

    fn forget(&mut self) {
        let (now, limit) = (seconds(self.now), seconds(self.config.forget_after));
        let gone = |status| matches!(status, Status::Dead | Status::Left);
        let old: Vec<Id> = (self.members.iter())
            .filter(|(id, member)| {
                *id != OWN && gone(member.status) && now.saturating_sub(member.since) >= limit
            })
            .map(|(id, _)| id)
            .collect();
        for id in old {
            self.members.remove(id);
            self.gossip.drop_site(id);
            self.contested.remove(&id);
            self.changed = true;
        }
    }

    pub(crate) fn ask_contested(&mut self) {
        for _ in 0..CONTESTED {
            let Some(id) = self.contested.pop_first() else { return };
            match self.members.get(id).map(|member| member.status) {
                Some(Status::Dead) => self.call_dead(id),
                Some(Status::Alive | Status::Suspect) => self.probe_again(id),
                _ => {}
            }
        }
        if !self.contested.is_empty() {
            self.timers.set(self.now + CONTESTED_EVERY, Timer::Contested);
        }
    }

    /// Addresses to join by are tried often by a site that is alone, and now and then later: what is there
    /// may belong to the other half of a split that lasted too long.
    pub(crate) fn try_seeds(&mut self) {
        if self.seeds_at.is_none_or(|at| at <= self.now) {
            self.hello_seeds();
        }
    }

    pub(crate) fn hello_seeds(&mut self) {
        let alone = self.members.living() == 1;
        let every = if alone { Duration::from_secs(1) } else { self.config.seeds_every };
        // A join meanwhile must not start a second round of tries beside the first.
        if self.seeds_at.is_none_or(|at| at <= self.now || at > self.now + every) {
            self.seeds_at = Some(self.now + every);
            self.timers.set(self.now + every, Timer::Seeds);
        }
        if self.leaving {
            return;
        }
        let living = |status| matches!(status, Status::Alive | Status::Suspect);
        let known: std::collections::BTreeSet<&str> = (self.members.iter())
            .filter(|(_, member)| living(member.status))
            .map(|(_, member)| &*member.record.says.address)
            .collect();
        let seeds: Vec<_> = self.seeds.iter().filter(|seed| !known.contains(&***seed)).cloned().collect();
        // A configuration may name a hundred peers: one that answers is enough, and each has its turn.
        let turn = self.seeds_tried.checked_rem(seeds.len()).unwrap_or(0);
        let some = seeds.iter().cycle().skip(turn).take(seeds.len().min(SEEDS_AT_ONCE));
        self.seeds_tried = turn + seeds.len().min(SEEDS_AT_ONCE);
        for seed in some.cloned() {
            self.hello(Why::Seed, seed, None);
        }
    }

    /// Tells a suspect first: nobody else can object.
    pub(crate) fn tell_suspect(&mut self, id: Id) {
        if self.first {
            let mut bytes = wire::begin(&Head::News);
            self.add_site(id, false, &mut bytes, DATAGRAM_BYTES);
            self.send(id, bytes);
        }
    }
}
