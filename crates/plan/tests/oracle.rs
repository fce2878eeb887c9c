//! A run ends as the reference says, for any nesting: compared with a second, plain reading of the
//! operators that has no events, no time and no order.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail the test, as the test itself does"
)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use plan::{Effect, Event, Failure, Knowledge, Leg, Reach, Request, Rules, Run, Sent, Why};
use proptest::prelude::*;
use proptest::sample::select;
use scope::{Plan, Site};

/// What a site does, each time that it is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Nature {
    /// It has the resource.
    Has,
    /// It has not, and creates it when written to.
    HasNot,
    /// It cannot be reached.
    Down,
    /// It answers 500.
    Broken,
    /// It answers 503, which proves that a write had no effect.
    Busy,
}

#[derive(Clone, Debug, PartialEq)]
enum End {
    At(Site),
    Fails(Failure),
    /// Whatever is around it.
    Stops(Failure),
}

type World = BTreeMap<Site, Nature>;

/// Of all sites alike, so that operands keep their order.
struct Alike;

impl Knowledge for Alike {
    fn rtt(&self, _: &Site) -> Option<Duration> {
        None
    }

    fn reach(&self, _: &Site) -> Reach {
        Reach::Yes
    }
}

fn both(one: Option<Failure>, other: Failure) -> Failure {
    match (one, other) {
        (None | Some(Failure::NotFound), Failure::NotFound) => Failure::NotFound,
        (None, other) => other,
        _ => Failure::Unavailable,
    }
}

fn first(ends: impl Iterator<Item = End>) -> End {
    let mut failure = None;
    for end in ends {
        match end {
            End::Fails(other) => failure = Some(both(failure, other)),
            end => return end,
        }
    }
    End::Fails(failure.unwrap())
}

fn read(plan: &Plan, world: &World) -> End {
    match plan {
        Plan::Site(site) => match world[site] {
            Nature::Has => End::At(site.clone()),
            Nature::HasNot => End::Fails(Failure::NotFound),
            Nature::Down | Nature::Broken | Nature::Busy => End::Fails(Failure::Unavailable),
        },
        Plan::Within(_, inner) => read(inner, world),
        Plan::Any(plans) | Plan::Otherwise(plans) | Plan::All(_, plans) => {
            first(plans.iter().map(|plan| read(plan, world)))
        }
        Plan::One(plans) => {
            let ends: Vec<End> = plans.iter().map(|plan| read(plan, world)).collect();
            let found: BTreeSet<&Site> = ends
                .iter()
                .filter_map(|end| if let End::At(site) = end { Some(site) } else { None })
                .collect();
            let missing = |end: &End| matches!(end, End::Fails(failure) if *failure != Failure::NotFound);
            if found.len() > 1 || ends.iter().any(|end| matches!(end, End::Stops(_))) {
                End::Stops(Failure::Conflict)
            } else if ends.iter().any(missing) {
                End::Fails(Failure::Missing)
            } else {
                found.first().map_or(End::Fails(Failure::NotFound), |site| End::At((*site).clone()))
            }
        }
    }
}

/// A write to a plan of which only some sites are open.
fn write(plan: &Plan, world: &World, open: &BTreeSet<Site>) -> End {
    match plan {
        Plan::Site(site) if !open.contains(site) => End::Fails(Failure::NotFound),
        Plan::Site(site) => match world[site] {
            Nature::Has | Nature::HasNot => End::At(site.clone()),
            Nature::Down | Nature::Busy => End::Fails(Failure::Unavailable),
            Nature::Broken => End::Stops(Failure::Unknown),
        },
        Plan::Within(_, inner) => write(inner, world, open),
        Plan::Any(plans) | Plan::Otherwise(plans) | Plan::All(_, plans) => {
            first(plans.iter().map(|plan| write(plan, world, open)))
        }
        Plan::One(plans) => {
            let sites: BTreeSet<Site> = plan.sites().into_iter().filter(|site| open.contains(site)).collect();
            let has: BTreeSet<Site> =
                sites.iter().filter(|site| world[*site] == Nature::Has).cloned().collect();
            let said = |site: &Site| matches!(world[site], Nature::Has | Nature::HasNot);
            if has.len() > 1 {
                return End::Stops(Failure::Conflict);
            }
            if sites.is_empty() || !sites.iter().all(said) {
                return End::Fails(Failure::Missing);
            }
            let open = if has.is_empty() { sites } else { has };
            let chosen = plans.iter().find(|plan| plan.sites().iter().any(|site| open.contains(site)));
            write(chosen.unwrap(), world, &open)
        }
    }
}

