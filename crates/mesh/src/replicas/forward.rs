//! A write that another site is asked to accept.
//!
//! It has a name before it leaves, which goes with it: where no answer comes, the client is told that name, and every site that has
//! the write knows it by it.

use http::StatusCode;
use http::request::Parts;
use plan::{Sent, Why};
use replica::{Meta, Naming, OpId, Subject};
use scope::Site;
use tokio::time::{Instant, sleep_until};

use super::walk::{At, Outcome, refuse};
use super::write_name::WriteName;
use super::{Name, Order, Replicas, answer, group};
use crate::body::LegBody;
use crate::leg::{self, LegFailure};
use crate::problem::{Problem, UNSENT};

/// One write, for the sites that are asked in turn.
pub(super) struct Forward<'f> {
    at: At<'f>,
    replicas: &'f Replicas,
    /// The resource: of one that has no name yet, where it is made.
    meta: Meta,
    name: Option<OpId>,
    /// Nobody is waited for any longer.
    until: Option<Instant>,
}

/// Sends a write to one other site, which may have a replica of what it is about, although this site knows of none.
pub(crate) async fn named(
    replicas: &Replicas,
    name: &WriteName,
    site: &Site,
    head: &mut Parts,
    send: impl AsyncFnOnce(Parts) -> Outcome,
) -> Outcome {
    let Some(op) = replicas.reserve().await else { return send(head.clone()).await };
    group::write_request(head, &op);
    match name.begin() {
        Some(mut beginning) => beginning.name(op, Some(site.clone())),
        None => return refuse(over()),
    }
    let outcome = send(head.clone()).await;
    if is_without_effect(&outcome) {
        name.forget();
    }
    outcome
}

fn is_without_effect(outcome: &Outcome) -> bool {
    match outcome {
        Ok(response) => response.headers().contains_key(UNSENT),
        Err(failure) => failure.sent == Sent::No,
    }
}

/// Nobody reads it.
fn over() -> Problem {
    let title = "The request is over; nothing was executed";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unreachable", title).unsent()
}

impl<'f> Forward<'f> {
    /// Of a write that was understood.
    pub(super) fn new(
        at: At<'f>,
        replicas: &'f Replicas,
        subject: &Subject,
        until: Option<Instant>,
    ) -> Forward<'f> {
        let meta = match subject {
            Subject::Existing(meta) | Subject::New { naming: Naming::Chosen(meta), .. } => meta.clone(),
            Subject::New { naming: Naming::FirstReplica | Naming::Allocated(_), .. } => {
                Meta::from(&Name::new(&at.service.name, ""))
            }
        };
        Forward { at, replicas, meta, name: None, until }
    }

    /// Of one that only other sites can understand.
    pub(super) fn unnamed(
        at: At<'f>,
        replicas: &'f Replicas,
        head: &Parts,
        until: Option<Instant>,
    ) -> Forward<'f> {
        let meta = Meta::from(&Name::new(&at.service.name, head.uri.path()));
        Forward { at, replicas, meta, name: None, until }
    }

    /// To this site. Its answer is waited for until it is known not to answer any more.
    pub(super) async fn to(&mut self, site: &Site, mut head: Parts, body: LegBody) -> Outcome {
        if self.name.is_none() {
            self.name = self.replicas.reserve().await;
        }
        if let Some(name) = &self.name {
            group::write_request(&mut head, name);
            match self.at.named.map(WriteName::begin) {
                Some(Some(mut beginning)) => beginning.name(name.clone(), Some(site.clone())),
                Some(None) => return refuse(over()),
                None => {}
            }
        }
        let limit = self.at.state.settings().timeouts.peer_response;
        let time_is_up = async {
            match self.until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = self.at.at_peer(site, head, body) => outcome,
            () = time_is_up => Err(leg::late(limit)),
            () = self.replicas.lose(self.meta.clone(), site.clone()) => {
                let detail = "it has fallen silent".to_owned();
                Err(LegFailure { sent: Sent::Maybe, why: Why::TimedOut, problem: None, detail })
            }
        };
        if let Some(named) = self.at.named.filter(|_| is_without_effect(&outcome)) {
            named.forget();
        }
        match (outcome, &self.name) {
            (Err(failure), Some(name)) if failure.sent == Sent::Maybe && failure.problem.is_none() => {
                let _ = self.replicas.orders.send(Order::Lost(name.clone(), self.meta.clone(), site.clone()));
                Ok(answer::lost(name, &failure, site))
            }
            (outcome, _) => outcome,
        }
    }
}
