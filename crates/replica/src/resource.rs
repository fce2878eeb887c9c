//! One replicated resource at one site: what is known, what was executed, what is to be executed next.

use std::collections::{BTreeMap, BTreeSet};

use scope::Site;
use serde::{Deserialize, Serialize};

use crate::converge::Target;
use crate::few::Few;
use crate::operation::{Body, Class, Field, Level, OpId, Operation, names, sets};
use crate::ordered::Copied;
use crate::version::Version;

/// How an operation is to be executed at this site's service, now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub enum How {
    /// The service does not have the resource: make it.
    Create,
    /// Set all of it. It erases every add and patch before it.
    Replace,
    /// Remove it.
    Delete,
    /// Apply it.
    Add,
    /// Set these fields only: the operation's others were overwritten.
    Patch(BTreeSet<Field>),
    /// Do it.
    Action,
}

/// One execution of an operation by this site's service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Execution {
    /// Of which operation.
    pub op: OpId,
    /// In which way.
    pub how: How,
}

/// What a resource wants next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// This execution; then [`Resource::executed`].
    Execute(Execution),
    /// An operation that was accepted here loses to what was executed since, before it was itself
    /// executed anywhere; then [`Resource::withdraw`].
    Beaten(OpId),
}

/// What this site's service holds, in terms of operations. A [`Target`] that was reached, or is being.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub(crate) struct Local {
    pub(crate) base: Option<OpId>,
    pub(crate) adds: BTreeSet<OpId>,
    pub(crate) fields: BTreeMap<Field, OpId>,
}

/// What must survive of a resource, beside its operations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Progress {
    /// Its level.
    pub level: Level,
    /// The operations that are recorded at this site.
    pub known: Version,
    /// The operations that were executed here, or skipped because they lost to one that was.
    pub done: Version,
    /// Operations that were forgotten here: every replica had executed them, and whatever was not known
    /// yet had seen them.
    pub floor: Version,
    /// Accepted here and not yet executed anywhere: no other site knows of them.
    pub(crate) fresh: BTreeSet<OpId>,
    pub(crate) local: Local,
}

/// A replicated resource as one site sees it.
///
/// Operations are taken one at a time, each after all that it has seen, those accepted here first. After
/// each the service is brought to the state that [the rule](crate::converge) gives for the ones taken, so
/// `done` is at every moment what a client of this site can have seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    pub(crate) ops: Few<OpId, Operation>,
    pub(crate) progress: Progress,
    taking: Option<OpId>,
}

impl Resource {
    /// A resource of which nothing is known yet.
    #[must_use]
    pub fn new(level: Level) -> Resource {
        Resource::restore(
            Progress {
                level,
                known: Version::default(),
                done: Version::default(),
                floor: Version::default(),
                fresh: BTreeSet::new(),
                local: Local::default(),
            },
            [],
        )
    }

    /// As it was recorded.
    #[must_use]
    pub fn restore(progress: Progress, ops: impl IntoIterator<Item = (OpId, Operation)>) -> Resource {
        Resource { ops: ops.into_iter().collect(), progress, taking: None }
    }

    /// What an operation that this site accepts now comes after.
    #[must_use]
    pub fn seen(&self, here: &Site) -> Version {
        let mut seen = self.progress.done.clone();
        seen.merge(&self.progress.known.only(here));
        seen
    }

    /// Whether the resource exists for one who has seen this much.
    #[must_use]
    pub fn exists(&self, seen: &Version) -> bool {
        Target::of(self.ops.values().filter(|op| seen.covers(&op.id))).base.is_some()
    }

    /// Whether the resource exists, as far as is known, and this site's service has yet to make it. Of what only its name is known,
    /// the rest is on its way.
    #[must_use]
    pub fn is_to_come(&self, here: &Site) -> bool {
        let known = &self.progress.known;
        !self.exists(&self.seen(here)) && (self.is_only_named() || self.exists(known))
    }

    /// True where nothing is known of it here but its name and its sites.
    pub(crate) fn is_only_named(&self) -> bool {
        self.progress.known == Version::default()
    }

