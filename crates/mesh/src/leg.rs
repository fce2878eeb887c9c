//! One request to one site: the local service, or a peer. All that is sent anywhere is sent from here.

use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;
use link::Lane;
use plan::{Knowledge, Reach, Sent, Why};
use scope::Site;
use tokio::sync::Notify;
use tokio::time::{timeout, timeout_at};

use crate::body::{AnswerBody, LegBody};
use crate::carry::{self, Record, Sender};
use crate::core::{Core, HandedOn, Parsed, ServiceState, State};
use crate::headers;
use crate::inflow::{Fault, Inflow};
use crate::interim::Speaker;
use crate::problem::Problem;
use crate::upstream;

/// Legs to peers carry this, and only they may.
pub(crate) const SERVICE: HeaderName = HeaderName::from_static("archipel-service");
pub(crate) const SCOPE: HeaderName = HeaderName::from_static("archipel-scope");
pub(crate) const ENTERED: HeaderName = HeaderName::from_static("archipel-entered");
pub(crate) const HOPS: HeaderName = HeaderName::from_static("archipel-hops");
pub(crate) const SENDER: HeaderName = HeaderName::from_static("archipel-sender");

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
    /// The token of the client's request.
    pub(crate) token: Option<Sender>,
}

/// A leg that has no answer.
pub(crate) struct LegFailure {
    pub(crate) sent: Sent,
    pub(crate) why: Why,
    /// What to tell the client, where the mesh itself refused.
    pub(crate) problem: Option<Box<Problem>>,
    pub(crate) detail: String,
}

impl LegFailure {
    pub(crate) fn refused(problem: Problem) -> LegFailure {
        LegFailure {
            sent: Sent::No,
            why: Why::Refused,
            problem: Some(Box::new(problem)),
            detail: String::new(),
        }
    }

    /// The local service gave no answer.
    pub(crate) fn of(sent: Sent, kind: upstream::Kind) -> LegFailure {
        let why = match kind {
            upstream::Kind::Unreachable => Why::Unreachable,
            upstream::Kind::Timeout => Why::TimedOut,
            upstream::Kind::TooMany => Why::Refused,
            upstream::Kind::Protocol => Why::Protocol,
            upstream::Kind::Reset | upstream::Kind::Body => Why::Reset,
        };
        LegFailure { sent, why, problem: None, detail: kind.to_string() }
    }

    /// The client did not send its request to the end, or not as it should.
    pub(crate) fn of_client(fault: Fault) -> LegFailure {
        let failure = LegFailure::of(Sent::Maybe, upstream::Kind::Body);
        LegFailure { problem: Some(Box::new(fault.into_problem())), ..failure }
    }

    /// Whether it may have been executed, and the mesh knows no more.
    pub(crate) fn is_unexplained(&self) -> bool {
        self.sent == Sent::Maybe && self.problem.is_none()
    }

