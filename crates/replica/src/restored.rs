//! A site that was given back old records finds that out, and makes nothing worse until it knows more.
//!
//! Whoever puts back what Archipel recorded, and not what the service has, has a site that would execute again what its
//! service executed already. Its own records cannot tell. The other sites can: each keeps durably how far the records of
//! every other site had come when that last confirmed something ([`Mark`]). A site that starts says where the records of
//! each of its runs ended; where another site heard of more, these are old.
//!
//! - Until a peer has said that its records are not old, a site that started executes nothing that this peer may have
//!   sent, takes no state of it, and offers and gives it none. What it accepts from now on it executes at once. Where all
//!   others are away it goes on with what it had accepted before, too: a site that restarts alone serves alone.
//! - A site whose records are old has suspect replicas ([`Condition::Suspect`]): none is read, written, told of or copied
//!   until it was compared with the others.
//! - In an order it says nothing that counts to a site that has not said so. One whose records are old takes no part in one until
//!   the others have told it what it may have forgotten (`ordered/readmit`).
//! - One that is as another good one is goes on with what that one knows. Of one that is not, the state of the others is
//!   taken where more than half of all replicas are good without it, or where the service here has nothing to lose.
//!   Else an operator has to say which is good. What all others lack stays as it is, and is shown.

use std::collections::{BTreeMap, BTreeSet};

use scope::Site;
use serde::{Deserialize, Serialize};

use crate::entry::Entry;
use crate::epoch::Epoch;
use crate::event::{Effect, Message, Timer};
use crate::machine::Machine;
use crate::operation::{Class, Doubt, Level, Meta, OpId, Operation};
use crate::record::{Condition, Key, Record, Running, Stage};
use crate::resource::{Execution, How};
use crate::standing::{Content, Standing};
use crate::version::Version;

/// So many runs of its own a site remembers the ends of.
const MAX_RUNS: usize = 64;
/// After so many first pauses, a peer that can be reached and says nothing is not waited for any more.
const PATIENCE: u64 = 10;

/// How far a site's records are: a later one is of newer records of the same site, if none of them were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Mark {
    /// The run.
    pub epoch: Epoch,
    /// How often the site had recorded something, over all its runs.
    pub number: u64,
}

/// The runs of a site, as its records have them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lineage {
    /// How far the records were at the end of each run before this one, or how far others had heard that they were.
    ended: BTreeMap<Epoch, u64>,
    /// The records were put back, once.
    restored: bool,
    /// The last operation of each site that may have been executed here before that.
    met: BTreeMap<Site, (Epoch, u64)>,
}

impl Lineage {
    fn end(&mut self, Mark { epoch, number }: Mark) {
        let end = self.ended.entry(epoch).or_default();
        *end = number.max(*end);
        while self.ended.len() > MAX_RUNS {
            self.ended.pop_first();
        }
    }

    fn marks(&self) -> Vec<Mark> {
        self.ended.iter().map(|(&epoch, &number)| Mark { epoch, number }).collect()
    }

    /// Whether an operation of another site may have been executed here before the records were put back.
    fn may_have_run(&self, op: &OpId) -> bool {
        let after = |met: &(Epoch, u64)| (op.epoch, op.counter) > *met;
        self.restored && !self.met.get(&op.site).is_some_and(after)
    }
}

/// Whether a site had come further, as it was heard, than the runs that it knows of.
fn is_behind(heard: Mark, ended: &[Mark]) -> bool {
    match ended.iter().find(|mark| mark.epoch == heard.epoch) {
        Some(mark) => mark.number < heard.number,
        // Only the last so many are remembered.
        None => ended.len() < MAX_RUNS || ended.iter().any(|mark| mark.epoch < heard.epoch),
    }
}

/// How far this site trusts its own records, and what it heard of the others'.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Trust {
    /// How often something was recorded here.
    pub number: u64,
    lineage: Lineage,
    heard: BTreeMap<Site, Mark>,
    /// The driver says that the records may be old.
    distrusted: bool,
    pub started: bool,
    /// Sites that say that the records here are not old, and the last operation that each had accepted then.
    welcomed: BTreeMap<Site, (Epoch, u64)>,
    /// Sites that say nothing are not waited for any more.
    alone: bool,
    changed: BTreeSet<Key>,
}

