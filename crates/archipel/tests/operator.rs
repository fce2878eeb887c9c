//! The commands of an operator: what they say where something is missing, and what they leave behind.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use support::process::Home;
use support::upstream::Upstream;

fn archipel(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_archipel")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A site that knows no other.
fn alone(service: &Upstream) -> Home {
    let home = Home::new();
    home.write(&format!(
        "site = \"Site1\"\nprofile = \"rest\"\nidentity = \"identity\"\nstate = \"state\"\nthreads = 1\n\
         [link]\nlisten = \"127.0.0.1:0\"\n\
         [services.image]\npublic = [\"127.0.0.1:0\"]\nupstreams = [\"http://{}\"]\n",
        service.address
    ));
    home
}

#[test]
fn settle_without_an_answer_says_all_three() {
    let settled = archipel(&["operations", "settle", "Site1/3f9c/42"]);
    let said = said(&settled);
    assert_eq!(settled.status.code(), Some(2), "{said}");
    for way in ["--executed", "--not-executed", "--probe"] {
        assert!(said.contains(&format!("archipel operations settle Site1/3f9c/42 {way}")), "{way}: {said}");
    }
}

#[test]
fn help_is_a_command_and_takes_one() {
    for (command, shows) in [
        (&["help"][..], "Usage: archipel <COMMAND>"),
        (&["help", "run"], "Run one site's mesh"),
        (&["help", "zone", "set"], "Define a zone"),
    ] {
        let helped = archipel(command);
        assert!(helped.status.success() && printed(&helped).contains(shows), "{command:?}: {helped:?}");
    }
}

#[test]
fn join_to_nobody_says_so_and_fails() {
    let service = Upstream::saying("here");
    let home = alone(&service);
    let _running = home.run();
    // A port that was free a moment ago: no Archipel answers there.
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let joined = home.archipel(&["join", &nobody]);
    let said = said(&joined);
    assert_eq!(joined.status.code(), Some(1), "{joined:?}");
    assert!(said.contains("nobody answered") && said.contains(&nobody), "{said}");
}

#[test]
fn join_to_a_site_that_is_there_says_who_answered() {
    let service = Upstream::saying("here");
    let home = alone(&service);
    let running = home.run();
    let other = home.another("Site2");
    other.write(&fs::read_to_string(home.file()).unwrap().replace("Site1", "Site2"));
    let _second = other.run();
    for _ in 0..2 {
        // Also when they have met already.
        let joined = other.archipel(&["join", &running.link_address().to_string()]);
        assert!(joined.status.success(), "{joined:?}");
        assert!(printed(&joined).contains("Site1"), "{joined:?}");
    }
}

#[test]
fn a_zone_of_unknown_sites_is_defined_with_a_warning() {
    let service = Upstream::saying("here");
    let home = alone(&service);
    let _running = home.run();
    let set = home.archipel(&["zone", "set", "west=Sitel & nantes & here"]);
    assert!(set.status.success(), "a site may come later: {set:?}");
    assert!(printed(&set).contains("west = Sitel & nantes & here"), "{set:?}");
    let said = said(&set);
    assert!(said.contains("no site or zone is called `Sitel`; did you mean `Site1`?"), "{said}");
    assert!(said.contains("no site or zone is called `nantes`"), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("warning: ")).count(), 2, "{said}");
    let known = home.archipel(&["zone", "set", "east=Site1 | west"]);
    assert!(known.status.success() && known.stderr.is_empty(), "{known:?}");
}

/// `archipel demo` with a directory of its own for what it writes.
fn demo(scratch: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_archipel"))
        .arg("demo")
        .env("TMPDIR", scratch)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn entries(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}

#[test]
fn an_interrupted_demo_leaves_no_key_behind() {
    for signal in ["INT", "TERM"] {
        let scratch = tempfile::tempdir().unwrap();
        let mut demo = demo(scratch.path());
        let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
        let started = lines.by_ref().map_while(Result::ok).any(|line| line.starts_with("== "));
        assert!(started && entries(scratch.path()) > 0, "nothing to leave behind: this tests nothing");
        let kill = format!("kill -{signal} {}", demo.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        // Whoever reads goes on reading: it ends since it was told to.
        lines.by_ref().for_each(drop);
        assert!(!demo.wait().unwrap().success(), "it was interrupted");
        assert_eq!(entries(scratch.path()), 0, "after {signal}");
    }
}

#[test]
fn a_demo_that_nobody_reads_ends_and_leaves_no_key_behind() {
    let scratch = tempfile::tempdir().unwrap();
    let mut demo = demo(scratch.path());
    let mut first = String::new();
    BufReader::new(demo.stdout.take().unwrap()).read_line(&mut first).unwrap();
    // The reader is gone, the standard input is not: as in `archipel demo | head -1`.
    demo.wait().unwrap();
    assert_eq!(entries(scratch.path()), 0);
}
