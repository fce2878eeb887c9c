//! What the keeper tells: cores, clients and administrators.

use std::collections::BTreeMap;

use replica::{Class, Event, Meta, OpId, Operation, Stage};
use scope::Site;

use super::Keeper;
use super::book::is_provisional;
use crate::replicas::admin::{self, Admin, Condition, Pending, Replica, Resource, Transfer};
use crate::replicas::request::Name;
use crate::replicas::{Fate, Place};

impl Keeper {
    /// Lets the cores know how a resource is now.
    pub(super) fn show(&self, meta: &Meta) {
        if is_provisional(meta) {
            return;
        }
        let status = self.machine.status(meta).filter(|status| !status.deleted && !status.map.is_detached());
        let place = status.map(|status| Place {
            level: status.map.level,
            members: status.map.members().into_iter().cloned().collect(),
            local: status.map.local(&self.here).as_ref().map(Name::from),
            readable: self.machine.is_readable(meta),
        });
        self.replicas.known.set(&Name::from(meta), place);
    }

    /// What became of an operation.
    pub(super) fn fate(&self, op: &OpId) -> Option<Fate> {
        let open = self.book.op(op).map(|open| &open.meta);
        let meta = open.or_else(|| self.book.finished(op).map(|finished| &finished.meta))?.clone();
        Some(Fate { meta, sites: self.stands(op) })
    }

    pub(super) fn administer(&mut self, admin: Admin) {
        match admin {
            Admin::Resources(reply) => drop(reply.send(self.resources())),
            Admin::Pending(site, reply) => {
                let of =
                    |meta: &Meta| self.machine.unexecuted(meta, &site).into_iter().map(pending).collect();
                drop(reply.send(self.machine.resources().flat_map(|meta| -> Vec<_> { of(meta) }).collect()));
            }
            Admin::InDoubt(reply) => drop(reply.send(self.in_doubt())),
            Admin::Counts(reply) => drop(reply.send(admin::Counts {
                resources: self.machine.resources().count(),
                operations: self.machine.kept(),
                kept_bytes: self.book.kept_bytes(),
                in_doubt: self.machine.in_doubt().count(),
                fault: self.fault.as_ref().map(|(what, _)| what.clone()),
            })),
            Admin::Settle(op, executed, local, reply) => {
                let found = self.machine.in_doubt().find(|(_, own)| **own == op);
                let resource = found.map(|(meta, _)| meta.clone());
                let known = resource.is_some();
                if let Some(resource) = resource {
                    self.event(Event::Settle { resource, op, executed, local });
                }
                self.tell_done(reply, known);
            }
            Admin::Change(meta, change, reply) => self.change(meta, change, reply),
            Admin::Repair(meta, from, reply) => self.repair(meta, from, reply),
            Admin::Compare(meta, reply) => self.compare(meta, reply),
            Admin::Mended(resource, reply) => {
                let known = self.machine.map(&resource).is_some();
                self.event(Event::Mended { resource });
                self.tell_done(reply, known);
            }
        }
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
                pending: waiting.len(),
                since_ms: waiting.iter().map(|op| op.on_behalf_of.time_ms).min(),
            }
        };
        let in_doubt = status.running.is_some_and(|running| running.stage == Stage::InDoubt);
        let condition = match status.condition {
            _ if status.copying => Condition::Copying,
            replica::Condition::Diverged { status } => Condition::Diverged(status),
            replica::Condition::Differs => Condition::Differs,
            replica::Condition::Good if in_doubt => Condition::InDoubt,
            replica::Condition::Good if self.machine.is_readable(meta) => Condition::Good,
            replica::Condition::Good => Condition::Absent,
        };
        Some(Resource {
            name: meta.0.to_string(),
            kind: self.book.shape(meta).map(|shape| shape.kind.clone()),
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

    fn in_doubt(&self) -> Vec<Pending> {
        let doubted = self.machine.in_doubt().map(|(meta, op)| (meta.clone(), op.clone()));
        let here = |(meta, op): (Meta, OpId)| {
            self.machine.unexecuted(&meta, &self.here).into_iter().find(|own| own.id == op).map(pending)
        };
        doubted.filter_map(here).collect()
    }

    /// Counts what waits.
    pub(super) fn count(&self) {
        let state = self.core.state();
        let others = state.sites.members().iter().filter(|site| **site != self.here);
        let waiting = others.map(|site| (site.clone(), self.machine.pending(site).count()));
        let waiting: BTreeMap<_, _> = waiting.collect();
        let (in_doubt, resources) = (self.machine.in_doubt().count(), self.machine.resources().count());
        self.replicas.counts.set_now(waiting, in_doubt, resources);
    }
}

fn pending(op: &Operation) -> Pending {
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
        resource: op.resource.0.to_string(),
        class,
        user: op.on_behalf_of.user.to_string(),
        since_ms: op.on_behalf_of.time_ms,
    }
}
