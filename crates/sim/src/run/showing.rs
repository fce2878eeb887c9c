//! What administrators are shown at the end.

use std::time::Duration;

use mesh::replication::ReplicaState;
use tokio::time::sleep;

use super::Sea;
use crate::isle::site;

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

    async fn shown_now(&self) -> Vec<(usize, usize, usize, ReplicaState)> {
        let mut shown = Vec::new();
        let ids = self.ids.borrow().clone();
        for isle in self.isles.iter().filter(|isle| Some(isle.index) != self.void()) {
            let Some(handle) = isle.with_mesh(mesh::Mesh::replication).flatten() else { continue };
            for resource in handle.resources().await.unwrap_or_default() {
                let id = resource.name.rsplit('/').next().unwrap_or_default();
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
