//! Pages of a list that several sites have.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mesh::Standing;
use serde_json::{Value, json};

use crate::harness::{Isles, Message, Upstream, json as answer};

/// A service with so many items, which tells them in pages of at most three, and which can be out of order.
fn shop(name: &str, count: usize, broken: &Arc<AtomicBool>) -> Upstream {
    let (name, broken) = (name.to_owned(), Arc::clone(broken));
    Upstream::serving(move |request| {
        if broken.load(Ordering::SeqCst) {
            return b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec();
        }
        let target = request.line.split(' ').nth(1).unwrap();
        let query: Vec<(&str, &str)> =
            target.split(['?', '&']).filter_map(|pair| pair.split_once('=')).collect();
        let get = |wanted: &str| query.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
        let from = get("marker").map_or(0, |id| id[name.len()..].parse::<usize>().unwrap());
        let limit = get("limit").map_or(3, |limit| limit.parse().unwrap()).min(3);
        let to = count.min(from + limit);
        let items: Vec<Value> = (from + 1..=to).map(|n| json!({ "id": format!("{name}{n}") })).collect();
        let mut page = json!({ "carts": items });
        if to < count {
            page["next"] = format!("/carts?limit={limit}&marker={name}{to}").into();
        }
        answer(&page.to_string()).into_bytes()
    })
}

fn ids(page: &Message) -> Vec<String> {
    assert_eq!(page.status(), 200, "{page:?} {}", page.text());
    let document: Value = serde_json::from_str(&page.text()).unwrap();
    let items = document["carts"].as_array().unwrap().iter();
    items.map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

fn next(page: &Message) -> Option<String> {
    let document: Value = serde_json::from_str(&page.text()).unwrap();
    document["next"].as_str().map(str::to_owned)
}

fn wanted(counts: [usize; 3]) -> Vec<String> {
    let each = |(name, count): (&'static str, usize)| (1..=count).map(move |n| format!("{name}{n}"));
    ["a", "b", "c"].into_iter().zip(counts).flat_map(each).collect()
}

#[test]
fn following_the_next_pages_visits_each_item_once() {
    let works = Arc::new(AtomicBool::new(false));
    for counts in [[5, 3, 4], [0, 1, 7], [2, 2, 2], [0, 0, 0]] {
        let [a, b, c] = [("a", counts[0]), ("b", counts[1]), ("c", counts[2])]
            .map(|(name, count)| shop(name, count, &works));
        let isles = Isles::new([&a, &b, &c]);
        for limit in [1, 2, 5] {
            let (mut seen, mut pages) = (Vec::new(), 0);
            let mut target = Some(format!("/carts?limit={limit}"));
            while let Some(page) = target.take() {
                let page = isles.ask("*", &format!("GET {page}"), "X-Scope-Strict: true\r\n");
                let some = ids(&page);
                assert!(some.len() <= limit, "{some:?}");
                assert_eq!(page.field("content-type").as_deref(), Some("application/json"), "{page:?}");
                assert_eq!(page.field("warning"), None);
                seen.extend(some);
                target = next(&page);
                pages += 1;
                assert!(pages < 40, "it ends");
            }
            assert_eq!(seen, wanted(counts), "{counts:?} by {limit}");
        }
    }
}

#[test]
fn a_site_that_is_missing_for_one_page_joins_the_next() {
    let (works, broken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
    let (a, b, c) = (shop("a", 3, &works), shop("b", 3, &broken), shop("c", 3, &works));
    let isles = Isles::new([&a, &b, &c]);
    let page = isles.ask("*", "GET /carts?limit=4", "");
    assert!(
        page.field("warning").is_some() && page.field("scope-sites").unwrap().contains("\"B\";status=503")
    );
    let mut seen = ids(&page);
    assert_eq!(seen, ["a1", "a2", "a3", "c1"]);
    broken.store(false, Ordering::SeqCst);
    let mut target = next(&page);
    while let Some(page) = target.take() {
        let page = isles.ask("*", &format!("GET {page}"), "");
        assert_eq!(page.field("warning"), None, "{page:?}");
        seen.extend(ids(&page));
        target = next(&page);
    }
    seen.sort();
    assert_eq!(seen, wanted([3, 3, 3]));
}

#[test]
fn a_site_that_has_told_all_is_not_missing_from_later_pages() {
    let works = Arc::new(AtomicBool::new(false));
    let (a, b, c) = (shop("a", 2, &works), shop("b", 4, &works), shop("c", 1, &works));
    let mut isles = Isles::new([&a, &b, &c]);
    // In this order C has told all on the first page.
    let page = isles.ask("C & B", "GET /carts?limit=3", "X-Scope-Strict: true\r\n");
    assert_eq!(ids(&page), ["c1", "b1", "b2"]);
    let asked = c.seen().len();
    isles.stands("C", Standing::Quarantined);
    let page = isles.ask("C & B", &format!("GET {}", next(&page).unwrap()), "X-Scope-Strict: true\r\n");
    assert_eq!(ids(&page), ["b3", "b4"]);
    assert_eq!(page.field("warning"), None);
    assert!(!page.field("scope-sites").unwrap().contains("\"C\""), "{page:?}");
    assert_eq!(next(&page), None);
    assert_eq!(c.seen().len(), asked);
}

#[test]
fn what_cannot_be_split_over_sites_is_refused_before_any_is_asked() {
    let works = Arc::new(AtomicBool::new(false));
    let [a, b, c] = ["a", "b", "c"].map(|name| shop(name, 2, &works));
    let isles = Isles::new([&a, &b, &c]);
    for (target, status) in
        [("/carts?offset=2", 422), ("/carts?page=2&limit=1", 422), ("/carts?limit=1&marker=a1", 400)]
    {
        isles.ask("*", &format!("GET {target}"), "").assert_problem(status, "not-mergeable");
    }
    assert_eq!([&a, &b, &c].map(Upstream::connections), [0; 3]);
    // One site can do all of it.
    assert_eq!(ids(&isles.ask("B", "GET /carts?limit=1&marker=b1&offset=0", "")), ["b2"]);
}

#[test]
fn pages_told_in_a_header_are_followed_in_a_header() {
    let linked = |name: &'static str| {
        Upstream::serving(move |request| {
            let first = !request.line.contains("marker");
            let link = format!("Link: </carts?marker={name}1>; rel=\"next\"\r\nX-Own: ");
            let page = answer(&format!("[{{\"id\": \"{name}{}\"}}]", if first { 1 } else { 2 }));
            if first { page.replace("X-Own: ", &link) } else { page }.into_bytes()
        })
    };
    let (a, b) = (linked("a"), linked("b"));
    let isles = Isles::new([&a, &b, &b]);
    let (mut seen, mut target) = (Vec::new(), Some("/carts".to_owned()));
    while let Some(page) = target.take() {
        let page = isles.ask("A & B", &format!("GET {page}"), "");
        let items: Value = serde_json::from_str(&page.text()).unwrap();
        seen.extend(items.as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        let link = page.field("link");
        target = link.map(|link| {
            let url = link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\"")).unwrap();
            url.strip_prefix("http://service").unwrap_or(url).to_owned()
        });
        assert!(seen.len() <= 4, "{seen:?}");
    }
    seen.sort();
    assert_eq!(seen, ["a1", "a2", "b1", "b2"]);
}
