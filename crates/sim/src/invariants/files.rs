//! What must hold of long bodies: `docs/replication.md#long-bodies`.

use serde_json::Value;

use super::{images, name, taken_there, text, verdict, writes_to};
use crate::client::Verdict;
use crate::isle::NAMES;
use crate::run::{Evidence, Record};
use crate::schedule::{Act, Level};

/// The number of the upload that a file is of.
fn by(file: &str) -> Option<usize> {
    file.strip_prefix('w')?.split_once(' ')?.0.parse().ok()
}

/// What is not all there is never shown as a whole, neither to a service nor to a client, nor is what was refused, nor
/// what was sent for another image.
pub(super) fn files_are_whole(evidence: &Evidence) -> Result<(), String> {
    if let Some(damaged) = &evidence.damaged {
        return Err(format!("what {damaged} was given nobody sent"));
    }
    for read in evidence.records.iter().filter(|record| record.told.status == 200) {
        let Act::Fetch { of } = read.ask.act else { continue };
        let file = read.told.body.as_str().unwrap_or_default();
        let sent = evidence.records.iter().find(|record| Some(record.ask.number) == by(file));
        let own = sent.is_some_and(|sent| {
            matches!(sent.ask.act, Act::Upload { of: its, .. } if its == of)
                && sent.told.verdict != Verdict::Refused
        });
        // One that is not answered yet when it is read is not among the records, if the run ends before.
        if !own {
            return Err(format!("{} was shown {file:?}", name(read)));
        }
    }
    Ok(())
}

/// The file of an image is that of an upload to it, and not of one that a later one had seen; after one that was
/// acknowledged there is some.
pub(super) fn the_last_upload_stays(evidence: &Evidence) -> Result<(), String> {
    for image in images(evidence) {
        let uploads: Vec<&Record> = writes_to(evidence, image.record)
            .filter(|record| matches!(record.ask.act, Act::Upload { .. }))
            .collect();
        let replaced = writes_to(evidence, image.record).any(|record| {
            matches!(record.ask.act, Act::Put { .. } | Act::Delete { .. })
                && record.told.verdict != Verdict::Refused
        });
        for (site, there) in
            image.at.iter().enumerate().flat_map(|(site, all)| all.iter().map(move |there| (site, there)))
        {
            let file = text(there, "file");
            let last = uploads.iter().find(|upload| Some(upload.ask.number) == by(file));
            let done = uploads.iter().find(|upload| verdict(upload) == Verdict::Done);
            match (last, done) {
                (None, Some(done)) if !replaced => {
                    return Err(format!("{} was acknowledged, and {} has {file:?}", name(done), NAMES[site]));
                }
                (None, _) if there.get("file").is_some_and(|file| *file != Value::Null) => {
                    return Err(format!("{} has {file:?}, which is no upload to it", NAMES[site]));
                }
                (Some(last), _) => {
                    let later = uploads.iter().find(|later| has_seen(later, last));
                    if let Some(later) = later.filter(|_| !replaced) {
                        return Err(format!("{file} is there at the end, and {} came after it", name(later)));
                    }
                }
                (None, _) => {}
            }
        }
    }
    Ok(())
}

/// Whether the site of one upload had acknowledged the other before.
fn has_seen(later: &Record, earlier: &Record) -> bool {
    let counts = |record: &Record| {
        record.level == Level::Eventual && taken_there(record) && verdict(record) == Verdict::Done
    };
    counts(later)
        && counts(earlier)
        && later.ask.site == earlier.ask.site
        && later.told.from > earlier.told.to
}

/// Once every site has everything, no spool has anything.
pub(super) fn spools_are_empty(evidence: &Evidence) -> Result<(), String> {
    let left = NAMES.iter().zip(&evidence.bodies).find(|(_, names)| !names.is_empty());
    match left.filter(|_| evidence.unquiet.is_none()) {
        Some((site, names)) => Err(format!("{site} still has {names:?}")),
        None => Ok(()),
    }
}
