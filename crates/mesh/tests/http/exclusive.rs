//! Writes to exactly one of several sites (`^`), while others want the same new name.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use mesh::replication::ReservationState;
use mesh::{Replication, Settings};
use sample::image::{Image, Settings as ImageSettings};
use tempfile::TempDir;

use crate::harness::{ANY_PORT, Conn, Isles, Message, Upstream, until};

const NAMES: [&str; 3] = ["A", "B", "C"];

/// Sites with records, but for some.
fn recording<'t>(directory: &'t TempDir, without: &'t [&str]) -> impl Fn(&mut Settings) + 't {
    move |settings| {
        let site = settings.site.name().to_owned();
        if without.contains(&&*site) {
            return;
        }
        let directory = directory.path().join(&site);
        std::fs::create_dir_all(&directory).unwrap();
        settings.replication = Some(Replication {
            accept_from: None,
            directory,
            quota: 1 << 20,
            inline: 1 << 16,
            credentials: BTreeMap::from([("image".to_owned(), Vec::new())]),
            webhook: None,
        });
    }
}

fn image_services() -> Vec<sample::Handle> {
    let spawn = || sample::Handle::spawn_thread(Image::new(&ImageSettings::default()), ANY_PORT).unwrap();
    NAMES.iter().map(|_| spawn()).collect()
}

fn isles_of(services: &[sample::Handle], directory: &TempDir, without: &[&str]) -> Isles {
    let addresses = [services[0].address(), services[1].address(), services[2].address()];
    let isles = Isles::at(addresses, recording(directory, without));
    isles.acquaint();
    isles
}

fn ask(isles: &Isles, site: usize, line: &str, scope: &str, body: &str) -> Message {
    ask_on(isles.connect_to(site), line, scope, body)
}

fn ask_on(mut client: Conn, line: &str, scope: &str, body: &str) -> Message {
    let scope = if scope.is_empty() { String::new() } else { format!("X-Scope: image: {scope}\r\n") };
    let length = body.len();
    client.send(format!(
        "{line} HTTP/1.1\r\nHost: x\r\n{scope}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    client.answer_to(line)
}

fn id(number: usize) -> String {
    format!("7f0c9a34-4d0c-4f3e-9a57-0d6c5b2f{number:04x}")
}

#[test]
fn of_racing_writes_of_a_new_name_one_site_makes_it() {
    let (services, directory) = (image_services(), tempfile::tempdir().unwrap());
    let isles = isles_of(&services, &directory, &[]);
    let scopes = ["A ^ B ^ C", "B ^ C ^ A", "C ^ A ^ B"];
    for round in 0..20 {
        let line = format!("PUT /images/{}", id(round));
        let start = Barrier::new(NAMES.len());
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..NAMES.len())
                .map(|site| {
                    let (client, line, start) = (isles.connect_to(site), &line, &start);
                    scope.spawn(move || {
                        start.wait();
                        ask_on(client, line, scopes[site], r#"{"name":"x"}"#).status()
                    })
                })
                .collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).collect()
        });
        let made =
            |site: &usize| ask(&isles, *site, &format!("GET /images/{}", id(round)), "", "").status() == 200;
        assert_eq!((0..NAMES.len()).filter(made).count(), 1, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
        assert!(statuses.iter().all(|status| [200, 201, 409].contains(status)), "{statuses:?}");
    }
    until("every name is released", || isles.reservations().is_empty());
}

