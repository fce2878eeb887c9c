//! Reads that ask first: whether the replica here may be read, and whether what was read may be told.

use replica::{Event, Meta, Reply, Ticket};
use tokio::sync::oneshot;

use super::Keeper;
use super::clients::{Client, WAITING};
use crate::replicas::Reading;

/// Who is told: first whether to read, then whether to tell.
pub(super) struct Reader {
    begin: Option<oneshot::Sender<Result<Reading, Reply>>>,
    end: Option<oneshot::Sender<Reply>>,
}

impl Reader {
    /// It is over.
    pub(super) fn answer(self, reply: Reply) {
        if let Some(begin) = self.begin {
            let _ = begin.send(Err(reply));
        } else if let Some(end) = self.end {
            let _ = end.send(reply);
        }
    }
}

impl Keeper {
    /// A client reads. `confirm`: a majority is asked first.
    pub(super) fn read(
        &mut self,
        resource: Meta,
        confirm: bool,
        begin: oneshot::Sender<Result<Reading, Reply>>,
    ) {
        if self.ending.is_some() || self.fault.is_some() || self.clients.waiting.len() >= WAITING {
            return drop(begin.send(Err(Reply::Unavailable)));
        }
        let ticket = self.clients.ticket();
        self.clients.waiting.insert(ticket, Client::Read(Reader { begin: Some(begin), end: None }));
        self.event(Event::Read { ticket, resource, confirm });
    }

    /// The replica here may be read now.
    pub(super) fn may_read(&mut self, ticket: Ticket) {
        let Some(Client::Read(reader)) = self.clients.waiting.get_mut(&ticket) else { return };
        let (end, told) = oneshot::channel();
        reader.end = Some(end);
        let reading = Reading { ticket, orders: self.replicas.orders.clone(), told: Some(told) };
        if let Some(begin) = reader.begin.take() {
            // Who waits no more drops it, which says that it was read.
            let _ = begin.send(Ok(reading));
        }
    }

    /// The service was read.
    pub(super) fn has_read(&mut self, ticket: Ticket) {
        self.event(Event::HasRead { ticket });
    }
}
