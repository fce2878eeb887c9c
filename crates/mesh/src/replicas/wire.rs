//! What keepers of two sites say to each other, over the link.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use scope::Site;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::keeper::execute;
use super::request::{Kept, Name};
use super::understand::has_dots;
use super::{Order, Replicas};
use crate::body::{self, AnswerBody};
use crate::core::Core;
use crate::problem::Problem;

/// What comes before the rest of each path.
pub(crate) const PREFIX: &str = "/archipel/replicas/3/";
pub(crate) const MESSAGES: &str = "/archipel/replicas/3/messages";
pub(crate) const WRITES: &str = "/archipel/replicas/3/writes/";
pub(crate) const STATE: &str = "/archipel/replicas/3/state";
/// Whether a resource is there that the sender is to have, too.
pub(crate) const THERE: &str = "/archipel/replicas/3/there";
/// A long body comes in at the sender.
pub(crate) const COMING: &str = "/archipel/replicas/3/coming";
/// A long body, also while it comes in.
pub(crate) const BODIES: &str = "/archipel/replicas/3/bodies/";
/// A part of a resource, from the service.
pub(crate) const PART: &str = "/archipel/replicas/3/part";
/// Asks the service for content that a document names, or for such a document.
pub(crate) const CONTENT: &str = "/archipel/replicas/3/content";

/// A name that is reserved, or is to be.
pub(crate) const RESERVATIONS: &str = "/archipel/replicas/3/reservations";

/// The highest number of a slice that a resource has for clients.
pub(crate) const HIGHEST: &str = "/archipel/replicas/3/highest";

/// So many of one peer's are taken at a time, by each core: each may be long.
pub(crate) const AT_ONCE: usize = 4;
/// So many long bodies are given to one peer at a time, by each core.
pub(crate) const STREAMS: usize = 32;

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
    /// Whether a resource is here that it is to have, too.
    There(String),
    /// To take in a body that comes in there.
    Coming(Bytes),
    /// Whether it may have a body.
    Body(String),
    /// Where a part of a resource is.
    Part(Bytes),
    /// About a name that is reserved.
    Reservation(Bytes),
    /// Which of its numbers are known.
    Highest(Bytes),
}

/// Whether the answer to this is long, and takes its time.
pub(crate) fn is_stream(path: &str) -> bool {
    path.starts_with(BODIES) || matches!(path, PART | CONTENT)
}

/// Whether as many of these are taken at a time as of streams: a client waits for each.
pub(crate) fn is_awaited(path: &str) -> bool {
    is_stream(path) || path == RESERVATIONS
}

/// What an answer to messages may say: of these resources, the replica there refused something, with this status. 403: its
/// site's policy takes nothing from the sender.
pub(crate) type Refusals = Vec<(replica::Meta, u16)>;

/// The answer.
pub(crate) type Told = (StatusCode, Bytes);

/// Hands what another site's keeper says to the one of this site.
pub(crate) async fn answer(
    core: &Core,
    replicas: &Replicas,
    peer: &link::Peer,
    request: Request<Incoming>,
    patience: Duration,
) -> Response<AnswerBody> {
    let (head, body) = request.into_parts();
    let Some(body) = body::whole(body, LONGEST, patience).await else {
        let problem = Problem::new(StatusCode::BAD_REQUEST, "bad-body", "The message cannot be read");
        return problem.unsent().into_response();
    };
    if head.method == Method::POST && head.uri.path() == CONTENT {
        return content(core, &body).await;
    }
    let asked = match (&head.method, head.uri.path()) {
        (&Method::POST, COMING) => Some(Asked::Coming(body)),
        (&Method::POST, PART) => Some(Asked::Part(body)),
        (&Method::POST, HIGHEST) => Some(Asked::Highest(body)),
        (&Method::POST, RESERVATIONS) => Some(Asked::Reservation(body)),
        (&Method::GET, path) if path.starts_with(BODIES) => {
            path.strip_prefix(BODIES).map(|id| Asked::Body(id.to_owned()))
        }
        (&Method::POST, MESSAGES) => Some(Asked::Messages(body)),
        (&Method::POST, STATE) => Some(Asked::State(String::from_utf8_lossy(&body).into_owned())),
        (&Method::POST, THERE) => Some(Asked::There(String::from_utf8_lossy(&body).into_owned())),
        (&Method::GET, path) => path.strip_prefix(WRITES).map(|id| Asked::Write(id.to_owned())),
        _ => None,
    };
    let streams = matches!(asked, Some(Asked::Body(_) | Asked::Part(_)));
    let (status, body) = match (asked, Site::new(&peer.site)) {
        (Some(asked), Some(from)) => told(replicas, from, asked).await,
        _ => (StatusCode::NOT_FOUND, Bytes::new()),
    };
    if streams && status == StatusCode::OK {
        return if head.method == Method::GET {
            stored(replicas, &head.uri)
        } else {
            part(core, &body).await
        };
    }
    response(status, AnswerBody::full(body))
}

