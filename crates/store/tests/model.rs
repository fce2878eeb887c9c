//! A store answers as a plain map with linear scans would, whatever is asked and written.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::ops::Bound;

use common::{BY_GROUP, BY_NAME, BY_RANK, BY_SIZE, BY_TAG, Item, on_each_store};
use proptest::prelude::*;
use store::{Error, Query, View};

type Model = BTreeMap<u32, Item>;

#[derive(Clone, Debug)]
enum Step {
    Put(Item),
    Insert(Item),
    Delete(u32),
    Ask(Question),
}

#[derive(Clone, Debug)]
struct Question {
    from: From,
    not: Option<u32>,
    reverse: bool,
    page: usize,
}

#[derive(Clone, Debug)]
enum From {
    All,
    Keys(Bound<u32>, Bound<u32>),
    Group(String),
    Ranks(Bound<(String, i16)>, Bound<(String, i16)>),
    RanksOf(String),
    Tag(u8),
    Tags,
    Name(String),
    Sizes(u16, u16),
}

/// What a question is answered with: the sort key first, then the record.
fn answer(model: &Model, question: &Question) -> Vec<Item> {
    let mut found: Vec<((String, i64), Item)> = Vec::new();
    for item in model.values() {
        let plain = (String::new(), 0);
        let ranked = (item.group.clone(), item.rank);
        let mut tags = item.tags.clone();
        tags.sort_unstable();
        tags.dedup();
        let keys: Vec<(String, i64)> = match &question.from {
            From::All => vec![plain],
            From::Keys(from, to) => within(&item.id, from, to).then_some(plain).into_iter().collect(),
            From::Group(group) => (item.group == *group).then_some(plain).into_iter().collect(),
            From::Ranks(from, to) => {
                within(&ranked, from, to).then_some((ranked.0, ranked.1.into())).into_iter().collect()
            }
            From::RanksOf(group) => {
                (item.group == *group).then_some((String::new(), item.rank.into())).into_iter().collect()
            }
            From::Tag(tag) => tags.contains(tag).then_some(plain).into_iter().collect(),
            From::Tags => tags.iter().map(|tag| (String::new(), (*tag).into())).collect(),
            From::Name(name) => (item.name == *name).then_some(plain).into_iter().collect(),
            From::Sizes(from, to) => {
                let size = item.rank.unsigned_abs();
                (*from <= size && size <= *to).then_some((String::new(), size.into())).into_iter().collect()
            }
        };
        found.extend(keys.into_iter().map(|key| (key, item.clone())));
    }
    found.retain(|(_, item)| Some(item.id) != question.not);
    found.sort_by(|(a, left), (b, right)| (a, left.id).cmp(&(b, right.id)));
    if question.reverse {
        found.reverse();
    }
    found.into_iter().map(|(_, item)| item).collect()
}

fn within<T: Ord>(value: &T, from: &Bound<T>, to: &Bound<T>) -> bool {
    let above = match from {
        Bound::Included(from) => value >= from,
        Bound::Excluded(from) => value > from,
        Bound::Unbounded => true,
    };
    let below = match to {
        Bound::Included(to) => value <= to,
        Bound::Excluded(to) => value < to,
        Bound::Unbounded => true,
    };
    above && below
}

fn query(question: &Question) -> Query<Item> {
    let query = match &question.from {
        From::All => Query::all(),
        From::Keys(from, to) => Query::keys((*from, *to)),
        From::Group(group) => BY_GROUP.eq(group),
        From::Ranks(from, to) => BY_RANK.range((from.clone(), to.clone())),
        From::RanksOf(group) => BY_RANK.beginning(&(group.clone(),)),
        From::Tag(tag) => BY_TAG.eq(tag),
        From::Tags => BY_TAG.all(),
        From::Name(name) => BY_NAME.eq(name),
        From::Sizes(from, to) => BY_SIZE.range(*from..=*to),
    };
    let query = match question.not {
        Some(id) => query.filter(move |item| item.id != id),
        None => query,
    };
    if question.reverse { query.reverse() } else { query }
}

async fn ask(view: &View, question: &Question, expected: &[Item]) {
    let found = query(question).collect(view).await.unwrap();
    assert_eq!(found, expected, "{question:?}");
    assert_eq!(query(question).count(view).await.unwrap(), expected.len() as u64);
    let mut paged = Vec::new();
    let mut next = None;
    loop {
        let rest = match &next {
            Some(after) => query(question).after(after),
            None => query(question),
        };
        let page = rest.page(view, question.page).await.unwrap();
        assert!(page.found.len() <= question.page);
        paged.extend(page.found);
        match page.next {
            Some(after) => next = Some(after),
            None => break,
        }
    }
    assert_eq!(paged, expected, "by pages: {question:?}");
}

