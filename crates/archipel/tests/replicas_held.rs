//! Writes that a service has not executed when their clients are answered: none is lost, none leaves its client without an
//! answer, and what waits says why. No site has a credential, and no client sends one.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};

use sample::wan::Cut;
use serde_json::{Value, json};
use support::fleet::{Common, Fleet, until};
use support::upstream::Upstream;
use support::{Message, ask};

const PROFILE: &str = r#"
description = "notes"
[services]
notes = []
[lists]
id = "id"
[[kinds]]
name = "note"
service = "notes"
path = "/notes"
named_by = "client"
operations = [{ method = "POST", below = "/add", class = "add", doubt = "ask" }]
"#;

#[derive(Default)]
struct State {
    notes: BTreeMap<String, Value>,
    /// Writes are held, and fail without effect once they are let go.
    holds: bool,
    /// Those that are.
    held: usize,
    /// What is protected is deleted all the same.
    lets_go: bool,
}

/// A site's service: notes, by names that clients choose.
#[derive(Clone)]
struct Notes {
    state: Arc<(Mutex<State>, Condvar)>,
    address: SocketAddr,
}

impl Notes {
    fn start() -> Notes {
        let state = Arc::<(Mutex<State>, Condvar)>::default();
        let own = Arc::clone(&state);
        let upstream = Upstream::json(move |request| serve(&own, request));
        Notes { state, address: upstream.address }
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.0.lock().unwrap());
        self.state.1.notify_all();
    }

    fn note(&self, name: &str) -> Option<Value> {
        self.state.0.lock().unwrap().notes.get(name).cloned()
    }

    fn until_held(&self) {
        let state = self.state.0.lock().unwrap();
        drop(self.state.1.wait_while(state, |state| state.held == 0).unwrap());
    }
}

fn serve((state, changed): &(Mutex<State>, Condvar), request: &Message) -> (u16, String) {
    let mut state = state.lock().unwrap();
    if state.holds && request.method() != "GET" {
        state.held += 1;
        changed.notify_all();
        state = changed.wait_while(state, |state| state.holds).unwrap();
        state.held -= 1;
        return (500, String::new());
    }
    let path = request.path().to_owned();
    let mut parts = path.trim_start_matches("/notes").trim_matches('/').split('/');
    let (name, below) = (parts.next().unwrap_or_default().to_owned(), parts.next());
    let body: Value = serde_json::from_str(&request.text()).unwrap_or_default();
    if body["refuse"] == true {
        return (422, json!({ "why": "it asks to be refused" }).to_string());
    }
    let lets_go = state.lets_go;
    match (request.method(), below, state.notes.get_mut(&name)) {
        ("PUT", None, found) => {
            let status = if found.is_some() { 200 } else { 201 };
            state.notes.insert(name, body.clone());
            (status, body.to_string())
        }
        (_, _, None) => (404, String::new()),
        ("GET", None, Some(note)) => (200, note.to_string()),
        ("PATCH", None, Some(note)) => {
            for (field, value) in body.as_object().unwrap() {
                note[field] = value.clone();
            }
            (200, note.to_string())
        }
        ("POST", Some("add"), Some(note)) => {
            note["adds"] = (note["adds"].as_u64().unwrap_or(0) + 1).into();
            (200, note.to_string())
        }
        ("DELETE", None, Some(note)) if note["protected"] == true && !lets_go => (403, String::new()),
        ("DELETE", None, Some(_)) => {
            state.notes.remove(&name);
            (204, String::new())
        }
        _ => (405, String::new()),
    }
}

fn start() -> (Fleet, [Notes; 2]) {
    let services = [Notes::start(), Notes::start()];
    let profiles = tempfile::tempdir().unwrap();
    std::fs::write(profiles.path().join("notes.toml"), PROFILE).unwrap();
    let head = format!("profile = \"notes\"\nprofiles = {:?}\n", profiles.path().display().to_string());
    let tables = "[timeouts]\nconnect = \"300ms\"\npeer_response = \"3s\"\nresponse = \"2s\"\n";
    let addresses = services.each_ref().map(|notes| notes.address);
    let fleet = Fleet::start(&Common { service: "notes", head: &head, tables }, &addresses);
    // Sites that are started again read it again.
    let _kept = profiles.keep();
    (fleet, services)
}

fn send(to: SocketAddr, method: &str, path: &str, scope: &str, body: &Value) -> Message {
    let scope = [("x-scope", scope), ("content-type", "application/json")];
    let headers = if scope[0].1.is_empty() { &scope[1..] } else { &scope[..] };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    ask(to, method, path, headers, &body).unwrap()
}

