//! One group: the library, its log, and the links to the other members.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};

use omnipaxos::messages::Message as Agreement;
use omnipaxos::messages::ballot_leader_election::HeartbeatMsg;
use omnipaxos::{ClusterConfig, OmniPaxos, ServerConfig};
use scope::Site;

use crate::agreement::{clipped, is_used};
use crate::id::{GroupId, member, site};
use crate::link::Link;
use crate::log::{Head, Log, Origin, Shared, Slot};
use crate::message::{Message, Payload};
use crate::orders::{Effect, Needs, Refusal, Settings, Ticket};
use crate::readmission::Testimony;
use crate::record::{self, Key, Record};

/// So many rounds of heartbeats may still be answered.
const ROUNDS: usize = 16;

/// An entry that has no place yet.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) ticket: Ticket,
    pub(crate) bytes: Vec<u8>,
    pub(crate) needs: Needs,
    pub(crate) ticks: u32,
}

/// A group at one of its members.
pub(crate) struct Group {
    pub(crate) id: GroupId,
    /// This member, by its place among the sites; the library counts from 1.
    me: u64,
    start: u64,
    settings: Settings,
    log: Shared,
    paxos: OmniPaxos<Slot, Shared>,
    links: BTreeMap<u64, Link>,
    /// Ticks since it is here.
    age: u32,
    /// Ticks since the last round of heartbeats began.
    beat: u32,
    /// When each of the last rounds began.
    rounds: VecDeque<(u32, u32)>,
    /// Ticks since this leader asked another to lead.
    resigned: Option<u32>,
    /// Ticks without a leader that this site follows.
    astray: u32,
    /// Proposals and marks since the start.
    number: u64,
    /// The mark that this member set when it became leader. Once it is committed, so is all that the
    /// leaders before it had.
    mark: Option<Origin>,
    ready: bool,
    waiting: VecDeque<Waiting>,
    proposed: BTreeMap<(usize, Origin), Ticket>,
    reads: BTreeMap<u64, (Ticket, u32)>,
    /// The leader that was last told of.
    shown: Option<Site>,
    /// This site's records were put back: it says nothing, and hears nothing, until it is readmitted.
    mute: bool,
}

impl Group {
    /// The group as it was recorded. None where this site is not in it, or alone.
    pub(crate) fn new(
        here: &Site,
        id: GroupId,
        start: u64,
        settings: Settings,
        log: Shared,
    ) -> Option<Group> {
        let me = member(&id, here)?;
        let nodes: Vec<u64> = (1..).take(id.sites.len()).collect();
        let server = ServerConfig {
            pid: me,
            // It is told of rounds, not of ticks: these are as long as messages take.
            election_tick_timeout: 1,
            resend_message_tick_timeout: 1,
            buffer_size: 16,
            ..ServerConfig::default()
        };
        let configuration_id = id.incarnation.saturating_add(1);
        let cluster = ClusterConfig { configuration_id, nodes: nodes.clone(), ..ClusterConfig::default() };
        let paxos = cluster.build_for_server(server, log.clone()).ok()?;
        let links =
            nodes.into_iter().filter(|node| *node != me).map(|node| (node, Link::new(start))).collect();
        Some(Group {
            id,
            me,
            start,
            settings,
            log,
            paxos,
            links,
            age: 0,
            beat: 0,
            rounds: VecDeque::new(),
            resigned: None,
            astray: 0,
            number: 0,
            mark: None,
            ready: false,
            waiting: VecDeque::new(),
            proposed: BTreeMap::new(),
            reads: BTreeMap::new(),
            shown: None,
            mute: false,
        })
    }

    /// The same, without a voice.
    pub(crate) fn muted(self) -> Group {
        Group { mute: true, ..self }
    }

    pub(crate) fn is_mute(&self) -> bool {
        self.mute
    }

    /// The number of starts of this site, as it tells the others of this group.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Tells what another member, whose records were put back, may have forgotten. From now on nothing counts that it sent in an earlier
    /// start. None: it has started again since, or this site does not know either.
    pub(crate) fn testify(&mut self, to: &Site, start: u64) -> Option<Testimony> {
        let link = member(&self.id, to).and_then(|node| self.links.get_mut(&node)).filter(|_| !self.mute)?;
        link.begin_anew(start).then(|| Testimony::of(&self.log.get()))
    }

    /// Goes on with this log, as after a restart.
    pub(crate) fn readmit(&mut self, here: &Site, head: Head, slots: Vec<Slot>) {
        self.log.get().adopt(head, slots);
        let again = Group::new(here, self.id.clone(), self.start, self.settings, self.log.clone());
        if let Some(again) = again {
            let waiting = std::mem::take(&mut self.waiting);
            *self = Group { age: self.age, waiting, ..again };
        }
    }

