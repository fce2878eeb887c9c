//! What the keeper remembers of what it recorded: the same as on the disk, where it is needed at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use replica::{Body, Key, LocalId, Meta, OpId, Operation, Record, Restoring};
use scope::Site;
use serde::{Deserialize, Serialize};
use spool::Id;

use super::execute::spooled;
use super::shapes::{Shape, Shapes};
use super::vault::{Change, Table, Vault};
use crate::replicas::answer::REQUEST;
use crate::replicas::request::{Kept, Name};
use crate::replicas::understand::plain;

/// So many operations that are over are remembered, for who asks what became of one.
const FINISHED: usize = 10_000;

/// How the resource is addressed that a write is to, or makes.
pub(super) fn shape_of(kept: &KeptInfo, name: &Name) -> Shape {
    let path = plain(kept.path.trim_end_matches('/'));
    let collection = name.path().rsplit_once('/').map_or("", |(collection, _)| collection);
    let prefix = path.strip_suffix(name.path()).or_else(|| path.strip_suffix(collection));
    Shape { kind: kept.kind.clone(), prefix: prefix.unwrap_or_default().to_owned(), local: None }
}

/// What has to be known of a kept write without reading it.
#[derive(Clone, Debug)]
pub(super) struct KeptInfo {
    bytes: u64,
    service: String,
    /// Where its body is, if not in its record.
    spooled: Option<Id>,
    kind: String,
    path: String,
    /// As the site calls it that a client asked, where that was another.
    request: Option<OpId>,
}

impl KeptInfo {
    fn of(kept: &Kept) -> KeptInfo {
        let (service, kind, path) = (kept.service.clone(), kept.kind.clone(), kept.path.clone());
        let request = kept.headers.iter().find(|(name, _)| name == REQUEST);
        let request = request.and_then(|(_, op)| std::str::from_utf8(op).ok()?.parse().ok());
        KeptInfo { bytes: super::execute::weight(kept), service, spooled: spooled(kept), kind, path, request }
    }
}

/// An operation that is over: every replica that had to has executed it, or no site has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Finished {
    pub(super) op: OpId,
    pub(super) meta: Meta,
    /// What this site's service said, where it executed or refused it and that is known.
    pub(super) status: Option<u16>,
    /// Where it was executed.
    pub(super) sites: Vec<Site>,
    /// Its place, where writes have one order: the other sites are told apart by it.
    pub(super) place: Option<u64>,
}

/// An operation that is not over.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) meta: Meta,
    pub(super) body: Option<Body>,
    /// What this site's service said.
    pub(super) status: Option<u16>,
    /// It is sure to have its turn: it is not only in a log, where another may take its place.
    pub(super) sure: bool,
}

/// What comes along with what the machine wants recorded.
pub(super) struct With<'w> {
    /// This site.
    pub(super) here: &'w Site,
    /// Writes that operations among it may name.
    pub(super) staged: &'w [Kept],
    /// Operations that no site executes.
    pub(super) withdrawn: &'w BTreeSet<OpId>,
    /// Where a resource's replicas are.
    pub(super) members: &'w dyn Fn(&Meta) -> Vec<Site>,
}

/// What is remembered.
#[derive(Default)]
pub(super) struct Book {
    pub(super) ops: BTreeMap<OpId, Open>,
    bodies: HashMap<Arc<str>, OpId>,
    pub(super) kept: HashMap<Arc<str>, KeptInfo>,
    kept_bytes: u64,
    shapes: Shapes,
    /// Operations by the names that other sites told clients.
    requests: BTreeMap<OpId, OpId>,
    finished: BTreeMap<u64, Finished>,
    /// Where each is among them.
    numbers: HashMap<OpId, u64>,
    /// Replicas that are none any more and still in the service.
    released: BTreeMap<Meta, Shape>,
    /// Those that are no replicated resources any more, by the call at hand.
    letting_go: BTreeMap<Meta, Shape>,
    /// Writes that wait for a place in a log: nothing of them is durable, and need not be.
    pub(super) staged: HashMap<Arc<str>, Kept>,
    /// The bodies that logs name, and the sites that may have them.
    pub(super) logged: HashMap<Arc<str>, BTreeSet<Site>>,
    /// What stands at each place of the logs, and the body that it names.
    pub(super) placed: BTreeMap<Key, (OpId, Arc<str>)>,
    /// Bodies whose place in a log went, since the last look and before it.
    pub(super) displaced: [Vec<(OpId, Arc<str>)>; 2],
    /// This site's own writes in logs.
    pub(super) own: BTreeMap<Key, OpId>,
    /// Bodies in the spool that no write has any more.
    unneeded: Vec<Id>,
    /// What this site accepted and every replica has executed, since the last look.
    completed: Vec<Finished>,
    /// What this site accepted and finished in its turn, and perhaps not every replica.
    pub(super) in_turn: Vec<Finished>,
}

