//! What an operator finds in the log of a service, and what nobody had a name for.

use mesh::replication::Resource;
use replica::OpId;
use tokio::time::Instant;

use super::{Sea, named};
use crate::isle::{Isle, site};

impl Sea {
    /// Whether a site's service executed an operation, and what it made then.
    pub(super) fn executed(&self, isle: &Isle, op: &OpId) -> (bool, Option<String>) {
        let mut ledger = isle.app.ledger();
        // A service that was given an old copy has no more what it did after that.
        ledger.retain(|done| {
            let lost = |(site, since, until): &(usize, Instant, Instant)| {
                *site == isle.index && (*since..*until).contains(&done.at)
            };
            !self.unexecuted.iter().any(lost)
        });
        let name = op.to_string();
        let done = ledger.iter().rposition(|done| done.effect && done.operation.as_deref() == Some(&name));
        let done = done.and_then(|at| {
            let (done, after) = ledger.get(at..)?.split_first()?;
            let erased = after
                .iter()
                .any(|later| later.effect && later.method == "PUT" && done.path.starts_with(&later.path));
            (!erased).then_some(done)
        });
        (done.is_some(), done.and_then(|done| done.id.clone()))
    }

    /// A site that was given a copy made between a creation and the record of its name does not know that name. Clients who
    /// do write to it as to anything that its service has, and no other site hears of that.
    pub(super) async fn note_what_has_no_name(&mut self, index: usize) {
        let isle = &self.isles[index];
        let Some(handle) = isle.with_mesh(mesh::Mesh::replication).flatten() else { return };
        for pending in handle.in_doubt().await.unwrap_or_default() {
            self.unnamed.extend(self.executed(isle, &pending.op).1.map(|id| (index, id)));
        }
    }

    /// The name for operators of what a site's service has by this id. A service that counts has another one than clients know.
    async fn name_of(&self, index: usize, id: &str) -> String {
        let handle = self.isles[index].with_mesh(mesh::Mesh::replication).flatten();
        let resources = match handle.filter(|_| self.counts) {
            Some(handle) => handle.resources().await.unwrap_or_default(),
            None => Vec::new(),
        };
        let is_it = |resource: &Resource| {
            let here = resource.replicas.iter().find(|replica| replica.site == site(index));
            here.and_then(|replica| replica.local.as_deref()?.rsplit('/').next()) == Some(id)
        };
        resources.into_iter().find(is_it).map_or_else(|| named(id), |resource| resource.name)
    }

    /// Once the operator, or another site, has said what was made, the comparison shows that the replicas differ; the
    /// operator says that this site's is good. True where one had to be repaired.
    pub(super) async fn repair_what_had_no_name(&self) -> bool {
        let mut repaired = false;
        for (index, id) in self.unnamed.iter().map(|(index, id)| (*index, id)) {
            let name = self.name_of(index, id).await;
            let handle = |index: usize| self.isles[index].with_mesh(mesh::Mesh::replication).flatten();
            let Some(own) = handle(index) else { continue };
            let compared = own.compare(&name).await.unwrap_or_default();
            let has =
                |own: usize| compared.iter().find(|has| has.site == site(own)).and_then(|has| has.content);
            let differs = |other: &usize| has(*other).is_some() && has(*other) != has(index);
            for other in (0..self.isles.len()).filter(differs) {
                let Some(handle) = handle(other) else { continue };
                let done = handle.repair(&name, site(index)).await;
                self.trace.say(format!("the operator repairs {name}: {done:?}"));
                repaired = true;
            }
        }
        repaired
    }
}
