//! Files that are read and written. A disk may be slow, or hang: nothing here waits for it but who must.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use tokio::task::{spawn_blocking, spawn_local};

use super::super::kept::Kept;
use super::super::metrics;
use super::{Done, Driver, Replying};

impl Driver {
    /// Has the file of metrics read, if there is one and nobody reads it already.
    pub(super) fn read_metrics(&mut self) {
        let Some(path) = self.start.config.metrics.clone() else {
            self.of_file.clear();
            return self.told_metrics(Ok(()));
        };
        if std::mem::replace(&mut self.reading, true) {
            return;
        }
        let done = self.done.0.clone();
        spawn_local(async move {
            let at = path.clone();
            let read = spawn_blocking(move || metrics::read(&at)).await;
            let metrics = read.unwrap_or_else(|error| Err(error.to_string()));
            let _ = done.send(Done::Read { path, metrics });
        });
    }

    pub(super) fn metrics_read(&mut self, path: &Path, metrics: Result<BTreeMap<String, f64>, String>) {
        self.reading = false;
        if self.start.config.metrics.as_deref() != Some(path) {
            // The configuration names another by now.
            return self.read_metrics();
        }
        let outcome = metrics.map(|metrics| {
            self.of_file = metrics.into_iter().map(|(name, value)| (name.into(), value)).collect();
        });
        self.told_metrics(outcome);
    }

    fn told_metrics(&mut self, outcome: Result<(), String>) {
        let fault = outcome.and_then(|()| self.tell_metrics()).err();
        if let Some(why) = fault.as_ref().filter(|_| fault != self.fault) {
            (self.start.say)(&format!("the metrics stay as they were: {why}"));
        }
        self.fault = fault;
    }

    /// Those that were pushed, and those of the file.
    pub(super) fn tell_metrics(&mut self) -> Result<(), String> {
        let mut all = self.pushed.clone();
        all.extend(self.of_file.clone());
        self.machine.set_metrics(all).map_err(|error| error.to_string())
    }

    /// Keeps what is known, and then answers the orders that wait for it; if something is being written,
    /// after that.
    pub(super) fn keep(&mut self) {
        let Some(mut kept) = self.kept.take() else { return };
        let (bytes, replies) = (self.machine.save(), std::mem::take(&mut self.replies));
        if kept.is(&bytes) {
            return self.was_kept(kept, Ok(()), replies);
        }
        let done = self.done.0.clone();
        spawn_local(async move {
            let keep = outside::apart(move || {
                let outcome = kept.keep(bytes);
                (kept, outcome)
            });
            if let Some((kept, outcome)) = keep.await {
                let _ = done.send(Done::Kept { kept, outcome, replies });
            }
        });
    }

    pub(super) fn was_kept(&mut self, kept: Kept, outcome: io::Result<()>, replies: Vec<Replying>) {
        self.kept = Some(kept);
        let unkept = outcome.err().map(|error| error.to_string());
        if let Some(why) = unkept.as_ref().filter(|_| unkept != self.unkept) {
            (self.start.say)(&format!("what is known of the sites cannot be kept: {why}"));
        }
        self.unkept = unkept;
        for (reply, outcome) in replies {
            let _ = reply.send(outcome);
        }
    }

    /// Keeps what is known at the end.
    pub(super) async fn keep_last(&mut self) {
        self.keep();
        // What was being written may be older.
        for _ in 0..2 {
            while self.kept.is_none() {
                let Some(done) = self.done.1.recv().await else { return };
                self.done(done);
            }
            self.keep();
        }
    }
}
