//! What must hold after a run. Each attacks a promise of the architecture, or of `docs/requests.md`.

mod availability;
mod counted;
mod exclusive;
mod files;
mod held;
mod lists;
mod membership;
mod own_writes;
mod revocation;
mod shown;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::app::{Done, MOST};
use crate::client::Verdict;
use crate::isle::NAMES;
use crate::linear::{self, Operation};
use crate::run::{Evidence, Record};
use crate::schedule::{Act, Level};

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The function that found it.
    pub invariant: &'static str,
    /// What it found.
    pub what: String,
}

type Invariant = fn(&Evidence) -> Result<(), String>;

/// All of them.
pub const ALL: &[(&str, Invariant)] = &[
    ("sites_converge", sites_converge),
    ("acknowledged_is_there_once", acknowledged_is_there_once),
    ("nothing_runs_twice", nothing_runs_twice),
    ("nothing_vanishes", nothing_vanishes),
    ("nothing_comes_back", nothing_comes_back),
    ("deleted_is_gone", deleted_is_gone),
    ("refused_had_no_effect", refused_had_no_effect),
    ("ordered_is_linearizable", ordered_is_linearizable),
    ("eventual_is_causal", eventual_is_causal),
    ("newer_never_loses_to_older", newer_never_loses_to_older),
    ("a_site_shows_what_it_acknowledged", own_writes::a_site_shows_what_it_acknowledged),
    ("only_what_is_concurrent_beats", only_what_is_concurrent_beats),
    ("local_requests_are_served", local_requests_are_served),
    ("scope_sites_never_lies", scope_sites_never_lies),
    ("exclusive_is_at_one_site", exclusive::exclusive_is_at_one_site),
    ("files_are_whole", files::files_are_whole),
    ("the_last_upload_stays", files::the_last_upload_stays),
    ("spools_are_empty", files::spools_are_empty),
    ("queues_are_bounded", queues_are_bounded),
    ("services_are_left_in_peace", services_are_left_in_peace),
    ("sites_know_each_other", membership::sites_know_each_other),
    ("the_living_are_found", membership::the_living_are_found),
    ("a_goodbye_is_heard", membership::a_goodbye_is_heard),
    ("what_is_out_is_not_asked", membership::what_is_out_is_not_asked),
    ("nobody_is_misread", membership::nobody_is_misread),
    ("the_revoked_get_nothing", revocation::the_revoked_get_nothing),
    ("the_revoked_are_cut_off", revocation::the_revoked_are_cut_off),
    ("the_revoked_stay_out", revocation::the_revoked_stay_out),
    ("a_revocation_is_heard", revocation::a_revocation_is_heard),
    ("lists_tell_each_once", lists::lists_tell_each_once),
    ("images_answer_to_their_own_ids", counted::images_answer_to_their_own_ids),
    ("what_is_shown_is_so", shown::what_is_shown_is_so),
    ("dry_runs_leave_nothing", shown::dry_runs_leave_nothing),
    ("the_revoked_have_no_replica", revocation::the_revoked_have_no_replica),
    ("others_go_on", availability::others_go_on),
    ("reads_elsewhere_are_no_older", availability::reads_elsewhere_are_no_older),
    ("unknown_outcomes_are_named", availability::unknown_outcomes_are_named),
    ("requests_are_answered", held::requests_are_answered),
    ("what_is_unknown_has_a_name", held::what_is_unknown_has_a_name),
    ("acknowledged_is_executed_or_refused", held::acknowledged_is_executed_or_refused),
    ("what_waits_says_why", held::what_waits_says_why),
    ("the_deleted_is_gone_at_once", held::the_deleted_is_gone_at_once),
];

/// What does not hold.
#[must_use]
pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let broken = |(invariant, holds): &(&'static str, Invariant)| {
        let what = holds(evidence).err()?;
        Some(Violation { invariant, what })
    };
    ALL.iter().filter_map(broken).collect()
}

/// An image, by what it was made by: where it is, and what it is.
struct Image<'e> {
    record: &'e Record,
    /// At each site, all that are there.
    at: Vec<Vec<&'e Map<String, Value>>>,
}

