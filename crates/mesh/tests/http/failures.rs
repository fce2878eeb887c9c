//! Answers that the application's profile calls failures: another site is asked only where one of them is such, and
//! else the answer is the answer.

use mesh::Settings;
use profile::Profile;
use scope::Dialect;

use crate::harness::{Isles, Message, Upstream};

const QUOTA: &str = r#"{"forbidden": {"code": 403, "message": "Quota exceeded for cores: Requested 1, but already used 20 of 20"}}"#;
const POLICY: &str =
    r#"{"forbidden": {"code": 403, "message": "Policy doesn't allow os_compute_api:servers:create"}}"#;
const SERVER: &str = r#"{"server": {"id": "7f"}}"#;

/// An OpenStack whose compute service is at every site.
fn openstack(settings: &mut Settings) {
    settings.profile = Profile::named("openstack").unwrap();
    settings.dialect = Dialect { services: settings.profile.services(), ..Dialect::default() };
    let service = settings.services.remove("image").unwrap();
    settings.services.insert("compute".to_owned(), service);
}

fn answer(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn boot(isles: &Isles, scope: &str) -> Message {
    let mut client = isles.connect();
    let body = r#"{"server": {"name": "vm"}}"#;
    client.send(format!(
        "POST /v2.1/servers HTTP/1.1\r\nHost: nova\r\nX-Scope: compute: {scope}\r\nAccept-Encoding: gzip\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    client.answer()
}

fn sites(answer: &Message) -> String {
    answer.field("scope-sites").unwrap_or_default()
}

#[test]
fn where_a_quota_is_used_up_the_next_site_executes_the_write_once() {
    for (scope, first) in [("A ; B", 0), ("B ; A", 1), ("A | C", 0)] {
        let full = Upstream::answering(&answer("403 Forbidden", QUOTA));
        let free = Upstream::answering(&answer("202 Accepted", SERVER));
        let mut upstreams = [&free; 3];
        upstreams[first] = &full;
        let isles = Isles::tuned(upstreams, openstack);
        let booted = boot(&isles, scope);
        assert_eq!((booted.status(), booted.text().as_str()), (202, SERVER), "{scope}");
        assert_eq!((full.seen().len(), free.seen().len()), (1, 1), "{scope}");
        assert_eq!(free.seen()[0].text(), r#"{"server": {"name": "vm"}}"#);
        let name = ["A", "B"][first];
        assert!(sites(&booted).starts_with(&format!("\"{name}\";status=403")), "{}", sites(&booted));
        assert!(sites(&booted).contains("status=202"), "{}", sites(&booted));
    }
}

#[test]
fn a_refusal_that_is_no_quota_is_the_answer_byte_for_byte_and_nobody_else_is_asked() {
    // The third is longer than is read: then nothing is told by it.
    let long = format!("{}{QUOTA}", " ".repeat(70 << 10));
    for body in [POLICY, "not even JSON: Quota exceeded", &long, ""] {
        let refusing = Upstream::answering(&answer("403 Forbidden", body));
        let other = Upstream::fine();
        let isles = Isles::tuned([&other, &refusing, &other], openstack);
        let refused = boot(&isles, "B ; A");
        assert_eq!((refused.status(), refused.text().as_str()), (403, body));
        assert_eq!(other.connections(), 0, "a fallback never shops for a site that says yes");
        assert_eq!(refusing.seen()[0].field("accept-encoding").as_deref(), Some("identity"));
    }
}

#[test]
fn a_body_in_pieces_is_judged_as_a_whole_and_one_that_breaks_off_tells_nothing() {
    let chunked = |whole: bool| {
        Upstream::script(move |conn| {
            conn.request().unwrap();
            conn.send("HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n");
            for piece in QUOTA.as_bytes().chunks(7) {
                conn.send(format!("{:x}\r\n{}\r\n", piece.len(), std::str::from_utf8(piece).unwrap()));
            }
            if whole {
                conn.send("0\r\n\r\n");
            }
        })
    };
    let free = Upstream::answering(&answer("202 Accepted", SERVER));
    let isles = Isles::tuned([&chunked(true), &free, &free], openstack);
    assert_eq!(boot(&isles, "A ; B").status(), 202);

    let other = Upstream::fine();
    let isles = Isles::tuned([&chunked(false), &other, &other], openstack);
    let mut client = isles.connect();
    client.send(
        "POST /v2.1/servers HTTP/1.1\r\nHost: nova\r\nX-Scope: compute: A ; B\r\nContent-Length: 0\r\n\r\n",
    );
    assert_eq!(client.head().unwrap().status(), 403);
    assert_eq!(other.connections(), 0);
}

#[test]
fn one_site_alone_says_its_quota_itself_and_all_full_is_unavailable() {
    let full = Upstream::answering(&answer("403 Forbidden", QUOTA));
    let isles = Isles::tuned([&full, &full, &full], openstack);
    let answer = boot(&isles, "B");
    assert_eq!((answer.status(), answer.text().as_str()), (403, QUOTA));
    let answer = boot(&isles, "A ; B");
    answer.assert_problem(503, "no-site-answered");
    assert!(sites(&answer).contains("\"A\";status=403") && sites(&answer).contains("\"B\";status=403"));
}

/// What the sites have of images, by name.
fn images(names: [&[&str]; 3]) -> [Upstream; 3] {
    names.map(|own| {
        let own: Vec<String> = own.iter().map(|name| (*name).to_owned()).collect();
        Upstream::serving(move |request| {
            let wanted =
                request.line.split_once("name=").map(|(_, rest)| rest.split([' ', '&']).next().unwrap());
            let found = own.iter().filter(|name| wanted.is_none_or(|wanted| wanted == *name));
            let found: Vec<_> = found.map(|name| serde_json::json!({ "id": name, "name": name })).collect();
            answer(
                "200 OK",
                &serde_json::json!({ "images": found, "schema": "/v2/schemas/images" }).to_string(),
            )
            .into()
        })
    })
}

fn glance(settings: &mut Settings) {
    settings.profile = Profile::named("openstack").unwrap();
}

#[test]
fn lookup_goes_on_where_a_site_has_nothing_of_that_name() {
    let [a, b, c] = images([&["other"], &["cirros"], &["cirros"]]);
    let isles = Isles::tuned([&a, &b, &c], glance);
    let ask = |scope: &str, query: &str| isles.ask(scope, &format!("GET /v2/images?{query}"), "");
    for scope in ["A ; B", "A | B", "(A ; B) | A", "within(5s, A) ; B"] {
        let found = ask(scope, "name=cirros");
        assert_eq!(found.status(), 200, "{scope} {}", found.text());
        assert!(found.text().contains("\"cirros\""), "{scope} {}", found.text());
        assert!(sites(&found).contains("\"A\";status=200"), "{}", sites(&found));
    }
    // A list of all is what it is, and so is a later page.
    assert!(ask("A ; B", "visibility=public").text().contains("other"));
    // No site is missing that has none of it.
    for strict in ["", "X-Scope-Strict: true\r\n"] {
        let merged = isles.ask("*", "GET /v2/images?name=cirros", strict);
        assert_eq!(
            (merged.status(), merged.text().matches("\"cirros\"").count()),
            (200, 4),
            "{}",
            merged.text()
        );
        assert_eq!(merged.field("warning"), None);
    }
    let found = ask("A ^ B", "name=cirros");
    assert!(found.text().contains("\"cirros\""), "{}", found.text());
}

#[test]
fn lookup_that_finds_nothing_anywhere_is_an_empty_list() {
    let [a, b, c] = images([&[], &["x"], &[]]);
    let isles = Isles::tuned([&a, &b, &c], glance);
    for scope in ["A ; B", "B | A", "A & B", "*", "A ^ B", "(A & B) ; C"] {
        let none = isles.ask(scope, "GET /v2/images?name=cirros", "");
        let body = r#"{"images":[],"schema":"/v2/schemas/images"}"#;
        assert_eq!((none.status(), none.text().as_str()), (200, body), "{scope}");
        assert_eq!(none.field("warning"), None);
    }
    let missing = Isles::at([a.address(), crate::harness::nowhere(), c.address()], glance);
    let partial = missing.ask("A & B", "GET /v2/images?name=cirros", "");
    assert_eq!(partial.status(), 200, "{}", partial.text());
    assert!(partial.field("warning").unwrap_or_default().starts_with("299 "), "{partial:?}");
    for (scope, strict) in [("A & B", "X-Scope-Strict: true\r\n"), ("A ; B", "")] {
        let refused = missing.ask(scope, "GET /v2/images?name=cirros", strict);
        refused.assert_problem(503, "no-site-answered");
    }
}
