//! Lists that are coded, broken, endless, or read by nobody.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Conn, Isles, Message, Upstream, head, json, run, until};
use crate::http2::{full, over};

fn items(message: &Message) -> Vec<String> {
    assert_eq!(message.status(), 200, "{message:?} {}", message.text());
    let document: Value = serde_json::from_str(&message.text()).expect("JSON");
    let items = document.as_array().unwrap().iter();
    items.map(|item| format!("{}:{}", item["scope_site"].as_str().unwrap(), item["id"])).collect()
}

fn gzip(body: &str) -> Vec<u8> {
    let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    coder.write_all(body.as_bytes()).unwrap();
    coder.finish().unwrap()
}

fn coded(coding: &str, body: Vec<u8>) -> Upstream {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: {coding}\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    Upstream::serving(move |_| [head.as_bytes(), &body].concat())
}

#[test]
fn a_coding_that_nobody_asked_for_is_taken_off() {
    let (a, b) = (coded("gzip", gzip("[{\"id\": 1}]")), Upstream::json("[{\"id\": 2}]"));
    let mut broken = gzip("[{\"id\": 3}]");
    let last = broken.len() - 6;
    broken[last] ^= 0xff;
    let c = coded("gzip", broken);
    let isles = Isles::new([&a, &b, &c]);
    for (scope, wanted) in [("A & B", ["A:1", "B:2"]), ("B & A", ["B:2", "A:1"])] {
        let merged = isles.ask(scope, "GET /carts", "Accept-Encoding: gzip\r\n");
        assert_eq!(items(&merged), wanted);
        assert_eq!((merged.field("content-encoding"), merged.field("warning")), (None, None));
    }
    for scope in ["A & B & C", "C & A & B"] {
        let merged = isles.ask(scope, "GET /carts", "");
        let mut from = items(&merged);
        from.sort();
        assert_eq!(from, ["A:1", "B:2"], "{scope}");
        assert!(merged.field("warning").is_some(), "{merged:?}");
        assert!(merged.field("scope-sites").unwrap().contains("\"C\";error=protocol"), "{merged:?}");
        isles.ask(scope, "GET /carts", "X-Scope-Strict: true\r\n").assert_problem(504, "incomplete");
    }
    let strange = coded("br", b"xyz".to_vec());
    let isles = Isles::new([&a, &strange, &c]);
    let merged = isles.ask("A & B", "GET /carts", "");
    assert_eq!(items(&merged), ["A:1"]);
    assert!(merged.field("scope-sites").unwrap().contains("\"B\";error=protocol"), "{merged:?}");
    isles.ask("B & C", "GET /carts", "").assert_problem(502, "not-merged");
}

#[test]
fn what_is_not_json_is_a_site_that_is_missing() {
    let a = Upstream::json("[{\"id\": 1}]");
    for body in ["[{\"id\": 2}", "<html>", "[{\"id\": 2},]", "", "{\"other\": [{\"id\": 2}]}", "[{]"] {
        let b = Upstream::json(body);
        let isles = Isles::new([&a, &b, &b]);
        for query in ["", "?sort=id"] {
            let merged = isles.ask("A & B", &format!("GET /carts{query}"), "");
            assert_eq!(items(&merged), ["A:1"], "{body}");
            let sites = merged.field("scope-sites").unwrap();
            assert!(sites.contains("\"B\";error=protocol"), "{body}: {merged:?}");
            assert!(merged.field("warning").is_some(), "{body}");
        }
        isles.ask("A ^ B", "GET /carts", "").assert_problem(503, "missing-answer");
    }
}

#[test]
fn a_page_for_people_is_a_site_that_is_missing_wherever_it_stands() {
    let list = Upstream::json("[{\"id\": 1}]");
    for content_type in ["Content-Type: text/html\r\n", ""] {
        let page = Upstream::answering(&format!(
            "HTTP/1.1 200 OK\r\n{content_type}Content-Length: 14\r\n\r\n<html>later..."
        ));
        for (upstreams, name, left) in [
            ([&page, &list, &list], "A", ["B:1", "C:1"]),
            ([&list, &page, &list], "B", ["A:1", "C:1"]),
            ([&list, &list, &page], "C", ["A:1", "B:1"]),
        ] {
            let isles = Isles::new(upstreams);
            let merged = isles.ask("A & B & C", "GET /carts", "");
            assert_eq!(items(&merged), left, "{name}");
            assert!(merged.field("warning").is_some(), "{merged:?}");
            let sites = merged.field("scope-sites").unwrap();
            assert!(sites.contains(&format!("\"{name}\";error=protocol")), "{sites}");
            let strict = isles.ask("A & B & C", "GET /carts", "X-Scope-Strict: true\r\n");
            strict.assert_problem(504, "incomplete");
        }
    }
}

