//! What happened in a run, line by line, with the simulated time.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// The lines so far. Cheap to clone.
#[derive(Clone)]
pub struct Trace(Arc<Mutex<Lines>>);

struct Lines {
    begin: Instant,
    lines: Vec<String>,
}

impl Trace {
    /// An empty one; time is counted from now.
    #[must_use]
    pub fn begin() -> Trace {
        Trace(Arc::new(Mutex::new(Lines { begin: Instant::now(), lines: Vec::new() })))
    }

    /// One more line.
    pub fn say(&self, line: impl AsRef<str>) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = lines.begin.elapsed().as_millis();
        let mut text = String::new();
        let _ = write!(text, "{:>4}.{:03} {}", now / 1000, now % 1000, line.as_ref());
        lines.lines.push(text);
    }

    /// All lines.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lines.clone()
    }
}
