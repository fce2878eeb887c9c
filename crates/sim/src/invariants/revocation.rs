//! What must hold of a site whose identity was taken back: `docs/sites.md`.

use crate::app::Done;
use crate::isle::NAMES;
use crate::run::{Evidence, Record};

/// From when a site knows of it, nothing that comes from the one that is shut out is executed there, nor answered: neither a request of its
/// clients, nor a write that it accepted, whoever passes that on.
pub(super) fn the_revoked_get_nothing(evidence: &Evidence) -> Result<(), String> {
    let Some((void, _)) = evidence.shut.site else { return Ok(()) };
    if let Some(let_in) = &evidence.let_in {
        return Err(let_in.clone());
    }
    let own = format!("{}/", NAMES[void]);
    for (site, ledger) in evidence.ledgers.iter().enumerate().filter(|(site, _)| *site != void) {
        let of_client = |done: &Done| {
            let asked = |record: &Record| done.by == Some(format!("w{}", record.ask.number));
            evidence.records.iter().find(|record| asked(record)).is_some_and(|record| record.ask.site == void)
        };
        // One that it passed on to another site, which accepted it, is that one's.
        let of_void = |done: &Done| match &done.operation {
            Some(operation) => operation.starts_with(&own),
            None => of_client(done),
        };
        let late = ledger.iter().find(|done| evidence.shut.knew(site, done.asked) && of_void(done));
        if let Some(late) = late {
            return Err(format!(
                "{} executes {} {} of {:?} ({:?}), which is revoked",
                NAMES[site], late.method, late.path, late.by, late.operation
            ));
        }
    }
    Ok(())
}

/// Whoever knows of it closes its connections to the one that is shut out, also those that there were, and makes no others.
pub(super) fn the_revoked_are_cut_off(evidence: &Evidence) -> Result<(), String> {
    evidence.shut.open.clone().map_or(Ok(()), Err)
}

/// A site that is shut out is no site any more, to whoever knows of it, also after a restart.
pub(super) fn the_revoked_stay_out(evidence: &Evidence) -> Result<(), String> {
    evidence.shut.back.clone().map_or(Ok(()), Err)
}

/// Every other site learns of it: from the first one that it meets.
pub(super) fn a_revocation_is_heard(evidence: &Evidence) -> Result<(), String> {
    let Some((void, _)) = evidence.shut.site else { return Ok(()) };
    if let Some(untold) = &evidence.shut.untold {
        return Err(untold.clone());
    }
    match evidence.unaware.first() {
        Some(site) => {
            Err(format!("{} does not know at the end that {} is revoked", NAMES[*site], NAMES[void]))
        }
        None => Ok(()),
    }
}

/// Once its replicas are taken away, no site has one of it, and `queues_are_bounded` and `spools_are_empty` hold at all others.
pub(super) fn the_revoked_have_no_replica(evidence: &Evidence) -> Result<(), String> {
    evidence.still_there.clone().map_or(Ok(()), Err)
}
