//! What the keeper tells: cores, clients and administrators.

use std::collections::{BTreeMap, BTreeSet};

use replica::{Class, Event, How, LocalId, Meta, OpId, Operation, ReplicaMap, Stage};
use scope::Site;
use tokio::sync::oneshot;

use super::book::is_provisional;
use super::{Deed, Keeper, naming};
use crate::replicas::admin::{
    self, Admin, Condition, Pending, Refusal, Refused, Replica, Resource, Transfer, Withheld,
};
use crate::replicas::request::Name;
use crate::replicas::understand::plain;
use crate::replicas::{Fate, Place, Stand};

impl Keeper {
    /// Lets the cores know how a resource is now.
    pub(super) fn show(&self, meta: &Meta) {
        if is_provisional(meta) {
            return;
        }
        let made = self.machine.is_made(meta);
        let status = self.machine.status(meta).filter(|status| !status.map.is_detached());
        let ended = status.as_ref().filter(|status| status.deleted && !made && !status.map.chosen);
        let ended = ended.and_then(|status| status.map.local(&self.here)).as_ref().map(Name::from);
        // What is deleted, and still in the service here, is no ordinary resource: a write to it would reach nobody else.
        let status = status.filter(|status| !status.deleted || made);
        // What this site's service has under a name that was chosen elsewhere is its own, and its clients find it.
        let status = status.filter(|status| {
            let diverged = matches!(status.condition, replica::Condition::Diverged { .. });
            !(diverged && status.map.chosen && !made)
        });
        let place = status.map(|status| Place {
            level: status.map.level,
            members: status.map.members().into_iter().cloned().collect(),
            local: status.map.local(&self.here).map(|local| Name::from(&self.book.shared(meta, local))),
            chosen: status.map.chosen,
            readable: self.machine.is_readable(meta),
            unconfirmed: if made { self.unconfirmed(meta, &status.map) } else { BTreeSet::new() },
            shown: crate::replicas::known::Shown { whole: self.machine.is_whole(meta), erasures: 0 },
            deleted: status.deleted,
        });
        let (known, name) = (&self.replicas.known, Name::from(meta));
        known.set(&name, place);
        if let Some(local) = ended {
            known.keep_ids(&name, &local);
        }
    }

    /// The other sites with a replica that are not known to have made it.
    fn unconfirmed(&self, meta: &Meta, map: &ReplicaMap) -> BTreeSet<Site> {
        let others = map.members().into_iter().filter(|site| **site != self.here);
        others.filter(|site| !self.machine.is_made_at(meta, site)).cloned().collect()
    }

    /// Lets the cores know what other sites are known to have made, by a message of theirs.
    pub(super) fn show_confirmed(&self, heard: &[Meta]) {
        for meta in heard.iter().filter(|meta| self.replicas.known.is_unconfirmed(&Name::from(*meta))) {
            self.show(meta);
        }
    }

    /// What became of an operation.
    pub(super) fn fate(&self, op: &OpId) -> Option<Fate> {
        if let Some((meta, making)) = self.machine.makings().find(|(_, making)| making.op == *op) {
            let stand = if making.stage == Stage::InDoubt { Stand::InDoubt } else { Stand::Pending };
            return Some(Fate { meta: meta.clone(), sites: vec![(self.here.clone(), stand)] });
        }
        let known = self.book.op(op).is_some() || self.book.finished(op).is_some();
        let op = self.book.forwarded(op).filter(|_| !known).unwrap_or(op);
        let open = self.book.op(op).map(|open| &open.meta);
        match open.or_else(|| self.book.finished(op).map(|finished| &finished.meta)) {
            Some(meta) => Some(Fate { meta: meta.clone(), sites: self.stands(op) }),
            None => self.fate_of_forward(op),
        }
    }

