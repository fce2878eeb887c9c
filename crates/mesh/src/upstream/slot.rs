//! One target as one core sees it: its idle connections and its requests in flight.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::time::Instant;

use super::Target;
use super::connect::Connection;
use super::plain::Plain;

/// After so long without a request, the service may have had enough of a connection.
const DOZES_AFTER: Duration = Duration::from_millis(100);

/// One target: what both kinds of connections to it share, and those of each that are idle.
pub(super) struct Slot<B> {
    pub(super) target: Target,
    /// Sockets that are open, busy or not.
    pub(super) open: Arc<AtomicUsize>,
    in_flight: Cell<usize>,
    /// Connections of hyper's.
    pub(super) driven: Shelf<Connection<B>>,
    /// Connections that whoever uses them drives.
    pub(super) plain: Shelf<Plain>,
}

/// A connection of which it can be told whether the other side still keeps it.
pub(super) trait Usable {
    fn is_usable(&self) -> bool;
}

impl<B> Usable for Connection<B> {
    fn is_usable(&self) -> bool {
        self.sender.is_ready()
    }
}

/// Connections without a request.
pub(super) struct Shelf<C> {
    /// The one that was used last is at the back.
    idle: RefCell<VecDeque<Idle<C>>>,
    idle_timeout: Duration,
    max_idle: usize,
}

/// A connection out of the pool.
pub(super) struct Taken<C> {
    connection: C,
    dozing: bool,
}

impl<C: Usable> Taken<C> {
    /// The connection, if the service still keeps it.
    ///
    /// Its end may lie unread in the kernel, and a request written to it then would be lost and in doubt.
    /// So the reactor gets to look first; yielding is what makes it. Not for a connection in steady use:
    /// that costs a system call, and a service closes what is idle.
    pub(super) async fn awake(self) -> Option<C> {
        if self.dozing {
            tokio::task::yield_now().await;
            return self.connection.is_usable().then_some(self.connection);
        }
        Some(self.connection)
    }
}

struct Idle<C> {
    connection: C,
    since: Instant,
}

impl<C: Usable> Shelf<C> {
    fn new(idle_timeout: Duration, max_idle: usize) -> Self {
        Shelf { idle: RefCell::default(), idle_timeout, max_idle }
    }

    /// The connection that was used last: the others grow old and are closed, and the kernel has this
    /// one's memory at hand.
    pub(super) fn take(&self, now: Instant) -> Option<Taken<C>> {
        let mut idle = self.idle.borrow_mut();
        while let Some(Idle { connection, since }) = idle.pop_back() {
            let age = now.duration_since(since);
            if age >= self.idle_timeout {
                // Those before it are older.
                idle.clear();
                return None;
            }
            // Not usable: the service closed it.
            if connection.is_usable() {
                return Some(Taken { connection, dozing: age >= DOZES_AFTER });
            }
        }
        None
    }

    /// Closes what was not used for too long, and what the service closed.
    fn sweep(&self) {
        let now = Instant::now();
        let fresh = |idle: &Idle<C>| now.duration_since(idle.since) < self.idle_timeout;
        self.idle.borrow_mut().retain(|idle| fresh(idle) && idle.connection.is_usable());
    }

    pub(super) fn put(&self, connection: C, now: Instant) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= self.max_idle {
            // The oldest is the least likely to be alive.
            idle.pop_front();
        }
        if self.max_idle > 0 {
            idle.push_back(Idle { connection, since: now });
        }
    }
}

impl<B> Slot<B> {
    pub(super) fn new(target: Target, idle_timeout: Duration, max_idle: usize) -> Self {
        Slot {
            target,
            open: Arc::default(),
            in_flight: Cell::new(0),
            driven: Shelf::new(idle_timeout, max_idle),
            plain: Shelf::new(idle_timeout, max_idle),
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }

    pub(super) fn sweep(&self) {
        self.driven.sweep();
        self.plain.sweep();
    }
}

impl<B: 'static> Slot<B> {
    /// The answer was read to its end: the next request may use its connection.
    pub(super) fn put_back(self: Rc<Self>, mut connection: Connection<B>) {
        if connection.sender.is_ready() {
            self.driven.put(connection, Instant::now());
        } else if !connection.sender.is_closed() {
            // An early answer: the request's body is still on its way, and the connection is of use to
            // nobody until its end. Without this task it would be closed then. Or it speaks something
            // else from now on, and this ends at once.
            tokio::task::spawn_local(async move {
                if connection.sender.ready().await.is_ok() {
                    self.driven.put(connection, Instant::now());
                }
            });
        }
    }
}

/// One request in flight, from when its target was chosen until its answer ended.
pub(super) struct InFlight<B>(Rc<Slot<B>>);

impl<B> InFlight<B> {
    pub(super) fn at(slot: &Rc<Slot<B>>) -> Self {
        slot.in_flight.set(slot.in_flight.get() + 1);
        InFlight(Rc::clone(slot))
    }

    pub(super) fn slot(&self) -> &Rc<Slot<B>> {
        &self.0
    }
}

impl<B> Drop for InFlight<B> {
    fn drop(&mut self) {
        self.0.in_flight.set(self.0.in_flight.get() - 1);
    }
}
