//! What an application's profile says of an answer: read before the plan hears of it, and told to the client as it
//! came all the same.

use std::rc::Rc;
use std::time::Duration;

use http::Response;
use http::header::CONTENT_ENCODING;
use plan::Finding;
use profile::Judge;
use tokio::time::Instant;

use crate::body::AnswerBody;
use crate::leg::LegFailure;
use crate::settling::Settling;
use crate::streams;

/// A longer body is not read: what tells a quota from a policy is said in a few lines.
const MOST_BYTES: usize = 64 << 10;

/// How the answer of one leg is looked at before it counts.
#[derive(Default)]
pub(crate) struct Scrutiny {
    pub(crate) judge: Option<Rc<Judge>>,
    pub(crate) settling: Option<Box<Settling>>,
    /// How long its body may take, where that decides.
    pub(crate) patience: Duration,
}

/// An answer, and what it means.
pub(crate) type Judged = (Response<AnswerBody>, Finding);

impl Scrutiny {
    pub(crate) async fn of(self, response: Response<AnswerBody>) -> Result<Judged, LegFailure> {
        let response = match &self.settling {
            // Boxed, as what is below: each leg would keep room for it, and few need it.
            Some(settling) => Box::pin(settling.settled(response, self.patience)).await?,
            None => response,
        };
        Ok(judged(self.judge.as_deref(), response, Instant::now() + self.patience).await)
    }
}

/// Judges an answer. Its body, if that decides, is read until then, and comes again.
async fn judged(judge: Option<&Judge>, response: Response<AnswerBody>, until: Instant) -> Judged {
    let status = response.status().as_u16();
    let Some(judge) = judge else { return (response, Finding::Usual) };
    let (response, body) = if judge.needs_body(status) {
        Box::pin(read(response, MOST_BYTES, until)).await
    } else {
        (response, None)
    };
    let finding = match judge.fails(status, body.as_deref()) {
        None if judge.finds_nothing(status, body.as_deref()) => Finding::Nothing,
        None => Finding::Usual,
        Some(false) => Finding::Fails,
        Some(true) => Finding::NoEffect,
    };
    (response, finding)
}

/// The whole body of an answer, if it can be read and is there until then. It comes again.
pub(crate) async fn read(
    response: Response<AnswerBody>,
    most: usize,
    until: Instant,
) -> (Response<AnswerBody>, Option<Vec<u8>>) {
    if streams::is_event_stream(response.headers()) {
        return (response, None);
    }
    let coding = response.headers().get(CONTENT_ENCODING);
    if coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return (response, None);
    }
    let (head, body) = response.into_parts();
    let (body, bytes) = body.whole(most, until).await;
    (Response::from_parts(head, body), bytes)
}
