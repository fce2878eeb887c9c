//! What must hold of the sites' knowledge of each other: `docs/sites.md`.

use crate::app::Done;
use crate::isle::NAMES;
use crate::run::Evidence;
use crate::schedule::Act;

/// Once everything works, every site knows every other, as alive and within reach, and all have the same zones.
pub(super) fn sites_know_each_other(evidence: &Evidence) -> Result<(), String> {
    evidence.disagreement.clone().map_or(Ok(()), Err)
}

/// A site that runs, and that another can reach and be reached by, is not dead to that one for good, nor unknown.
pub(super) fn the_living_are_found(evidence: &Evidence) -> Result<(), String> {
    evidence.watched.unseen.clone().map_or(Ok(()), Err)
}

/// Whoever could hear a goodbye knows the site no more.
pub(super) fn a_goodbye_is_heard(evidence: &Evidence) -> Result<(), String> {
    evidence.watched.unheard.clone().map_or(Ok(()), Err)
}

/// A site that left, is in quarantine or is not known yet is not asked by those who know that: no answer has one of it.
pub(super) fn what_is_out_is_not_asked(evidence: &Evidence) -> Result<(), String> {
    for record in &evidence.records {
        let name = format!("w{}", record.ask.number);
        for out in &record.out {
            let said = record.told.sites.split(", ").find(|said| {
                said.starts_with(&format!("\"{}\"", NAMES[*out]))
                    && said.split(';').any(|word| word.starts_with("status="))
            });
            // Writes to a replica that is there already reach it later, when it is back.
            let direct = matches!(record.ask.act, Act::Forward { .. } | Act::Create { .. });
            let during = |done: &&Done| done.at >= record.told.from && done.at <= record.told.to;
            let asked = |done: &&Done| direct && done.by.as_deref() == Some(&name);
            // Another site, which made the write its own, may know better.
            let sent = |done: &&Done| {
                let by = done.operation.as_deref().and_then(|name| name.split('/').next());
                by.is_none_or(|by| by == NAMES[record.ask.site])
            };
            let executed = evidence.ledgers[*out].iter().filter(during).filter(sent).any(|done| asked(&done));
            if said.is_some() || executed {
                return Err(format!(
                    "{name} was sent to {}, of which {} knew that it is not to be asked [{}]",
                    NAMES[*out], NAMES[record.ask.site], record.told.sites
                ));
            }
        }
    }
    Ok(())
}

/// No site is asked by one that it has no version in common with, nor for what only a later version knows.
pub(super) fn nobody_is_misread(evidence: &Evidence) -> Result<(), String> {
    evidence.talk.as_ref().and_then(|talk| talk.wrong.clone()).map_or(Ok(()), Err)
}