fn response(status: StatusCode, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

fn empty(status: StatusCode) -> Response<AnswerBody> {
    response(status, AnswerBody::full(Bytes::new()))
}

/// A body from some place on. One that comes in is followed.
fn stored(replicas: &Replicas, uri: &http::Uri) -> Response<AnswerBody> {
    let id = uri.path().strip_prefix(BODIES).and_then(|id| id.parse().ok());
    let from = uri.query().and_then(|query| query.strip_prefix("from=")).map_or(Ok(0), str::parse);
    let (Some(id), Ok(from), Some(spool)) = (id, from, replicas.spool.get()) else {
        return empty(StatusCode::NOT_FOUND);
    };
    match spool.reader(id, from) {
        Ok(reader) => response(StatusCode::OK, AnswerBody::stored(reader)),
        Err(_) => empty(StatusCode::NOT_FOUND),
    }
}

/// What this site's service has there. Whether it is still what it was when the state was read, the other site asks
/// afterwards.
async fn part(core: &Core, place: &[u8]) -> Response<AnswerBody> {
    let Ok((service, path)) = postcard::from_bytes::<(String, String)>(place) else {
        return empty(StatusCode::CONFLICT);
    };
    match execute::stream(core, &core.state(), &Name::new(&service, &path), &path).await {
        Some(answer) if answer.status() == StatusCode::OK => response(StatusCode::OK, answer.into_body()),
        Some(answer) if matches!(answer.status().as_u16(), 204 | 404 | 409 | 410) => {
            empty(StatusCode::NO_CONTENT)
        }
        _ => empty(StatusCode::BAD_GATEWAY),
    }
}

/// Gives out the content that this site's service has there, if documents are made of such, as the profile says. Nothing else is given out so.
async fn content(core: &Core, place: &[u8]) -> Response<AnswerBody> {
    let Ok((service, path)) = postcard::from_bytes::<(String, String)>(place) else {
        return empty(StatusCode::CONFLICT);
    };
    let state = core.state();
    if has_dots(&path) || !state.settings().profile.kinds.is_content(&service, &path) {
        return empty(StatusCode::NOT_FOUND);
    }
    match execute::stream(core, &state, &Name::new(&service, &path), &path).await {
        Some(answer) if answer.status() == StatusCode::OK => {
            let media_type = answer.headers().get(CONTENT_TYPE).cloned();
            let mut given = response(StatusCode::OK, answer.into_body());
            if let Some(media_type) = media_type {
                given.headers_mut().insert(CONTENT_TYPE, media_type);
            }
            given
        }
        Some(answer) if matches!(answer.status().as_u16(), 404 | 410) => empty(StatusCode::NO_CONTENT),
        _ => empty(StatusCode::BAD_GATEWAY),
    }
}

pub(crate) async fn told(replicas: &Replicas, from: Site, asked: Asked) -> Told {
    let (reply, told) = oneshot::channel();
    let gone = || (StatusCode::SERVICE_UNAVAILABLE, Bytes::new());
    if replicas.orders.send(Order::Asked(from, asked, reply)).is_err() {
        return gone();
    }
    told.await.unwrap_or_else(|_| gone())
}
