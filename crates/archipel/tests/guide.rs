//! The guide to profiles, followed: every file of the page is written, every command is run, and what is printed compared.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use support::Message;
use support::members::until;
use support::process::Home;
use support::upstream::Upstream;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide-profile.md");

/// The application of the guide: tasks, in the order of their ids.
#[derive(Clone)]
struct Tasks(Arc<Mutex<BTreeMap<String, Value>>>);

impl Tasks {
    fn start(first: &[(&str, Value)]) -> Upstream {
        let tasks = first.iter().map(|(id, task)| ((*id).to_owned(), task.clone())).collect();
        let tasks = Tasks(Arc::new(Mutex::new(tasks)));
        Upstream::json(move |request| {
            let (status, answer) = tasks.answer(request);
            (status, answer.to_string())
        })
    }

    fn answer(&self, request: &Message) -> (u16, Value) {
        let mut tasks = self.0.lock().unwrap();
        let mut words = request.first.split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        match (method, segments.as_slice()) {
            ("GET", ["tasks"]) => (200, list(&tasks, query)),
            ("POST", ["tasks"]) => {
                let id = format!("00000000-0000-4000-8000-{:012}", tasks.len() + 1);
                let title = body.get("title").cloned().unwrap_or_default();
                tasks.insert(id.clone(), json!({ "title": title, "done": false, "tags": [] }));
                (201, shown(&id, &tasks[&id]))
            }
            ("GET", ["tasks", id]) => match tasks.get(*id) {
                Some(task) => (200, shown(id, task)),
                None => (404, Value::Null),
            },
            ("GET", ["tasks", id, "tags"]) => (200, tasks[*id]["tags"].clone()),
            ("DELETE", ["tasks", id]) => (if tasks.remove(*id).is_some() { 200 } else { 404 }, Value::Null),
            _ => (405, Value::Null),
        }
    }
}

fn with_id(id: &str, task: &Value) -> Value {
    let mut task = task.clone();
    task["task_id"] = id.into();
    task
}

fn shown(id: &str, task: &Value) -> Value {
    let mut task = with_id(id, task);
    task["changed"] = "2026-11-18".into();
    json!({ "task": task })
}

fn list(tasks: &BTreeMap<String, Value>, query: &str) -> Value {
    let value = |name: &str| {
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value)
    };
    let most = value("max").map_or(usize::MAX, |max| max.parse().unwrap());
    let after = value("after").map(str::to_owned);
    let mut left: Vec<_> =
        tasks.iter().filter(|(id, _)| after.as_ref().is_none_or(|after| *id > after)).collect();
    let more = left.len() > most;
    left.truncate(most);
    let last = left.last().map(|(id, _)| (*id).clone()).unwrap_or_default();
    let items: Vec<Value> = left.iter().map(|(id, task)| with_id(id, task)).collect();
    let mut answer = json!({ "count": tasks.len(), "tags": ["home", "garden"], "tasks": items });
    if more {
        answer["more"] = format!("/tasks?max={most}&after={last}").into();
    }
    answer
}

/// A fenced block of the page: its language, and its lines.
fn blocks(page: &str) -> Vec<(String, Vec<String>)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, Vec<String>)> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => open = Some((language.to_owned(), Vec::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, lines))) => lines.push(line.to_owned()),
            (None, None) => {}
        }
    }
    blocks
}

/// Commands with what they print: a line `? 1` is an exit status.
fn commands(lines: &[String]) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in lines {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), Vec::new())),
            (None, Some((_, printed))) => printed.push(line.clone()),
            (None, None) => panic!("`{line}` is printed by no command"),
        }
    }
    commands
}

/// Runs a command in a directory; what it printed, and its status if that is none of success.
fn run(directory: &Path, command: &str) -> Vec<String> {
    let archipel = Path::new(env!("CARGO_BIN_EXE_archipel")).parent().unwrap();
    let path = format!("{}:{}", archipel.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("{command} 2>&1")])
        .current_dir(directory)
        .env("PATH", path)
        .stdin(Stdio::null());
    let done = shell.output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let status = (!done.status.success()).then(|| format!("? {}", done.status.code().unwrap()));
    text.lines().map(|line| line.trim_end().to_owned()).chain(status).collect()
}

#[test]
fn the_guide_to_profiles_does_what_it_shows() {
    let first = [
        (
            "6f1e9a30-5c1b-4b57-9a53-0d8f3a2b7c11",
            json!({ "title": "paint", "done": false, "tags": ["home"] }),
        ),
        ("b2c4d6e8-1f3a-4c5d-8e7f-9a0b1c2d3e4f", json!({ "title": "mow", "done": true, "tags": [] })),
    ];
    let (service, other) = (Tasks::start(&first), Tasks::start(&[]));
    let home = Home::new();
    let mut sites = None;
    let mut followed = 0;
    for (language, lines) in blocks(&fs::read_to_string(PAGE).unwrap()) {
        if language == "toml" {
            let name = lines[0].strip_prefix("# ").expect("a file begins with its name");
            fs::write(home.path().join(name), lines.join("\n") + "\n").unwrap();
            if name == "archipel.toml" {
                sites = Some(start(&home, &service, &other));
            }
            continue;
        }
        for (command, expected) in commands(&lines) {
            let site = sites.as_ref().map_or(String::new(), |(address, ..)| address.to_string());
            let own = service.address.to_string();
            let command =
                command.replace("127.0.0.1:8080", &own).replace("http://site1", &format!("http://{site}"));
            assert_eq!(run(home.path(), &command), expected, "{command}");
            followed += 1;
        }
    }
    assert!(followed > 8, "only {followed} commands were found: this tests nothing");
}

/// Two sites as the page configures them, which have met.
fn start(
    home: &Home,
    service: &Upstream,
    other: &Upstream,
) -> (SocketAddr, support::process::Running, Home, support::process::Running) {
    let text = fs::read_to_string(home.file()).unwrap();
    home.write(&text.replace("127.0.0.1:8080", &service.address.to_string()));
    let checked = home.archipel(&["check"]);
    assert!(checked.status.success(), "{checked:?}");
    let mut running = home.run();
    let second = home.another("Site2");
    fs::copy(home.path().join("tasks.toml"), second.path().join("tasks.toml")).unwrap();
    let join = format!("[link]\njoin = [\"{}\"]", running.link_address());
    let text = text.replace("Site1", "Site2").replace("[link]", &join);
    second.write(&text.replace("127.0.0.1:8080", &other.address.to_string()));
    let mut away = second.run();
    running.has_said("Site2 has joined");
    away.has_said("Site1 has joined");
    let address = running.address("tasks", "public");
    until("Site2 is reached", || {
        support::get(address, "/tasks", &[("x-scope", "tasks: Site2")]).status() == 200
    });
    (address, running, second, away)
}
