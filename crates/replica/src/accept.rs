//! A write is accepted: recorded, before anything is executed.

use crate::entry::Entry;
use crate::event::{Effect, Reply, Subject, Ticket, Write};
use crate::machine::Machine;
use crate::map::{Naming, ReplicaMap};
use crate::operation::{Class, Level, Meta, Operation};
use crate::order::Order;
use crate::record::Stage;
use crate::resource::Resource;

/// What the name of a resource begins with that its first replica has not named yet. No service's id looks like it.
pub(crate) const PROVISIONAL: &str = "~";

impl Machine {
    /// Records a write, or refuses it with no effect anywhere.
    pub(crate) fn accept(&mut self, ticket: Ticket, write: Write) {
        if self.has_one_order(&write.subject) {
            return self.accept_ordered(ticket, write);
        }
        let checked = match &write.subject {
            Subject::Existing(meta) => self.existing(meta, &write.class).map(|()| meta.clone()),
            Subject::New { naming: Naming::Chosen(meta), .. } if self.entries.contains_key(meta) => {
                self.existing(meta, &write.class).map(|()| meta.clone())
            }
            Subject::New { naming, sites, .. } => {
                let sane = write.class == Class::Create && sites.contains(&self.here);
                match naming {
                    _ if !sane => Err(Reply::Senseless),
                    // It was never given before. What has this name all the same is something else.
                    Naming::Allocated(meta) if self.map(meta).is_some() => Err(Reply::Unavailable),
                    Naming::Chosen(meta) | Naming::Allocated(meta) => Ok(meta.clone()),
                    Naming::FirstReplica => Ok(self.provisional()),
                }
            }
        };
        match checked {
            Ok(meta) => self.record(ticket, &meta, write),
            Err(reply) => self.call.effects.push(Effect::Answer { ticket, op: None, reply }),
        }
    }

    /// Whether what is written has, or will have, one order. The level that a resource has stays.
    fn has_one_order(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Existing(meta) => self.is_ordered(meta),
            Subject::New { naming: Naming::Chosen(meta), .. } if self.entries.contains_key(meta) => false,
            Subject::New { naming: Naming::Chosen(meta), level, .. } => {
                self.is_ordered(meta) || level.order() == Order::Log
            }
            Subject::New { naming: Naming::FirstReplica | Naming::Allocated(_), level, .. } => {
                level.order() == Order::Log
            }
        }
    }

    /// A name for a resource until the first replica gives it one.
    pub(crate) fn provisional(&self) -> Meta {
        Meta(format!("{PROVISIONAL}{}/{}", self.here, self.counter.saturating_add(1)).into())
    }

    /// Whether a resource here takes such a write.
    fn existing(&self, meta: &Meta, class: &Class) -> Result<(), Reply> {
        let entry = self.entries.get(meta).filter(|entry| entry.is_member(&self.here));
        let entry = entry.ok_or(Reply::NoResource)?;
        let asking = entry.running.as_ref().is_some_and(|running| running.stage == Stage::InDoubt);
        match entry.map.level {
            // It would be among the ordered ones.
            Level::Quorum | Level::Strong => return Err(Reply::NoResource),
            // The service here would be asked before it is told to make it.
            Level::Weak if entry.resource.is_only_named() => return Err(Reply::NotGood),
            // Each site has its own order and its service's own answers.
            Level::Weak => return Ok(()),
            Level::Eventual => {}
        }
        if *class == (Class::Action { idempotent: false }) {
            return Err(Reply::NotRepeatable);
        }
        if !entry.is_good() || asking {
            return Err(Reply::NotGood);
        }
        let seen = entry.resource.seen(&self.here);
        let doomed = entry.resource.is_doomed(&seen);
        match class {
            // It would be beaten by a delete that the service here has yet to execute.
            Class::Create if doomed => Err(Reply::NotGood),
            Class::Create => Ok(()),
            _ if doomed => Err(Reply::NoResource),
            _ if entry.resource.exists(&seen) => Ok(()),
            // What is still to be made here is there at another site, whose clients see it.
            _ if entry.resource.is_to_come(&self.here) => Err(Reply::NotGood),
            _ => Err(Reply::NoResource),
        }
    }

    /// Records it; it is then executed as soon as the resource is not busy.
    fn record(&mut self, ticket: Ticket, meta: &Meta, write: Write) {
        self.touch(meta);
        let id = self.next_op();
        self.counter = id.counter;
        self.call.site = true;
        let stamp = self.clock.tick(self.call.wall_ms);
        if let Subject::New { naming, level, sites } = &write.subject {
            let chosen = matches!(naming, Naming::Chosen(_));
            let map = || ReplicaMap::new(meta.clone(), *level, chosen, sites, stamp, &self.here);
            if !self.entries.contains_key(meta) {
                self.entries.insert(meta.clone(), Entry::new(map(), Resource::new(*level)));
            }
            self.gone.remove(meta);
            let here = &self.here;
            if let Some(entry) = self.entries.get_mut(meta)
                && !entry.resource.exists(&entry.resource.seen(here))
            {
                entry.change_map(here, |map| map.place_anew(sites, stamp, here));
            }
        }
        let Some(entry) = self.entries.get_mut(meta) else { return };
        let op = Operation {
            id: id.clone(),
            resource: meta.clone(),
            class: write.class,
            doubt: write.doubt,
            seen: entry.resource.seen(&self.here),
            stamp,
            on_behalf_of: write.on_behalf_of,
            body: Some(write.body),
        };
        let level = entry.map.level;
        entry.resource.accept(op.clone());
        self.call.ops.insert(id.clone(), Some(op));
        self.asked.insert(id.clone(), ticket);
        self.senders.insert(id.clone());
        if level == Level::Weak {
            self.answer(&id, Reply::Recorded);
        }
    }
}
