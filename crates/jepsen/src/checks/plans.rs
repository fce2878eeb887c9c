//! Plans without replicas: `;`, `|` and `^`.

use std::collections::BTreeMap;

use super::Evidence;
use crate::history::{Act, Verdict};
use crate::site::name;

/// A write at `A ; B` or `A | B` is executed once where it was acknowledged, and never twice.
pub(super) fn plans_run_a_write_once(evidence: &Evidence) -> Vec<String> {
    let mut found = Vec::new();
    for request in evidence.requests.iter().filter(|request| request.act == Act::Forward) {
        let sites = 0..evidence.executions.len();
        let count: usize = sites.map(|site| evidence.effects_of(&request.tag, site).count()).sum();
        if count > 1 || (count == 0 && request.verdict() == Verdict::Acknowledged) {
            found.push(format!("{} was executed {count} times", request.brief()));
        }
    }
    found
}

/// A name that was put at `A ^ B ^ C` is at one site; where it was acknowledged, at exactly one.
pub(super) fn one_site_has_an_exclusive_name(evidence: &Evidence) -> Vec<String> {
    let mut names: BTreeMap<&str, bool> = BTreeMap::new();
    for request in evidence.requests.iter().filter(|request| request.act == Act::Exclude) {
        *names.entry(&request.path).or_default() |= request.verdict() == Verdict::Acknowledged;
    }
    let mut found = Vec::new();
    for (path, acknowledged) in names {
        let documents = evidence.documents.iter().enumerate();
        let at: Vec<String> =
            documents.filter(|(_, here)| here.contains_key(path)).map(|(site, _)| name(site)).collect();
        if at.len() > 1 || (at.is_empty() && acknowledged) {
            found.push(format!("{path} is at {} sites: {}", at.len(), at.join(", ")));
        }
    }
    found
}
