//! Pages over several sites: whoever follows them to their end sees each item once.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod drive;

use drive::service::{Form, Site, answer, by_name, forms, list, next};
use drive::{Answer, Dice, drive, plan, union};
use merge::{Late, Limits, Merger, Pull};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Follows all pages; `missing` says of a page and a source whether it does not answer.
fn follow(
    sites: &[Site],
    form: Form,
    base: &str,
    dice: &mut Dice,
    missing: impl Fn(usize, usize) -> bool,
) -> Vec<Vec<(String, String)>> {
    let list = list(form);
    let tree = union(sites.len());
    let mut query = base.to_owned();
    let mut pages = Vec::new();
    loop {
        let number = pages.len();
        assert!(number < 400, "the pages do not end");
        let page = plan(&list, &tree, &query, sites.len()).unwrap();
        let mut answers = Vec::new();
        for (source, site) in sites.iter().enumerate() {
            answers.push(match page.query(source) {
                Some(query) if !missing(number, source) => answer(site, query, form),
                _ => Answer::Missing,
            });
        }
        if answers.iter().all(|answer| matches!(answer, Answer::Missing)) {
            // The client would be told, and could ask again.
            return pages;
        }
        let mut merger = Merger::new(list.clone(), tree.clone(), page, Limits::default(), Late::Abort);
        dice.roll(2);
        let outcome = drive(&mut merger, &answers, Some(dice.clone()));
        assert_eq!(outcome.end, Ok(Pull::Done));
        let json = outcome.json();
        let items = json.get("images").unwrap_or(&json).as_array().unwrap().clone();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        pages.push(items.iter().map(|item| (text(&item["id"]), text(&item["name"]))).collect());
        let Some(next) = next(&outcome, form) else { return pages };
        // Only a service that tells nothing of more lets a page be announced in vain; a missing site may too.
        let in_vain = form == Form::Guess || (0..sites.len()).any(|source| missing(number, source));
        assert!(
            in_vain || pages.last().is_some_and(|page: &Vec<_>| !page.is_empty()),
            "an empty page with a next"
        );
        query = match form {
            Form::Token => format!("{base}&{next}"),
            _ => next,
        };
    }
}

fn sites() -> impl Strategy<Value = Vec<Site>> {
    let site = (proptest::collection::vec(0..30_u32, 0..14), 1..6_usize);
    proptest::collection::vec(site, 1..5).prop_map(|sites| {
        let make = |(number, (names, cap)): (usize, (Vec<u32>, usize))| {
            let item = |(index, name): (usize, u32)| json!({ "id": format!("{number}-{index}"), "name": format!("{name:02}") });
            Site { items: names.into_iter().enumerate().map(item).collect(), cap }
        };
        sites.into_iter().enumerate().map(make).collect()
    })
}

fn sort(sites: &mut [Site]) {
    for site in sites {
        site.items.sort_by_key(|item| item["name"].as_str().unwrap().to_owned());
    }
}

fn all_ids(sites: &[Site]) -> Vec<String> {
    let ids = sites.iter().flat_map(|site| &site.items).map(|item| item["id"].as_str().unwrap().to_owned());
    ids.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn each_item_is_told_once_one_site_after_the_other(
        sites in sites(), form in forms(), limit in proptest::option::of(1..9_usize), seed in any::<u64>(),
    ) {
        // Glance's own order is by a date, which these have not: all tie, and sites keep their order.
        let base = limit.map_or_else(|| "a=b".to_owned(), |limit| format!("a=b&limit={limit}"));
        prop_assume!(limit.is_some() || form != Form::Guess);
        let pages = follow(&sites, form, &base, &mut Dice(seed), |_, _| false);
        prop_assert!(pages.iter().all(|page| limit.is_none_or(|limit| page.len() <= limit)));
        let told: Vec<String> = pages.into_iter().flatten().map(|(id, _)| id).collect();
        prop_assert_eq!(told, all_ids(&sites));
    }

    #[test]
    fn each_item_is_told_once_in_the_order_that_was_asked_for(
        sites in sites(), form in forms(), limit in 1..9_usize, seed in any::<u64>(),
    ) {
        let mut sites = sites;
        sort(&mut sites);
        let base = format!("limit={limit}{}", by_name(form));
        let pages = follow(&sites, form, &base, &mut Dice(seed), |_, _| false);
        let told: Vec<(String, String)> = pages.into_iter().flatten().collect();
        prop_assert!(told.is_sorted_by_key(|(_, name)| name.clone()), "{:?}", told);
        let mut ids: Vec<String> = told.into_iter().map(|(id, _)| id).collect();
        let mut all = all_ids(&sites);
        ids.sort();
        all.sort();
        prop_assert_eq!(ids, all);
    }

    #[test]
    fn a_site_that_was_missing_for_a_page_joins_later_and_nothing_is_told_twice(
        sites in sites(), form in forms(), limit in 1..5_usize, seed in any::<u64>(), lost in 0..4_usize,
    ) {
        prop_assume!(sites.len() > 1 && lost < sites.len());
        let base = format!("limit={limit}");
        let others: usize = sites.iter().enumerate().filter(|(n, _)| *n != lost).map(|(_, site)| site.items.len()).sum();
        let pages = follow(&sites, form, &base, &mut Dice(seed), |page, source| page == 0 && source == lost);
        let mut told: Vec<String> = pages.into_iter().flatten().map(|(id, _)| id).collect();
        told.sort();
        let mut all = all_ids(&sites);
        all.sort();
        if others > 0 {
            prop_assert_eq!(told, all);
        }
    }

    #[test]
    fn pages_end_also_if_a_site_never_answers(sites in sites(), form in forms(), limit in 1..5_usize, lost in 0..4_usize) {
        let base = format!("limit={limit}");
        follow(&sites, form, &base, &mut Dice(1), |_, source| source == lost);
    }
}

#[test]
fn a_page_of_no_items_has_no_next_one() {
    let sites = vec![Site { items: vec![json!({ "id": "a", "name": "a" })], cap: 3 }];
    for form in [Form::Member, Form::Links, Form::Token, Form::Header, Form::Guess] {
        let pages = follow(&sites, form, "limit=0", &mut Dice(1), |_, _| false);
        // What it means is the service's to say: what it tells is told.
        let told = usize::from(form == Form::Token);
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [told], "{form:?}");
    }
}

#[test]
fn whoever_takes_no_pages_is_told_of_none_because_a_site_is_missing() {
    let site = Site { items: vec![json!({ "id": "a", "name": "a" })], cap: 3 };
    let pages = follow(&[site.clone(), site], Form::Member, "a=b", &mut Dice(1), |_, source| source == 1);
    assert_eq!(pages.len(), 1);
}