impl Trust {
    /// Takes in a record, if it is about this.
    pub(crate) fn restore(&mut self, record: Record) {
        match record {
            Record::Site { number, .. } => self.number = number,
            Record::Lineage(lineage) => self.lineage = lineage,
            Record::Heard { site, mark } => drop(self.heard.insert(site, mark)),
            _ => {}
        }
    }

    /// What changed since this was last asked.
    pub(crate) fn changes(&mut self) -> Vec<Record> {
        let record = |key| match key {
            Key::Heard(site) => self.heard.get(&site).map(|&mark| Record::Heard { site, mark }),
            _ => Some(Record::Lineage(self.lineage.clone())),
        };
        std::mem::take(&mut self.changed).into_iter().filter_map(record).collect()
    }

    /// The last run of another site that was heard of.
    pub(crate) fn run_of(&self, site: &Site) -> Option<Epoch> {
        self.heard.get(site).map(|mark| mark.epoch)
    }

    /// A site's records are known to have come so far. What it confirmed by that counts here, so that it must not be forgotten:
    /// then it is recorded.
    pub(crate) fn hear(&mut self, site: &Site, mark: Mark, counts: bool) {
        if self.heard.get(site).is_some_and(|heard| mark < *heard) {
            return;
        }
        let before = self.heard.insert(site.clone(), mark);
        // Sites that never started record nothing of this.
        if before.is_none() || counts && (before != Some(mark) || mark.number > 0) {
            self.changed.insert(Key::Heard(site.clone()));
        }
    }

    /// True where a site has said that the records here are not old.
    pub(crate) fn is_welcomed(&self, site: &Site) -> bool {
        !self.started || self.welcomed.contains_key(site)
    }

    /// Whether operations are offered to a site, and states taken from it.
    pub(crate) fn is_met(&self, site: &Site) -> bool {
        !self.started || self.alone || self.welcomed.contains_key(site)
    }
}

impl Machine {
    /// The records here may be an old copy, as far as the driver can tell: every replica is compared before it is used. To
    /// be said before [`Machine::start`].
    pub fn distrust(&mut self) {
        self.trust.distrusted = true;
    }

    /// A new run begins, after this one.
    pub(crate) fn begin_run(&mut self, before: Epoch) {
        let trust = &mut self.trust;
        trust.started = true;
        trust.lineage.end(Mark { epoch: before, number: trust.number });
        trust.changed.insert(Key::Lineage);
        self.wake_after(Timer::Trust, self.settings.retry_ms.saturating_mul(PATIENCE));
        if self.trust.distrusted {
            self.is_restored();
            self.doubt_orders();
        }
    }

    /// The run has another number from now on.
    pub(crate) fn renumber_run(&mut self, epoch: Epoch) {
        let before = std::mem::replace(&mut self.epoch, epoch);
        self.call.site = true;
        self.trust.lineage.end(Mark { epoch: before, number: self.trust.number });
        self.trust.changed.insert(Key::Lineage);
        self.raise_start();
    }

    pub(crate) fn hello(&mut self, to: &Site, heard: Option<Epoch>) {
        let (epoch, ended) = (self.epoch, self.trust.lineage.marks());
        self.send(to, Message::Hello { epoch, heard, ended });
    }

    /// To a site that has not said yet whether the records here are old.
    pub(crate) fn hello_again(&mut self, to: &Site) {
        if self.trust.started && !self.trust.welcomed.contains_key(to) {
            self.hello(to, None);
        }
    }

