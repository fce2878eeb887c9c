//! Requests in flight, and the places that they take.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::core::Shared;
use crate::idle::Busy;

/// A request in flight, and the places that it has taken. Those for this site's own services and those
/// for other sites are apart: what waits for another site takes nothing from local requests.
pub(crate) struct Ticket {
    shared: Arc<Shared>,
    local: Cell<bool>,
    away: Cell<bool>,
    /// Its connection, if that serves one request at a time.
    _busy: Option<Busy>,
}

impl Ticket {
    /// Counted already.
    pub(crate) fn new(shared: Arc<Shared>, busy: Option<Busy>) -> Ticket {
        Ticket { shared, local: Cell::new(false), away: Cell::new(false), _busy: busy }
    }

    /// Takes a place for a request to this site's own service, unless it has one. What has a scope may wait for
    /// other sites, if only by the calls that it causes: it takes nothing from requests that have none.
    pub(crate) fn here(&self, is_scoped: bool, most: usize) -> bool {
        if is_scoped { self.away(most) } else { take(&self.shared.local, &self.local, most) }
    }

    /// Takes a place among the requests that may need other sites, unless it has one.
    pub(crate) fn away(&self, most: usize) -> bool {
        take(&self.shared.away, &self.away, most)
    }
}

fn take(places: &AtomicUsize, has: &Cell<bool>, most: usize) -> bool {
    if !has.get() {
        if places.fetch_add(1, Ordering::Relaxed) < most {
            has.set(true);
        } else {
            places.fetch_sub(1, Ordering::Relaxed);
        }
    }
    has.get()
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.shared.in_flight.fetch_sub(1, Ordering::Relaxed);
        for (places, has) in [(&self.shared.local, &self.local), (&self.shared.away, &self.away)] {
            if has.get() {
                places.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// A place among the requests of one peer, given back when dropped.
pub(crate) struct PeerTicket(Rc<Cell<usize>>);

impl Drop for PeerTicket {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// How many of something each peer has.
pub(crate) type Admitted = BTreeMap<Rc<str>, Rc<Cell<usize>>>;

pub(crate) fn admit(peers: &RefCell<Admitted>, site: &Rc<str>, most: usize) -> Option<PeerTicket> {
    let mut peers = peers.borrow_mut();
    let count = peers.entry(Rc::clone(site)).or_default();
    (count.get() < most).then(|| {
        count.set(count.get() + 1);
        PeerTicket(Rc::clone(count))
    })
}
