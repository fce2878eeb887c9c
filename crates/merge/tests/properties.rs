//! What holds for any answers, however they are cut and whenever they come.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod drive;

use drive::{Answer, Dice, merge_with, rest, union};
use merge::{Merged, Pull};
use profile::{List, Profile};
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f32>().prop_map(|float| Value::from(f64::from(float))),
        ".{0,12}".prop_map(Value::from),
        "[\\[\\]{}\"\\\\,:]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(".{0,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// An item whose order is known.
fn item() -> impl Strategy<Value = Value> {
    (0..50_u32, value()).prop_map(|(rank, extra)| json!({ "rank": rank, "extra": extra }))
}

fn lists() -> impl Strategy<Value = Vec<Vec<Value>>> {
    proptest::collection::vec(proptest::collection::vec(item(), 0..6), 1..5)
}

/// Bodies of these lists, as arrays or as objects, with or without spaces.
fn bodies(lists: &[Vec<Value>], object: bool, pretty: bool) -> Vec<Answer> {
    let body = |list: &Vec<Value>| {
        let value = if object { json!({ "z": "]}", "items": list, "total": 1 }) } else { json!(list) };
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        Answer::Body(text.unwrap().into_bytes())
    };
    lists.iter().map(body).collect()
}

/// Lists that are keyed, keyed within a member, and within a member of a member.
fn other_shape(shape: usize) -> List {
    let kind = ["keyed = true", "keyed = true\nitems = 'within'", "items = '_embedded.items'"][shape];
    let text =
        format!("description = 'x'\n[lists]\ntag = 'site'\n[[lists.kinds]]\npaths = ['/things']\n{kind}");
    Profile::read(&text).unwrap().lists.of("s", "/things").unwrap()
}

/// Bodies of these lists in that shape; no two items have one name.
fn other_bodies(lists: &[Vec<Value>], shape: usize) -> Vec<Answer> {
    let body = |(site, list): (usize, &Vec<Value>)| {
        let named = list.iter().enumerate().map(|(at, item)| (format!("{site}\"{at}\u{e9}"), item.clone()));
        let named = Value::Object(named.collect());
        let value = match shape {
            0 => named,
            1 => json!({ "a": [{}], "within": named, "z": {} }),
            _ => json!({ "_embedded": { "b": [{}], "items": list, "c": "]" }, "_links": {} }),
        };
        Answer::Body(value.to_string().into_bytes())
    };
    lists.iter().enumerate().map(body).collect()
}

fn tagged(item: &Value, site: usize) -> Value {
    let mut item: Map<String, Value> = item.as_object().unwrap().clone();
    item.insert("scope_site".to_owned(), json!(format!("Site{site}")));
    Value::Object(item)
}

proptest! {
    #[test]
    fn the_answer_is_the_union_and_does_not_depend_on_cuts_or_arrival(
        lists in lists(), object in any::<bool>(), pretty in any::<bool>(), seeds in any::<[u64; 3]>(),
    ) {
        // An object without items tells its shape by itself only if it has one array.
        let answers = bodies(&lists, object, pretty);
        let whole = merge_with(&rest(), &union(lists.len()), "", &answers, None);
        let json = whole.json();
        let items = if object { &json["items"] } else { &json };
        let expected: Vec<Value> = lists.iter().enumerate()
            .flat_map(|(site, list)| list.iter().map(move |item| tagged(item, site + 1))).collect();
        prop_assert_eq!(items, &Value::from(expected));
        for seed in seeds {
            let cut = merge_with(&rest(), &union(lists.len()), "", &answers, Some(Dice(seed)));
            prop_assert_eq!(&cut.body, &whole.body);
        }
    }

    #[test]
    fn a_sorted_answer_is_sorted_stable_and_does_not_depend_on_arrival(lists in lists(), seeds in any::<[u64; 3]>()) {
        let mut lists = lists;
        for list in &mut lists {
            list.sort_by_key(|item| std::cmp::Reverse(item["rank"].as_u64()));
        }
        let answers = bodies(&lists, false, false);
        let mut expected: Vec<Value> = lists.iter().enumerate()
            .flat_map(|(site, list)| list.iter().map(move |item| tagged(item, site + 1))).collect();
        expected.sort_by_key(|item| std::cmp::Reverse(item["rank"].as_u64()));
        for seed in seeds {
            let merged = merge_with(&rest(), &union(lists.len()), "sort=-rank", &answers, Some(Dice(seed)));
            prop_assert_eq!(merged.json(), Value::from(expected.clone()));
        }
    }

    #[test]
    fn other_shapes_are_the_union_however_cut_and_damage_leaves_json(
        lists in lists(), shape in 0..3_usize, seed in any::<u64>(), at in any::<prop::sample::Index>(), to in any::<u8>(),
    ) {
        let list = other_shape(shape);
        let mut answers = other_bodies(&lists, shape);
        let sources = union(lists.len());
        let whole = merge_with(&list, &sources, "", &answers, None);
        let cut = merge_with(&list, &sources, "", &answers, Some(Dice(seed)));
        prop_assert_eq!(&cut.body, &whole.body);
        let json = whole.json();
        let told = match shape {
            0 => json.as_object().unwrap().len(),
            1 => json["within"].as_object().unwrap().len(),
            _ => json["_embedded"]["items"].as_array().unwrap().len(),
        };
        prop_assert_eq!(told, lists.iter().map(Vec::len).sum::<usize>());
        if let Some(Answer::Body(body)) = answers.first_mut() {
            let at = at.index(body.len());
            body[at] = to;
        }
        let damaged = merge_with(&list, &sources, "", &answers, Some(Dice(seed)));
        if damaged.end == Ok(Pull::Done) {
            prop_assert!(serde_json::from_str::<IgnoredAny>(damaged.text()).is_ok(), "{}", damaged.text());
        }
    }

    #[test]
    fn damage_is_a_fault_of_its_source_and_never_a_damaged_answer(
        lists in lists(), object in any::<bool>(), at in any::<prop::sample::Index>(), to in any::<u8>(),
        which in any::<prop::sample::Index>(), cut in any::<bool>(), seed in any::<u64>(), unique in any::<bool>(),
    ) {
        let mut answers = bodies(&lists, object, false);
        let index = which.index(answers.len());
        if let Answer::Body(body) = &mut answers[index] {
            let at = at.index(body.len());
            if cut { body.truncate(at) } else { body[at] = to }
        }
        let sources = (0..lists.len()).map(Merged::Source).collect();
        let tree = if unique { Merged::Unique(sources) } else { Merged::Union(sources) };
        let merged = merge_with(&rest(), &tree, "", &answers, Some(Dice(seed)));
        if merged.end == Ok(Pull::Done) {
            // A number that became larger than this reader's numbers is JSON all the same.
            let Ok(json) = serde_json::from_str::<Value>(merged.text()) else {
                prop_assert!(serde_json::from_str::<IgnoredAny>(merged.text()).is_ok());
                return Ok(());
            };
            // What the other sources have is all there.
            if !unique && json.is_array() != object {
                let items = if object { &json["items"] } else { &json };
                let items = items.as_array().cloned().unwrap_or_default();
                for (site, list) in lists.iter().enumerate().filter(|(site, _)| *site != index) {
                    let failed = merged.failures.iter().any(|(source, _)| *source == site);
                    prop_assert!(failed || list.iter().all(|item| items.contains(&tagged(item, site + 1))));
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_an_outcome(bodies in proptest::collection::vec("[\\[\\]{}\",:a1 \\\\é]{0,40}", 1..4), seed in any::<u64>()) {
        let answers: Vec<Answer> = bodies.iter().map(|body| Answer::from(body.as_str())).collect();
        let merged = merge_with(&rest(), &union(answers.len()), "limit=2", &answers, Some(Dice(seed)));
        if merged.end == Ok(Pull::Done) {
            merged.json();
        }
    }
}
