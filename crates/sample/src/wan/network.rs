//! A network of places: any two of them as far apart as they are told, each way of its own.
//!
//! Every place has one address, the same for all others, for connections and for datagrams. Who connects or
//! sends is known by the address that it does so from: on Linux, every address in `127.0.0.0/8` is there to
//! be bound without set-up, so place number five can be `127.1.0.5`. Who sends from elsewhere is a stranger:
//! its connections are reset and its datagrams lost, because a place that forgot to bind would otherwise pass
//! every cut.
//!
//! What goes from a place to another, in connections that either of them opened and in datagrams, shares a
//! [`Shape`] and a [`Cut`]. Datagrams are delayed, lost, and overtaken by others where jitter has it so; never
//! repeated. They arrive from the address of their sender.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::map::Map;
use super::pair::Pair;
use super::place::{self, Place};
use super::{Cut, Shape};

/// What went from one place to another since both are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Connections that it opened to the other.
    pub connections: u64,
    /// Bytes that it sent, in connections of either. They count when they enter the network.
    pub bytes: u64,
    /// Datagrams that arrived, whether or not there was anybody to receive them.
    pub datagrams: u64,
    /// Bytes in them.
    pub datagram_bytes: u64,
    /// Datagrams that will not arrive: lost at random, at a cut, or at a full queue.
    pub datagrams_lost: u64,
}

/// A pair of places was meant of which one is not in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPlace {
    from: IpAddr,
    to: IpAddr,
}

impl std::fmt::Display for UnknownPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} or {} is not in the network", self.from, self.to)
    }
}

impl std::error::Error for UnknownPlace {}

/// A running network, on a thread of its own. Clones are the same network; it stops with the last of them.
#[derive(Clone, Debug)]
pub struct Network {
    map: Arc<Map>,
    runtime: Handle,
    /// The thread ends when this is dropped.
    _running: Arc<oneshot::Sender<()>>,
}

