//! What other sites' keepers say and ask.

use std::borrow::Cow;
use std::rc::Rc;

use bytes::Bytes;
use http::StatusCode;
use replica::{Body, Event, Message, Meta, Operation, ReplicaMap, Snapshot, Who};
use scope::Site;
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use super::copy::{Copied, Source};
use super::execute::{LONGEST_NAME, is_storable, is_to, kind, weight};
use super::shapes::Shape;
use super::vault::Table;
use super::{Deed, Keeper, News, peers};
use crate::identity;
use crate::replicas::request::{Kept, Name};
use crate::replicas::wire::{Asked, Envelope, Refusals, Told};

/// A message, the writes that came with it, and those that it names and that are not here.
type Opened = (Message, Vec<Kept>, Vec<std::sync::Arc<str>>);

impl Keeper {
    pub(super) fn asked(&mut self, from: Site, asked: Asked, reply: oneshot::Sender<Told>) {
        // What cannot be recorded is not taken: it comes again.
        let busy = self.fault.is_some() || self.ending.is_some();
        match asked {
            Asked::Messages(_) | Asked::State(_) if busy => {
                drop(reply.send(told(StatusCode::SERVICE_UNAVAILABLE)));
            }
            Asked::Messages(bytes) => match self.open_envelope(&from, &bytes) {
                Ok(messages) => self.gather(from, messages, reply),
                Err(status) => drop(reply.send(told(status))),
            },
            Asked::Coming(bytes) => {
                let status = if busy { StatusCode::SERVICE_UNAVAILABLE } else { self.offered(&from, &bytes) };
                drop(reply.send(told(status)));
            }
            Asked::Body(id) => {
                let may = self.may_have(&from, &id);
                drop(reply.send(told(if may { StatusCode::OK } else { StatusCode::NOT_FOUND })));
            }
            Asked::Reservation(_) if busy => drop(reply.send(told(StatusCode::SERVICE_UNAVAILABLE))),
            Asked::Reservation(question) => self.asked_of_name(&from, &question, reply),
            Asked::Highest(question) => drop(reply.send(self.asked_for_highest(&question))),
            Asked::Part(asked) => drop(reply.send(self.part(&from, &asked))),
            Asked::Write(id) => self.give_write(&from, &id, reply),
            Asked::State(name) => self.read_state(&from, &Meta(name.into()), reply),
            Asked::There(name) => drop(reply.send(self.is_there_for(&from, &Meta(name.into())))),
        }
    }

    fn open_envelope(&self, from: &Site, bytes: &[u8]) -> Result<Vec<Opened>, StatusCode> {
        let envelope: Envelope = postcard::from_bytes(bytes).map_err(|_| StatusCode::BAD_REQUEST)?;
        let (mut opened, some) = (Vec::new(), !envelope.messages.is_empty());
        for (message, writes) in envelope.messages {
            let message = Message::read(&message).map_err(|_| StatusCode::BAD_REQUEST)?;
            let short = |map: &ReplicaMap| map.meta.0.len() <= LONGEST_NAME;
            if !message.map().is_none_or(short) || !writes.iter().all(is_storable) {
                return Err(StatusCode::PAYLOAD_TOO_LARGE);
            }
            // What is about no one resource is answered from what the two sites share. The others of these are
            // taken all the same: of one that a site is not known yet to have a part in, it tells again.
            if !message.map().is_none_or(|map| self.may_tell(from, map)) {
                continue;
            }
            let ids = peers::bodies(&message, |op| self.is_new(op)).into_iter().map(|Body(id)| id);
            let here = |id: &str| self.book.is_kept(id) || writes.iter().any(|kept| *kept.id == *id);
            let lacking = ids.filter(|id| !here(id)).collect();
            opened.push((message, writes, lacking));
        }
        if some && opened.is_empty() { Err(StatusCode::FORBIDDEN) } else { Ok(opened) }
    }

    /// Whether an operation is not known here.
    pub(super) fn is_new(&self, op: &Operation) -> bool {
        self.book.op(&op.id).is_none() && self.machine.operation(&op.resource, &op.id).is_none()
    }

    /// Whether a site has a part in the resource that it tells of. Of what is here that is not its own word: a site
    /// that was added is believed once one that had a part before has told of it. Of what is new here, it is.
    fn may_tell(&self, from: &Site, map: &ReplicaMap) -> bool {
        let map = self.machine.map(&map.meta).unwrap_or(Cow::Borrowed(map));
        map.involved().any(|site| site == from)
    }

