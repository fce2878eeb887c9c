//! The shortest part of a schedule that still fails.

use crate::isle::Identities;
use crate::run::{Report, run};
use crate::schedule::Schedule;

/// Takes steps out, in halves, quarters, …, one by one, as long as one of the same invariants is violated, for at most
/// so many runs. What is left, and its report.
#[must_use]
pub fn minimise(schedule: &Schedule, identities: &Identities, runs: usize) -> (Schedule, Report) {
    let mut best = schedule.clone();
    let mut report = run(&best, identities);
    let wanted: Vec<&str> = report.violations.iter().map(|violation| violation.invariant).collect();
    let (mut size, mut left) = (best.steps.len().div_ceil(2), runs);
    while size > 0 && left > 0 && !wanted.is_empty() {
        let (mut from, mut shorter) = (0, false);
        while from < best.steps.len() && left > 0 {
            let mut fewer = best.clone();
            fewer.steps.drain(from..(from + size).min(best.steps.len()));
            left -= 1;
            let tried = run(&fewer, identities);
            if tried.violations.iter().any(|violation| wanted.contains(&violation.invariant)) {
                (best, report, shorter) = (fewer, tried, true);
            } else {
                from += size;
            }
        }
        if size == 1 && !shorter {
            break;
        }
        size = if size == 1 { 1 } else { size / 2 };
    }
    (best, report)
}
