//! A site whose records were put back takes part in no order until the other members have told it what it may have forgotten.
//!
//! It is mute in its groups (`order::Orders::distrust`), and its ordered replicas are suspect. Each other member tells it, of a group, the log, and which
//! resources there are. Once all have, it takes part again; each replica is given the state of another before it is used, as
//! the service here may have executed what the records do not say. Of two members, the operator says that the other is to be believed
//! ([`crate::Event::Repair`]): nobody else can tell whether its records were put back, too.

use std::collections::{BTreeMap, BTreeSet};

use order::{GroupId, Testimony};
use scope::Site;
use serde::{Deserialize, Serialize};

use super::{Ordered, Turn, group};
use crate::event::{Effect, Message, Reply, Ticket, Timer};
use crate::machine::Machine;
use crate::map::{ReplicaMap, Unchangeable};
use crate::operation::{Class, Doubt, Meta};
use crate::record::{Condition, Stage};

/// A member that does not know either is asked again after so many rounds of heartbeats.
const AGAIN_ROUNDS: u32 = 5;

/// One resource of a group, as another member has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Listed {
    map: ReplicaMap,
    /// Every write before this place is finished there.
    done: u64,
    exists: bool,
}

/// All that another member has of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Recollection {
    pub(crate) log: Testimony,
    resources: Vec<Listed>,
}

/// The word of other members on groups in which this site is mute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Recall {
    /// None: that one's records were put back, too.
    said: BTreeMap<GroupId, BTreeMap<Site, Option<Recollection>>>,
    /// The site that the operator believes.
    believed: BTreeMap<GroupId, Site>,
}

impl Machine {
    /// The records here were put back: this site is mute in every group, and no ordered replica is used.
    pub(crate) fn doubt_orders(&mut self) {
        let mut effects = Vec::new();
        self.ordering.orders.distrust(self.epoch.number, &mut effects);
        self.ordering.inbox.extend(effects);
        self.ordering.recall = Recall::default();
        for meta in self.ordering.entries.keys().cloned().collect::<Vec<_>>() {
            self.suspect_ordered(&meta);
        }
        self.pump();
        self.ordering.purposes.clear();
    }

    fn suspect_ordered(&mut self, meta: &Meta) {
        self.touch_ordered(meta);
        let Some(entry) = self.ordering.entries.get_mut(meta) else { return };
        entry.condition = Condition::Suspect;
        entry.epoch = entry.epoch.saturating_add(1);
        (entry.fetching, entry.proposed) = (false, None);
        let asked = entry.may_be_made(&self.here);
        entry.running.take_if(|running| !asked && matches!(running.stage, Stage::Waiting | Stage::InDoubt));
    }

    /// The run has another number from now on.
    pub(crate) fn raise_start(&mut self) {
        let mut effects = Vec::new();
        self.ordering.orders.raise(self.epoch.number, &mut effects);
        self.ordering.inbox.extend(effects);
        self.ordering.recall.said.clear();
    }

    pub(crate) fn is_mute(&self, entry: &Ordered) -> bool {
        self.ordering.orders.is_in_doubt(&entry.group())
    }

    /// Asks the others what this site may have forgotten.
    pub(crate) fn ask_what_was(&mut self) {
        let again =
            self.ordering.ticks.checked_rem(self.settings.order.election.saturating_mul(AGAIN_ROUNDS))
                == Some(0);
        for (group, start) in self.ordering.orders.in_doubt() {
            for site in group.sites.iter().filter(|site| **site != self.here).cloned().collect::<Vec<_>>() {
                let said = self.ordering.recall.said.get(&group).and_then(|said| said.get(&site));
                if said.is_none_or(|said| said.is_none() && again) {
                    self.ask_one(&site, &group, start);
                }
            }
        }
    }

    fn ask_one(&mut self, site: &Site, group: &GroupId, start: u64) {
        if self.is_introduced(site) {
            self.send(site, Message::Forgot { group: group.clone(), start, epoch: self.epoch });
        }
    }

    /// Another member may have forgotten what it did in a group.
    pub(crate) fn asked_what_was(&mut self, from: &Site, id: &GroupId, start: u64) {
        if !id.sites.contains(&self.here) || from == &self.here {
            return;
        }
        let said = match self.ordering.orders.testify(id, from, start) {
            None => return,
            Some(Err(())) => None,
            Some(Ok(log)) => {
                let own = || self.ordering.entries.values().filter(|entry| entry.group() == *id);
                // What stands before the log has to be over here: it cannot be told.
                if own().any(|entry| entry.first().is_some_and(|(place, _)| place < log.first())) {
                    return;
                }
                let listed = |entry: &Ordered| {
                    let (done, exists) = (entry.queue.done, entry.queue.exists);
                    Listed { map: entry.map.clone(), done, exists }
                };
                let resources = own().map(listed).collect();
                Some(Box::new(Recollection { log, resources }))
            }
        };
        self.send(from, Message::Recalled { group: id.clone(), start, said });
    }

