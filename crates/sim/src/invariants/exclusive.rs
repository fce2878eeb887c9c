//! What `A ^ B` promises of writes.

use crate::client::Verdict;
use crate::isle::NAMES;
use crate::run::Evidence;
use crate::schedule::Act;

/// `A ^ B` makes what exactly one site has: whoever races for a new name, one site at most ever makes it; and who was
/// told that it is made, is right.
pub(super) fn exclusive_is_at_one_site(evidence: &Evidence) -> Result<(), String> {
    for record in &evidence.records {
        let Act::Exclusive { of, .. } = record.ask.act else { continue };
        let name = format!("x{of}");
        let path = format!("/names/{name}");
        let made = |site: &usize| {
            let made = evidence.ledgers[*site].iter().any(|done| done.path == path && done.effect);
            made || evidence.names[*site].contains(&name)
        };
        let at: Vec<&str> = (0..evidence.ledgers.len()).filter(made).map(|site| NAMES[site]).collect();
        if at.len() > 1 {
            return Err(format!("{name} was made at {}", at.join(" and ")));
        }
        let by = Some(format!("w{}", record.ask.number));
        let executed = evidence.ledgers.iter().flatten().any(|done| done.by == by && done.status < 300);
        if record.told.verdict == Verdict::Done && !executed {
            return Err(format!(
                "w{} was told {}, and no site executed it",
                record.ask.number, record.told.status
            ));
        }
    }
    Ok(())
}
