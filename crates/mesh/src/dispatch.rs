//! Carrying out a plan of several sites: legs and timers for a [`plan::Run`], which decides.

mod unknown;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use merge::{Ahead, Early};
use plan::{
    Answer, Asked, Effect, Event, Failure, Finding, Knowledge, Leg, Reach, Request, Rules, Run, Said, Sent,
    Timer, Why,
};
use profile::{Judge, Settles};
use scope::{Level, Plan, Site};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::body::{AnswerBody, LegBody, Tape};
use crate::core::{Core, ServiceState, State};
use crate::judging::{Judged, Scrutiny};
use crate::leg::{self, Carried, LegFailure};
use crate::merging::{self, Chosen, Combine, Reply};
use crate::problem::{Problem, UNSENT};
use crate::replicas::group::Group;
use crate::replicas::walk::{self, At};
use crate::replicas::write_name::WriteName;
use crate::replicas::{Replicas, answer, forward};
use crate::reservations::{self, Claim};
use crate::said;
use crate::session::AnsweredBy;
use crate::settling::Settling;

use unknown::Unknown;

/// Each leg keeps its own time, counted from when anything last moved: a long upload is not a slow answer.
const NEVER: Duration = Duration::from_hours(24 * 365);

/// So many legs are begun before those that were begun can go on.
const LEGS_AT_ONCE: usize = 8;

/// A request that goes to several sites, or to one of several.
pub(crate) struct Dispatch {
    pub(crate) core: Rc<Core>,
    pub(crate) state: Rc<State>,
    pub(crate) service: Rc<ServiceState>,
    pub(crate) head: Box<Parts>,
    pub(crate) body: Bodies,
    pub(crate) carried: Carried,
    /// How several answers become one, where they do.
    pub(crate) combine: Option<Combine>,
    /// A list that lacks a site is an error.
    pub(crate) strict: bool,
    /// How to wait for what comes of a write, where that is wanted.
    pub(crate) settle: Option<Rc<Settles>>,
    /// Another site may have a replicated resource of this name, and record a write to it.
    pub(crate) recorded: Option<Replicas>,
}

/// Where each leg's body comes from.
pub(crate) enum Bodies {
    /// Known as a whole: every leg gets it.
    Known(Bytes),
    /// A write's, read as it is sent.
    Taped(Rc<RefCell<Tape>>),
}

type Outcome = Result<Judged, LegFailure>;
type Ended = (Leg, Instant, Outcome);

/// One leg.
#[derive(Default)]
struct One {
    /// Where it went.
    site: Option<Site>,
    /// It reserves the name, and is no request to a service.
    reserves: bool,
    /// It is a write to replicas, which is recorded before any service is asked.
    replicates: bool,
    /// While it is under way.
    running: Option<(AbortHandle, Instant)>,
    answer: Option<Response<AnswerBody>>,
    /// What was read of its answer while others are waited for.
    early: Option<Box<Ahead>>,
    /// Its answer has nothing of what was looked up.
    vacant: bool,
}

/// What is under way.
#[derive(Default)]
struct Legs {
    running: JoinSet<Ended>,
    /// By their numbers.
    each: Vec<One>,
    /// What the mesh, here or there, said of the last leg that it refused.
    refusal: Option<Response<AnswerBody>>,
    /// What was made and is not known to be gone: nothing says more.
    last_word: Option<Response<AnswerBody>>,
    /// A list without what was looked up: the answer, where no site has any of it.
    nothing: Option<Reply>,
    /// Why what was made failed, at each site at which it did.
    faults: Vec<String>,
    /// Cancelled, and not yet reported as ended.
    cancelled: Vec<Leg>,
    timers: BTreeMap<(Instant, usize), Timer>,
    /// The name that is reserved for this request, where one is.
    claim: Option<Rc<Claim>>,
    /// The one that was.
    released: Option<Rc<Claim>>,
    /// The operation by which its write is recorded, where it may be.
    named: WriteName,
    /// What requests to other sites have in common.
    addressed: Option<Box<Parts>>,
    /// What the profile says of answers to this request.
    judge: Option<Rc<Judge>>,
}