impl Book {
    /// What is on the disk, and the machine's records.
    pub(super) async fn read(
        vault: &Vault,
        here: &Site,
        restoring: &mut Restoring,
    ) -> Result<(Book, BTreeSet<Arc<str>>), store::Error> {
        let mut book = Book::default();
        let mut named = BTreeSet::new();
        let name = |key: &[u8]| Meta(String::from_utf8_lossy(key).into());
        vault.each_shape(|key, shape: Shape| book.shapes.insert(name(&key), shape)).await?;
        for (key, finished) in vault.all::<Finished>(Table::Finished).await? {
            let number = key.try_into().map(u64::from_be_bytes).unwrap_or_default();
            book.numbers.insert(finished.op.clone(), number);
            book.finished.insert(number, finished);
        }
        let read = |bytes: Vec<u8>| {
            let mut record = Record::read(&bytes)
                .map_err(|error| store::Error::Corrupt(format!("a record of the replicas: {error:?}")))?;
            book.share_name(&mut record);
            if let Record::Operation(op) = &record
                && op.body.is_some()
            {
                book.open(op, true);
            }
            book.log(&record, here);
            named.extend(record.bodies().into_iter().map(|Body(id)| id));
            restoring.add(record);
            Ok(())
        };
        vault.each_record(read).await?;
        vault.each_kept(|kept| book.keep(&kept)).await?;
        for (key, released) in vault.all::<Shape>(Table::Released).await? {
            book.released.insert(name(&key), released);
        }
        Ok((book, named))
    }

    /// Texts that are read twice are in memory once.
    fn share_name(&self, record: &mut Record) {
        let meta = match record {
            Record::Operation(op) => &mut op.resource,
            Record::State { map, .. } => &mut map.meta,
            _ => return,
        };
        if let Some((known, _)) = self.shapes.names(meta) {
            meta.clone_from(known);
        }
    }

    /// Takes in what the machine wants recorded, with the writes that came along. Gives the resources that may
    /// look different now.
    pub(super) fn record(
        &mut self,
        put: Vec<Record>,
        remove: Vec<Key>,
        with: &With<'_>,
        changes: &mut Vec<Change>,
    ) -> Vec<Meta> {
        let (mut touched, mut locals) = (Vec::new(), Vec::new());
        self.letting_go.clear();
        for key in remove {
            match &key {
                Key::Operation(id) => self.close(id, with, changes),
                Key::State(meta) | Key::Ordered(meta) => {
                    touched.push(meta.clone());
                    self.let_go(meta, changes);
                }
                Key::Order(_) => self.cut(&key, None, changes),
                Key::Making(meta) => touched.push(meta.clone()),
                Key::Site | Key::Refusal(_) | Key::Lineage | Key::Heard(_) => {}
            }
            changes.push(Change::remove(Table::Machine, bytes_of(&key)));
        }
        let mut gone = Vec::new();
        for record in put {
            match &record {
                // Every replica has executed it: what stays is the machine's, for comparison.
                Record::Operation(op) if op.body.is_none() => self.close(&op.id, with, changes),
                Record::Operation(op) => {
                    self.open(op, true);
                    self.keep_body(op, with.staged, changes);
                    self.find_shape(&op.resource, op.body.as_ref(), changes);
                }
                Record::Order(_) => self.put_in_log(&record, with, changes),
                Record::State { map, .. } | Record::Ordered { map, .. } => {
                    for (op, _) in self.log(&record, with.here) {
                        self.keep_body(&op, with.staged, changes);
                        self.find_shape(&map.meta, op.body.as_ref(), changes);
                    }
                    touched.push(map.meta.clone());
                    if let Some(local) = map.local(with.here) {
                        locals.push((map.meta.clone(), local));
                    }
                }
                Record::Gone(map) => gone.push(map.meta.clone()),
                Record::Making { resource, .. } => touched.push(resource.clone()),
                Record::Site { .. } | Record::Refusal(_) | Record::Lineage(_) | Record::Heard { .. } => {}
            }
            changes.push(Change::put(Table::Machine, bytes_of(&record.key()), &record.bytes()));
        }
        for (meta, local) in locals {
            let before = self.shapes.names(&meta).map(|(_, before)| before);
            let news = before.is_some_and(|before| before != Some(&local));
            if let Some(shape) = self.shapes.get(&meta).filter(|_| news) {
                self.set_shape(&meta, Shape { local: Some(local), ..shape }, changes);
            }
        }
        for meta in &gone {
            self.let_go(meta, changes);
        }
        touched.extend(gone);
        touched
    }

