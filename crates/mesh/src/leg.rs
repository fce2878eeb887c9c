//! One request to one site: the local service, or a peer. All that is sent anywhere is sent from here.

use std::rc::Rc;
use std::time::Duration;

use http::header::HeaderValue;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;
use link::Lane;
use plan::{Sent, Why};
use scope::Site;
use tokio::time::timeout;

use crate::body::{AnswerBody, LegBody};
use crate::carry::{Record, Sender};
use crate::core::{Core, Parsed, ServiceState, State};
use crate::headers;
use crate::problem::Problem;
use crate::upstream;

/// Legs to peers carry this, and only they may.
pub(crate) const SERVICE: &str = "archipel-service";
pub(crate) const SCOPE: &str = "archipel-scope";
pub(crate) const ENTERED: &str = "archipel-entered";
pub(crate) const HOPS: &str = "archipel-hops";

/// Calls that cause calls that cause calls: past this it is a loop.
pub(crate) const MOST_HOPS: u8 = 16;

/// A body above this has a connection to itself on the link, and so has one of unknown length.
const SMALL_BODY_BYTES: u64 = 256 << 10;

/// The scope of a request, and what goes with it.
#[derive(Clone)]
pub(crate) struct Carried {
    pub(crate) scope: Rc<Parsed>,
    /// The site at which the client entered.
    pub(crate) entered: Site,
    /// How many calls led here.
    pub(crate) hops: u8,
    /// Who pays for the record.
    pub(crate) sender: Sender,
}

/// A leg that has no answer.
pub(crate) struct LegFailure {
    pub(crate) sent: Sent,
    pub(crate) why: Why,
    /// What to tell the client, where the mesh itself refused.
    pub(crate) problem: Option<Problem>,
    pub(crate) detail: String,
}

impl LegFailure {
    fn refused(problem: Problem) -> LegFailure {
        LegFailure { sent: Sent::No, why: Why::Refused, problem: Some(problem), detail: String::new() }
    }

    /// As the answer to a client that asked for one site only.
    pub(crate) fn into_problem(self, whose: &str) -> Problem {
        if let Some(problem) = self.problem {
            return problem;
        }
        let (status, kind, title) = match (self.sent, self.why) {
            (Sent::No, _) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "unreachable",
                "The service cannot be reached; nothing was executed",
            ),
            (Sent::Maybe, Why::TimedOut) => {
                (StatusCode::GATEWAY_TIMEOUT, "timeout", "The service did not answer in time")
            }
            (Sent::Maybe, _) => (StatusCode::BAD_GATEWAY, "no-answer", "The service gave no complete answer"),
        };
        let problem = Problem::new(status, kind, title).detail(format!("{whose}: {}", self.detail));
        if self.sent == Sent::No { problem.unsent() } else { problem }
    }
}

/// Sends a request to this site's own service. With a scope, the service's own calls will carry a key.
pub(crate) async fn local(
    core: &Core,
    state: &State,
    service: &Rc<ServiceState>,
    mut head: Parts,
    body: LegBody,
    carried: Option<&Carried>,
) -> Result<Response<AnswerBody>, LegFailure> {
    let settings = state.settings();
    if let Some(carried) = carried {
        let record = Record {
            scope: carried.scope.text.clone(),
            here: carried.entered.clone(),
            hops: carried.hops.saturating_add(1),
            sender: carried.sender,
        };
        let handed_on = core.shared.carry.hand_on(&mut head, record, core.now(), &mut |bytes| {
            // The system always has randomness once it has started.
            let _ = getrandom::fill(bytes);
        });
        handed_on.map_err(|error| LegFailure::refused(error.into()))?;
    }
    let request = Request::from_parts(head, body);
    let answer = timeout(settings.timeouts.response, service.upstreams.send(request)).await;
    let pause = settings.timeouts.body_idle;
    match answer {
        Ok(Ok(response)) => Ok(cleaned(response.map(|body| AnswerBody::local(body, pause)))),
        Ok(Err(error)) => {
            let why = match error.kind {
                upstream::Kind::Unreachable => Why::Unreachable,
                upstream::Kind::Timeout => Why::TimedOut,
                upstream::Kind::TooMany => Why::Refused,
                upstream::Kind::Protocol => Why::Protocol,
                upstream::Kind::Reset | upstream::Kind::Body => Why::Reset,
            };
            Err(LegFailure { sent: error.sent, why, problem: None, detail: error.to_string() })
        }
        Err(_) => Err(late(settings.timeouts.response)),
    }
}

/// Sends a request to another site, whose mesh hands it to its own service.
pub(crate) async fn peer(
    state: &State,
    service: &str,
    site: &Site,
    mut head: Parts,
    body: LegBody,
    carried: &Carried,
) -> Result<Response<AnswerBody>, LegFailure> {
    let settings = state.settings();
    let Some(pool) = &state.pool else {
        let detail = "this site has no link to others".to_owned();
        return Err(LegFailure { sent: Sent::No, why: Why::Unreachable, problem: None, detail });
    };
    let texts = [
        (SERVICE, service),
        (SCOPE, &carried.scope.text),
        (ENTERED, carried.entered.name()),
        (HOPS, &carried.hops.to_string()),
    ];
    for (name, text) in texts {
        // Names and canonical scopes are printable ASCII.
        if let Ok(value) = HeaderValue::try_from(text) {
            head.headers.insert(name, value);
        }
    }
    let small = !head.headers.contains_key(http::header::UPGRADE)
        && body.size_hint().upper().is_some_and(|bytes| bytes <= SMALL_BODY_BYTES);
    let lane = if small { Lane::Small } else { Lane::Long };
    let answer = pool.send(site.name(), Request::from_parts(head, body), lane);
    match timeout(settings.timeouts.peer_response, answer).await {
        Ok(Ok(response)) => {
            Ok(cleaned(response.map(|body| AnswerBody::peer(body, settings.timeouts.body_idle))))
        }
        Ok(Err(error)) => {
            let why = match error.kind {
                link::Kind::Unreachable | link::Kind::UnknownSite => Why::Unreachable,
                link::Kind::Timeout => Why::TimedOut,
                link::Kind::TooMany | link::Kind::Refused | link::Kind::Invalid => Why::Refused,
                _ => Why::Reset,
            };
            let sent = match error.sent {
                link::Sent::No => Sent::No,
                link::Sent::Maybe => Sent::Maybe,
            };
            Err(LegFailure { sent, why, problem: None, detail: error.to_string() })
        }
        Err(_) => Err(late(settings.timeouts.peer_response)),
    }
}

fn late(limit: Duration) -> LegFailure {
    let detail = format!("no answer within {}", scope::print_duration(limit));
    LegFailure { sent: Sent::Maybe, why: Why::TimedOut, problem: None, detail }
}

/// What concerned the last hop only is not for the next one. A switch of protocols is put back where it
/// is carried out.
fn cleaned(mut response: Response<AnswerBody>) -> Response<AnswerBody> {
    let protocol = headers::end_of_hop(response.headers_mut());
    if response.status() == StatusCode::SWITCHING_PROTOCOLS
        && let Some(protocol) = protocol
    {
        headers::switch(response.headers_mut(), protocol);
    }
    *response.version_mut() = http::Version::HTTP_11;
    response
}
