//! Clients that wait for the answer to a write.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use replica::{Event, Meta, OpId, Reply, Stage, Standing, Subject, Ticket};
use scope::Site;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::book::is_provisional;
use super::execute::{is_storable, weight};
use super::forwards::Silent;
use super::reads::Reader;
use super::{Deed, Keeper};
use crate::replicas::request::{Name, Scoped, Wanted};
use crate::replicas::{Answered, Stand};

/// So many wait at once; the next is told to come again.
pub(super) const WAITING: usize = 10_000;

/// So many writes are kept, whatever the quota: about a gibibyte of memory.
const KEPT: usize = 1_000_000;

/// What the client sent, for the first execution. Never stored.
type Sender = (Box<Parts>, Option<Scoped>);

/// Who waits.
#[derive(Default)]
pub(super) struct Clients {
    last: u64,
    pub(super) waiting: BTreeMap<Ticket, Client>,
    by_op: BTreeMap<OpId, Ticket>,
    senders: BTreeMap<OpId, Sender>,
    /// Until when those that wait for a write are answered.
    deadlines: BTreeSet<(Instant, Ticket)>,
}

pub(super) enum Client {
    Write {
        answer: oneshot::Sender<Answered>,
        /// The resource, or where it is to be made.
        about: Meta,
        /// It is there, as far as this site knows.
        exists: bool,
        op: Option<OpId>,
        response: Option<Response<Bytes>>,
        deadline: Instant,
    },
    Read(Reader),
    Change(oneshot::Sender<Reply>),
    Compare(oneshot::Sender<BTreeMap<Site, Option<Standing>>>),
}

impl Clients {
    pub(super) fn ticket(&mut self) -> Ticket {
        self.last = self.last.wrapping_add(1);
        Ticket(self.last)
    }

    /// When the next client has waited for as long as any may.
    pub(super) fn overdue(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// What the client of an operation sent, once.
    pub(super) fn sender(&mut self, op: &OpId) -> Option<Sender> {
        self.senders.remove(op)
    }

    /// What the service answered, if a client waits for it.
    pub(super) fn responded(&mut self, op: &OpId, answered: Option<Response<Bytes>>) {
        let Some(ticket) = self.by_op.get(op) else { return };
        if let Some(Client::Write { response, .. }) = self.waiting.get_mut(ticket) {
            *response = answered;
        }
    }
}

impl Keeper {
    /// A client writes.
    pub(super) fn write(&mut self, wanted: Wanted, answer: oneshot::Sender<Answered>) {
        let Wanted { write, mut kept, head, scoped, named } = wanted;
        let meta = match &write.subject {
            Subject::Existing(meta) => Some(meta.clone()),
            Subject::New { .. } => None,
        };
        kept.signed = self.vouch(&write, &kept);
        // What no other site would believe is not begun.
        let signed = kept.signed.is_some() || self.core.state().notary().is_none();
        // Nor what nobody would be told the name of.
        let naming = named.begin().filter(|_| signed && is_storable(&kept) && self.has_room(weight(&kept)));
        let Some(mut naming) = naming else {
            let (reply, op, sites) = (Reply::Unavailable, None, Vec::new());
            let _ = answer.send(Answered { reply, op, meta, response: None, sites });
            return;
        };
        let ticket = self.clients.ticket();
        let deadline = Instant::now() + self.core.state().settings().timeouts.response;
        let exists = meta.is_some();
        let about = meta.unwrap_or_else(|| Meta::from(&Name::new(&kept.service, &kept.path)));
        let client = Client::Write { answer, about, exists, op: None, response: None, deadline };
        self.clients.waiting.insert(ticket, client);
        self.clients.deadlines.insert((deadline, ticket));
        let id = std::sync::Arc::clone(&kept.id);
        self.event_with(Event::Accept { ticket, write }, std::slice::from_ref(&kept), Vec::new());
        let accepted = self.book.op_of(&id).or_else(|| self.machine.accepted(ticket)).cloned();
        let Some(accepted) = accepted else { return };
        naming.name(accepted.clone(), None);
        if !self.book.is_kept(&id) && self.machine.accepted(ticket).is_some() {
            // It waits for its place in the order.
            self.book.stage(kept);
        }
        self.replicas.counts.accepted.add(1);
        if let Some(Client::Write { op, .. }) = self.clients.waiting.get_mut(&ticket) {
            *op = Some(accepted.clone());
        }
        self.clients.by_op.insert(accepted.clone(), ticket);
        self.clients.senders.insert(accepted, (head, scoped));
    }

    /// An administrator changes where replicas are.
    pub(super) fn change(&mut self, resource: Meta, change: replica::Change, answer: oneshot::Sender<Reply>) {
        let ticket = self.clients.ticket();
        self.clients.waiting.insert(ticket, Client::Change(answer));
        self.event(Event::Change { ticket, resource, change });
    }

