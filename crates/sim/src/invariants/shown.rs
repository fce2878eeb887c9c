//! What administrators are shown, beside what is.

use mesh::replication::ReplicaState;
use serde_json::Value;

use crate::isle::NAMES;
use crate::run::Evidence;
use crate::schedule::Act;

/// While replicas come back and are changed by hand, what is shown as good is there, and does not differ once it was compared.
/// When all is quiet, every site shows of every replica what its service has: good where it has the image, and deleted where it
/// has it no more.
pub(super) fn what_is_shown_is_so(evidence: &Evidence) -> Result<(), String> {
    if let Some(misled) = &evidence.misled {
        return Err(misled.clone());
    }
    if evidence.unquiet.is_some() || evidence.restored || evidence.shut.site.is_some() {
        return Ok(());
    }
    if let Some(ghost) = &evidence.ghosts {
        return Err(ghost.clone());
    }
    for (by, of, at, state) in &evidence.shown {
        let made = Value::from(format!("w{of}"));
        let there = evidence.images[*at].values().any(|image| image.get("made") == Some(&made));
        let is_so = match state {
            ReplicaState::Good => there,
            ReplicaState::Deleted => !there,
            _ => false,
        };
        if !is_so {
            let has = if there { "has it" } else { "does not have it" };
            let (by, at) = (NAMES[*by], NAMES[*at]);
            return Err(format!("{by} shows w{of} at {at} as {state}, and the service there {has}"));
        }
    }
    Ok(())
}

/// A dry run is answered as the service answers it, and nothing of it is recorded.
pub(super) fn dry_runs_leave_nothing(evidence: &Evidence) -> Result<(), String> {
    let dry = evidence.records.iter().filter(|record| matches!(record.ask.act, Act::DryRun { .. }));
    for record in dry {
        if let Some(operation) = &record.told.operation {
            return Err(format!("w{} changes nothing, and is recorded as {operation}", record.ask.number));
        }
    }
    Ok(())
}
