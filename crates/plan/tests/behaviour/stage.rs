//! A driver for tests: sites are letters, time is virtual, effects are words.

use std::time::Duration;

use plan::{Answer, Effect, Event, Finding, Knowledge, Leg, Reach, Request, Rules, Run, Sent, Timer, Why};
use scope::{Atlas, Dialect, Plan, Site};

pub(crate) const NAMED: Request = Request::Write { chosen_name: true };
pub(crate) const LIST: Request = Request::List { strict: false };
pub(crate) const STRICT: Request = Request::List { strict: true };
pub(crate) const UNNAMED: Request = Request::Write { chosen_name: false };

/// A is 10 ms away, B 20 ms, C 30 ms, D 40 ms; E and F are at an unknown distance.
#[derive(Default)]
pub(crate) struct Sky {
    /// Those that may answer or not.
    pub(crate) down: &'static str,
    /// Those that are not to be asked: E is quarantined, others cannot be reached.
    pub(crate) cut: &'static str,
    /// What some usually take, in milliseconds.
    pub(crate) usual: &'static [(&'static str, u64)],
}

impl Knowledge for Sky {
    fn rtt(&self, site: &Site) -> Option<Duration> {
        let place = "ABCD".find(site.name())?;
        Some(Duration::from_millis(10 * (place as u64 + 1)))
    }

    fn patience(&self, site: &Site) -> Option<Duration> {
        let (_, millis) = self.usual.iter().find(|(name, _)| *name == site.name())?;
        Some(Duration::from_millis(*millis))
    }

    fn reach(&self, site: &Site) -> Reach {
        match (self.down.contains(site.name()), self.cut.contains(site.name())) {
            (_, true) if site.name() == "E" => Reach::Quarantined,
            (_, true) => Reach::Unreachable,
            (true, _) => Reach::Unknown,
            (false, false) => Reach::Yes,
        }
    }
}

pub(crate) fn parse(location: &str) -> Plan {
    let atlas = Atlas::new("ABCDEF".chars().map(|name| Site::new(&name.to_string()).unwrap())).unwrap();
    let dialect = Dialect::default();
    let scope = dialect.scope(&format!("image: {location}")).unwrap();
    dialect.plan(&scope, "image", &atlas).unwrap().unwrap()
}

pub(crate) fn rules() -> Rules {
    Rules { hedge_after: Duration::from_millis(100), leg_timeout: Duration::from_secs(10) }
}

/// What these tests' profile says: of a 423 and a 503 that a write had no effect, of a 413 that it fails, and of a 299 that
/// it is an empty list of what was looked up.
pub(crate) fn finding(status: u16) -> Finding {
    match status {
        423 | 503 => Finding::NoEffect,
        413 => Finding::Fails,
        299 => Finding::Nothing,
        _ => Finding::Usual,
    }
}

pub(crate) struct Stage {
    pub(crate) run: Run<'static>,
    effects: Vec<Effect>,
    sites: Vec<Site>,
    timers: Vec<(Duration, Timer)>,
    /// The sites of a merged answer, nearest first.
    pub(crate) nearest: String,
    now: Duration,
}

impl Stage {
    pub(crate) fn new(location: &str, request: Request, down: &'static str) -> Stage {
        Stage::under(location, request, &Sky { down, ..Sky::default() })
    }

    pub(crate) fn cut(location: &str, request: Request, cut: &'static str) -> Stage {
        Stage::under(location, request, &Sky { cut, ..Sky::default() })
    }

