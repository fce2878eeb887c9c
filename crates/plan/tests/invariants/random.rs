//! Random plans, knowledge and schedules.

use std::time::Duration;

use plan::{Finding, Knowledge, Reach, Request, Sent, Why};
use proptest::prelude::*;
use proptest::sample::select;
use scope::{Level, Plan, Site};

use crate::history::Drain;

const SITES: [&str; 5] = ["A", "B", "C", "D", "E"];

/// What the driver is made to say next. Numbers choose among the legs and timers there are, and one
/// more that is not there.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Sent(usize),
    Answered(usize, u16, Finding),
    Reserved(usize, bool),
    Failed(usize, Sent, Why),
    Fired(usize),
    Restart,
    Gone,
}

#[derive(Clone, Debug)]
pub(crate) struct Sky(Vec<(Option<u64>, Reach)>);

impl Knowledge for Sky {
    fn rtt(&self, site: &Site) -> Option<Duration> {
        self.of(site).0.map(Duration::from_millis)
    }

    fn reach(&self, site: &Site) -> Reach {
        self.of(site).1
    }
}

impl Sky {
    fn of(&self, site: &Site) -> (Option<u64>, Reach) {
        self.0[SITES.iter().position(|name| *name == site.name()).unwrap()]
    }
}

pub(crate) fn skies() -> impl Strategy<Value = Sky> {
    use Reach::{Quarantined, Unknown, Unreachable, Yes};
    let reach = prop_oneof![7 => Just(Yes), 2 => Just(Unknown), 1 => select(&[Unreachable, Quarantined][..])];
    let site = (proptest::option::of(0..300_u64), reach);
    prop::collection::vec(site, SITES.len()).prop_map(Sky)
}

fn site() -> impl Strategy<Value = Plan> + Clone {
    select(&SITES[..]).prop_map(|name| Plan::Site(Site::new(name).unwrap()))
}

/// Any plan, also shapes that the language never makes, such as a group of nothing.
pub(crate) fn plans() -> impl Strategy<Value = Plan> {
    site().prop_recursive(4, 16, 4, |inner| {
        let group = prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            3 => group.clone().prop_map(Plan::Otherwise),
            3 => group.clone().prop_map(Plan::Any),
            3 => group.clone().prop_map(Plan::One),
            3 => group.prop_map(|plans| Plan::All(Level::Eventual, plans)),
            2 => within(inner),
        ]
    })
}

/// Plans with `&` only around sites, and choices of them.
pub(crate) fn writable_plans() -> impl Strategy<Value = Plan> {
    let sites = prop::collection::vec(site(), 1..4);
    let choice = prop_oneof![4 => site(), 1 => sites.prop_map(Plan::Any)];
    let replicas = prop::collection::vec(choice, 2..4).prop_map(|plans| Plan::All(Level::Eventual, plans));
    prop_oneof![4 => site(), 1 => replicas].prop_recursive(4, 16, 4, |inner| {
        let group = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            3 => group.clone().prop_map(Plan::Otherwise),
            2 => group.clone().prop_map(Plan::Any),
            2 => group.prop_map(Plan::One),
            2 => within(inner),
        ]
    })
}

/// Small plans around a `^`: in larger ones its answers are seldom all there.
pub(crate) fn unique_plans() -> impl Strategy<Value = Plan> {
    let one = prop::collection::vec(site(), 2..4).prop_map(Plan::One);
    let otherwise = (one.clone(), site()).prop_map(|(one, site)| Plan::Otherwise(vec![one, site]));
    let any = (one.clone(), site()).prop_map(|(one, site)| Plan::Any(vec![one, site]));
    prop_oneof![2 => one, 1 => otherwise, 1 => any]
}

/// Small plans around a `&`, for lists.
pub(crate) fn merged_plans() -> impl Strategy<Value = Plan> {
    let all = |plans| Plan::All(Level::Eventual, plans);
    let sites = prop::collection::vec(site(), 2..4);
    let any =
        prop_oneof![3 => site(), 1 => sites.clone().prop_map(Plan::Any), 1 => sites.prop_map(Plan::One)];
    let group = prop::collection::vec(any, 2..4).prop_map(all);
    let otherwise = (group.clone(), site()).prop_map(|(group, site)| Plan::Otherwise(vec![group, site]));
    let one = (group.clone(), site()).prop_map(|(group, site)| Plan::One(vec![group, site]));
    let nested = (otherwise.clone(), site()).prop_map(move |(group, site)| all(vec![group, site]));
    prop_oneof![4 => group, 1 => otherwise, 1 => one, 1 => nested]
}

fn within(inner: impl Strategy<Value = Plan>) -> impl Strategy<Value = Plan> {
    (0..2_000_u64, inner).prop_map(|(ms, plan)| Plan::Within(Duration::from_millis(ms), Box::new(plan)))
}

pub(crate) fn requests() -> impl Strategy<Value = Request> {
    prop_oneof![
        4 => Just(Request::Read),
        4 => any::<bool>().prop_map(|strict| Request::List { strict }),
        3 => any::<bool>().prop_map(|chosen_name| Request::Write { chosen_name }),
    ]
}

fn sents() -> impl Strategy<Value = Sent> {
    // Mostly what lets a write go on: the interesting mistakes come after that.
    prop_oneof![3 => Just(Sent::No), 1 => Just(Sent::Maybe)]
}

fn whys() -> impl Strategy<Value = Why> {
    use Why::{Cancelled, Protocol, Refused, Reset, TimedOut, Undone, Unreachable, Unsettled};
    select(&[Unreachable, TimedOut, Refused, Reset, Protocol, Cancelled, Undone, Unsettled][..])
}

fn statuses() -> impl Strategy<Value = u16> {
    prop_oneof![
        4 => select(&[200_u16, 404, 404, 503][..]),
        3 => select(&[200_u16, 201, 304, 400, 403, 409, 410, 413, 429, 500, 502, 504][..]),
    ]
}

fn findings() -> impl Strategy<Value = Finding> {
    prop_oneof![4 => Just(Finding::Usual), 1 => Just(Finding::Fails), 2 => Just(Finding::NoEffect)]
}

pub(crate) fn schedules() -> impl Strategy<Value = Vec<Step>> {
    let at = || 0..64_usize;
    let step = prop_oneof![
        10 => at().prop_map(Step::Sent),
        30 => (at(), statuses(), findings())
            .prop_map(|(leg, status, finding)| Step::Answered(leg, status, finding)),
        30 => (at(), sents(), whys()).prop_map(|(leg, sent, why)| Step::Failed(leg, sent, why)),
        20 => (at(), prop::bool::weighted(0.9)).prop_map(|(leg, held)| Step::Reserved(leg, held)),
        20 => at().prop_map(Step::Fired),
        2 => Just(Step::Restart),
        1 => Just(Step::Gone),
    ];
    prop::collection::vec(step, 0..40)
}

pub(crate) fn drains() -> impl Strategy<Value = Drain> {
    (any::<bool>(), sents()).prop_map(|(timers_first, sent)| Drain { timers_first, sent })
}
