//! `archipel demo`, as a person starts it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use support::get;

/// Lines that a demo prints, at most.
const LINES: usize = 1000;

#[test]
fn played_once_every_scenario_is_ok() {
    let played = Command::new(env!("CARGO_BIN_EXE_archipel")).args(["demo", "--once"]).output().unwrap();
    let (printed, said) = (String::from_utf8_lossy(&played.stdout), String::from_utf8_lossy(&played.stderr));
    assert!(played.status.success(), "{printed}\n{said}");
    let expected: Vec<String> =
        archipel::demo::SCENARIOS.iter().map(|scenario| format!("ok {}", scenario.name)).collect();
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
    assert_eq!(said, "");
}

#[test]
fn it_stays_for_a_person_to_play_with_until_told_to_quit() {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_archipel"))
        .arg("demo")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut orders = demo.stdin.take().unwrap();
    let mut printed = BufReader::new(demo.stdout.take().unwrap());
    let mut until = |text: &str| {
        for _ in 0..LINES {
            let mut line = String::new();
            assert!(printed.read_line(&mut line).unwrap() > 0, "it ended before it said `{text}`");
            assert!(!line.starts_with("FAILED"), "{line}");
            if line.contains(text) {
                return line;
            }
        }
        panic!("it never said `{text}`");
    };
    let site1 = until("Site1: image http://");
    let address = site1.split("http://").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    until("Site4: image http://");
    // What it says to type does what it says, as it stands.
    let shown = until("sites --config");
    let words: Vec<&str> = shown.split_whitespace().collect();
    let asked = Command::new(words.first().unwrap()).args(words.get(1..).unwrap()).output().unwrap();
    let known = String::from_utf8(asked.stdout).unwrap();
    for site in ["Site1", "Site2", "Site3", "Site4"] {
        assert!(known.lines().any(|line| line.starts_with(site) && line.contains("alive")), "{known}");
    }
    until("`quit`");
    assert_eq!(get(address, "/images", &[("x-scope", "image: Site2")]).header("x-served-by"), "image@Site2");
    orders.write_all(b"cut Site2\n").unwrap();
    until("done");
    assert_eq!(get(address, "/images", &[("x-scope", "image: Site2")]).status(), 503);
    orders.write_all(b"cut Sit2\n").unwrap();
    until("the sites are Site1, Site2, Site3, Site4");
    // Its standard input stays open: it ends because it was told to.
    orders.write_all(b"quit\n").unwrap();
    let mut rest = String::new();
    printed.read_to_string(&mut rest).unwrap();
    assert!(demo.wait().unwrap().success(), "{rest}");
}
