//! The documents hold together: every relative link leads to a file, and every anchor to a heading of it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The documents that a reader starts from, and all under `docs/`.
fn documents() -> Vec<PathBuf> {
    let root = root();
    let mut found: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .map(|name| root.join(name))
        .into();
    let mut open = vec![root.join("docs")];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// The text without blocks of code: what looks like a link or a heading there is none.
fn prose(text: &str) -> String {
    let mut inside = false;
    let outside = |line: &&str| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    };
    text.lines().filter(outside).collect::<Vec<_>>().join("\n")
}

/// The anchors of the headings, as forges make them: lower case, `-` for a space, no punctuation, a number behind one that was there.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let heading = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>()
    };
    let mut anchors = BTreeSet::new();
    for anchor in headings.map(heading) {
        let count = counts.entry(anchor.clone()).or_default();
        anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

/// Where the links of a text lead: what stands in `](…)`, outside of inline code.
fn links(text: &str) -> Vec<String> {
    let mut code = false;
    let plain: String = text
        .chars()
        .filter(|c| {
            code ^= *c == '`';
            !code && *c != '`'
        })
        .collect();
    let after = plain.split("](").skip(1);
    after.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut lost = Vec::new();
    let mut checked = 0;
    for document in documents() {
        let text = prose(&fs::read_to_string(&document).unwrap());
        for link in links(&text).into_iter().filter(|link| !link.contains("://")) {
            checked += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { document.clone() } else { document.with_file_name(path) };
            let found = match fs::read_to_string(&target) {
                _ if anchor.is_empty() => target.exists(),
                Ok(text) => anchors(&prose(&text)).contains(anchor),
                Err(_) => false,
            };
            if !found {
                lost.push(format!("{}: {link}", document.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(checked > 50, "only {checked} links were found: this tests nothing");
    assert!(lost.is_empty(), "these lead nowhere:\n{}", lost.join("\n"));
}

#[test]
fn a_body_in_json_is_sent_as_json() {
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for line in text.lines().filter(|line| line.contains("curl ") && line.contains("-d '{")) {
            assert!(line.contains("application/json"), "{}: curl sends a form: {line}", document.display());
        }
    }
}

#[test]
fn every_restart_only_key_is_in_the_reference() {
    let text = fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let (_, after) = text.split_once("takes effect only after a restart").expect("the section is there");
    let rows =
        after.lines().skip_while(|line| !line.starts_with("| `")).take_while(|line| line.starts_with('|'));
    let written: Vec<String> = rows.map(str::to_owned).collect();
    let known =
        archipel::config::RESTART_KEYS.iter().map(|own| format!("| `{}` | {} |", own.key, own.because));
    assert_eq!(written, known.collect::<Vec<_>>());
}
