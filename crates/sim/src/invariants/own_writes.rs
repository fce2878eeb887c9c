//! What a client may expect of the site that it wrote at.

use serde_json::Value;

use super::{name, taken_there, verdict, writes_to};
use crate::client::Verdict;
use crate::isle::NAMES;
use crate::run::{Evidence, Record};
use crate::schedule::{Act, Level};

/// At `@eventual` a site that acknowledged an addition shows it to whoever reads there afterwards, as long as no replacement
/// that has seen it came, and nothing was deleted.
pub(super) fn a_site_shows_what_it_acknowledged(evidence: &Evidence) -> Result<(), String> {
    for read in &evidence.records {
        let Act::Read { of } = read.ask.act else { continue };
        // Another site's replica may know less.
        let own = read.told.sites.is_empty()
            || read.told.sites.starts_with(&format!("\"{}\"", NAMES[read.ask.site]));
        if read.level != Level::Eventual || read.told.status != 200 || !own || evidence.restored {
            continue;
        }
        let Some(made) = evidence.records.iter().find(|record| record.ask.number == of) else { continue };
        let added = writes_to(evidence, made).filter(|record| {
            matches!(record.ask.act, Act::Add { .. })
                && record.ask.site == read.ask.site
                && taken_there(record)
                && verdict(record) == Verdict::Done
                && record.told.to < read.told.from
        });
        for added in added {
            let shown =
                read.told.body.get("adds").and_then(|adds| adds.get(name(added))).and_then(Value::as_u64);
            if shown.is_none() && !writes_to(evidence, made).any(|other| erases(evidence, other, added)) {
                return Err(format!(
                    "w{} did not see {}, which {} had acknowledged",
                    read.ask.number,
                    name(added),
                    NAMES[read.ask.site]
                ));
            }
        }
    }
    Ok(())
}

/// Whether a write may have erased an addition for good: it is a deletion, or a replacement that some service executed for the first
/// time when it had the addition.
fn erases(evidence: &Evidence, other: &Record, added: &Record) -> bool {
    match other.ask.act {
        Act::Delete { .. } => other.told.verdict != Verdict::Refused,
        Act::Put { .. } => evidence.ledgers.iter().any(|ledger| {
            let first =
                |by: &str| ledger.iter().position(|done| done.effect && done.by.as_deref() == Some(by));
            let put = first(&name(other));
            // Given the state of another, it may have had it too.
            let given = ledger.iter().position(|done| done.effect && done.by.is_none());
            let had = |at: Option<usize>| at.zip(put).is_some_and(|(at, put)| at < put);
            is_first(evidence, other, put.map(|put| ledger[put].at))
                && (had(first(&name(added))) || had(given))
        }),
        _ => false,
    }
}

/// Whether no service executed it before.
fn is_first(evidence: &Evidence, record: &Record, at: Option<tokio::time::Instant>) -> bool {
    let by = Some(name(record));
    let mut all = evidence.ledgers.iter().flatten().filter(|done| done.effect && done.by == by);
    at.is_some_and(|at| all.all(|done| done.at >= at))
}