    /// This site has no replica any more.
    fn let_go(&mut self, meta: &Meta, changes: &mut Vec<Change>) {
        if let Some(shape) = self.shapes.remove(meta) {
            self.letting_go.insert(meta.clone(), shape);
            changes.push(Change::remove(Table::Shape, meta.0.as_bytes()));
        }
    }

    /// A write's body becomes durable with the record that names it.
    pub(super) fn keep_body(&mut self, op: &Operation, staged: &[Kept], changes: &mut Vec<Change>) {
        let Some(Body(id)) = op.body.as_ref().filter(|Body(id)| !self.kept.contains_key(id)) else { return };
        let waited = self.staged.remove(id);
        if let Some(kept) = waited.as_ref().or_else(|| staged.iter().find(|kept| kept.id == *id)) {
            self.keep(kept);
            changes.push(Change::put(Table::Kept, kept.id.as_bytes(), kept));
        }
    }

    /// Every replica has executed what this write is: it is erased.
    pub(super) fn complete(
        &mut self,
        body: &Body,
        here: &Site,
        members: impl Fn(&Meta) -> Vec<Site>,
        changes: &mut Vec<Change>,
    ) {
        if let Some((id, open)) = self.bodies.get(&body.0).and_then(|id| Some((id, self.ops.get_mut(id)?))) {
            open.body = None;
            if id.site == *here && open.sure {
                let (op, meta, status) = (id.clone(), open.meta.clone(), open.status);
                let sites = members(&meta);
                self.completed.push(Finished { op, meta, status, sites, place: None });
            }
        }
        self.erase(body, changes);
    }

    /// No site needs this write any more.
    pub(super) fn erase(&mut self, Body(id): &Body, changes: &mut Vec<Change>) {
        self.bodies.remove(id);
        self.staged.remove(id);
        self.logged.remove(id);
        if let Some(info) = self.kept.remove(id) {
            self.kept_bytes = self.kept_bytes.saturating_sub(info.bytes);
            self.unneeded.extend(info.spooled);
            changes.push(Change::remove(Table::Kept, id.as_bytes()));
        }
    }

    /// Bodies in the spool that can be erased once what was recorded so far is durable.
    pub(super) fn unneeded(&mut self) -> Vec<Id> {
        std::mem::take(&mut self.unneeded)
    }

    /// Whether a write that is recorded has this body.
    pub(super) fn needs(&self, id: Id) -> bool {
        self.kept.get(id.to_string().as_str()).is_some_and(|info| info.spooled.is_some())
    }

    /// What this site accepted and every replica has executed, once.
    pub(super) fn completed(&mut self) -> Vec<Finished> {
        std::mem::take(&mut self.completed)
    }

    /// The service here answered so.
    pub(super) fn answered(&mut self, op: &OpId, status: u16) {
        if let Some(open) = self.ops.get_mut(op) {
            open.status = Some(status);
        }
    }

    pub(super) fn set_shape(&mut self, meta: &Meta, shape: Shape, changes: &mut Vec<Change>) {
        changes.push(Change::put(Table::Shape, meta.0.as_bytes(), &shape));
        self.shapes.insert(meta.clone(), shape);
    }

    /// A replica has to be removed from the service, where it has this id.
    pub(super) fn note_release(&mut self, meta: &Meta, local: Option<&LocalId>, changes: &mut Vec<Change>) {
        let Some(shape) = self.letting_go.remove(meta) else { return };
        let shape = Shape { local: local.cloned().or(shape.local), ..shape };
        if shape.local.is_some() {
            changes.push(Change::put(Table::Released, meta.0.as_bytes(), &shape));
            self.released.insert(meta.clone(), shape);
        }
    }

    /// It was removed.
    pub(super) fn is_released(&mut self, meta: &Meta, changes: &mut Vec<Change>) {
        if self.released.remove(meta).is_some() {
            changes.push(Change::remove(Table::Released, meta.0.as_bytes()));
        }
    }

    pub(super) fn released(&self, meta: &Meta) -> Option<&Shape> {
        self.released.get(meta)
    }

    pub(super) fn all_released(&self) -> Vec<Meta> {
        self.released.keys().cloned().collect()
    }

    pub(super) fn shape(&self, meta: &Meta) -> Option<Shape> {
        self.shapes.get(meta)
    }

    /// The same name in the service here, as it is in memory already.
    pub(super) fn shared(&self, meta: &Meta, local: LocalId) -> LocalId {
        let known = self.shapes.names(meta).and_then(|(_, known)| known);
        known.filter(|known| **known == local).cloned().unwrap_or(local)
    }

    /// The operation whose body this is.
    pub(super) fn op_of(&self, kept: &str) -> Option<&OpId> {
        self.bodies.get(kept)
    }

