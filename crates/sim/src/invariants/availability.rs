//! What goes on while one site does not.

use std::collections::BTreeSet;

use serde_json::Value;

use super::held;
use crate::client::Verdict;
use crate::run::{Evidence, Record};
use crate::schedule::Act;

/// "A majority goes on": where nothing else is broken, a site that is silent, or whose service is, holds up no other for
/// longer than an election takes.
pub(super) fn others_go_on(evidence: &Evidence) -> Result<(), String> {
    for (number, due) in &evidence.dues {
        let number = *number;
        for record in evidence.records.iter().filter(|record| record.ask.number == number) {
            let took = (record.told.to - record.told.from).as_millis();
            let told = (record.told.status, record.told.problem.as_deref().unwrap_or_default());
            if took > u128::from(due.within) {
                return Err(format!("w{number} was told {told:?} after {took} ms: {due:?}"));
            }
            if due.done && !(200..300).contains(&record.told.status) {
                return Err(format!("w{number} was told {told:?}: {due:?}"));
            }
        }
    }
    Ok(())
}

/// "Who is told that nobody knows is told where to ask": every 504 to a write that some site may have recorded names its operation. A
/// site that has not heard of the resource, or heard that it is deleted, asks its service, as for any other: then there is none. Nor is
/// there one where no site executed it.
pub(super) fn unknown_outcomes_are_named(evidence: &Evidence) -> Result<(), String> {
    // Where it is at the end; or where it was made, if it left that site since.
    let is_made_at = |of: usize, site: usize| {
        let made = evidence.records.iter().find(|record| record.ask.number == of);
        made.is_some_and(
            |made| matches!(&made.ask.act, Act::Create { members, .. } if members.contains(&site)),
        )
    };
    let replicated = |record: &&Record| {
        let detail = record.told.body.get("detail").and_then(Value::as_str);
        let site = record.ask.site;
        let is_member =
            record.members.contains(&site) || record.ask.act.of().is_some_and(|of| is_made_at(of, site));
        let ordinary = is_member && detail.is_some_and(|detail| detail == "image: no answer within 10s");
        let nowhere = record.told.verdict == Verdict::Refused;
        held::may_be_recorded(evidence, record) && !ordinary && !nowhere
    };
    let unnamed = |record: &&Record| record.told.status == 504 && record.told.operation.is_none();
    match evidence.records.iter().filter(replicated).find(unnamed) {
        Some(record) => Err(format!(
            "w{} is a 504 without an operation: {:?}, {:?}",
            record.ask.number,
            record.told.problem,
            record.told.body.get("detail")
        )),
        None => Ok(()),
    }
}

/// Where only the service of a site is down, what its clients read of another replica is all that the site acknowledged: of an image
/// whose clients write one after the other, the name that the last of them gave it, or a later one.
pub(super) fn reads_elsewhere_are_no_older(evidence: &Evidence) -> Result<(), String> {
    let due = |record: &&Record| evidence.dues.contains_key(&record.ask.number);
    let read = |record: &Record| match record.ask.act {
        Act::Read { of } => Some(of),
        _ => None,
    };
    let images: BTreeSet<usize> = evidence.records.iter().filter(due).filter_map(read).collect();
    for record in evidence.records.iter().filter(|record| record.told.status == 200) {
        let Some(of) = read(record).filter(|of| images.contains(of)) else { continue };
        let patch = |other: &&Record| matches!(other.ask.act, Act::Patch { of: own, .. } if own == of);
        let patches = || evidence.records.iter().filter(patch);
        let before = patches().filter(|other| {
            let done = other.told.verdict == Verdict::Done && other.told.to < record.told.from;
            done && other.ask.site == record.ask.site
        });
        let Some(last) = before.max_by_key(|other| other.told.to) else { continue };
        let seen = record.told.body.get("name").and_then(Value::as_str).unwrap_or_default();
        let no_older =
            |other: &Record| seen == format!("w{}", other.ask.number) && other.told.from >= last.told.from;
        if !patches().any(no_older) {
            let (number, last) = (record.ask.number, last.ask.number);
            return Err(format!("w{number} saw {seen}, and w{last} was acknowledged there before"));
        }
    }
    Ok(())
}
