//! What sites ask each other beside the legs of requests: who is there, and what they know.
//!
//! The link carries it; what it means is not known here.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;

use crate::body::{self, AnswerBody};
use crate::problem::Problem;

/// Questions are about sites, of which there may be ten thousand.
const LONGEST: usize = 16 << 20;

/// So many questions of one peer are taken at a time, by each core: each may be long.
pub(crate) const AT_ONCE: usize = 2;

/// What another site asks.
#[derive(Clone, Debug)]
pub struct Question {
    /// The site, by its certificate.
    pub from: String,
    /// The fingerprint of that certificate.
    pub fingerprint: link::Fingerprint,
    /// When that was issued.
    pub issued: std::time::SystemTime,
    /// How.
    pub method: Method,
    /// What.
    pub path: String,
    /// With what.
    pub body: Bytes,
}

/// The answer to it, once it is there.
pub type Reply = Pin<Box<dyn Future<Output = (StatusCode, Bytes)> + Send>>;

/// Whoever answers other sites' questions.
pub trait Backstage: fmt::Debug + Send + Sync {
    /// Answers one.
    fn answer(&self, question: Question) -> Reply;
}

/// Answers a question that came over the link, if it is all there in time.
pub(crate) async fn answer(
    backstage: &dyn Backstage,
    peer: &link::Peer,
    request: Request<Incoming>,
    patience: Duration,
) -> Response<AnswerBody> {
    let (head, body) = request.into_parts();
    let Some(body) = body::whole(body, LONGEST, patience).await else {
        let problem = Problem::new(StatusCode::BAD_REQUEST, "bad-body", "The question cannot be read");
        return problem.unsent().into_response();
    };
    let question = Question {
        from: peer.site.to_string(),
        fingerprint: peer.fingerprint,
        issued: peer.issued,
        method: head.method,
        path: head.uri.path().to_owned(),
        body,
    };
    let (status, body) = backstage.answer(question).await;
    let mut response = Response::new(AnswerBody::full(body));
    *response.status_mut() = status;
    response
}
