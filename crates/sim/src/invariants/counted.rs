//! Local and replicated images never answer for each other, also where every service counts.

use serde_json::Value;

use super::{name, text, verdict};
use crate::client::Verdict;
use crate::isle::NAMES;
use crate::run::{Evidence, Record};
use crate::schedule::Act;

/// True where an image of one site alone was deleted: its service may give its number to another.
fn may_be_another(evidence: &Evidence, of: usize) -> bool {
    let made_alone = |record: &Record| record.ask.number == of && matches!(record.ask.act, Act::Make);
    let deletes = |record: &Record| matches!(record.ask.act, Act::Delete { of: own } if own == of);
    evidence.records.iter().any(made_alone) && evidence.records.iter().any(deletes)
}

/// A write to an image, or a read of it, meets that one and no other; an image of one site alone is there, and nowhere else;
/// and at the end a service's own number leads to what is of that site alone.
pub(super) fn images_answer_to_their_own_ids(evidence: &Evidence) -> Result<(), String> {
    if let Some(mistaken) = &evidence.mistaken {
        return Err(mistaken.clone());
    }
    for record in &evidence.records {
        let Some(of) = record.ask.act.of().filter(|of| !may_be_another(evidence, *of)) else { continue };
        let (own, of) = (name(record), format!("w{of}"));
        let told = record.told.body.get("made").and_then(Value::as_str);
        if record.told.verdict == Verdict::Done && told.is_some_and(|told| told != of) {
            return Err(format!("{own} is about {of}, and was answered with {told:?}"));
        }
        for (site, ledger) in evidence.ledgers.iter().enumerate() {
            let mut executed = ledger.iter().filter(|done| done.effect && done.by.as_ref() == Some(&own));
            if let Some(done) = executed.find(|done| done.made.as_ref().is_some_and(|made| *made != of)) {
                let (site, made) = (NAMES[site], &done.made);
                return Err(format!(
                    "{own} is about {of}, and {site} executed it on {made:?} ({})",
                    done.path
                ));
            }
        }
    }
    let of_one_site = |record: &&Record| matches!(record.ask.act, Act::Make);
    for record in evidence.records.iter().filter(of_one_site) {
        let own = name(record);
        let count =
            |site: usize| evidence.images[site].values().filter(|image| text(image, "made") == own).count();
        let is_delete = |other: &&Record| {
            matches!(other.ask.act, Act::Delete { of } if of == record.ask.number)
                && other.told.verdict != Verdict::Refused
        };
        let deleted = evidence.records.iter().any(|other| is_delete(&other));
        for (site, site_name) in NAMES.iter().enumerate().take(evidence.images.len()) {
            let there = count(site);
            let missing =
                site == record.ask.site && there == 0 && verdict(record) == Verdict::Done && !deleted;
            if missing || there > usize::from(site == record.ask.site) {
                return Err(format!(
                    "{own}, of {} alone, is {there} times at {site_name}",
                    NAMES[record.ask.site]
                ));
            }
        }
    }
    Ok(())
}
