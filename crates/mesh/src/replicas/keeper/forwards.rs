//! Writes that this site sent to another, which was to accept them.

use std::collections::VecDeque;

use replica::{Meta, OpId};
use scope::Site;
use tokio::sync::oneshot;

use super::Keeper;
use crate::replicas::{Fate, Stand};

/// So many writes without an answer are remembered, for who asks what became of one.
const LOST: usize = 10_000;

/// See the module.
#[derive(Default)]
pub(super) struct Forwards {
    /// Those without an answer: by the name that the client was told, of what, and which site was asked.
    lost: VecDeque<(OpId, Meta, Site)>,
    /// Cores that wait for an answer of a site, and want to know when it does not answer any more.
    watchers: Vec<(Meta, Site, oneshot::Sender<()>)>,
}

impl Forwards {
    pub(super) fn lose(&mut self, op: OpId, meta: Meta, site: Site) {
        self.lost.push_back((op, meta, site));
        if self.lost.len() > LOST {
            self.lost.pop_front();
        }
    }
}

impl Keeper {
    /// Tells a core when a site does not answer any more. Nothing is watched where that is not known.
    pub(super) fn watch(&mut self, meta: Meta, site: Site, tell: oneshot::Sender<()>) {
        if self.machine.leader(&meta).is_some() {
            self.forwards.watchers.push((meta, site, tell));
        }
    }

    /// Tells those that wait in vain.
    pub(super) fn tell_watchers(&mut self) {
        if self.forwards.watchers.is_empty() {
            return;
        }
        let machine = &self.machine;
        let over = |watcher: &mut (Meta, Site, oneshot::Sender<()>)| {
            watcher.2.is_closed() || machine.has_lost(&watcher.0, &watcher.1)
        };
        for (_, _, tell) in self.forwards.watchers.extract_if(.., over) {
            let _ = tell.send(());
        }
    }

    /// What is known of a write without an answer: that nobody knows, unless it came to this site since.
    pub(super) fn fate_of_forward(&self, op: &OpId) -> Option<Fate> {
        let (_, meta, site) = self.forwards.lost.iter().find(|(lost, _, _)| lost == op)?;
        Some(Fate { meta: meta.clone(), sites: vec![(site.clone(), Stand::InDoubt)] })
    }
}
