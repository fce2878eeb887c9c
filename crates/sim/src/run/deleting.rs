//! An operator looks whether something is deleted.

use super::Sea;
use crate::isle::{NAMES, site};

impl Sea {
    /// Compares what each site shows of an image with what its service has.
    pub(super) async fn look_whether_deleted(&self, of: usize) {
        let Some(id) = self.ids.borrow().get(&of).cloned() else { return };
        let members = self.made.get(&of).map(|(members, _)| members.clone()).unwrap_or_default();
        for index in members {
            let isle = &self.isles[index];
            let Some(handle) = isle.with_mesh(mesh::Mesh::replication).flatten() else { continue };
            let Ok(resource) = handle.resource(&format!("image:/images/{id}")).await else { continue };
            let mut own = resource.replicas.iter().filter(|replica| replica.site == site(index));
            let shown = resource.deleted && own.all(|replica| replica.pending == 0);
            let made = format!("w{of}");
            let there =
                isle.app.images().values().any(|image| image.get("made").is_some_and(|by| *by == *made));
            if shown && there {
                let what = format!("{made} is shown as deleted at {}, whose service has it", NAMES[index]);
                self.hasty.borrow_mut().get_or_insert(what);
            }
        }
    }
}
