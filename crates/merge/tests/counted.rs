//! Pages by their numbers, of services that count: each item once, or a refusal, never a page that lacks something.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod drive;

use drive::{Answer, merge_with, plan, union};
use merge::{Broken, PageRefused, Refused};
use profile::{List, Profile};
use proptest::prelude::*;

/// How a service counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    Offset,
    Page,
    PageFromZero,
}

fn list(counts: Counts, sorted: bool) -> List {
    let by = match counts {
        Counts::Offset => "offset = 'offset'",
        Counts::Page => "page = 'page'\nsize = 3",
        Counts::PageFromZero => "page = 'page'\nfirst = 0",
    };
    let sort = if sorted { "[lists.sort]\ndefault = ['n']\n" } else { "" };
    let text = format!(
        "description = 'x'\n[lists]\nsum = ['total']\n{sort}[lists.paging]\nlimit = 'per_page'\nlargest = 12\n\
         next = [{{ member = 'next' }}]\nguess = true\n{by}"
    );
    Profile::read(&text).unwrap().lists.of("s", "/things").unwrap()
}

/// What a service of these items says to a query, whatever parameters it does not know.
fn answer(items: &[u64], counts: Counts, query: &str, cap: usize) -> Answer {
    let number = |name: &str| -> Option<usize> {
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    };
    let size = number("per_page").unwrap_or(if counts == Counts::Page { 3 } else { usize::MAX }).min(cap);
    let from = match counts {
        Counts::Offset => number("offset").unwrap_or(0),
        Counts::Page => size.saturating_mul(number("page").unwrap_or(1) - 1),
        Counts::PageFromZero => size.saturating_mul(number("page").unwrap_or(0)),
    };
    let page: Vec<_> =
        items.iter().skip(from).take(size).map(|n| serde_json::json!({ "id": n, "n": n })).collect();
    let mut document = serde_json::json!({ "things": page, "total": items.len() });
    if from.saturating_add(size) < items.len() && cap < 100 {
        document["next"] = "/things?more".into();
    }
    Answer::from(document.to_string().as_str())
}

/// The items of one page, how many there are in all, and the query of the next page.
fn page(list: &List, counts: Counts, sites: &[Vec<u64>], query: &str) -> (Vec<u64>, u64, Option<String>) {
    let page = plan(list, &union(sites.len()), query, sites.len()).unwrap();
    let answers: Vec<Answer> = sites
        .iter()
        .enumerate()
        .map(|(source, items)| match page.query(source) {
            Some(query) => answer(items, counts, query, 12),
            None => Answer::Missing,
        })
        .collect();
    let merged = merge_with(list, &union(sites.len()), query, &answers, None).json();
    let ids = merged["things"].as_array().unwrap().iter().map(|item| item["id"].as_u64().unwrap()).collect();
    let next = merged["next"].as_str().map(|next| next.split_once('?').unwrap().1.to_owned());
    (ids, merged["total"].as_u64().unwrap(), next)
}

fn wanted(sites: &[Vec<u64>], sorted: bool) -> Vec<u64> {
    let mut all = sites.concat();
    if sorted {
        all.sort_unstable();
    }
    all
}

/// Items of each site, in their order, no two alike.
fn sites() -> impl Strategy<Value = Vec<Vec<u64>>> {
    prop::collection::vec(0..3_usize, 0..24).prop_map(|owners| {
        let mut sites = vec![Vec::new(); 3];
        for (n, owner) in owners.into_iter().enumerate() {
            sites[owner].push(n as u64);
        }
        sites
    })
}

fn all_counts() -> impl Strategy<Value = Counts> {
    prop::sample::select(&[Counts::Offset, Counts::Page, Counts::PageFromZero][..])
}

proptest! {
    #[test]
    fn page_by_its_number_is_a_part_of_the_whole(
        sites in sites(), counts in all_counts(), sorted in any::<bool>(), size in 1..6_usize, number in 0..5_usize,
    ) {
        let list = list(counts, sorted);
        let from = size * number;
        let query = match counts {
            Counts::Offset => format!("per_page={size}&offset={from}"),
            Counts::Page => format!("per_page={size}&page={}", number + 1),
            Counts::PageFromZero => format!("per_page={size}&page={number}"),
        };
        if from + size > 12 {
            let refused = plan(&list, &union(3), &query, 3).unwrap_err();
            let why = PageRefused::TooFar { window: (from + size) as u64, largest: 12 };
            let is_so = matches!(refused, Refused::Page { why: other, .. } if other == why);
            prop_assert!(is_so);
            return Ok(());
        }
        let whole = wanted(&sites, sorted);
        let (ids, ..) = page(&list, counts, &sites, &query);
        let part: Vec<u64> = whole.iter().skip(from).take(size).copied().collect();
        prop_assert_eq!(ids, part);
    }

    #[test]
    fn following_the_next_page_tells_each_item_once_however_many_there_are(
        sites in sites(), counts in all_counts(), sorted in any::<bool>(), size in 1..6_usize,
    ) {
        let list = list(counts, sorted);
        let (mut query, mut told) = (format!("per_page={size}"), Vec::new());
        for _ in 0..100 {
            let (ids, _, next) = page(&list, counts, &sites, &query);
            prop_assert!(ids.len() <= size);
            told.extend(ids);
            let Some(next) = next else { break };
            query = next;
        }
        prop_assert_eq!(told, wanted(&sites, sorted));
    }
}

#[test]
fn totals_are_of_all_sites_and_pages_have_the_services_size() {
    let sites = [(0..7).collect(), (7..9).collect()];
    let (ids, total, next) = page(&list(Counts::Page, true), Counts::Page, &sites, "page=2");
    assert_eq!((ids, total), (vec![3, 4, 5], 9));
    assert!(next.is_some_and(|next| next.contains("marker=") && !next.contains("page=2")));
    let (ids, ..) = page(&list(Counts::Page, true), Counts::Page, &sites, "");
    assert_eq!(ids, [0, 1, 2]);
}

#[test]
fn page_that_cannot_be_cut_out_is_refused() {
    let (offset, by_page) = (list(Counts::Offset, true), list(Counts::PageFromZero, true));
    let refused = |list: &List, query: &str| match plan(list, &union(2), query, 2).unwrap_err() {
        Refused::Page { why, .. } => why,
        other => panic!("{other}"),
    };
    assert_eq!(refused(&offset, "offset=x&per_page=2"), PageRefused::NoNumber);
    assert_eq!(refused(&offset, "offset=2"), PageRefused::NoSize);
    assert_eq!(refused(&list(Counts::Page, true), "page=0"), PageRefused::NoNumber);
    let far = PageRefused::TooFar { window: u64::MAX, largest: 12 };
    assert_eq!(refused(&by_page, &format!("page={}&per_page=2", u64::MAX)), far);
    // A service that tells fewer than the profile says, and has more.
    let answers = [0..6, 6..9].map(|items: std::ops::Range<u64>| {
        let items: Vec<u64> = items.collect();
        answer(&items, Counts::Offset, "per_page=6", 2)
    });
    let merged = merge_with(&offset, &union(2), "offset=3&per_page=3", &answers, None);
    assert_eq!(merged.end, Err(Broken::Window { source: 0 }));
}