/// All that clients made, or tried to.
fn images(evidence: &Evidence) -> Vec<Image<'_>> {
    let made = evidence.records.iter().filter(|record| matches!(record.ask.act, Act::Create { .. }));
    made.map(|record| {
        let name = name(record);
        let mine = |images: &'_ BTreeMap<String, Map<String, Value>>| -> Vec<String> {
            images.iter().filter(|(_, image)| text(image, "made") == name).map(|(id, _)| id.clone()).collect()
        };
        let at = evidence.images.iter();
        let at = at.map(|images| mine(images).iter().filter_map(|id| images.get(id)).collect()).collect();
        Image { record, at }
    })
    .collect()
}

fn text<'i>(image: &'i Map<String, Value>, field: &str) -> &'i str {
    image.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn name(record: &Record) -> String {
    format!("w{}", record.ask.number)
}

/// What was done to an image.
fn writes_to<'e>(evidence: &'e Evidence, made: &Record) -> impl Iterator<Item = &'e Record> {
    let number = made.ask.number;
    evidence.records.iter().filter(move |record| match record.ask.act {
        Act::Add { of }
        | Act::Patch { of, .. }
        | Act::Label { of, .. }
        | Act::Tags { of, .. }
        | Act::Spec { of, .. }
        | Act::Specs { of, .. }
        | Act::Hold { of, .. }
        | Act::Put { of }
        | Act::Upload { of, .. }
        | Act::Protect { of }
        | Act::Delete { of } => of == number,
        _ => false,
    })
}

/// What a client may conclude: less than it was told, where the site that told it was given an old copy of its records
/// later or is shut out, and at `@weak`, where an answer says only that it was recorded.
fn verdict(record: &Record) -> Verdict {
    let weak = record.lost || record.level == Level::Weak;
    if weak && record.told.verdict == Verdict::Done { Verdict::Unknown } else { record.told.verdict }
}

/// "When sites can talk again, they converge": after everything was mended, no site waits for another, and each
/// replicated image is the same at each of its sites, or at none, and nowhere else.
fn sites_converge(evidence: &Evidence) -> Result<(), String> {
    if let Some(unquiet) = &evidence.unquiet {
        return Err(format!("the sites are not done: {unquiet}"));
    }
    for image in images(evidence) {
        let name = name(image.record);
        let strip = |images: &Vec<&Map<String, Value>>| -> Vec<Map<String, Value>> {
            let bare = |image: &&Map<String, Value>| {
                // Names of operations are each service's own.
                let fields = image.iter().filter(|(field, _)| !["id", "op", "ops"].contains(&field.as_str()));
                fields.map(|(field, value)| (field.clone(), value.clone())).collect()
            };
            images.iter().map(bare).collect()
        };
        // What a site made and has no record of any more is an ordinary resource of its service.
        let there = (0..image.at.len()).filter(|site| !image.at[*site].is_empty()).collect::<Vec<_>>();
        if image.record.lost && matches!(there[..], [site] if evidence.forgot.contains(&site)) {
            continue;
        }
        let first = image.record.members.first().map(|site| strip(&image.at[*site])).unwrap_or_default();
        for (site, there) in image.at.iter().enumerate() {
            let there = strip(there);
            if !image.record.members.contains(&site) {
                if !there.is_empty() {
                    return Err(format!("{name} is at {}, which its scope does not name", NAMES[site]));
                }
            } else if there != first {
                return Err(format!("{name} is {there:?} at {}, and {first:?} elsewhere", NAMES[site]));
            }
        }
    }
    Ok(())
}

/// "An acknowledged write survives any crash": what was added is counted once at every site, and what was made outside
/// of replication is at one.
fn acknowledged_is_there_once(evidence: &Evidence) -> Result<(), String> {
    for image in images(evidence) {
        let erased = writes_to(evidence, image.record).any(|record| {
            matches!(record.ask.act, Act::Put { .. } | Act::Delete { .. })
                && record.told.verdict != Verdict::Refused
        });
        for added in
            writes_to(evidence, image.record).filter(|record| matches!(record.ask.act, Act::Add { .. }))
        {
            for site in &image.record.members {
                let Some(there) = image.at[*site].first() else { continue };
                let count = there.get("adds").and_then(|adds| adds.get(name(added))).and_then(Value::as_u64);
                let count = count.unwrap_or(0);
                if count > 1 || (count == 0 && !erased && verdict(added) == Verdict::Done) {
                    return Err(format!("{} is counted {count} times at {}", name(added), NAMES[*site]));
                }
            }
        }
    }
    for record in &evidence.records {
        let Act::Forward { .. } = record.ask.act else { continue };
        let name = name(record);
        let count: usize = evidence
            .images
            .iter()
            .map(|images| images.values().filter(|image| text(image, "made") == name).count())
            .sum();
        if count > 1 || (count == 0 && record.told.verdict == Verdict::Done && !evidence.restored) {
            return Err(format!("{name} is at {count} sites"));
        }
    }
    Ok(())
}