impl Dispatch {
    /// Runs the plan to its one answer.
    pub(crate) async fn run(mut self, plan: &Plan, request: Request) -> Response<AnswerBody> {
        if self.combine.is_some() {
            Combine::prepare(&mut self.head.headers);
        }
        let settings = self.state.settings();
        let rules = Rules { hedge_after: settings.timeouts.hedge, leg_timeout: NEVER };
        let knowledge = Knows { dispatch: &self };
        let mut run = match Run::new(plan, request, &rules, &knowledge) {
            Ok(run) => run,
            Err(refused) => return Problem::refused(refused).into_response(),
        };
        self.core.budget.borrow_mut().earn();
        let judge = self.judge();
        let mut legs = Legs { judge, ..Legs::default() };
        let early = self.combine.as_ref().and_then(Combine::early);
        let mut effects = Vec::new();
        run.start(&mut effects);
        loop {
            let mut now = std::mem::take(&mut effects).into_iter();
            while let Some(effect) = now.next() {
                match effect {
                    Effect::Send { leg, site } => {
                        legs.pace().await;
                        // Said before the first byte can leave: what comes after may have been executed.
                        run.on(Event::Sent { leg }, &mut effects);
                        self.begin(&mut legs, leg, site, false);
                    }
                    Effect::Replicate { leg, sites, level } => {
                        run.on(Event::Sent { leg }, &mut effects);
                        self.replicate(&mut legs, leg, sites, level);
                    }
                    Effect::Probe { leg, site } => self.begin(&mut legs, leg, site, true),
                    Effect::Reserve { leg, site, group } => self.reserve(&mut legs, leg, site, group),
                    Effect::Release { known } => {
                        // Who succeeded finds it where it is; who did not may try again.
                        let done = matches!(now.as_slice(), [Effect::Answer { leg }] if legs.succeeded(*leg));
                        legs.release(known, !done).await;
                    }
                    Effect::Cancel { leg } => {
                        if let Some(took) = legs.cancel(leg) {
                            // It took at least so long: else a site that always loses would seem fast.
                            self.took(legs.site(leg), took);
                        }
                    }
                    // Nobody sees it fire, and each that is kept is set anew with each event.
                    Effect::Timer { after, .. } if after >= NEVER => {}
                    Effect::Timer { timer, after } => {
                        legs.timers.insert((Instant::now() + after, timer.0), timer);
                    }
                    // One site's list, where those of several were asked for, is told like theirs.
                    Effect::Answer { leg } if self.combine.is_some() && legs.succeeded(leg) => {
                        self.core.counts.wasted.add(run.wasted() as u64);
                        let chosen = legs.chosen(Answer::Leg(leg), &[leg], false, run.report());
                        return self.merge(chosen).await;
                    }
                    Effect::Answer { leg } => {
                        self.core.counts.wasted.add(run.wasted() as u64);
                        let sessions = self.state.settings().profile.has_sessions(&self.service.name);
                        return answer(&mut legs, leg, &run, sessions);
                    }
                    Effect::Merge { answer, nearest, partial } => {
                        self.core.counts.wasted.add(run.wasted() as u64);
                        return self.merge(legs.chosen(answer, &nearest, partial, run.report())).await;
                    }
                    Effect::Fail(failure) => {
                        self.core.counts.wasted.add(run.wasted() as u64);
                        let failure = self.of_contents(plan, failure, &run);
                        if let Some(reply) = legs.nothing.take() {
                            let (strict, lists) = (self.strict, self.combine.is_some());
                            if let Some(nothing) =
                                merging::found_nothing(reply, failure, &run.report(), lists, strict)
                            {
                                return nothing;
                            }
                        }
                        let unknown = self.unknown(&legs, failure).await;
                        return legs.failed(failure, run.report(), unknown);
                    }
                }
            }
            if let Some(event) = self.next(&run, &mut legs, early.as_ref()).await {
                run.on(event, &mut effects);
            }
        }
    }

    /// A client that only asks whether content is there, and is told by a site that it is not, brings it: a group does not wait for
    /// its other sites to say so too.
    fn of_contents(&self, plan: &Plan, failure: Failure, run: &Run<'_>) -> Failure {
        let is_absent = |asked: &Asked| matches!(asked.said, Said::Status(404 | 410));
        let kinds = &self.state.settings().profile.kinds;
        let asks = self.head.method == Method::HEAD && plan::replicates(plan);
        if asks
            && run.report().iter().any(is_absent)
            && kinds.is_content(&self.service.name, self.head.uri.path())
        {
            return Failure::NotFound;
        }
        failure
    }

