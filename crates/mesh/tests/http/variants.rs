//! The table of docs/requests.md: waits, parts, variants and codings, and what each operator makes of them.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use mesh::Settings;

use crate::harness::{Isles, Message, STUCK, Upstream, head, json as answer};

const SHORT: Duration = Duration::from_millis(300);

fn busy() -> Upstream {
    Upstream::answering("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
}

/// A service that never answers.
fn silent() -> Upstream {
    Upstream::script(|conn| {
        conn.request();
        let _ = conn.rest();
    })
}

fn impatient(settings: &mut Settings) {
    settings.timeouts.response = SHORT;
    settings.timeouts.peer_response = SHORT;
}

fn own(id: &str) -> Upstream {
    Upstream::json(&format!(r#"[{{"id": "{id}"}}]"#))
}

fn seen(upstream: &Upstream, name: &str) -> Vec<Option<String>> {
    upstream.seen().iter().map(|message| message.field(name)).collect()
}

#[test]
fn long_poll_that_is_answered_in_time_is_the_answer_and_a_later_one_fails() {
    let (release, released) = channel();
    let released = Mutex::new(released);
    let held = Upstream::serving(move |_| {
        released.lock().unwrap().recv_timeout(STUCK).unwrap();
        answer(r#"[{"id": "late"}]"#).into()
    });
    let isles = Isles::new([&held, &own("b"), &own("c")]);
    for scope in ["A", "A ; B", "within(10s, A)", "A & B", "A ^ B"] {
        let mut client = isles.connect();
        client.send(head(scope, "GET /poll", "Prefer: wait=1\r\n"));
        release.send(()).unwrap();
        let answered = client.answer();
        assert!(answered.text().contains("late"), "{scope}: {}", answered.text());
    }
    let isles = Isles::tuned([&silent(), &own("b"), &own("c")], impatient);
    let ask = |scope: &str, fields: &str| isles.ask(scope, "GET /poll", fields);
    // `Prefer: wait` prolongs nothing.
    ask("A", "Prefer: wait=100\r\n").assert_problem(504, "timeout");
    ask("within(100ms, A)", "").assert_problem(504, "no-site-answered");
    assert!(ask("A ; B", "").text().contains("\"b\""));
    assert!(ask("A | B", "").text().contains("\"b\""));
    let partial = ask("A & B", "");
    assert!(partial.text().contains("\"b\"") && partial.field("warning").is_some(), "{}", partial.text());
    ask("A ^ B", "").assert_problem(503, "missing-answer");
}

#[test]
fn preferences_and_accepted_variants_reach_every_site_as_they_came() {
    let fields = "Prefer: wait=5, return=minimal\r\nAccept: application/json;q=0.9\r\nAccept-Language: de, en;q=0.5\r\n";
    for scope in ["A", "B", "C ; A", "C | A", "A & B", "A ^ B", "within(10s, A)"] {
        let [a, b] = ["a", "b"].map(own);
        let isles = Isles::new([&a, &b, &busy()]);
        assert_eq!(isles.ask(scope, "GET /x", fields).status(), 200, "{scope}");
        for upstream in [&a, &b] {
            for name in ["prefer", "accept", "accept-language"] {
                let wanted = fields.lines().find_map(|line| {
                    line.to_lowercase().strip_prefix(&format!("{name}: ")).map(str::to_owned)
                });
                for value in seen(upstream, name) {
                    assert_eq!(value.map(|value| value.to_lowercase()), wanted, "{scope} {name}");
                }
            }
        }
    }
}

#[test]
fn site_that_answers_in_another_variant_is_missing_and_languages_have_to_agree() {
    let html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>";
    let isles = Isles::new([&own("a"), &Upstream::answering(html), &own("c")]);
    let merged = isles.ask("A & B", "GET /x", "Accept: application/json, text/html\r\n");
    assert!(merged.field("scope-sites").unwrap().contains("\"B\";error=protocol"), "{merged:?}");
    assert!(merged.field("warning").is_some());
    let of = |language: &str| {
        Upstream::answering(
            &answer(r#"[{"id": 1}]"#).replace("X-Own: ", &format!("Content-Language: {language}\r\nX-Own: ")),
        )
    };
    let isles = Isles::new([&of("de"), &of("de"), &of("en")]);
    let language = |scope: &str| isles.ask(scope, "GET /x", "").field("content-language");
    assert_eq!(
        [language("A & B"), language("*"), language("C")],
        [Some("de".into()), None, Some("en".into())]
    );
}

#[test]
fn ranges_go_with_a_fallback_and_are_taken_off_where_sites_are_merged() {
    let part = |body: &str, tag: &str| {
        Upstream::answering(&format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1-2/9\r\nETag: \"{tag}\"\r\nContent-Length: 2\r\n\r\n{body}"
        ))
    };
    let fields = "Range: bytes=1-2\r\nIf-Range: \"a\"\r\n";
    for scope in ["B", "A ; B", "A | B", "within(10s, A ; B)"] {
        let near = part("bc", "a");
        let isles = Isles::new([&busy(), &near, &own("c")]);
        let told = isles.ask(scope, "GET /file", fields);
        assert_eq!((told.status(), told.text().as_str()), (206, "bc"), "{scope}");
        assert_eq!(told.field("content-range").as_deref(), Some("bytes 1-2/9"));
        assert_eq!(
            [seen(&near, "range"), seen(&near, "if-range")],
            [[Some("bytes=1-2".into())], [Some("\"a\"".into())]]
        );
    }
    // Not satisfiable is an answer: nobody else is asked.
    let none =
        Upstream::answering("HTTP/1.1 416 No\r\nContent-Range: bytes */9\r\nContent-Length: 0\r\n\r\n");
    let other = part("xx", "b");
    let isles = Isles::new([&none, &other, &own("c")]);
    assert_eq!((isles.ask("A ; B", "GET /file", fields).status(), other.connections()), (416, 0));
    // One resource of several sites is told as a whole.
    let whole = || {
        Upstream::answering("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nabcd")
    };
    for scope in ["A & B", "* & A"] {
        let [a, b] = [whole(), whole()];
        let isles = Isles::new([&a, &b, &b]);
        assert_eq!(isles.ask(scope, "GET /file", fields).text(), "abcd", "{scope}");
        assert_eq!(seen(&a, "range"), [None]);
    }
}

#[test]
fn head_and_options_are_one_sites_and_heads_of_a_list_tell_nothing_of_one() {
    let profile =
        "description = 'x'\n[lists]\nsum_headers = ['x-total-count']\n[[lists.kinds]]\npaths = ['/list']";
    let profile = profile::Profile::read(profile).unwrap();
    let service = || {
        Upstream::script(|conn| {
            while let Some(request) = conn.request() {
                conn.send(if request.line.starts_with("OPTIONS") {
                    "HTTP/1.1 204 No Content\r\nAllow: GET, HEAD\r\n\r\n"
                } else {
                    "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nX-Total-Count: 7\r\nContent-Length: 9\r\n\r\n"
                });
            }
        })
    };
    let [a, b] = [service(), service()];
    let isles = Isles::tuned([&a, &b, &busy()], |settings| settings.profile = profile.clone());
    let field = |message: &Message, name: &str| message.field(name);
    for scope in ["A", "C ; A", "C | A", "A & B", "C & A", "within(10s, A)"] {
        let told = isles.ask(scope, "HEAD /one", "");
        assert_eq!((told.status(), field(&told, "content-length").as_deref()), (200, Some("9")), "{scope}");
        assert_eq!(field(&told, "etag").as_deref(), Some("\"1\""), "{scope}");
        let options = isles.ask(scope, "OPTIONS /one", "");
        assert_eq!(
            (options.status(), field(&options, "allow").as_deref()),
            (204, Some("GET, HEAD")),
            "{scope}"
        );
    }
    assert_eq!(isles.ask("A ^ B", "HEAD /one", "").status(), 409);
    let list = isles.ask("A & B", "HEAD /list", "");
    for name in ["content-length", "etag", "x-total-count"] {
        assert_eq!(field(&list, name), None, "{name}");
    }
    assert_eq!(field(&isles.ask("A", "HEAD /list", ""), "x-total-count").as_deref(), Some("7"));
}

#[test]
fn trailers_are_carried_to_and_from_one_site_and_end_where_sites_are_merged() {
    let told = "HTTP/1.1 200 OK\r\nContent-Type: TYPE\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n8\r\n[{\"a\":1}\r\n1\r\n]\r\n0\r\nX-Sum: 9\r\n\r\n";
    let fields = "TE: trailers\r\nConnection: TE\r\n";
    for (kind, scope, trailers) in [
        ("application/json", "B", 1),
        ("application/json", "C ; B", 1),
        ("application/json", "A & B", 0),
        ("text/plain", "A & B", 1),
    ] {
        let [a, b] = [0, 1].map(|_| Upstream::answering(&told.replace("TYPE", kind)));
        let isles = Isles::new([&a, &b, &busy()]);
        let answered = isles.ask(scope, "GET /x", fields);
        assert_eq!((answered.status(), answered.trailers.len()), (200, trailers), "{scope} {kind}");
    }
    // A request's, to one site and to the first of several.
    for scope in ["A", "B", "A ; B", "B | C"] {
        let [a, b, c] = [0, 1, 2].map(|_| Upstream::fine());
        let isles = Isles::new([&a, &b, &c]);
        let mut client = isles.connect();
        client.send(
            head(scope, "POST /x", "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n")
                + "1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n",
        );
        assert_eq!(client.answer().status(), 200, "{scope}");
        let seen: Vec<Message> = [&a, &b, &c].into_iter().flat_map(Upstream::seen).collect();
        assert_eq!(seen.len(), 1, "{scope}");
        assert_eq!(seen[0].trailers, [("x-sum".to_owned(), "1".to_owned())], "{scope}");
    }
}

#[test]
fn coded_upload_is_sent_as_it_came_to_one_site_or_the_next() {
    for scope in ["A", "B", "C ; A", "A | B"] {
        let proof = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
        let [a, b] = [0, 1].map(|_| Upstream::fine());
        let c = Upstream::answering(proof);
        let isles = Isles::new([&a, &b, &c]);
        let mut client = isles.connect();
        let body: &[u8] = &[0x1f, 0x8b, 0, 0xff];
        client.send(head(scope, "PUT /x", "Content-Encoding: gzip\r\nContent-Length: 4\r\n"));
        client.send(body);
        let status = client.answer().status();
        // What a 503 did is not known: no other site is asked.
        assert_eq!(status, if scope.starts_with('C') { 504 } else { 200 }, "{scope}");
        let seen: Vec<Message> = [&a, &b, &c].into_iter().flat_map(Upstream::seen).collect();
        assert_eq!(seen.len(), 1, "{scope}");
        assert_eq!(
            (&*seen[0].body, seen[0].field("content-encoding").as_deref()),
            (body, Some("gzip")),
            "{scope}"
        );
    }
}