    /// Whether a delete ends the resource that one who has seen this much has not seen: the service here has yet to execute
    /// it. Whatever is accepted meanwhile would lose to it.
    #[must_use]
    pub fn is_doomed(&self, seen: &Version) -> bool {
        let unseen = |op: &Operation| op.class == Class::Delete && !seen.covers(&op.id);
        self.ops.values().any(unseen) && !self.exists(&self.progress.known)
    }

    /// Records an operation that this site accepted, with [`Resource::seen`].
    pub fn accept(&mut self, op: Operation) {
        self.progress.known.add(&op.id);
        self.progress.fresh.insert(op.id.clone());
        self.ops.insert(op.id.clone(), op);
    }

    /// Records an operation from another site. False: it is known, or comes before one that it has seen;
    /// it will be sent again.
    pub fn learn(&mut self, op: Operation) -> bool {
        let new = !self.progress.known.covers(&op.id) && self.progress.known.dominates(&op.seen);
        if !new || self.is_surprised_by(&op) {
            return false;
        }
        self.progress.known.add(&op.id);
        self.ops.insert(op.id.clone(), op);
        true
    }

    /// Whether an operation that is not known here shows that a site was given back old records.
    ///
    /// It has not seen what was forgotten here: what it makes of the state can be told only where that was
    /// not forgotten yet. Or it does not follow what is known of its run: that was withdrawn, once, and
    /// executed again from the old records.
    #[must_use]
    pub fn is_surprised_by(&self, op: &Operation) -> bool {
        let progress = &self.progress;
        let forked = || progress.known.of(&op.id) > op.seen.of(&op.id);
        !progress.known.covers(&op.id)
            && (!op.seen.dominates(&forgotten(progress, self.ops.values())) || forked())
    }

    /// Whether it was accepted here and not yet executed: this execution decides.
    #[must_use]
    pub fn is_fresh(&self, op: &OpId) -> bool {
        self.progress.fresh.contains(op)
    }

    /// The service took it, though it is not over yet: other sites may learn it. True where that decided about an operation that
    /// was accepted here.
    pub(crate) fn decide(&mut self, op: &OpId) -> bool {
        self.progress.fresh.remove(op)
    }

    /// Another site knows this much. What is among it was executed here once, and this site was given back old records
    /// since: nothing is left to decide about it.
    pub fn is_known_elsewhere(&mut self, known: &Version) {
        self.progress.fresh.retain(|id| !known.covers(id));
    }

    /// The operations that other sites may learn, each after all that it has seen.
    pub fn shared(&self) -> impl Iterator<Item = &Operation> {
        let mut ops: Vec<_> = self.ops.values().filter(|op| !self.is_fresh(&op.id)).collect();
        // What was seen has the lower stamp.
        ops.sort_by(|a, b| a.rank().cmp(&b.rank()));
        ops.into_iter()
    }

    /// What is to be done next to bring the service to the state that the rule gives. It is the same
    /// until it was done.
    pub fn step(&mut self) -> Option<Step> {
        self.step_with(|_| true)
    }

    /// The same, where some operations may not be taken yet.
    pub(crate) fn step_with(&mut self, may: impl Fn(&OpId) -> bool) -> Option<Step> {
        loop {
            if let Some(execution) = self.missing() {
                return Some(Step::Execute(execution));
            }
            match self.taking.take() {
                Some(op) if self.is_fresh(&op) => return Some(Step::Beaten(op)),
                Some(op) => self.progress.done.add(&op),
                None => {}
            }
            self.taking = Some(self.ready(&may)?.id.clone());
        }
    }

    /// The service executed it. True where that decided about an operation that was accepted here.
    pub fn executed(&mut self, execution: &Execution) -> bool {
        let Execution { op, how } = execution;
        let local = &mut self.progress.local;
        match how {
            How::Create | How::Replace => {
                *local = Local { base: Some(op.clone()), ..Local::default() };
            }
            How::Delete => *local = Local::default(),
            How::Add | How::Action => {
                local.adds.insert(op.clone());
            }
            How::Patch(fields) => {
                // What sets a whole field erases its elements.
                local.fields.retain(|other, _| !fields.iter().any(|field| sets(field, other)));
                local.fields.extend(fields.iter().map(|field| (field.clone(), op.clone())));
            }
        }
        self.progress.done.add(op);
        if self.taking.as_ref() == Some(op) {
            self.taking = None;
        }
        self.progress.fresh.remove(op)
    }