    /// What happens next; nothing, if it is time for a hedge that nobody can afford.
    async fn next(&self, run: &Run<'_>, legs: &mut Legs, early: Option<&Early>) -> Option<Event> {
        let event = legs.next().await;
        match event {
            Event::Fired { timer } if run.hedges(timer) && !self.core.budget.borrow_mut().spend() => {
                return None;
            }
            Event::Answered { leg, elapsed, .. } => {
                // What was waited for after the answer says nothing of how fast a site answers.
                if self.settle.is_none() {
                    self.took(legs.site(leg), elapsed);
                }
                if let Some(early) = early {
                    legs.read_early(leg, early).await;
                }
            }
            _ => {}
        }
        Some(event)
    }

    /// What the profile says of answers to this request. A body that may have to be read must not be coded.
    fn judge(&mut self) -> Option<Rc<Judge>> {
        let (profile, head) = (&self.state.settings().profile, &mut self.head);
        let judge =
            profile.judge(&self.service.name, head.method.as_str(), head.uri.path(), head.uri.query())?;
        if judge.reads_bodies() {
            head.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        Some(Rc::new(judge))
    }

    /// A site took so long; but who was not asked took no time.
    fn took(&self, site: Option<&Site>, took: Duration) {
        let is_asked = |site: &&Site| self.combine.as_ref().is_none_or(|combine| combine.asks(site));
        self.service.took(site.filter(is_asked), took);
    }

    async fn merge(self, chosen: Chosen) -> Response<AnswerBody> {
        // A plan whose answers are merged was asked for as a list.
        let Some(combine) = self.combine else {
            return Problem::no_answer(chosen.asked).into_response();
        };
        let settings = self.state.settings();
        let (profile, patience) = (&settings.profile, settings.timeouts.body_idle);
        let made = combine.answer(chosen, self.strict, patience, profile, &self.service.name).await;
        self.core.counts.merged.add(u64::from(made.merged));
        self.core.counts.partial.add(u64::from(made.partial));
        made.response
    }

    /// Starts one leg, as a task: it runs until it has an answer, or is cancelled.
    fn begin(&self, legs: &mut Legs, leg: Leg, site: Site, probe: bool) {
        self.core.counts.legs.add(1);
        let is_here = site == self.state.settings().site;
        let mut head = if is_here { self.head.clone() } else { self.addressed(legs) };
        legs.of(leg).site = Some(site.clone());
        let began = Instant::now();
        if self.combine.as_ref().is_some_and(|combine| !combine.target(&site, &mut head)) {
            // It has told all that it has on earlier pages.
            let nothing = Response::new(AnswerBody::full(Bytes::new()));
            return legs.run(leg, began, async move { Ok(nothing) });
        }
        let listed = self.combine.as_ref().and_then(Combine::listed);
        if let Some(listed) = listed.filter(|_| !is_here) {
            listed.write(&mut head);
        }
        let body = if probe {
            head.method = Method::HEAD;
            head.headers.remove(http::header::CONTENT_LENGTH);
            head.headers.remove(http::header::CONTENT_TYPE);
            Some(LegBody::Empty)
        } else {
            match &self.body {
                Bodies::Known(bytes) => Some(LegBody::Full(bytes.clone())),
                Bodies::Taped(tape) => Tape::read(tape),
            }
        };
        let Some(body) = body else { return legs.run(leg, began, async { Err(no_body()) }) };
        let state = Rc::clone(&self.state);
        let scrutiny = if probe { Scrutiny::default() } else { self.scrutiny(legs, &site, is_here) };
        let claim = legs.claim.clone().filter(|claim| !probe && claim.has(&site));
        if !is_here {
            if let Some(claim) = &claim {
                claim.holder.write(&mut head.headers);
            }
            let recorded = self.recorded.clone().filter(|_| !probe && claim.is_none());
            let named = legs.named.clone();
            return legs.judged(leg, began, scrutiny, async move {
                let Some(replicas) = recorded else { return leg::peer(&state, &site, head, body).await };
                let send = async |head: Parts| leg::peer(&state, &site, Box::new(head), body).await;
                Box::pin(forward::named(&replicas, &named, &site, &mut head, send)).await
            });
        }
        let (core, service, carried) =
            (Rc::clone(&self.core), Rc::clone(&self.service), self.carried.clone());
        let listed = listed.cloned();
        // Whose answer it will be is not known yet: none says anything before it.
        legs.judged(leg, began, scrutiny, async move {
            let of_client = At::of_client(&core, &state, &service, Some(&carried));
            let at = At { listed: listed.as_ref(), ..of_client };
            let local = walk::local(at, head, body, None);
            match claim {
                None => local.await,
                Some(claim) => {
                    let (name, holder) = (Ok(claim.name.clone()), claim.holder.clone());
                    reservations::execute(core.shared.replicas.as_ref(), name, holder, local).await
                }
            }
        });
    }

    /// Starts a leg that reserves the name.
    fn reserve(&self, legs: &mut Legs, leg: Leg, site: Site, group: Vec<Site>) {
        let began = Instant::now();
        legs.of(leg).site = Some(site.clone());
        legs.of(leg).reserves = true;
        let claim = legs.claim.clone().map_or_else(
            || {
                let (service, path) = (&self.service.name, self.head.uri.path());
                Claim::new(&self.core, &self.state, service, path, self.carried.sender).map(Rc::new)
            },
            Ok,
        );
        legs.claim = claim.as_ref().ok().cloned();
        let state = Rc::clone(&self.state);
        legs.run(leg, began, async move {
            let held = claim.map_err(LegFailure::refused)?.reserve(&state, &site, &group).await?;
            let mut response = Response::new(AnswerBody::full(Bytes::new()));
            *response.status_mut() = if held { StatusCode::OK } else { StatusCode::CONFLICT };
            Ok(response)
        });
    }

    /// How the answer of a site is looked at.
    fn scrutiny(&self, legs: &Legs, site: &Site, is_here: bool) -> Scrutiny {
        let timeouts = &self.state.settings().timeouts;
        let patience = if is_here { timeouts.response } else { timeouts.peer_response };
        let settling = self.settle.as_ref().map(|rule| {
            Box::new(Settling {
                rule: Rc::clone(rule),
                core: Rc::clone(&self.core),
                state: Rc::clone(&self.state),
                service: Rc::clone(&self.service),
                carried: self.carried.clone(),
                site: site.clone(),
                head: self.head.clone(),
            })
        });
        Scrutiny { judge: legs.judge.clone(), settling, patience }
    }

    /// The head of a request to another site, but for what is asked of that one.
    fn addressed(&self, legs: &mut Legs) -> Box<Parts> {
        let head = legs.addressed.get_or_insert_with(|| {
            let mut head = self.head.clone();
            leg::address(&self.core, &self.state, &mut head.headers, &self.service.name, &self.carried);
            head
        });
        head.clone()
    }

    /// Starts one leg to a set of replicas.
    fn replicate(&self, legs: &mut Legs, leg: Leg, sites: Vec<Site>, level: Level) {
        self.core.counts.legs.add(1);
        legs.of(leg).site = sites.first().cloned();
        legs.of(leg).replicates = true;
        let (began, named) = (Instant::now(), legs.named.clone());
        let body = match &self.body {
            Bodies::Known(bytes) => Some(LegBody::Full(bytes.clone())),
            Bodies::Taped(tape) => Tape::read(tape),
        };
        let (head, carried) = (self.head.clone(), self.carried.clone());
        let (core, state, service) =
            (Rc::clone(&self.core), Rc::clone(&self.state), Rc::clone(&self.service));
        legs.run(leg, began, async move {
            let group = Group { sites: sites.into_iter().collect(), level };
            let of_client = At::of_client(&core, &state, &service, Some(&carried));
            let at = At { named: Some(&named), ..of_client };
            match body {
                None => Err(no_body()),
                Some(body) => walk::create(at, head, body, &group).await,
            }
        });
    }
}

/// The start of the body is gone: this site cannot have it, and has not seen any of it.
fn no_body() -> LegFailure {
    let detail = "the body is too long to be sent a second time".to_owned();
    LegFailure { sent: Sent::No, why: Why::Refused, problem: None, detail }
}

/// Goes to the end of the queue. What tokio has for this looks at all sockets first.
async fn let_others_run() {
    let mut waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What is known of the sites, for one request.
struct Knows<'d> {
    dispatch: &'d Dispatch,
}

impl Knowledge for Knows<'_> {
    fn rtt(&self, site: &Site) -> Option<Duration> {
        self.dispatch.state.rtt(site)
    }

