//! What the keeper remembers of writes that have one order: they are in a log before they have a turn, and another may
//! take their place there.

use std::collections::BTreeSet;
use std::sync::Arc;

use replica::{Body, Key, LocalId, Meta, OpId, Operation, Record};
use scope::Site;

use super::book::{Book, Finished, Shape, With};
use super::vault::Change;
use crate::replicas::request::{Kept, Name};

impl Book {
    /// A write waits for its place: what is kept of it becomes durable with that.
    pub(super) fn stage(&mut self, kept: Kept) {
        self.staged.insert(Arc::clone(&kept.id), kept);
    }

    /// Whether a site may have the body that a log names.
    pub(super) fn is_for(&self, id: &str, site: &Site) -> bool {
        self.logged.get(id).is_some_and(|sites| sites.contains(site))
    }

    /// Takes in what a record of ordered writes says, and gives those.
    pub(super) fn log(&mut self, record: &Record, here: &Site) -> Vec<(Operation, BTreeSet<Site>)> {
        let (writes, sure) = (record.writes(), matches!(record, Record::Ordered { .. }));
        for (op, sites) in &writes {
            if let Some(Body(id)) = &op.body {
                self.logged.insert(Arc::clone(id), sites.clone());
            }
            // Of what may never have a turn, only this site's own is asked for.
            if sure || op.id.site == *here && self.finished(&op.id).is_none() {
                self.open(op, sure);
            }
            if !sure && op.id.site == *here {
                self.own.insert(record.key(), op.id.clone());
            }
        }
        writes
    }

    /// Something stands at a place of a log.
    pub(super) fn put_in_log(&mut self, record: &Record, with: &With<'_>, changes: &mut Vec<Change>) {
        let writes = self.log_at(record, with.here, changes);
        for op in writes {
            self.keep_body(&op, with.staged, changes);
        }
    }

    fn log_at(&mut self, record: &Record, here: &Site, changes: &mut Vec<Change>) -> Vec<Operation> {
        let op = record.writes().into_iter().next().map(|(op, _)| op.id);
        self.cut(&record.key(), op.as_ref(), changes);
        self.log(record, here).into_iter().map(|(op, _)| op).collect()
    }

    /// Nothing stands at a place of a log any more, or something else: what stood there and had no turn never will.
    pub(super) fn cut(&mut self, key: &Key, now: Option<&OpId>, changes: &mut Vec<Change>) {
        let Some(before) = self.own.remove(key).filter(|before| Some(before) != now) else { return };
        if self.ops.get(&before).is_some_and(|open| !open.sure)
            && let Some(open) = self.ops.remove(&before)
        {
            let (status, sites) = (open.status, Vec::new());
            self.remember(Finished { op: before, meta: open.meta, status, sites, place: None }, changes);
        }
    }

    /// The turn of a write is over at this site: these sites execute it. `own`: this site accepted it.
    pub(super) fn finish(
        &mut self,
        (op, own): (&OpId, bool),
        meta: &Meta,
        place: u64,
        sites: Vec<Site>,
        changes: &mut Vec<Change>,
    ) {
        let Some(open) = self.ops.get_mut(op) else { return };
        open.meta = meta.clone();
        let body = open.body.clone();
        self.find_shape(meta, body.as_ref(), changes);
        if let Some(open) = self.ops.remove(op) {
            let (meta, status) = (open.meta, open.status);
            let finished = Finished { op: op.clone(), meta, status, sites, place: Some(place) };
            if own && !finished.sites.is_empty() {
                self.in_turn.push(finished.clone());
            }
            self.remember(finished, changes);
        }
    }

    /// What this site accepted, and what every replica has finished in its turn, once.
    pub(super) fn completed_in_turn(&mut self, is: impl Fn(&Finished, u64) -> bool) -> Vec<Finished> {
        let is = |own: &mut Finished| own.place.is_none_or(|place| is(own, place));
        self.in_turn.extract_if(.., is).collect()
    }

    /// How a resource is addressed in the service here, also before it has a name for clients.
    pub(super) fn own_shape(&self, meta: &Meta, local: Option<&LocalId>) -> Option<Shape> {
        let of_write = || {
            let name = Name::from(local?);
            let mut bodies =
                self.ops.values().filter(|open| open.meta == *meta).filter_map(|open| open.body.as_ref());
            let kept = bodies.find_map(|Body(id)| self.kept.get(id))?;
            Some(Shape::of(kept, &name))
        };
        self.shape(meta).cloned().or_else(of_write)
    }

    /// Erases the bodies that no record names: what was to be in a log, and another took its place.
    pub(super) fn erase_orphans(&mut self, records: &[Record], changes: &mut Vec<Change>) {
        let named: BTreeSet<Arc<str>> = records.iter().flat_map(Record::bodies).map(|Body(id)| id).collect();
        let orphans: Vec<_> = self.kept.keys().filter(|id| !named.contains(*id)).cloned().collect();
        for id in orphans {
            self.erase(&Body(id), changes);
        }
    }
}
