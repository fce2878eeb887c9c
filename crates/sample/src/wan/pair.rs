//! What goes from one place of a network to another: all that an ordered pair of places has of its own.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::UdpSocket;
use tokio::sync::watch;

use super::Cut;
use super::carry::{Direction, Way};
use super::network::Traffic;
use super::post::Post;
use super::schedule::Fates;
use super::shape::{Shape, Weather};

#[derive(Debug)]
pub(super) struct Pair {
    pub(super) weather: watch::Sender<Weather>,
    pub(super) seed: u64,
    direction: Arc<Direction>,
    fates: Mutex<Fates>,
    post: Post,
    /// Connections that are open now.
    open: watch::Sender<usize>,
    connections: AtomicU64,
    datagrams: AtomicU64,
    datagram_bytes: AtomicU64,
    datagrams_lost: AtomicU64,
}

/// A connection that is open. It is not when this is dropped.
#[derive(Debug)]
pub(super) struct Open {
    pair: Arc<Pair>,
    pub(super) number: u64,
    /// How often the pair had been reset when it began.
    pub(super) resets: u64,
}

impl Pair {
    /// Each pair has its own sequence of jitter and losses, so that what others do does not change it.
    pub(super) fn new(from: IpAddr, to: IpAddr, shape: Shape, seed: u64) -> Pair {
        let seed = [from, to].iter().fold(seed, |seed, ip| Fates::mix(seed, *ip));
        Pair {
            weather: watch::Sender::new(Weather::new(shape.bounded())),
            seed,
            direction: Arc::default(),
            fates: Mutex::new(Fates::new(seed)),
            post: Post::default(),
            open: watch::Sender::new(0),
            connections: AtomicU64::new(0),
            datagrams: AtomicU64::new(0),
            datagram_bytes: AtomicU64::new(0),
            datagrams_lost: AtomicU64::new(0),
        }
    }

    pub(super) fn way(&self) -> Way {
        Way { direction: Arc::clone(&self.direction), weather: self.weather.subscribe() }
    }

    /// Counts a new connection, unless it is to be reset at once.
    pub(super) fn admit(self: &Arc<Pair>) -> Option<Open> {
        // The weather cannot change while it is looked at: a connection is either refused, or there to be reset.
        let weather = self.weather.borrow();
        if weather.cut == Some(Cut::Reset) {
            return None;
        }
        self.open.send_modify(|open| *open += 1);
        let number = self.connections.fetch_add(1, Relaxed);
        Some(Open { pair: Arc::clone(self), number, resets: weather.resets })
    }

    /// Cuts or heals; the number of this change.
    pub(super) fn change(&self, cut: Option<Cut>) -> u64 {
        let mut this_change = 0;
        self.weather.send_modify(|weather| this_change = weather.change(cut));
        this_change
    }

    /// Waits until no connection is open, or until somebody changed the weather again.
    pub(super) async fn closed(&self, since_change: u64) {
        let (mut open, mut weather) = (self.open.subscribe(), self.weather.subscribe());
        tokio::select! {
            _ = open.wait_for(|open| *open == 0) => {}
            _ = weather.wait_for(|weather| weather.changes != since_change) => {}
        }
    }

    /// Sends a datagram on its way, or loses it.
    pub(super) fn post(&self, datagram: &[u8]) {
        let Weather { shape, cut, .. } = *self.weather.borrow();
        let (lost, jitter) = self.fates.lock().unwrap_or_else(PoisonError::into_inner).next(&shape);
        let sent = cut.is_none() && !lost && {
            let departure = self.direction.depart(datagram.len(), &shape);
            self.post.push(departure + shape.delay + jitter, datagram)
        };
        if !sent {
            self.datagrams_lost.fetch_add(1, Relaxed);
        }
    }

    /// Delivers datagrams as they arrive. What arrives at a cut is lost.
    pub(super) async fn deliver(&self, from: &UdpSocket, target: SocketAddr) {
        loop {
            let datagram = self.post.next().await;
            if self.weather.borrow().cut.is_some() {
                self.datagrams_lost.fetch_add(1, Relaxed);
                continue;
            }
            // Whoever receives it finds it counted. A target that cannot be sent to has lost it.
            self.datagrams.fetch_add(1, Relaxed);
            self.datagram_bytes.fetch_add(datagram.len() as u64, Relaxed);
            let _ = from.send_to(&datagram, target).await;
        }
    }

    pub(super) fn traffic(&self) -> Traffic {
        Traffic {
            connections: self.connections.load(Relaxed),
            bytes: self.direction.bytes.load(Relaxed),
            datagrams: self.datagrams.load(Relaxed),
            datagram_bytes: self.datagram_bytes.load(Relaxed),
            datagrams_lost: self.datagrams_lost.load(Relaxed),
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.pair.open.send_modify(|open| *open = open.saturating_sub(1));
    }
}
