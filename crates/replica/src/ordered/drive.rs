//! The log's own events, time, and what the sites tell each other of ordered resources.

use std::ops::Bound;

use order::{GroupId, Needs, Orders};
use scope::Site;

use super::{Ordered, Purpose, Ruling};
use crate::event::{Effect, Event, Message, Reply, Timer};
use crate::machine::Machine;
use crate::map::{ReplicaMap, Unchangeable};
use crate::operation::{Meta, OpId};
use crate::record::Stage;
use crate::restored::Mark;

impl Machine {
    /// The site that leads the group which orders the writes of a resource, as far as is known here: a driver
    /// may hand writes to it at once. This site only where it can order now.
    #[must_use]
    pub fn leader(&self, meta: &Meta) -> Option<Site> {
        self.ordering.orders.leader(&self.ordering.entries.get(meta)?.group())
    }

    /// Whether another member of the group which orders the writes of a resource does not answer: what was sent to it may
    /// never be answered.
    #[must_use]
    pub fn has_lost(&self, meta: &Meta, site: &Site) -> bool {
        let entry = self.ordering.entries.get(meta);
        entry.is_some_and(|entry| self.ordering.orders.has_lost(&entry.group(), site))
    }

    /// Asks something of the logs. What they want is looked at in [`Machine::pump`].
    pub(crate) fn order(&mut self, event: order::Event) {
        let mut effects = Vec::new();
        self.ordering.orders.on(event, &mut effects);
        self.ordering.inbox.extend(effects);
    }

    /// Does what the logs want, until they want nothing more.
    pub(crate) fn pump(&mut self) {
        while let Some(effect) = self.ordering.inbox.pop_front() {
            match effect {
                order::Effect::Persist { put, remove } => {
                    self.call.order.extend(put.into_iter().map(|record| (record.key(), Some(record))));
                    self.call.order.extend(remove.into_iter().map(|key| (key, None)));
                }
                order::Effect::Send { to, message } if self.is_introduced(&to) => {
                    self.send(&to, Message::Order { epoch: self.epoch, number: 0, message });
                }
                order::Effect::Send { .. } => {}
                order::Effect::Committed { index, bytes, ticket, .. } => {
                    ticket.and_then(|ticket| self.ordering.purposes.remove(&ticket));
                    self.ordered_line(index, &bytes);
                }
                order::Effect::Confirmed { ticket, upto } => {
                    if let Some(Purpose::Read(ticket)) = self.ordering.purposes.remove(&ticket) {
                        self.read_confirmed(ticket, upto);
                    }
                }
                order::Effect::Refused { ticket, why } => {
                    if let Some(purpose) = self.ordering.purposes.remove(&ticket) {
                        self.not_ordered(purpose, why);
                    }
                }
                order::Effect::Leader { leader, .. } => {
                    if leader.as_ref() == Some(&self.here) {
                        // It has yet to hear who was given what.
                        self.ordering.entries.values_mut().for_each(|entry| entry.waited = 0);
                        self.take_all();
                    }
                }
            }
        }
        let groups = self.ordering.orders.groups().next().is_some();
        if groups && !std::mem::replace(&mut self.ordering.ticking, true) {
            let after_ms = self.settings.tick_ms;
            self.call.effects.push(Effect::Wake { timer: Timer::Order, after_ms });
        }
    }

    /// The name that the resource of an operation has now: the first replica may have given it one since it was sent to the
    /// service here.
    #[must_use]
    pub fn current_name(&self, resource: &Meta, op: &OpId) -> Meta {
        if !resource.0.starts_with('~') || self.is_ordered(resource) {
            return resource.clone();
        }
        let runs =
            |entry: &Ordered| entry.running.as_ref().is_some_and(|running| running.execution.op == *op);
        let named = self.ordering.entries.iter().find(|(_, entry)| runs(entry));
        named.map_or_else(|| resource.clone(), |(meta, _)| meta.clone())
    }

    /// The same event, about the resource by its name now.
    pub(crate) fn under_current_name(&self, mut event: Event) -> Event {
        match &mut event {
            Event::Executed { resource, execution, .. } => {
                *resource = self.current_name(resource, &execution.op);
            }
            Event::Probed { resource, op, .. }
            | Event::Settle { resource, op, .. }
            | Event::Probe { resource, op } => *resource = self.current_name(resource, op),
            _ => {}
        }
        event
    }

