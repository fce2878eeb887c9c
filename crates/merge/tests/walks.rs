//! Pages over replicas: whoever follows them to their end sees each resource once, whichever sites have it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod drive;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use drive::service::{Form, Site, answer, by_name, forms, list, next};
use drive::{Answer, Dice, drive, plan, union};
use merge::{Late, Limits, Mark, Marking, Merger, Pull, Unconfirmed};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Resources, and the sites that are to have each.
#[derive(Clone, Debug)]
struct World {
    form: Form,
    members: BTreeMap<String, BTreeSet<usize>>,
    sites: Vec<Site>,
    /// What a site is to have, and has not made yet, with where it will stand in its list.
    due: Vec<(usize, String)>,
    /// What is on its way when the first page is asked for.
    unsettled: BTreeSet<String>,
}

fn item(id: &str) -> Value {
    json!({ "id": id, "name": id.chars().rev().collect::<String>() })
}

impl World {
    fn new(
        form: Form,
        count: usize,
        replicas: &[(u8, u8)],
        caps: &[usize],
        by_name: bool,
        dice: &mut Dice,
    ) -> World {
        let mut world = World {
            form,
            members: BTreeMap::new(),
            sites: caps[..count].iter().map(|cap| Site { items: Vec::new(), cap: *cap }).collect(),
            due: Vec::new(),
            unsettled: BTreeSet::new(),
        };
        for (number, (members, lacking)) in replicas.iter().enumerate() {
            let id = format!("r{number}");
            let mut of: BTreeSet<usize> = (0..count).filter(|site| members & (1 << site) != 0).collect();
            if of.is_empty() {
                of.insert(number % count);
            }
            let first = *of.iter().nth(number % of.len()).unwrap();
            for site in &of {
                // Somebody has it.
                if *site != first && lacking & (1 << site) != 0 {
                    world.due.push((*site, id.clone()));
                    world.unsettled.insert(id.clone());
                } else {
                    world.put(*site, &id, by_name, dice);
                }
            }
            world.members.insert(id, of);
        }
        world
    }

    fn put(&mut self, site: usize, id: &str, by_name: bool, dice: &mut Dice) {
        let items = &mut self.sites[site].items;
        let new = item(id);
        let place = if by_name {
            items.partition_point(|item| item["name"].as_str() < new["name"].as_str())
        } else {
            dice.roll(items.len() + 1)
        };
        // Who counts items, as tokens do, is told nothing new before what was told.
        let place = if self.form == Form::Token { items.len() } else { place };
        items.insert(place, new);
    }

    /// Something that was on its way arrives.
    fn go_on(&mut self, by_name: bool, dice: &mut Dice) {
        if !self.due.is_empty() && dice.roll(2) == 0 {
            let (site, id) = self.due.remove(dice.roll(self.due.len()));
            self.put(site, &id, by_name, dice);
        }
    }

    /// The answer of a site, marked as its mesh does.
    fn answer(&self, source: usize, query: &str, mark: &Mark, dice: &mut Dice) -> Answer {
        let (plain, link) = match answer(&self.sites[source], query, self.form) {
            Answer::Linked(body, link) => (body, Some(link)),
            Answer::Body(body) => (body, None),
            other => return other,
        };
        let mut word = Unconfirmed::default();
        for (id, members) in &self.members {
            let has = |site: usize| self.sites[site].items.iter().any(|item| item["id"] == **id);
            // It may not have heard yet that another has it.
            let knows = |site: usize, dice: &mut Dice| {
                has(site) && !(self.unsettled.contains(id) && dice.roll(2) == 0)
            };
            for other in members.iter().filter(|other| **other != source && has(source)) {
                if !knows(*other, dice) {
                    word.add(*other, id);
                }
            }
        }
        let sources = |id: &str| {
            let members = self.members.get(id).filter(|members| members.len() > 1)?;
            Some(members.iter().copied().collect())
        };
        let mut marking = Marking::new(list(self.form), mark.clone(), Limits::default());
        let (mut out, mut rest) = (VecDeque::new(), &plain[..]);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(1 + dice.roll(rest.len()));
            marking.push(Bytes::copy_from_slice(now), &sources, &mut out).unwrap();
            rest = later;
        }
        marking.finish(&sources, &mut out).unwrap();
        let body = out.into_iter().flatten().collect();
        let inner = link
            .map_or_else(|| Answer::Body(Vec::clone(&body)), |link| Answer::Linked(Vec::clone(&body), link));
        Answer::Marked(Box::new(inner), word.to_header())
    }
}

/// What befalls a source on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answers,
    Missing,
    BreaksOff,
}

fn cut(answer: Answer, dice: &mut Dice) -> Answer {
    let cut = |mut body: Vec<u8>, dice: &mut Dice| {
        body.truncate(dice.roll(body.len()));
        body
    };
    match answer {
        Answer::Body(body) => Answer::Body(cut(body, dice)),
        Answer::Linked(body, link) => Answer::Linked(cut(body, dice), link),
        Answer::Marked(inner, word) => match *inner {
            Answer::Body(body) => Answer::Marked(Box::new(Answer::Body(cut(body, dice))), word),
            Answer::Linked(body, link) => {
                Answer::Marked(Box::new(Answer::Linked(cut(body, dice), link)), word)
            }
            other => other,
        },
        Answer::Missing => Answer::Missing,
    }
}

