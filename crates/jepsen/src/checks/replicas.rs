//! Replicated registers: what was acknowledged is at each of their sites, once, and clients saw one register.

use serde_json::Value;

use super::Evidence;
use crate::document::{self, Document};
use crate::history::{Act, Level, Register, Request, Role, Verdict};
use crate::linear::{self, Effect, Judgement, Operation};
use crate::site::name;

/// Each register is the same at each of its sites, or at none, and nowhere else. At `@weak` each site has its own order: only
/// what commutes is the same.
pub(super) fn replicas_are_equal(evidence: &Evidence) -> Vec<String> {
    let mut found = Vec::new();
    for (_, register) in evidence.registers() {
        if !evidence.is_replicated(register) {
            continue;
        }
        let first = register.sites.first().map(|site| bare(evidence, register, *site)).unwrap_or_default();
        for site in 0..evidence.documents.len() {
            let here = bare(evidence, register, site);
            let (made, level, own) = (&register.made, register.level, name(site));
            if !register.sites.contains(&site) {
                if !here.is_empty() {
                    found.push(format!("{made} is at {own}, which its scope does not name"));
                }
            } else if here != first {
                found.push(format!("{made} {level} is {here:?} at {own}, and {first:?} elsewhere"));
            }
        }
    }
    found
}

/// A creation that came to nothing, so that no command shows it, has left nothing at any service.
pub(super) fn failed_creations_leave_nothing(evidence: &Evidence) -> Vec<String> {
    let mut found = Vec::new();
    for (create, register) in evidence.registers() {
        if evidence.is_replicated(register) {
            continue;
        }
        let sites = (0..evidence.documents.len())
            .filter(|site| !evidence.documents_of(&register.made, *site).is_empty());
        let at: Vec<String> = sites.map(name).collect();
        if !at.is_empty() {
            found.push(format!("{} came to nothing, and is at {}", create.brief(), at.join(", ")));
        }
    }
    found
}

/// The documents of a register without what each site may have for itself.
fn bare(evidence: &Evidence, register: &Register, site: usize) -> Vec<Document> {
    let bare = |document: &Document| {
        let mut document = document::content(document);
        if register.level == Level::Weak {
            document.remove("value");
        }
        document
    };
    evidence.documents_of(&register.made, site).into_iter().map(bare).collect()
}

/// Every acknowledged creation, addition and patch of its own is at each site of its register, once.
pub(super) fn acknowledged_is_there_once(evidence: &Evidence) -> Vec<String> {
    let mut found = Vec::new();
    for (create, register) in evidence.registers() {
        if evidence.may_be_deleted(register) {
            continue;
        }
        for site in &register.sites {
            let documents = evidence.documents_of(&register.made, *site);
            if create.verdict() == Verdict::Acknowledged && documents.is_empty() {
                found.push(format!("{} was acknowledged, and is not at {}", create.brief(), name(*site)));
            }
            for document in documents {
                found.extend(
                    evidence
                        .requests_to(register)
                        .filter_map(|request| miscount(request, document))
                        .map(|(brief, count)| format!("{brief} is there {count} times at {}", name(*site))),
                );
            }
        }
    }
    found
}

/// An addition or a patch of its own that is not there as often as it should be.
fn miscount(request: &Request, document: &Document) -> Option<(String, u64)> {
    let count = match request.act {
        Act::Add => document::added(document, &request.tag),
        Act::Mark => u64::from(document.contains_key(&document::mark(&request.tag))),
        _ => return None,
    };
    let wrong = match request.verdict() {
        Verdict::Acknowledged => count != 1,
        Verdict::Refused => count != 0,
        Verdict::Unknown => count > 1,
    };
    wrong.then(|| (request.brief(), count))
}

/// No service made a register twice, and none executed an addition twice that nothing erased in between.
pub(super) fn nothing_runs_twice(evidence: &Evidence) -> Vec<String> {
    let mut found = Vec::new();
    for (create, register) in evidence.registers() {
        for site in 0..evidence.documents.len() {
            let count = evidence.documents_of(&register.made, site).len();
            if count > 1 {
                found.push(format!("{} is {count} times at {}", create.brief(), name(site)));
            }
            for add in evidence.requests_to(register).filter(|request| request.act == Act::Add) {
                let path = evidence.effects_of(&add.tag, site).find_map(|done| done.changed.clone());
                // A copied state replaces the document: the addition may be executed on top of it again.
                let copied = |done: &crate::service::Execution| done.method == "PUT" && done.changed == path;
                let count = evidence.effects_of(&add.tag, site).count();
                if count > 1 && !evidence.executed_at(site).iter().any(copied) {
                    found.push(format!("{} was executed {count} times at {}", add.brief(), name(site)));
                }
            }
        }
    }
    found
}

/// No service ever executed anything of a write that was refused.
pub(super) fn refused_had_no_effect(evidence: &Evidence) -> Vec<String> {
    let refused = |request: &&Request| request.act.writes() && request.verdict() == Verdict::Refused;
    let mut found = Vec::new();
    for request in evidence.requests.iter().filter(refused) {
        for site in 0..evidence.executions.len() {
            if evidence.effects_of(&request.tag, site).next().is_some() {
                found.push(format!("{} was refused, and executed at {}", request.brief(), name(site)));
            }
        }
    }
    found
}

