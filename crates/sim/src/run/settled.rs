//! What an operator looks at again after having settled it.

use super::Sea;
use crate::isle::site;

impl Sea {
    /// A site that was given a copy made between a creation and the record of its name does not know that name. Clients who
    /// do write to it as to anything that its service has, and no other site hears of that. Once the operator has said what
    /// was made, the comparison shows that the replicas differ, without a majority; the operator says that this site's is
    /// good. True where one had to be repaired.
    pub(super) async fn repair_what_was_settled(&self) -> bool {
        let (settled, mut repaired) = (self.settled.borrow().clone(), false);
        for (index, id) in settled {
            let name = format!("image:/images/{id}");
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