    /// A site says which run of its this is, and what it knows of those before. Whether this is its last, and news.
    pub(crate) fn admit(&mut self, from: &Site, epoch: Epoch, ended: &[Mark]) -> bool {
        let heard = self.trust.heard.get(from).copied();
        let latest = (self.epoch, self.counter);
        if let Some(heard) = heard.filter(|heard| epoch < heard.epoch) {
            self.hello(from, Some(heard.epoch));
            return false;
        }
        let behind = heard.filter(|heard| heard.epoch < epoch && is_behind(*heard, ended));
        if behind.is_none() {
            self.trust.hear(from, Mark { epoch, number: 0 }, true);
        }
        self.send(from, Message::Welcome { run: epoch, behind, latest });
        self.hello_again(from);
        behind.is_none() && heard.is_some_and(|heard| heard.epoch < epoch)
    }

    /// Another site says whether the records here are old.
    pub(crate) fn welcomed(&mut self, from: &Site, behind: Option<Mark>, latest: (Epoch, u64)) {
        let trust = &mut self.trust;
        match behind {
            Some(mark) => {
                // Who was put in doubt since is told all that it did in runs before, or was.
                let since = self.ordering.orders.doubted_since();
                let news = is_behind(mark, &trust.lineage.marks()) && mark.epoch.number >= since;
                trust.lineage.end(mark);
                self.is_restored();
                if news {
                    self.doubt_orders();
                }
                self.trust.lineage.met.insert(from.clone(), latest);
                self.hello(from, None);
            }
            None => {
                if trust.welcomed.insert(from.clone(), latest).is_none() {
                    if trust.lineage.restored && !trust.lineage.met.contains_key(from) {
                        trust.lineage.met.insert(from.clone(), latest);
                        trust.changed.insert(Key::Lineage);
                    }
                    self.go_on();
                }
            }
        }
    }

    /// The record of this site: from now on it is one further.
    pub(crate) fn site_record(&mut self) -> Record {
        self.trust.number = self.trust.number.saturating_add(u64::from(self.trust.started));
        let (counter, clock, epoch, number) = (self.counter, self.clock, self.epoch, self.trust.number);
        Record::Site { counter, clock, epoch, number }
    }

    /// A confirmation says how far the records are, which are durable before it is sent.
    pub(crate) fn marked(&self, mut effect: Effect) -> Effect {
        if let Effect::Send {
            message: Message::Confirm { number, .. } | Message::Order { number, .. }, ..
        } = &mut effect
        {
            *number = self.trust.number;
        }
        effect
    }

    /// Peers that can be reached and say nothing are not waited for any longer.
    pub(crate) fn wait_no_longer(&mut self) {
        self.trust.alone = true;
        self.go_on();
    }

    /// Goes on with what waited for the word of another site.
    pub(crate) fn go_on(&mut self) {
        let waits = |entry: &Entry| entry.resource.ops.values().any(|op| op.body.is_some());
        let metas = self.entries.iter().filter(|(_, entry)| waits(entry)).map(|(meta, _)| meta.clone());
        for meta in metas.collect::<Vec<_>>() {
            self.touch(&meta);
            if let Some(entry) = self.entries.get_mut(&meta) {
                entry.told = None;
            }
        }
    }

    /// Whether every other site of a resource has said that the records here are not old, or is not waited for.
    pub(crate) fn is_trusted(&self, entry: &Entry) -> bool {
        !self.trust.started || self.trust.alone || self.heeded(entry).iter().all(|site| self.is_settled(site))
    }

    fn is_settled(&self, site: &Site) -> bool {
        self.trust.welcomed.contains_key(site) || self.links.get(site).is_some_and(|link| link.down)
    }

    /// What may be executed of a resource now.
    pub(crate) fn gate(&self, entry: &Entry) -> Gate {
        let trusted = self.is_trusted(entry);
        let met = || {
            let others = self.heeded(entry);
            others.is_empty() || others.iter().any(|site| self.trust.welcomed.contains_key(site))
        };
        let theirs = trusted && (!self.trust.started || met());
        Gate { here: self.here.clone(), epoch: self.epoch, ours: trusted, theirs }
    }