    /// Another member says what was.
    pub(crate) fn told_what_was(
        &mut self,
        from: &Site,
        id: &GroupId,
        start: u64,
        said: Option<Box<Recollection>>,
    ) {
        let asks = self.ordering.orders.in_doubt().contains(&(id.clone(), start));
        if !asks || !id.sites.contains(from) {
            return;
        }
        for listed in said.iter().flat_map(|said| &said.resources) {
            self.know_of(id, listed);
        }
        let told = self.ordering.recall.said.entry(id.clone()).or_default();
        told.insert(from.clone(), said.map(|said| *said));
        self.readmit(id, from, start);
    }

    /// A resource that another member told of. Until this site is readmitted, it is shown.
    fn know_of(&mut self, id: &GroupId, Listed { map, .. }: &Listed) {
        if group(map) != *id || self.entries.contains_key(&map.meta) {
            return;
        }
        self.touch_ordered(&map.meta);
        // It may have had no name yet when the copy was made.
        let here = &self.here;
        let nameless = self.ordering.entries.range(Meta("~".into())..).find(|(meta, entry)| {
            **meta != map.meta && entry.group() == *id && entry.map.since(here) == map.since(here)
        });
        let nameless = nameless.map(|(meta, _)| meta.clone());
        if let Some(from) = nameless.filter(|_| !self.is_ordered(&map.meta)) {
            self.touch_ordered(&from);
            self.rename_ordered(&from, map.meta.clone());
        }
        let suspect = || Ordered { condition: Condition::Suspect, ..Ordered::new(map.clone()) };
        let entry = self.ordering.entries.entry(map.meta.clone()).or_insert_with(suspect);
        entry.map.merge(map);
    }

    /// Takes part again in a group, if enough is known of it, once the best log has come with all that it names.
    fn readmit(&mut self, id: &GroupId, from: &Site, start: u64) {
        let Some(said) = self.ordering.recall.said.get(id) else { return };
        let others = id.sites.len().saturating_sub(1);
        let mut knowing: BTreeMap<Site, Recollection> =
            said.iter().filter_map(|(site, said)| Some((site.clone(), said.clone()?))).collect();
        let nothing = knowing.values().all(|said| said.log.is_empty());
        let sure = knowing.len() == others && (others > 1 || nothing);
        let believed = self.ordering.recall.believed.get(id).is_some_and(|site| knowing.contains_key(site));
        if said.len() < others || !sure && !believed {
            return;
        }
        let logs: BTreeMap<Site, Testimony> =
            knowing.iter().map(|(site, said)| (site.clone(), said.log.clone())).collect();
        let Some(best) = Testimony::best(&logs) else { return };
        if best != *from {
            self.ordering.recall.said.entry(id.clone()).or_default().remove(&best);
            return self.ask_one(&best, id, start);
        }
        let mut effects = Vec::new();
        let done = self.ordering.orders.readmit(id, &logs, &mut effects);
        let Some(chosen) = knowing.remove(&best).filter(|_| done) else { return };
        self.ordering.recall.said.remove(id);
        self.ordering.recall.believed.remove(id);
        self.begin_from(id, &chosen);
        self.ordering.inbox.extend(effects);
        self.pump();
        for meta in self.of_group(id) {
            self.note_busy(&meta);
            self.copy_ordered(&meta);
        }
    }

    fn of_group(&self, id: &GroupId) -> Vec<Meta> {
        let own = self.ordering.entries.iter().filter(|(_, entry)| entry.group() == *id);
        own.map(|(meta, _)| meta.clone()).collect()
    }

    /// Begins with the log that was told: all before it is known as its teller knew it.
    fn begin_from(&mut self, id: &GroupId, told: &Recollection) {
        let mut listed = BTreeSet::new();
        for Listed { map, done, exists } in &told.resources {
            let meta = &map.meta;
            self.touch_ordered(meta);
            let asked = self.ordering.entries.get(meta).is_some_and(|entry| entry.may_be_made(&self.here));
            if !asked {
                self.finish_before(meta, told.log.first().max(*done));
            }
            let Some(entry) = self.ordering.entries.get_mut(meta).filter(|entry| entry.group() == *id) else {
                continue;
            };
            listed.insert(meta.clone());
            entry.condition = Condition::Suspect;
            (entry.queue.done, entry.queue.exists) = (*done, *exists);
            // They come once more, with what became of them.
            entry.queue.turns.values_mut().for_each(|turn| (turn.verdict, turn.tried) = (None, None));
        }
        for meta in self.of_group(id).into_iter().filter(|meta| !listed.contains(meta)) {
            self.may_be_gone(&meta, told.log.given());
        }
    }