/// A register whose deletion was acknowledged is nowhere.
pub(super) fn deleted_stays_deleted(evidence: &Evidence) -> Vec<String> {
    let mut found = Vec::new();
    for (_, register) in evidence.registers() {
        let deleted = evidence
            .requests_to(register)
            .find(|request| request.act == Act::Delete && request.verdict() == Verdict::Acknowledged);
        let Some(deleted) = deleted else { continue };
        for site in 0..evidence.documents.len() {
            if !evidence.documents_of(&register.made, site).is_empty() {
                found.push(format!(
                    "{} deleted {}, which is at {}",
                    deleted.brief(),
                    register.made,
                    name(site)
                ));
            }
        }
    }
    found
}

/// Clients of `@quorum`, with confirmed reads, and of `@strong` saw one register at one place.
pub(super) fn ordered_is_linearizable(evidence: &Evidence) -> Vec<String> {
    let mut found = Vec::new();
    for (register, initial, history) in ordered_histories(evidence) {
        if linear::judge(&initial, &history) == Judgement::NotLinearizable {
            let (made, level) = (&register.made, register.level);
            let lines: Vec<String> = history.iter().map(|operation| format!("  {operation:?}")).collect();
            found.push(format!("{made} {level} is not one register:\n{}", lines.join("\n")));
        }
    }
    found
}

/// Each ordered register, its first state, and its history.
pub(crate) fn ordered_histories(evidence: &Evidence) -> Vec<(&Register, Document, Vec<Operation>)> {
    let ordered = evidence.registers().filter(|(create, register)| {
        register.level.is_ordered()
            && register.role != Role::Brief
            && create.verdict() == Verdict::Acknowledged
    });
    let history = |(create, register): (&Request, &'_ Register)| {
        let initial = create.body().as_object().cloned().unwrap_or_default();
        let history = evidence.requests_to(register).filter_map(operation).collect();
        (initial, history)
    };
    ordered
        .map(|both| (both.1, history(both)))
        .map(|(register, (initial, history))| (register, initial, history))
        .collect()
}

fn operation(request: &Request) -> Option<Operation> {
    let field = |field: String, value: Value| Document::from_iter([(field, value)]);
    let register = request.register.as_ref()?;
    let effect = match request.act {
        Act::Put => {
            let mut document = field("value".to_owned(), request.tag.clone().into());
            document.insert("made".to_owned(), register.made.clone().into());
            Effect::Put(document)
        }
        Act::Patch => Effect::Patch(field("value".to_owned(), request.tag.clone().into())),
        Act::Mark => Effect::Patch(field(document::mark(&request.tag), true.into())),
        Act::Add => Effect::Add,
        Act::Read if request.status() == 200 => Effect::Read(request.body().as_object()?.clone()),
        _ => return None,
    };
    let to = match request.verdict() {
        Verdict::Acknowledged => Some(request.to),
        Verdict::Refused => return None,
        Verdict::Unknown => None,
    };
    Some(Operation { from: request.from, to, tag: request.tag.clone(), effect })
}

/// Writes of a register's value at `@eventual`, which each site puts in one causal order.
fn sets_value(request: &Request) -> bool {
    let eventual = request.register.as_ref().is_some_and(|register| register.level == Level::Eventual);
    eventual && matches!(request.act, Act::Put | Act::Patch) && request.verdict() == Verdict::Acknowledged
}

/// A write that the same site took after an earlier one was acknowledged there, before a moment.
fn later_there<'e>(evidence: &'e Evidence, earlier: &'e Request, before: u64) -> Option<&'e Request> {
    evidence.requests_to(earlier.register.as_ref()?).find(|later| {
        sets_value(later)
            && later.site == earlier.site
            && later.taken_there()
            && earlier.taken_there()
            && later.from > earlier.to
            && later.to < before
    })
}

/// Of two writes of one site the later one stays.
pub(super) fn newer_never_loses_to_older(evidence: &Evidence) -> Vec<String> {
    let mut found = Vec::new();
    for (_, register) in evidence.registers() {
        for site in &register.sites {
            for document in evidence.documents_of(&register.made, *site) {
                let value = document::text(document, "value");
                let wrote = evidence.requests_to(register).find(|own| sets_value(own) && own.tag == value);
                let later = wrote.and_then(|wrote| later_there(evidence, wrote, u64::MAX));
                found.extend(
                    later.map(|later| {
                        format!("{value} is at {} at the end, not {}", name(*site), later.brief())
                    }),
                );
            }
        }
    }
    found
}

/// A read at `@eventual` from a site's own replica shows what that site acknowledged before.
pub(super) fn own_writes_are_read(evidence: &Evidence) -> Vec<String> {
    let mut found = Vec::new();
    for read in evidence.requests.iter().filter(|read| read.act == Act::Read && read.status() == 200) {
        let Some(register) = read.register.as_ref().filter(|own| own.level == Level::Eventual) else {
            continue;
        };
        let here = read.scope_sites();
        let own_replica = here.is_empty() || here.starts_with(&format!("\"{}\"", name(read.site)));
        let Some(document) = read.body().as_object().filter(|_| own_replica && register.role != Role::Brief)
        else {
            continue;
        };
        let value = document::text(document, "value");
        let wrote = evidence
            .requests_to(register)
            .find(|own| sets_value(own) && own.tag == value && own.site == read.site);
        if let Some(later) = wrote.and_then(|wrote| later_there(evidence, wrote, read.from)) {
            found.push(format!("{} saw {value}, after {}", read.brief(), later.brief()));
        }
        let before = evidence.requests_to(register).filter(|own| {
            own.site == read.site
                && own.to < read.from
                && own.taken_there()
                && own.verdict() == Verdict::Acknowledged
        });
        for missed in before.filter(|own| miscount(own, document).is_some_and(|(_, count)| count == 0)) {
            found.push(format!("{} missed {}", read.brief(), missed.brief()));
        }
    }
    found
}
