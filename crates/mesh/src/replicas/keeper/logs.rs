//! What the keeper remembers of writes that have one order: they are in a log before they have a turn, and another may
//! take their place there.

use std::collections::BTreeSet;
use std::sync::Arc;

use replica::{Body, Key, LocalId, Meta, OpId, Operation, Record};
use scope::Site;

use super::book::{Book, Finished, With, shape_of};
use super::shapes::Shape;
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
            if let Some(Body(id)) = op.body.as_ref().filter(|_| !sure) {
                self.placed.insert(record.key(), (op.id.clone(), Arc::clone(id)));
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
        let before = self.placed.remove(key).filter(|(before, _)| Some(before) != now);
        self.displaced[0].extend(before);
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
            Some(shape_of(kept, &name))
        };
        self.shape(meta).or_else(of_write)
    }

    /// Erases the bodies whose place in a log went, and that had no turn: another write took the place, or the state
    /// of another replica was copied that has it. Not at once: the same may be on its way here again, and be taken
    /// for one whose body is here.
    pub(super) fn erase_displaced(&mut self, changes: &mut Vec<Change>) {
        let [new, old] = std::mem::take(&mut self.displaced);
        self.displaced = [Vec::new(), new];
        for (op, id) in old {
            let turn = self.ops.get(&op).is_some_and(|open| open.sure)
                || self.finished(&op).is_some_and(|finished| finished.place.is_some());
            if !turn && !self.placed.values().any(|(_, placed)| *placed == id) {
                self.erase(&Body(id), changes);
            }
        }
    }

    /// Erases the bodies that no record names: what was to be in a log, and another took its place.
    pub(super) fn erase_orphans(&mut self, named: &BTreeSet<Arc<str>>, changes: &mut Vec<Change>) {
        let orphans: Vec<_> = self.kept.keys().filter(|id| !named.contains(*id)).cloned().collect();
        for id in orphans {
            self.erase(&Body(id), changes);
        }
    }
}

#[cfg(test)]
mod tests {
    use replica::Epoch;

    use super::*;
    use crate::replicas::keeper::book::Open;

    /// A book with a body at one place of a log, that goes; what is left of the body after some looks.
    fn left(looks: usize, prepare: impl FnOnce(&mut Book, &OpId, &Arc<str>)) -> bool {
        let (mut book, mut changes, id) = (Book::default(), Vec::new(), Arc::<str>::from("body"));
        let op = OpId { site: Site::new("A").unwrap(), epoch: Epoch::default(), counter: 1 };
        let key = Key::Ordered(Meta("first".into()));
        book.logged.insert(Arc::clone(&id), BTreeSet::new());
        book.placed.insert(key.clone(), (op.clone(), Arc::clone(&id)));
        prepare(&mut book, &op, &id);
        book.cut(&key, None, &mut changes);
        (0..looks).for_each(|_| book.erase_displaced(&mut changes));
        book.logged.contains_key(&id)
    }

    #[test]
    fn a_body_goes_with_the_last_place_in_a_log_that_names_it() {
        assert!(left(1, |_, _, _| ()), "the same write may be on its way here again");
        assert!(!left(2, |_, _, _| ()));
        let elsewhere = |book: &mut Book, op: &OpId, id: &Arc<str>| {
            book.placed.insert(Key::Ordered(Meta("second".into())), (op.clone(), Arc::clone(id)));
        };
        assert!(left(3, elsewhere));
    }

    #[test]
    fn the_body_of_a_write_that_has_a_turn_stays_until_that_is_over() {
        let queued = |book: &mut Book, op: &OpId, id: &Arc<str>| {
            let (meta, body) = (Meta("first".into()), Some(Body(Arc::clone(id))));
            book.ops.insert(op.clone(), Open { meta, body, status: None, sure: true });
        };
        assert!(left(3, queued));
    }
}
