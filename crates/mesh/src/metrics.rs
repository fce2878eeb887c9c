//! What is counted. Each core counts for itself, and only who reads adds up: no core waits for another.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one core counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Requests without a scope.
    pub(crate) unscoped: Count,
    /// Requests with one.
    pub(crate) scoped: Count,
    /// Requests refused for their scope.
    pub(crate) refused: Count,
    /// Legs of other sites, executed here.
    pub(crate) executed: Count,
    /// Legs that plans of several sites sent, here and elsewhere.
    pub(crate) legs: Count,
    /// Of these, the ones whose work was for nothing: another site's answer was taken.
    pub(crate) wasted: Count,
    /// Answers merged of several sites' lists.
    pub(crate) merged: Count,
    /// Of these, the ones that lack a site.
    pub(crate) partial: Count,
}

/// One row for each: its name, what it is, and where it is.
type Row = (&'static str, &'static str, fn(&Counts) -> &Count);

const ROWS: [Row; 8] = [
    ("requests_unscoped", "Requests without a scope.", |counts| &counts.unscoped),
    ("requests_scoped", "Requests with a scope.", |counts| &counts.scoped),
    ("requests_refused", "Requests refused for their scope.", |counts| &counts.refused),
    ("legs_executed", "Legs of other sites' requests, executed here.", |counts| &counts.executed),
    ("legs_sent", "Legs sent by plans of several sites.", |counts| &counts.legs),
    ("legs_wasted", "Legs whose answer was not needed in the end.", |counts| &counts.wasted),
    ("answers_merged", "Answers merged of several sites' lists.", |counts| &counts.merged),
    ("answers_partial", "Merged answers that lack a site.", |counts| &counts.partial),
];

/// All cores' counts, in the text format of Prometheus.
pub(crate) fn render(cores: &[Arc<Counts>], into: &mut String) -> fmt::Result {
    for (name, help, of) in ROWS {
        let sum: u64 = cores.iter().map(|counts| of(counts).get()).sum();
        writeln!(into, "# HELP archipel_{name}_total {help}")?;
        writeln!(into, "# TYPE archipel_{name}_total counter\narchipel_{name}_total {sum}")?;
    }
    Ok(())
}
