//! What waits at a site for somebody to do something about it, and whether it says why.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mesh::replication::Handle;
use serde_json::Value;
use tokio::time::sleep;

use super::{Sea, named};
use crate::isle::NAMES;
use crate::schedule::{Act, Fault, Level, Schedule, What};

/// The images that are looked at, and those among them that are protected.
#[derive(Clone, Default)]
pub(super) struct Watch {
    pub(super) images: BTreeSet<usize>,
    pub(super) protected: BTreeSet<usize>,
}

impl Watch {
    pub(super) fn of(schedule: &Schedule) -> Watch {
        let mut watch = Watch::default();
        for step in &schedule.steps {
            match &step.what {
                What::Break(Fault::Look { of, .. }) => drop(watch.images.insert(*of)),
                What::Ask(ask) => {
                    if let Act::Protect { of } = ask.act {
                        watch.protected.insert(of);
                    }
                }
                What::Break(_) | What::Walk(_) => {}
            }
        }
        watch
    }
}

impl Sea {
    /// The id of an image that is looked at, and whose client was not told it: its first replica has it under that id.
    pub(super) fn looked_up(&self, of: usize) -> Option<String> {
        let (members, level) = self.made.get(&of)?;
        let first = *members.first()?;
        // Where services count, no replica has the id that clients know.
        if !self.watch.images.contains(&of) || *level != Level::Weak || self.counts {
            return None;
        }
        let made = Value::from(format!("w{of}"));
        let images = self.isles[first].app.images();
        images.into_iter().find(|(_, image)| image.get("made") == Some(&made)).map(|(id, _)| id)
    }

    /// The id of an image for clients, if it is known.
    pub(super) fn id_of(&self, of: usize) -> Option<String> {
        let told = self.ids.borrow().get(&of).cloned();
        told.or_else(|| self.looked_up(of))
    }

    /// The way to what a site knows of an image whose delete may have to wait.
    pub(super) fn watched_at(&self, of: usize, site: usize) -> Option<(Handle, String)> {
        let id = self.id_of(of).filter(|_| self.watch.protected.contains(&of))?;
        Some((self.isles[site].with_mesh(mesh::Mesh::replication).flatten()?, named(&id)))
    }

    /// Looks whether a site says why it has not executed what it was given.
    pub(super) async fn look(&mut self, site: usize, of: usize) {
        let Some(id) = self.id_of(of) else { return };
        for last in [false, true] {
            let Some(handle) = self.isles[site].with_mesh(mesh::Mesh::replication).flatten() else { return };
            let well = self.isles[site].app.well_since().is_some();
            if !well || !self.is_stuck_there(&handle, site, of, &id).await {
                return;
            }
            // What is in doubt is shown as that.
            let in_doubt = handle.in_doubt().await.unwrap_or_default();
            if in_doubt.iter().any(|own| own.resource == named(&id)) {
                return;
            }
            let withheld = handle.withheld().await.unwrap_or_default();
            if let Some(own) = withheld.iter().find(|own| own.operation.resource == named(&id)) {
                return self.trace.say(format!("{}: w{of} waits: {}", NAMES[site], own.why));
            }
            if last {
                self.unexplained.push(format!("w{of} waits at {}, and nothing says why", NAMES[site]));
            }
            sleep(Duration::from_millis(1_500)).await;
        }
    }

    /// Whether something of an image is not executed at a site that could be.
    async fn is_stuck_there(&self, handle: &Handle, site: usize, of: usize, id: &str) -> bool {
        if self.watch.protected.contains(&of) {
            let deleted = handle.resource(&named(id)).await.is_ok_and(|resource| resource.deleted);
            return deleted && self.isles[site].app.has(&format!("w{of}"));
        }
        let (ledger, refused) = (self.isles[site].app.ledger(), handle.refusals().await.unwrap_or_default());
        let records = self.records.borrow();
        records.iter().any(|record| {
            let to = matches!(record.ask.act, Act::Add { of: own } | Act::Patch { of: own, .. } if own == of);
            let by = format!("w{}", record.ask.number);
            let over = ledger.iter().any(|done| done.by.as_ref() == Some(&by) && done.status < 500);
            let operation = record.told.operation.as_deref().unwrap_or_default();
            let refused = refused.iter().any(|own| own.operation.op.to_string() == operation);
            to && record.ask.site == site && record.told.status == 202 && !over && !refused
        })
    }

    /// What each site shows as refused when nobody waited any more: where, and with which status.
    pub(super) async fn all_refusals(&self) -> BTreeMap<String, (usize, u16)> {
        let mut all = BTreeMap::new();
        for isle in &self.isles {
            let Some(handle) = isle.with_mesh(mesh::Mesh::replication).flatten() else { continue };
            for own in handle.refusals().await.unwrap_or_default() {
                all.insert(own.operation.op.to_string(), (isle.index, own.status));
            }
        }
        all
    }
}
