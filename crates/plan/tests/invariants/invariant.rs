//! The invariants, each over one history.

use std::collections::BTreeSet;

use plan::{Answer, Effect, Event, Finding, Knowledge, Leg, Reach, Sent};
use scope::{Plan, Site};

use crate::history::{Entry, History};

fn is_final(effect: &Effect) -> bool {
    matches!(effect, Effect::Answer { .. } | Effect::Merge { .. } | Effect::Fail(_))
}

/// It always ends once the time of every timer has passed and every cancelled leg is reported.
pub(crate) fn invariant_it_always_ends(history: &History) {
    assert!(history.effects().any(is_final), "it stalled: {history:#?}");
}

pub(crate) fn invariant_there_is_exactly_one_final_effect(history: &History) {
    let count = history.effects().filter(|effect| is_final(effect)).count();
    assert_eq!(count, 1, "{history:#?}");
}

pub(crate) fn invariant_nothing_comes_after_the_final_effect(history: &History) {
    let last = history.effects().last();
    let after = history.effects().skip_while(|effect| !is_final(effect)).count();
    assert!(last.is_some_and(is_final) && after == 1, "{history:#?}");
}

/// The first word on a leg counts: what contradicts it comes late.
pub(crate) fn invariant_a_write_is_sent_again_only_where_it_provably_did_not_execute(history: &History) {
    if !matches!(history.request, plan::Request::Write { .. }) {
        return;
    }
    let mut unproven = BTreeSet::new();
    let mut open = BTreeSet::new();
    for entry in &history.log {
        match entry {
            Entry::Out(Effect::Send { leg, .. } | Effect::Replicate { leg, .. }) => {
                assert!(unproven.is_empty(), "{leg:?} was sent after {unproven:?}: {history:#?}");
                unproven.insert(*leg);
                open.insert(*leg);
            }
            Entry::In(Event::Failed { leg, sent, .. }) => {
                let first_word = open.remove(leg);
                if first_word && *sent == Sent::No {
                    unproven.remove(leg);
                }
            }
            Entry::In(Event::Answered { leg, finding, .. }) => {
                let first_word = open.remove(leg);
                if first_word && *finding == Finding::NoEffect {
                    unproven.remove(leg);
                }
            }
            _ => {}
        }
    }
}

pub(crate) fn invariant_nothing_is_written_while_a_probe_is_out(history: &History) {
    let mut out = BTreeSet::new();
    for entry in &history.log {
        match entry {
            Entry::Out(Effect::Probe { leg, .. }) => {
                out.insert(*leg);
            }
            Entry::In(Event::Failed { leg, .. } | Event::Answered { leg, .. })
            | Entry::Out(Effect::Cancel { leg }) => {
                out.remove(leg);
            }
            Entry::Out(Effect::Send { leg, .. } | Effect::Replicate { leg, .. }) => {
                assert!(out.is_empty(), "{leg:?} was sent before {out:?} answered: {history:#?}");
            }
            _ => {}
        }
    }
}

/// The sites that a plan names outside of every `^`: a write there needs no reservation.
fn outside_of_unique(plan: &Plan, sites: &mut BTreeSet<Site>) {
    match plan {
        Plan::Site(site) => {
            sites.insert(site.clone());
        }
        Plan::One(_) => {}
        Plan::All(_, plans) | Plan::Any(plans) | Plan::Otherwise(plans) => {
            for plan in plans {
                outside_of_unique(plan, sites);
            }
        }
        Plan::Within(_, plan) => outside_of_unique(plan, sites),
    }
}

