//! What operators are shown of replicas, compared with what the services have, while it changes.

use mesh::replication::{Change, Handle, Refused, ReplicaState, Unchangeable};
use serde_json::{Map, Value};
use tokio::task::spawn_local;
use tokio::time::{Duration, sleep};

use super::{Sea, named};
use crate::isle::{NAMES, site};

/// How often an operator tries again where the site that is asked cannot do it yet.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_secs(2);

impl Sea {
    fn handle_for(&self, by: usize, of: usize) -> Option<(Handle, String)> {
        let id = self.ids.borrow().get(&of).cloned()?;
        Some((self.isles[by].with_mesh(mesh::Mesh::replication).flatten()?, named(&id)))
    }

    /// A site is to have no replica of an image any more; or one again, after that.
    pub(super) fn change_replicas(&mut self, by: usize, of: usize, change: Change) {
        let Some((handle, name)) = self.handle_for(by, of) else { return };
        let trace = self.trace.clone();
        // What it had before it was changed, it has in the end.
        let again = matches!(change, Change::Extend(_));
        self.asking.push(spawn_local(async move {
            for _ in 0..TRIES {
                let done = handle.change(&name, change.clone()).await;
                trace.say(format!("{}: the operator changes {name}: {change:?}: {done:?}", NAMES[by]));
                match done {
                    Err(Refused::Unchangeable(Unchangeable::AlreadyThere)) if again => return,
                    Ok(()) | Err(Refused::Ends | Refused::Unchangeable(_)) => return,
                    Err(_) => sleep(PAUSE).await,
                }
            }
        }));
    }

    /// What each service has of an image, without what is its own.
    fn contents(&self, of: usize) -> Vec<Option<Map<String, Value>>> {
        let made = Value::from(format!("w{of}"));
        let bare = |mut image: Map<String, Value>| {
            image.retain(|field, _| !["id", "op", "ops"].contains(&field.as_str()));
            image
        };
        let of_isle = |isle: &crate::isle::Isle| {
            let images = isle.app.images();
            images.into_values().find(|image| image.get("made") == Some(&made)).map(bare)
        };
        self.isles.iter().map(of_isle).collect()
    }

    /// The replicas that sites show as good: which site says so, and of which.
    async fn shown_as_good(&self, of: usize) -> Vec<(usize, usize)> {
        let mut good = Vec::new();
        for isle in &self.isles {
            let Some((handle, name)) = self.handle_for(isle.index, of) else { continue };
            let Ok(resource) = handle.resource(&name).await else { continue };
            for replica in &resource.replicas {
                let at = (0..self.isles.len()).find(|index| site(*index) == replica.site);
                let is_good = resource.state(replica, &site(isle.index)) == ReplicaState::Good;
                good.extend(at.filter(|_| is_good).map(|at| (isle.index, at)));
            }
        }
        good
    }

    /// What is shown as good is there.
    pub(super) async fn look_for_good(&self, of: usize) {
        let good = self.shown_as_good(of).await;
        let contents = self.contents(of);
        if let Some((by, at)) = good.into_iter().find(|(_, at)| contents[*at].is_none()) {
            let (by, at) = (NAMES[by], NAMES[at]);
            let what = format!("{by} shows w{of} at {at} as good, and the service there does not have it");
            self.misled.borrow_mut().get_or_insert(what);
        }
    }

    /// What differs is not all shown as good by anybody, once it was compared.
    pub(super) async fn look_for_differing(&self, of: usize) {
        let good = self.shown_as_good(of).await;
        let contents = self.contents(of);
        for isle in &self.isles {
            let by = isle.index;
            let shown: Vec<usize> = good.iter().filter(|(own, _)| *own == by).map(|(_, at)| *at).collect();
            let (Some(first), true) = (shown.first(), shown.len() > 1) else { continue };
            if let Some(other) = shown.iter().find(|at| contents[**at] != contents[*first]) {
                let (by, one, other) = (NAMES[by], NAMES[*first], NAMES[*other]);
                let what = format!("{by} shows w{of} at {one} and at {other} as good, and they differ");
                self.misled.borrow_mut().get_or_insert(what);
            }
        }
    }

    /// Somebody changes an image in one service, by hand.
    pub(super) fn tamper(&self, at: usize, of: usize) {
        self.isles[at].app.tamper(&format!("w{of}"));
    }

    /// An operator compares the replicas.
    pub(super) fn diff(&mut self, by: usize, of: usize) {
        let Some((handle, name)) = self.handle_for(by, of) else { return };
        let trace = self.trace.clone();
        self.asking.push(spawn_local(async move {
            let compared = handle.compare(&name).await.map(|all| all.len());
            trace.say(format!("{}: the operator compares {name}: {compared:?}", NAMES[by]));
        }));
    }

    /// An operator says which replica is good.
    pub(super) fn repair(&mut self, by: usize, of: usize, from: usize) {
        let Some((handle, name)) = self.handle_for(by, of) else { return };
        let trace = self.trace.clone();
        self.asking.push(spawn_local(async move {
            let done = handle.repair(&name, site(from)).await;
            trace.say(format!("{}: the operator repairs {name} from {}: {done:?}", NAMES[by], NAMES[from]));
        }));
    }
}