/// "A write is never executed twice at a site": no service has an image twice, and none executed twice what may not be
/// repeated.
fn nothing_runs_twice(evidence: &Evidence) -> Result<(), String> {
    for image in images(evidence) {
        for (site, there) in image.at.iter().enumerate() {
            if there.len() > 1 {
                return Err(format!("{} is {} times at {}", name(image.record), there.len(), NAMES[site]));
            }
        }
    }
    if evidence.restored {
        return Ok(());
    }
    for (site, ledger) in evidence.ledgers.iter().enumerate() {
        let mut seen = BTreeSet::new();
        // Patches, replacements and deletions may be repeated; the rest may not.
        let patches = |done: &Done| done.method != "POST" || done.path.ends_with("/specs");
        let once = |done: &&Done| done.effect && !patches(done) && done.by.is_some();
        for done in ledger.iter().filter(once) {
            // A replacement from elsewhere erases what was added: then that is added again.
            let again = ledger
                .iter()
                .any(|other| other.effect && other.method == "PUT" && done.path.starts_with(&other.path));
            if !seen.insert(&done.by) && !again {
                return Err(format!("{} executed {:?} twice", NAMES[site], done.by));
            }
        }
    }
    Ok(())
}

/// "Healing never deletes a resource that nobody asked to delete": what was acknowledged and not deleted is at each of
/// its sites.
fn nothing_vanishes(evidence: &Evidence) -> Result<(), String> {
    for image in images(evidence) {
        let deleted = writes_to(evidence, image.record).any(|record| {
            matches!(record.ask.act, Act::Delete { .. }) && record.told.verdict != Verdict::Refused
        });
        if deleted || verdict(image.record) != Verdict::Done {
            continue;
        }
        for site in &image.record.members {
            if image.at[*site].is_empty() {
                return Err(format!("{} was made, and is not at {}", name(image.record), NAMES[*site]));
            }
        }
    }
    Ok(())
}

/// What an acknowledged deletion has seen does not come back: the image is nowhere.
fn nothing_comes_back(evidence: &Evidence) -> Result<(), String> {
    for image in images(evidence) {
        let deleted = writes_to(evidence, image.record)
            .find(|record| matches!(record.ask.act, Act::Delete { .. }) && verdict(record) == Verdict::Done);
        let Some(deleted) = deleted else { continue };
        if let Some(site) = image.at.iter().position(|there| !there.is_empty()) {
            return Err(format!(
                "{} was deleted by {}, and is at {}",
                name(image.record),
                name(deleted),
                NAMES[site]
            ));
        }
    }
    Ok(())
}

/// What a site shows as deleted its service does not have any more.
fn deleted_is_gone(evidence: &Evidence) -> Result<(), String> {
    evidence.hasty.clone().map_or(Ok(()), Err)
}

/// "A refused request had no effect anywhere": no service has, or ever had, anything of it.
fn refused_had_no_effect(evidence: &Evidence) -> Result<(), String> {
    for record in &evidence.records {
        if !record.ask.act.writes() || record.told.verdict != Verdict::Refused {
            continue;
        }
        let by = name(record);
        for (site, ledger) in evidence.ledgers.iter().enumerate() {
            if ledger.iter().any(|done| done.by.as_ref() == Some(&by) && done.effect) {
                return Err(format!(
                    "{by} was refused ({}), and {} executed it",
                    record.told.status, NAMES[site]
                ));
            }
        }
    }
    Ok(())
}

