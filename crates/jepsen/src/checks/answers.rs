//! Answers: each comes in time, and says what is so.

use std::time::Duration;

use super::Evidence;
use crate::history::{Act, Level, Request, Verdict};
use crate::nemesis::Fault;
use crate::service::Execution;
use crate::site::{RESPONSE_LIMIT, name, number};
use crate::workload::{MARGIN, is_silent};

/// What a local request may take at a site where nothing is wrong, on a machine that is busy.
const LOCAL_LIMIT_MICROS: u64 = 5_000_000;

/// What a write may take at the site that takes it.
const TAKEN_LIMIT: Duration = RESPONSE_LIMIT.saturating_add(MARGIN);

/// Whether a site's mesh was killed or stopped at some time during a request.
fn is_interrupted(evidence: &Evidence, request: &Request) -> bool {
    let mesh = |fault: &Fault| matches!(fault, Fault::KillMesh(_) | Fault::Restore(_) | Fault::Pause(_));
    is_beside(evidence, request, mesh)
}

/// Whether a fault of some kind was at the request's site, at some time during the request.
fn is_beside(evidence: &Evidence, request: &Request, kind: impl Fn(&Fault) -> bool) -> bool {
    evidence.faults.iter().any(|injected| {
        injected.fault.site() == Some(request.site)
            && kind(&injected.fault)
            && injected.from <= request.to
            && injected.to >= request.from
    })
}

/// A local request is answered at once, whatever happens to other sites and the network between them.
pub(super) fn local_requests_are_served(evidence: &Evidence) -> Vec<String> {
    let local = evidence.requests.iter().filter(|request| request.act == Act::Local);
    let served = |request: &&Request| {
        request.status() == 200 && request.to.saturating_sub(request.from) <= LOCAL_LIMIT_MICROS
    };
    let wrong = local.filter(|request| !served(request) && !is_beside(evidence, request, |_| true));
    wrong.map(Request::brief).collect()
}

/// Every request of a mesh that ran all the time was answered within the client's limit.
pub(super) fn requests_are_answered_in_time(evidence: &Evidence) -> Vec<String> {
    let silent = evidence.requests.iter().filter(|request| is_silent(request));
    silent.filter(|request| !is_interrupted(evidence, request)).map(Request::brief).collect()
}

/// Whether the site that was asked took a write that has no order: its own service, or its own record, answers it.
fn is_taken(request: &Request) -> bool {
    let own = format!("{}/", name(request.site));
    let named = request.operation().is_some_and(|operation| operation.starts_with(&own));
    let ordered = request.register.as_ref().is_none_or(|register| register.level.is_ordered());
    // What it handed to another, which did not answer, has a name of its own, too.
    request.act.writes() && named && !ordered && !request.scope_sites().contains("error=")
}

/// A write at `@weak` or `@eventual` is answered within the response limit by the site that takes it, also behind one in doubt.
pub(super) fn queued_writes_are_answered_in_time(evidence: &Evidence) -> Vec<String> {
    let late =
        |request: &&Request| Duration::from_micros(request.to.saturating_sub(request.from)) > TAKEN_LIMIT;
    let late = evidence.requests.iter().filter(|request| is_taken(request) && late(request));
    late.filter(|request| !is_interrupted(evidence, request)).map(Request::brief).collect()
}

/// A 504 to a replicated write has the address of its operation. At a site that has not heard of a register yet, a write to it is
/// one to an ordinary resource.
pub(super) fn every_504_has_an_address(evidence: &Evidence) -> Vec<String> {
    let is_known = |request: &Request| {
        let register = request.register.as_ref();
        register.is_some_and(|register| {
            request.act == Act::Create || evidence.is_made_there(register, request.site, request.to)
        })
    };
    let unknown = evidence.requests.iter().filter(|request| request.status() == 504 && request.act.writes());
    // That one says that no site executed it, and nothing is recorded.
    let nowhere = |request: &Request| request.problem() == Some("no-site-answered");
    let unnamed = |request: &&Request| request.operation().is_none() && !nowhere(request);
    unknown.filter(|request| is_known(request)).filter(unnamed).map(Request::brief).collect()
}

/// A site that is said to have executed a write has, and one that could not be reached has not. With `^` a status may be
/// that of the question before it.
pub(super) fn scope_sites_never_lies(evidence: &Evidence) -> Vec<String> {
    let mut found = Vec::new();
    let wrote = |request: &&Request| request.act.writes() && request.act != Act::Exclude;
    for request in evidence.requests.iter().filter(wrote) {
        for said in request.scope_sites().split(", ").filter(|said| !said.is_empty()) {
            if let Some(why) = lie(evidence, request, said) {
                found.push(format!("{}: {said}, and {why}", request.brief()));
            }
        }
    }
    found
}

fn lie(evidence: &Evidence, request: &Request, said: &str) -> Option<String> {
    let mut words = said.split(';');
    let Some(site) = words.next().and_then(|site| number(site.trim_matches('"'))) else {
        return Some("there is no such site".to_owned());
    };
    let before = |done: &&Execution| done.at <= request.to;
    let executed = evidence.effects_of(&request.tag, site).any(|done| before(&done));
    // A site that could not execute it may have been given the state of one that did.
    let given = |done: &&Execution| done.by.is_none() && done.changed.is_some();
    let has = executed || evidence.executed_at(site).iter().filter(before).any(|done| given(&done));
    let own = |done: &Execution| done.by.as_ref() == Some(&request.tag) && done.status < 400;
    let answered = executed || evidence.executed_at(site).iter().filter(before).any(own);
    for word in words {
        let status = word.strip_prefix("status=").and_then(|status| status.parse::<u16>().ok());
        match (status, word) {
            (Some(200..=299), _) if !answered => return Some("its service did not execute it".to_owned()),
            (None, "done") if !has => return Some("its service does not have it".to_owned()),
            (None, "error=unreachable") if executed => return Some("its service executed it".to_owned()),
            _ => {}
        }
    }
    None
}

/// A list that lacks what a site acknowledged, and was not deleted, says that the site is missing.
pub(super) fn partial_lists_say_so(evidence: &Evidence) -> Vec<String> {
    let mut found = Vec::new();
    for list in evidence.requests.iter().filter(|request| request.act == Act::List && request.status() == 200)
    {
        let sites = list.scope_sites();
        let failed = |word: &str| word.strip_prefix("status=").is_some_and(|status| !status.starts_with('2'));
        if sites.contains("error=") || sites.split([';', ',']).any(failed) {
            continue;
        }
        // All sites answered: what was acknowledged before, and is nowhere deleted, is told.
        for (create, register) in evidence.registers() {
            let sure = create.verdict() == Verdict::Acknowledged && create.to < list.from;
            if !sure
                || register.level == Level::Weak
                || evidence.may_be_deleted(register)
                || create.path.starts_with("/names")
            {
                continue;
            }
            if !list.body().to_string().contains(&format!("\"made\":\"{}\"", register.made)) {
                let (brief, list) = (create.brief(), list.brief());
                found.push(format!("{list} says that all sites answered ({sites}), and lacks {brief}"));
            }
        }
    }
    found
}
