//! One HTTP/2 connection to a peer: made, watched, made again.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use http::Request;
use http_body_util::Empty;
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::{Instant, timeout};

use super::connect::{self, Connected, Small};
use super::exchange::{Exchange, Outgoing};
use super::peer::Peer;
use crate::interim::Ears;
use crate::watched::Reads;
use crate::wire;

/// A connection that ends sooner than this counts as a failure: a peer that accepts and hangs up must
/// not be called in a loop.
const STEADY: Duration = Duration::from_secs(1);

/// A connection to send a request on.
pub(super) struct Streams {
    pub(super) sender: Small,
    pub(super) version: u16,
    /// How many there are.
    pub(super) count: Rc<Cell<usize>>,
    /// Who hears interim answers on it.
    pub(super) ears: Ears,
}

/// One connection, or the wait for it.
#[derive(Default)]
pub(super) struct Line {
    sender: RefCell<Option<(Small, Ears, u16)>>,
    streams: Rc<Cell<usize>>,
    /// The last attempt failed: requests do not wait for the next.
    failing: Cell<bool>,
    /// The peer does not answer on it.
    silent: Cell<bool>,
    running: Cell<bool>,
    task: RefCell<Option<AbortHandle>>,
}

/// How a connection ended.
enum Ended {
    Lost(hyper::Result<()>),
    Unused,
}

impl Line {
    pub(super) fn is_up(&self) -> bool {
        !self.silent.get() && self.sender.borrow().as_ref().is_some_and(|(sender, ..)| !sender.is_closed())
    }

    pub(super) fn is_failing(&self) -> bool {
        self.failing.get() || self.silent.get()
    }

    pub(super) fn busy(&self) -> usize {
        self.streams.get()
    }

    pub(super) fn streams(&self) -> Option<Streams> {
        let (sender, ears, version) = self.sender.borrow().clone()?;
        Some(Streams { sender, version, count: Rc::clone(&self.streams), ears })
    }

    pub(super) fn version(&self) -> Option<u16> {
        self.sender.borrow().as_ref().map(|(.., version)| *version)
    }

    /// Keeps it up from now on, if nobody does.
    pub(super) fn start(&self, peer: &Rc<Peer>, index: usize) {
        if !self.running.replace(true) {
            let task = spawn_local(keep(Rc::clone(peer), index));
            self.task.replace(Some(task.abort_handle()));
        }
    }

    pub(super) fn end(&self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
        self.sender.take();
    }

    /// Up to the next use, nothing is known of it.
    fn rest(&self) {
        self.sender.take();
        self.failing.set(false);
        self.silent.set(false);
        self.running.set(false);
    }
}

/// Keeps one line up, for ever or until nobody uses it.
async fn keep(peer: Rc<Peer>, index: usize) {
    let Some(line) = peer.line_at(index) else { return };
    let mut wait = Duration::ZERO;
    loop {
        wait = match connect::small(&peer.address, peer.small_tls(), &peer.settings).await {
            Ok(Connected { sender, version, ears, connection, reads, rtt }) => {
                peer.answered(rtt);
                line.failing.set(false);
                line.silent.set(false);
                line.sender.replace(Some((sender.clone(), ears, version)));
                peer.changed.notify_waiters();
                peer.spares.refill(&peer);
                let start = Instant::now();
                let ended = tokio::select! {
                    biased;
                    () = watch(&peer, line, sender, &reads) => Ended::Unused,
                    ended = connection => Ended::Lost(ended),
                };
                line.sender.take();
                match ended {
                    Ended::Lost(ended) => lost(&peer, &ended, start.elapsed() < STEADY, wait),
                    Ended::Unused => Duration::ZERO,
                }
            }
            Err(error) => {
                peer.failed(&error);
                peer.settings.wait_after(wait)
            }
        };
        line.silent.set(false);
        if !wait.is_zero() {
            line.failing.set(true);
            peer.changed.notify_waiters();
            peer.wait(wait).await;
        }
        if peer.is_idle() {
            line.rest();
            peer.cool();
            return;
        }
    }
}

/// The wait before the next attempt, now that a connection has ended.
fn lost(peer: &Peer, ended: &hyper::Result<()>, soon: bool, before: Duration) -> Duration {
    let silent = ended.as_ref().is_err_and(hyper::Error::is_timeout);
    let error = match ended {
        Err(error) => format!("the connection was lost: {error}"),
        Ok(()) => "the peer closed the connection".to_owned(),
    };
    peer.wrong(error, silent);
    if silent {
        // A silent peer would keep an attempt waiting for as long as it may: nobody waits for that one.
        peer.spares.clear();
        peer.settings.wait_after(Duration::ZERO)
    } else if soon {
        peer.settings.wait_after(before)
    } else {
        Duration::ZERO
    }
}

/// Asks the peer for a sign of life every now and then, and measures it. Returns when nobody uses the line.
async fn watch(peer: &Rc<Peer>, line: &Line, mut sender: Small, reads: &Reads) {
    loop {
        peer.wait(peer.settings.probe_wait()).await;
        if peer.is_idle() {
            return;
        }
        let body = Outgoing::new(Empty::new(), &Rc::new(Exchange::default()));
        let mut probe = Request::new(body);
        wire::to_probe(&mut probe);
        let start = Instant::now();
        let mut answer = pin!(sender.send_request(probe));
        let answered = loop {
            let before = reads.count();
            if let Ok(answered) = timeout(peer.settings.probe_timeout, answer.as_mut()).await {
                break answered;
            }
            // Where much is under way, an answer may be long in coming; silence is when nothing comes.
            if reads.count() == before {
                line.silent.set(true);
                peer.wrong("the peer is connected and does not answer".to_owned(), true);
                peer.changed.notify_waiters();
                break answer.as_mut().await;
            }
        };
        if answered.is_ok() {
            peer.answered(start.elapsed());
        } else if sender.is_closed() {
            // The connection is at its end, and says so itself.
            std::future::pending::<()>().await;
        }
        if line.silent.replace(false) {
            peer.changed.notify_waiters();
        }
    }
}
