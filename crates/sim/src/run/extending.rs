//! An operator has a replica made at one more site.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use mesh::replication::{Change, Refused, Unchangeable};
use scope::View as _;
use tokio::task::spawn_local;

use super::{Record, Sea, named};
use crate::isle::{NAMES, site};
use crate::schedule::Act;

/// What was ordered, by what made the image and by its new site: whether the operator was told that it is so.
pub(super) type Extended = Rc<RefCell<BTreeMap<(usize, usize), bool>>>;

impl Sea {
    /// Ordered at this site, where it runs. Nobody waits for it: the site may end before it has said anything.
    pub(super) fn extend(&mut self, by: usize, of: usize, to: usize) {
        let id = self.ids.borrow().get(&of).cloned();
        let handle = self.isles[by].with_mesh(mesh::Mesh::replication).flatten();
        let Some((id, handle)) = id.zip(handle) else {
            self.trace.say(format!("w{of} is not extended: {} does not run, or it was not made", NAMES[by]));
            return;
        };
        // As `archipel replicas extend` does, before it asks the mesh.
        if self.isles[by].view().is_none_or(|view| view.find(NAMES[to]).is_none()) {
            return self
                .trace
                .say(format!("w{of} is not extended: {} knows no site {}", NAMES[by], NAMES[to]));
        }
        let (trace, extended) = (self.trace.clone(), Rc::clone(&self.extended));
        self.asking.push(spawn_local(async move {
            let done = handle.change(&named(&id), Change::Extend(site(to))).await;
            trace.say(format!("{}: the operator extends w{of} to {}: {done:?}", NAMES[by], NAMES[to]));
            let told = match done {
                Ok(()) | Err(Refused::Unchangeable(Unchangeable::AlreadyThere)) => true,
                // It may be so, or not.
                Err(Refused::Ends) => false,
                Err(_) => return,
            };
            *extended.borrow_mut().entry((of, to)).or_default() |= told;
        }));
    }

    /// The sites that an image has by now besides those that it was made at, as operators were told.
    pub(super) fn added_to(&self, of: usize) -> Vec<usize> {
        let extended = self.extended.borrow();
        extended.iter().filter(|((own, _), told)| *own == of && **told).map(|((_, to), _)| *to).collect()
    }

    /// What was made is also at the sites that operators gave it. Where one was not told, it is as the sites say that it is.
    pub(super) async fn extend_records(&self, records: &mut [Record]) {
        let extended = self.extended.borrow().clone();
        for ((of, to), told) in extended {
            let made = |record: &&mut Record| {
                record.ask.number == of && matches!(record.ask.act, Act::Create { .. })
            };
            let Some(record) = records.iter_mut().find(made) else { continue };
            if told || self.is_listed(of, to, &record.members).await {
                record.members.push(to);
            }
        }
    }

    /// The ids of what operators gave one more site, or tried to.
    pub(super) fn moved(&self) -> Vec<String> {
        let ids = self.ids.borrow();
        self.extended.borrow().keys().filter_map(|(of, _)| ids.get(of).cloned()).collect()
    }

    async fn is_listed(&self, of: usize, to: usize, members: &[usize]) -> bool {
        let Some(id) = self.ids.borrow().get(&of).cloned() else { return false };
        for member in members {
            let handle = self.isles[*member].with_mesh(mesh::Mesh::replication).flatten();
            let Some(handle) = handle else { continue };
            let Ok(resource) = handle.resource(&named(&id)).await else { continue };
            return resource.replicas.iter().any(|replica| replica.site == site(to));
        }
        false
    }
}
