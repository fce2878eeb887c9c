//! Answers without a length that their services keep open: watches, events, logs that are followed. Each lives as long as
//! both its ends do, and there are only so many.
//!
//! An answer becomes one when it pauses for longer than a body may. From then on nobody limits its pauses. TCP's
//! keep-alives find an end that is gone; where nothing reads or writes a socket meanwhile, its state is looked at now and
//! then (`looks`).

use std::cell::Cell;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use outside::net::TcpStream;

/// How often a quiet stream looks whether its client is there.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(15);

thread_local! {
    /// How often streams of this core have looked.
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

/// Whether an answer says by its type that it is kept open.
pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    let said = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    said.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
}

/// How often streams of this core have looked for their clients: who has seen fewer looks at its socket, too.
pub(crate) fn looks() -> u64 {
    LOOKS.get()
}

/// A quiet stream looks: its connection is woken, and sees to its socket.
pub(crate) fn look() {
    LOOKS.set(LOOKS.get() + 1);
}

/// What is wrong with a socket, as its keep-alives found.
pub(crate) fn fault(stream: &TcpStream) -> Option<io::Error> {
    outside::net::system(stream)?.take_error().ok().flatten()
}

/// The streams of a site.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    open: AtomicUsize,
    refused: AtomicUsize,
}

impl Streams {
    /// Takes a place for one more, unless there are so many.
    pub(crate) fn open(self: &Arc<Streams>, most: usize) -> Option<OpenStream> {
        if self.open.fetch_add(1, Ordering::Relaxed) < most {
            return Some(OpenStream(Arc::clone(self)));
        }
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.refused.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// In the text format of Prometheus.
    pub(crate) fn render(&self, into: &mut String) {
        let (open, refused) = (self.open.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed));
        into.push_str(&format!(
            "# HELP archipel_streams_open Answers without a length that are kept open.\n\
             # TYPE archipel_streams_open gauge\narchipel_streams_open {open}\n\
             # HELP archipel_streams_refused_total Such answers that were cut: as many were open as may be.\n\
             # TYPE archipel_streams_refused_total counter\narchipel_streams_refused_total {refused}\n"
        ));
    }
}

/// A place among the streams, given back when dropped.
#[derive(Debug)]
pub(crate) struct OpenStream(Arc<Streams>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An answer that may be kept open.
#[derive(Debug)]
pub(crate) struct MayStream {
    streams: Arc<Streams>,
    most: usize,
    open: Option<OpenStream>,
}

impl MayStream {
    pub(crate) fn new(streams: &Arc<Streams>, most: usize) -> MayStream {
        MayStream { streams: Arc::clone(streams), most, open: None }
    }

    /// It has paused for long. Whether it may go on.
    pub(crate) fn stays(&mut self) -> bool {
        if self.open.is_none() {
            self.open = self.streams.open(self.most);
        }
        self.open.is_some()
    }
}

/// The error of a body that pauses for longer than it may.
#[derive(Debug)]
pub(crate) struct Stalled;

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer stopped coming")
    }
}

impl std::error::Error for Stalled {}
