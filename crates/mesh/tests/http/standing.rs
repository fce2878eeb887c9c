//! Sites that must not be asked, or that are known to be out of reach: nothing is sent there.

use mesh::Standing;

use crate::harness::{Isles, Message, Upstream, nowhere};

fn upstreams() -> [Upstream; 3] {
    ["A", "B", "C"].map(|name| Upstream::json(&format!("[{{\"id\": \"{name}\"}}]")))
}

fn sites(answer: &Message) -> String {
    answer.field("scope-sites").unwrap_or_default()
}

#[test]
fn nothing_is_sent_to_a_site_that_cannot_or_must_not_be_asked() {
    for (standing, word) in [(Standing::Quarantined, "quarantined"), (Standing::Unreachable, "unreachable")] {
        let [a, b, c] = upstreams();
        let mut isles = Isles::new([&a, &b, &c]);
        // Where it is, and nobody could reach it: else the mesh would find out soon that it can.
        let address = isles.moves("B", nowhere().to_string());
        isles.stands("B", standing);
        let error = format!("\"B\";error={word}");

        let answer = isles.ask("B", "GET /x", "");
        answer.assert_problem(503, "unreachable");
        assert!(sites(&answer).starts_with(&error), "{answer:?}");
        isles.ask("B", "POST /x", "Content-Length: 0\r\n").assert_problem(503, "unreachable");

        for (line, fields) in [("GET /x", ""), ("POST /x", "Content-Length: 0\r\n")] {
            let answer = isles.ask("B ; A", line, fields);
            assert_eq!(answer.text(), "[{\"id\": \"A\"}]");
            assert!(sites(&answer).starts_with(&format!("{error}, \"A\";status=200")), "{answer:?}");
        }
        assert_eq!(isles.ask("B | C", "GET /x", "").text(), "[{\"id\": \"C\"}]");

        let list = isles.ask("A & B", "GET /x", "");
        assert_eq!(list.text(), "[{\"id\": \"A\",\"scope_site\":\"A\"}]");
        assert!(list.field("warning").is_some() && sites(&list).contains(&error), "{list:?}");
        isles.ask("A & B", "GET /x", "X-Scope-Strict: true\r\n").assert_problem(504, "incomplete");
        let answer = isles.ask("A ^ B", "GET /x", "");
        answer.assert_problem(503, "missing-answer");
        assert!(sites(&answer).contains(&error), "{answer:?}");
        assert_eq!(b.connections(), 0, "{word}");

        isles.moves("B", address);
        isles.stands("B", Standing::Usable);
        let mut answer = isles.ask("B", "GET /x", "");
        while answer.status() == 503 {
            answer = isles.ask("B", "GET /x", "");
        }
        assert_eq!(answer.text(), "[{\"id\": \"B\"}]");
    }
}

#[test]
fn a_site_in_quarantine_is_not_asked_although_it_is_connected() {
    let [a, b, c] = upstreams();
    let mut isles = Isles::new([&a, &b, &c]);
    assert_eq!(isles.ask("B", "GET /x", "").status(), 200);
    let before = b.seen().len();
    // Sites are told of with a message: once it is there it counts.
    isles.stands("B", Standing::Quarantined);
    let mut answered = 0;
    while isles.ask("B", "GET /x", "").status() == 200 {
        answered += 1;
    }
    for scope in ["B", "B ; A", "A & B", "B | C"] {
        isles.ask(scope, "GET /x", "");
    }
    assert_eq!(b.seen().len(), before + answered);
}

#[test]
fn a_connection_that_works_says_more_than_what_sites_tell_each_other() {
    let [a, b, c] = upstreams();
    let mut isles = Isles::new([&a, &b, &c]);
    assert_eq!(isles.ask("B", "GET /x", "").status(), 200);
    isles.stands("B", Standing::Unreachable);
    for _ in 0..20 {
        assert_eq!(isles.ask("B", "GET /x", "").status(), 200);
    }
}

#[test]
fn clients_learn_which_sites_they_can_name() {
    let [a, b, c] = upstreams();
    let mut isles = Isles::new([&a, &b, &c]);
    isles.stands("B", Standing::Quarantined);
    let answer = isles.ask("A", "GET /_scope/sites", "");
    let said: serde_json::Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!((answer.status(), &said["here"]), (200, &"A".into()));
    let reach = |site: usize| (said["sites"][site]["site"].as_str(), said["sites"][site]["reach"].as_str());
    assert_eq!(reach(0), (Some("A"), Some("here")));
    assert_eq!(reach(1), (Some("B"), Some("quarantined")));
    assert_eq!(reach(2), (Some("C"), Some("reachable")));
    isles.ask("A", "POST /_scope/sites", "Content-Length: 0\r\n").assert_problem(405, "read-only");
    assert_eq!(a.connections(), 0, "the service is not asked");
}