    /// The records here are old: what others may have of it is compared.
    fn is_restored(&mut self) {
        let Trust { lineage, welcomed, changed, .. } = &mut self.trust;
        (lineage.restored, lineage.met) = (true, welcomed.clone());
        changed.insert(Key::Lineage);
        // Of what only its name is known, what it was made by says more.
        let known = |entry: &Entry| entry.resource.progress.known != Version::default();
        let metas = self.entries.iter().filter(|(_, entry)| known(entry)).map(|(meta, _)| meta.clone());
        for meta in metas.collect::<Vec<_>>() {
            self.suspect(&meta);
        }
    }

    /// A replica is suspect, unless it was made in this run: what it has may be more than the records here say.
    fn suspect(&mut self, meta: &Meta) {
        let Some(entry) = self.entries.get(meta) else { return };
        let own = |op: &Operation| op.id.site == self.here && op.id.epoch == self.epoch;
        let new = entry.resource.ops.values().any(|op| op.class == Class::Create && own(op));
        if new || entry.others(&self.here).is_empty() {
            return;
        }
        self.touch(meta);
        let Some(entry) = self.entries.get_mut(meta) else { return };
        if entry.is_undecided() && !entry.map.chosen {
            // Nobody else knows its name: whether it was made can only be looked up.
            let waits = entry.running.as_ref().is_some_and(|running| running.stage == Stage::Waiting);
            if waits {
                self.ask_operator(meta);
            }
            return;
        }
        entry.condition = Condition::Suspect;
        // A state that is under way was asked for before this was known.
        entry.comparing.anew = true;
        self.wake(Timer::Copy(meta.clone()), 1);
    }

    /// Whether nothing is known here of what an operation is to, and it may have been executed here before the records were
    /// put back.
    pub(crate) fn is_suspicious(&self, meta: &Meta, op: &OpId) -> bool {
        let unknown = |entry: &Entry| entry.resource.progress.known == Version::default();
        self.trust.lineage.may_have_run(op) && self.entries.get(meta).is_some_and(|entry| unknown(&entry))
    }

    pub(crate) fn suspect_one(&mut self, meta: &Meta) {
        if self.entries.get(meta).is_some_and(|entry| entry.condition != Condition::Suspect) {
            self.suspect(meta);
        }
    }

    /// Whether nothing is known here of a resource, and its replica may have been made before the records were put back.
    pub(crate) fn may_have_made(&self, meta: &Meta) -> bool {
        let unknown = |entry: &Entry| entry.resource.progress.known == Version::default();
        self.trust.lineage.restored && self.entries.get(meta).is_some_and(|entry| unknown(&entry))
    }

    /// Compares a suspect replica with the others.
    pub(crate) fn vet(&mut self, meta: &Meta) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        if entry.fetching || entry.installing.is_some() {
            return;
        }
        entry.comparing.anew = false;
        self.compare(meta);
        self.inquire(std::slice::from_ref(meta));
    }

    /// Once more, later.
    fn vet_later(&mut self, meta: &Meta) {
        let Some(entry) = self.entries.get_mut(meta) else { return };
        entry.copies = entry.copies.wrapping_add(1);
        let attempts = u32::try_from(entry.copies).unwrap_or(u32::MAX);
        self.wake(Timer::Copy(meta.clone()), attempts);
    }

    /// What becomes of a suspect replica, by what all said of themselves.
    pub(crate) fn judge(&mut self, meta: &Meta, sites: BTreeMap<Site, Option<Standing>>) {
        let own = sites.get(&self.here).and_then(Option::as_ref);
        let Some((ours, done)) = own.and_then(|own| Some((own.content?, own.done.clone()))) else {
            return self.vet_later(meta);
        };
        if ours == Content::Absent && self.looks_for_creation(meta) {
            return self.vet_later(meta);
        }
        match ruling(&self.here, ours, &done, &sites) {
            Ruling::Take(good) => {
                self.clear_suspicion(meta);
                self.repair(meta, good);
            }
            Ruling::Good => {
                self.touch(meta);
                self.clear_suspicion(meta);
                if let Some(entry) = self.entries.get_mut(meta) {
                    entry.condition = Condition::Good;
                }
            }
            Ruling::Unclear => {
                let Some(entry) = self.entries.get_mut(meta) else { return };
                if entry.comparing.differing.is_empty() {
                    entry.comparing.differing = [self.here.clone()].into();
                    self.call.effects.push(Effect::Differs { resource: meta.clone(), sites });
                }
                self.vet_later(meta);
            }
        }
    }

    /// The service here may have made what nobody knows the name of: that is looked for as after a crash, before it is made of another's
    /// state. Whether that goes on.
    fn looks_for_creation(&mut self, meta: &Meta) -> bool {
        let Some(entry) = self.entries.get(meta) else { return false };
        let creates = |op: &&Operation| op.class == Class::Create && op.doubt != Doubt::Repeat;
        let undone = |op: &&Operation| !entry.resource.progress.done.covers(&op.id);
        let made = entry.resource.ops.values().filter(creates).find(undone);
        let Some(op) = made.filter(|_| !entry.comparing.unmade && entry.map.local(&self.here).is_none())
        else {
            return false;
        };
        if entry.running.is_none() {
            let execution = Execution { op: op.id.clone(), how: How::Create };
            self.touch(meta);
            if let Some(entry) = self.entries.get_mut(meta) {
                entry.running = Some(Running { execution, stage: Stage::Sent, doubted: true, attempts: 0 });
            }
            self.doubt(meta);
        }
        true
    }

    fn clear_suspicion(&mut self, meta: &Meta) {
        if let Some(entry) = self.entries.get_mut(meta) {
            entry.comparing.differing.clear();
            entry.copies = 0;
        }
    }
}

