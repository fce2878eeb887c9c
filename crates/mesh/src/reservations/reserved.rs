//! The end of the site whose service executes a write to a reserved name.

use std::future::Future;

use http::request::Parts;
use http::{Response, StatusCode};
use plan::Sent;
use tokio::sync::oneshot;

use super::{HOLDER, Holder};
use crate::body::AnswerBody;
use crate::leg::LegFailure;
use crate::problem::{Problem, UNSENT};
use crate::replicas::{Order, Replicas};

/// The claim that another site says its leg is part of. A site speaks for its own claims only.
pub(crate) fn read_holder(head: &Parts, from: &str) -> Result<Option<Holder>, ()> {
    let Some(value) = head.headers.get(HOLDER) else { return Ok(None) };
    let holder: Holder = value.to_str().map_err(|_| ())?.parse()?;
    if holder.site.name() == from { Ok(Some(holder)) } else { Err(()) }
}

/// A write that is part of a claim, from when it is recorded that it begins. Its end is told when this is dropped.
struct Writing<'w> {
    replicas: &'w Replicas,
    name: String,
    holder: Holder,
    /// The service answered it, or has not seen it.
    known: bool,
    /// It was not begun.
    refused: bool,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let (name, holder, known) = (std::mem::take(&mut self.name), self.holder.clone(), self.known);
        if !self.refused {
            let _ = self.replicas.orders.send(Order::EndWriting { name, holder, known });
        }
    }
}

/// Executes a write to a name that is reserved here for a claim. Another claim's, or one that was ended meanwhile, is
/// refused, and reaches no service.
pub(crate) async fn execute(
    replicas: Option<&Replicas>,
    name: Result<String, Problem>,
    holder: Holder,
    write: impl Future<Output = Result<Response<AnswerBody>, LegFailure>>,
) -> Result<Response<AnswerBody>, LegFailure> {
    let name = name.map_err(LegFailure::refused)?;
    let replicas = replicas.ok_or_else(|| LegFailure::refused(not_held()))?;
    let (reply, begun) = oneshot::channel();
    let order = Order::BeginWriting { name: name.clone(), holder: holder.clone(), reply };
    if replicas.orders.send(order).is_err() {
        return Err(LegFailure::refused(not_held()));
    }
    // Also where nobody waits for it any more: what was recorded as begun has to end.
    let mut writing = Writing { replicas, name, holder, known: true, refused: false };
    if !begun.await.unwrap_or(false) {
        writing.refused = true;
        return Err(LegFailure::refused(not_held()));
    }
    writing.known = false;
    let outcome = write.await;
    writing.known = match &outcome {
        Ok(response) => !response.status().is_server_error() || response.headers().contains_key(UNSENT),
        Err(failure) => failure.sent == Sent::No,
    };
    outcome
}

fn not_held() -> Problem {
    let title = "The name is not reserved for this request any more";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-reserved", title).unsent()
}