fn is_empty(fleet: &Fleet, site: usize) -> bool {
    let listed = fleet.json(site, &["operations", "list"]);
    ["pending", "in_doubt", "withheld"].iter().all(|field| listed[field].as_array().unwrap().is_empty())
}

#[test]
fn acknowledged_weak_writes_survive_a_killed_mesh_and_a_refusal_is_shown() {
    let (mut fleet, notes) = start();
    let scope = "notes: (Site1 & Site2) @weak";
    notes[0].set(|state| state.holds = true);
    assert_eq!(send(fleet.address(0), "PUT", "/notes/a", scope, &json!({ "text": "one" })).status(), 202);
    notes[0].until_held();
    assert_eq!(send(fleet.address(0), "PUT", "/notes/b", scope, &json!({ "text": "b" })).status(), 202);
    let patched = send(fleet.address(0), "PATCH", "/notes/a", scope, &json!({ "text": "two" }));
    assert_eq!(patched.status(), 202, "{patched:?}");
    fleet.kill(0);
    notes[0].set(|state| state.holds = false);
    fleet.revive(0);
    for service in &notes {
        until("all that was acknowledged is executed", || {
            service.note("a") == Some(json!({ "text": "two" })) && service.note("b").is_some()
        });
    }
    let refused = send(fleet.address(0), "PATCH", "/notes/a", "", &json!({ "text": "no", "refuse": true }));
    assert_eq!(refused.status(), 202, "{refused:?}");
    let operation = refused.header("scope-operation").to_owned();
    let shown = || fleet.json(0, &["operations", "show", &operation]);
    until("it is refused", || shown()["sites"][0]["state"] == "refused");
    assert_eq!(
        shown()["sites"],
        json!([{ "site": "Site1", "state": "refused", "status": 422, "reason": null }])
    );
    let listed = fleet.json(0, &["operations", "list"]);
    assert_eq!(
        (&listed["refused"][0]["operation"], &listed["refused"][0]["status"]),
        (&json!(operation), &json!(422))
    );
    until("nothing waits", || is_empty(&fleet, 0) && is_empty(&fleet, 1));
    assert!(notes.iter().all(|service| service.note("a") == Some(json!({ "text": "two" }))));
}

#[test]
fn write_behind_one_in_doubt_is_answered_in_time_with_its_operation() {
    let (fleet, notes) = start();
    let made = send(fleet.address(0), "PUT", "/notes/a", "notes: Site1 & Site2", &json!({ "text": "one" }));
    assert_eq!(made.status(), 201, "{made:?}");
    notes[0].set(|state| state.holds = true);
    let at = fleet.address(0);
    std::thread::scope(|threads| {
        let add = || send(at, "POST", "/notes/a/add", "", &json!({}));
        let first = threads.spawn(add);
        notes[0].until_held();
        let second = threads.spawn(add);
        for answer in [first.join().unwrap(), second.join().unwrap()] {
            assert_eq!(answer.status(), 504, "{answer:?}");
            assert!(answer.header("scope-operation").starts_with("Site1/"), "{answer:?}");
        }
    });
    notes[0].set(|state| state.holds = false);
}

#[test]
fn delete_that_a_service_refuses_wins_and_waits_with_its_reason() {
    let (fleet, notes) = start();
    let made = send(fleet.address(0), "PUT", "/notes/a", "notes: Site1 & Site2", &json!({ "text": "one" }));
    assert_eq!(made.status(), 201, "{made:?}");
    until("both have it", || notes[1].note("a").is_some() && is_empty(&fleet, 0));
    fleet.isolate(0, Some(Cut::Reset));
    assert_eq!(send(fleet.address(0), "PATCH", "/notes/a", "", &json!({ "protected": true })).status(), 200);
    assert_eq!(send(fleet.address(1), "DELETE", "/notes/a", "", &Value::Null).status(), 204);
    fleet.isolate(0, None);
    let withheld = || fleet.json(0, &["operations", "list"])["withheld"].clone();
    until("it says why it waits", || withheld()[0]["status"] == 403 && withheld()[0]["what"] == "delete");
    for (method, body) in
        [("PATCH", json!({ "text": "later" })), ("DELETE", Value::Null), ("GET", Value::Null)]
    {
        let answer = send(fleet.address(0), method, "/notes/a", "", &body);
        assert_eq!(answer.status(), 404, "{method}: {answer:?}");
    }
    assert!(notes[0].note("a").is_some(), "the service has not let it go");
    notes[0].set(|state| state.lets_go = true);
    until("it is gone", || notes[0].note("a").is_none() && is_empty(&fleet, 0) && is_empty(&fleet, 1));
}
