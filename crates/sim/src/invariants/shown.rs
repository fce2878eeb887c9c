//! What administrators are shown, beside what is.

use mesh::replication::ReplicaState;
use serde_json::Value;

use crate::isle::NAMES;
use crate::run::Evidence;

/// When all is quiet, every site shows of every replica what its service has: good where it has the image, and deleted where it
/// has it no more.
pub(super) fn what_is_shown_is_so(evidence: &Evidence) -> Result<(), String> {
    if evidence.unquiet.is_some() || evidence.restored || evidence.shut.site.is_some() {
        return Ok(());
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