/// What may be executed of a resource.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    here: Site,
    epoch: Epoch,
    /// What this site accepted in the runs before.
    ours: bool,
    /// What other sites did.
    theirs: bool,
}

impl Gate {
    /// Whether this may be: what is accepted in this run, always.
    pub(crate) fn lets(&self, op: &OpId) -> bool {
        if op.site == self.here { self.ours || op.epoch == self.epoch } else { self.theirs }
    }
}

/// What is to become of a suspect replica.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ruling {
    /// It is given the state of one of these.
    Take(BTreeSet<Site>),
    /// It is good as it is.
    Good,
    /// Nobody knows yet, or only an operator does.
    Unclear,
}

fn ruling(here: &Site, ours: Content, done: &Version, sites: &BTreeMap<Site, Option<Standing>>) -> Ruling {
    let others: Vec<(&Site, &Standing)> = sites
        .iter()
        .filter(|(site, _)| *site != here)
        .filter_map(|(site, standing)| Some((site, standing.as_ref()?)))
        .collect();
    let nothing = matches!(ours, Content::Gone | Content::Absent);
    let equal = |standing: &Standing| {
        let theirs = standing.content;
        theirs == Some(ours) && !nothing || theirs == Some(Content::Absent) && nothing
    };
    let all = others.len().saturating_add(1) == sites.len();
    // All were put back together.
    if all && others.iter().all(|(_, other)| other.content == Some(ours) && other.done == *done) {
        return Ruling::Good;
    }
    let known =
        |standing: &Standing| standing.condition == Condition::Good && standing.known != Version::default();
    let good: BTreeMap<&Site, &Standing> = others.into_iter().filter(|(_, other)| known(other)).collect();
    let alike: BTreeSet<Site> =
        good.iter().filter(|(_, other)| equal(other)).map(|(site, _)| (*site).clone()).collect();
    let most = good.len().saturating_mul(2) > sites.len();
    match (alike.is_empty(), nothing || most, good.is_empty()) {
        (false, _, _) => Ruling::Take(alike),
        (true, true, false) => Ruling::Take(good.into_keys().cloned().collect()),
        _ => Ruling::Unclear,
    }
}

/// Whether the service here is to be read for a comparison: at `@weak` replicas need not be equal, so that only a suspect one is
/// compared.
pub(crate) fn is_compared(entry: &Entry) -> bool {
    let asked = !entry.comparing.inquirers.is_empty();
    entry.map.level != Level::Weak || asked || entry.condition == Condition::Suspect
}
