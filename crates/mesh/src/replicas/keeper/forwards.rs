//! Writes that this site sent to another, which was to accept them.

use std::collections::VecDeque;

use replica::{Meta, OpId, Reply};
use scope::Site;
use tokio::sync::oneshot;

use super::Keeper;
use crate::replicas::{Fate, Stand};

/// So many writes without an answer are remembered, for who asks what became of one.
const LOST: usize = 10_000;
/// What says that a write was executed nowhere.
const UNAVAILABLE: u16 = 503;

/// See the module.
#[derive(Default)]
pub(super) struct Forwards {
    /// Those without an answer: by the name that the client was told, of what, and who was asked.
    lost: VecDeque<(OpId, Meta, Silent)>,
    /// Cores that wait for an answer of a site, and want to know when it does not answer any more.
    watchers: Vec<(Meta, Site, oneshot::Sender<()>)>,
}

/// Who gave no answer.
pub(super) enum Silent {
    /// A site that was asked.
    Site(Site),
    /// The sites of a claim to a name, by its number.
    Claim(u128, Vec<Site>),
    /// Nobody: this site, which was to take it, has said since that it is executed nowhere.
    Refused(Site),
}

impl Forwards {
    fn lose(&mut self, op: OpId, meta: Meta, silent: Silent) {
        self.lost.push_back((op, meta, silent));
        if self.lost.len() > LOST {
            self.lost.pop_front();
        }
    }

    /// There is an answer to a write that was not recorded. Who asks for what became of it is told so.
    pub(super) fn over(&mut self, op: &OpId, reply: &Reply) {
        use Reply::{Elsewhere, Missing, NoMajority, NotGood, Unavailable};
        if matches!(reply, Elsewhere(_) | Missing(_) | NoMajority | NotGood | Unavailable)
            && let Some((_, _, silent)) = self.lost.iter_mut().find(|(lost, _, _)| lost == op)
            && let Silent::Site(site) = silent
        {
            *silent = Silent::Refused(site.clone());
        }
    }
}

impl Keeper {
    /// A request that claimed a name has ended, and nobody knows what became of its write.
    pub(super) fn lose_claim(&mut self, op: OpId, meta: Meta, number: u128) {
        let sites = self.reservations.sites_of(number);
        self.lose(op, meta, Silent::Claim(number, sites));
    }

    /// Nobody knows what became of a write, and its client was told this name. What is recorded tells more itself.
    pub(super) fn lose(&mut self, op: OpId, meta: Meta, silent: Silent) {
        if self.book.op(&op).is_none() && self.book.finished(&op).is_none() {
            self.forwards.lose(op, meta, silent);
        }
    }

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
        let (_, meta, silent) = self.forwards.lost.iter().find(|(lost, _, _)| lost == op)?;
        let sites = match silent {
            Silent::Site(site) => vec![(site.clone(), Stand::InDoubt)],
            Silent::Refused(site) => vec![(site.clone(), Stand::Refused(UNAVAILABLE))],
            Silent::Claim(number, sites) => {
                let stand = |site: &Site| {
                    let doubted = self.reservations.is_doubted(*number, site);
                    (site.clone(), if doubted { Stand::InDoubt } else { Stand::Answered })
                };
                sites.iter().map(stand).collect()
            }
        };
        Some(Fate { meta: meta.clone(), sites })
    }
}
