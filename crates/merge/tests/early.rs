//! Whatever is read of an answer before the others are there, what comes of it is the same.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod drive;

use bytes::Bytes;
use drive::{Answer, Dice, Outcome, drive, plan, rest, union};
use merge::{Early, Head, Late, Limits, Merger, Pull};
use profile::List;

const JSON: Head<'_> =
    Head { content_type: Some("application/json"), content_encoding: None, link: None, unconfirmed: None };

/// Merges two answers, of the first of which so many bytes were read early.
fn merge(list: &List, limits: &Limits, bodies: [&str; 2], early: usize, dice: Option<Dice>) -> Outcome {
    let page = plan(list, &union(2), "", 2).unwrap();
    let reader = Early::new(list.clone(), &page, limits.clone());
    let mut merger = Merger::new(list.clone(), union(2), page, limits.clone(), Late::Abort);
    merger.open(0, JSON);
    if let Some(ahead) = reader.read(JSON, Bytes::copy_from_slice(&bodies[0].as_bytes()[..early])) {
        merger.read_early(0, ahead);
    }
    let outcome = drive(&mut merger, &bodies.map(Answer::from), dice);
    Outcome { pushed: Vec::new(), ..outcome }
}

/// What comes of it, which must not depend on how much was read early.
fn whatever_was_read_early(list: &List, limits: &Limits, bodies: [&str; 2]) -> Outcome {
    let wanted = merge(list, limits, bodies, 0, None);
    for early in 0..=bodies[0].len() {
        for dice in [None, Some(Dice(early as u64))] {
            assert_eq!(merge(list, limits, bodies, early, dice), wanted, "{} {early}", bodies[0]);
        }
    }
    wanted
}

#[test]
fn a_resource_is_none_the_less_one_if_it_begins_like_a_list() {
    for body in [
        r#"{"disks":[{"size":1}],"id":"x"}"#,
        r#"{"disks":[{"size":1}], "tags":["a"], "ports":[{"id":1}]}"#,
        r#"{"a":1,"disks":[{"size":1},{"size":2}],"id":7 } "#,
        r#"{"id":"x","disks":[{"size":1}]}"#,
    ] {
        let outcome = whatever_was_read_early(&rest(), &Limits::default(), [body, r#"{"disks":[]}"#]);
        assert_eq!(outcome.end, Ok(Pull::NotAList), "{body}");
    }
}

#[test]
fn a_list_is_read_early_up_to_any_byte() {
    for body in [
        r#"{"a":[{"id":1},{"id":2}],"n":1}"#,
        r#"{ "n" : [ 1 ], "a" : [ {"id":1} , {"id":2} ] , "a_links" : [ {"x":1} ] } "#,
        r#" [ {"id":1} , {"id":2} ] "#,
    ] {
        let other = if body.starts_with('{') { r#"{"a":[{"id":3}]}"# } else { r#"[{"id":3}]"# };
        let outcome = whatever_was_read_early(&rest(), &Limits::default(), [body, other]);
        let json = outcome.json();
        let items = json.get("a").unwrap_or(&json).as_array().unwrap();
        assert_eq!(items.iter().map(|item| item["id"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    }
}

#[test]
fn what_is_behind_what_is_looked_at_makes_no_list_also_if_it_was_read_early() {
    let limits = Limits { probe_bytes: 40, ..Limits::default() };
    let body = |note: usize| format!(r#"{{"note":"{}","things":[{{"id":1}}]}}"#, "x".repeat(note));
    let mut named = rest();
    named.items = Some("things".to_owned());
    for list in [rest(), named] {
        let near = whatever_was_read_early(&list, &limits, [&body(1), r#"{"things":[]}"#]);
        assert_eq!(near.json()["things"][0]["id"], 1);
        let far = whatever_was_read_early(&list, &limits, [&body(60), r#"{"things":[]}"#]);
        assert_eq!(far.end, Ok(Pull::NotAList));
    }
}
