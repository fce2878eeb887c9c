//! What sites ask each other beside the legs of requests: who is there, and what they know.
//!
//! The link carries it; what it means is not known here.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Collected, Limited};
use hyper::body::Incoming;

use crate::body::AnswerBody;
use crate::problem::Problem;

/// Questions are about sites, of which there may be ten thousand.
const LONGEST: usize = 16 << 20;

/// What another site asks.
#[derive(Clone, Debug)]
pub struct Question {
    /// The site, by its certificate.
    pub from: String,
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

/// Answers a question that came over the link.
pub(crate) async fn answer(
    backstage: Option<Arc<dyn Backstage>>,
    site: &Rc<str>,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let Some(backstage) = backstage else {
        let problem = Problem::new(StatusCode::NOT_FOUND, "no-questions", "This site answers no questions");
        return problem.unsent().into_response();
    };
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, LONGEST).collect().await.map(Collected::to_bytes) else {
        let problem = Problem::new(StatusCode::BAD_REQUEST, "bad-body", "The question cannot be read");
        return problem.unsent().into_response();
    };
    let (from, path) = (site.to_string(), head.uri.path().to_owned());
    let (status, body) = backstage.answer(Question { from, method: head.method, path, body }).await;
    let mut response = Response::new(AnswerBody::full(body));
    *response.status_mut() = status;
    response
}