/// What `^` makes is written only while its name is reserved wherever it was to be; and what was to be reserved is released
/// once, right before the end, as known unless a write may have been executed.
///
/// A `^` reserves at one site after the other. If one of them does not say, that `^` has failed, and only a look elsewhere
/// or an operand outside of it may go on.
pub(crate) fn invariant_what_is_reserved_is_held_while_it_is_written_and_then_released(history: &History) {
    let mut free = BTreeSet::new();
    outside_of_unique(&history.plan, &mut free);
    let (mut wanted, mut open, mut held) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut failed = false;
    let (mut reserved, mut released) = (false, 0);
    for entry in &history.log {
        match entry {
            Entry::Out(Effect::Reserve { leg, site, group }) => {
                assert!(group.contains(site) && group.iter().all(|other| other >= site), "{history:#?}");
                assert!(open.is_empty() && !failed, "one after the other: {history:#?}");
                wanted.extend(group.iter().cloned());
                open.insert((*leg, site.clone()));
                reserved = true;
            }
            Entry::In(Event::Reserved { leg, held: true, .. }) => {
                held.extend(open.iter().filter(|(own, _)| own == leg).map(|(_, site)| site.clone()));
                open.retain(|(own, _)| own != leg);
            }
            Entry::In(Event::Reserved { leg, .. } | Event::Failed { leg, .. })
            | Entry::Out(Effect::Cancel { leg }) => {
                let before = open.len();
                open.retain(|(own, _)| own != leg);
                failed |= open.len() < before;
            }
            Entry::Out(Effect::Probe { .. }) => {
                assert!(failed || wanted.is_subset(&held), "looked too early: {history:#?}");
                wanted.clear();
                failed = false;
            }
            Entry::Out(Effect::Send { leg, site }) => {
                let all = free.contains(site) || !wanted.contains(site) || wanted.is_subset(&held);
                assert!(all && released == 0, "{leg:?}: {wanted:?}, {held:?}: {history:#?}");
            }
            Entry::Out(Effect::Release { .. }) => released += 1,
            _ => {}
        }
    }
    assert_eq!(released, usize::from(reserved), "{history:#?}");
    let ended: Vec<&Effect> = history.effects().collect();
    if let [.., Effect::Release { known }, end] = &ended[..] {
        let unknown = matches!(end, Effect::Fail(plan::Failure::Unknown | plan::Failure::ClientGone));
        assert_eq!(*known, !unknown, "{history:#?}");
    } else {
        assert!(released == 0, "{history:#?}");
    }
}

/// What the driver still holds after each entry of the log.
#[derive(Default)]
struct Holding {
    legs: BTreeSet<Leg>,
    probes: BTreeSet<Leg>,
    reserves: BTreeSet<Leg>,
    answered: BTreeSet<Leg>,
}

impl Holding {
    fn take(&mut self, entry: &Entry) {
        match entry {
            Entry::Out(Effect::Send { leg, .. } | Effect::Replicate { leg, .. }) => {
                self.legs.insert(*leg);
            }
            Entry::Out(Effect::Probe { leg, .. }) => {
                self.legs.insert(*leg);
                self.probes.insert(*leg);
            }
            Entry::Out(Effect::Reserve { leg, .. }) => {
                self.legs.insert(*leg);
                self.reserves.insert(*leg);
            }
            Entry::In(Event::Reserved { leg, .. }) if self.reserves.contains(leg) => {
                self.legs.remove(leg);
            }
            Entry::In(Event::Answered { leg, .. }) if self.reserves.contains(leg) => {}
            Entry::In(Event::Answered { leg, .. }) if self.probes.contains(leg) => {
                self.legs.remove(leg);
            }
            Entry::In(Event::Answered { leg, .. }) if self.legs.contains(leg) => {
                self.answered.insert(*leg);
            }
            Entry::In(Event::Failed { leg, .. }) | Entry::Out(Effect::Cancel { leg }) => {
                self.legs.remove(leg);
            }
            _ => {}
        }
    }
}

/// Every leg that is neither the answer nor ended is cancelled by the end.
pub(crate) fn invariant_every_leg_ends(history: &History) {
    let mut holding = Holding::default();
    for entry in &history.log {
        holding.take(entry);
        let kept = match entry {
            Entry::Out(effect) if is_final(effect) => answered_with(effect),
            _ => continue,
        };
        assert_eq!(holding.legs, kept.into_iter().collect(), "{history:#?}");
    }
}

pub(crate) fn invariant_a_leg_is_cancelled_at_most_once_and_while_it_lives(history: &History) {
    let mut holding = Holding::default();
    for entry in &history.log {
        if let Entry::Out(Effect::Cancel { leg }) = entry {
            assert!(holding.legs.contains(leg), "{leg:?}: {history:#?}");
        }
        holding.take(entry);
    }
}

/// The legs whose answers make up the answer.
fn answered_with(effect: &Effect) -> Vec<Leg> {
    match effect {
        Effect::Answer { leg } => vec![*leg],
        Effect::Merge { answer, .. } => answer.legs(),
        _ => vec![],
    }
}