    fn reach(&self, site: &Site) -> Reach {
        // Who has told all that it has on earlier pages is not missing from this one.
        match &self.dispatch.combine {
            Some(combine) if !combine.asks(site) => Reach::Yes,
            _ => self.dispatch.state.reach(site),
        }
    }

    fn patience(&self, site: &Site) -> Option<Duration> {
        self.dispatch.service.patience(site)
    }
}

impl Legs {
    /// Lets the first of many leave, and be answered, while the last are being made.
    async fn pace(&self) {
        if !self.each.is_empty() && self.each.len().is_multiple_of(LEGS_AT_ONCE) {
            let_others_run().await;
        }
    }

    fn of(&mut self, leg: Leg) -> &mut One {
        if self.each.len() <= leg.0 {
            self.each.resize_with(leg.0 + 1, One::default);
        }
        self.each.get_mut(leg.0).expect("there are more than its number")
    }

    /// Where a leg went.
    fn site(&self, leg: Leg) -> Option<&Site> {
        self.each.get(leg.0)?.site.as_ref()
    }

    /// Starts a task for a leg.
    fn run(
        &mut self,
        leg: Leg,
        began: Instant,
        outcome: impl Future<Output = Result<Response<AnswerBody>, LegFailure>> + 'static,
    ) {
        self.judged(leg, began, Scrutiny::default(), outcome);
    }

