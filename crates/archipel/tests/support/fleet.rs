//! Sites as processes that can be killed, over an emulated network that can be cut, in front of services that are
//! somebody else's.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Output;
use std::time::{Duration, Instant};

use sample::wan::{Cut, Network, Shape};
use serde_json::Value;
use tokio::net::TcpSocket;

use super::PATIENCE;
use super::process::{Home, Running};

/// Between two looks at what changes by itself.
const LOOK: Duration = Duration::from_millis(20);

/// A port that stays ours while nothing listens there.
struct Port {
    address: SocketAddr,
    _holder: TcpSocket,
}

impl Port {
    fn take(ip: IpAddr) -> Port {
        let holder = TcpSocket::new_v4().unwrap();
        holder.set_reuseaddr(true).unwrap();
        holder.set_reuseport(true).unwrap();
        holder.bind(SocketAddr::new(ip, 0)).unwrap();
        Port { address: holder.local_addr().unwrap(), _holder: holder }
    }
}

struct Site {
    ip: IpAddr,
    home: Home,
    /// Where clients reach the service.
    public: Port,
    _link: Port,
    running: Option<Running>,
}

/// Sites with one service each.
pub struct Fleet {
    network: Network,
    sites: Vec<Site>,
}

/// What every site's configuration has, beside what is the site's own.
pub struct Common<'c> {
    pub service: &'c str,
    /// `profile = …`, and whatever else stands before the first table.
    pub head: &'c str,
    /// More tables.
    pub tables: &'c str,
}

impl Fleet {
    /// One site for each of these addresses, where its own service is; all of them have met.
    pub fn start(common: &Common<'_>, services: &[SocketAddr]) -> Fleet {
        let network = Network::start(Shape::default(), 1).unwrap();
        let mut fleet = Fleet { network, sites: Vec::new() };
        for (index, service) in services.iter().enumerate() {
            fleet.add(index, common, *service);
        }
        fleet.until_met();
        fleet
    }

    fn add(&mut self, index: usize, common: &Common<'_>, service: SocketAddr) {
        // The network tells sites apart by the address that they send from.
        let ip = IpAddr::V4(Ipv4Addr::new(127, 2, 0, u8::try_from(index + 1).unwrap()));
        let home = match self.sites.first() {
            Some(first) => first.home.another(&name(index)),
            None => Home::new(),
        };
        let (public, link) = (Port::take(Ipv4Addr::LOCALHOST.into()), Port::take(ip));
        let any = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let advertised = self.network.add(ip, any, link.address).unwrap();
        let join = self.sites.first().map_or_else(String::new, |first| {
            let text = std::fs::read_to_string(first.home.file()).unwrap();
            let known = text.lines().find_map(|own| own.strip_prefix("advertise = ")).unwrap();
            format!("join = [{known}]\n")
        });
        home.write(&format!(
            "site = \"{}\"\nidentity = \"identity\"\nstate = \"state\"\nthreads = 1\n{}\n\
             [link]\nlisten = \"{}\"\nadvertise = \"{advertised}\"\nsource = \"{ip}\"\n{join}\
             [services.{}]\npublic = [\"{}\"]\nupstreams = [\"http://{service}\"]\n{}",
            name(index),
            common.head,
            link.address,
            common.service,
            public.address,
            common.tables
        ));
        let running = Some(home.run());
        self.sites.push(Site { ip, home, public, _link: link, running });
    }

    pub fn sites(&self) -> usize {
        self.sites.len()
    }

    /// Where clients reach the service of a site.
    pub fn address(&self, site: usize) -> SocketAddr {
        self.sites[site].public.address
    }

    /// Ends a site's Archipel as the system does: it gets to do nothing more.
    pub fn kill(&mut self, site: usize) {
        if let Some(mut running) = self.sites[site].running.take() {
            running.signal("KILL");
            running.exit();
        }
    }

    /// Starts it again, unless it runs.
    pub fn revive(&mut self, site: usize) {
        let site = &mut self.sites[site];
        if site.running.is_none() {
            site.running = Some(site.home.run());
        }
    }

    pub fn runs(&self, site: usize) -> bool {
        self.sites[site].running.is_some()
    }

    /// What a site's Archipel said.
    pub fn said(&mut self, site: usize) -> String {
        self.sites[site].running.as_mut().map(Running::rest).unwrap_or_default()
    }

    /// Cuts what goes between two sites, or lets it pass again.
    pub fn cut(&self, one: usize, other: usize, cut: Option<Cut>) {
        let (one, other) = (self.sites[one].ip, self.sites[other].ip);
        match cut {
            Some(cut) => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(self.network.cut_both(one, other, cut)).unwrap();
            }
            None => self.network.heal_both(one, other).unwrap(),
        }
    }

    /// Cuts a site off from all others, or joins it to them again.
    pub fn isolate(&self, site: usize, cut: Option<Cut>) {
        for other in (0..self.sites.len()).filter(|other| *other != site) {
            self.cut(site, other, cut);
        }
    }

    /// Runs a command as the administrator of a site.
    pub fn archipel(&self, site: usize, arguments: &[&str]) -> Output {
        self.sites[site].home.archipel(arguments)
    }

    /// What a command prints with `--json`.
    pub fn json(&self, site: usize, arguments: &[&str]) -> Value {
        let done = self.archipel(site, &[arguments, &["--json"]].concat());
        assert!(done.status.success(), "{arguments:?}: {done:?}");
        serde_json::from_slice(&done.stdout).unwrap()
    }

    /// Where a site keeps what must survive.
    pub fn state(&self, site: usize) -> std::path::PathBuf {
        self.sites[site].home.path().join("state")
    }

    /// Waits until every site can send requests to every other.
    pub fn until_met(&self) {
        for (index, site) in self.sites.iter().enumerate() {
            let others = (0..self.sites.len()).filter(|other| *other != index);
            for other in others {
                until(&format!("{} meets {}", name(index), name(other)), || {
                    let done = site.home.archipel(&["sites", "--json"]);
                    let known: Value = serde_json::from_slice(&done.stdout).unwrap_or_default();
                    let found = known["sites"].as_array().into_iter().flatten();
                    let mut found = found.filter(|known| known["site"] == name(other).as_str());
                    found.any(|known| known["status"] == "alive")
                });
            }
        }
    }
}

pub fn name(site: usize) -> String {
    format!("Site{}", site + 1)
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < 2 * PATIENCE, "never: {what}");
        std::thread::sleep(LOOK);
    }
}
