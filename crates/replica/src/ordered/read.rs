//! When a replica may be read.
//!
//! The machine says when, the driver reads the service, and says so; then the machine says whether what was
//! read may be given to the client. At `@strong`, and at `@quorum` where a majority is to confirm it, what is
//! read then is what one register would have given: `docs/model.md` has the argument.

use super::group;
use crate::event::{Effect, Reply, Ticket};
use crate::machine::Machine;
use crate::operation::{Level, Meta};

/// A read that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reading {
    resource: Meta,
    /// Writes before this place have to be finished here; none: a majority is being asked.
    upto: Option<u64>,
    stage: ReadStage,
    /// The replica's epoch when it was read.
    epoch: u64,
    ticks: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ReadStage {
    Waits,
    Reads,
    HasRead,
}

impl Machine {
    /// A client reads.
    pub(crate) fn client_reads(&mut self, ticket: Ticket, meta: &Meta, confirm: bool) {
        let Some(entry) = self.ordering.entries.get(meta) else { return self.read_unordered(ticket, meta) };
        let upto = match (entry.map.level, confirm) {
            (Level::Strong, _) => Some(u64::MAX),
            (_, false) => Some(0),
            (_, true) => None,
        };
        let group = group(&entry.map);
        let reading =
            Reading { resource: meta.clone(), upto, stage: ReadStage::Waits, epoch: entry.epoch, ticks: 0 };
        self.ordering.reads.insert(ticket, reading);
        if upto.is_none() {
            let ticket = self.ordering.ticket(super::Purpose::Read(ticket));
            self.order(order::Event::Confirm { ticket, group });
        }
        self.serve_readers(meta);
    }

    /// Where writes have no one order, a good replica is read as it is.
    fn read_unordered(&mut self, ticket: Ticket, meta: &Meta) {
        let reply = match self.entries.get(meta) {
            Some(entry) if entry.is_good() && entry.resource.is_here() => {
                let local = entry.map.local(&self.here);
                return self.call.effects.push(Effect::Read { ticket, resource: meta.clone(), local });
            }
            Some(entry) if !entry.is_good() => Reply::NotGood,
            _ => Reply::NoResource,
        };
        self.call.effects.push(Effect::Answer { ticket, op: None, reply });
    }

    /// Everybody has come at least so far: the replica here has to, before it is read.
    pub(super) fn read_confirmed(&mut self, ticket: Ticket, upto: u64) {
        if let Some(reading) = self.ordering.reads.get_mut(&ticket) {
            reading.upto = Some(upto);
            let meta = reading.resource.clone();
            self.serve_readers(&meta);
        }
    }

    /// The service was read.
    pub(crate) fn has_read(&mut self, ticket: Ticket) {
        match self.ordering.reads.get_mut(&ticket) {
            Some(reading) => {
                reading.stage = ReadStage::HasRead;
                let meta = reading.resource.clone();
                self.serve_readers(&meta);
            }
            None => self.call.effects.push(Effect::Answer { ticket, op: None, reply: Reply::Current }),
        }
    }

    /// Lets those read who may, and those answer who have read.
    pub(super) fn serve_readers(&mut self, meta: &Meta) {
        let tickets: Vec<_> = self
            .ordering
            .reads
            .iter()
            .filter(|(_, reading)| reading.resource == *meta)
            .map(|(t, _)| *t)
            .collect();
        for ticket in tickets {
            self.serve_reader(ticket, meta);
        }
    }

    fn serve_reader(&mut self, ticket: Ticket, meta: &Meta) {
        let Some(reading) = self.ordering.reads.get_mut(&ticket) else { return };
        let Some(entry) = self.ordering.entries.get(meta) else {
            return self.read_refused(ticket, Reply::NoResource);
        };
        let (Some(upto), stage) = (reading.upto, reading.stage) else { return };
        match stage {
            ReadStage::Waits if !entry.is_good() => self.read_refused(ticket, Reply::NotGood),
            ReadStage::Waits if entry.first().is_some_and(|(index, _)| index < upto) => {}
            ReadStage::Waits if !entry.queue.exists => self.read_refused(ticket, Reply::NoResource),
            ReadStage::Waits => {
                (reading.stage, reading.epoch) = (ReadStage::Reads, entry.epoch);
                let local = entry.map.local(&self.here);
                self.call.effects.push(Effect::Read { ticket, resource: meta.clone(), local });
            }
            ReadStage::Reads => {}
            // It may have seen what nobody else will have.
            ReadStage::HasRead if upto > 0 && (reading.epoch != entry.epoch || !entry.is_good()) => {
                self.read_refused(ticket, Reply::NotGood);
            }
            // It may have seen what is not decided.
            ReadStage::HasRead if upto > 0 && entry.is_ahead() => {}
            ReadStage::HasRead => self.read_refused(ticket, Reply::Current),
        }
    }

    /// The read is over.
    pub(super) fn read_refused(&mut self, ticket: Ticket, reply: Reply) {
        if self.ordering.reads.remove(&ticket).is_some() {
            self.call.effects.push(Effect::Answer { ticket, op: None, reply });
        }
    }

    /// Time goes on: a read does not wait for ever. One that the service is being asked for ends with its answer.
    pub(super) fn tick_reads(&mut self) {
        let patience = self.settings.order.patience;
        let mut late = Vec::new();
        for (ticket, reading) in &mut self.ordering.reads {
            reading.ticks = reading.ticks.saturating_add(1);
            if reading.ticks > patience && reading.stage != ReadStage::Reads {
                late.push(*ticket);
            }
        }
        for ticket in late {
            self.read_refused(ticket, Reply::Unavailable);
        }
    }
}