    /// Something happened to an ordered resource.
    pub(crate) fn on_ordered(&mut self, event: Event) {
        match event {
            Event::Executed { resource, execution, outcome } => {
                self.executed_turn(&resource, &execution, outcome);
            }
            Event::Probed { resource, op, executed, local } => {
                self.learnt_turn(&resource, &op, Stage::Probing, executed, local);
            }
            Event::Settle { resource, op, executed, local } => {
                self.learnt_turn(&resource, &op, Stage::InDoubt, Some(executed), local);
            }
            Event::Probe { resource, op } => self.probe_turn_again(&resource, &op),
            Event::Fired(Timer::Retry(meta)) => self.retry_turn(&meta),
            Event::Fired(Timer::Copy(meta)) => self.copy_ordered(&meta),
            Event::Fetched { map, snapshot } => self.fetched_ordered(&map, &snapshot),
            Event::Installed { resource, local } => self.installed_ordered(&resource, local),
            Event::CopyFailed { resource } => self.copy_of_ordered_failed(&resource),
            Event::Mended { resource } => self.mended_ordered(&resource),
            // What has one order is not compared: a replica that refused its turn is known to differ.
            Event::Repair { ticket, resource, from } => self.believe(ticket, &resource, from),
            Event::Compare { ticket, .. } => {
                let reply = Reply::Unchanged(Unchangeable::Ordered);
                self.call.effects.push(Effect::Answer { ticket, op: None, reply });
            }
            _ => {}
        }
    }

    /// Goes on with every resource that has something to do.
    fn take_all(&mut self) {
        for meta in self.ordering.busy.clone() {
            self.take(&meta);
        }
    }

    /// True where another site has said that the records here are not old, as far as it knows. Before it has, it may know of more that was
    /// promised here; it is greeted, and nothing is said that would count.
    pub(crate) fn is_introduced(&mut self, site: &Site) -> bool {
        let introduced = self.trust.is_welcomed(site);
        let greets = |effect: &Effect| matches!(effect, Effect::Send { to, message: Message::Hello { .. } } if to == site);
        if !introduced && !self.call.effects.iter().any(greets) {
            self.hello_again(site);
        }
        introduced
    }

    /// A message of the logs.
    pub(crate) fn received_order(&mut self, from: &Site, mark: Mark, message: order::Message) {
        if !self.is_current(from, mark.epoch) || !self.is_introduced(from) {
            return;
        }
        let counts = message.binds() && !self.ordering.orders.is_in_doubt(message.group());
        self.trust.hear(from, mark, counts);
        self.order(order::Event::Received { from: from.clone(), message });
        self.pump();
        // It may have said that another site has what waits for all to have it.
        self.take_all();
    }

    /// Another site says how far its replica is.
    pub(crate) fn received_done(&mut self, from: &Site, map: &ReplicaMap, done: u64, asks: bool) {
        if !map.members().contains(from) || !map.members().contains(&self.here) {
            return;
        }
        let meta = map.meta.clone();
        self.touch_ordered(&meta);
        let mut ours = (map.clone(), self.finished_of_unknown(map));
        if let Some(entry) = self.ordering.entries.get_mut(&meta) {
            entry.map.merge_from(map, from);
            let peer = entry.peers.entry(from.clone()).or_default();
            *peer = done.max(*peer);
            ours = (entry.map.clone(), entry.queue.done);
        }
        if asks && !self.ordering.orders.is_in_doubt(&super::group(map)) {
            let (map, done) = ours;
            self.send(from, Message::Done { map, done, asks: false });
        }
        self.answer_writers(&meta);
        self.note_busy(&meta);
    }

    /// How far this site is with a resource that it does not know. One that is not here any more has nothing to do:
    /// all that was ordered is finished. But one that was made may be here without its name yet.
    fn finished_of_unknown(&self, map: &ReplicaMap) -> u64 {
        let group = super::group(map);
        let nameless = self.ordering.entries.range(Meta("~".into())..);
        let nameless = nameless.filter(|(_, entry)| entry.group() == group);
        let first = nameless.filter_map(|(_, entry)| entry.first().map(|(place, _)| place)).min();
        let given = self.ordering.orders.given(&group);
        first.map_or(given, |first| first.min(given))
    }

    /// Time goes on.
    pub(crate) fn tick(&mut self) {
        self.ordering.ticking = false;
        self.ordering.ticks = self.ordering.ticks.wrapping_add(1);
        self.order(order::Event::Tick);
        self.pump();
        for meta in self.ordering.busy.clone() {
            self.tick_resource(&meta);
        }
        if self.ordering.ticks.checked_rem(self.settings.order.election) == Some(0) {
            self.ask_unconfirmed();
            self.ask_what_was();
        }
        let bound = self.settings.order.patience.saturating_mul(2);
        let mut late = Vec::new();
        let orders = &self.ordering.orders;
        for (op, waiting) in &mut self.ordering.waiting {
            // A long body takes its time, as long as those are there that it needs.
            let goes_on =
                waiting.long.as_ref().is_some_and(|(group, needs)| are_there(orders, group, *needs));
            waiting.ticks = waiting.ticks.saturating_add(u32::from(!goes_on));
            if waiting.ticks > bound {
                late.push(op.clone());
            }
        }
        for op in late {
            self.give_up_waiting(&op);
        }
        self.tick_reads();
    }