    /// It has no effect at this site: what it is to is deleted here.
    pub(crate) fn pass_by(&mut self, op: &OpId) {
        self.progress.done.add(op);
        self.taking.take_if(|taking| taking == op);
    }

    /// The service will never execute it: what it has stays as it is, and counts as if it had.
    pub(crate) fn pass_over(&mut self, execution: &Execution) {
        let before = self.progress.local.clone();
        self.executed(execution);
        let local = &mut self.progress.local;
        local.adds.extend(before.adds);
        for (field, id) in before.fields {
            local.fields.entry(field).or_insert(id);
        }
    }

    /// Forgets an operation that was accepted here and that no site executed. Returns the ones accepted
    /// after it: they have no longer seen it.
    pub fn withdraw(&mut self, id: &OpId) -> Vec<OpId> {
        let Some(op) = self.ops.remove(id) else { return Vec::new() };
        self.progress.fresh.remove(id);
        if self.taking.as_ref() == Some(id) {
            self.taking = None;
        }
        let before = op.seen.of(id);
        if self.progress.known.of(id) == id.counter {
            self.progress.known.set(id, before);
        }
        let mut after = Vec::new();
        for later in self.ops.values_mut() {
            if later.id.site == id.site && later.seen.of(id) == id.counter {
                later.seen.set(id, before);
                after.push(later.id.clone());
            }
        }
        after
    }

    /// Whether the state of a replica may take the place of the one here. Not where the replica has not
    /// executed something from elsewhere that this site has: others were told that whatever is accepted
    /// here has seen it.
    #[must_use]
    pub fn can_copy(&self, here: &Site, from: &Snapshot) -> bool {
        from.progress.done.dominates(&self.progress.done.without(here))
    }

    /// Whether the state of a replica lacks what was executed here and cannot be executed again, because it was
    /// forgotten: that one was given back old records, and has to take the state here.
    #[must_use]
    pub fn would_lose(&self, from: &Snapshot) -> bool {
        let emptied = self.ops.values().filter(|op| op.body.is_none());
        !from.progress.done.dominates(&self.progress.floor)
            || emptied.into_iter().any(|op| !from.progress.known.covers(&op.id))
    }

    /// Takes over the state of a replica, which the service here was given: `from` as it was there. What
    /// this site knows beyond it is executed on top. [`Resource::can_copy`] says whether it may.
    ///
    /// Returns, in their order, those that had not seen what was forgotten there: this site was given back
    /// old records, and accepted them after that. They come after the state that was taken; they need stamps
    /// above it.
    pub fn copy(&mut self, here: &Site, from: &Snapshot) -> Vec<OpId> {
        let theirs = &from.progress.known;
        self.ops.retain(|id, _| !theirs.covers(id));
        let forgotten = forgotten(&from.progress, &from.ops);
        let mut later: Vec<_> =
            self.ops.values().filter(|op| !op.seen.dominates(&forgotten)).cloned().collect();
        later.sort_by(|a, b| a.rank().cmp(&b.rank()));
        // Those of another such site will come again, when that has taken a state as well.
        let others: Vec<_> = later.extract_if(.., |op| op.id.site != *here).collect();
        for op in others.iter().rev() {
            self.ops.remove(&op.id);
            self.progress.known.set(&op.id, op.seen.of(&op.id));
        }
        for op in &later {
            if let Some(op) = self.ops.get_mut(&op.id) {
                op.seen.merge(&from.progress.done);
            }
        }
        self.ops.extend(from.ops.iter().map(|op| (op.id.clone(), op.clone())));
        self.progress.known.merge(theirs);
        self.progress.done = from.progress.done.clone();
        self.progress.floor = from.progress.floor.clone();
        self.progress.local = from.progress.local.clone();
        self.taking = None;
        later.into_iter().map(|op| op.id).collect()
    }

    /// What is known here that other sites may learn.
    #[must_use]
    pub fn shared_known(&self) -> Version {
        let mut known = self.progress.known.clone();
        // What is fresh is not executed anywhere, and may never be.
        for id in self.progress.fresh.iter().rev() {
            let before = self.ops.get(id).map_or(0, |op| op.seen.of(id));
            known.set(id, before);
        }
        known
    }