    /// Whether this site's policy takes a message: one that makes or changes something here, of a site that may. What
    /// a site that may not says of a resource that is here anyway is heard, as long as it changes nothing of it.
    fn is_welcome(&self, from: &Site, message: &Message) -> bool {
        let state = self.core.state();
        let may_bring = |who: Option<&Who>| identity::may_bring(state.settings(), from, who);
        let credible = match message {
            Message::Operations { operations, .. } => {
                let new = operations.iter().filter(|op| self.is_new(op));
                new.into_iter().all(|op| may_bring(Some(&op.on_behalf_of)))
            }
            Message::Order { .. } | Message::Recalled { .. } => may_bring(None),
            _ => true,
        };
        if !credible {
            return false;
        }
        let replication = state.settings().replication.as_ref();
        let Some(accepted) = replication.and_then(|own| own.accept_from.as_ref()) else { return true };
        let may = |site: &Site| *site == self.here || accepted.contains(site);
        match message {
            Message::Operations { operations, map } if operations.is_empty() => {
                may(from) || self.is_as_known(map)
            }
            Message::Operations { operations, .. } => {
                may(from) && operations.iter().all(|op| may(&op.id.site))
            }
            Message::Confirm { map, .. } | Message::Done { map, .. } => may(from) || self.is_as_known(map),
            Message::Behind { .. }
            | Message::Order { .. }
            | Message::Recalled { .. }
            | Message::Tried { .. } => may(from),
            _ => true,
        }
    }

    /// Whether the bodies of a site's writes, and its states, are taken.
    pub(super) fn accepts(&self, from: &Site) -> bool {
        let state = self.core.state();
        if !identity::may_bring(state.settings(), from, None) {
            return false;
        }
        let replication = state.settings().replication.as_ref();
        let accepted = replication.and_then(|own| own.accept_from.as_ref());
        accepted.is_none_or(|accepted| accepted.contains(from))
    }

    /// Whether a map says of a resource that is here what is known of it: at which sites it is.
    fn is_as_known(&self, map: &ReplicaMap) -> bool {
        self.machine.map(&map.meta).is_some_and(|ours| {
            let mut merged = ours.clone().into_owned();
            merged.merge(map);
            merged.members() == ours.members() && merged.is_detached() == ours.is_detached()
        })
    }

    /// What the replica here refused, if it did.
    fn diverged(&self, meta: &Meta) -> Option<u16> {
        match self.machine.status(meta)?.condition {
            replica::Condition::Diverged { status } => Some(status),
            replica::Condition::Good | replica::Condition::Differs | replica::Condition::Suspect => None,
        }
    }

    /// Fetches what a message names and did not bring, before the machine hears of it.
    fn gather(&mut self, from: Site, messages: Vec<Opened>, reply: oneshot::Sender<Told>) {
        if messages.iter().all(|(_, _, lacking)| lacking.is_empty()) {
            let messages = messages.into_iter().map(|(message, writes, _)| (message, writes)).collect();
            return self.arrived(&from, messages, false, reply);
        }
        let (core, news) = (Rc::clone(&self.core), self.news.clone());
        spawn_local(async move {
            let (mut complete, mut short) = (Vec::new(), false);
            for (message, mut writes, lacking) in messages {
                let mut all = true;
                for id in lacking {
                    match peers::fetch(&core, &from, &id).await {
                        Some(Some(kept)) => writes.push(kept),
                        // What is in a log and was erased was given to every site.
                        Some(None) if matches!(message, Message::Order { .. } | Message::Recalled { .. }) => {
                        }
                        Some(None) | None => all = false,
                    }
                }
                if all {
                    complete.push((message, writes));
                }
                short |= !all;
            }
            let _ = news.send(News::Arrived { from, messages: complete, lacking: short, reply });
        });
    }

    /// Messages, with all that they name. Answered once they are durable.
    pub(super) fn arrived(
        &mut self,
        from: &Site,
        messages: Vec<(Message, Vec<Kept>)>,
        lacking: bool,
        reply: oneshot::Sender<Told>,
    ) {
        let mut status = if lacking { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NO_CONTENT };
        let mut refused: Refusals = Vec::new();
        for (message, writes) in messages {
            let meta = message.map().map(|map| map.meta.clone());
            if !self.is_welcome(from, &message) {
                refused.extend(meta.map(|meta| (meta, StatusCode::FORBIDDEN.as_u16())));
                continue;
            }
            // What is executed for a resource is a write to it.
            if message.map().is_some_and(|map| !writes.iter().all(|kept| is_to(kept, &map.meta))) {
                status = StatusCode::FORBIDDEN;
                continue;
            }
            let more: u64 = writes.iter().map(weight).sum();
            if more > 0 && !self.is_within_quota(more) {
                status = StatusCode::INSUFFICIENT_STORAGE;
                continue;
            }
            self.receive(from, message, &writes);
            refused.extend(meta.and_then(|meta| self.diverged(&meta).map(|status| (meta, status))));
        }
        let mut answer = told(status);
        if status.is_success() && !refused.is_empty() {
            answer = (StatusCode::OK, postcard::to_allocvec(&refused).unwrap_or_default().into());
        }
        self.afterwards(Deed::Tell(reply, answer));
    }

