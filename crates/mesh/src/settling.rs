//! Waiting for an outcome that comes after the answer, and taking back what failed, where the client wants that.
//!
//! The site is asked as the client would ask, with the client's own headers. What failed is deleted there, and counts as
//! not executed only once it is gone: another site then may make it, and there is never more than one.

use std::rc::Rc;
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode, Uri};
use plan::{Sent, Why};
use profile::{Outcome, Settles};
use scope::Site;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::body::{AnswerBody, LegBody};
use crate::core::{Core, ServiceState, State};
use crate::headers;
use crate::judging::read;
use crate::leg::{self, Carried, LegFailure};
use crate::problem::Problem;
use crate::replicas::walk::{self, At};

/// A longer description of one thing is not read.
const MOST_BYTES: usize = 256 << 10;

/// It is asked at most so many times less often than at first.
const SLOWEST: u32 = 10;

/// A write at one site, and how to learn what came of it.
pub(crate) struct Settling {
    pub(crate) rule: Rc<Settles>,
    pub(crate) core: Rc<Core>,
    pub(crate) state: Rc<State>,
    pub(crate) service: Rc<ServiceState>,
    pub(crate) carried: Carried,
    pub(crate) site: Site,
    /// Of the write.
    pub(crate) head: Box<Parts>,
}

/// What is known of it in the end.
enum End {
    Done,
    Failed(String),
    Unknown(String),
}

impl Settling {
    /// Waits until an answer that does not tell yet is known to have come true. What is no such answer is the answer.
    pub(crate) async fn settled(
        &self,
        response: Response<AnswerBody>,
        patience: Duration,
    ) -> Result<Response<AnswerBody>, LegFailure> {
        if !self.rule.follows(response.status().as_u16()) {
            return Ok(response);
        }
        let (response, body) = read(response, MOST_BYTES, Instant::now() + patience).await;
        let Some(id) = body.and_then(|body| self.rule.id(&body)) else { return Ok(response) };
        let path = format!("{}/{id}", self.head.uri.path().trim_end_matches('/'));
        match self.outcome(&path).await {
            End::Done => Ok(response),
            End::Failed(fault) if self.undo(&path).await => Err(undone(&self.site, fault)),
            End::Failed(fault) => {
                Err(self.unsettled(&path, &format!("it failed ({fault}), and it is not known to be deleted")))
            }
            End::Unknown(why) => Err(self.unsettled(&path, &why)),
        }
    }

    /// Asks until it is done, has failed, or time is up.
    async fn outcome(&self, path: &str) -> End {
        let limit = self.rule.within;
        let mut pace = Pace::new(self.rule.every, limit);
        let mut seen = false;
        while pace.next().await {
            let Ok(answer) = timeout_at(pace.until, self.ask(Method::GET, path)).await else { break };
            let Ok(answer) = answer else { continue };
            let status = answer.status();
            match status.as_u16() {
                200..300 => {
                    seen = true;
                    let (_, body) = read(answer, MOST_BYTES, pace.until).await;
                    match self.rule.outcome(&body.unwrap_or_default()) {
                        Outcome::Pending => {}
                        Outcome::Done => return End::Done,
                        Outcome::Failed(fault) => return End::Failed(fault),
                    }
                }
                // Somebody deleted it, who had seen it: it was made.
                404 | 410 if seen => return End::Done,
                404 | 408 | 410 | 429 | 500.. => {}
                _ => {
                    return End::Unknown(format!(
                        "the site does not tell what became of it, but says {status}"
                    ));
                }
            }
        }
        End::Unknown(format!("what becomes of it was not known within {}", scope::print_duration(limit)))
    }

    /// Deletes it, and waits until it is gone. Whether it is.
    async fn undo(&self, path: &str) -> bool {
        let mut pace = Pace::new(self.rule.every, self.rule.gone_within);
        let mut accepted = false;
        loop {
            let method = if accepted { Method::GET } else { Method::DELETE };
            let Ok(answer) = timeout_at(pace.until, self.ask(method, path)).await else { return false };
            match answer.map(|answer| answer.status().as_u16()) {
                Ok(404 | 410) => return true,
                Ok(200..300) => accepted = true,
                // It may be busy with what it did, and another try may go through.
                Ok(408 | 409 | 423 | 429 | 500..) | Err(_) => {}
                Ok(_) => return false,
            }
            if !pace.next().await {
                return false;
            }
        }
    }

    /// Asks the site about it, on behalf of the client.
    async fn ask(&self, method: Method, path: &str) -> Result<Response<AnswerBody>, LegFailure> {
        let mut head = self.head.clone();
        headers::only_ask(&mut head.headers);
        head.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        head.method = method;
        head.uri = Uri::try_from(path).map_err(|error| LegFailure {
            sent: Sent::No,
            why: Why::Protocol,
            problem: None,
            detail: error.to_string(),
        })?;
        if self.site != self.state.settings().site {
            leg::address(&self.core, &self.state, &mut head.headers, &self.service.name, &self.carried);
            return leg::peer(&self.state, &self.site, head, LegBody::Empty).await;
        }
        let at = At::of_client(&self.core, &self.state, &self.service, Some(&self.carried));
        walk::local(at, head, LegBody::Empty, None).await
    }

    /// It is there, or may be: nobody else may make it.
    fn unsettled(&self, path: &str, why: &str) -> LegFailure {
        let detail = format!("{} at {} was made: {why}", path, self.site);
        let title = "It is not known what became of what was made";
        let problem = Problem::new(StatusCode::GATEWAY_TIMEOUT, "unknown-outcome", title).detail(&detail);
        LegFailure { sent: Sent::Maybe, why: Why::Unsettled, problem: Some(Box::new(problem)), detail }
    }
}

/// It failed, and is gone.
fn undone(site: &Site, fault: String) -> LegFailure {
    let title = "What was made failed afterwards, and is deleted again";
    let problem = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "undone", title);
    let problem = problem.detail(format!("{site}: {fault}"));
    LegFailure { sent: Sent::No, why: Why::Undone, problem: Some(Box::new(problem)), detail: fault }
}

/// When to ask next.
struct Pace {
    wait: Duration,
    longest: Duration,
    until: Instant,
}

impl Pace {
    fn new(every: Duration, limit: Duration) -> Pace {
        Pace { wait: every, longest: every * SLOWEST, until: Instant::now() + limit }
    }

    /// Waits for the next time. False once there is none.
    async fn next(&mut self) -> bool {
        sleep_until((Instant::now() + self.wait).min(self.until)).await;
        self.wait = (self.wait + self.wait / 2).min(self.longest);
        Instant::now() < self.until
    }
}