    pub(super) fn administer(&mut self, admin: Admin) {
        match admin {
            Admin::Resources(reply) => drop(reply.send(self.resources())),
            Admin::Resource(meta, reply) => drop(reply.send(self.resource(&meta))),
            Admin::Waiting(reply) => drop(reply.send(self.machine.waiting())),
            Admin::InDoubt(reply) => drop(reply.send(self.in_doubt())),
            Admin::Withheld(reply) => drop(reply.send(self.withheld())),
            Admin::Refusals(reply) => drop(reply.send(self.refusals())),
            Admin::Counts(reply) => drop(reply.send(admin::Counts {
                resources: self.machine.resources().count(),
                operations: self.machine.kept(),
                kept_bytes: self.book.kept_bytes(),
                in_doubt: self.machine.in_doubt().count(),
                fault: self.fault.as_ref().map(|(what, _)| what.clone()),
            })),
            Admin::Settle(op, executed, id, reply) => match self.doubted(&op, executed, id.as_deref()) {
                Err(why) => drop(reply.send(Err(why))),
                Ok((resource, local)) => {
                    self.doubted.remove(&resource);
                    self.event(Event::Settle { resource, op, executed, local });
                    self.afterwards(Deed::Settled(reply));
                }
            },
            Admin::Probe(op, reply) => self.probe_for(op, reply),
            Admin::Change(meta, change, reply) => self.change(meta, change, reply),
            Admin::Reservations(reply) => drop(reply.send(self.reservations.shown(&self.here))),
            Admin::ClearReservation(name, reply) => self.clear_reservation(&name, reply),
            Admin::Repair(meta, from, reply) => self.repair(meta, from, reply),
            Admin::Compare(meta, reply) => self.compare(meta, reply),
            Admin::Mended(resource, reply) => {
                let known = self.machine.map(&resource).is_some();
                self.event(Event::Mended { resource });
                self.tell_done(reply, known);
            }
        }
    }

    /// Has the service asked once more whether it executed what is in doubt.
    fn probe_for(&mut self, op: OpId, reply: oneshot::Sender<Result<Option<bool>, Refused>>) {
        let found = self.machine.in_doubt().find(|(_, own)| **own == op).map(|(meta, _)| meta.clone());
        let Some(resource) = found else {
            let _ = reply.send(Err(Refused::Unknown));
            return;
        };
        self.probing.entry(op.clone()).or_default().push(reply);
        self.event(Event::Probe { resource, op });
    }

    /// The resource of an operation in doubt, and its name in the service here if the service made it.
    fn doubted(
        &self,
        op: &OpId,
        executed: bool,
        id: Option<&str>,
    ) -> Result<(Meta, Option<LocalId>), Refused> {
        let found = self.machine.in_doubt().find(|(_, own)| *own == op);
        let meta = found.map(|(meta, _)| meta.clone()).ok_or(Refused::Unknown)?;
        let status = self.machine.status(&meta).ok_or(Refused::Unknown)?;
        let copies = self.machine.making(&meta).is_some_and(|making| making.op == *op);
        let makes = copies || status.running.is_some_and(|running| running.execution.how == How::Create);
        if !executed || !makes || status.map.chosen {
            return Ok((meta, None));
        }
        let id = id.ok_or(Refused::Nameless)?;
        // As the service says it, or as lists show names.
        let id = id.rsplit('/').next().unwrap_or_default();
        let state = self.core.state();
        // A copy is of the kind of what it is a copy of, and in the same collection.
        let name = Name::from(&meta);
        let shape = self.book.shape(&meta);
        let of_copy = || Some((name.service(), &*shape.as_ref()?.kind, name.path()));
        let made = if copies { of_copy() } else { self.book.made_by(op) };
        let (service, kind, path) = made.ok_or(Refused::Unknown)?;
        let is_collection = state.settings().profile.kinds.collection(service, &plain(path)).is_some();
        let above = path.rsplit_once('/').map_or("", |(above, _)| above);
        let collection = if is_collection { path } else { above };
        let own = Some(&name).filter(|_| !is_provisional(&meta));
        let name = naming::named(&state, (service, kind), own, collection, id).ok_or(Refused::BadId)?;
        Ok((meta, Some(LocalId::from(&name))))
    }

    fn resources(&self) -> Vec<Resource> {
        let metas = self.machine.resources().filter(|meta| !is_provisional(meta));
        metas.filter_map(|meta| self.resource(meta)).collect()
    }