    /// An administrator says which replica is good.
    pub(super) fn repair(&mut self, resource: Meta, from: Site, answer: oneshot::Sender<Reply>) {
        let ticket = self.clients.ticket();
        self.clients.waiting.insert(ticket, Client::Change(answer));
        self.event(Event::Repair { ticket, resource, from });
    }

    /// An administrator compares replicas.
    pub(super) fn compare(
        &mut self,
        resource: Meta,
        answer: oneshot::Sender<BTreeMap<Site, Option<Standing>>>,
    ) {
        let ticket = self.clients.ticket();
        self.clients.waiting.insert(ticket, Client::Compare(answer));
        self.event(Event::Compare { ticket, resource });
    }

    /// Forgets what was sent with writes that nobody executes any more: another took their place in a log.
    pub(super) fn forget_senders(&mut self) {
        let (book, by_op) = (&self.book, &self.clients.by_op);
        self.clients.senders.retain(|op, _| book.op(op).is_some() || by_op.contains_key(op));
    }

    /// They were compared.
    pub(super) fn compared(&mut self, ticket: Ticket, sites: BTreeMap<Site, Option<Standing>>) {
        if let Some(Client::Compare(answer)) = self.clients.waiting.remove(&ticket) {
            let _ = answer.send(sites);
        }
    }

    /// Whether one more write can be kept.
    fn has_room(&self, bytes: u64) -> bool {
        self.ending.is_none()
            && self.fault.is_none()
            && self.clients.waiting.len() < WAITING
            && self.is_within_quota(bytes)
    }

    /// Whether so many bytes more can be kept for sites that are away: each write takes memory too.
    pub(super) fn is_within_quota(&self, bytes: u64) -> bool {
        let quota = self.core.state().settings().replication.as_ref().map_or(0, |own| own.quota);
        self.book.kept_writes() < KEPT && self.book.kept_bytes().saturating_add(bytes) <= quota
    }

    /// The machine has an answer.
    pub(super) fn answer(&mut self, ticket: Ticket, op: Option<OpId>, reply: Reply) {
        if let Some(op) = &op {
            self.clients.by_op.remove(op);
            if self.book.op(op).is_none() {
                self.clients.senders.remove(op);
                self.forwards.over(op, &reply);
            }
        }
        match self.clients.waiting.remove(&ticket) {
            Some(Client::Write { answer, about, exists, response, deadline, .. }) => {
                self.clients.deadlines.remove(&(deadline, ticket));
                let finished = |op| self.book.finished(op).map(|finished| finished.meta.clone());
                let named = op
                    .as_ref()
                    .and_then(|op| self.book.op(op).map(|open| open.meta.clone()).or_else(|| finished(op)));
                let meta = named.or(exists.then_some(about)).filter(|meta| !is_provisional(meta));
                let sites = op.as_ref().map(|op| self.stands(op)).unwrap_or_default();
                let _ = answer.send(Answered { reply, op, meta, response, sites });
            }
            Some(Client::Read(reader)) => reader.answer(reply),
            Some(Client::Change(answer)) => drop(answer.send(reply)),
            // The resource is not known: nobody is told of any replica.
            Some(Client::Compare(answer)) => drop(answer.send(BTreeMap::new())),
            None => {}
        }
    }

    /// Tells those that have waited for as long as any may that nobody knows, with the operation's name. What was decided
    /// goes on: for this no disk is waited for.
    pub(super) fn expire(&mut self) {
        let now = Instant::now();
        while let Some((deadline, ticket)) = self.clients.deadlines.first().copied() {
            if deadline > now {
                return;
            }
            self.clients.deadlines.remove(&(deadline, ticket));
            let op = match self.clients.waiting.get(&ticket) {
                Some(Client::Write { op, .. }) => op.clone(),
                _ => continue,
            };
            if op.as_ref().is_some_and(|op| self.is_uploading(op)) {
                self.extend_deadline(ticket);
                continue;
            }
            if let Some(client) = self.clients.waiting.remove(&ticket) {
                self.tell_unknown(ticket, client);
            }
        }
    }

    /// Whether the service is being sent a long body: that takes its time, and has limits of its own.
    fn is_uploading(&self, op: &OpId) -> bool {
        let meta = self.book.op(op).map(|open| &open.meta);
        let running = meta.and_then(|meta| self.machine.status(meta)?.running);
        let sent = running.is_some_and(|own| own.execution.op == *op && own.stage == Stage::Sent);
        sent && self.book.is_spooled(op)
    }

