//! The log's own events, time, and what the sites tell each other of ordered resources.

use scope::Site;

use super::{Purpose, Ruling};
use crate::event::{Effect, Event, Message, Reply, Timer};
use crate::machine::Machine;
use crate::map::{ReplicaMap, Unchangeable};
use crate::operation::Meta;
use crate::record::Stage;

impl Machine {
    /// The site that leads the group which orders the writes of a resource, as far as is known here: a driver
    /// may hand writes to it at once. This site only where it can order now.
    #[must_use]
    pub fn leader(&self, meta: &Meta) -> Option<Site> {
        self.ordering.orders.leader(&self.ordering.entries.get(meta)?.group())
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
                order::Effect::Send { to, message } => self.send(&to, Message::Order(message)),
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
            Event::Fired(Timer::Retry(meta)) => self.retry_turn(&meta),
            Event::Fired(Timer::Copy(meta)) => self.copy_ordered(&meta),
            Event::Fetched { map, snapshot } => self.fetched_ordered(&map, &snapshot),
            Event::Installed { resource, local } => self.installed_ordered(&resource, local),
            Event::CopyFailed { resource } => self.copy_of_ordered_failed(&resource),
            Event::Mended { resource } => self.mended_ordered(&resource),
            // What has one order is not compared: a replica that refused its turn is known to differ.
            Event::Compare { ticket, .. } | Event::Repair { ticket, .. } => {
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

    /// A message of the logs.
    pub(crate) fn received_order(&mut self, from: &Site, message: order::Message) {
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
        if asks {
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
        let bound = self.settings.order.patience.saturating_mul(2);
        let mut late = Vec::new();
        for (op, waiting) in &mut self.ordering.waiting {
            waiting.ticks = waiting.ticks.saturating_add(1);
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
        let all = self.ordering.orders.given_to_all(&entry.group());
        let rest = entry.queue.bodies.split_off(&all);
        let bodies = std::mem::replace(&mut entry.queue.bodies, rest);
        self.call.effects.extend(bodies.into_values().map(Effect::Erase));
        if self.ordering.ticks.checked_rem(self.settings.order.election) == Some(0) {
            self.ask_done(meta);
            self.tell_tried(meta);
        }
        self.take(meta);
    }

    /// Asks the sites that somebody waits for how far they are: what they said may be lost.
    fn ask_done(&mut self, meta: &Meta) {
        let Some(entry) = self.ordering.entries.get(meta) else { return };
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
