//! Every check that is made finds what it is there for, and nothing where all is well.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::{ALL, Evidence, run};
use crate::client::{Answer, Outcome};
use crate::document::{self, Document};
use crate::history::{Act, Level, Register, Request, Role};
use crate::namespace::SITES;
use crate::service::Execution;
use crate::site::name;

/// A round of one register, `w1`, with an addition `w2` and a patch `w3` at Site1, and a read `w4`.
fn round(level: Level) -> Evidence {
    let register = Register {
        made: "w1".to_owned(),
        path: "/registers/a".to_owned(),
        level,
        sites: vec![0, 1, 2],
        role: Role::Counter,
    };
    let mut evidence = Evidence {
        requests: Vec::new(),
        executions: vec![Vec::new(); SITES],
        documents: vec![BTreeMap::new(); SITES],
        shown: vec![json!({ "replicas": [] }); SITES],
        lists: vec![[Ok(vec!["w1".to_owned()]), Ok(vec!["w1".to_owned()])]; SITES],
        faults: Vec::new(),
        unquiet: None,
    };
    let mut document =
        document::whole(json!({ "id": "a", "made": "w1", "value": "w1" }).as_object().unwrap().clone());
    evidence.write(Act::Create, "w1", &register, 10, &document);
    document::add(&mut document, "w2");
    evidence.write(Act::Add, "w2", &register, 20, &document);
    document.insert(document::mark("w3"), true.into());
    evidence.write(Act::Mark, "w3", &register, 30, &document);
    let read =
        request("w4", Act::Read, Some(&register), 40, answer(200, "", Value::Object(document.clone())));
    evidence.requests.push(read);
    for site in 0..SITES {
        evidence.documents[site].insert("/registers/a".to_owned(), document.clone());
    }
    evidence
}

fn answer(status: u16, scope_sites: &str, body: Value) -> Outcome {
    let mut headers = HeaderMap::new();
    if !scope_sites.is_empty() {
        headers.insert("scope-sites", HeaderValue::from_str(scope_sites).unwrap());
    }
    Outcome::Answered(Answer { status, headers, body })
}

fn request(tag: &str, act: Act, register: Option<&Register>, from: u64, outcome: Outcome) -> Request {
    let path = register.map_or("/names/race0", |register| &register.path).to_owned();
    let (tag, scope, register) = (tag.to_owned(), String::new(), register.cloned());
    Request { tag, site: 0, act, path, scope, register, from, to: from + 5, outcome, forgotten: false }
}

fn execution(tag: &str, at: u64, method: &str, document: Option<&Document>) -> Execution {
    Execution {
        at,
        operation: Some(format!("Site1/1/{tag}")),
        by: Some(tag.to_owned()),
        method: method.to_owned(),
        path: "/registers/a".to_owned(),
        status: 200,
        changed: Some("/registers/a".to_owned()),
        document: document.cloned(),
    }
}

impl Evidence {
    /// An acknowledged write, executed everywhere.
    fn write(&mut self, act: Act, tag: &str, register: &Register, from: u64, after: &Document) {
        let outcome = answer(200, "\"Site1\";status=200, \"Site2\";pending", Value::Object(after.clone()));
        self.requests.push(request(tag, act, Some(register), from, outcome));
        for executions in &mut self.executions {
            executions.push(execution(tag, from + 1, "POST", Some(after)));
        }
    }

    /// A request that has to do with no register.
    fn ask(&mut self, tag: &str, act: Act, status: u16) {
        self.requests.push(request(tag, act, None, 60, answer(status, "", json!({}))));
    }

    fn document(&mut self, site: usize) -> &mut Document {
        self.documents[site].get_mut("/registers/a").unwrap()
    }
}

/// A read of the register as it was made.
fn first() -> Outcome {
    answer(200, "", json!({ "made": "w1", "value": "w1" }))
}

/// The checks that find something.
fn found(evidence: &Evidence) -> Vec<&'static str> {
    run(evidence).into_keys().collect()
}

/// A change to a round, and the checks that it violates, by their names.
type Broken = (Level, fn(&mut Evidence), &'static [&'static str]);

#[test]
fn nothing_is_found_where_all_is_well() {
    for level in Level::ALL {
        assert_eq!(found(&round(level)), Vec::<&str>::new(), "{level}");
    }
}