    /// Refuses all that has no place.
    pub(crate) fn refuse_all(&mut self, effects: &mut Vec<Effect>) {
        let waiting = std::mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.ticket);
        let reads = std::mem::take(&mut self.reads).into_values().map(|(ticket, _)| ticket);
        let refused = |ticket| Effect::Refused { ticket, why: Refusal::InDoubt };
        effects.extend(waiting.chain(reads).map(refused));
    }

    /// The log, for whoever takes over its storage.
    pub(crate) fn shared(&self) -> Shared {
        self.log.clone()
    }

    fn log(&self) -> Log {
        self.log.get().clone()
    }

    pub(crate) fn propose(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
    }

    /// A read is to be confirmed: a mark is asked for, now and until it comes.
    pub(crate) fn confirm(&mut self, ticket: Ticket, effects: &mut Vec<Effect>) {
        self.number = self.number.saturating_add(1);
        self.reads.insert(self.number, (ticket, 0));
        self.ask(effects);
    }

    /// Asks for a mark after all reads so far.
    fn ask(&mut self, effects: &mut Vec<Effect>) {
        let Some(&number) = self.reads.keys().next_back() else { return };
        if self.ready {
            self.set_mark(Origin { member: self.me, start: self.start, number });
        } else if let Some(leader) = self.others_leader() {
            self.send(leader, Payload::Mark(number), effects);
        }
    }

    fn set_mark(&mut self, origin: Origin) {
        self.append(Slot { origin, bytes: None });
    }

    /// Puts an entry into the log; only the leader calls this.
    fn append(&mut self, slot: Slot) -> usize {
        let index = self.log.get().end();
        // It fails only after a reconfiguration, and groups have none.
        let _ = self.paxos.append(slot);
        index
    }

    pub(crate) fn receive(&mut self, from: &Site, message: &Message, effects: &mut Vec<Effect>) {
        let Some(from) = member(&self.id, from).filter(|_| !self.mute) else { return };
        let Some(link) = self.links.get_mut(&from) else { return };
        let arrival = link.receive(message.stamp);
        if arrival.lost {
            self.paxos.reconnected(from);
        }
        if !arrival.counts {
            return self.turn(effects);
        }
        link.given = link.given.max(message.given);
        match &message.payload {
            Payload::Mark(number) if self.ready => {
                self.set_mark(Origin { member: from, start: message.stamp.start, number: *number });
            }
            Payload::Lead if self.paxos.get_current_leader().is_some_and(|(leader, _)| leader == from) => {
                self.paxos.try_become_leader();
            }
            Payload::Mark(_) | Payload::Given | Payload::Lead => {}
            Payload::Agreement(_) => {
                let agreement = message.agreement();
                let proper = |agreement: &Agreement<Slot>| {
                    agreement.get_sender() == from
                        && agreement.get_receiver() == self.me
                        && is_used(agreement)
                };
                let decided = self.log.get().head.decided;
                let agreement = agreement.filter(proper);
                if let Some(agreement) = &agreement {
                    self.measure(from, agreement);
                }
                if let Some(agreement) = agreement.and_then(|agreement| clipped(agreement, decided)) {
                    self.paxos.handle_incoming(agreement);
                }
            }
        }
        self.turn(effects);
    }

    pub(crate) fn tick(&mut self, effects: &mut Vec<Effect>) {
        self.age = self.age.saturating_add(1);
        for link in self.links.values_mut() {
            link.silent = link.silent.saturating_add(1);
        }
        self.waiting.iter_mut().for_each(|waiting| waiting.ticks = waiting.ticks.saturating_add(1));
        self.reads.values_mut().for_each(|(_, ticks)| *ticks = ticks.saturating_add(1));
        if self.mute {
            self.turn(effects);
            return self.refuse_late_reads(effects);
        }
        self.beat = self.beat.saturating_add(1);
        if self.beat >= self.round() {
            self.beat = 0;
            self.paxos.tick();
        }
        self.find_back();
        self.resigned = self
            .resigned
            .map(|ticks| ticks.saturating_add(1))
            .filter(|ticks| *ticks <= self.settings.patience);
        self.turn(effects);
        self.refuse_late_reads(effects);
        if self.age.checked_rem(self.settings.election) == Some(0) {
            self.ask(effects);
        }
        self.forget();
        self.turn(effects);
    }

    fn refuse_late_reads(&mut self, effects: &mut Vec<Effect>) {
        let late: Vec<u64> =
            self.reads.iter().filter(|(_, read)| read.1 > self.settings.patience).map(|(n, _)| *n).collect();
        let why = if self.mute { Refusal::InDoubt } else { Refusal::NoMajority };
        for (ticket, _) in late.into_iter().filter_map(|number| self.reads.remove(&number)) {
            effects.push(Effect::Refused { ticket, why: why.clone() });
        }
    }

    /// The ticks of a round of heartbeats: long enough for all that are heard to answer in it, twice over.
    fn round(&self) -> u32 {
        let heard = self.links.values().filter(|link| link.is_heard(self.settings.patience));
        let Some(longest) = heard.filter_map(Link::round_trip).max() else {
            return self.settings.election;
        };
        let longest = longest.saturating_add(1).saturating_mul(2);
        longest.clamp(self.settings.shortest, self.settings.patience.max(self.settings.shortest))
    }

    /// A heartbeat was answered, if this is such an answer: it says how long messages take.
    fn measure(&mut self, from: u64, agreement: &Agreement<Slot>) {
        let Agreement::BLE(message) = agreement else { return };
        let HeartbeatMsg::Reply(reply) = &message.msg else { return };
        let asked = self.rounds.iter().find(|(round, _)| *round == reply.round).map(|(_, asked)| *asked);
        if let Some((link, asked)) = self.links.get_mut(&from).zip(asked) {
            link.answered(self.age.saturating_sub(asked));
        }
    }

    /// Has another member lead, if this one does. Until it does, nothing more is given a place.
    pub(crate) fn hand_over(&mut self, to: &Site, effects: &mut Vec<Effect>) {
        let Some(node) = member(&self.id, to).filter(|node| *node != self.me) else { return };
        let heard = self.links.get(&node).is_some_and(|link| link.is_heard(self.settings.patience));
        if self.ready && heard && self.resigned.is_none() {
            self.resigned = Some(0);
            self.send(node, Payload::Lead, effects);
        }
    }

    /// A site that promised to follow a leader which is none, most likely itself before it started again,
    /// cannot follow one with an older claim, and the library leaves it aside for as long as the others
    /// are content. So it makes a newer claim, each site after a time of its own.
    fn find_back(&mut self) {
        let follows = self.paxos.get_current_leader().is_some_and(|(_, settled)| settled);
        self.astray = if follows { 0 } else { self.astray.saturating_add(1) };
        let rounds = u32::try_from(self.me).unwrap_or(u32::MAX).saturating_add(4);
        if self.astray > rounds.saturating_mul(self.settings.election) && self.hears_majority() {
            self.astray = 0;
            self.paxos.try_become_leader();
        }
    }

    /// Goes on with whatever can go on.
    pub(crate) fn turn(&mut self, effects: &mut Vec<Effect>) {
        if self.mute {
            return self.place(effects);
        }
        let before = self.given();
        self.give(effects);
        self.lead();
        self.place(effects);
        // The leader counts who was given what, and should not have to wait for the next heartbeat.
        if self.given() != before
            && let Some(leader) = self.others_leader()
        {
            self.send(leader, Payload::Given, effects);
        }
        let leader = self.leader();
        if leader != self.shown {
            self.shown.clone_from(&leader);
            effects.push(Effect::Leader { group: self.id.clone(), leader });
        }
        self.flush(effects);
    }

    /// Hands out what was committed, in order, each once.
    fn give(&mut self, effects: &mut Vec<Effect>) {
        loop {
            let (index, slot) = {
                let mut log = self.log.get();
                let index = log.head.given;
                let Some(slot) = (index < log.head.decided).then(|| log.at(index).cloned()).flatten() else {
                    return;
                };
                log.head.given = index.saturating_add(1);
                (index, slot)
            };
            let mut ticket = None;
            while let Some(entry) = self.proposed.first_entry().filter(|entry| entry.key().0 <= index) {
                let ours = entry.key().1 == slot.origin;
                let waits = entry.remove();
                if ours {
                    ticket = Some(waits);
                } else {
                    effects.push(Effect::Refused { ticket: waits, why: Refusal::Overtaken });
                }
            }
            let upto = u64::try_from(index).unwrap_or(u64::MAX);
            if slot.origin.member == self.me && slot.origin.start == self.start {
                self.ready |= self.mark == Some(slot.origin);
                let later = self.reads.split_off(&slot.origin.number.saturating_add(1));
                for (ticket, _) in std::mem::replace(&mut self.reads, later).into_values() {
                    effects.push(Effect::Confirmed { ticket, upto });
                }
            }
            if let Some(bytes) = slot.bytes {
                effects.push(Effect::Committed { group: self.id.clone(), index: upto, bytes, ticket });
            }
        }
    }

    /// In a new group the sites hear of each other one by one, and one after the other leads: what the first orders would
    /// be the next one's to decide.
    fn is_settled(&self) -> bool {
        self.given() > 0 || self.age > self.settings.election.saturating_mul(2)
    }

    /// A new leader first sets a mark: it leads once that is committed.
    fn lead(&mut self) {
        if self.paxos.get_current_leader() != Some((self.me, true)) {
            (self.mark, self.ready, self.resigned) = (None, false, None);
        } else if self.mark.is_none() && self.is_settled() {
            self.number = self.number.saturating_add(1);
            let origin = Origin { member: self.me, start: self.start, number: self.number };
            self.mark = Some(origin);
            self.set_mark(origin);
        }
    }

    /// Gives a place to what waits for one, or refuses it.
    fn place(&mut self, effects: &mut Vec<Effect>) {
        while let Some(first) = self.waiting.front() {
            let refusal = match self.can_place(first) {
                Ok(true) => None,
                Ok(false) => return,
                Err(refusal) => Some(refusal),
            };
            let Some(Waiting { ticket, bytes, .. }) = self.waiting.pop_front() else { return };
            if let Some(why) = refusal {
                effects.push(Effect::Refused { ticket, why });
                continue;
            }
            self.number = self.number.saturating_add(1);
            let origin = Origin { member: self.me, start: self.start, number: self.number };
            let index = self.append(Slot { origin, bytes: Some(bytes) });
            self.proposed.insert((index, origin), ticket);
        }
    }

    /// Whether an entry has a place now; false: it may soon.
    fn can_place(&self, waiting: &Waiting) -> Result<bool, Refusal> {
        let patient = self.age <= self.settings.patience && waiting.ticks <= self.settings.patience;
        if self.mute {
            let soon = waiting.ticks <= self.settings.patience;
            return if soon { Ok(false) } else { Err(Refusal::InDoubt) };
        }
        if !self.hears_majority() {
            return if patient { Ok(false) } else { Err(Refusal::NoMajority) };
        }
        if !self.ready {
            return match self.others_leader() {
                // What is sent to a leader that is gone is neither executed nor known not to be.
                Some(leader) if self.is_overdue(leader) && waiting.ticks <= self.settings.patience => {
                    Ok(false)
                }
                Some(leader) => Err(site(&self.id, leader).map_or(Refusal::NoMajority, Refusal::Elsewhere)),
                None if waiting.ticks <= self.settings.patience => Ok(false),
                None => Err(Refusal::NoMajority),
            };
        }
        // Another is about to lead, and is to be asked then.
        if self.resigned.is_some() {
            return if waiting.ticks <= self.settings.patience {
                Ok(false)
            } else {
                Err(Refusal::NoMajority)
            };
        }
        let missing = self.missing();
        match missing.into_iter().next().filter(|_| waiting.needs == Needs::All) {
            Some(_) if patient => Ok(false),
            Some(site) => Err(Refusal::Missing(site)),
            None if self.log.get().len() >= self.settings.limit => Err(Refusal::Full),
            None => Ok(true),
        }
    }

    /// The members that were not heard of late.
    pub(crate) fn missing(&self) -> BTreeSet<Site> {
        let silent = self.links.iter().filter(|(_, link)| !link.is_heard(self.settings.patience));
        silent.filter_map(|(node, _)| site(&self.id, *node)).collect()
    }

    fn hears_majority(&self) -> bool {
        let others = self.links.values().filter(|link| link.is_heard(self.settings.patience)).count();
        others.saturating_add(1) > self.id.sites.len() / 2
    }

    /// Whether a member was silent for longer than its heartbeats take.
    fn is_overdue(&self, node: u64) -> bool {
        let round = self.round();
        self.links.get(&node).is_none_or(|link| {
            !link.is_heard(round.saturating_add(link.round_trip().unwrap_or(round)).saturating_add(1))
        })
    }

    /// Whether a member does not answer: it was silent for long, or for longer than its heartbeats take while another leads.
    pub(crate) fn has_lost(&self, site: &Site) -> bool {
        let Some(node) = member(&self.id, site).filter(|node| *node != self.me) else { return false };
        let silent = self.links.get(&node).is_none_or(|link| !link.is_heard(self.settings.patience));
        let follows = self.paxos.get_current_leader().is_some_and(|(leader, _)| leader == node);
        silent || !follows && self.is_overdue(node)
    }

    /// Another member that leads, and was heard of late.
    fn others_leader(&self) -> Option<u64> {
        let (leader, _) = self.paxos.get_current_leader()?;
        self.links.get(&leader)?.is_heard(self.settings.patience).then_some(leader)
    }

    /// Who leads, as far as is known here; this site only where it can order now.
    pub(crate) fn leader(&self) -> Option<Site> {
        let leader = if self.ready { Some(self.me) } else { self.others_leader() };
        leader.and_then(|node| site(&self.id, node))
    }

    /// Whether this site leads, and knows all that was committed before it did.
    pub(crate) fn leads(&self) -> bool {
        self.ready && self.resigned.is_none()
    }

    /// The leader has all drop what all were given.
    fn forget(&mut self) {
        if self.ready {
            let all = usize::try_from(self.given_to_all()).unwrap_or(usize::MAX);
            // It may be too early: then later.
            if all > self.paxos.get_compacted_idx() {
                let _ = self.paxos.trim(Some(all));
            }
        }
    }

    /// Sends what the library wants sent.
    fn flush(&mut self, effects: &mut Vec<Effect>) {
        let mut messages = Vec::new();
        self.paxos.take_outgoing_messages(&mut messages);
        for message in messages {
            if let Agreement::BLE(heartbeat) = &message
                && let HeartbeatMsg::Request(request) = &heartbeat.msg
                && self.rounds.back().is_none_or(|(round, _)| *round != request.round)
            {
                self.rounds.push_back((request.round, self.age));
                if self.rounds.len() > ROUNDS {
                    self.rounds.pop_front();
                }
            }
            self.send(message.get_receiver(), Payload::Agreement(record::encode(&message)), effects);
        }
    }

    fn send(&mut self, to: u64, payload: Payload, effects: &mut Vec<Effect>) {
        let given = self.given();
        let Some((link, site)) = self.links.get_mut(&to).zip(site(&self.id, to)) else { return };
        let message = Message { group: self.id.clone(), stamp: link.stamp(), given, payload };
        effects.push(Effect::Send { to: site, message });
    }

    /// What has to be durable before anything else of this call is done.
    pub(crate) fn changes(&self, put: &mut Vec<Record>, remove: &mut Vec<Key>) {
        let changes = self.log.get().changes();
        let index = |index: usize| u64::try_from(index).unwrap_or(u64::MAX);
        put.extend(changes.head.map(|head| Record::Head(self.id.clone(), head)));
        put.extend(changes.put.into_iter().map(|(at, slot)| Record::Slot(self.id.clone(), index(at), slot)));
        remove.extend(changes.gone.into_iter().map(|at| Key::Slot(self.id.clone(), index(at))));
    }

    /// How many entries this site was given.
    pub(crate) fn given(&self) -> u64 {
        u64::try_from(self.log.get().head.given).unwrap_or(u64::MAX)
    }

    /// How many entries every member is known to have been given.
    pub(crate) fn given_to_all(&self) -> u64 {
        self.links.values().map(|link| link.given).fold(self.given(), u64::min)
    }

    /// How many entries its log holds.
    pub(crate) fn kept(&self) -> usize {
        self.log.get().len()
    }
}

