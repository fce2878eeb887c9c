//! Lists of several sites as one: what is in it, in which order, and what the answer says of it.

use std::sync::mpsc;

use serde_json::{Value, json};

use crate::harness::{Isles, Message, Upstream, json as answer, nowhere};

/// Three sites with a cart each, of which the last two share an id.
fn carts() -> [Upstream; 3] {
    [
        Upstream::json(r#"{"carts": [{"id": "a1", "n": 1}, {"id": "a2", "n": 3}], "about": "A"}"#),
        Upstream::json(r#"{"carts": [{"id": "b1", "n": 2}, {"id": "x", "n": 9}], "about": "B"}"#),
        Upstream::json(r#"{"carts": [{"id": "x", "n": 5}], "about": "C"}"#),
    ]
}

fn refs(upstreams: &[Upstream; 3]) -> [&Upstream; 3] {
    upstreams.each_ref()
}

/// The items as `site:id`, in order.
#[track_caller]
fn items(message: &Message) -> Vec<String> {
    assert_eq!(message.status(), 200, "{message:?} {}", message.text());
    let document: Value = serde_json::from_str(&message.text()).expect("JSON");
    let list = document.as_array().or_else(|| document["carts"].as_array()).expect("a list");
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    list.iter().map(|item| format!("{}:{}", text(&item["scope_site"]), text(&item["id"]))).collect()
}

/// What each site said, without the times.
fn said(message: &Message) -> String {
    let sites = message.field("scope-sites").unwrap_or_default();
    sites.split(", ").map(|site| site.split(";ms=").next().unwrap()).collect::<Vec<_>>().join(", ")
}

#[track_caller]
fn assert_whole(message: &Message) {
    assert_eq!(message.field("warning"), None, "{message:?}");
    assert_eq!(message.field("cache-control"), None, "{message:?}");
}

#[track_caller]
fn assert_partial(message: &Message) {
    assert_eq!(message.status(), 200, "{message:?} {}", message.text());
    assert!(message.field("warning").unwrap_or_default().starts_with("299 "), "{message:?}");
    assert_eq!(message.field("cache-control").as_deref(), Some("no-store"), "{message:?}");
}

#[test]
fn a_list_has_the_items_of_all_sites_and_nothing_that_is_true_of_one_only() {
    let upstreams = carts();
    let isles = Isles::new(refs(&upstreams));
    let merged = isles.ask("A & B", "GET /carts", "");
    assert_eq!(items(&merged), ["A:a1", "A:a2", "B:b1", "B:x"]);
    assert_eq!(said(&merged), "\"A\";status=200, \"B\";status=200");
    assert_whole(&merged);
    for name in ["etag", "last-modified", "content-encoding"] {
        assert_eq!(merged.field(name), None, "{merged:?}");
    }
    // Its own.
    assert_eq!(merged.field("content-length"), Some(merged.body.len().to_string()));
    assert_eq!(merged.field("content-type").as_deref(), Some("application/json"));
    assert!(merged.text().ends_with(r#""about":"A"}"#), "{}", merged.text());
    assert_eq!(upstreams[2].connections(), 0);
}

#[test]
fn every_operator_combines_lists() {
    let upstreams = carts();
    let isles = Isles::new(refs(&upstreams));
    for (scope, wanted) in [
        ("*", &["A:a1", "A:a2", "B:b1", "B:x", "C:x"][..]),
        ("!B", &["A:a1", "A:a2", "C:x"]),
        ("C & A", &["C:x", "A:a1", "A:a2"]),
        ("A & (C ; B)", &["A:a1", "A:a2", "C:x"]),
        ("(A & B) ; C", &["A:a1", "A:a2", "B:b1", "B:x"]),
        ("A ^ B", &["A:a1", "A:a2", "B:b1", "B:x"]),
        ("B ^ C", &["B:b1"]),
        ("A & (B ^ C)", &["A:a1", "A:a2", "B:b1"]),
    ] {
        let merged = isles.ask(scope, "GET /carts", "");
        assert_eq!(items(&merged), wanted, "{scope}");
        assert_whole(&merged);
    }
    let merged = isles.ask("A & (B | C)", "GET /carts", "");
    let from = items(&merged);
    assert!(from == ["A:a1", "A:a2", "B:b1", "B:x"] || from == ["A:a1", "A:a2", "C:x"], "{from:?}");
    let sorted = isles.ask("*", "GET /carts?sort=n", "");
    assert_eq!(items(&sorted), ["A:a1", "B:b1", "A:a2", "C:x", "B:x"]);
}

#[test]
fn the_order_does_not_depend_on_who_answers_first() {
    let list = |name: &str| format!(r#"[{{"id": "{name}1"}}, {{"id": "{name}2"}}]"#);
    for first in 0..2 {
        let (tell, told) = mpsc::channel::<()>();
        let (tell, told) = (std::sync::Mutex::new(tell), std::sync::Mutex::new(told));
        let fast = {
            let body = list(if first == 0 { "a" } else { "b" });
            Upstream::serving(move |_| {
                let _ = tell.lock().unwrap().send(());
                answer(&body).into_bytes()
            })
        };
        let slow = {
            let body = list(if first == 0 { "b" } else { "a" });
            Upstream::serving(move |_| {
                told.lock().unwrap().recv().unwrap();
                answer(&body).into_bytes()
            })
        };
        let (a, b) = if first == 0 { (&fast, &slow) } else { (&slow, &fast) };
        let isles = Isles::new([a, b, &fast]);
        assert_eq!(items(&isles.ask("A & B", "GET /carts", "")), ["A:a1", "A:a2", "B:b1", "B:b2"]);
    }
}

#[test]
fn a_fallback_of_a_list_is_told_like_the_list() {
    let [a, b, c] = [
        answer("{}").replace("200 OK", "503 Busy"),
        answer("{}").replace("200 OK", "500 No"),
        answer(r#"[{"id": "c1"}]"#),
    ]
    .map(|text| Upstream::answering(&text));
    let isles = Isles::new([&a, &b, &c]);
    let merged = isles.ask("(A & B) ; C", "GET /carts", "");
    assert_eq!(items(&merged), ["C:c1"]);
    assert_eq!(said(&merged), "\"A\";status=503, \"B\";status=500, \"C\";status=200");
    assert_eq!(merged.field("etag"), None, "what is tagged is not what the site sent");
    assert_whole(&merged);
}

#[test]
fn a_missing_site_is_named_and_the_answer_is_not_to_be_kept() {
    let upstreams = carts();
    let isles = Isles::at([upstreams[0].address(), nowhere(), upstreams[2].address()], |_| {});
    let merged = isles.ask("*", "GET /carts", "");
    assert_partial(&merged);
    assert_eq!(items(&merged), ["A:a1", "A:a2", "C:x"]);
    let sites = said(&merged);
    assert!(sites.contains("\"B\";error="), "{sites}");
    assert_eq!((isles.counted("answers_merged"), isles.counted("answers_partial")), (1, 1));
    isles.ask("A ^ B", "GET /carts", "").assert_problem(503, "missing-answer");
    isles.ask("A & (B ^ C)", "GET /carts", "X-Scope-Strict: true\r\n").assert_problem(504, "incomplete");
    assert_eq!(items(&isles.ask("(A & B) ; C", "GET /carts", "")), ["A:a1", "A:a2"]);
}

#[test]
fn who_is_strict_gets_all_or_an_error() {
    let upstreams = carts();
    let addresses = [upstreams[0].address(), nowhere(), upstreams[2].address()];
    for (strict, header, wanted) in [
        (false, "", 200),
        (false, "X-Scope-Strict: true\r\n", 504),
        (false, "X-Scope-Strict: false\r\n", 200),
        (true, "", 504),
        (true, "X-Scope-Strict: false\r\n", 200),
        (true, "X-Scope-Strict: yes\r\n", 504),
        (false, "X-Scope-Strict: True\r\n", 504),
    ] {
        let isles = Isles::at(addresses, |settings| {
            settings.services.get_mut("image").unwrap().strict = strict;
        });
        let merged = isles.ask("*", "GET /carts", header);
        if wanted == 200 {
            assert_partial(&merged);
        } else {
            merged.assert_problem(wanted, "incomplete");
            assert!(said(&merged).contains("\"B\";error="), "{merged:?}");
            assert_eq!(merged.field("retry-after"), None);
        }
        let whole = isles.ask("A & C", "GET /carts", header);
        assert_eq!(items(&whole), ["A:a1", "A:a2", "C:x"], "{strict} {header}");
    }
    for upstream in &upstreams {
        let strict = |message: &Message| message.field("x-scope-strict").is_some();
        assert!(!upstream.seen().iter().any(strict), "what is the mesh's is not for services");
    }
}

#[test]
fn a_site_that_refuses_is_listed_with_its_status() {
    let [a, _, c] = carts();
    let refuses = Upstream::answering("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nX-Own: 1\r\n\r\nno");
    let isles = Isles::new([&a, &refuses, &c]);
    let merged = isles.ask("*", "GET /carts", "");
    assert_partial(&merged);
    assert_eq!(said(&merged), "\"A\";status=200, \"B\";status=403, \"C\";status=200");
    isles.ask("A & B", "GET /carts", "X-Scope-Strict: true\r\n").assert_problem(504, "incomplete");

    let [.., c] = carts();
    let isles = Isles::new([&refuses, &refuses, &c]);
    for scope in ["A & B", "(A & B) ; C"] {
        let answered = isles.ask(scope, "GET /carts", "");
        assert_eq!((answered.status(), answered.text().as_str()), (403, "no"), "{scope}");
        assert_eq!(answered.field("x-own").as_deref(), Some("1"));
        assert_eq!(said(&answered), "\"A\";status=403, \"B\";status=403");
    }
    assert_eq!(c.connections(), 0, "a fallback does not shop for a site that says yes");
}

#[test]
fn caches_may_keep_only_what_every_site_lets_them_keep() {
    let of = |id: &str, rule: &str| answer(&format!(r#"[{{"id": "{id}"}}]"#)).replace("X-Own: ", rule);
    let [a, b, c] = [
        of("a", "Cache-Control: max-age=60\r\nExpires: never\r\nX-Own: "),
        of("b", "Cache-Control: max-age=60\r\nX-Own: "),
        of("c", "Cache-Control: private\r\nX-Own: "),
    ]
    .map(|text| Upstream::answering(&text));
    let isles = Isles::new([&a, &b, &c]);
    let rule = |scope: &str| isles.ask(scope, "GET /carts", "").field("cache-control").unwrap_or_default();
    assert_eq!([rule("A & B"), rule("*"), rule("C & A")], ["max-age=60", "no-store", "no-store"]);
    assert_eq!(isles.ask("A & B", "GET /carts", "").field("expires"), None);
}

#[test]
fn legs_ask_for_what_can_be_merged() {
    let upstreams = carts();
    let isles = Isles::new(refs(&upstreams));
    isles.ask(
        "A & B",
        "GET /carts?color=red",
        "Accept-Encoding: gzip, br\r\nIf-None-Match: \"7\"\r\nIf-Modified-Since: Mon, 16 Nov 2026 00:00:00 GMT\r\n\
         If-Range: \"7\"\r\nRange: bytes=0-1\r\nX-Mine: 1\r\n",
    );
    for upstream in &upstreams[..2] {
        let seen = upstream.seen();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].line, "GET /carts?color=red HTTP/1.1");
        assert_eq!(seen[0].field("accept-encoding").as_deref(), Some("identity"));
        for name in ["if-none-match", "if-modified-since", "if-range", "range"] {
            assert_eq!(seen[0].field(name), None, "{name}");
        }
        assert_eq!(seen[0].field("x-mine").as_deref(), Some("1"));
    }
}

#[test]
fn numbers_of_all_sites_are_summed() {
    let profile = profile::Profile::read(
        "description = 'x'\n[[totals]]\npaths = ['/limits']\nsum = ['limits.*']\nunlimited = -1\n\
         [lists]\nsum = ['total']",
    )
    .unwrap();
    let limits = |cores: i64, ram: i64| json!({ "limits": { "cores": cores, "ram": ram }, "of": cores });
    let texts = [limits(1, 10), limits(2, -1), limits(40, 30)].map(|limits| limits.to_string());
    let list = |total: usize| format!(r#"{{"total": {total}, "carts": [{{"id": {total}}}]}}"#);
    let [a, b, c] = [0, 1, 2].map(|site: usize| {
        let (limits, carts) = (answer(&texts[site]), answer(&list(site + 5)));
        Upstream::serving(move |request| {
            if request.line.contains("/limits") { limits.clone() } else { carts.clone() }.into_bytes()
        })
    });
    let isles = Isles::tuned([&a, &b, &c], |settings| settings.profile = profile.clone());
    let total = isles.ask("*", "GET /limits", "");
    assert_whole(&total);
    let sum: Value = serde_json::from_str(&total.text()).unwrap();
    assert_eq!(sum, json!({ "limits": { "cores": 43, "ram": -1 }, "of": 1 }));
    assert_eq!(total.field("etag"), None);
    assert_eq!(total.field("content-length"), Some(total.body.len().to_string()));
    let merged = isles.ask("*", "GET /carts", "");
    let list: Value = serde_json::from_str(&merged.text()).unwrap();
    assert_eq!(list["total"], 18, "{list}");

    let broken = Upstream::json("{\"limits\": 7");
    let isles = Isles::tuned([&a, &broken, &c], |settings| settings.profile = profile.clone());
    let total = isles.ask("*", "GET /limits", "");
    assert_partial(&total);
    assert_eq!(said(&total), "\"A\";status=200, \"B\";error=protocol, \"C\";status=200");
    let sum: Value = serde_json::from_str(&total.text()).unwrap();
    assert_eq!(sum["limits"]["cores"], 41);
    isles.ask("*", "GET /limits", "X-Scope-Strict: true\r\n").assert_problem(504, "incomplete");
}

/// A profile that declares two lists.
fn declared() -> profile::Profile {
    profile::Profile::read(
        "description = 'x'\n[lists]\ntag = 'scope_site'\n\
         [[lists.kinds]]\npaths = ['/v2/_catalog']\nitems = 'repositories'\n\
         [[lists.kinds]]\npaths = ['/pages']\n",
    )
    .unwrap()
}

#[test]
fn texts_are_merged_as_a_set_where_they_are_all_there_is_or_are_declared() {
    let texts = [r#"["a", "b", 7]"#, r#"["c", "\u0062", 7.0]"#, r#"["b", "d", 7]"#];
    let of = |text: &str| {
        let (plain, within) = (answer(text), answer(&format!(r#"{{"repositories": {text}}}"#)));
        Upstream::serving(move |request| {
            if request.line.contains("_catalog") { within.clone() } else { plain.clone() }.into_bytes()
        })
    };
    let [a, b, c] = texts.map(of);
    let isles = Isles::tuned([&a, &b, &c], |settings| settings.profile = declared());
    let merged = isles.ask("*", "GET /names", "");
    assert_eq!(merged.text(), r#"["a","b",7,"c",7.0,"d"]"#);
    let merged = isles.ask("*", "GET /v2/_catalog", "");
    assert_eq!(merged.text(), r#"{"repositories":["a","b",7,"c",7.0,"d"]}"#);
    assert_whole(&merged);
    let merged = isles.ask("A ^ C", "GET /v2/_catalog", "");
    assert_eq!(merged.text(), r#"{"repositories":["a","d"]}"#);
}

#[test]
fn declared_list_that_cannot_be_merged_is_an_error() {
    let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>";
    let [a, b] = [page, page].map(Upstream::answering);
    let c = Upstream::json(r#"[{"id": 1}]"#);
    let isles = Isles::tuned([&a, &b, &c], |settings| settings.profile = declared());
    isles.ask("A & B", "GET /pages", "").assert_problem(422, "not-merged");
    let merged = isles.ask("*", "GET /pages", "");
    assert_partial(&merged);
    assert_eq!(items(&merged), ["C:1"]);
    assert_eq!(said(&merged), "\"A\";error=protocol, \"B\";error=protocol, \"C\";status=200");
    let [a, b, c] = [r#"{"other": []}"#, r#"{"repositories": 7}"#, r#"{"id": 1}"#].map(Upstream::json);
    let isles = Isles::tuned([&a, &b, &c], |settings| settings.profile = declared());
    for scope in ["*", "A & B", "A ^ C"] {
        let refused = isles.ask(scope, "GET /v2/_catalog", "");
        refused.assert_problem(422, "not-merged");
        assert!(refused.text().contains("correct its `items`"), "{}", refused.text());
    }
}

#[test]
fn undeclared_answer_names_its_site_and_is_an_error_to_who_is_strict() {
    let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>";
    for body in [page.to_owned(), answer(r#"{"repositories": ["a"]}"#)] {
        let [a, b, c] = [0, 1, 2].map(|_| Upstream::answering(&body));
        let isles = Isles::new([&a, &b, &c]);
        let told = isles.ask("*", "GET /v2/_catalog", "");
        assert_eq!(told.status(), 200);
        let sites = told.field("scope-sites").unwrap();
        let answers: Vec<&str> = sites.split(", ").filter(|site| site.ends_with(";answer")).collect();
        assert_eq!(answers.len(), 1, "{sites}");
        let strict = isles.ask("*", "GET /v2/_catalog", "X-Scope-Strict: true\r\n");
        strict.assert_problem(422, "not-merged");
        assert!(strict.text().contains("[[lists.kinds]]"), "{}", strict.text());
        assert_eq!(isles.ask("B", "GET /v2/_catalog", "X-Scope-Strict: true\r\n").status(), 200);
    }
    // What has an id is one resource, whoever asks.
    let [a, b, c] = [0, 1, 2].map(|_| Upstream::json(r#"{"id": 1, "tags": ["a"]}"#));
    let isles = Isles::new([&a, &b, &c]);
    let one = isles.ask("*", "GET /carts/1", "X-Scope-Strict: true\r\n");
    assert_eq!(one.status(), 200, "{}", one.text());
    assert_eq!(one.field("scope-sites").unwrap().matches(";answer").count(), 1);
}

#[test]
fn totals_in_headers_are_summed_where_every_site_has_one() {
    let of = |id: u32, total: &str| {
        Upstream::answering(
            &answer(&format!("[{{\"id\": {id}}}]")).replace("X-Own: ", &format!("{total}X-Own: ")),
        )
    };
    let (a, b, c) = (of(1, "X-Total-Count: 40\r\n"), of(2, "X-Total-Count: 2\r\n"), of(3, ""));
    let isles = Isles::new([&a, &b, &c]);
    let merged = isles.ask("A & B", "GET /carts", "");
    assert_eq!((items(&merged).len(), merged.field("x-total-count").as_deref()), (2, Some("42")));
    assert_eq!(isles.ask("*", "GET /carts", "").field("x-total-count"), None, "nobody knows it");
    assert_eq!(isles.ask("A", "GET /carts", "").field("x-total-count").as_deref(), Some("40"));
    isles.ask("A & B", "GET /carts?page=2", "").assert_problem(422, "not-mergeable");
}

#[test]
fn page_by_its_number_is_made_of_all_sites() {
    let profile = profile::Profile::read(
        "description = 'x'\n[lists]\ntag = 'scope_site'\nsort = { default = ['id'] }\n\
         paging = { limit = '_limit', page = '_page', largest = 10, next = [{ header = 'link' }], guess = true }",
    )
    .unwrap();
    // As json-server does.
    let serve = |first: usize| {
        Upstream::serving(move |request| {
            let number = |name: &str| {
                let query = request.line.split(['?', ' ']).nth(2).unwrap_or_default();
                query.split('&').find_map(|pair| pair.strip_prefix(name)?.parse::<usize>().ok())
            };
            let (page, limit) = (number("_page=").unwrap_or(1), number("_limit=").unwrap_or(usize::MAX));
            let all = (0..7).map(|n| json!({ "id": 2 * n + first }));
            let told: Vec<Value> = all.skip((page - 1).saturating_mul(limit)).take(limit).collect();
            answer(&json!(told).to_string()).into()
        })
    };
    let [a, b, c] = [serve(0), serve(1), serve(100)];
    let isles = Isles::tuned([&a, &b, &c], |settings| settings.profile = profile.clone());
    let page = isles.ask("A & B", "GET /carts?_page=2&_limit=3", "");
    assert_eq!(items(&page), ["B:3", "A:4", "B:5"]);
    let mut told = Vec::new();
    let mut target = "/carts?_limit=4".to_owned();
    for _ in 0..9 {
        let page = isles.ask("A & B", &format!("GET {target}"), "");
        told.extend(items(&page));
        let Some(link) = page.field("link") else { break };
        target = format!("/carts{}", link.split("/carts").nth(1).unwrap().split('>').next().unwrap());
    }
    assert_eq!(told.len(), 14, "{told:?}");
    assert_eq!(told[12..], ["A:12", "B:13"]);
    let far = isles.ask("A & B", "GET /carts?_page=4&_limit=3", "");
    far.assert_problem(422, "not-mergeable");
    assert!(far.text().contains("the first 12 items of each"), "{}", far.text());
}