    /// The turns before this place are over at every other member that this site believes.
    pub(super) fn finish_before(&mut self, meta: &Meta, place: u64) {
        let Some(entry) = self.ordering.entries.get_mut(meta) else { return };
        let rest = entry.queue.turns.split_off(&place);
        for (index, turn) in std::mem::replace(&mut entry.queue.turns, rest) {
            let executed = matches!(turn.verdict, Some(super::Ruling::Execute { .. }));
            let (resource, op) = (meta.clone(), turn.operation.id.clone());
            self.call.effects.push(Effect::Finished { resource, op, place: index, executed });
            entry.queue.bodies.extend(turn.operation.body.map(|body| (index, body)));
        }
    }

    /// A site that was given all before this place does not know of a resource: if nothing here is of later, it is gone.
    fn may_be_gone(&mut self, meta: &Meta, given: u64) {
        self.touch_ordered(meta);
        let Some(entry) = self.ordering.entries.get(meta) else { return };
        if entry.may_be_made(&self.here)
            || entry.queue.done > given
            || entry.queue.turns.keys().any(|place| *place >= given)
        {
            return;
        }
        self.finish_before(meta, u64::MAX);
        let Some(entry) = self.ordering.entries.remove(meta) else { return };
        self.ordering.busy.remove(meta);
        self.call.effects.extend(entry.queue.bodies.into_values().map(Effect::Erase));
        if let Some(local) = entry.map.local(&self.here).filter(|_| entry.queue.exists) {
            // By a name that clients choose there may be something else by now.
            let (resource, keep) = (meta.clone(), entry.map.chosen);
            self.call.effects.push(Effect::Release { resource, local: Some(local), keep });
        }
    }

    /// The operator says whose log is to be believed, where not all others can say what was.
    pub(crate) fn believe(&mut self, ticket: Ticket, meta: &Meta, from: Site) {
        let id = self.ordering.entries.get(meta).map(Ordered::group);
        let asks = self.ordering.orders.in_doubt().into_iter().find(|(group, _)| Some(group) == id.as_ref());
        let asks = asks.filter(|(group, _)| from != self.here && group.sites.contains(&from));
        let reply = match asks {
            Some((group, start)) => {
                self.ordering.recall.said.entry(group.clone()).or_default().remove(&from);
                self.ask_one(&from, &group, start);
                self.ordering.recall.believed.insert(group, from);
                Reply::Changed
            }
            None => Reply::Unchanged(Unchangeable::Ordered),
        };
        self.call.effects.push(Effect::Answer { ticket, op: None, reply });
    }

    /// The operator says that the records here are as good as any: all members' were put back. Whether they were.
    pub(crate) fn keeps_its_log(&mut self, meta: &Meta) -> bool {
        let Some(id) = self.ordering.entries.get(meta).map(Ordered::group) else { return false };
        let said = self.ordering.recall.said.get(&id);
        let nobody = said.is_some_and(|said| {
            said.len() == id.sites.len().saturating_sub(1) && said.values().all(Option::is_none)
        });
        if nobody {
            let mut effects = Vec::new();
            self.ordering.orders.keep(&id, &mut effects);
            self.ordering.inbox.extend(effects);
            self.ordering.recall.said.remove(&id);
        }
        nobody
    }

    /// True where the service here may have made what this turn makes, before the records were put back, and nobody knows its name.
    pub(super) fn may_have_made_before(&self, entry: &Ordered, place: u64, turn: &Turn) -> bool {
        let operation = &turn.operation;
        operation.class == Class::Create
            && operation.doubt != Doubt::Repeat
            && !entry.map.chosen
            && entry.map.local(&self.here).is_none()
            && place < self.ordering.orders.acted_upon(&entry.group())
    }

    /// A resource that is new here, at a place that may have been acted upon before the records were put back: it is copied.
    pub(super) fn is_new_to_old_records(&mut self, meta: &Meta, place: u64) {
        let Some(entry) = self.ordering.entries.get_mut(meta) else { return };
        if place < self.ordering.orders.acted_upon(&entry.group()) {
            entry.condition = Condition::Suspect;
            self.wake(Timer::Copy(meta.clone()), 1);
        }
    }
}
