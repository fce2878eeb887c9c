//! What is outside of one site: its network, its clock, its chance.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use outside::world::{Door, Later, Post, Wire, World};
use tokio::time::Instant;

use crate::chance::Chance;
use crate::network::Network;

/// When every run begins, as clocks that are right tell it.
const BEGINNING: Duration = Duration::from_hours(500_000);

/// When every run begins.
#[must_use]
pub fn beginning() -> SystemTime {
    UNIX_EPOCH + BEGINNING
}

/// The machine of a site's mesh.
#[must_use]
pub fn mesh_host(site: usize) -> IpAddr {
    host(site, 1)
}

/// The machine of a site's service.
#[must_use]
pub fn app_host(site: usize) -> IpAddr {
    host(site, 2)
}

/// The machine of a site's clients.
#[must_use]
pub fn client_host(site: usize) -> IpAddr {
    host(site, 9)
}

fn host(site: usize, number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, u8::try_from(site).unwrap_or(u8::MAX), number))
}

/// The site that a machine is at.
#[must_use]
pub fn site_of(host: IpAddr) -> usize {
    match host {
        IpAddr::V4(host) => usize::from(host.octets()[2]),
        IpAddr::V6(_) => 0,
    }
}

/// The outside of one site's mesh.
pub struct Outside {
    host: IpAddr,
    network: Network,
    chance: RefCell<Chance>,
    begin: Instant,
    /// How wrong its clock is, in milliseconds.
    wrong: Rc<Cell<i64>>,
}

impl Outside {
    /// That of a machine, whose clock began with the run and is wrong by so much.
    #[must_use]
    pub fn new(
        host: IpAddr,
        network: &Network,
        chance: Chance,
        begin: Instant,
        wrong: &Rc<Cell<i64>>,
    ) -> Outside {
        let (network, wrong) = (network.clone(), Rc::clone(wrong));
        Outside { host, network, chance: RefCell::new(chance), begin, wrong }
    }
}

impl World for Outside {
    fn time_of_day(&self) -> SystemTime {
        let right = beginning() + self.begin.elapsed();
        let wrong = Duration::from_millis(self.wrong.get().unsigned_abs());
        if self.wrong.get() < 0 { right - wrong } else { right + wrong }
    }

    fn random(&self, bytes: &mut [u8]) {
        self.chance.borrow_mut().fill(bytes);
    }

    fn connect(&self, to: SocketAddr) -> Later<io::Result<Box<dyn Wire>>> {
        let (network, host) = (self.network.clone(), self.host);
        Box::pin(async move {
            let wire: Box<dyn Wire> = Box::new(network.connect(host, to).await?);
            Ok(wire)
        })
    }

    fn listen(&self, at: SocketAddr) -> io::Result<Box<dyn Door>> {
        Ok(Box::new(self.network.listen(at)?))
    }

    fn datagrams(&self, at: SocketAddr) -> io::Result<Box<dyn Post>> {
        Ok(Box::new(self.network.datagrams(at)?))
    }
}