    /// One message, once the bodies are here that it needs. Until then it was not received, as far as its sender is
    /// concerned.
    pub(super) fn receive(&mut self, from: &Site, message: Message, writes: &[Kept]) {
        if !self.held(from, &message, writes) {
            let heard = message.confirms();
            self.event_with(Event::Received { from: from.clone(), message }, writes, Vec::new());
            self.show_confirmed(&heard);
        }
    }

    /// Where the service here has a part of a resource, for the core that streams it.
    fn part(&self, from: &Site, asked: &[u8]) -> Told {
        let Ok((name, part)) = postcard::from_bytes::<(String, String)>(asked) else {
            return told(StatusCode::BAD_REQUEST);
        };
        let meta = Meta(name.into());
        let local = self.machine.map(&meta).and_then(|map| map.local(&self.here));
        let (Some(local), Some(shape)) = (local.as_ref().map(Name::from), self.book.shape(&meta)) else {
            return told(StatusCode::CONFLICT);
        };
        let (state, path) = (self.core.state(), shape.path(&local));
        let kind = kind(&state, local.service(), &shape.kind, &path);
        let known = kind.is_some_and(|kind| kind.parts.contains(&part));
        if !known || !self.shares(from, &meta) || !self.machine.is_readable(&meta) {
            return told(StatusCode::CONFLICT);
        }
        let place = postcard::to_allocvec(&(local.service(), format!("{path}{part}")));
        (StatusCode::OK, place.unwrap_or_default().into())
    }

    /// Whether another site has a replica of a resource, or had one.
    pub(super) fn shares(&self, from: &Site, meta: &Meta) -> bool {
        self.machine.map(meta).is_some_and(|map| map.involved().any(|site| site == from))
    }

    fn give_write(&self, from: &Site, id: &str, reply: oneshot::Sender<Told>) {
        let of = self.book.op_of(id).and_then(|op| self.book.op(op));
        if !of.is_some_and(|open| self.shares(from, &open.meta)) && !self.book.is_for(id, from) {
            return drop(reply.send(told(StatusCode::NOT_FOUND)));
        }
        let (vault, id) = (self.vault.clone(), id.to_owned());
        spawn_local(async move {
            let kept = vault.get::<Kept>(Table::Kept, id.as_bytes()).await.ok().flatten();
            let bytes = kept.and_then(|kept| postcard::to_allocvec(&kept).ok());
            let answer = bytes.map(|bytes| (StatusCode::OK, Bytes::from(bytes)));
            let _ = reply.send(answer.unwrap_or_else(|| told(StatusCode::NOT_FOUND)));
        });
    }

    /// Whether another site has a replica of what exists here, or will have.
    fn is_there_for(&self, from: &Site, meta: &Meta) -> Told {
        let status = self.machine.status(meta).filter(|status| !status.deleted);
        let there = status.is_some_and(|status| status.map.members().contains(from));
        told(if there { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND })
    }

    fn read_state(&self, from: &Site, meta: &Meta, reply: oneshot::Sender<Told>) {
        // What never came to be has no shape.
        let absent = || (!self.machine.is_readable(meta)).then(Shape::default);
        let shape = self.book.shape(meta).or_else(absent);
        let (true, Some((map, snapshot)), Some(shape)) =
            (self.shares(from, meta), self.machine.snapshot(meta), shape)
        else {
            return drop(reply.send(told(StatusCode::CONFLICT)));
        };
        let before = Box::new((map.clone(), snapshot.clone()));
        let local = map.local(&self.here).filter(|_| self.machine.is_readable(meta));
        let (core, vault, news) = (Rc::clone(&self.core), self.vault.clone(), self.news.clone());
        let local = local.as_ref().map(Name::from);
        let source = Source { core, vault, map, snapshot, shape, local };
        spawn_local(async move {
            let copied = source.read().await.map(Box::new);
            let _ = news.send(News::Read { before, copied, reply });
        });
    }

    /// The state was read; it is given away if nothing was executed meanwhile.
    pub(super) fn give_state(
        &self,
        before: &(ReplicaMap, Snapshot),
        copied: Option<Box<Copied>>,
        reply: oneshot::Sender<Told>,
    ) {
        let same = self.machine.snapshot(&before.0.meta).as_ref() == Some(before);
        let bytes = copied.filter(|_| same).and_then(|copied| postcard::to_allocvec(&*copied).ok());
        let answer = bytes.map(|bytes| (StatusCode::OK, Bytes::from(bytes)));
        let _ = reply.send(answer.unwrap_or_else(|| told(StatusCode::CONFLICT)));
    }
}

fn told(status: StatusCode) -> Told {
    (status, Bytes::new())
}