impl Network {
    /// Starts a network without places. Any two places that are added are this far apart at first.
    ///
    /// The seed decides jitter and losses: the n-th datagram from one place to another has the same fate.
    pub fn start(shape: Shape, seed: u64) -> io::Result<Network> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (running, stopped) = oneshot::channel::<()>();
        let run = move || {
            let _ = runtime.block_on(stopped);
        };
        std::thread::Builder::new().name("network".to_owned()).spawn(run)?;
        Ok(Network { map: Arc::new(Map::new(shape, seed)), runtime: handle, _running: Arc::new(running) })
    }

    /// Adds a place, and returns its address for the others: `listen`, with a port if that had none.
    ///
    /// The place is whoever sends from `ip`; what is sent to it goes to `target`, connections and datagrams.
    pub fn add(&self, ip: IpAddr, listen: SocketAddr, target: SocketAddr) -> io::Result<SocketAddr> {
        let (port, socket) = {
            let _inside = self.runtime.enter();
            place::bind(listen)?
        };
        let address = port.address();
        let place = Arc::new(Place { ip: ip.to_canonical(), target, socket });
        let taken = || io::Error::new(ErrorKind::AlreadyExists, format!("a place sends from {ip} already"));
        for (pair, from, to) in self.map.add(&place).ok_or_else(taken)? {
            self.runtime.spawn(async move { pair.deliver(&from.socket, to.target).await });
        }
        self.runtime.spawn(place::accept(port, Arc::clone(&place), Arc::clone(&self.map)));
        self.runtime.spawn(place::receive(place, Arc::clone(&self.map)));
        Ok(address)
    }

    /// Changes what it is like from one place to another. What is under way keeps the time that it had.
    pub fn set_shape(&self, from: IpAddr, to: IpAddr, shape: Shape) -> Result<(), UnknownPlace> {
        self.pair(from, to)?.weather.send_modify(|weather| weather.shape = shape.bounded());
        Ok(())
    }

    /// What it is like now from one place to another.
    pub fn shape(&self, from: IpAddr, to: IpAddr) -> Result<Shape, UnknownPlace> {
        Ok(self.pair(from, to)?.weather.borrow().shape)
    }

    /// Cuts one way. When this returns, nothing passes, or connections were reset.
    ///
    /// A [`Cut::Stall`] holds what the one place sends, in connections of either: the other accepts and is
    /// never heard, or is heard and never answered. New connections, of either, need both ways. A
    /// [`Cut::Reset`] ends the connections that the one opened, and its new ones are accepted, by the kernel,
    /// and reset at once; those that the other opened go on. Datagrams that meet either are lost.
    pub async fn cut(&self, from: IpAddr, to: IpAddr, cut: Cut) -> Result<(), UnknownPlace> {
        let pair = self.pair(from, to)?;
        let change = pair.change(Some(cut));
        if cut == Cut::Reset {
            pair.closed(change).await;
        }
        self.settled().await;
        Ok(())
    }

    /// Heals one way.
    pub fn heal(&self, from: IpAddr, to: IpAddr) -> Result<(), UnknownPlace> {
        self.pair(from, to)?.change(None);
        Ok(())
    }

    /// Cuts both ways between two places.
    pub async fn cut_both(&self, one: IpAddr, other: IpAddr, cut: Cut) -> Result<(), UnknownPlace> {
        self.cut(one, other, cut).await?;
        self.cut(other, one, cut).await
    }

    /// Heals both ways between two places.
    pub fn heal_both(&self, one: IpAddr, other: IpAddr) -> Result<(), UnknownPlace> {
        self.heal(one, other)?;
        self.heal(other, one)
    }

    /// Cuts one way and heals it again and again, so long each, until what this returns is dropped. It is
    /// healed then.
    pub fn flap(
        &self,
        from: IpAddr,
        to: IpAddr,
        cut: Cut,
        [up, down]: [Duration; 2],
    ) -> Result<Flapping, UnknownPlace> {
        let flap = Arc::new(Flap { pair: self.pair(from, to)?, stopped: Mutex::new(false) });
        let flapping = Flapping(Arc::clone(&flap));
        self.runtime.spawn(async move {
            for (cut, duration) in [(Some(cut), down), (None, up)].into_iter().cycle() {
                if !flap.change(cut) {
                    return;
                }
                tokio::time::sleep(duration).await;
            }
        });
        Ok(flapping)
    }

    /// What went from one place to another.
    pub fn traffic(&self, from: IpAddr, to: IpAddr) -> Result<Traffic, UnknownPlace> {
        Ok(self.pair(from, to)?.traffic())
    }

    /// Connections and datagrams that came from no place of the network.
    #[must_use]
    pub fn strangers(&self) -> u64 {
        self.map.strangers()
    }

    fn pair(&self, from: IpAddr, to: IpAddr) -> Result<Arc<Pair>, UnknownPlace> {
        self.map.find(from, to).ok_or(UnknownPlace { from, to })
    }

    /// Waits until whatever the network was doing is done. It has one thread: all that runs after this has
    /// run knows what was known before.
    async fn settled(&self) {
        // An error means that the network has stopped: it is as settled as can be.
        let _ = self.runtime.spawn(async {}).await;
    }
}

/// A way between two places that comes and goes, until this is dropped.
#[derive(Debug)]
pub struct Flapping(Arc<Flap>);

#[derive(Debug)]
struct Flap {
    pair: Arc<Pair>,
    stopped: Mutex<bool>,
}

impl Flap {
    /// Cuts or heals, unless it was stopped; whether it goes on.
    fn change(&self, cut: Option<Cut>) -> bool {
        // Whoever stops it waits for this: nothing is cut after that.
        let stopped = self.stopped();
        if !*stopped {
            self.pair.change(cut);
        }
        !*stopped
    }

    fn stopped(&self) -> MutexGuard<'_, bool> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Flapping {
    fn drop(&mut self) {
        *self.0.stopped() = true;
        self.0.pair.change(None);
    }
}