/// `@strong`, and `@quorum` with confirmed reads: what clients are told is what one register at one place could have told.
fn ordered_is_linearizable(evidence: &Evidence) -> Result<(), String> {
    for image in images(evidence).iter().filter(|image| image.record.level.is_ordered()) {
        if image.record.told.verdict != Verdict::Done {
            continue;
        }
        let number = image.record.ask.number;
        let history: Vec<Operation> = evidence
            .records
            .iter()
            .filter_map(|record| {
                let (of, reads) = match record.ask.act {
                    Act::Patch { of, .. } => (of, false),
                    Act::Read { of } => (of, true),
                    _ => return None,
                };
                if of != number || record.told.verdict == Verdict::Refused {
                    return None;
                }
                let done = record.told.verdict == Verdict::Done;
                // At `@strong` a read without a confirmation is only promised at its replicas.
                if reads && !done {
                    return None;
                }
                let seen =
                    || record.told.body.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
                let what = if reads { linear::What::Read(seen()) } else { linear::What::Write(name(record)) };
                Some(Operation { from: record.told.from, to: done.then_some(record.told.to), what })
            })
            .collect();
        if !linear::is_linearizable(&name(image.record), &history) {
            let text: Vec<String> = history.iter().map(|operation| format!("{:?}", operation.what)).collect();
            let level = image.record.level;
            return Err(format!(
                "{} at {level:?} is not one register: {}",
                name(image.record),
                text.join(", ")
            ));
        }
    }
    Ok(())
}

/// What sets the name of an image at a level without an order.
fn named(record: &Record) -> Option<usize> {
    match record.ask.act {
        Act::Patch { of, refused: false } | Act::Put { of } if record.level == Level::Eventual => Some(of),
        _ => None,
    }
}

/// Whether the site that was asked took the write itself. One that is not good hands it on, and has yet to hear of it.
fn taken_there(record: &Record) -> bool {
    record.told.sites.contains(&format!("\"{}\";status=2", NAMES[record.ask.site]))
}

/// A later write, acknowledged at the same site, that was asked for after the earlier one was acknowledged there.
fn later_at_the_same_site<'e>(
    evidence: &'e Evidence,
    earlier: &'e Record,
) -> impl Iterator<Item = &'e Record> {
    evidence.records.iter().filter(move |later| {
        named(later) == named(earlier)
            && later.ask.site == earlier.ask.site
            && taken_there(later)
            && taken_there(earlier)
            && verdict(later) == Verdict::Done
            && verdict(earlier) == Verdict::Done
            && later.told.from > earlier.told.to
    })
}

/// Whether another site's replace came over a later replace, at a site. That is as if it had never been: a patch before it counts
/// again, where the one that won has not seen it.
fn is_beaten(evidence: &Evidence, site: usize, wrote: &Record, later: &Record) -> bool {
    let is_put = |record: &Record| matches!(record.ask.act, Act::Put { .. });
    let executed = |record: &Record| {
        let ledger = &evidence.ledgers[site];
        ledger.iter().rposition(|done| done.effect && done.by.as_deref() == Some(&name(record)))
    };
    let others = evidence.records.iter().filter(|other| is_put(other) && named(other) == named(later));
    let mut others = others.filter(|other| other.ask.site != later.ask.site);
    is_put(later) && !is_put(wrote) && others.any(|other| executed(other) > executed(later))
}

/// `@eventual` is causal: a site whose replica answers does not show again what a later write there has replaced, and that
/// was not beaten.
fn eventual_is_causal(evidence: &Evidence) -> Result<(), String> {
    for read in &evidence.records {
        let Act::Read { of } = read.ask.act else { continue };
        // Another site's replica may know less.
        let own = read.told.sites.is_empty()
            || read.told.sites.starts_with(&format!("\"{}\"", NAMES[read.ask.site]));
        if read.level != Level::Eventual || read.told.verdict != Verdict::Done || !own {
            continue;
        }
        let seen = read.told.body.get("name").and_then(Value::as_str).unwrap_or_default();
        let wrote = evidence.records.iter().find(|record| named(record) == Some(of) && name(record) == seen);
        let Some(wrote) = wrote.filter(|wrote| wrote.ask.site == read.ask.site) else { continue };
        let stays = |later: &&Record| {
            later.told.to < read.told.from && !is_beaten(evidence, read.ask.site, wrote, later)
        };
        if let Some(later) = later_at_the_same_site(evidence, wrote).find(stays) {
            return Err(format!("{} saw {seen} after {} was acknowledged there", name(read), name(later)));
        }
    }
    Ok(())
}

/// Of two writes the one that has seen the other stays, whatever clocks say, unless that one was beaten.
fn newer_never_loses_to_older(evidence: &Evidence) -> Result<(), String> {
    for image in images(evidence) {
        let there = image.at.iter().enumerate();
        for (site, there) in there.flat_map(|(site, all)| all.iter().map(move |there| (site, there))) {
            let last = text(there, "name");
            let wrote = writes_to(evidence, image.record)
                .find(|record| named(record).is_some() && name(record) == last);
            let Some(wrote) = wrote else { continue };
            let stays = |later: &&Record| !is_beaten(evidence, site, wrote, later);
            if let Some(later) = later_at_the_same_site(evidence, wrote).find(stays) {
                return Err(format!("{last} is there at the end, and {} came after it", name(later)));
            }
        }
    }
    Ok(())
}

