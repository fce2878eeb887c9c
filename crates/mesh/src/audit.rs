//! Who asked for what, and what came of it: one JSON object a line, for every request with a scope.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Lines that may wait for the disk. Past it they are counted, not kept: requests never wait for it.
const WAITING: usize = 8192;

/// How long the end of a mesh waits for the last lines: a disk that hangs must not keep it for ever.
const LAST_LINES: Duration = Duration::from_secs(5);

/// Where the lines go. Cheap when there is nowhere.
pub struct Audit {
    lines: Option<SyncSender<String>>,
    lost: Arc<AtomicU64>,
    /// Ends when the last line is written. The lock is never waited for: it makes this usable by all cores.
    written: Option<Mutex<Receiver<()>>>,
}

/// The lines that were accepted are written before a process may end.
impl Drop for Audit {
    fn drop(&mut self) {
        self.lines = None;
        if let Some(written) = self.written.take() {
            let written = written.into_inner().unwrap_or_else(PoisonError::into_inner);
            let _ = written.recv_timeout(LAST_LINES);
        }
    }
}

impl Audit {
    /// Nowhere.
    #[must_use]
    pub fn none() -> Audit {
        Audit { lines: None, lost: Arc::default(), written: None }
    }

    /// To a file or a stream, written by a thread of its own, which ends with the last sender.
    pub fn to(mut sink: Box<dyn Write + Send>) -> std::io::Result<Audit> {
        let (sender, receiver) = sync_channel::<String>(WAITING);
        let (done, written) = channel::<()>();
        let lost = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&lost);
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || {
            let mut failed = false;
            let mut put = |line: &str| {
                // A part of the last one may be there.
                let end = if failed { "\n" } else { "" };
                let whole = format!("{end}{line}\n");
                failed = sink.write_all(whole.as_bytes()).and_then(|()| sink.flush()).is_err();
                !failed
            };
            while let Ok(line) = receiver.recv() {
                // A full disk loses lines, never requests.
                if !put(&line) {
                    count.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                let lost = count.swap(0, Ordering::Relaxed);
                if lost > 0 && !put(&format!("{{\"lost\":{lost}}}")) {
                    count.fetch_add(lost, Ordering::Relaxed);
                }
            }
            drop(done);
        })?;
        Ok(Audit { lines: Some(sender), lost, written: Some(Mutex::new(written)) })
    }

    pub(crate) fn is_on(&self) -> bool {
        self.lines.is_some()
    }

    pub(crate) fn write(&self, entry: &serde_json::Value) {
        let Some(lines) = &self.lines else { return };
        if lines.try_send(entry.to_string()).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A disk that writes a line only when it is told to.
    struct Slow(Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.recv();
            self.1.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_was_accepted_is_written_before_the_end() {
        let (go, wait): (Sender<()>, _) = channel();
        let written = Arc::new(Mutex::default());
        let audit = Audit::to(Box::new(Slow(wait, Arc::clone(&written)))).unwrap();
        for number in 0..3 {
            audit.write(&number.into());
        }
        let ending = std::thread::spawn(move || drop(audit));
        for _ in 0..3 {
            go.send(()).unwrap();
        }
        ending.join().unwrap();
        assert_eq!(*written.lock().unwrap(), b"0\n1\n2\n");
    }
    /// A disk that is full for so many writes, and takes a part of each.
    struct Full(usize, Arc<Mutex<Vec<u8>>>);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let mut written = self.1.lock().unwrap();
            if self.0 > 0 {
                self.0 -= 1;
                written.extend_from_slice(&bytes[..1]);
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            written.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_a_full_disk_lost_are_counted_and_spoil_no_other() {
        let written = Arc::new(Mutex::default());
        let audit = Audit::to(Box::new(Full(3, Arc::clone(&written)))).unwrap();
        for _ in 0..10 {
            audit.write(&serde_json::json!({"asked": true}));
        }
        drop(audit);
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        let whole = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok();
        let lines: Vec<_> = text.lines().filter_map(whole).collect();
        assert_eq!(lines.iter().filter(|line| line["asked"] == true).count(), 7, "{text}");
        assert_eq!(lines.iter().filter_map(|line| line["lost"].as_u64()).sum::<u64>(), 3, "{text}");
    }
}
