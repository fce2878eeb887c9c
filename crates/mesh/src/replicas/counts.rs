//! What the keeper counts.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, PoisonError};

use scope::Site;

use crate::metrics::Count;

/// What was counted, and how many wait for each site.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Writes on their way to the keeper.
    pub(crate) queued: AtomicUsize,
    /// Writes of clients that were recorded here.
    pub(crate) accepted: Count,
    /// Executions by this site's services.
    pub(crate) executed: Count,
    /// Refusals by them.
    pub(crate) refused: Count,
    /// Executions of which nobody knew whether they were.
    pub(crate) doubted: Count,
    /// Of these, those that their service told.
    pub(crate) probed: Count,
    /// Replicas here that refused what another executed.
    pub(crate) diverged: Count,
    /// Replicas here that were found to differ from others.
    pub(crate) differing: Count,
    /// States copied from another site.
    pub(crate) copied: Count,
    /// Long bodies taken from another site.
    pub(crate) pulled: Count,
    /// Commits that became durable.
    pub(crate) commits: Count,
    /// Commits that the disk did not take.
    pub(crate) commit_failures: Count,
    /// Names that were reserved here.
    pub(crate) reserved: Count,
    /// Names that were not, because another request had them.
    pub(crate) reservation_conflicts: Count,
    /// Requests that entered here and reserved a name, and whose outcome was not known when they ended.
    pub(crate) reservations_doubted: Count,
    /// As of the last look: operations that each site is not known to have.
    pending: Mutex<BTreeMap<Site, usize>>,
    /// As of the last look: operations in doubt, and resources.
    now: Mutex<(usize, usize)>,
}

type Row = (&'static str, &'static str, fn(&Counts) -> &Count);

const ROWS: [Row; 14] = [
    ("accepted", "Writes to replicated resources that were recorded here.", |counts| &counts.accepted),
    ("executed", "Operations that this site's services executed.", |counts| &counts.executed),
    ("refused", "Operations that this site's services refused.", |counts| &counts.refused),
    ("doubted", "Executions whose outcome was not known.", |counts| &counts.doubted),
    ("probed", "Of these, those that a look at the service settled.", |counts| &counts.probed),
    ("differing", "Replicas here that were found to differ from others.", |counts| &counts.differing),
    ("diverged", "Replicas here that refused what another executed.", |counts| &counts.diverged),
    ("copied", "States taken over from another site.", |counts| &counts.copied),
    ("pulled", "Long bodies taken from another site.", |counts| &counts.pulled),
    ("commits", "Commits of records, each of several operations.", |counts| &counts.commits),
    ("commit_failures", "Commits that the disk did not take.", |counts| &counts.commit_failures),
    ("reserved", "Names that were reserved here for a write to `A ^ B`.", |counts| &counts.reserved),
    ("reservation_conflicts", "Names that another request had reserved here.", |counts| {
        &counts.reservation_conflicts
    }),
    (
        "reservations_doubted",
        "Requests with a reserved name whose outcome was not known at once.",
        |counts| &counts.reservations_doubted,
    ),
];

impl Counts {
    pub(crate) fn set_now(&self, pending: BTreeMap<Site, usize>, in_doubt: usize, resources: usize) {
        *self.pending.lock().unwrap_or_else(PoisonError::into_inner) = pending;
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = (in_doubt, resources);
    }

    /// In the text format of Prometheus.
    pub(crate) fn render(&self, into: &mut String) -> fmt::Result {
        for (name, help, of) in ROWS {
            writeln!(into, "# HELP archipel_replicas_{name}_total {help}")?;
            writeln!(into, "# TYPE archipel_replicas_{name}_total counter")?;
            writeln!(into, "archipel_replicas_{name}_total {}", of(self).get())?;
        }
        let (in_doubt, resources) = *self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let gauges = [
            ("in_doubt", "Operations that an operator has to settle.", in_doubt),
            ("resources", "Replicated resources that are known here, deleted ones too.", resources),
        ];
        for (name, help, value) in gauges {
            writeln!(into, "# HELP archipel_replicas_{name} {help}")?;
            writeln!(into, "# TYPE archipel_replicas_{name} gauge\narchipel_replicas_{name} {value}")?;
        }
        writeln!(into, "# HELP archipel_replicas_pending Operations that a site is not known to have.")?;
        writeln!(into, "# TYPE archipel_replicas_pending gauge")?;
        for (site, count) in self.pending.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            writeln!(into, "archipel_replicas_pending{{site=\"{site}\"}} {count}")?;
        }
        Ok(())
    }
}
