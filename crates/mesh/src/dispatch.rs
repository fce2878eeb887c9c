//! Carrying out a plan of several sites: legs and timers for a [`plan::Run`], which decides.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response};
use plan::{Effect, Event, Leg, Refused, Request, Rules, Run, Sent, Timer, Why};
use scope::{Plan, Site};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::body::{AnswerBody, LegBody, Tape};
use crate::core::{Core, ServiceState, State};
use crate::leg::{self, Carried, LegFailure};
use crate::problem::{Problem, UNSENT};
use crate::said;

/// Each leg keeps its own time, counted from when anything last moved: a long upload is not a slow answer.
const NEVER: Duration = Duration::from_hours(24 * 365);

/// A request that goes to several sites, or to one of several.
pub(crate) struct Dispatch {
    pub(crate) core: Rc<Core>,
    pub(crate) state: Rc<State>,
    pub(crate) service: Rc<ServiceState>,
    pub(crate) head: Box<Parts>,
    pub(crate) body: Bodies,
    pub(crate) carried: Carried,
}

/// Where each leg's body comes from.
pub(crate) enum Bodies {
    /// Known as a whole: every leg gets it.
    Known(Bytes),
    /// A write's, read as it is sent.
    Taped(Rc<RefCell<Tape>>),
}

type Ended = (Leg, Instant, Result<Response<AnswerBody>, LegFailure>);

/// What is under way.
#[derive(Default)]
struct Legs {
    running: JoinSet<Ended>,
    handles: BTreeMap<usize, (AbortHandle, Instant)>,
    answers: BTreeMap<usize, Response<AnswerBody>>,
    /// What the mesh, here or there, said of the last leg that it refused.
    refusal: Option<Response<AnswerBody>>,
    /// Cancelled, and not yet reported as ended.
    cancelled: Vec<Leg>,
    timers: BTreeMap<(Instant, usize), Timer>,
}

impl Dispatch {
    /// Runs the plan to its one answer.
    pub(crate) async fn run(self, plan: &Plan, request: Request) -> Response<AnswerBody> {
        let settings = self.state.settings();
        let rules = Rules { hedge_after: settings.timeouts.hedge, leg_timeout: NEVER, ..Rules::default() };
        let mut run = match Run::new(plan, request, &rules, &*self.state) {
            Ok(run) => run,
            Err(refused) => return Problem::refused(refused).into_response(),
        };
        let mut legs = Legs::default();
        let mut effects = Vec::new();
        run.start(&mut effects);
        loop {
            for effect in std::mem::take(&mut effects) {
                match effect {
                    Effect::Send { leg, site } => {
                        // Said before the first byte can leave: what comes after may have been executed.
                        run.on(Event::Sent { leg }, &mut effects);
                        self.begin(&mut legs, leg, site, false);
                    }
                    Effect::Probe { leg, site } => self.begin(&mut legs, leg, site, true),
                    Effect::Cancel { leg } => legs.cancel(leg),
                    Effect::Timer { timer, after } => {
                        legs.timers.insert((Instant::now() + after, timer.0), timer);
                    }
                    Effect::Answer { leg } => return answer(&mut legs, leg, &run),
                    // Only lists are merged, and none is asked for yet.
                    Effect::Merge { .. } => return Problem::refused(Refused::Merge).into_response(),
                    Effect::Fail(failure) => {
                        let asked = run.report();
                        // One site was asked, and a mesh refused: its own words say more.
                        return match legs.refusal.take().filter(|_| asked.len() == 1) {
                            Some(mut refusal) => {
                                said::put(refusal.headers_mut(), &asked);
                                refusal
                            }
                            None => Problem::failed(failure, asked).into_response(),
                        };
                    }
                }
            }
            let event = legs.next().await;
            run.on(event, &mut effects);
        }
    }

    /// Starts one leg, as a task: it runs until it has an answer, or is cancelled.
    fn begin(&self, legs: &mut Legs, leg: Leg, site: Site, probe: bool) {
        self.core.counts.legs.add(1);
        let mut head = self.head.clone();
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
        let (core, state, service) =
            (Rc::clone(&self.core), Rc::clone(&self.state), Rc::clone(&self.service));
        let carried = self.carried.clone();
        let began = Instant::now();
        let handle = legs.running.spawn_local(async move {
            let outcome = match body {
                // The start of the body is gone: this site cannot have it, and has not seen any of it.
                None => Err(LegFailure {
                    sent: Sent::No,
                    why: Why::Refused,
                    problem: None,
                    detail: "the body is too long to be sent a second time".to_owned(),
                }),
                Some(body) if site == state.settings().site => {
                    // Whose answer it will be is not known yet: none says anything before it.
                    leg::local(&core, &state, &service, head, body, Some(&carried), None).await
                }
                Some(body) => leg::peer(&state, &service.name, &site, head, body, &carried).await,
            };
            (leg, began, outcome)
        });
        legs.handles.insert(leg.0, (handle, began));
    }
}

impl Legs {
    fn cancel(&mut self, leg: Leg) {
        self.answers.remove(&leg.0);
        if let Some((handle, _)) = self.handles.get(&leg.0) {
            handle.abort();
        }
        self.cancelled.push(leg);
    }

    /// Waits for whatever happens next.
    async fn next(&mut self) -> Event {
        loop {
            if let Some(leg) = self.cancelled.pop() {
                let began = self.handles.remove(&leg.0).map_or_else(Instant::now, |(_, began)| began);
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
                Some(ended) = self.running.join_next(), if !self.running.is_empty() => {
                    // A task that was cancelled ends without an outcome; it was reported when it was.
                    let Ok((leg, began, outcome)) = ended else { continue };
                    if self.handles.remove(&leg.0).is_none() {
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

    fn ended(
        &mut self,
        leg: Leg,
        began: Instant,
        outcome: Result<Response<AnswerBody>, LegFailure>,
    ) -> Event {
        let elapsed = began.elapsed();
        match outcome {
            // The peer's mesh says that its service did not see it.
            Ok(response) if response.headers().contains_key(UNSENT) => {
                self.refusal = Some(response);
                Event::Failed { leg, sent: Sent::No, why: Why::Refused, elapsed }
            }
            Ok(response) => {
                let status = response.status().as_u16();
                self.answers.insert(leg.0, response);
                Event::Answered { leg, status, elapsed }
            }
            Err(failure) => {
                self.refusal = failure.problem.map(Problem::into_response);
                Event::Failed { leg, sent: failure.sent, why: failure.why, elapsed }
            }
        }
    }
}

fn answer(legs: &mut Legs, leg: Leg, run: &Run<'_>) -> Response<AnswerBody> {
    match legs.answers.remove(&leg.0) {
        Some(mut response) => {
            said::put(response.headers_mut(), &run.report());
            response
        }
        None => unreachable!("a run answers with a leg whose head is there"),
    }
}
