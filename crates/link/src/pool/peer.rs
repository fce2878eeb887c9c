//! One peer: its connections, while there is a use for them, and what is known of it.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::connect::ConnectError;
use super::error::{Kind, SendError};
use super::line::{Line, Streams};
use super::long::Spares;
use super::settings::Settings;
use crate::speaks::Misfit;
use crate::tls::{ClientTls, ToSite};

/// A round trip is the least of so many measurements: the rest of them is waiting, somewhere.
const MEASUREMENTS: usize = 8;

/// What is known of a peer.
#[derive(Clone, Debug, Default)]
pub struct PeerState {
    /// Whether a request could be sent now: there is a connection, and the peer answers on it.
    pub connected: bool,
    /// Whether requests fail at once: the last attempt to connect failed, or the peer does not answer.
    pub failing: bool,
    /// It is connected to when it is needed only. When it is neither connected nor failing, a request
    /// waits for a handshake.
    pub on_demand: bool,
    /// What went wrong last, if nothing went right since.
    pub last_error: Option<String>,
    /// The version that it is spoken to in, while there is a connection.
    pub version: Option<u16>,
    /// Why it is not spoken to, if that is because of the versions that both speak.
    pub misfit: Option<Misfit>,
    /// The round trip, as it was of late.
    pub rtt: Option<Duration>,
    /// Requests in flight.
    pub in_flight: usize,
}

impl PeerState {
    /// Whether there is a point in sending a request there.
    #[must_use]
    pub fn usable(&self) -> bool {
        self.connected || (self.on_demand && !self.failing)
    }
}

pub(super) struct Peer {
    pub(super) site: String,
    pub(super) address: String,
    pub(super) settings: Rc<Settings>,
    pub(super) in_flight: Rc<Cell<usize>>,
    pub(super) spares: Spares,
    tls: ClientTls,
    /// For each lane; there may be thousands of peers that are never connected to.
    small_tls: OnceCell<ToSite>,
    long_tls: OnceCell<ToSite>,
    lines: Vec<Line>,
    /// A line came up, or there is no hope for it any more.
    pub(super) changed: Notify,
    hurry: Notify,
    on_demand: Cell<bool>,
    retired: Cell<bool>,
    used: Cell<Instant>,
    last_error: RefCell<Option<(String, Kind)>>,
    misfit: Cell<Option<Misfit>>,
    measured: RefCell<VecDeque<Duration>>,
}

impl Peer {
    pub(super) fn new(site: &str, address: String, tls: &ClientTls, settings: &Rc<Settings>) -> Rc<Peer> {
        Rc::new(Peer {
            site: site.to_owned(),
            address,
            settings: Rc::clone(settings),
            in_flight: Rc::default(),
            spares: Spares::default(),
            tls: tls.clone(),
            small_tls: OnceCell::new(),
            long_tls: OnceCell::new(),
            lines: (0..settings.warm.max(1)).map(|_| Line::default()).collect(),
            changed: Notify::new(),
            hurry: Notify::new(),
            on_demand: Cell::new(false),
            retired: Cell::new(false),
            used: Cell::new(Instant::now()),
            last_error: RefCell::default(),
            misfit: Cell::default(),
            measured: RefCell::default(),
        })
    }

    /// Keeps connections from now on: always, or while they are used.
    pub(super) fn keep_connected(self: &Rc<Self>, on_demand: bool) {
        if self.on_demand.replace(on_demand) != on_demand {
            self.used.set(Instant::now());
        }
        if !on_demand {
            self.connect();
        }
    }

    /// Starts connecting, where nothing does.
    fn connect(self: &Rc<Self>) {
        if !self.retired.get() {
            for (index, line) in self.lines.iter().enumerate() {
                line.start(self, index);
            }
        }
    }

    pub(super) fn small_tls(&self) -> &ToSite {
        self.small_tls.get_or_init(|| self.tls.small_to(&self.site))
    }