    /// The same, and looks at its answer.
    fn judged(
        &mut self,
        leg: Leg,
        began: Instant,
        scrutiny: Scrutiny,
        outcome: impl Future<Output = Result<Response<AnswerBody>, LegFailure>> + 'static,
    ) {
        // Boxed: a task's future is moved several times before it is where it stays, and this one is large.
        let handle = self.running.spawn_local(Box::pin(async move {
            let outcome = match outcome.await {
                Ok(response) => scrutiny.of(response).await,
                Err(failure) => Err(failure),
            };
            (leg, began, outcome)
        }));
        self.of(leg).running = Some((handle, began));
    }

    /// Whether a leg's answer is there, and a success.
    fn succeeded(&self, leg: Leg) -> bool {
        self.each
            .get(leg.0)
            .and_then(|one| one.answer.as_ref())
            .is_some_and(|answer| answer.status().is_success())
    }

    /// Stops a leg. How long it has taken, if it was still under way.
    fn cancel(&mut self, leg: Leg) -> Option<Duration> {
        let one = self.of(leg);
        one.early = None;
        let answer = one.answer.take();
        let vacant = std::mem::take(&mut one.vacant).then(|| one.site.clone()).flatten();
        let running = one.running.as_ref().map(|(handle, began)| {
            handle.abort();
            began.elapsed()
        });
        let answer = match (answer, vacant) {
            (Some(answer), Some(site)) => {
                // The nearest's, whichever came first.
                if self.nothing.as_ref().is_none_or(|kept| leg < kept.leg) {
                    self.nothing = Some(Reply { leg, site, answer, early: None });
                }
                None
            }
            (answer, _) => answer,
        };
        // What a keeper says of an outcome that is not known is more than that it is not known.
        let says_more = |answer: &Response<AnswerBody>| {
            answer.status() == StatusCode::GATEWAY_TIMEOUT && answer.headers().contains_key(said::TOLD)
        };
        self.refusal = answer.filter(says_more).or(self.refusal.take());
        self.cancelled.push(leg);
        running
    }

    /// The answers of these legs.
    fn chosen(&mut self, answer: Answer, legs: &[Leg], partial: bool, asked: Vec<Asked>) -> Chosen {
        let reply = |leg: &Leg| {
            let One { site, answer, early, .. } = self.of(*leg);
            Some(Reply { leg: *leg, site: site.clone()?, answer: answer.take()?, early: early.take() })
        };
        // As many as there are: collecting what is filtered takes room for more.
        let mut replies = Vec::with_capacity(legs.len());
        replies.extend(legs.iter().filter_map(reply));
        Chosen { answer, legs: replies, partial, asked }
    }

    /// Reads what has come of a list that may have to wait for others.
    async fn read_early(&mut self, leg: Leg, early: &Early) {
        if !self.succeeded(leg) {
            return;
        }
        let one = self.of(leg);
        let Some(response) = one.answer.take() else { return };
        let (response, ahead) = merging::read_early(early, response).await;
        (one.answer, one.early) = (Some(response), ahead);
    }

