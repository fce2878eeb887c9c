//! The invariants, each over one history.

use std::collections::BTreeSet;

use plan::{Effect, Event, Leg, Sent};
use scope::Site;

use crate::history::{Entry, History};

fn is_final(effect: &Effect) -> bool {
    matches!(effect, Effect::Answer { .. } | Effect::Fail(_))
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
            Entry::Out(Effect::Send { leg, .. }) => {
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
            Entry::In(Event::Answered { leg, status, .. }) => {
                let first_word = open.remove(leg);
                if first_word && history.rules.no_effect.contains(status) {
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
            Entry::Out(Effect::Send { leg, .. }) => {
                assert!(out.is_empty(), "{leg:?} was sent before {out:?} answered: {history:#?}");
            }
            _ => {}
        }
    }
}

/// What the driver still holds after each entry of the log.
#[derive(Default)]
struct Holding {
    legs: BTreeSet<Leg>,
    probes: BTreeSet<Leg>,
    answered: BTreeSet<Leg>,
}

impl Holding {
    fn take(&mut self, entry: &Entry) {
        match entry {
            Entry::Out(Effect::Send { leg, .. }) => {
                self.legs.insert(*leg);
            }
            Entry::Out(Effect::Probe { leg, .. }) => {
                self.legs.insert(*leg);
                self.probes.insert(*leg);
            }
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
            Entry::Out(Effect::Answer { leg }) => BTreeSet::from([*leg]),
            Entry::Out(Effect::Fail(_)) => BTreeSet::new(),
            _ => continue,
        };
        assert_eq!(holding.legs, kept, "{history:#?}");
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

/// The leg whose answer is given was answered, and is neither lost nor cancelled nor a probe.
pub(crate) fn invariant_the_answer_is_there_to_be_given(history: &History) {
    let mut holding = Holding::default();
    for entry in &history.log {
        if let Entry::Out(Effect::Answer { leg }) = entry {
            let held = holding.legs.contains(leg) && holding.answered.contains(leg);
            assert!(held, "{leg:?}: {history:#?}");
        }
        holding.take(entry);
    }
}

fn asked(history: &History) -> BTreeSet<&Site> {
    let site = |effect| match effect {
        &Effect::Send { ref site, .. } | &Effect::Probe { ref site, .. } => Some(site),
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

pub(crate) fn invariant_the_report_has_each_asked_site_once(history: &History) {
    let reported: Vec<&Site> = history.report.iter().map(|asked| &asked.site).collect();
    assert_eq!(reported.len(), asked(history).len(), "{history:#?}");
    assert_eq!(reported.into_iter().collect::<BTreeSet<_>>(), asked(history), "{history:#?}");
}