/// Follows all pages, while what is on its way arrives: the ids of each.
fn walk(
    mut world: World,
    base: &str,
    by_name: bool,
    dice: &mut Dice,
    fate: impl Fn(usize, usize) -> Fate,
) -> Vec<Vec<String>> {
    let list = list(world.form);
    let (form, tree) = (world.form, union(world.sites.len()));
    let (mut query, mut pages) = (base.to_owned(), Vec::new());
    loop {
        let number = pages.len();
        assert!(number < 400, "the pages do not end");
        let mark = Mark::new(&format!("secret-{number}"), world.sites.len());
        let page = plan(&list, &tree, &query, world.sites.len()).unwrap().marked(mark.clone());
        let asked = |source: usize| page.query(source).map(str::to_owned);
        let mut answers = Vec::new();
        for source in 0..world.sites.len() {
            answers.push(match (asked(source), fate(number, source)) {
                (Some(query), Fate::Answers) => world.answer(source, &query, &mark, dice),
                (Some(query), Fate::BreaksOff) => cut(world.answer(source, &query, &mark, dice), dice),
                _ => Answer::Missing,
            });
        }
        let mut merger = Merger::new(list.clone(), tree.clone(), page, Limits::default(), Late::Abort);
        dice.roll(2);
        let outcome = drive(&mut merger, &answers, Some(dice.clone()));
        if outcome.end != Ok(Pull::Done) {
            // None answered: the client would be told, and could ask again.
            assert!((0..world.sites.len()).any(|source| fate(number, source) != Fate::Answers));
            return pages;
        }
        let json = outcome.json();
        let items = json.get("images").unwrap_or(&json).as_array().unwrap().clone();
        assert!(
            items.iter().all(|item| item
                .as_object()
                .unwrap()
                .keys()
                .all(|name| !name.starts_with("archipel")))
        );
        pages.push(items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect());
        let Some(next) = next(&outcome, form) else { return pages };
        query = match form {
            Form::Token => format!("{base}&{next}"),
            _ => next,
        };
        world.go_on(by_name, dice);
    }
}

fn replicas() -> impl Strategy<Value = Vec<(u8, u8)>> {
    proptest::collection::vec((any::<u8>(), Just(0)), 0..24)
}

fn unsettled() -> impl Strategy<Value = Vec<(u8, u8)>> {
    proptest::collection::vec((any::<u8>(), prop_oneof![Just(0), any::<u8>()]), 0..24)
}

fn base(form: Form, limit: usize, sorted: bool) -> String {
    format!("limit={limit}{}", if sorted { by_name(form) } else { "" })
}

fn sorted(ids: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut ids: Vec<String> = ids.into_iter().collect();
    ids.sort();
    ids
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_walk_over_all_pages_tells_each_resource_once(
        count in 2..5_usize, replicas in replicas(), caps in proptest::collection::vec(1..9_usize, 4..5),
        form in forms(), limit in 1..9_usize, by_name in any::<bool>(), seed in any::<u64>(),
    ) {
        let dice = &mut Dice(seed);
        let world = World::new(form, count, &replicas, &caps, by_name, dice);
        let all = sorted(world.members.keys().cloned());
        let pages = walk(world, &base(form, limit, by_name), by_name, dice, |_, _| Fate::Answers);
        prop_assert!(pages.iter().all(|page| page.len() <= limit));
        prop_assert_eq!(sorted(pages.into_iter().flatten()), all);
    }

    #[test]
    fn what_is_on_its_way_is_told_once_too(
        count in 2..5_usize, replicas in unsettled(), caps in proptest::collection::vec(1..9_usize, 4..5),
        form in forms(), limit in 1..9_usize, by_name in any::<bool>(), seed in any::<u64>(),
    ) {
        let dice = &mut Dice(seed);
        let world = World::new(form, count, &replicas, &caps, by_name, dice);
        let all = sorted(world.members.keys().cloned());
        let pages = walk(world, &base(form, limit, by_name), by_name, dice, |_, _| Fate::Answers);
        prop_assert_eq!(sorted(pages.into_iter().flatten()), all);
    }

    #[test]
    fn whatever_is_lost_midway_nothing_is_told_twice_and_what_comes_back_tells_the_rest(
        count in 2..5_usize, replicas in unsettled(), caps in proptest::collection::vec(1..9_usize, 4..5),
        form in forms(), limit in 1..9_usize, by_name in any::<bool>(), seed in any::<u64>(),
        fates in proptest::collection::vec(0..6_usize, 12..13),
    ) {
        let dice = &mut Dice(seed);
        let world = World::new(form, count, &replicas, &caps, by_name, dice);
        let (unsettled, members) = (world.unsettled.clone(), world.members.clone());
        let fate = |page: usize, source: usize| match fates.get(page * count + source) {
            Some(0) => Fate::Missing,
            Some(1) => Fate::BreaksOff,
            _ => Fate::Answers,
        };
        let pages = walk(world, &base(form, limit, by_name), by_name, dice, fate);
        let ended = pages.len() * count >= fates.len();
        let told = sorted(pages.into_iter().flatten());
        let once: BTreeSet<String> = told.iter().cloned().collect();
        prop_assert_eq!(told.len(), once.len(), "told twice: {:?}", told);
        if ended {
            let settled = members.keys().filter(|id| !unsettled.contains(*id));
            let missing: Vec<&String> = settled.filter(|id| !once.contains(*id)).collect();
            prop_assert!(missing.is_empty(), "{:?}", missing);
        }
    }
}

/// Twenty thousand resources at three sites in pages of a thousand, as was seen with sixty-one pages.
#[test]
fn what_all_sites_have_takes_as_many_pages_as_at_one() {
    let dice = &mut Dice(7);
    let replicas: Vec<(u8, u8)> = (0..200).map(|_| (0b111, 0)).collect();
    for (form, by_name) in [(Form::Member, false), (Form::Member, true), (Form::Token, false)] {
        let world = World::new(form, 3, &replicas, &[1000; 3], by_name, dice);
        let pages = walk(world, &base(form, 10, by_name), by_name, dice, |_, _| Fate::Answers);
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [10; 20], "{form:?} {by_name}");
    }
}