/// Joins each item with those of the group that is called like it.
async fn join(view: &View, model: &Model) {
    let joined = Query::<Item>::all().join(&BY_GROUP, |item| item.name.clone()).collect(view).await.unwrap();
    for ((left, right), item) in joined.iter().zip(model.values()) {
        assert_eq!(left, item);
        let expected: Vec<_> = model.values().filter(|other| other.group == item.name).cloned().collect();
        assert_eq!(*right, expected);
    }
    assert_eq!(joined.len(), model.len());
    let one = Query::<Item>::all().join_one::<Item>(|item| u32::from(item.rank.unsigned_abs()));
    for (left, right) in one.collect(view).await.unwrap() {
        assert_eq!(right.as_ref(), model.get(&u32::from(left.rank.unsigned_abs())));
    }
}

fn apply(model: &mut Model, step: &Step) -> Result<(), Error> {
    match step {
        Step::Put(item) | Step::Insert(item) => {
            if matches!(step, Step::Insert(_)) && model.contains_key(&item.id) {
                return Err(Error::Duplicate { table: "items", index: None });
            }
            if model.values().any(|other| other.id != item.id && other.name == item.name) {
                return Err(Error::Duplicate { table: "items", index: Some("name") });
            }
            model.insert(item.id, item.clone());
        }
        Step::Delete(id) => drop(model.remove(id)),
        Step::Ask(_) => {}
    }
    Ok(())
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[ab\\x00]{1,2}", Just("a".to_owned()), Just("b".to_owned())]
}

fn ranked() -> impl Strategy<Value = (String, i16)> {
    (text(), -3..4i16)
}

fn bound<T: Clone + std::fmt::Debug + 'static>(
    inner: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<Bound<T>> {
    (inner, 0..3u8)
        .prop_map(|(value, kind)| match kind {
            0 => Bound::Included(value),
            1 => Bound::Excluded(value),
            _ => Bound::Unbounded,
        })
        .boxed()
}

fn items() -> impl Strategy<Value = Item> {
    let tags = proptest::collection::vec(0..4u8, 0..4);
    (0..12u32, text(), -3..4i16, tags, text()).prop_map(|(id, group, rank, tags, name)| Item {
        id,
        group,
        rank,
        tags,
        name,
    })
}

fn questions() -> impl Strategy<Value = Question> {
    let from = prop_oneof![
        Just(From::All),
        (bound(0..12u32), bound(0..12u32)).prop_map(|(from, to)| From::Keys(from, to)),
        text().prop_map(From::Group),
        (bound(ranked()), bound(ranked())).prop_map(|(from, to)| From::Ranks(from, to)),
        text().prop_map(From::RanksOf),
        (0..4u8).prop_map(From::Tag),
        Just(From::Tags),
        text().prop_map(From::Name),
        (0..4u16, 0..4u16).prop_map(|(from, to)| From::Sizes(from, to)),
    ];
    (from, proptest::option::of(0..12u32), any::<bool>(), 1..5usize)
        .prop_map(|(from, not, reverse, page)| Question { from, not, reverse, page })
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => items().prop_map(Step::Put),
        2 => items().prop_map(Step::Insert),
        2 => (0..12u32).prop_map(Step::Delete),
        3 => questions().prop_map(Step::Ask),
    ]
}

/// Steps of a session, and whether it fails in the end.
fn sessions() -> impl Strategy<Value = Vec<(Vec<Step>, bool)>> {
    proptest::collection::vec((proptest::collection::vec(steps(), 0..8), proptest::bool::weighted(0.2)), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn a_store_answers_as_a_map_would(sessions in sessions(), last in proptest::collection::vec(questions(), 4)) {
        on_each_store(async |store| {
            let mut model = Model::new();
            for (steps, fails) in &sessions {
                let mut after = model.clone();
                let done: Result<(), Error> = store.session(async |session| {
                    after = model.clone();
                    for step in steps {
                        let expected = apply(&mut after, step);
                        let done = match step {
                            Step::Put(item) => session.put(item).await.map(drop),
                            Step::Insert(item) => session.insert(item).await,
                            Step::Delete(id) => session.delete::<Item>(id).await.map(drop),
                            Step::Ask(question) => {
                                ask(session, question, &answer(&after, question)).await;
                                Ok(())
                            }
                        };
                        assert_eq!(done, expected);
                    }
                    if *fails { Err(Error::Stale) } else { Ok(()) }
                }).await;
                assert_eq!(done.is_err(), *fails);
                if !fails {
                    model = after;
                }
            }
            let view = store.view().await.unwrap();
            for question in &last {
                ask(&view, question, &answer(&model, question)).await;
            }
            join(&view, &model).await;
        });
    }
}
