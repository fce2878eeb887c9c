//! All that went in and out of one run, in order.

use std::time::Duration;

use plan::{Asked, Effect, Event, Leg, Request, Rules, Run, Sent, Timer, Why};
use scope::{Plan, Site};

use crate::random::{Sky, Step};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entry {
    In(Event),
    Out(Effect),
}

/// How all that is still open comes to an end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drain {
    /// Sites say nothing of themselves: only timers fire, and only cancelled legs are reported.
    pub(crate) timers_first: bool,
    pub(crate) sent: Sent,
}

#[derive(Debug)]
pub(crate) struct History {
    pub(crate) plan: Plan,
    pub(crate) request: Request,
    pub(crate) sky: Sky,
    pub(crate) log: Vec<Entry>,
    pub(crate) report: Vec<Asked>,
}

impl History {
    /// Runs a plan to its end, if it is not refused.
    pub(crate) fn of(
        plan: &Plan,
        request: Request,
        sky: &Sky,
        steps: &[Step],
        drain: Drain,
    ) -> Option<History> {
        let rules = Rules::default();
        let run = Run::new(plan, request, &rules, sky).ok()?;
        let mut driver = Driver { run, log: vec![], legs: vec![], timers: 0, fired: 0 };
        driver.start();
        for step in steps {
            driver.step(step);
        }
        driver.drain(drain);
        let (log, report) = (driver.log, driver.run.report());
        Some(History { plan: plan.clone(), request, sky: sky.clone(), log, report })
    }

    pub(crate) fn site(&self, leg: Leg) -> &Site {
        fn asked(effect: &Effect, leg: Leg) -> Option<&Site> {
            match effect {
                Effect::Send { leg: sent, site } if *sent == leg => Some(site),
                Effect::Replicate { leg: sent, sites, .. } if *sent == leg => sites.first(),
                _ => None,
            }
        }
        self.effects().find_map(|effect| asked(effect, leg)).unwrap()
    }

    /// What a leg was first answered with, once it was sent.
    pub(crate) fn status(&self, leg: Leg) -> Option<u16> {
        let sent = |entry: &Entry| matches!(entry, Entry::Out(Effect::Send { leg: sent, .. } | Effect::Replicate { leg: sent, .. }) if *sent == leg);
        self.log.iter().skip_while(|entry| !sent(entry)).find_map(|entry| match entry {
            Entry::In(Event::Answered { leg: answered, status, .. }) if *answered == leg => Some(*status),
            _ => None,
        })
    }

    pub(crate) fn effects(&self) -> impl Iterator<Item = &Effect> {
        self.log.iter().filter_map(|entry| match entry {
            Entry::Out(effect) => Some(effect),
            Entry::In(_) => None,
        })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Open,
    Cancelled,
    Reported,
}

struct Driver<'r> {
    run: Run<'r>,
    log: Vec<Entry>,
    legs: Vec<State>,
    timers: usize,
    /// Timers up to here fired while draining.
    fired: usize,
}

impl Driver<'_> {
    fn start(&mut self) {
        let mut effects = Vec::new();
        self.run.start(&mut effects);
        self.take(effects);
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match &effect {
                Effect::Send { leg, .. }
                | Effect::Replicate { leg, .. }
                | Effect::Probe { leg, .. }
                | Effect::Reserve { leg, .. } => {
                    assert_eq!(leg.0, self.legs.len(), "legs are numbered in order");
                    self.legs.push(State::Open);
                }
                Effect::Cancel { leg } if self.legs[leg.0] == State::Open => {
                    self.legs[leg.0] = State::Cancelled;
                }
                Effect::Timer { timer, .. } => {
                    assert_eq!(timer.0, self.timers, "timers are numbered in order");
                    self.timers += 1;
                }
                Effect::Cancel { .. }
                | Effect::Release { .. }
                | Effect::Answer { .. }
                | Effect::Merge { .. }
                | Effect::Fail(_) => {}
            }
            self.log.push(Entry::Out(effect));
        }
    }

    fn on(&mut self, event: Event) {
        let known = match event {
            Event::Sent { leg } | Event::Answered { leg, .. } | Event::Reserved { leg, .. } => {
                leg.0 < self.legs.len()
            }
            Event::Failed { leg, .. } => {
                if let Some(state) = self.legs.get_mut(leg.0) {
                    *state = State::Reported;
                }
                leg.0 < self.legs.len()
            }
            Event::Fired { timer } => timer.0 < self.timers,
            Event::ClientGone => true,
        };
        let mut effects = Vec::new();
        self.log.push(Entry::In(event));
        self.run.on(event, &mut effects);
        assert!(known || effects.is_empty(), "what is unknown changes nothing");
        self.take(effects);
    }

    fn step(&mut self, step: &Step) {
        let elapsed = Duration::from_millis(1);
        // Often the latest leg, since the others are mostly over; sometimes one that is not there.
        let leg = |at: usize| match at {
            0..40 => Leg(self.legs.len().saturating_sub(1 + at % 3)),
            at => Leg(at % (self.legs.len() + 1)),
        };
        match *step {
            Step::Sent(at) => self.on(Event::Sent { leg: leg(at) }),
            Step::Answered(at, status, finding) => {
                self.on(Event::Answered { leg: leg(at), status, finding, elapsed });
            }
            Step::Reserved(at, held) => self.on(Event::Reserved { leg: leg(at), held, elapsed }),
            Step::Failed(at, sent, why) => self.on(Event::Failed { leg: leg(at), sent, why, elapsed }),
            Step::Fired(at) => self.on(Event::Fired { timer: Timer(at % (self.timers + 1)) }),
            Step::Restart => self.start(),
            Step::Gone => self.on(Event::ClientGone),
        }
    }

    fn drain(&mut self, drain: Drain) {
        loop {
            let due =
                |state: &State| *state == State::Cancelled || *state == State::Open && !drain.timers_first;
            let elapsed = Duration::from_secs(1);
            if let Some(at) = self.legs.iter().position(due) {
                self.on(Event::Failed { leg: Leg(at), sent: drain.sent, why: Why::Reset, elapsed });
            } else if self.fired < self.timers {
                self.on(Event::Fired { timer: Timer(self.fired) });
                self.fired += 1;
            } else {
                return;
            }
        }
    }
}
