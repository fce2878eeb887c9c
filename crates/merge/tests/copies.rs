//! A replicated resource, which several sites list, is told once.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod drive;

use drive::{Answer, Dice, Outcome, drive, plan, rest, union};
use merge::{Fault, Late, Limits, Merger, Same};

/// Of ids, those of one letter are replicated at two sites, those of two letters nobody knows where.
fn merge(query: &str, answers: &[Answer], dice: Option<Dice>) -> Outcome {
    let list = rest();
    let page = plan(&list, &union(answers.len()), query, answers.len()).unwrap();
    let merger = Merger::new(list, union(answers.len()), page, Limits::default(), Late::Abort);
    let mut merger = merger.once(|id| match id.len() {
        _ if id.bytes().any(|byte| byte.is_ascii_digit()) => Same::No,
        1 => Same::Yes { sites: Some("Site1 & Site2".to_owned()) },
        _ => Same::Yes { sites: None },
    });
    drive(&mut merger, answers, dice)
}

#[test]
fn a_copy_is_told_once_with_its_sites_and_equals_by_chance_each() {
    let answers =
        [r#"[{"id":"a"},{"id":"bb"},{"id":1}]"#, r#"[{"id":1},{"id":"bb"},{"id":"a"},{"id":"cc"}]"#];
    let merged = merge("", &answers.map(Answer::from), None);
    assert_eq!(
        merged.text(),
        concat!(
            r#"[{"id":"a","scope_site":"Site1 & Site2"},{"id":"bb","scope_site":"Site1"},"#,
            r#"{"id":1,"scope_site":"Site1"},{"id":1,"scope_site":"Site2"},{"id":"cc","scope_site":"Site2"}]"#
        )
    );
}

#[test]
fn copies_do_not_fill_a_page_and_the_order_stays() {
    let answers =
        [r#"[{"id":"a"},{"id":"c"},{"id":"e"}]"#, r#"[{"id":"a"},{"id":"b"},{"id":"c"},{"id":"d"}]"#];
    for seed in 0..50 {
        let merged = merge("sort=id&limit=4", &answers.map(Answer::from), Some(Dice(seed)));
        let ids: String =
            merged.json().as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
        assert_eq!(ids, "abcd");
    }
}

#[test]
fn what_a_source_told_before_it_failed_is_told_by_another_that_has_it() {
    let broken = r#"[{"id":"a"},{"id":"x"},{"id":"c"},{"id":"bro"#;
    let whole = r#"[{"id":"a"},{"id":"c"},{"id":"d"}]"#;
    for seed in 0..50 {
        for answers in [[broken, whole, whole], [whole, broken, whole], [whole, whole, broken]] {
            let merged = merge("sort=id", &answers.map(Answer::from), Some(Dice(seed)));
            let mut ids: Vec<String> =
                merged.json().as_array().unwrap().iter().map(|item| item["id"].to_string()).collect();
            ids.sort();
            assert_eq!(ids, ["\"a\"", "\"c\"", "\"d\""], "{answers:?} {seed}");
            assert!(
                matches!(&merged.failures[..], [(_, Fault::Json(_) | Fault::Lost)]),
                "{:?}",
                merged.failures
            );
        }
    }
}