    /// As the answer to a client that asked for one site only.
    pub(crate) fn into_problem(self, whose: &str) -> Problem {
        if let Some(problem) = self.problem {
            return *problem;
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

/// Sends a request to this site's own service. With a scope, the service's own calls will carry a key. The
/// speaker, if there is one, tells the client of interim answers.
pub(crate) async fn local(
    core: &Core,
    state: &State,
    service: &Rc<ServiceState>,
    mut head: Box<Parts>,
    body: LegBody,
    carried: Option<&Carried>,
    speaker: Option<&Speaker>,
) -> Result<Response<AnswerBody>, LegFailure> {
    let settings = state.settings();
    let handed_on = hand_on(core, state, &mut head, carried);
    let handed_on = handed_on.map_err(|error| LegFailure::refused(error.into()))?;
    let inflow = body.inflow();
    let (mut request, word) = until_told(head, body);
    if let Some(word) = word {
        hyper::ext::on_informational(&mut request, move |answer| go_on(&word, answer.status()));
    }
    let sending = pin!(service.upstreams.send_heard(request, speaker));
    let answer = in_time(settings.timeouts.response, inflow.as_deref(), sending).await;
    let pause = settings.timeouts.body_idle;
    let answer = match answer {
        Some(Ok(response)) => {
            inflow.inspect(|inflow| inflow.watch(pause));
            let mut response = cleaned(response.map(|body| AnswerBody::local(body, pause)));
            // An application must not speak for a mesh.
            headers::drop_peers_only(response.headers_mut());
            Ok(response)
        }
        Some(Err(error)) => {
            let failure = LegFailure::of(error.sent, error.kind);
            let problem = inflow.and_then(|inflow| inflow.problem()).map(Box::new);
            Err(LegFailure { problem, ..failure })
        }
        None => Err(late(settings.timeouts.response)),
    };
    settle(handed_on, answer.as_ref().map(Response::status));
    answer
}

/// Makes a head fit for this site's own service. With a scope, it gets a key.
pub(crate) fn hand_on<'c>(
    core: &'c Core,
    state: &State,
    head: &mut Parts,
    carried: Option<&Carried>,
) -> Result<Option<HandedOn<'c>>, carry::Error> {
    let mut handed_on = None;
    if let Some(carried) = carried {
        let record = Record {
            scope: carried.scope.text.clone(),
            here: carried.entered.clone(),
            hops: carried.hops.saturating_add(1),
            sender: carried.sender,
            token: carried.token,
        };
        // An id of the application's own is one request's: people look for it in logs.
        let shared = state.settings().profile.propagation.headers.is_empty();
        handed_on = Some(core.hand_on(head, record, shared)?);
    }
    headers::name_te(&mut head.headers);
    Ok(handed_on)
}

/// What came of a request with a key: whether it causes calls.
pub(crate) fn settle(handed_on: Option<HandedOn<'_>>, answer: Result<StatusCode, &LegFailure>) {
    let causes_calls = match answer {
        Ok(status) => status != StatusCode::UNAUTHORIZED,
        Err(failure) => failure.sent != Sent::No,
    };
    if let Some(handed_on) = handed_on.filter(|_| !causes_calls) {
        handed_on.causes_no_calls();
    }
}

/// Says in a request what the mesh of another site must know of it.
pub(crate) fn address(core: &Core, state: &State, headers: &mut HeaderMap, service: &str, carried: &Carried) {
    if let Some(identities) = &core.shared.identities {
        identities.name_issuers(&state.settings().site, headers);
    }
    let texts = [
        (SERVICE, service),
        (SCOPE, &carried.scope.text),
        (ENTERED, carried.entered.name()),
        (SENDER, &carried.sender.to_string()),
    ];
    headers.insert(HOPS, HeaderValue::from(u16::from(carried.hops)));
    for (name, text) in texts {
        // Names and canonical scopes are printable ASCII.
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(name, value);
        }
    }
}

/// Sends a request, which was addressed, to another site, whose mesh hands it to its own service.
pub(crate) async fn peer(
    state: &State,
    site: &Site,
    head: Box<Parts>,
    body: LegBody,
) -> Result<Response<AnswerBody>, LegFailure> {
    peer_heard(state, site, head, body, None).await
}