/// What is merged are successes of different sites, and the order of nearness is one of the same legs.
pub(crate) fn invariant_only_what_succeeded_is_merged_and_each_site_once(history: &History) {
    for effect in history.effects() {
        let Effect::Merge { answer, nearest, .. } = effect else { continue };
        let (legs, mut nearest) = (answer.legs(), nearest.clone());
        assert!(legs.iter().all(|leg| (200..300).contains(&history.status(*leg).unwrap())), "{history:#?}");
        let mut in_order = legs;
        in_order.sort();
        nearest.sort();
        assert_eq!(in_order, nearest, "{history:#?}");
        invariant_no_union_repeats_a_site(answer, history);
    }
}

fn invariant_no_union_repeats_a_site(answer: &Answer, history: &History) {
    let (Answer::Union(parts) | Answer::Unique(parts)) = answer else { return };
    assert!(!parts.is_empty(), "{history:#?}");
    let legs = parts.iter().filter_map(|part| match part {
        Answer::Leg(leg) => Some(history.site(*leg)),
        _ => None,
    });
    let sites: Vec<&Site> = legs.collect();
    assert_eq!(sites.iter().collect::<BTreeSet<_>>().len(), sites.len(), "{history:#?}");
    for part in parts {
        let flat = !matches!((answer, part), (Answer::Union(_), Answer::Union(_)));
        assert!(flat, "a union in a union: {history:#?}");
        invariant_no_union_repeats_a_site(part, history);
    }
}

/// A list that lacks a site says so, and one that does not lacks none that failed or refused: apart from
/// what `;` and `|` went past.
pub(crate) fn invariant_a_plain_list_of_all_is_partial_exactly_where_a_site_is_missing(history: &History) {
    let Plan::All(_, operands) = &history.plan else { return };
    let sites = history.plan.sites();
    if sites.len() != operands.len() || !operands.iter().all(|operand| matches!(operand, Plan::Site(_))) {
        return;
    }
    for effect in history.effects() {
        let Effect::Merge { answer, partial, .. } = effect else { continue };
        assert_eq!(*partial, answer.legs().len() < sites.len(), "{history:#?}");
        assert!(!partial || history.request != (plan::Request::List { strict: true }), "{history:#?}");
        let merged: Vec<&Site> = answer.legs().iter().map(|leg| history.site(*leg)).collect();
        let in_order: Vec<&Site> = sites.iter().filter(|site| merged.contains(site)).collect();
        assert_eq!(merged, in_order, "in the order of the plan: {history:#?}");
    }
}

/// The legs whose answers are given were answered, and are neither lost nor cancelled nor probes.
pub(crate) fn invariant_the_answer_is_there_to_be_given(history: &History) {
    let mut holding = Holding::default();
    for entry in &history.log {
        if let Entry::Out(effect) = entry {
            for leg in answered_with(effect) {
                let held = holding.legs.contains(&leg) && holding.answered.contains(&leg);
                assert!(held, "{leg:?}: {history:#?}");
            }
        }
        holding.take(entry);
    }
}

fn asked(history: &History) -> BTreeSet<&Site> {
    let site = |effect| match effect {
        &Effect::Send { ref site, .. }
        | &Effect::Probe { ref site, .. }
        | &Effect::Reserve { ref site, .. } => Some(site),
        Effect::Replicate { sites, .. } => sites.first(),
        _ => None,
    };
    history.effects().filter_map(site).collect()
}

pub(crate) fn invariant_only_sites_of_the_plan_are_asked(history: &History) {
    let sites = history.plan.sites();
    for site in asked(history) {
        assert!(sites.contains(site), "{site}: {history:#?}");
    }
}

fn can_be_asked(site: &Site, history: &History) -> bool {
    matches!(history.sky.reach(site), Reach::Yes | Reach::Unknown)
}

pub(crate) fn invariant_what_cannot_be_reached_is_never_asked(history: &History) {
    for site in asked(history) {
        assert!(can_be_asked(site, history), "{site}: {history:#?}");
    }
}

pub(crate) fn invariant_the_report_has_each_asked_site_once(history: &History) {
    let reported: Vec<&Site> = history.report.iter().map(|asked| &asked.site).collect();
    let once: BTreeSet<&Site> = reported.iter().copied().collect();
    assert_eq!(reported.len(), once.len(), "{history:#?}");
    let (sent, skipped): (BTreeSet<&Site>, BTreeSet<&Site>) =
        once.into_iter().partition(|site| can_be_asked(site, history));
    assert_eq!(sent, asked(history), "{history:#?}");
    assert!(skipped.iter().all(|site| history.plan.sites().contains(site)), "{history:#?}");
}
