//! An emulated WAN, in user space: delay, jitter, bandwidth and loss, and it can be cut.
//!
//! [`Wan::listen`] is one link: it takes connections and carries their bytes to a target and back. A [`Network`]
//! joins any number of places, each with one address for connections and datagrams, and each two with a way of
//! their own in each direction. Both need no privileges and no kernel module.
//!
//! What they are faithful to: a connection costs a round trip before its first byte; all that goes one way
//! shares its bandwidth, connections in turns; bytes keep their order, datagrams only where there is no jitter;
//! half-closes and resets cross like bytes do; a reader that does not read stops its writer; a full queue loses
//! datagrams.
//!
//! What they are not: connections lose nothing, and so there is no retransmission or congestion control, nor do
//! bytes one way wait for acknowledgements the other; and a connection to what is stalled is accepted, by the
//! kernel, and then hears nothing.
//!
//! In the order in which a connection meets them: `port`, `place` (who it is from), `map` and `pair` (what is
//! between the two), `carry`, `line`, `schedule`. Datagrams wait in `post` instead.

mod carry;
mod line;
mod map;
mod network;
mod pair;
mod place;
mod port;
mod post;
mod schedule;
mod shape;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::watch;
use tokio::task::JoinSet;

pub use network::{Flapping, Network, Traffic, UnknownPlace};
pub use shape::Shape;

use carry::{Direction, Journey, Way};
use port::Port;
use shape::Weather;

/// Connections at a time; more wait in the kernel's backlog.
const MAX_CONNECTIONS: usize = 4096;

/// How a link is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing passes, and nobody is told, as with a black hole: what is under way waits for the link to heal.
    /// New connections are accepted and wait too. Datagrams are lost.
    Stall,
    /// Connections are reset, what is under way is lost, and new connections are refused.
    Reset,
}

/// What a link carried since it was made. Bytes count when they enter it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Connections that were accepted.
    pub connections: u64,
    /// Bytes towards the target.
    pub forth_bytes: u64,
    /// Bytes from the target.
    pub back_bytes: u64,
}

/// A running link. Clones are the same link; it stops when the last of them is dropped.
#[derive(Clone, Debug)]
pub struct Wan {
    address: SocketAddr,
    weather: Arc<watch::Sender<Weather>>,
    /// The last change that the link has acted on.
    applied: watch::Receiver<u64>,
    link: Arc<Link>,
}

impl Wan {
    /// Starts a link as a task of this runtime. `bind` is usually `127.0.0.1:0`.
    ///
    /// The seed decides the jitter: the same bytes in the same pieces meet the same delays.
    pub fn listen(bind: SocketAddr, target: SocketAddr, shape: Shape, seed: u64) -> io::Result<Wan> {
        let (wan, run) = Wan::new(bind, target, shape, seed)?;
        tokio::spawn(run);
        Ok(wan)
    }

    /// Starts a link on a thread and runtime of its own, so that it takes no time from what it joins.
    pub fn listen_thread(bind: SocketAddr, target: SocketAddr, shape: Shape, seed: u64) -> io::Result<Wan> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (wan, run) = {
            let _inside = runtime.enter();
            Wan::new(bind, target, shape, seed)?
        };
        std::thread::Builder::new().name(format!("wan {target}")).spawn(move || runtime.block_on(run))?;
        Ok(wan)
    }

    fn new(
        bind: SocketAddr,
        target: SocketAddr,
        shape: Shape,
        seed: u64,
    ) -> io::Result<(Wan, impl Future<Output = ()>)> {
        let port = Port::bind(bind)?;
        let address = port.address();
        let (weather, forecast) = watch::channel(Weather::new(shape.bounded()));
        let (acted, applied) = watch::channel(0);
        let link = Arc::new(Link::new(target, seed));
        let run = run(port, Arc::clone(&link), forecast, acted);
        Ok((Wan { address, weather: Arc::new(weather), applied, link }, run))
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the shape. Bytes under way keep the times that they had.
    pub fn set_shape(&self, shape: Shape) {
        self.weather.send_modify(|weather| weather.shape = shape.bounded());
    }

    /// The shape now.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.weather.borrow().shape
    }

    /// Cuts the link. When this returns, connections were reset, or nothing passes.
    pub async fn cut(&self, cut: Cut) {
        self.change(Some(cut)).await;
    }

    /// Heals the link. When this returns, it takes connections again.
    pub async fn heal(&self) {
        self.change(None).await;
    }

    /// What it carried.
    #[must_use]
    pub fn carried(&self) -> Carried {
        Carried {
            connections: self.link.connections.load(Relaxed),
            forth_bytes: self.link.forth.bytes.load(Relaxed),
            back_bytes: self.link.back.bytes.load(Relaxed),
        }
    }

    async fn change(&self, cut: Option<Cut>) {
        let mut this_change = 0;
        self.weather.send_modify(|weather| this_change = weather.change(cut));
        // The link ends before its handles only when its runtime does: then there is nothing to wait for.
        let _ = self.applied.clone().wait_for(|applied| *applied >= this_change).await;
    }
}

/// What the connections of a link share.
#[derive(Debug)]
struct Link {
    target: SocketAddr,
    seed: u64,
    connections: AtomicU64,
    forth: Arc<Direction>,
    back: Arc<Direction>,
}

impl Link {
    fn new(target: SocketAddr, seed: u64) -> Link {
        Link { target, seed, connections: AtomicU64::new(0), forth: Arc::default(), back: Arc::default() }
    }

    /// The next connection's.
    fn journey(&self, weather: &watch::Receiver<Weather>, resets: u64) -> Journey {
        let way = |direction| Way { direction: Arc::clone(direction), weather: weather.clone() };
        Journey {
            target: self.target,
            seed: self.seed,
            number: self.connections.fetch_add(1, Relaxed),
            resets,
            forth: way(&self.forth),
            back: way(&self.back),
        }
    }
}

/// Takes connections, and acts on cuts, until the last handle is gone.
async fn run(
    mut port: Port,
    link: Arc<Link>,
    mut weather: watch::Receiver<Weather>,
    acted: watch::Sender<u64>,
) {
    let mut connections = JoinSet::new();
    loop {
        let now = *weather.borrow_and_update();
        if now.cut == Some(Cut::Reset) {
            port.close();
            while connections.join_next().await.is_some() {}
        } else {
            port.open().await;
        }
        acted.send_replace(now.changes);
        loop {
            tokio::select! {
                biased;
                changed = weather.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return,
                },
                client = port.accept(), if connections.len() < MAX_CONNECTIONS => {
                    let journey = link.journey(&weather, now.resets);
                    connections.spawn(carry::carry(client, journey));
                }
                _ = connections.join_next(), if !connections.is_empty() => {}
            }
        }
    }
}
