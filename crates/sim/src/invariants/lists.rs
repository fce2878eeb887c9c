//! What clients see of lists of several sites.

use std::collections::BTreeSet;

use serde_json::Value;

use super::name;
use crate::isle::NAMES;
use crate::run::{Evidence, Walked};
use crate::schedule::Act;

/// Whoever follows the pages of a list sees nothing twice, whatever happens meanwhile; and when nothing does, all that is at
/// its sites, once.
pub(super) fn lists_tell_each_once(evidence: &Evidence) -> Result<(), String> {
    let moved = |id: &str| evidence.moved.iter().any(|moved| moved == id);
    let is_alone = |made: &str| {
        let asked = evidence.records.iter().find(|record| name(record) == made);
        asked.is_some_and(|record| matches!(record.ask.act, Act::Make | Act::Forward { .. }))
    };
    for walked in &evidence.walks {
        let mut seen = BTreeSet::new();
        // Where services count, an image of one site alone shares its number with those of other sites.
        let mut is_new =
            |id: &str, made: &str| seen.insert((id.to_owned(), is_alone(made).then(|| made.to_owned())));
        // What was given one more site meanwhile may come again there.
        let again = walked.told.iter().find(|(id, made)| !is_new(id, made) && (walked.quiet || !moved(id)));
        if let Some((id, made)) = again {
            return Err(format!("{made} ({id}) is told twice {}", of(walked)));
        }
    }
    if evidence.unquiet.is_some() || evidence.restored {
        return Ok(());
    }
    for walked in evidence.walks.iter().filter(|walked| walked.quiet) {
        if !walked.whole {
            return Err(format!("a page failed or lacks a site {}", of(walked)));
        }
        let mut there: Vec<&str> =
            walked.walk.sites.iter().flat_map(|site| made_at(evidence, *site)).collect();
        there.sort_unstable();
        there.dedup();
        let mut told: Vec<&str> = walked.told.iter().map(|(_, made)| made.as_str()).collect();
        told.sort_unstable();
        if told != there {
            return Err(format!("told {told:?}, and there are {there:?} {}", of(walked)));
        }
    }
    Ok(())
}

fn made_at(evidence: &Evidence, site: usize) -> impl Iterator<Item = &str> {
    let images = evidence.images.get(site).into_iter().flat_map(|images| images.values());
    images.filter_map(|image| image.get("made").and_then(Value::as_str))
}

fn of(walked: &Walked) -> String {
    let sites: Vec<&str> = walked.walk.sites.iter().map(|site| NAMES[*site]).collect();
    format!("at {}, of {}, limit {}", NAMES[walked.walk.site], sites.join(" & "), walked.walk.limit)
}