    pub(super) fn long_tls(&self) -> &ToSite {
        self.long_tls.get_or_init(|| self.tls.long_to(&self.site))
    }

    pub(super) fn line_at(&self, index: usize) -> Option<&Line> {
        self.lines.get(index)
    }

    /// Whether its connections serve nobody.
    pub(super) fn is_idle(&self) -> bool {
        self.on_demand.get()
            && self.in_flight.get() == 0
            && self.used.get().elapsed() >= self.settings.warm_timeout
    }

    /// One of its lines has ended since nobody used it.
    pub(super) fn cool(&self) {
        self.last_error.take();
        self.misfit.take();
        self.spares.clear();
    }

    /// Stops connecting. Requests in flight go on; those that wait for a connection fail.
    pub(super) fn retire(&self) {
        self.retired.set(true);
        for line in &self.lines {
            line.end();
        }
        self.spares.close();
        self.changed.notify_waiters();
    }

    /// Ends a wait between two attempts, or two probes.
    pub(super) fn hurry(&self) {
        self.hurry.notify_waiters();
    }

    /// A wait between two attempts, or two probes. What ends it early is told to many at once, so they spread a little.
    pub(super) async fn wait(&self, wait: Duration) {
        if timeout(wait, self.hurry.notified()).await.is_ok() {
            sleep(self.settings.hurry_jitter()).await;
        }
    }

    fn is_failing(&self) -> bool {
        self.retired.get() || self.lines.iter().all(Line::is_failing)
    }

    pub(super) fn state(&self) -> PeerState {
        PeerState {
            connected: self.lines.iter().any(Line::is_up),
            failing: self.is_failing(),
            on_demand: self.on_demand.get(),
            last_error: self.last_error.borrow().as_ref().map(|(error, _)| error.clone()),
            version: self.lines.iter().filter(|line| line.is_up()).find_map(Line::version),
            misfit: self.misfit.get(),
            rtt: self.measured.borrow().iter().min().copied(),
            in_flight: self.in_flight.get(),
        }
    }

    /// A connection for a small request: the least busy one. Waits only for a first attempt (the first ever, or the
    /// first since a connection was lost).
    pub(super) async fn line(self: &Rc<Self>) -> Result<Streams, SendError> {
        self.used.set(Instant::now());
        self.connect();
        loop {
            let changed = self.changed.notified();
            let up = self.lines.iter().filter(|line| line.is_up());
            if let Some(streams) = up.min_by_key(|line| line.busy()).and_then(Line::streams) {
                return Ok(streams);
            }
            if self.is_failing() {
                return Err(self.unreachable());
            }
            changed.await;
        }
    }

    /// Waits as [`Peer::line`] does, for a request that makes its own connection.
    pub(super) async fn reachable(self: &Rc<Self>) -> Result<(), SendError> {
        self.line().await.map(|_| ())
    }

    fn unreachable(&self) -> SendError {
        match self.last_error.borrow().clone() {
            Some((error, kind)) => SendError::unsent(kind, &self.site).because(error),
            None => SendError::unsent(Kind::Unreachable, &self.site),
        }
    }

    pub(super) fn failed(&self, error: &ConnectError) {
        self.wrong(error.to_string(), error.timeout);
        if !error.is_attempt {
            self.last_error.replace(Some((error.to_string(), Kind::Closed)));
        }
        self.misfit.set(error.misfit);
    }

    /// Something went wrong, by silence or otherwise.
    pub(super) fn wrong(&self, what: String, silence: bool) {
        self.misfit.take();
        let kind = if silence { Kind::Timeout } else { Kind::Unreachable };
        self.last_error.replace(Some((what, kind)));
    }

    /// The peer has answered, after so long.
    pub(super) fn answered(&self, rtt: Duration) {
        self.last_error.take();
        self.misfit.take();
        let mut measured = self.measured.borrow_mut();
        if measured.len() >= MEASUREMENTS {
            measured.pop_front();
        }
        measured.push_back(rtt);
    }
}
