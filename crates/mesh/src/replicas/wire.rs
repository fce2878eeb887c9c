//! What keepers of two sites say to each other, over the link.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Collected, Limited};
use hyper::body::Incoming;
use scope::Site;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::request::Kept;
use super::{Order, Replicas};
use crate::body::AnswerBody;
use crate::problem::Problem;

/// What comes before the rest of each path.
pub(crate) const PREFIX: &str = "/archipel/replicas/1/";
pub(crate) const MESSAGES: &str = "/archipel/replicas/1/messages";
pub(crate) const WRITES: &str = "/archipel/replicas/1/writes/";
pub(crate) const STATE: &str = "/archipel/replicas/1/state";

/// So many of one peer's are taken at a time, by each core: each may be long.
pub(crate) const AT_ONCE: usize = 4;

/// The longest that is read.
pub(crate) const LONGEST: usize = 96 << 20;

/// Messages to one site, each with writes that it may lack.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Envelope {
    pub(crate) messages: Vec<(Vec<u8>, Vec<Kept>)>,
}

/// What a keeper is asked by another site.
#[derive(Debug)]
pub(crate) enum Asked {
    /// To take these messages. Answered once they are durable.
    Messages(Bytes),
    /// For a write.
    Write(String),
    /// For the state of a resource, by its name for clients.
    State(String),
}

/// The answer.
pub(crate) type Told = (StatusCode, Bytes);

/// Hands what another site's keeper says to the one of this site.
pub(crate) async fn answer(
    replicas: &Replicas,
    peer: &link::Peer,
    request: Request<Incoming>,
    patience: Duration,
) -> Response<AnswerBody> {
    let (head, body) = request.into_parts();
    let whole = tokio::time::timeout(patience, Limited::new(body, LONGEST).collect());
    let Ok(Ok(body)) = whole.await.map(|body| body.map(Collected::to_bytes)) else {
        let problem = Problem::new(StatusCode::BAD_REQUEST, "bad-body", "The message cannot be read");
        return problem.unsent().into_response();
    };
    let asked = match (&head.method, head.uri.path()) {
        (&Method::POST, MESSAGES) => Some(Asked::Messages(body)),
        (&Method::POST, STATE) => Some(Asked::State(String::from_utf8_lossy(&body).into_owned())),
        (&Method::GET, path) => path.strip_prefix(WRITES).map(|id| Asked::Write(id.to_owned())),
        _ => None,
    };
    let (status, body) = match (asked, Site::new(&peer.site)) {
        (Some(asked), Some(from)) => told(replicas, from, asked).await,
        _ => (StatusCode::NOT_FOUND, Bytes::new()),
    };
    let mut response = Response::new(AnswerBody::full(body));
    *response.status_mut() = status;
    response
}

async fn told(replicas: &Replicas, from: Site, asked: Asked) -> Told {
    let (reply, told) = oneshot::channel();
    let gone = || (StatusCode::SERVICE_UNAVAILABLE, Bytes::new());
    if replicas.orders.send(Order::Asked(from, asked, reply)).is_err() {
        return gone();
    }
    told.await.unwrap_or_else(|_| gone())
}