/// Says that more comes, and closes when it may.
fn cut(items: &str, may: &Arc<AtomicUsize>) -> Upstream {
    let (items, may) = (items.to_owned(), Arc::clone(may));
    Upstream::script(move |conn| {
        conn.request();
        conn.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{items}"
        ));
        until("it may close", || may.load(Ordering::SeqCst) > 0);
    })
}

#[test]
fn a_list_that_breaks_off_before_anything_was_told_is_missing() {
    let whole = Upstream::json("[{\"id\": 1}]");
    for start in ["[", "[{\"id\"", "", "[{\"id\": 7}, {\"id\": 8}"] {
        let cut = cut(start, &Arc::new(AtomicUsize::new(1)));
        // At this site, and at another.
        for (upstreams, name, left) in
            [([&cut, &whole, &whole], "A", "B:1"), ([&whole, &cut, &whole], "B", "A:1")]
        {
            let isles = Isles::new(upstreams);
            let merged = isles.ask("A & B", "GET /carts?sort=id", "");
            assert_eq!(items(&merged), [left], "{start}");
            let sites = merged.field("scope-sites").unwrap();
            assert!(sites.contains(&format!("\"{name}\";error=reset")), "{start}: {sites}");
            assert!(merged.field("warning").is_some());
        }
    }
}

#[test]
fn a_list_that_breaks_off_after_a_part_was_told_never_looks_complete() {
    let numbers: Vec<String> = (0..5000).map(|id| format!("{{\"id\": {id}}}")).collect();
    let (start, whole) = (format!("[{}", numbers.join(",")), Upstream::json("[{\"id\": 1}]"));
    for place in 0..2 {
        let may = Arc::new(AtomicUsize::new(0));
        let cut = cut(&start, &may);
        let upstreams = if place == 0 { [&cut, &whole, &whole] } else { [&whole, &cut, &whole] };
        let isles = Isles::new(upstreams);
        let mut client = isles.connect();
        client.send(head("A & B", "GET /carts", ""));
        let head = client.head().unwrap();
        assert_eq!((head.status(), head.field("transfer-encoding").as_deref()), (200, Some("chunked")));
        let part = String::from_utf8(client.exactly(1000)).unwrap();
        assert!(part.contains("\"id\": 7,"), "a part is told: {part}");
        may.store(1, Ordering::SeqCst);
        let rest = String::from_utf8(client.rest()).unwrap();
        assert!(!rest.ends_with("0\r\n\r\n"), "the end of the chunks is missing");
        until("nothing is left of it", || isles.in_flight() == [0, 0, 0]);
    }
}

