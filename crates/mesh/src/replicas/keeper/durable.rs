//! What waits for the disk, and a disk that takes nothing.

use std::time::Duration;

use serde_json::json;
use tokio::task::spawn_local;

use super::journal::Call;
use super::vault::Change;
use super::{Deed, Keeper, News};

/// The pauses before a disk that failed is tried again, from the first to the longest.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Keeper {
    /// Something that is done once everything so far is durable.
    pub(super) fn afterwards(&mut self, deed: Deed) {
        let now = self.journal.add(Call { changes: Vec::new(), deeds: vec![deed] });
        self.carry_out(now);
    }

    /// Makes durable what waits for it, if the disk is free.
    pub(super) fn commit(&mut self) {
        let changes = self.journal.next();
        self.start_commit(changes);
    }

    pub(super) fn start_commit(&self, changes: Option<Vec<Change>>) {
        let Some(changes) = changes else { return };
        let (vault, news) = (self.vault.clone(), self.news.clone());
        spawn_local(async move {
            let result = if changes.is_empty() { Ok(()) } else { vault.commit(&changes).await };
            let _ = news.send(News::Committed(result));
        });
    }

    pub(super) fn committed(&mut self, result: Result<(), store::Error>) {
        match result {
            Ok(()) => {
                self.replicas.counts.commits.add(1);
                if self.fault.take().is_some() {
                    self.note(&json!({ "replicas": "the disk takes records again" }));
                }
                let deeds = self.journal.committed();
                self.carry_out(deeds);
            }
            Err(error) => {
                self.replicas.counts.commit_failures.add(1);
                let pause = self.fault.take().map_or(PAUSE, |(_, pause)| (pause * 2).min(LONGEST_PAUSE));
                self.note(&json!({
                    "replicas": "the disk does not take records; writes to replicated resources are refused",
                    "error": error.to_string(),
                }));
                self.fault = Some((error.to_string(), pause));
                self.tell_all_unknown();
                self.tell_unallocated();
                let news = self.news.clone();
                spawn_local(async move {
                    tokio::time::sleep(pause).await;
                    let _ = news.send(News::TryAgain);
                });
            }
        }
    }
}