    pub(super) fn op(&self, op: &OpId) -> Option<&Open> {
        self.ops.get(op)
    }

    /// The service, the kind and the path of what an operation writes to.
    pub(super) fn made_by(&self, op: &OpId) -> Option<(&str, &str, &str)> {
        let Body(id) = self.ops.get(op)?.body.as_ref()?;
        let info = self.kept.get(id)?;
        Some((&info.service, &info.kind, info.path.trim_end_matches('/')))
    }

    /// Whether the body of an operation is in the spool.
    pub(super) fn is_spooled(&self, op: &OpId) -> bool {
        let body = self.ops.get(op).and_then(|open| open.body.as_ref());
        body.and_then(|Body(id)| self.kept.get(id)).is_some_and(|info| info.spooled.is_some())
    }

    pub(super) fn is_kept(&self, id: &str) -> bool {
        self.kept.contains_key(id)
    }

    pub(super) fn kept_writes(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    pub(super) fn finished(&self, op: &OpId) -> Option<&Finished> {
        self.finished.get(self.numbers.get(op)?)
    }

    pub(super) fn open(&mut self, op: &Operation, sure: bool) {
        let before = self.ops.get(&op.id);
        let (status, sure) =
            (before.and_then(|open| open.status), sure || before.is_some_and(|open| open.sure));
        if let Some(Body(id)) = &op.body {
            self.bodies.insert(Arc::clone(id), op.id.clone());
        }
        self.ops
            .insert(op.id.clone(), Open { meta: op.resource.clone(), body: op.body.clone(), status, sure });
    }

    /// The operation that a site told a client by this name, when it sent it to another.
    pub(super) fn forwarded(&self, request: &OpId) -> Option<&OpId> {
        self.requests.get(request)
    }

    fn keep(&mut self, kept: &Kept) {
        let info = KeptInfo::of(kept);
        if let (Some(request), Some(op)) = (&info.request, self.bodies.get(&kept.id)) {
            self.requests.insert(request.clone(), op.clone());
            if self.requests.len() > FINISHED.saturating_mul(2) {
                let (ops, numbers) = (&self.ops, &self.numbers);
                self.requests.retain(|_, op| ops.contains_key(op) || numbers.contains_key(op));
            }
        }
        self.kept_bytes = self.kept_bytes.saturating_add(info.bytes);
        self.kept.insert(Arc::clone(&kept.id), info);
    }

    fn close(&mut self, id: &OpId, with: &With<'_>, changes: &mut Vec<Change>) {
        let Some(open) = self.ops.remove(id) else { return };
        if let Some(body) = &open.body {
            self.erase(body, changes);
        }
        let sites = if with.withdrawn.contains(id) { Vec::new() } else { (with.members)(&open.meta) };
        let finished = Finished { op: id.clone(), meta: open.meta, status: open.status, sites, place: None };
        // What has no body any more was completed before.
        if id.site == *with.here && open.body.is_some() && !finished.sites.is_empty() {
            self.completed.push(finished.clone());
        }
        self.remember(finished, changes);
    }

    pub(super) fn remember(&mut self, finished: Finished, changes: &mut Vec<Change>) {
        let number = self.finished.last_key_value().map_or(0, |(number, _)| number.saturating_add(1));
        changes.push(Change::put(Table::Finished, number.to_be_bytes(), &finished));
        self.numbers.insert(finished.op.clone(), number);
        self.finished.insert(number, finished);
        while self.finished.len() > FINISHED {
            let Some((oldest, finished)) = self.finished.pop_first() else { break };
            // It may have been over twice: the later counts.
            if self.numbers.get(&finished.op) == Some(&oldest) {
                self.numbers.remove(&finished.op);
            }
            changes.push(Change::remove(Table::Finished, oldest.to_be_bytes()));
        }
    }

    /// What a write to a resource tells of it.
    pub(super) fn find_shape(&mut self, meta: &Meta, body: Option<&Body>, changes: &mut Vec<Change>) {
        if is_provisional(meta) || self.shapes.contains(meta) {
            return;
        }
        let kept = body.and_then(|Body(id)| self.kept.get(id));
        if let Some(shape) = kept.map(|kept| shape_of(kept, &Name::from(meta))) {
            self.set_shape(meta, shape, changes);
        }
    }
}

/// Whether a resource has no name yet: its first replica gives it one.
pub(super) fn is_provisional(meta: &Meta) -> bool {
    meta.0.starts_with('~')
}

fn bytes_of(key: &Key) -> Vec<u8> {
    // Into memory, types without a length unknown beforehand: it cannot fail.
    postcard::to_allocvec(key).unwrap_or_default()
}