    pub(crate) fn usually(location: &str, request: Request, usual: &'static [(&'static str, u64)]) -> Stage {
        Stage::under(location, request, &Sky { usual, ..Sky::default() })
    }

    pub(crate) fn under(location: &str, request: Request, sky: &dyn Knowledge) -> Stage {
        let rules = Box::leak(Box::new(rules()));
        let run = Run::new(&parse(location), request, rules, sky).unwrap();
        let (effects, sites, timers) = (vec![], vec![], vec![]);
        let mut stage = Stage { run, effects, sites, timers, nearest: String::new(), now: Duration::ZERO };
        stage.run.start(&mut stage.effects);
        stage
    }

    pub(crate) fn read(location: &str) -> Stage {
        Stage::new(location, Request::Read, "")
    }

    pub(crate) fn list(location: &str) -> Stage {
        Stage::new(location, LIST, "")
    }

    pub(crate) fn strict(location: &str) -> Stage {
        Stage::new(location, STRICT, "")
    }

    pub(crate) fn write(location: &str) -> Stage {
        Stage::new(location, UNNAMED, "")
    }

    pub(crate) fn put(location: &str) -> Stage {
        Stage::new(location, NAMED, "")
    }

    /// What was done since this was last called, without the timers.
    pub(crate) fn did(&mut self) -> String {
        let mut words = Vec::new();
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Send { site, .. } => {
                    words.push(format!("send {site}"));
                    self.sites.push(site);
                }
                Effect::Replicate { sites, level, .. } => {
                    let names: Vec<&str> = sites.iter().map(Site::name).collect();
                    words.push(format!("replicate {} @{}", names.join("+"), level.name()));
                    self.sites.push(sites[0].clone());
                }
                Effect::Probe { site, .. } => {
                    words.push(format!("probe {site}"));
                    self.sites.push(site);
                }
                Effect::Reserve { site, .. } => {
                    words.push(format!("reserve {site}"));
                    self.sites.push(site);
                }
                Effect::Release { known: true } => words.push("release".to_owned()),
                Effect::Release { known: false } => words.push("keep reserved".to_owned()),
                Effect::Cancel { leg } => words.push(format!("cancel {}", self.sites[leg.0])),
                Effect::Timer { timer, after } => self.timers.push((self.now + after, timer)),
                Effect::Answer { leg } => words.push(format!("answer {}", self.sites[leg.0])),
                Effect::Merge { answer, nearest, partial } => {
                    let partial = if partial { "partial " } else { "" };
                    words.push(format!("merge {partial}{}", self.words(&answer)));
                    self.nearest = nearest.iter().map(|leg| self.sites[leg.0].name()).collect();
                }
                Effect::Fail(failure) => words.push(format!("fail {} {failure:?}", failure.status())),
            }
        }
        words.join(", ")
    }

    fn words(&self, answer: &Answer) -> String {
        let parts = |parts: &[Answer]| parts.iter().map(|part| self.words(part)).collect::<Vec<_>>();
        match answer {
            Answer::Leg(leg) => self.sites[leg.0].to_string(),
            Answer::Union(answers) => format!("({})", parts(answers).join(" & ")),
            Answer::Unique(answers) => format!("({})", parts(answers).join(" ^ ")),
        }
    }

    /// The latest leg to a site.
    fn leg(&self, site: &str) -> Leg {
        Leg(self.sites.iter().rposition(|asked| asked.name() == site).unwrap())
    }

    pub(crate) fn on(&mut self, event: Event) -> String {
        assert_eq!(self.did(), "", "effects that the test did not look at");
        self.run.on(event, &mut self.effects);
        self.did()
    }

    pub(crate) fn answers(&mut self, site: &str, status: u16) -> String {
        let elapsed = self.now;
        self.on(Event::Answered { leg: self.leg(site), status, finding: finding(status), elapsed })
    }

    /// The same, for the first leg to a site.
    pub(crate) fn first_answers(&mut self, site: &str, status: u16) -> String {
        let leg = Leg(self.sites.iter().position(|asked| asked.name() == site).unwrap());
        self.on(Event::Answered { leg, status, finding: finding(status), elapsed: self.now })
    }

    /// A site reserves the name, or says that another request has it.
    pub(crate) fn reserves(&mut self, site: &str, held: bool) -> String {
        let elapsed = self.now;
        self.on(Event::Reserved { leg: self.leg(site), held, elapsed })
    }

    /// Every one of these sites says twice that it does not have it, and reserves the name in between. What follows.
    pub(crate) fn absent_and_reserved(&mut self, sites: &str) -> String {
        let names: Vec<String> = sites.chars().map(|name| name.to_string()).collect();
        let mut did = String::new();
        for name in &names {
            did = self.answers(name, 404);
        }
        for name in &names {
            assert_eq!(did, format!("reserve {name}"), "in the order of their names");
            did = self.reserves(name, true);
        }
        for name in &names {
            did = self.answers(name, 404);
        }
        did
    }

    pub(crate) fn fails(&mut self, site: &str, sent: Sent, why: Why) -> String {
        let elapsed = self.now;
        self.on(Event::Failed { leg: self.leg(site), sent, why, elapsed })
    }

    pub(crate) fn unreachable(&mut self, site: &str) -> String {
        self.fails(site, Sent::No, Why::Unreachable)
    }

    pub(crate) fn sent(&mut self, site: &str) {
        assert_eq!(self.on(Event::Sent { leg: self.leg(site) }), "");
    }

    /// The timer that fires after this time from now, without firing it.
    pub(crate) fn timer_after(&self, ms: u64) -> Timer {
        let due = self.now + Duration::from_millis(ms);
        self.timers.iter().rfind(|(at, _)| *at == due).unwrap().1
    }

    /// Lets time pass, and the timers with it.
    pub(crate) fn after(&mut self, ms: u64) -> String {
        let until = self.now + Duration::from_millis(ms);
        let mut words = vec![self.did()];
        while let Some(next) =
            (0..self.timers.len()).filter(|at| self.timers[*at].0 <= until).min_by_key(|at| self.timers[*at])
        {
            let (due, timer) = self.timers.remove(next);
            self.now = due;
            self.run.on(Event::Fired { timer }, &mut self.effects);
            words.push(self.did());
        }
        self.now = until;
        words.retain(|word| !word.is_empty());
        words.join(", ")
    }
}
