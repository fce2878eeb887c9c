//! When an answer goes on, for whom it waits, and what is left of a source that fails.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod drive;

use bytes::Bytes;
use drive::{Answer, drive, openstack, plan, rest, union};
use merge::{Broken, Fault, Head, Late, Limits, Merger, Pull, Same};
use profile::List;
use serde_json::Value;

/// Lists are arrays, or in a member `a`.
fn open(query: &str, sources: usize, limits: Limits) -> Merger {
    let list = List { items: Some("a".to_owned()), ..rest() };
    open_list(list, query, sources, limits)
}

fn open_list(list: List, query: &str, sources: usize, limits: Limits) -> Merger {
    let page = plan(&list, &union(sources), query, sources).unwrap();
    let mut merger = Merger::new(list, union(sources), page, limits, Late::Abort);
    let head = Head { content_type: Some("application/json"), ..Head::default() };
    (0..sources).for_each(|source| merger.open(source, head));
    merger
}

fn push(merger: &mut Merger, source: usize, text: &str) {
    merger.push(source, Bytes::copy_from_slice(text.as_bytes()));
}

/// All of a source's answer.
fn whole(merger: &mut Merger, source: usize, text: &str) {
    push(merger, source, text);
    merger.end(source);
}

/// What is given out now.
fn chunk(merger: &mut Merger) -> String {
    match merger.pull() {
        Ok(Pull::Chunk(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
        other => unreachable!("{other:?}: {merger:?}"),
    }
}

/// All that is left of the answer, and the ids of its items.
fn ids(merger: &mut Merger) -> (Value, Vec<u64>) {
    let json: Value = serde_json::from_str(&chunk(merger)).unwrap();
    assert_eq!(merger.pull(), Ok(Pull::Done));
    let items = json.get("a").unwrap_or(&json).as_array().unwrap();
    let ids = items.iter().map(|item| item["id"].as_u64().unwrap()).collect();
    (json, ids)
}

fn failures(merger: &Merger) -> Vec<(usize, Fault)> {
    merger.failures().map(|(source, fault)| (source, fault.clone())).collect()
}

#[test]
fn once_the_answer_has_begun_what_comes_is_given_out_at_once() {
    let mut merger = open("", 1, Limits { first_bytes: 1, ..Limits::default() });
    push(&mut merger, 0, r#"[{"id":1}"#);
    assert_eq!(chunk(&mut merger), r#"[{"id":1,"scope_site":"Site1"}"#);
    assert_eq!(merger.pull(), Ok(Pull::Pending));
    push(&mut merger, 0, r#",{"id":2},{"#);
    assert_eq!(chunk(&mut merger), r#",{"id":2,"scope_site":"Site1"}"#);
    assert_eq!(merger.pull(), Ok(Pull::Pending));
}

#[test]
fn a_page_that_is_held_to_its_end_may_be_as_large_as_it_is_said_to_be() {
    let answers = [r#"[{"id":1},{"id":2}]"#, r#"[{"id":3}]"#].map(Answer::from);
    let held = |held_bytes| {
        drive(&mut open("limit=9", 2, Limits { held_bytes, ..Limits::default() }), &answers, None)
    };
    let large = held(1000).body.len();
    assert_eq!(held(large).end, Ok(Pull::Done));
    for small in 0..large {
        assert_eq!(held(small).end, Err(Broken::Held), "{small}");
    }
}

#[test]
fn a_full_page_waits_for_no_source_that_it_does_not_need() {
    let mut merger = open("limit=1", 2, Limits::default());
    whole(&mut merger, 0, r#"[{"id":1},{"id":2}]"#);
    assert_eq!(ids(&mut merger).1, [1]);
    assert!(merger.header().is_some());
    assert_eq!(merger.wants(), [] as [usize; 0]);

    // For what is beside the items, the first is read to its end, and nothing is wanted of the other.
    let mut merger = open("limit=1", 2, Limits::default());
    push(&mut merger, 0, r#"{"a":[{"id":1},{"id":2}"#);
    assert_eq!((merger.pull(), merger.wants()), (Ok(Pull::Pending), vec![0]));
    push(&mut merger, 0, r#"],"b":7}"#);
    merger.end(0);
    let (json, ids) = ids(&mut merger);
    assert_eq!((ids, &json["b"]), (vec![1], &7.into()));
    assert!(json["next"].is_string());
    assert_eq!(merger.wants(), [] as [usize; 0]);
}

/// Pages of networks in which services say whether there is more; one site comes after the other.
fn networks(sources: usize) -> Merger {
    let list = List { items: Some("a".to_owned()), ..openstack("network", "/v2.0/networks") };
    open_list(list, "limit=1", sources, Limits::default())
}

#[test]
fn a_full_page_has_a_next_one_only_if_something_is_left() {
    for (second, left) in [(r#"{"a":[]}"#, false), (r#"{"a":[{"id":2}]}"#, true)] {
        let mut merger = networks(2);
        whole(&mut merger, 0, r#"{"a":[{"id":1}]}"#);
        assert_eq!((merger.pull(), merger.wants()), (Ok(Pull::Pending), vec![1]));
        whole(&mut merger, 1, second);
        let (json, ids) = ids(&mut merger);
        assert_eq!((ids, json.get("a_links").is_some()), (vec![1], left), "{json}");
    }
    // Whoever has something left is enough: who else has is not waited for.
    let mut merger = networks(3);
    whole(&mut merger, 0, r#"{"a":[{"id":1}]}"#);
    whole(&mut merger, 2, r#"{"a":[{"id":3}]}"#);
    let (json, ids) = ids(&mut merger);
    assert_eq!((ids, json.get("a_links").is_some()), (vec![1], true), "{json}");
}

#[test]
fn a_source_that_is_lost_while_it_is_looked_at_leaves_nothing_behind() {
    let body = r#"{"n":1,"a":[{"id":1},{"id":2}]}"#;
    for at in 0..=body.len() {
        let mut merger = open_list(rest(), "", 3, Limits::default());
        push(&mut merger, 0, body.get(..at).unwrap());
        assert_eq!(merger.pull(), Ok(Pull::Pending));
        merger.fail(0);
        push(&mut merger, 1, r#"{"n":2,"a":[{"id":3}]"#);
        assert_eq!(merger.pull(), Ok(Pull::Pending));
        // Another that fails changes nothing for the one that is looked at.
        merger.fail(2);
        whole(&mut merger, 1, "}");
        let (json, ids) = ids(&mut merger);
        assert_eq!((ids, &json["n"]), (vec![3], &2.into()), "{at}");
        assert_eq!(failures(&merger), [(0, Fault::Lost), (2, Fault::Lost)], "{at}");
    }
}

#[test]
fn a_source_of_another_shape_is_left_out_as_soon_as_that_is_seen() {
    for (first, other) in [(r#"[{"id":1}]"#, "{\"a\":"), (r#"{"a":[{"id":1}]}"#, "[")] {
        let mut merger = open("", 2, Limits::default());
        whole(&mut merger, 0, first);
        push(&mut merger, 1, other);
        assert_eq!(ids(&mut merger).1, [1]);
        assert_eq!(failures(&merger), [(1, Fault::Shape)]);
    }
}

#[test]
fn no_more_is_read_of_an_answer_that_shows_no_list_in_time() {
    let mut merger = open("", 1, Limits { probe_bytes: 100, ..Limits::default() });
    push(&mut merger, 0, &format!("{{\"n\":\"{}", "x".repeat(54)));
    assert_eq!(merger.pull(), Ok(Pull::Pending));
    push(&mut merger, 0, &"x".repeat(40));
    assert_eq!((merger.pull(), merger.wants()), (Ok(Pull::NotAList), vec![]));
}

#[test]
fn an_item_and_what_is_beside_the_items_may_be_as_large_as_it_is_said_to_be() {
    let item = r#"{"id":1}"#;
    let body = format!(r#"{{"a":[{item}],"b":"xx"}}"#);
    let beside = r#""a""b""xx""#.len();
    let told = |item_bytes: usize, envelope_bytes: usize| {
        let mut merger = open("", 2, Limits { item_bytes, envelope_bytes, ..Limits::default() });
        whole(&mut merger, 0, r#"{"a":[]}"#);
        whole(&mut merger, 1, &body);
        let (_, ids) = ids(&mut merger);
        (ids.len(), failures(&merger))
    };
    assert_eq!(told(item.len(), beside), (1, vec![]));
    assert_eq!(told(item.len() - 1, beside), (0, vec![(1, Fault::TooLarge("an item"))]));
    assert_eq!(told(item.len(), beside - 1), (0, vec![(1, Fault::TooLarge("what is beside the items"))]));
}

#[test]
fn after_a_source_failed_the_page_is_filled_with_what_others_have() {
    let mut merger = open("sort=id&limit=4", 2, Limits::default());
    push(&mut merger, 0, r#"[{"id":1},{"id":2},{"id":5}"#);
    push(&mut merger, 1, r#"[{"id":3},{"id":4"#);
    assert_eq!(merger.pull(), Ok(Pull::Pending));
    merger.fail(1);
    whole(&mut merger, 0, r#",{"id":6},{"id":7},{"id":8}]"#);
    assert_eq!(ids(&mut merger).1, [1, 2, 5, 6]);
}

#[test]
fn sources_that_fail_one_after_the_other_are_as_if_they_had_not_been_asked() {
    let mut merger = open("sort=id", 3, Limits::default());
    push(&mut merger, 0, r#"[{"id":1,"long":"xxxxxxxx"},{"id":4}"#);
    push(&mut merger, 1, r#"[{"id":2},{"id":5}"#);
    push(&mut merger, 2, r#"[{"id":3,"y":[]},{"id":6}"#);
    assert_eq!(merger.pull(), Ok(Pull::Pending));
    merger.fail(0);
    merger.fail(1);
    whole(&mut merger, 2, "]");
    assert_eq!(chunk(&mut merger), r#"[{"id":3,"y":[],"scope_site":"Site3"},{"id":6,"scope_site":"Site3"}]"#);
}

#[test]
fn a_page_ends_where_a_source_with_more_has_run_dry_also_if_another_fails_then() {
    let mut merger = open("sort=id&limit=9", 3, Limits::default());
    push(&mut merger, 0, r#"{"a":[{"id":1},{"id":9}"#);
    whole(&mut merger, 1, r#"{"a":[{"id":2}],"next":"/a?marker=2"}"#);
    whole(&mut merger, 2, r#"{"a":[{"id":5}]}"#);
    assert_eq!(merger.pull(), Ok(Pull::Pending));
    merger.fail(0);
    let (json, ids) = ids(&mut merger);
    assert_eq!(ids, [2], "the second may have 3 and 4");
    assert!(json["next"].is_string());
}

#[test]
fn what_a_failed_source_left_out_is_not_told_instead_of_anothers() {
    let mut merger = open("sort=id", 3, Limits::default()).once(|_| Same::Yes { sites: None });
    for source in 0..3 {
        push(&mut merger, source, r#"[{"id":"a"},{"id":"b"}"#);
    }
    assert_eq!(merger.pull(), Ok(Pull::Pending));
    merger.fail(1);
    merger.fail(0);
    whole(&mut merger, 2, "]");
    assert_eq!(chunk(&mut merger), r#"[{"id":"a","scope_site":"Site3"},{"id":"b","scope_site":"Site3"}]"#);
}
