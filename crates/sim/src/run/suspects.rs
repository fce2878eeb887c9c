//! An operator ends what a site that was given back its records cannot end itself.

use mesh::replication::{Condition, Handle, Resource};

use super::Sea;
use crate::isle::{NAMES, site};

/// So many looks, in which the sites compare for themselves.
const PATIENCE: u32 = 8;

impl Sea {
    /// A replica that is suspect for long is repaired from another that is good. Where all others lack the resource, it is
    /// as good as it is.
    pub(super) async fn end_suspicion(&self, index: usize, handle: &Handle, resource: &Resource) {
        let key = (index, resource.name.clone());
        if resource.condition != Condition::Suspect {
            self.suspects.borrow_mut().remove(&key);
            return;
        }
        let looks = {
            let mut suspects = self.suspects.borrow_mut();
            let looks = suspects.entry(key).or_default();
            *looks += 1;
            *looks
        };
        if looks < PATIENCE {
            return;
        }
        let mut lack = true;
        for other in resource.replicas.iter().filter(|replica| replica.site != site(index)) {
            let Some(at) = NAMES.iter().position(|name| *name == other.site.name()) else { continue };
            let Some(theirs) = self.isles[at].with_mesh(mesh::Mesh::replication).flatten() else { return };
            let Ok(theirs) = theirs.resource(&resource.name).await else { continue };
            lack = false;
            if theirs.condition == Condition::Good || theirs.deleted {
                let done = handle.repair(&resource.name, other.site.clone()).await;
                let (here, name) = (NAMES[index], &resource.name);
                self.trace.say(format!("{here}: the operator repairs {name} from {}: {done:?}", other.site));
                return;
            }
        }
        if lack {
            let done = handle.mended(&resource.name).await;
            // What its service has may be more than its records say: the others are repaired from it.
            let id = resource.name.rsplit('/').next().unwrap_or_default().to_owned();
            self.kept.borrow_mut().insert((index, id));
            self.trace.say(format!("{}: the operator keeps {}: {done:?}", NAMES[index], resource.name));
        }
    }
}