    fn resource(&self, meta: &Meta) -> Option<Resource> {
        let status = self.machine.status(meta)?;
        let replica = |site: &Site| {
            let waiting = self.machine.unexecuted(meta, site);
            Replica {
                site: site.clone(),
                local: status.map.local(site).map(|local| local.0.to_string()),
                made: if *site == self.here {
                    self.machine.is_made(meta)
                } else {
                    self.machine.is_made_at(meta, site)
                },
                pending: waiting.len(),
                refused: self.refused(site, meta).filter(|_| !waiting.is_empty()),
                since_ms: waiting.iter().map(|op| op.on_behalf_of.time_ms).min(),
                differs: status.differing.contains(&site),
            }
        };
        let in_doubt = status.running.is_some_and(|running| running.stage == Stage::InDoubt);
        // What was asked for once, and is asked for again.
        let deleting = status
            .running
            .is_some_and(|running| running.execution.how == How::Delete && running.stage == Stage::Waiting);
        let making = self.machine.making(meta);
        let condition = match status.condition {
            _ if making.is_some_and(|making| making.stage == Stage::InDoubt) => Condition::InDoubt,
            replica::Condition::Diverged { status } => Condition::Diverged(status),
            _ if status.copying => Condition::Copying,
            replica::Condition::Differs => Condition::Differs,
            replica::Condition::Suspect => Condition::Suspect,
            replica::Condition::Good if in_doubt => Condition::InDoubt,
            replica::Condition::Good if deleting => Condition::Deleting,
            replica::Condition::Good if self.machine.is_readable(meta) => Condition::Good,
            replica::Condition::Good => Condition::Absent,
        };
        Some(Resource {
            name: meta.0.to_string(),
            kind: self.book.shape(meta).map(|shape| shape.kind),
            level: status.map.level,
            replicas: status.map.members().into_iter().map(replica).collect(),
            condition,
            deleted: status.deleted,
            transfers: self
                .transfers(meta)
                .into_iter()
                .map(|(from, bytes, of)| Transfer { from, bytes, of })
                .collect(),
        })
    }

    /// What only an operator can end. It may have been executed before, and be repeated because a replace erased that.
    fn in_doubt(&self) -> Vec<Pending> {
        let doubted = self.machine.in_doubt();
        let copied = |meta: &Meta, op: &OpId| {
            let making = self.machine.making(meta).filter(|making| making.op == *op)?;
            let (resource, user, since_ms) = (meta.0.to_string(), String::new(), making.since_ms);
            let service = Name::from(meta).service().to_owned();
            Some(Pending { op: op.clone(), service, resource, class: "copy", user, since_ms })
        };
        let shown = |(meta, op): (&Meta, &OpId)| {
            self.machine.operation(meta, op).map(|own| self.pending(&own)).or_else(|| copied(meta, op))
        };
        doubted.filter_map(shown).collect()
    }

    /// An operation, as administrators see it.
    fn pending(&self, op: &Operation) -> Pending {
        let service = match self.book.made_by(&op.id) {
            Some((service, _, _)) => service.to_owned(),
            None => Name::from(&op.resource).service().to_owned(),
        };
        pending(op, service)
    }

    /// What waits for somebody to do something about it.
    fn withheld(&self) -> Vec<Withheld> {
        let shown = |meta: &Meta| {
            let (op, why) = self.held_back(meta)?;
            Some(Withheld { operation: self.pending(&*self.machine.operation(meta, op)?), why })
        };
        self.held.keys().filter_map(shown).collect()
    }

    /// What was refused, and nobody was told, from the oldest on.
    fn refusals(&self) -> Vec<Refusal> {
        let shown =
            |own: &replica::Refusal| Refusal { operation: self.pending(&own.operation), status: own.status };
        let mut refusals: Vec<_> = self.machine.refusals().map(shown).collect();
        refusals.sort_by_key(|refusal| refusal.operation.since_ms);
        refusals
    }

    /// Counts what waits.
    pub(super) fn count(&self) {
        let state = self.core.state();
        let others = state.sites.members().iter().filter(|site| **site != self.here);
        let of_each = self.machine.waiting();
        let unknown = |site: &Site| of_each.get(site).map_or(0, |waiting| waiting.unknown);
        let waiting: BTreeMap<_, _> = others.map(|site| (site.clone(), unknown(site))).collect();
        let (in_doubt, resources) = (self.machine.in_doubt().count(), self.machine.resources().count());
        self.replicas.counts.set_now(waiting, in_doubt, resources);
    }
}

fn pending(op: &Operation, service: String) -> Pending {
    let class = match op.class {
        Class::Create => "create",
        Class::Replace => "replace",
        Class::Delete => "delete",
        Class::Add => "add",
        Class::Patch(_) => "patch",
        Class::Action { .. } => "action",
    };
    Pending {
        op: op.id.clone(),
        service,
        resource: op.resource.0.to_string(),
        class,
        user: op.on_behalf_of.user.to_string(),
        since_ms: op.on_behalf_of.time_ms,
    }
}