    fn tick_resource(&mut self, meta: &Meta) {
        self.touch_ordered(meta);
        let Some(entry) = self.ordering.entries.get_mut(meta) else { return };
        let undecided = entry.first().is_some_and(|(_, turn)| turn.verdict.is_none());
        entry.waited = if undecided { entry.waited.saturating_add(1) } else { 0 };
        entry.handed_over.1 = entry.handed_over.1.saturating_add(1);
        let all = self.ordering.orders.given_to_all(&entry.group());
        let rest = entry.queue.bodies.split_off(&all);
        let bodies = std::mem::replace(&mut entry.queue.bodies, rest);
        self.call.effects.extend(bodies.into_values().map(Effect::Erase));
        if self.ordering.ticks.checked_rem(self.settings.order.election) == Some(0) {
            self.ask_done(meta);
            self.tell_tried(meta);
        }
        if self.ordering.entries.get(meta).is_some_and(|entry| entry.is_asking() && entry.is_undecided()) {
            self.hand_over(meta);
        }
        self.take(meta);
    }

    /// A leader that waits for an operator has another lead, which does not: one whose replica has come as far, if there is any.
    /// Less and less often, where no other can go on either.
    pub(super) fn hand_over(&mut self, meta: &Meta) {
        let Some(entry) = self.ordering.entries.get_mut(meta) else { return };
        let (group, place, (times, ticks)) = (entry.group(), entry.queue.done, entry.handed_over);
        let due = 1_u32.checked_shl(times).unwrap_or(u32::MAX).saturating_sub(1);
        if ticks < due || !self.ordering.orders.leads(&group) {
            return;
        }
        let missing = self.ordering.orders.missing(&group);
        let there =
            entry.map.members().into_iter().filter(|site| **site != self.here && !missing.contains(*site));
        let as_far = |site: &&Site| entry.peers.get(*site).is_some_and(|done| *done >= place);
        let (as_far, behind): (Vec<&Site>, Vec<&Site>) = there.partition(as_far);
        let others: Vec<&Site> = as_far.into_iter().chain(behind).collect();
        let turn = usize::try_from(times).unwrap_or(usize::MAX).checked_rem(others.len());
        if let Some(to) = turn.and_then(|turn| others.get(turn)).map(|site| (*site).clone()) {
            entry.handed_over = (times.saturating_add(1), 0);
            self.order(order::Event::HandOver { group, to });
        }
    }

    /// Asks members how far they are with the next few resources that nobody waits for. A member says it once, and what it said
    /// is lost with a message, or with a restart here.
    fn ask_unconfirmed(&mut self) {
        let from = self.ordering.asked_last.take().map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.ordering.unconfirmed.range((from, Bound::Unbounded));
        let next: Vec<Meta> = rest.take(self.settings.batch).cloned().collect();
        for meta in &next {
            let entry = self.ordering.entries.get(meta);
            let behind = entry.map(|entry| entry.behind(&self.here, entry.queue.done)).unwrap_or_default();
            if entry.is_some_and(|entry| self.is_mute(entry)) {
                continue;
            }
            let Some(entry) = entry.filter(|_| !behind.is_empty()) else {
                self.ordering.unconfirmed.remove(meta);
                continue;
            };
            // They are asked anyway.
            if self.ordering.waiting.values().any(|waiting| waiting.resource == *meta) {
                continue;
            }
            let message = Message::Done { map: entry.map.clone(), done: entry.queue.done, asks: true };
            let is_up = |site: &&Site| self.links.get(*site).is_none_or(|link| !link.down);
            for site in behind.iter().filter(is_up).cloned().collect::<Vec<_>>() {
                self.send(&site, message.clone());
            }
        }
        self.ordering.asked_last = next.last().filter(|_| next.len() == self.settings.batch).cloned();
    }

    /// Asks the sites that somebody waits for how far they are: what they said may be lost.
    fn ask_done(&mut self, meta: &Meta) {
        let entry = self.ordering.entries.get(meta).filter(|entry| !self.is_mute(entry));
        let Some(entry) = entry else { return };
        let executing = self.ordering.waiting.values().filter(|waiting| {
            waiting.resource == *meta && matches!(waiting.verdict, Some(Ruling::Execute { .. }))
        });
        let place = executing.filter_map(|waiting| waiting.index).max().map(|index| index.saturating_add(1));
        let place = place.max(entry.is_absent().then_some(entry.queue.done));
        let message = Message::Done { map: entry.map.clone(), done: entry.queue.done, asks: true };
        let silent = place.map(|place| entry.behind(&self.here, place)).unwrap_or_default();
        for site in silent {
            self.send(&site, message.clone());
        }
    }
}

/// Whether enough members of a group are heard.
fn are_there(orders: &Orders, group: &GroupId, needs: Needs) -> bool {
    let (members, missing) = (group.sites.len(), orders.missing(group).len());
    match needs {
        Needs::All => missing == 0,
        Needs::Majority => members.saturating_sub(missing) > members / 2,
    }
}
