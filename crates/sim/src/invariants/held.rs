//! What must hold of writes whose clients are answered before a service has executed them.

use std::time::Duration;

use super::{name, writes_to};
use crate::app::Done;
use crate::isle::{NAMES, PEER_RESPONSE, RESPONSE};
use crate::run::{Evidence, Record};
use crate::schedule::{Act, Level};

/// Beside what a site waits for its own service.
const MARGIN: Duration = Duration::from_secs(1);
/// Whoever's time is up may have to wait until a name is free again.
const RELEASED: Duration = Duration::from_secs(1);
/// However many sites are asked, one after the other.
const LONGEST: Duration = Duration::from_secs(30);
/// What is known to be gone is said to be, without asking anybody.
const AT_ONCE: Duration = Duration::from_secs(1);

/// "Every request is answered within its limit": where the site that took it is the one that was asked, within `response`; a write
/// to replicas that another site took, as long as this one waits for another; and where the client said how long it waits, as it said.
pub(super) fn requests_are_answered(evidence: &Evidence) -> Result<(), String> {
    for record in evidence.records.iter().filter(|record| record.ran) {
        let own = format!("{}/", NAMES[record.ask.site]);
        let named = record.told.operation.as_ref().is_some_and(|operation| operation.starts_with(&own));
        // What it handed to another, which did not answer, has a name of its own, too.
        let handed_on = record.told.sites.contains("error=");
        let taken = named && !handed_on;
        let limit = match record.hurry {
            Some(ms) => Duration::from_millis(ms) + RELEASED + MARGIN,
            // The collection is read before, for the numbers that the service gave.
            None if taken && evidence.counts && matches!(record.ask.act, Act::Create { .. }) => {
                RESPONSE * 2 + MARGIN
            }
            None if taken => RESPONSE + MARGIN,
            None if is_replicated(record) => PEER_RESPONSE + MARGIN,
            None => LONGEST,
        };
        let took = record.told.to - record.told.from;
        if took > limit {
            let (site, status) = (NAMES[record.ask.site], record.told.status);
            return Err(format!("{} at {site}: {status} after {took:?}", name(record)));
        }
    }
    Ok(())
}

/// A short write to an image with replicas.
fn is_replicated(record: &Record) -> bool {
    let act = &record.ask.act;
    act.writes() && !matches!(act, Act::Upload { .. } | Act::Forward { .. } | Act::Exclusive { .. })
}

/// A write that some site may have recorded: to replicas, or to a name that is reserved for it. A name that is there already is not.
pub(super) fn may_be_recorded(evidence: &Evidence, record: &Record) -> bool {
    let of_one_site = |of: usize| {
        let made_it = |other: &Record| other.ask.number == of && matches!(other.ask.act, Act::Make);
        evidence.records.iter().any(made_it)
    };
    match record.ask.act {
        Act::Forward { .. } | Act::Make => false,
        ref act if act.of().is_some_and(of_one_site) => false,
        Act::Exclusive { of, .. } => {
            let path = format!("/names/x{of}");
            let made = |done: &&Done| done.effect && done.path == path && done.by != Some(name(record));
            !evidence.ledgers.iter().flatten().any(|done| made(&done) && done.at < record.told.to)
        }
        ref act => act.writes(),
    }
}

/// Who is told that nobody knows what became of a write that some site may have recorded is told its name, and the site that gave
/// it that name can say what became of it.
pub(super) fn what_is_unknown_has_a_name(evidence: &Evidence) -> Result<(), String> {
    let recorded = |record: &&Record| may_be_recorded(evidence, record);
    for record in evidence.records.iter().filter(recorded) {
        let unknown = record.told.problem.as_deref() == Some("unknown-outcome");
        let Some(operation) = &record.told.operation else {
            if unknown {
                return Err(format!("{} has no operation", name(record)));
            }
            continue;
        };
        let own = operation.starts_with(&format!("{}/", NAMES[record.ask.site]));
        if own && record.traced == Some(false) {
            return Err(format!(
                "{} is {operation}, of which the site that said so knows nothing",
                name(record)
            ));
        }
    }
    Ok(())
}

/// "An acknowledged operation ends executed, or refused with the service's own status, kept and shown": of what was answered
/// with a 202.
pub(super) fn acknowledged_is_executed_or_refused(evidence: &Evidence) -> Result<(), String> {
    let weak = |record: &&Record| {
        record.level == Level::Weak && record.told.status == 202 && !record.lost && record.ask.act.writes()
    };
    for record in evidence.records.iter().filter(weak) {
        let Some(operation) = &record.told.operation else {
            return Err(format!("{} is acknowledged, and has no operation", name(record)));
        };
        let by = name(record);
        let said = |site: usize| {
            evidence.ledgers[site]
                .iter()
                .filter(|done| done.by.as_deref() == Some(&by))
                .map(|done| done.status)
        };
        // It may have been given the state of one that executed it.
        let given = |site: usize| evidence.ledgers[site].iter().any(|done| done.by.is_none() && done.effect);
        let executed = |site: usize| said(site).any(|status| status < 300);
        if let Some((site, status)) = evidence.refusals.get(operation) {
            if !said(*site).any(|said| said == *status) {
                return Err(format!(
                    "{by} is shown as refused ({status}), and {} never said so",
                    NAMES[*site]
                ));
            }
            if let Some(site) = (0..evidence.ledgers.len()).find(|site| executed(*site)) {
                return Err(format!("{by} was refused ({status}), and {} executed it", NAMES[site]));
            }
            continue;
        }
        let members = &record.members;
        let missing = members.iter().find(|site| !executed(**site) && !given(**site));
        let nowhere = !members.iter().any(|site| executed(*site));
        if let Some(site) = missing.or_else(|| members.first().filter(|_| nowhere)) {
            return Err(format!("{by} was acknowledged, and {} never executed it", NAMES[*site]));
        }
    }
    Ok(())
}

/// What waits for somebody to do something about it says why.
pub(super) fn what_waits_says_why(evidence: &Evidence) -> Result<(), String> {
    evidence.unexplained.first().map_or(Ok(()), |what| Err(what.clone()))
}

/// What a site knows to be deleted is gone for its clients at once, whatever its service says.
pub(super) fn the_deleted_is_gone_at_once(evidence: &Evidence) -> Result<(), String> {
    let made = evidence.records.iter().filter(|record| matches!(record.ask.act, Act::Create { .. }));
    for image in made {
        for record in writes_to(evidence, image).filter(|record| record.doomed && record.well) {
            let took = record.told.to - record.told.from;
            if record.told.status != 404 || took > AT_ONCE {
                return Err(format!(
                    "{} is known to be deleted: {} after {took:?}",
                    name(record),
                    record.told.status
                ));
            }
        }
    }
    Ok(())
}
