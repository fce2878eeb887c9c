//! One peer: its warm connections, and what is known of it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::timeout;

use super::connect::{self, ConnectError, Small};
use super::error::{Kind, SendError};
use super::long::Spares;
use super::settings::Settings;
use crate::tls::{self, ClientTls, ToSite};

/// A connection that ends sooner than this counts as a failure: a peer that accepts and hangs up must
/// not be called in a loop.
const STEADY: Duration = Duration::from_secs(1);

/// What is known of a peer.
#[derive(Clone, Debug, Default)]
pub struct PeerState {
    /// Whether a request could be sent now.
    pub connected: bool,
    /// What went wrong last, if nothing went right since.
    pub last_error: Option<String>,
    /// The round trip, as the last connection saw it.
    pub rtt: Option<Duration>,
    /// Requests in flight.
    pub in_flight: usize,
}

pub(super) struct Peer {
    pub(super) site: String,
    pub(super) address: String,
    pub(super) settings: Rc<Settings>,
    pub(super) long_tls: ToSite,
    pub(super) in_flight: Rc<Cell<usize>>,
    pub(super) spares: Spares,
    small_tls: ToSite,
    lines: Vec<Line>,
    /// A line came up, or there is no hope for it any more.
    changed: Notify,
    hurry: Notify,
    last_error: RefCell<Option<(String, bool)>>,
    rtt: Cell<Option<Duration>>,
    tasks: RefCell<Vec<AbortHandle>>,
}

/// One warm connection, or the wait for it.
#[derive(Default)]
struct Line {
    sender: RefCell<Option<Small>>,
    streams: Rc<Cell<usize>>,
    /// The last attempt failed: requests do not wait for the next.
    failing: Cell<bool>,
}

impl Line {
    fn is_up(&self) -> bool {
        self.sender.borrow().as_ref().is_some_and(|sender| !sender.is_closed())
    }
}

impl Peer {
    /// Starts connecting.
    pub(super) fn start(site: &str, address: String, tls: &ClientTls, settings: &Rc<Settings>) -> Rc<Peer> {
        let peer = Rc::new(Peer {
            site: site.to_owned(),
            address,
            settings: Rc::clone(settings),
            long_tls: tls.to(site, tls::HTTP1),
            in_flight: Rc::default(),
            spares: Spares::default(),
            small_tls: tls.to(site, tls::H2),
            lines: (0..settings.warm.max(1)).map(|_| Line::default()).collect(),
            changed: Notify::new(),
            hurry: Notify::new(),
            last_error: RefCell::default(),
            rtt: Cell::default(),
            tasks: RefCell::default(),
        });
        for line in 0..peer.lines.len() {
            let task = spawn_local(Rc::clone(&peer).keep(line));
            peer.tasks.borrow_mut().push(task.abort_handle());
        }
        peer
    }

    /// Stops connecting. Requests in flight go on; those that wait for a connection fail.
    pub(super) fn retire(&self) {
        for task in self.tasks.take() {
            task.abort();
        }
        for line in &self.lines {
            line.failing.set(true);
            line.sender.take();
        }
        self.spares.close();
        self.changed.notify_waiters();
    }

    /// Ends a wait between two attempts.
    pub(super) fn hurry(&self) {
        self.hurry.notify_waiters();
    }

    pub(super) fn state(&self) -> PeerState {
        PeerState {
            connected: self.lines.iter().any(Line::is_up),
            last_error: self.last_error.borrow().as_ref().map(|(error, _)| error.clone()),
            rtt: self.rtt.get(),
            in_flight: self.in_flight.get(),
        }
    }

    /// A connection for a small request, and the count of its streams: the least busy one. Waits only
    /// for a first attempt (the first ever, or the first since a connection was lost).
    pub(super) async fn line(&self) -> Result<(Small, Rc<Cell<usize>>), SendError> {
        loop {
            let changed = self.changed.notified();
            let up = self.lines.iter().filter(|line| line.is_up());
            if let Some(line) = up.min_by_key(|line| line.streams.get())
                && let Some(sender) = line.sender.borrow().as_ref()
            {
                return Ok((sender.clone(), Rc::clone(&line.streams)));
            }
            if self.lines.iter().all(|line| line.failing.get()) {
                return Err(self.unreachable());
            }
            changed.await;
        }
    }

    /// Waits as [`Peer::line`] does, for a request that makes its own connection.
    pub(super) async fn reachable(&self) -> Result<(), SendError> {
        self.line().await.map(|_| ())
    }

    fn unreachable(&self) -> SendError {
        match self.last_error.borrow().clone() {
            Some((error, true)) => SendError::unsent(Kind::Timeout, &self.site).because(error),
            Some((error, false)) => SendError::unsent(Kind::Unreachable, &self.site).because(error),
            None => SendError::unsent(Kind::Unreachable, &self.site),
        }
    }

    pub(super) fn failed(&self, error: &ConnectError) {
        self.last_error.replace(Some((error.to_string(), error.timeout)));
    }

    /// Keeps one line up, for ever.
    async fn keep(self: Rc<Self>, line: usize) {
        let Some(line) = self.lines.get(line) else { return };
        let mut failures = 0_u32;
        loop {
            match connect::small(&self.address, &self.small_tls, &self.settings).await {
                Ok((sender, connection, rtt)) => {
                    self.rtt.set(Some(rtt));
                    self.last_error.take();
                    line.failing.set(false);
                    line.sender.replace(Some(sender));
                    self.changed.notify_waiters();
                    self.spares.refill(&self);
                    let start = Instant::now();
                    let ended = connection.await;
                    line.sender.take();
                    failures = self.ended(&ended, start.elapsed() < STEADY, failures);
                }
                Err(error) => {
                    self.failed(&error);
                    failures = failures.saturating_add(1);
                }
            }
            if failures > 0 {
                line.failing.set(true);
                self.changed.notify_waiters();
                let _ = timeout(self.settings.backoff(failures), self.hurry.notified()).await;
            }
        }
    }

    /// How many failures in a row there are, now that a connection has ended.
    fn ended(&self, ended: &hyper::Result<()>, soon: bool, failures: u32) -> u32 {
        let silent = ended.as_ref().is_err_and(hyper::Error::is_timeout);
        let error = match ended {
            Err(error) => format!("the connection was lost: {error}"),
            Ok(()) => "the peer closed the connection".to_owned(),
        };
        self.last_error.replace(Some((error, silent)));
        if silent {
            // A silent peer would keep an attempt waiting for as long as it may: nobody waits for that one.
            self.spares.clear();
            1
        } else if soon {
            failures.saturating_add(1)
        } else {
            0
        }
    }
}
