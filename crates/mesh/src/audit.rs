//! Who asked for what, and what came of it: one JSON object a line, for every request with a scope.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

/// Lines that may wait for the disk. Past it they are counted, not kept: requests never wait for it.
const WAITING: usize = 8192;

/// Where the lines go. Cheap when there is nowhere.
pub struct Audit {
    lines: Option<SyncSender<String>>,
    lost: AtomicU64,
}

impl Audit {
    /// Nowhere.
    #[must_use]
    pub fn none() -> Audit {
        Audit { lines: None, lost: AtomicU64::new(0) }
    }

    /// To a file or a stream, written by a thread of its own, which ends with the last sender.
    pub fn to(mut sink: Box<dyn Write + Send>) -> std::io::Result<Audit> {
        let (sender, receiver) = sync_channel::<String>(WAITING);
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || {
            while let Ok(line) = receiver.recv() {
                // A full disk loses lines, never requests.
                let _ = sink.write_all(line.as_bytes()).and_then(|()| sink.flush());
            }
        })?;
        Ok(Audit { lines: Some(sender), lost: AtomicU64::new(0) })
    }

    pub(crate) fn is_on(&self) -> bool {
        self.lines.is_some()
    }

    pub(crate) fn write(&self, entry: &serde_json::Value) {
        let Some(lines) = &self.lines else { return };
        match lines.try_send(format!("{entry}\n")) {
            Ok(()) => {
                let lost = self.lost.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    let _ = lines.try_send(format!("{{\"lost\":{lost}}}\n"));
                }
            }
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
