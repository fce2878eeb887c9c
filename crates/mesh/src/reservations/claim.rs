//! The end of the site at which the client entered: it reserves the name at one site after the other, and says how the
//! request ended.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use link::Lane;
use plan::{Sent, Why};
use replica::{Meta, OpId};
use scope::Site;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{Holder, Question, Reply, name_of};
use crate::carry::Sender;
use crate::core::{Core, State};
use crate::leg::{self, LegFailure};
use crate::problem::Problem;
use crate::replicas::wire::{self, Asked};
use crate::replicas::{Order, Replicas};

/// The longest answer to a question about one name.
const MAX_REPLY_BYTES: usize = 4 << 10;
/// A client whose write was refused waits so long for the names to be released, so that it can try again at once.
const RELEASE_WAIT: Duration = Duration::from_secs(1);

/// One request's claim to a name. Dropped before it was released, as when its client goes away, the outcome is in doubt.
pub(crate) struct Claim {
    replicas: Replicas,
    pub(crate) holder: Holder,
    pub(crate) name: String,
    sender: Sender,
    /// The sites that the claim's record names.
    recorded: RefCell<BTreeSet<Site>>,
    reserved: RefCell<BTreeSet<Site>>,
    over: Cell<bool>,
}

impl Claim {
    pub(crate) fn new(
        core: &Core,
        state: &State,
        service: &str,
        path: &str,
        sender: Sender,
    ) -> Result<Claim, Problem> {
        let Some(replicas) = core.shared.replicas.clone() else {
            return Err(no_store("this site keeps no durable records: set [replication]"));
        };
        let mut number = [0; 16];
        core.random(&mut number);
        let holder = Holder { site: state.settings().site.clone(), number: u128::from_le_bytes(number) };
        let name = name_of(service, path)?;
        let (recorded, reserved, over) = (RefCell::default(), RefCell::default(), Cell::new(false));
        Ok(Claim { replicas, holder, name, sender, recorded, reserved, over })
    }

    /// Reserves the name at a site of a group: whether it is this claim's there.
    pub(crate) async fn reserve(
        &self,
        state: &State,
        site: &Site,
        group: &[Site],
    ) -> Result<bool, LegFailure> {
        self.record(group).await.map_err(LegFailure::refused)?;
        let question = Question::Reserve { name: self.name.clone(), number: self.holder.number };
        let told = if *site == self.holder.site {
            Ok(wire::told(&self.replicas, site.clone(), Asked::Reservation(encode(&question))).await)
        } else {
            ask(state, site, &question).await
        };
        let (status, body) = told?;
        let reply = postcard::from_bytes(&body).ok().filter(|_| status == StatusCode::OK);
        match (reply, status) {
            (Some(Reply::Held), _) => {
                self.reserved.borrow_mut().insert(site.clone());
                Ok(true)
            }
            (Some(Reply::Taken), _) => Ok(false),
            (Some(Reply::Full), _) => Err(LegFailure::refused(too_many(&format!(
                "{site} has reserved as many names for this site as it may"
            )))),
            // As one says to whom such a question means nothing.
            (_, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST) => Err(LegFailure::refused(no_store(
                &format!("{site} keeps no durable records: set [replication] there"),
            ))),
            _ => Err(LegFailure::refused(no_store(&format!("{site} cannot record a reservation now")))),
        }
    }

    /// Whether the name is reserved at a site: what is written there is part of this claim.
    pub(crate) fn has(&self, site: &Site) -> bool {
        self.reserved.borrow().contains(site)
    }

    /// Records the claim here, before any site is asked.
    async fn record(&self, group: &[Site]) -> Result<(), Problem> {
        if group.iter().all(|site| self.recorded.borrow().contains(site)) {
            return Ok(());
        }
        let (reply, told) = oneshot::channel();
        let (number, name, sites) = (self.holder.number, self.name.clone(), group.to_vec());
        let order = Order::Claim { number, name, sites, sender: self.sender, reply };
        let ends = || no_store("this site's mesh ends, or its disk takes no records");
        self.replicas.orders.send(order).map_err(|_| ends())?;
        match told.await {
            Ok(true) => {
                self.recorded.borrow_mut().extend(group.iter().cloned());
                Ok(())
            }
            Ok(false) => Err(too_many("this client has as many names reserved, or in doubt, as it may")),
            Err(_) => Err(ends()),
        }
    }

    /// A name for its write, where nobody knows what became of that: by it a client learns more later.
    pub(crate) async fn name_unknown(&self) -> Option<OpId> {
        let op = self.replicas.reserve().await?;
        let order = Order::LostClaim(op.clone(), Meta(self.name.as_str().into()), self.holder.number);
        self.replicas.orders.send(order).ok()?;
        Some(op)
    }

    /// Says how the request ended. Where its client will want to try again, waits until the names are released, but not
    /// for long.
    pub(crate) async fn release(&self, known: bool, wait: bool) {
        self.over.set(true);
        let (reply, released) = oneshot::channel();
        let number = self.holder.number;
        let sent = self.replicas.orders.send(Order::EndClaim { number, known, reply: Some(reply) });
        if sent.is_ok() && known && wait {
            let _ = timeout(RELEASE_WAIT, released).await;
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.over.get() {
            let number = self.holder.number;
            let _ = self.replicas.orders.send(Order::EndClaim { number, known: false, reply: None });
        }
    }
}

/// A question, as it is sent.
pub(crate) fn encode(question: &Question) -> Bytes {
    postcard::to_allocvec(question).expect("strings and numbers are written to memory").into()
}

/// Asks another site's keeper, and waits as long as for the answer of a leg.
async fn ask(state: &State, site: &Site, question: &Question) -> Result<(StatusCode, Bytes), LegFailure> {
    let failure = |why, detail: String| LegFailure { sent: Sent::No, why, problem: None, detail };
    let unreachable = |detail: &str| failure(Why::Unreachable, detail.to_owned());
    let pool = state.pool.as_ref().ok_or_else(|| unreachable("this site has no link to others"))?;
    let request = Request::builder().method(Method::POST).uri(wire::RESERVATIONS);
    let request = request
        .body(Full::new(encode(question)))
        .map_err(|error| failure(Why::Protocol, error.to_string()))?;
    let exchange = async {
        let sent = pool.send(site.name(), request, Lane::Small).await;
        let answer = sent.map_err(|error| unreachable(&error.to_string()))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_REPLY_BYTES).collect().await;
        let body = body.map_err(|error| failure(Why::Reset, error.to_string()))?;
        Ok((status, body.to_bytes()))
    };
    let limit = state.settings().timeouts.peer_response;
    match timeout(limit, exchange).await {
        Ok(told) => told,
        // Nothing of the write was sent, whatever became of the question.
        Err(_) => Err(LegFailure { sent: Sent::No, ..leg::late(limit) }),
    }
}

fn no_store(detail: &str) -> Problem {
    let title = "The name cannot be reserved at every site";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-reserved", title).detail(detail.to_owned()).unsent()
}

fn too_many(detail: &str) -> Problem {
    let title = "Too many names are reserved";
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-reservations", title);
    problem.detail(detail.to_owned()).unsent()
}