/// The same, and tells the client of interim answers.
pub(crate) async fn peer_heard(
    state: &State,
    site: &Site,
    head: Box<Parts>,
    body: LegBody,
    speaker: Option<Speaker>,
) -> Result<Response<AnswerBody>, LegFailure> {
    let settings = state.settings();
    let Some(pool) = &state.pool else {
        let detail = "this site has no link to others".to_owned();
        return Err(LegFailure { sent: Sent::No, why: Why::Unreachable, problem: None, detail });
    };
    let why = match state.reach(site) {
        Reach::Yes | Reach::Unknown => None,
        Reach::Unreachable => {
            Some((Why::Unreachable, "it is known that this site cannot be reached from here"))
        }
        Reach::Quarantined => Some((Why::Quarantined, "an administrator put this site in quarantine")),
    };
    let misfit = || Some(Box::new(Problem::misfit(site, pool.state(site.name())?.misfit?)));
    if let Some((why, detail)) = why {
        return Err(LegFailure { sent: Sent::No, why, problem: misfit(), detail: detail.to_owned() });
    }
    // Only HTTP/1.1 can switch protocols, or tell a client to go on.
    let small = !head.headers.contains_key(http::header::UPGRADE)
        && !headers::expects_continue(&head.headers)
        && body.size_hint().upper().is_some_and(|bytes| bytes <= SMALL_BODY_BYTES);
    let lane = if small { Lane::Small } else { Lane::Long };
    let inflow = body.inflow();
    let (request, word) = until_told(head, body);
    let answer = pin!(pool.send_heard(site.name(), request, lane, ear(word, speaker)));
    match in_time(settings.timeouts.peer_response, inflow.as_deref(), answer).await {
        Some(Ok(response)) => {
            inflow.inspect(|inflow| inflow.watch(settings.timeouts.body_idle));
            Ok(cleaned(response.map(|body| AnswerBody::peer(body, settings.timeouts.body_idle))))
        }
        Some(Err(error)) => {
            let why = match error.kind {
                link::Kind::Unreachable | link::Kind::Closed | link::Kind::UnknownSite => Why::Unreachable,
                link::Kind::Timeout => Why::TimedOut,
                link::Kind::TooMany | link::Kind::Refused | link::Kind::Invalid => Why::Refused,
                _ => Why::Reset,
            };
            let sent = match error.sent {
                link::Sent::No => Sent::No,
                link::Sent::Maybe => Sent::Maybe,
            };
            let problem = inflow.and_then(|inflow| inflow.problem()).map(Box::new).or_else(misfit);
            Err(LegFailure { sent, why, problem, detail: error.to_string() })
        }
        None => Err(late(settings.timeouts.peer_response)),
    }
}

/// The request, whose body is not read before the service says so, if the client waits for that: then the word.
fn until_told(mut head: Box<Parts>, mut body: LegBody) -> (Request<LegBody>, Option<Arc<Notify>>) {
    let word = match &mut body {
        LegBody::Live(live) if headers::expects_continue(&head.headers) => Some(live.wait_for_word()),
        _ => None,
    };
    if word.is_none() {
        // Nothing is left to wait for: the body is there, or is kept for another site too.
        head.headers.remove(http::header::EXPECT);
    }
    (Request::from_parts(*head, body), word)
}

fn go_on(word: &Notify, status: StatusCode) {
    if status == StatusCode::CONTINUE {
        word.notify_one();
    }
}

/// What hears the interim answers of a peer, if there is anybody to tell.
fn ear(word: Option<Arc<Notify>>, speaker: Option<Speaker>) -> Option<link::Ear> {
    if word.is_none() && speaker.is_none() {
        return None;
    }
    Some(Arc::new(move |status, fields: &HeaderMap| {
        if let Some(word) = &word {
            go_on(word, status);
        }
        // The client's own server says `100` when its body is read.
        if let Some(speaker) = speaker.as_ref().filter(|_| status != StatusCode::CONTINUE) {
            speaker.say(status, fields);
        }
    }))
}

/// Waits for the head of an answer. The time counts from when the request last moved: a long upload is not
/// a slow answer.
async fn in_time<T>(
    limit: Duration,
    inflow: Option<&Inflow>,
    mut answer: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    let Some(inflow) = inflow else { return timeout(limit, answer).await.ok() };
    loop {
        let deadline = inflow.deadline(limit);
        if let Ok(answer) = timeout_at(deadline, answer.as_mut()).await {
            return Some(answer);
        }
        if inflow.deadline(limit) <= deadline {
            inflow.give_up();
            return None;
        }
    }
}

pub(crate) fn late(limit: Duration) -> LegFailure {
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