    /// What another replica needs beside the state of the service, to start from it.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let (known, fresh) = (self.shared_known(), BTreeSet::new());
        let progress = Progress { known, fresh, ..self.progress.clone() };
        Snapshot { progress, ops: self.shared().cloned().collect(), ordered: None }
    }

    /// Forgets operations that can no longer change anything. `stable` says that every replica has
    /// executed one, and that every operation not known here has seen it.
    pub fn prune(&mut self, stable: impl Fn(&OpId) -> bool) -> Pruned {
        let target = self.target();
        let waits = self.ops.keys().any(|id| !self.progress.done.covers(id));
        if waits || self.missing().is_some() || target.base.as_ref().is_some_and(|base| !stable(base)) {
            return Pruned::default();
        }
        // The base and the fields' winners stay for comparison with what is concurrent to them, without
        // their bodies: what comes has seen them, so they are not executed again. A delete stays for as
        // long as it beats something that stays.
        let compared =
            |id: &OpId| target.base.as_ref() == Some(id) || target.fields.values().any(|winner| winner == id);
        let (mut pruned, mut deletes) = (Pruned::default(), Vec::new());
        for (id, op) in std::mem::take(&mut self.ops) {
            if op.class == Class::Delete {
                deletes.push(op);
            } else if !stable(&id) || compared(&id) {
                self.ops.insert(id, op);
            } else {
                self.progress.local.adds.remove(&id);
                pruned.gone.push(op);
            }
        }
        for op in deletes {
            if stable(&op.id) && self.ops.values().all(|other| other.class == Class::Delete || other.saw(&op))
            {
                pruned.gone.push(op);
            } else {
                self.ops.insert(op.id.clone(), op);
            }
        }
        pruned.gone.iter().for_each(|op| self.progress.floor.add(&op.id));
        for op in self.ops.values_mut().filter(|op| stable(&op.id)) {
            pruned.emptied.extend(op.body.take().map(|body| (op.id.clone(), body)));
        }
        pruned
    }

    /// Whether something is known of it, and nothing of that is to be executed here.
    pub(crate) fn rests(&self) -> bool {
        let Progress { known, done, fresh, .. } = &self.progress;
        let all = known == done && *known != Version::default() && fresh.is_empty();
        all && self.taking.is_none() && self.missing().is_none()
    }

    /// Whether the service here has the resource.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.progress.local.base.is_some()
    }

    /// Whether the service shows all that was executed here, and all that this site has acknowledged. It does not while a
    /// replacement from elsewhere erases what has then to be executed again, nor where it was given the state of a replica
    /// that lacks something of this site's own. `running` is what the service is asked for now.
    #[must_use]
    pub fn is_whole(&self, here: &Site, running: Option<&Execution>) -> bool {
        let (done, local) = (&self.progress.done, &self.progress.local);
        // At `@weak` nothing is executed again.
        if self.progress.level == Level::Weak {
            return true;
        }
        let lacks = |op: &Operation| op.id.site == *here && !self.is_fresh(&op.id) && !done.covers(&op.id);
        if self.ops.values().any(lacks) || running.is_some_and(|running| self.erases(running)) {
            return false;
        }
        let target = Target::of(self.ops.values().filter(|op| done.covers(&op.id)));
        // What is deleted shows nothing.
        target.base.is_none()
            || target.base == local.base
                && target.adds.is_subset(&local.adds)
                && target.fields.iter().all(|(field, id)| local.fields.get(field) == Some(id))
    }

    /// Whether an execution erases something that counts.
    fn erases(&self, execution: &Execution) -> bool {
        let Some(op) = self.ops.get(&execution.op).filter(|_| execution.how == How::Replace) else {
            return false;
        };
        let Local { adds, fields, .. } = &self.progress.local;
        let kept = adds.iter().chain(fields.values()).filter_map(|id| self.ops.get(id));
        kept.into_iter().any(|kept| !op.saw(kept))
    }

    /// What the operations that were taken make.
    fn target(&self) -> Target {
        Target::of(
            self.ops
                .values()
                .filter(|op| self.progress.done.covers(&op.id) || self.taking.as_ref() == Some(&op.id)),
        )
    }

    /// The first execution that the service lacks for the operations that were taken.
    fn missing(&self) -> Option<Execution> {
        if self.progress.level == Level::Weak {
            return self.in_own_order();
        }
        let (target, local) = (self.target(), &self.progress.local);
        let Some(base) = target.base else {
            local.base.as_ref()?;
            return self.delete();
        };
        if local.base.as_ref() != Some(&base) {
            let how = if local.base.is_some() { How::Replace } else { How::Create };
            return Some(Execution { op: base, how });
        }
        let add = target.adds.difference(&local.adds).map(|id| (1, id));
        let patch = target.fields.iter().filter(|&(field, id)| local.fields.get(field) != Some(id));
        // Fields come before their elements, which would be erased with them.
        let patch = patch.map(|(field, id)| (names(field).len(), id));
        let lacking = add.chain(patch).filter_map(|(depth, id)| Some((depth, self.ops.get(id)?)));
        let (_, first) = lacking.min_by(|(a, one), (b, other)| (a, one.rank()).cmp(&(b, other.rank())))?;
        let how = match first.class {
            Class::Patch(_) => How::Patch(
                target
                    .fields
                    .iter()
                    .filter(|&(field, id)| *id == first.id && local.fields.get(field) != Some(id))
                    .map(|(field, _)| field.clone())
                    .collect(),
            ),
            Class::Action { .. } => How::Action,
            _ => How::Add,
        };
        Some(Execution { op: first.id.clone(), how })
    }

    /// The delete that ends what the service has: one that its base had not seen.
    fn delete(&self) -> Option<Execution> {
        let base = self.progress.local.base.as_ref().and_then(|id| self.ops.get(id));
        let taken =
            |op: &&Operation| self.progress.done.covers(&op.id) || self.taking.as_ref() == Some(&op.id);
        self.ops
            .values()
            .filter(taken)
            .filter(|op| op.class == Class::Delete && base.is_none_or(|base| !base.saw(op)))
            .max_by(|a, b| a.rank().cmp(&b.rank()))
            .map(|op| Execution { op: op.id.clone(), how: How::Delete })
    }

    /// At `@weak` each is executed once, as it comes.
    fn in_own_order(&self) -> Option<Execution> {
        let op = self.ops.get(self.taking.as_ref()?)?;
        let how = match &op.class {
            Class::Create => How::Create,
            Class::Replace => How::Replace,
            Class::Delete => How::Delete,
            Class::Add => How::Add,
            Class::Patch(fields) => How::Patch(fields.clone()),
            Class::Action { .. } => How::Action,
        };
        Some(Execution { op: op.id.clone(), how })
    }

    /// The operation to take next: all that it has seen was taken. Those accepted here come first, since
    /// a client waits for them.
    fn ready(&self, may: impl Fn(&OpId) -> bool) -> Option<&Operation> {
        let done = &self.progress.done;
        self.ops
            .values()
            .filter(|op| !done.covers(&op.id) && done.dominates(&op.seen) && may(&op.id))
            .min_by_key(|op| (!self.is_fresh(&op.id), op.rank()))
    }
}

/// A replica's knowledge of a resource, sent beside the state of its service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Snapshot {
    /// What it knew and had executed.
    pub progress: Progress,
    /// The operations that it still kept.
    pub ops: Vec<Operation>,
    /// Where writes have one order, this is all that counts.
    pub ordered: Option<Copied>,
}

/// What [`Resource::prune`] forgot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pruned {
    /// These operations.
    pub gone: Vec<Operation>,
    /// The bodies of these, which stay for comparison.
    pub emptied: Vec<(OpId, Body)>,
}

/// What cannot be executed again at a replica: whatever is not known there has seen it, but where a site was given back old
/// records. What is kept of it for comparison has no body.
fn forgotten<'o>(progress: &Progress, ops: impl IntoIterator<Item = &'o Operation>) -> Version {
    let mut forgotten = progress.floor.clone();
    let emptied = ops.into_iter().filter(|op| op.body.is_none());
    emptied.for_each(|op| forgotten.add(&op.id));
    forgotten
}
