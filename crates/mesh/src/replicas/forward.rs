//! A write that another site is asked to accept.
//!
//! It has a name before it leaves, which goes with it: where no answer comes, the client is told that name, and every site that has
//! the write knows it by it.

use http::request::Parts;
use plan::{Sent, Why};
use replica::{Meta, Naming, OpId, Subject};
use scope::Site;

use super::walk::{At, Outcome};
use super::{Name, Order, Replicas, answer, group};
use crate::body::LegBody;
use crate::leg::LegFailure;

/// One write, for the sites that are asked in turn.
pub(super) struct Forward<'f> {
    at: At<'f>,
    replicas: &'f Replicas,
    /// The resource: of one that has no name yet, where it is made.
    meta: Meta,
    name: Option<OpId>,
}

impl<'f> Forward<'f> {
    /// Of a write that was understood.
    pub(super) fn new(at: At<'f>, replicas: &'f Replicas, subject: &Subject) -> Forward<'f> {
        let meta = match subject {
            Subject::Existing(meta) | Subject::New { naming: Naming::Chosen(meta), .. } => meta.clone(),
            Subject::New { naming: Naming::FirstReplica | Naming::Allocated(_), .. } => {
                Meta::from(&Name::new(&at.service.name, ""))
            }
        };
        Forward { at, replicas, meta, name: None }
    }

    /// Of one that only other sites can understand.
    pub(super) fn unnamed(at: At<'f>, replicas: &'f Replicas, head: &Parts) -> Forward<'f> {
        let meta = Meta::from(&Name::new(&at.service.name, head.uri.path()));
        Forward { at, replicas, meta, name: None }
    }

    /// To this site. Its answer is waited for until it is known not to answer any more.
    pub(super) async fn to(&mut self, site: &Site, mut head: Parts, body: LegBody) -> Outcome {
        if self.name.is_none() {
            self.name = self.replicas.reserve().await;
        }
        if let Some(name) = &self.name {
            group::write_request(&mut head, name);
        }
        let outcome = tokio::select! {
            biased;
            outcome = self.at.at_peer(site, head, body) => outcome,
            () = self.replicas.lose(self.meta.clone(), site.clone()) => {
                let detail = "it has fallen silent".to_owned();
                Err(LegFailure { sent: Sent::Maybe, why: Why::TimedOut, problem: None, detail })
            }
        };
        match (outcome, &self.name) {
            (Err(failure), Some(name)) if failure.sent == Sent::Maybe && failure.problem.is_none() => {
                let _ = self.replicas.orders.send(Order::Lost(name.clone(), self.meta.clone(), site.clone()));
                Ok(answer::lost(name, &failure, site))
            }
            (outcome, _) => outcome,
        }
    }
}
