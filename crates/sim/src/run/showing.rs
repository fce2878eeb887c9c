//! What administrators are shown at the end.

use std::time::Duration;

use mesh::replication::{ReplicaState, Resource};
use tokio::time::sleep;

use super::Sea;
use crate::isle::{NAMES, site};

/// A confirmation that was lost is asked for again, after a pause that grows up to a minute.
const RETRANSMISSIONS: usize = 24;
const PAUSE: Duration = Duration::from_secs(5);

impl Sea {
    /// What each site says of each replica of what clients made, once nothing is pending any more, or after two minutes.
    pub(super) async fn shown(&self) -> Vec<(usize, usize, usize, ReplicaState)> {
        let mut shown = self.shown_now().await;
        for _ in 0..RETRANSMISSIONS {
            if shown.iter().all(|(.., state)| *state != ReplicaState::Pending) {
                break;
            }
            sleep(PAUSE).await;
            shown = self.shown_now().await;
        }
        shown
    }

    /// What a site shows as good, by the id of some service, that service has.
    fn note_ghosts(&self, by: usize, resource: &Resource) {
        let own = |name: &str| resource.name.starts_with("image:/images/").then_some(name.to_owned());
        for replica in &resource.replicas {
            let Some(at) = (0..self.isles.len()).find(|index| site(*index) == replica.site) else { continue };
            let local = replica.local.as_deref().and_then(|local| own(local.rsplit('/').next()?));
            let Some(local) = local else { continue };
            let good = resource.state(replica, &site(by)) == ReplicaState::Good;
            if good && !self.isles[at].app.images().contains_key(&local) {
                let (by, name) = (NAMES[by], &resource.name);
                let what = format!("{by} shows {name} at {} as good, and no service has it", NAMES[at]);
                self.ghosts.borrow_mut().get_or_insert(what);
            }
        }
    }

    async fn shown_now(&self) -> Vec<(usize, usize, usize, ReplicaState)> {
        let mut shown = Vec::new();
        self.ghosts.take();
        let ids = self.ids.borrow().clone();
        for isle in self.isles.iter().filter(|isle| Some(isle.index) != self.void()) {
            let Some(handle) = isle.with_mesh(mesh::Mesh::replication).flatten() else { continue };
            for resource in handle.resources().await.unwrap_or_default() {
                let id = resource.name.rsplit('/').next().unwrap_or_default();
                self.note_ghosts(isle.index, &resource);
                let Some((of, _)) = ids.iter().find(|(_, known)| *known == id) else { continue };
                for replica in &resource.replicas {
                    let Some(at) = (0..self.isles.len()).find(|index| site(*index) == replica.site) else {
                        continue;
                    };
                    shown.push((isle.index, *of, at, resource.state(replica, &site(isle.index))));
                }
            }
        }
        shown
    }
}