    /// No leg's answer is the answer.
    fn failed(mut self, failure: Failure, asked: Vec<Asked>, unknown: Unknown) -> Response<AnswerBody> {
        // One site was asked, and a mesh refused: its own words say more. Not where a later one may have executed it.
        let says_more = |refusal: &Response<AnswerBody>| {
            let unknown = failure == Failure::Unknown && refusal.headers().contains_key(UNSENT);
            !unknown && (asked.len() == 1 || refusal.headers().contains_key(said::TOLD))
        };
        let refusal = self.refusal.take().filter(says_more);
        if let Some(mut refusal) = self.last_word.take().or(refusal) {
            said::put(refusal.headers_mut(), &asked);
            return refusal;
        }
        if unknown.unsent {
            return Problem::out_of_time(asked).into_response();
        }
        let Unknown { op, .. } = unknown;
        let problem = Problem::failed(failure, asked).operation(op.clone());
        if let Some(op) = op {
            let detail = format!("{failure}; `operation` says where to ask what became of it");
            let mut response = problem.detail(detail).into_response();
            answer::name(&mut response, &op);
            return response;
        }
        if self.faults.is_empty() {
            return problem.into_response();
        }
        problem.detail(format!("{failure}; {}", self.faults.join("; "))).into_response()
    }

    /// Waits for whatever happens next.
    async fn next(&mut self) -> Event {
        loop {
            if let Some(leg) = self.cancelled.pop() {
                let began = self.of(leg).running.take().map_or_else(Instant::now, |(_, began)| began);
                let (sent, why) = (Sent::Maybe, Why::Cancelled);
                return Event::Failed { leg, sent, why, elapsed: began.elapsed() };
            }
            let first = self.timers.first_key_value().map(|((at, _), _)| *at);
            let timer = async {
                match first {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(ended) = self.running.join_next(), if !self.running.is_empty() => {
                    // A task that was cancelled ends without an outcome; it was reported when it was.
                    let Ok((leg, began, outcome)) = ended else { continue };
                    if self.of(leg).running.take().is_none() {
                        continue;
                    }
                    return self.ended(leg, began, outcome);
                }
                () = timer => {
                    if let Some((_, timer)) = self.timers.pop_first() {
                        return Event::Fired { timer };
                    }
                }
            }
        }
    }

    /// Says how the request ended, to whoever keeps its claim to a name.
    async fn release(&mut self, known: bool, wait: bool) {
        if let Some(claim) = self.claim.take() {
            claim.release(known, wait).await;
            self.released = Some(claim);
        }
    }

    fn ended(&mut self, leg: Leg, began: Instant, outcome: Outcome) -> Event {
        let elapsed = began.elapsed();
        match outcome {
            Ok((response, _)) if self.of(leg).reserves => {
                Event::Reserved { leg, held: response.status() == StatusCode::OK, elapsed }
            }
            Err(failure) if self.of(leg).reserves => {
                self.last_word = failure.problem.map(|problem| problem.into_response());
                Event::Failed { leg, sent: failure.sent, why: failure.why, elapsed }
            }
            // The peer's mesh says that its service did not see it.
            Ok((response, _)) if response.headers().contains_key(UNSENT) => {
                self.refusal = Some(response);
                Event::Failed { leg, sent: Sent::No, why: Why::Refused, elapsed }
            }
            Ok((response, finding)) => {
                let status = response.status().as_u16();
                let one = self.of(leg);
                one.vacant = finding == Finding::Nothing;
                one.answer = Some(response);
                Event::Answered { leg, status, finding, elapsed }
            }
            Err(failure) => {
                let problem = failure.problem.map(|problem| problem.into_response());
                match failure.why {
                    Why::Unsettled => self.last_word = problem,
                    _ => self.refusal = problem,
                }
                if let (Why::Undone, Some(site)) = (failure.why, self.site(leg)) {
                    self.faults.push(format!("{site}: {}", failure.detail));
                }
                Event::Failed { leg, sent: failure.sent, why: failure.why, elapsed }
            }
        }
    }
}

fn answer(legs: &mut Legs, leg: Leg, run: &Run<'_>, says_site: bool) -> Response<AnswerBody> {
    let site = legs.site(leg).filter(|_| says_site).cloned();
    match legs.of(leg).answer.take() {
        Some(mut response) => {
            if let Some(site) = site {
                response.extensions_mut().insert(AnsweredBy(site));
            }
            said::put(response.headers_mut(), &run.report());
            response
        }
        // A run answers with a leg whose head is there.
        None => Problem::no_answer(run.report()).into_response(),
    }
}
