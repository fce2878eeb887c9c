//! The checks of a round, in one table. Each attacks a promise of `docs/requests.md` or `docs/replication.md`.

mod answers;
mod commands;
mod plans;
mod replicas;
#[cfg(test)]
mod tests;

pub(crate) use replicas::ordered_histories;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::document::{self, Document};
use crate::history::{Act, Register, Request, Verdict};
use crate::nemesis::Injected;
use crate::operator::{array, text};
use crate::service::Execution;
use crate::site::name;

/// All that is known at the end of a round.
pub(crate) struct Evidence {
    pub(crate) requests: Vec<Request>,
    /// What each site's service executed.
    pub(crate) executions: Vec<Vec<Execution>>,
    /// What each site's service has, by path.
    pub(crate) documents: Vec<BTreeMap<String, Document>>,
    /// What `archipel replicas list` says at each site.
    pub(crate) shown: Vec<Value>,
    /// At each site, the ids of all registers at all sites: of the whole list, and of its pages.
    pub(crate) lists: Vec<[Result<Vec<String>, String>; 2]>,
    pub(crate) faults: Vec<Injected>,
    /// What still waited when time was up.
    pub(crate) unquiet: Option<String>,
}

/// Finds every way in which a promise was not kept.
type Finder = fn(&Evidence) -> Vec<String>;

/// A promise, by its name.
type Check = (&'static str, Finder);

/// All of them.
const ALL: &[Check] = &[
    ("it_becomes_quiet", commands::it_becomes_quiet),
    ("replicas_are_equal", replicas::replicas_are_equal),
    ("failed_creations_leave_nothing", replicas::failed_creations_leave_nothing),
    ("acknowledged_is_there_once", replicas::acknowledged_is_there_once),
    ("nothing_runs_twice", replicas::nothing_runs_twice),
    ("refused_had_no_effect", replicas::refused_had_no_effect),
    ("deleted_stays_deleted", replicas::deleted_stays_deleted),
    ("ordered_is_linearizable", replicas::ordered_is_linearizable),
    ("newer_never_loses_to_older", replicas::newer_never_loses_to_older),
    ("own_writes_are_read", replicas::own_writes_are_read),
    ("plans_run_a_write_once", plans::plans_run_a_write_once),
    ("one_site_has_an_exclusive_name", plans::one_site_has_an_exclusive_name),
    ("local_requests_are_served", answers::local_requests_are_served),
    ("scope_sites_never_lies", answers::scope_sites_never_lies),
    ("partial_lists_say_so", answers::partial_lists_say_so),
    ("requests_are_answered_in_time", answers::requests_are_answered_in_time),
    ("queued_writes_are_answered_in_time", answers::queued_writes_are_answered_in_time),
    ("every_504_has_an_address", answers::every_504_has_an_address),
    ("good_replicas_are_equal", commands::good_replicas_are_equal),
    ("finished_is_not_pending", commands::finished_is_not_pending),
    ("deleted_is_not_good", commands::deleted_is_not_good),
    ("lists_tell_once", commands::lists_tell_once),
    ("pages_tell_once", commands::pages_tell_once),
];

/// Promises that were not kept, by the names of their checks.
pub(crate) fn run(evidence: &Evidence) -> BTreeMap<&'static str, Vec<String>> {
    let found = ALL.iter().map(|(name, find)| (*name, find(evidence)));
    found.filter(|(_, violations)| !violations.is_empty()).collect()
}

impl Evidence {
    /// Requests that made a replicated register, each with it.
    fn registers(&self) -> impl Iterator<Item = (&Request, &Register)> {
        let made = self.requests.iter().filter(|request| request.act == Act::Create);
        made.filter_map(|request| Some((request, request.register.as_ref()?)))
    }

    /// Requests to a register other than its creation.
    fn requests_to<'e>(&'e self, register: &'e Register) -> impl Iterator<Item = &'e Request> {
        self.requests.iter().filter(move |request| {
            request.act != Act::Create
                && request.register.as_ref().is_some_and(|own| own.made == register.made)
        })
    }

    /// The documents of a register at a site: one, unless something is wrong or it is deleted.
    fn documents_of(&self, made: &str, site: usize) -> Vec<&Document> {
        let here = self.documents.get(site).into_iter().flat_map(BTreeMap::values);
        here.filter(|document| document::text(document, "made") == made).collect()
    }

    /// What a site's service executed.
    fn executed_at(&self, site: usize) -> &[Execution] {
        self.executions.get(site).map_or(&[], Vec::as_slice)
    }

    /// Whether a site's service had made a register by a moment.
    fn is_made_there(&self, register: &Register, site: usize, by: u64) -> bool {
        let own = |document: &Document| document::text(document, "made") == register.made;
        let makes = |done: &&Execution| done.at <= by && done.document.as_ref().is_some_and(own);
        self.executed_at(site).iter().any(|done| makes(&done))
    }

    /// Executions of a request that changed something at a site.
    fn effects_of<'e>(&'e self, tag: &'e str, site: usize) -> impl Iterator<Item = &'e Execution> {
        let own = move |done: &&Execution| done.by.as_deref() == Some(tag) && done.changed.is_some();
        self.executed_at(site).iter().filter(own)
    }

    /// Whether a register was acknowledged, or a site's commands show one of its documents as a replica.
    fn is_replicated(&self, register: &Register) -> bool {
        let acknowledged = |(create, own): (&Request, &Register)| {
            own.made == register.made && create.verdict() == Verdict::Acknowledged
        };
        let is_shown = |site: usize, path: &str| {
            let places = self.shown.iter().flat_map(|shown| array(shown, "replicas"));
            let mut places = places.flat_map(|resource| array(resource, "sites"));
            places.any(|place| text(place, "site") == name(site) && text(place, "local").ends_with(path))
        };
        let mut documents = self.documents.iter().enumerate().flat_map(|(site, here)| {
            let own = here.iter().filter(|(_, document)| document::text(document, "made") == register.made);
            own.map(move |(path, _)| (site, path))
        });
        self.registers().any(acknowledged) || documents.any(|(site, path)| is_shown(site, path))
    }

    /// Whether some client deleted a register, or may have.
    fn may_be_deleted(&self, register: &Register) -> bool {
        self.requests_to(register)
            .any(|request| request.act == Act::Delete && request.verdict() != Verdict::Refused)
    }
}
