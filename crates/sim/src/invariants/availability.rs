//! What goes on while one site does not.

use serde_json::Value;

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

/// "Who is told that nobody knows is told where to ask": every 504 to a write to a replicated resource, at a site that has a
/// replica, names its operation. A site that has not heard of the resource, or heard that it is deleted, asks its service, as for
/// any other: then there is none. Nor is it named where the time of the request's plan ran out while its site had it in hand.
pub(super) fn unknown_outcomes_are_named(evidence: &Evidence) -> Result<(), String> {
    let replicated = |record: &&Record| {
        let forwards = matches!(record.ask.act, Act::Forward { .. } | Act::Exclusive { .. });
        let detail = record.told.body.get("detail").and_then(Value::as_str);
        let ordinary = detail.is_some_and(|detail| detail == "image: no answer within 10s");
        let out_of_time = record.told.problem.as_deref() == Some("no-site-answered");
        record.ask.act.writes()
            && !forwards
            && !ordinary
            && !out_of_time
            && record.members.contains(&record.ask.site)
    };
    let unnamed = |record: &&Record| record.told.status == 504 && record.told.operation.is_none();
    match evidence.records.iter().filter(replicated).find(unnamed) {
        Some(record) => {
            Err(format!("w{} is a 504 without an operation: {:?}", record.ask.number, record.told.problem))
        }
        None => Ok(()),
    }
}