/// Runs it against sites of these natures, which answer in the order in which they are asked.
fn run(plan: &Plan, request: Request, world: &World) -> End {
    let rules = Rules { no_effect: vec![503], ..Rules::default() };
    let mut run = Run::new(plan, request, &rules, &Alike).unwrap();
    let (mut effects, mut waiting, mut sites) = (Vec::new(), VecDeque::new(), Vec::new());
    run.start(&mut effects);
    loop {
        for effect in effects.drain(..) {
            match effect {
                Effect::Send { leg, site } => {
                    waiting.push_back((leg, site.clone(), request != Request::Read));
                    sites.push(site);
                }
                Effect::Probe { leg, site } => {
                    waiting.push_back((leg, site.clone(), false));
                    sites.push(site);
                }
                Effect::Merge { .. } => unreachable!("no list is asked for"),
                Effect::Answer { leg } => return End::At(sites[leg.0].clone()),
                Effect::Fail(failure) => return End::Fails(failure),
                Effect::Cancel { .. } | Effect::Timer { .. } => {}
            }
        }
        let (leg, site, writes) = waiting.pop_front().expect("it stalled");
        run.on(said(leg, world[&site], writes), &mut effects);
    }
}

fn said(leg: Leg, nature: Nature, writes: bool) -> Event {
    let elapsed = Duration::ZERO;
    let status = match nature {
        Nature::HasNot if writes => 201,
        Nature::Has => 200,
        Nature::HasNot => 404,
        Nature::Broken => 500,
        Nature::Busy => 503,
        Nature::Down => return Event::Failed { leg, sent: Sent::No, why: Why::Unreachable, elapsed },
    };
    Event::Answered { leg, status, elapsed }
}

const SITES: [&str; 5] = ["A", "B", "C", "D", "E"];

fn plans() -> impl Strategy<Value = Plan> {
    let site = select(&SITES[..]).prop_map(|name| Plan::Site(Site::new(name).unwrap()));
    let plans = site.prop_recursive(4, 16, 4, |inner| {
        let group = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            3 => group.clone().prop_map(Plan::Otherwise),
            2 => group.clone().prop_map(Plan::Any),
            3 => group.prop_map(Plan::One),
            1 => inner.prop_map(|plan| Plan::Within(Duration::from_secs(1), Box::new(plan))),
        ]
    });
    // One site alone is forwarded, whatever it answers.
    plans.prop_filter("more than one site", |plan| plan.sites().len() > 1)
}

fn worlds() -> impl Strategy<Value = World> {
    use Nature::{Broken, Busy, Down, Has, HasNot};
    let nature = prop_oneof![3 => Just(Has), 5 => Just(HasNot), 2 => select(&[Down, Broken, Busy][..])];
    prop::collection::vec(nature, SITES.len())
        .prop_map(|natures| SITES.iter().filter_map(|name| Site::new(name)).zip(natures).collect())
}

fn at_the_root(end: End) -> End {
    match end {
        End::Stops(failure) => End::Fails(failure),
        end => end,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_read_ends_as_the_reference_says(plan in plans(), world in worlds()) {
        prop_assert_eq!(run(&plan, Request::Read, &world), at_the_root(read(&plan, &world)));
    }

    #[test]
    fn a_write_ends_as_the_reference_says(plan in plans(), world in worlds()) {
        let open = plan.sites().into_iter().collect();
        let request = Request::Write { chosen_name: true };
        prop_assert_eq!(run(&plan, request, &world), at_the_root(write(&plan, &world, &open)));
    }
}