#[test]
fn a_site_without_records_cannot_reserve_a_name() {
    for without in ["A", "B"] {
        let (services, directory) = (image_services(), tempfile::tempdir().unwrap());
        let isles = isles_of(&services, &directory, &[without]);
        let line = format!("PUT /images/{}", id(0));
        let answer = ask(&isles, 0, &line, "B ^ C", r#"{"name":"x"}"#);
        answer.assert_problem(503, "not-reserved");
        assert!(answer.text().contains("[replication]"), "{}", answer.text());
        let counts = |site: usize| ask(&isles, site, &format!("GET /images/{}", id(0)), "", "").status();
        assert_eq!([counts(1), counts(2)], [404, 404]);
        until("every name is released", || isles.reservations().is_empty());
    }
}

#[test]
fn a_write_that_its_service_refused_can_be_tried_again_at_once() {
    let (services, directory) = (image_services(), tempfile::tempdir().unwrap());
    let isles = isles_of(&services, &directory, &[]);
    for round in 0..5 {
        let line = format!("PUT /images/{}", id(round));
        assert_eq!(ask(&isles, 0, &line, "A ^ B ^ C", "[").status(), 400);
        assert_eq!(ask(&isles, 1, &line, "A ^ B ^ C", r#"{"name":"x"}"#).status(), 201);
        assert_eq!(ask(&isles, 2, &line, "A ^ B ^ C", r#"{"name":"y"}"#).status(), 200, "it is there");
    }
}

#[test]
fn a_name_in_doubt_stays_reserved_until_an_operator_clears_it() {
    let lost = Arc::new(AtomicBool::new(true));
    let service = || {
        let lost = Arc::clone(&lost);
        Upstream::script(move |conn| {
            while let Some(request) = conn.request() {
                let put = request.line.starts_with("PUT");
                if put && lost.swap(false, Ordering::SeqCst) {
                    return;
                }
                let status = if put { "201 Created" } else { "404 Not Found" };
                conn.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
            }
        })
    };
    let (services, directory) = ([service(), service(), service()], tempfile::tempdir().unwrap());
    let isles = Isles::tuned([&services[0], &services[1], &services[2]], recording(&directory, &[]));
    isles.acquaint();
    let unknown = ask(&isles, 0, "PUT /carts/x", "A ^ B", "{}");
    unknown.assert_problem(504, "unknown-outcome");
    let fate = || ask(&isles, 0, &format!("GET {}", operation(&unknown)), "", "");
    assert!(fate().text().contains("in-doubt"), "{}", fate().text());
    ask(&isles, 1, "PUT /carts/x", "A ^ B", "{}").assert_problem(409, "reserved");
    ask(&isles, 2, "PUT /carts/x?again", "B ^ C", "{}").assert_problem(409, "reserved");
    let doubted = |own: &mesh::replication::Reservation| own.state == ReservationState::InDoubt;
    until("it is in doubt at its entry site", || {
        isles.reservations().iter().any(|own| doubted(own) && own.sites.len() == 2)
    });
    ask(&isles, 1, "PUT /carts/x", "A ^ B", "{}").assert_problem(409, "reserved");
    isles.clear_reservation(0, "image:/carts/x");
    until("every name is released", || isles.reservations().is_empty());
    assert!(!fate().text().contains("in-doubt"), "{}", fate().text());
    assert_eq!(ask(&isles, 1, "PUT /carts/x", "A ^ B", "{}").status(), 201);
}

/// Where a problem says that it can be asked what became of a write.
fn operation(problem: &Message) -> String {
    let document: serde_json::Value = serde_json::from_slice(&problem.body).unwrap();
    document["operation"].as_str().unwrap().to_owned()
}

/// A service that never answers a write, and whose ids are UUIDs.
fn silent() -> Upstream {
    Upstream::script(|conn| {
        while let Some(request) = conn.request() {
            if !request.line.starts_with("GET") && !request.line.starts_with("HEAD") {
                // Until the mesh gives up.
                let _ = conn.request();
                return;
            }
            let list = format!(r#"[{{"id":"{}"}}]"#, id(7));
            if request.line.starts_with("GET /carts ") || request.line.starts_with("GET /carts?") {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json";
                conn.send(format!("{head}\r\nContent-Length: {}\r\n\r\n{list}", list.len()));
            } else {
                conn.send("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
            }
        }
    })
}

#[test]
fn who_waits_for_some_time_only_is_told_the_operation() {
    let (services, directory) = ([silent(), silent(), silent()], tempfile::tempdir().unwrap());
    let isles = Isles::tuned([&services[0], &services[1], &services[2]], recording(&directory, &[]));
    isles.acquaint();
    // Of this site's replica, of another's, and of a name that is reserved.
    for (line, scope) in [
        ("POST /carts", "within(300ms, (A & B) @eventual)"),
        ("POST /carts", "within(300ms, (B & C) @eventual)"),
        ("PUT /carts/y", "within(300ms, A ^ B)"),
    ] {
        // Where time is up before anything is recorded, that is said, and nothing is.
        let answer = loop {
            let answer = ask(&isles, 0, line, scope, "{}");
            if !answer.text().contains("no-site-answered") {
                break answer;
            }
        };
        answer.assert_problem(504, "unknown-outcome");
        assert!(answer.field("scope-operation").unwrap().starts_with("A/"), "{scope}: {}", answer.text());
        let fate = ask(&isles, 0, &format!("GET {}", operation(&answer)), "", "");
        assert_eq!(fate.status(), 200, "{scope}: {}", fate.text());
    }
}