/// A write is refused as beaten only by one that its site had not executed when it was accepted: where all others were
/// acknowledged by that site before, none is.
fn only_what_is_concurrent_beats(evidence: &Evidence) -> Result<(), String> {
    for image in images(evidence).iter().filter(|_| !evidence.restored) {
        let beaten = |record: &&Record| record.told.problem.as_deref() == Some("beaten");
        for beaten in writes_to(evidence, image.record).filter(beaten) {
            let before = |other: &Record| {
                verdict(other) == Verdict::Done
                    && taken_there(other)
                    && other.ask.site == beaten.ask.site
                    && other.told.to < beaten.told.from
            };
            let mut others = writes_to(evidence, image.record).filter(|other| {
                other.ask.number != beaten.ask.number && other.told.verdict != Verdict::Refused
            });
            if others.all(before) {
                return Err(format!("{} is beaten, and has seen all others", name(beaten)));
            }
        }
    }
    Ok(())
}

/// "A local request is answered with every other site down, with no added wait", whatever happens to other sites, the
/// network between them, and disks.
fn local_requests_are_served(evidence: &Evidence) -> Result<(), String> {
    for record in &evidence.records {
        let Act::Local = record.ask.act else { continue };
        let took = record.told.to - record.told.from;
        if record.well && (record.told.status != 200 || took > Duration::from_millis(500)) {
            let site = NAMES[record.ask.site];
            return Err(format!("{} at {site}: {} after {took:?}", name(record), record.told.status));
        }
    }
    Ok(())
}

/// `Scope-Sites` never lies: a site that is said to have executed a write has, and one that could not be reached has not.
fn scope_sites_never_lies(evidence: &Evidence) -> Result<(), String> {
    for record in &evidence.records {
        if !record.ask.act.writes() {
            continue;
        }
        for said in record.told.sites.split(", ").filter(|said| !said.is_empty()) {
            let mut words = said.split(';');
            let site = words.next().unwrap_or_default().trim_matches('"');
            let Some(site) = NAMES.iter().position(|name| *name == site) else {
                return Err(format!("{}: there is no site {said}", name(record)));
            };
            let own = |done: &&Done| done.by == Some(name(record)) && done.at <= record.told.to;
            let executed = evidence.ledgers[site].iter().filter(own).any(|done| done.status < 400);
            // To be asked whether it has something is not to execute.
            let wrote = |done: &Done| done.status < 400 && done.method != "HEAD";
            let wrote = evidence.ledgers[site].iter().filter(own).any(wrote);
            // One that could not execute it may have been given the state of one that did.
            let given = |done: &Done| done.by.is_none() && done.effect && done.at <= record.told.to;
            let has = executed || evidence.ledgers[site].iter().any(given);
            for word in words {
                let claims = word.strip_prefix("status=").and_then(|status| status.parse::<u16>().ok());
                let wrong = match (claims, word) {
                    (Some(200..=299), _) => !executed,
                    (None, "done") => !has,
                    (None, "error=unreachable") => wrote,
                    _ => false,
                };
                if wrong {
                    return Err(format!(
                        "{}: {said}, and the service there has executed: {executed}",
                        name(record)
                    ));
                }
            }
        }
    }
    Ok(())
}

/// "Memory is bounded": once all is answered and every site has everything, nothing is in flight, and no write is kept.
fn queues_are_bounded(evidence: &Evidence) -> Result<(), String> {
    for ((site, in_flight), bytes) in NAMES.iter().zip(&evidence.in_flight).zip(&evidence.kept_bytes) {
        if *in_flight > 0 {
            return Err(format!("{in_flight} requests are in flight at {site} at the end"));
        }
        if evidence.unquiet.is_none() && *bytes > 0 {
            return Err(format!("{site} keeps {bytes} bytes of writes that all sites have"));
        }
    }
    Ok(())
}

/// What was executed is not asked for again and again.
fn services_are_left_in_peace(evidence: &Evidence) -> Result<(), String> {
    match evidence.ledgers.iter().position(|ledger| ledger.len() >= MOST) {
        Some(site) => Err(format!("{} was asked {MOST} times", NAMES[site])),
        None => Ok(()),
    }
}