const CASES: &[Broken] = &[
    (Level::Eventual, |round| round.unquiet = Some("it waits".to_owned()), &["it_becomes_quiet"]),
    (
        Level::Eventual,
        |round| drop(round.document(1).insert("value".to_owned(), "w9".into())),
        &["replicas_are_equal"],
    ),
    (Level::Weak, |round| round.documents[2].clear(), &["acknowledged_is_there_once", "replicas_are_equal"]),
    (
        Level::Eventual,
        |round| (0..SITES).for_each(|site| document::add(round.document(site), "w2")),
        &["acknowledged_is_there_once"],
    ),
    (
        Level::Eventual,
        |round| {
            let again = round.executions[1][1].clone();
            round.executions[1].push(again);
        },
        &["nothing_runs_twice"],
    ),
    (
        Level::Quorum,
        |round| {
            round.requests[1].outcome = answer(503, "", json!({ "type": "urn:archipel:no-majority" }));
        },
        &["acknowledged_is_there_once", "ordered_is_linearizable", "refused_had_no_effect"],
    ),
    (Level::Strong, |round| round.requests[3].outcome = first(), &["ordered_is_linearizable"]),
    (Level::Eventual, |round| round.requests[3].outcome = first(), &["own_writes_are_read"]),
    (
        Level::Eventual,
        |round| {
            let register = round.requests[0].register.clone();
            round.requests.push(request(
                "w5",
                Act::Delete,
                register.as_ref(),
                50,
                answer(204, "", Value::Null),
            ));
        },
        &["deleted_stays_deleted"],
    ),
    (
        Level::Eventual,
        |round| {
            let late = &mut round.requests[2];
            late.to = late.from + 8_000_000;
            let Outcome::Answered(answer) = &mut late.outcome else { panic!() };
            answer.headers.insert("scope-operation", HeaderValue::from_static("Site1/1/3"));
        },
        &["queued_writes_are_answered_in_time"],
    ),
    (Level::Quorum, |round| round.requests[3].outcome = Outcome::Silent, &["requests_are_answered_in_time"]),
    (
        Level::Quorum,
        |round| round.requests[2].outcome = answer(504, "", json!({ "type": "urn:archipel:timeout" })),
        &["every_504_has_an_address"],
    ),
    (
        Level::Eventual,
        |round| round.executions[0].retain(|done| done.by.as_deref() != Some("w2")),
        &["scope_sites_never_lies"],
    ),
    (Level::Eventual, |round| round.ask("w6", Act::Local, 503), &["local_requests_are_served"]),
    (Level::Eventual, |round| round.ask("w7", Act::List, 200), &["partial_lists_say_so"]),
    (
        Level::Eventual,
        |round| {
            round.ask("w8", Act::Forward, 201);
            for site in 0..2 {
                round.executions[site].push(execution("w8", 61, "POST", None));
            }
        },
        &["plans_run_a_write_once"],
    ),
    (
        Level::Eventual,
        |round| {
            round.ask("w9", Act::Exclude, 201);
            for site in 0..2 {
                round.documents[site].insert("/names/race0".to_owned(), Document::new());
            }
        },
        &["one_site_has_an_exclusive_name"],
    ),
    (
        Level::Eventual,
        |round| round.lists[1] = [Ok(vec!["w1".to_owned(); 2]), Ok(Vec::new())],
        &["lists_tell_once", "pages_tell_once"],
    ),
    (Level::Eventual, |round| round.shown[0] = shown("pending", false), &["finished_is_not_pending"]),
    (Level::Eventual, |round| round.shown[0] = shown("good", true), &["deleted_is_not_good"]),
    (
        Level::Eventual,
        |round| {
            round.shown[0] = shown("good", false);
            round.documents[1].clear();
        },
        &["acknowledged_is_there_once", "good_replicas_are_equal", "replicas_are_equal"],
    ),
    (Level::Quorum, fail_creation, &["failed_creations_leave_nothing"]),
    (Level::Eventual, replace_twice, &["newer_never_loses_to_older"]),
];

#[test]
fn each_fault_is_found_by_its_checks() {
    let mut seen = Vec::new();
    for (number, (level, break_it, wanted)) in CASES.iter().enumerate() {
        let mut round = round(*level);
        break_it(&mut round);
        assert_eq!(found(&round), *wanted, "case {number}");
        seen.extend(*wanted);
    }
    for (check, _) in ALL {
        assert!(seen.contains(check), "no case is found by {check}");
    }
}

#[test]
fn a_504_of_what_no_site_executed_needs_no_address_and_is_believed() {
    let mut round = round(Level::Eventual);
    round.requests[1].outcome = answer(504, "", json!({ "type": "urn:archipel:no-site-answered" }));
    let found = found(&round);
    assert!(!found.contains(&"every_504_has_an_address"), "{found:?}");
    assert!(found.contains(&"refused_had_no_effect"), "the services executed it: {found:?}");
}

#[test]
fn write_at_a_site_that_has_not_heard_of_a_register_needs_no_address() {
    let mut round = round(Level::Eventual);
    round.requests[1].outcome = answer(504, "", json!({ "type": "urn:archipel:timeout" }));
    assert_eq!(found(&round), ["every_504_has_an_address"]);
    round.executions[0].iter_mut().for_each(|done| done.at += 100);
    assert!(!found(&round).contains(&"every_504_has_an_address"));
}

/// What `archipel replicas list` says of the register.
fn shown(state: &str, deleted: bool) -> Value {
    let place = |site| json!({ "site": name(site), "state": state, "local": "register:/registers/a" });
    let sites: Vec<Value> = (0..SITES).map(place).collect();
    json!({ "replicas": [{ "resource": "register:/registers/a", "level": "eventual", "deleted": deleted, "sites": sites }] })
}

/// Only Site1 has what nobody acknowledged.
fn fail_creation(round: &mut Evidence) {
    round.requests.truncate(1);
    round.requests[0].outcome = Outcome::Lost;
    round.documents[1].clear();
    round.documents[2].clear();
}

/// Site1 took two values one after the other, and the first is there at the end.
fn replace_twice(round: &mut Evidence) {
    let register = round.requests[0].register.clone().unwrap();
    let older = round.document(0).clone();
    let older = older.into_iter().chain([("value".to_owned(), Value::from("w5"))]).collect::<Document>();
    round.write(Act::Patch, "w5", &register, 50, &older);
    round.write(Act::Patch, "w6", &register, 60, &older);
    (0..SITES).for_each(|site| *round.document(site) = older.clone());
}