/// The library cannot be copied: the copy goes on as after a restart, with the same log and links.
impl Clone for Group {
    fn clone(&self) -> Group {
        let log: Log = self.log.get().clone();
        let here = site(&self.id, self.me);
        let fresh = here
            .and_then(|here| Group::new(&here, self.id.clone(), self.start, self.settings, Shared::new(log)));
        // It is of the same sites as this one, which exists.
        let fresh = fresh.unwrap_or_else(|| unreachable!("a group of {:?}", self.id));
        Group {
            links: self.links.clone(),
            age: self.age,
            number: self.number,
            waiting: self.waiting.clone(),
            proposed: self.proposed.clone(),
            reads: self.reads.clone(),
            shown: self.shown.clone(),
            mute: self.mute,
            ..fresh
        }
    }
}

/// Equal where both would go on alike after a restart: what the library holds in memory cannot be seen.
impl PartialEq for Group {
    fn eq(&self, other: &Group) -> bool {
        let same = std::ptr::eq(self, other);
        let of = |own: &Group| (own.me, own.start, own.mute, own.log());
        same || self.id == other.id && of(self) == of(other)
    }
}

impl Eq for Group {}

impl Hash for Group {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.id, self.me, self.start, self.log()).hash(state);
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("id", &self.id)
            .field("leader", &self.paxos.get_current_leader())
            .field("promise", &self.paxos.get_promise())
            .field("ready", &self.ready)
            .field("waiting", &self.waiting.len())
            .field("links", &self.links)
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}
