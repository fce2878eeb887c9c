//! Runs a plan in a world, in one order of events of many.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plan::{Answer, Effect, Event, Failure, Leg, Request, Rules, Run, Timer};
use scope::{Plan, Site};

use crate::plans::{HEDGE_AFTER, LEG_TIMEOUT};
use crate::world::{Nature, World};

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Course {
    pub(crate) end: Final,
    /// Where a write may have been executed, in order.
    pub(crate) executed: Vec<Site>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Final {
    Answer { answer: Items, partial: bool },
    Fail(String),
}

/// Whose items are in an answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Items {
    Of(Site),
    Replicas(BTreeSet<Site>),
    Union(Vec<Items>),
    Unique(Vec<Items>),
}

impl Final {
    pub(crate) fn fail(failure: Failure) -> Final {
        Final::Fail(format!("{failure:?}"))
    }
}

impl Course {
    /// In one word.
    pub(crate) fn kind(&self) -> String {
        match &self.end {
            Final::Answer { partial: true, .. } => "partial".to_owned(),
            Final::Answer { answer: Items::Of(_), .. } => "answer".to_owned(),
            Final::Answer { answer: Items::Replicas(_), .. } => "replicas".to_owned(),
            Final::Answer { .. } => "merge".to_owned(),
            Final::Fail(failure) => failure.clone(),
        }
    }
}

/// Which of the events that may come next does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choices {
    First,
    Last,
    Seeded(u64),
}

impl Choices {
    fn next(&mut self, among: usize) -> usize {
        match self {
            Choices::First => 0,
            Choices::Last => among - 1,
            Choices::Seeded(seed) => {
                *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                usize::try_from(*seed >> 33).unwrap() % among
            }
        }
    }
}

struct Driver<'r> {
    run: Run<'r>,
    world: &'r World,
    request: Request,
    /// The site of each leg.
    sites: Vec<Site>,
    /// The sites of each leg to several.
    groups: BTreeMap<Leg, BTreeSet<Site>>,
    /// Legs that will be answered, and how.
    coming: Vec<(Leg, Event)>,
    timers: Vec<(Duration, Timer)>,
    now: Duration,
    executed: Vec<Site>,
    released: Vec<bool>,
}

pub(crate) fn run(plan: &Plan, request: Request, world: &World, mut choices: Choices) -> Course {
    let rules = Rules { hedge_after: HEDGE_AFTER, leg_timeout: LEG_TIMEOUT };
    let run = Run::new(plan, request, &rules, world).unwrap();
    let (sites, groups, coming, timers, executed) = (vec![], BTreeMap::new(), vec![], vec![], vec![]);
    let now = Duration::ZERO;
    let mut driver =
        Driver { run, world, request, sites, groups, coming, timers, now, executed, released: vec![] };
    let mut effects = Vec::new();
    driver.run.start(&mut effects);
    loop {
        if let Some(end) = driver.carry_out(&mut effects) {
            assert!(driver.released.len() <= 1, "{plan:?}");
            return Course { end, executed: driver.executed };
        }
        let event = driver.next(&mut choices);
        driver.run.on(event, &mut effects);
    }
}

impl Driver<'_> {
    fn carry_out(&mut self, effects: &mut Vec<Effect>) -> Option<Final> {
        for effect in std::mem::take(effects) {
            match effect {
                Effect::Send { leg, site } => {
                    self.run.on(Event::Sent { leg }, effects);
                    if self.world[&site].executes() && matches!(self.request, Request::Write { .. }) {
                        self.executed.push(site.clone());
                    }
                    self.begin(leg, site, matches!(self.request, Request::Write { .. }));
                }
                Effect::Replicate { leg, sites, .. } => {
                    self.run.on(Event::Sent { leg }, effects);
                    let first = sites[0].clone();
                    if self.world[&first].executes() {
                        self.executed.push(first.clone());
                    }
                    self.begin(leg, first, true);
                    self.groups.insert(leg, sites.into_iter().collect());
                }
                Effect::Probe { leg, site } => self.begin(leg, site, false),
                Effect::Reserve { leg, site, .. } => {
                    let held = self.world[&site] != Nature::Taken;
                    self.coming.push((leg, Event::Reserved { leg, held, elapsed: Duration::ZERO }));
                    self.sites.push(site);
                }
                Effect::Release { known } => self.released.push(known),
                Effect::Cancel { leg } => self.coming.retain(|(coming, _)| *coming != leg),
                Effect::Timer { timer, after } => self.timers.push((self.now + after, timer)),
                Effect::Answer { leg } => {
                    return Some(Final::Answer { answer: self.items(&Answer::Leg(leg)), partial: false });
                }
                Effect::Merge { answer, partial, .. } => {
                    return Some(Final::Answer { answer: self.items(&answer), partial });
                }
                Effect::Fail(failure) => return Some(Final::fail(failure)),
            }
        }
        None
    }

    fn begin(&mut self, leg: Leg, site: Site, writes: bool) {
        let nature: Nature = self.world[&site];
        self.coming.extend(nature.says(leg, writes).map(|event| (leg, event)));
        self.sites.push(site);
    }

    /// Answers and hedges come in any order; other times pass when nothing else is left to happen.
    fn next(&mut self, choices: &mut Choices) -> Event {
        let hedges: Vec<Timer> =
            self.timers.iter().map(|(_, timer)| *timer).filter(|timer| self.run.hedges(*timer)).collect();
        if self.coming.is_empty() {
            let at = (0..self.timers.len()).min_by_key(|at| self.timers[*at]).expect("it stalled");
            let (due, timer) = self.timers.remove(at);
            self.now = self.now.max(due);
            return Event::Fired { timer };
        }
        let chosen = choices.next(self.coming.len() + hedges.len());
        match hedges.get(chosen.wrapping_sub(self.coming.len())) {
            Some(timer) => Event::Fired { timer: *timer },
            None => self.coming.remove(chosen).1,
        }
    }

    fn items(&self, answer: &Answer) -> Items {
        let parts = |parts: &[Answer]| parts.iter().map(|part| self.items(part)).collect();
        match answer {
            Answer::Leg(leg) if self.groups.contains_key(leg) => Items::Replicas(self.groups[leg].clone()),
            Answer::Leg(leg) => Items::Of(self.sites[leg.0].clone()),
            Answer::Union(answers) => Items::Union(parts(answers)),
            Answer::Unique(answers) => Items::Unique(parts(answers)),
        }
    }
}
