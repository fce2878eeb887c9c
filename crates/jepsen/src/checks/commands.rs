//! The operator's commands and lists, once nothing waits: they say what is so.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Evidence;
use crate::document;
use crate::operator::{array, text};
use crate::site::{name, number};

/// After the faults no site waits for anything, within a limit.
pub(super) fn it_becomes_quiet(evidence: &Evidence) -> Vec<String> {
    evidence.unquiet.iter().cloned().collect()
}

/// Each resource that a site shows and has not deleted, with the states of its replicas.
fn shown(evidence: &Evidence) -> impl Iterator<Item = (usize, &Value)> {
    let sites = evidence.shown.iter().enumerate();
    sites.flat_map(|(site, shown)| array(shown, "replicas").map(move |resource| (site, resource)))
}

fn is_deleted(resource: &Value) -> bool {
    resource.get("deleted") == Some(&true.into())
}

/// The path of a resource for clients.
fn path(resource: &Value) -> &str {
    text(resource, "resource").split_once(':').map_or("", |(_, path)| path)
}

/// A replica that is shown as good has what the others that are shown so have. At `@weak` replicas may differ.
pub(super) fn good_replicas_are_equal(evidence: &Evidence) -> Vec<String> {
    let mut found = Vec::new();
    for (at, resource) in shown(evidence).filter(|(_, resource)| !is_deleted(resource)) {
        if text(resource, "level") == "weak" {
            continue;
        }
        let good = array(resource, "sites").filter(|place| text(place, "state") == "good");
        let mut contents = BTreeSet::new();
        let collection = path(resource).trim_start_matches('/').split('/').next().unwrap_or("");
        for place in good {
            let Some(site) = number(text(place, "site")) else { continue };
            let local = format!("/{collection}/{}", text(place, "local").rsplit('/').next().unwrap_or(""));
            let content = evidence
                .documents
                .get(site)
                .and_then(|here| here.get(&local))
                .map(|document| Value::Object(document::content(document)).to_string());
            contents.insert(content.unwrap_or_else(|| format!("nothing at {local} of {}", name(site))));
        }
        if contents.len() > 1 {
            found.push(format!(
                "{} says that {} is good: {contents:?}",
                name(at),
                text(resource, "resource")
            ));
        }
    }
    found
}

/// Once nothing waits, no replica is shown as pending.
pub(super) fn finished_is_not_pending(evidence: &Evidence) -> Vec<String> {
    if evidence.unquiet.is_some() {
        return Vec::new();
    }
    let alive = shown(evidence).filter(|(_, resource)| !is_deleted(resource));
    let pending = alive.flat_map(|(at, resource)| {
        let places = array(resource, "sites").filter(|place| text(place, "state") == "pending");
        places.map(move |place| {
            let (at, resource, level) = (name(at), text(resource, "resource"), text(resource, "level"));
            format!("{at} says that {resource} (@{level}) is pending at {}", text(place, "site"))
        })
    });
    pending.collect()
}

/// A deleted resource has no good replica.
pub(super) fn deleted_is_not_good(evidence: &Evidence) -> Vec<String> {
    let deleted = shown(evidence).filter(|(_, resource)| is_deleted(resource));
    let good =
        deleted.filter(|(_, resource)| array(resource, "sites").any(|place| text(place, "state") == "good"));
    good.map(|(at, resource)| {
        format!("{} says that {} is good; it is deleted", name(at), text(resource, "resource"))
    })
    .collect()
}

/// A list of all sites tells each register once.
pub(super) fn lists_tell_once(evidence: &Evidence) -> Vec<String> {
    wrong_lists(evidence, 0)
}

/// So do its pages.
pub(super) fn pages_tell_once(evidence: &Evidence) -> Vec<String> {
    wrong_lists(evidence, 1)
}

fn wrong_lists(evidence: &Evidence, which: usize) -> Vec<String> {
    // What is at some service, by the request that made it.
    let mut wanted: BTreeMap<&str, usize> = BTreeMap::new();
    for document in evidence.documents.iter().flat_map(|here| here.iter()) {
        if document.0.starts_with("/registers/") {
            wanted.insert(document::text(document.1, "made"), 0);
        }
    }
    let mut found = Vec::new();
    for (site, lists) in evidence.lists.iter().enumerate() {
        let told = match lists.get(which) {
            Some(Ok(told)) => told,
            Some(Err(why)) => {
                found.push(format!("the list at {}: {why}", name(site)));
                continue;
            }
            None => continue,
        };
        let mut counts = wanted.clone();
        for made in told {
            *counts.entry(made).or_default() += 1;
        }
        let wrong = counts.iter().filter(|(_, count)| **count != 1);
        found.extend(
            wrong.map(|(made, count)| format!("the list at {} tells {made} {count} times", name(site))),
        );
    }
    found
}
