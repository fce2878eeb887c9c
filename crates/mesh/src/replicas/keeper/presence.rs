//! Whether a service has what a write was about, where the answer to the write does not tell.

use profile::Deletion;
use replica::How;

use super::execute::{Job, item_path, kind, look};
use crate::core::{Core, State};
use crate::replicas::request::{Kept, Name};

impl Job {
    /// Whether the service still has what it was to delete, where its kind says that something else may hold it.
    pub(super) async fn is_held(&self, state: &State, kept: &Kept) -> bool {
        let kind = kind(state, &kept.service, &kept.kind, &kept.path);
        let later = kind.is_some_and(|kind| kind.deletion == Deletion::Absent);
        let Some(local) = self.local.as_ref().filter(|_| later && self.execution.how == How::Delete) else {
            return false;
        };
        let local = Name::from(local);
        !is_absent(&self.core, state, &local, &item_path(kept, &self.operation.class, &local)).await
    }

    /// Whether what could not be found is a part that was to be deleted, of a resource that is there: a write that sets the
    /// whole of what it was an element of may have taken it away before.
    pub(super) async fn has_no_such_part(&self, state: &State, kept: &Kept) -> bool {
        let deletes = kept.method == "DELETE" && matches!(self.execution.how, How::Patch(_));
        let Some(local) = self.local.as_ref().filter(|_| deletes && !kept.below.trim_matches('/').is_empty())
        else {
            return false;
        };
        let local = Name::from(local);
        let path = item_path(kept, &self.operation.class, &local);
        matches!(look(&self.core, state, &local, &path).await, Some((200..=299, _)))
    }
}

/// Whether a service says that it has nothing there.
pub(super) async fn is_absent(core: &Core, state: &State, name: &Name, path: &str) -> bool {
    matches!(look(core, state, name, path).await, Some((404 | 410, _)))
}