/// Pushes items until nobody takes them any more, and says how much it was.
fn endless(pushed: &Arc<AtomicUsize>, gone: &Arc<AtomicUsize>, most: usize) -> Upstream {
    let (pushed, gone) = (Arc::clone(pushed), Arc::clone(gone));
    Upstream::script(move |conn: &mut Conn| {
        conn.request().unwrap();
        conn.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n[");
        let item = format!("{{\"id\": 1, \"text\": \"{}\"}}", "x".repeat(1000));
        let (mut piece, mut left) = (vec![item.clone(); 100].join(",").into_bytes(), most);
        while left > 0 {
            let mut at = 0;
            while at < piece.len() {
                let Ok(count @ 1..) = conn.push(&piece[at..]) else {
                    gone.fetch_add(1, Ordering::SeqCst);
                    return;
                };
                pushed.fetch_add(count, Ordering::SeqCst);
                at += count;
            }
            left = left.saturating_sub(piece.len());
            piece = format!(",{}", vec![item.clone(); 100].join(",")).into_bytes();
        }
        conn.send("]");
    })
}

#[test]
fn sites_get_only_so_far_ahead_of_a_slow_client() {
    const LONG: usize = 96 << 20;
    let counts: [Arc<AtomicUsize>; 3] = Default::default();
    let gone = Arc::default();
    let [a, b, c] = [0, 1, 2].map(|site: usize| endless(&counts[site], &gone, LONG));
    let isles = Isles::new([&a, &b, &c]);
    let mut client = isles.connect();
    client.send(head("*", "GET /carts", ""));
    assert_eq!(client.head().unwrap().status(), 200);
    // As long as more comes, it is not yet known how much is taken without a reader.
    let all = || counts.iter().map(|count| count.load(Ordering::SeqCst)).collect::<Vec<_>>();
    let mut before = Vec::new();
    while before != all() {
        before = all();
        sleep(Duration::from_millis(300));
    }
    println!("ahead: {before:?}");
    // As for one body of one site: see `memory`.
    for (ahead, most) in before.iter().zip([24 << 20, 56 << 20, 56 << 20]) {
        assert!(*ahead > 0 && *ahead < most, "{before:?}");
    }
    drop(client);
    until("every service is let go", || gone.load(Ordering::SeqCst) == 3);
    until("nothing is left of it", || isles.in_flight() == [0, 0, 0]);
}

#[test]
fn long_lists_are_merged_whole() {
    const LONG: usize = 10 << 20;
    let gone = Arc::default();
    let [a, b, c] = [0, 1, 2].map(|_| endless(&Arc::default(), &gone, LONG));
    let isles = Isles::new([&a, &b, &c]);
    let merged = isles.ask("*", "GET /carts", "");
    let list: Value = serde_json::from_slice(&merged.body).unwrap();
    let of = |name: &str| list.as_array().unwrap().iter().filter(|item| item["scope_site"] == name).count();
    assert_eq!([of("A"), of("B"), of("C")], [of("A"); 3]);
    assert!(of("A") > 10_000);
    assert_eq!(merged.field("warning"), None);
}

#[test]
fn when_the_client_goes_away_every_site_is_let_go() {
    let (asked, gone) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let open = |start: String| {
        let (asked, gone) = (Arc::clone(&asked), Arc::clone(&gone));
        Upstream::script(move |conn| {
            conn.request().unwrap();
            asked.fetch_add(1, Ordering::SeqCst);
            conn.send(&start);
            conn.assert_closed();
            gone.fetch_add(1, Ordering::SeqCst);
        })
    };
    let start = json("[{\"id\": 1}").replace("Content-Length: 10", "Content-Length: 9999999");
    let long = || open(start.clone() + &",{\"id\": 2}".repeat(10_000));
    let small = || open(start.clone());
    let silent = || open(String::new());
    // In the middle of the answer.
    let (a, b, c) = (long(), long(), long());
    let isles = Isles::new([&a, &b, &c]);
    let mut client = isles.connect();
    client.send(head("*", "GET /carts", ""));
    assert_eq!(client.head().unwrap().status(), 200);
    assert!(client.exactly(20).len() == 20);
    assert_eq!(isles.in_flight(), [1, 1, 1]);
    drop(client);
    until("every service is let go", || gone.load(Ordering::SeqCst) == 3);
    until("nothing is left of it", || isles.in_flight() == [0, 0, 0]);
    // Before there is enough of it to tell, and before any of it. Over HTTP/2: a client of HTTP/1.1 that closes
    // may still wait for its answer, for all that can be known.
    for (upstreams, left) in [([small(), small(), small()], 6), ([small(), silent(), silent()], 9)] {
        let isles = Isles::new(upstreams.each_ref());
        run(async {
            let stream = tokio::net::TcpStream::connect(isles.address).await.unwrap();
            let mut client = over(stream).await;
            let request = http::Request::get("http://service/carts").header("x-scope", "image: *");
            let answer = client.send_request(request.body(full("")).unwrap());
            let all_are_asked = async {
                while asked.load(Ordering::SeqCst) < left {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            tokio::select! {
                answer = answer => panic!("{answer:?}"),
                () = all_are_asked => {}
            }
        });
        until("every service is let go", || gone.load(Ordering::SeqCst) == left);
        until("nothing is left of it", || isles.in_flight() == [0, 0, 0]);
    }
}