    fn extend_deadline(&mut self, ticket: Ticket) {
        let next = Instant::now() + self.core.state().settings().timeouts.response;
        if let Some(Client::Write { deadline, .. }) = self.clients.waiting.get_mut(&ticket) {
            *deadline = next;
            self.clients.deadlines.insert((next, ticket));
        }
    }

    /// The client of a write is told that nobody knows what becomes of it; of what was not recorded, nothing will.
    fn tell_unknown(&mut self, ticket: Ticket, client: Client) {
        let Client::Write { answer, about, exists, op, deadline, .. } = client else { return };
        self.clients.deadlines.remove(&(deadline, ticket));
        if let Some(op) = &op {
            self.clients.by_op.remove(op);
        }
        if let Some(op) = op.clone() {
            self.lose(op, about.clone(), Silent::Site(self.here.clone()));
        }
        let reply = if op.is_some() { Reply::Unknown } else { Reply::Unavailable };
        let meta = exists.then_some(about).filter(|meta| !is_provisional(meta));
        let sites = op.as_ref().map(|op| self.stands(op)).unwrap_or_default();
        let _ = answer.send(Answered { reply, op, meta, response: None, sites });
        self.event(Event::Expired { ticket });
    }

    /// The disk takes nothing: nobody waits for that. What was decided goes on once it does.
    pub(super) fn tell_all_unknown(&mut self) {
        for (ticket, client) in std::mem::take(&mut self.clients.waiting) {
            match client {
                client @ Client::Write { .. } => self.tell_unknown(ticket, client),
                Client::Read(reader) => reader.answer(Reply::Unavailable),
                client => drop(self.clients.waiting.insert(ticket, client)),
            }
        }
    }

    /// How far each replica is with an operation.
    pub(super) fn stands(&self, op: &OpId) -> Vec<(scope::Site, Stand)> {
        let Some(open) = self.book.op(op) else {
            if let Some(status) = self.refused_here(op) {
                return vec![(self.here.clone(), Stand::Refused(status))];
            }
            let finished = self.book.finished(op);
            let done = |site: &scope::Site| {
                let status = finished.and_then(|finished| finished.status).filter(|_| *site == self.here);
                let behind = finished.is_some_and(|finished| {
                    let place = finished.place;
                    place.is_some_and(|place| !self.machine.has_finished(&finished.meta, site, place))
                });
                (site.clone(), if behind { Stand::Pending } else { Stand::Done(status) })
            };
            return finished.map(|finished| finished.sites.iter().map(done).collect()).unwrap_or_default();
        };
        let stand = |(site, standing): (scope::Site, replica::Fulfilment)| {
            let stand = match standing {
                replica::Fulfilment::Done => Stand::Done(open.status.filter(|_| site == self.here)),
                replica::Fulfilment::Pending if site == self.here => {
                    let held = self.held_back(&open.meta).filter(|(own, _)| *own == op);
                    held.map_or(Stand::Pending, |(_, held)| Stand::Held(held))
                }
                replica::Fulfilment::Pending => {
                    self.refused(&site, &open.meta).map_or(Stand::Pending, refused)
                }
                replica::Fulfilment::Diverged { status } => refused(status),
                replica::Fulfilment::InDoubt => Stand::InDoubt,
            };
            (site, stand)
        };
        let standing = self.machine.standing(&open.meta, op).unwrap_or_default();
        standing.into_iter().map(stand).collect()
    }

    /// The status with which a write was refused here that no site executed.
    fn refused_here(&self, op: &OpId) -> Option<u16> {
        let finished = self.book.finished(op).filter(|finished| finished.sites.is_empty());
        let told = finished.and_then(|finished| finished.status).filter(|status| *status >= 300);
        self.machine.refusal(op).map(|refusal| refusal.status).or(told)
    }

    /// Forgets why something waited that does not any more.
    pub(super) fn forget_held(&mut self) {
        let over: Vec<Meta> =
            self.held.keys().filter(|meta| self.held_back(meta).is_none()).cloned().collect();
        for meta in over {
            self.held.remove(&meta);
        }
    }

    /// What another site's replica refused, as far as it is known here.
    pub(super) fn refused(&self, site: &scope::Site, meta: &replica::Meta) -> Option<u16> {
        self.refusals.get(site)?.get(meta).copied()
    }

    /// Told once all so far is durable.
    pub(super) fn tell_done(&mut self, reply: oneshot::Sender<bool>, done: bool) {
        self.afterwards(Deed::Done(reply, done));
    }
}

/// What is known of a replica that has not what the others have. One that was not refused anything, but has more than the
/// others, is given their state, and with it this.
fn refused(status: u16) -> Stand {
    if status >= 400 { Stand::Diverged(status) } else { Stand::Pending }
}
