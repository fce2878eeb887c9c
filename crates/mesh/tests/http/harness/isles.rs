//! Three sites in this process, each with a service of its own: A is the client's, B and C are its peers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use link::Authority;
use mesh::replication::Reservation;
use mesh::{Audit, Fixed, Mesh, Settings, Sites, Standing};
use scope::{Atlas, Known, Site, View, Zone};

use super::{Conn, Message, Upstream, link_of, plain, run, settings, site};

const NAMES: [&str; 3] = ["A", "B", "C"];

pub struct Isles {
    pub address: SocketAddr,
    service: String,
    meshes: Vec<Mesh>,
    chart: Chart,
}

impl Isles {
    pub fn new(upstreams: [&Upstream; 3]) -> Isles {
        Isles::tuned(upstreams, |_| {})
    }

    /// With other settings, at every site.
    pub fn tuned(upstreams: [&Upstream; 3], tune: impl Fn(&mut Settings)) -> Isles {
        Isles::at(upstreams.map(Upstream::address), tune)
    }

    /// With services at these addresses.
    pub fn at(upstreams: [SocketAddr; 3], tune: impl Fn(&mut Settings)) -> Isles {
        let authority = Authority::create("Test").unwrap();
        let mut chart = Chart {
            fixed: Fixed { atlas: Atlas::new(NAMES.map(site)).unwrap(), peers: BTreeMap::new() },
            standings: BTreeMap::new(),
        };
        let (mut meshes, mut service) = (Vec::new(), String::new());
        // The far ones first: the near one is told where they listen.
        for (index, name) in NAMES.into_iter().enumerate().rev() {
            let mut settings = settings(name, vec![plain(upstreams[index])]);
            chart.fixed.atlas.set_here(index);
            settings.sites = Arc::new(chart.clone());
            settings.link = Some(link_of(&authority, name));
            tune(&mut settings);
            service.clone_from(settings.services.keys().next().unwrap());
            let mesh = Mesh::start(settings, NonZeroUsize::MIN, Audit::none(), [7; 16]).unwrap();
            chart.fixed.peers.insert(site(name), mesh.link_address().unwrap().to_string());
            meshes.push(mesh);
        }
        meshes.reverse();
        chart.fixed.peers.remove(&site("A"));
        Isles { address: meshes[0].addresses(&service, false)[0], service, meshes, chart }
    }

    /// The first site is told this of another.
    pub fn stands(&mut self, name: &str, standing: Standing) {
        self.chart.standings.insert(site(name), standing);
        let chart: Arc<dyn Sites> = Arc::new(self.chart.clone());
        self.meshes[0].set_sites(&chart);
    }

    /// The first site is told that another listens here from now on. Where it listened before.
    pub fn moves(&mut self, name: &str, address: String) -> String {
        let before = self.chart.fixed.peers.insert(site(name), address).unwrap();
        let chart: Arc<dyn Sites> = Arc::new(self.chart.clone());
        self.meshes[0].set_sites(&chart);
        before
    }

    /// Every site is told where the others are.
    pub fn acquaint(&self) {
        let address = |mesh: &Mesh| mesh.link_address().unwrap().to_string();
        for (here, mesh) in self.meshes.iter().enumerate() {
            let mut chart = self.chart.clone();
            chart.fixed.atlas.set_here(here);
            let peers = self.meshes.iter().zip(NAMES).filter(|(_, name)| *name != NAMES[here]);
            chart.fixed.peers = peers.map(|(mesh, name)| (site(name), address(mesh))).collect();
            let chart: Arc<dyn Sites> = Arc::new(chart);
            mesh.set_sites(&chart);
        }
    }

    /// A new connection of a client of one of the sites.
    pub fn connect_to(&self, index: usize) -> Conn {
        Conn::to(self.meshes[index].addresses(&self.service, false)[0])
    }

    pub fn connect(&self) -> Conn {
        Conn::to(self.address)
    }

    /// One request on a connection of its own.
    pub fn ask(&self, scope: &str, line: &str, fields: &str) -> Message {
        let mut client = self.connect();
        client.send(head(scope, line, fields));
        client.answer_to(line)
    }

    /// Requests in flight at each site.
    pub fn in_flight(&self) -> Vec<usize> {
        self.meshes.iter().map(Mesh::in_flight).collect()
    }

    /// An administrator of a site gives a resource a replica at another.
    pub fn extend(&self, index: usize, resource: &str, to: &str) {
        let handle = self.meshes[index].replication().unwrap();
        run(handle.change(resource, replica::Change::Extend(site(to)))).unwrap();
    }

    /// Whether every site with records has executed all that it knows of.
    pub fn is_quiet(&self) -> bool {
        let shown = |mesh: &Mesh| run(async { mesh.replication()?.resources().await.ok() });
        let shown = self.meshes.iter().filter_map(shown).flatten();
        shown.flat_map(|resource| resource.replicas).all(|replica| replica.pending == 0)
    }

    /// The operations in doubt at a site.
    pub fn in_doubt(&self, index: usize) -> usize {
        run(self.meshes[index].replication().unwrap().in_doubt()).unwrap().len()
    }

    /// The names that are reserved, as each site sees it.
    pub fn reservations(&self) -> Vec<Reservation> {
        let of = |mesh: &Mesh| run(async { mesh.replication()?.reservations().await.ok() });
        self.meshes.iter().filter_map(of).flatten().collect()
    }

    /// An administrator of a site says that a name is reserved no more.
    pub fn clear_reservation(&self, index: usize, name: &str) {
        run(async { self.meshes[index].replication().unwrap().clear_reservation(name).await.unwrap() });
    }

    /// How many there are now at the first site.
    pub fn gauge(&self, name: &str) -> u64 {
        let metrics = self.meshes[0].metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("archipel_{name} ")));
        line.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
    }

    /// What the first site counted under this name.
    pub fn counted(&self, name: &str) -> u64 {
        let metrics = self.meshes[0].metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("archipel_{name}_total ")));
        line.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
    }
}

impl Drop for Isles {
    fn drop(&mut self) {
        for mesh in self.meshes.drain(..) {
            mesh.drain(Duration::from_millis(1));
        }
    }
}

/// The head of a request: `fields` end each with CR LF.
pub fn head(scope: &str, line: &str, fields: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: service\r\nX-Scope: image: {scope}\r\n{fields}\r\n")
}

/// The sites, and what is said of them.
#[derive(Clone, Debug)]
struct Chart {
    fixed: Fixed,
    standings: BTreeMap<Site, Standing>,
}

impl Sites for Chart {
    fn address(&self, site: usize) -> Option<&str> {
        self.fixed.address(site)
    }

    fn standing(&self, site: usize) -> Standing {
        self.standings.get(&self.members()[site]).copied().unwrap_or(Standing::Usable)
    }
}

impl View for Chart {
    fn here(&self) -> usize {
        self.fixed.here()
    }

    fn members(&self) -> &[Site] {
        self.fixed.members()
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.fixed.find(name)
    }

    fn offers(&self, site: usize, service: &str) -> bool {
        self.fixed.offers(site, service)
    }

    fn services(&self) -> Option<BTreeSet<&str>> {
        self.fixed.services()
    }

    fn rtt(&self, from: usize, to: usize) -> Option<Duration> {
        self.fixed.rtt(from, to)
    }

    fn label(&self, site: usize, label: &str) -> Option<&str> {
        self.fixed.label(site, label)
    }

    fn metric(&self, site: usize, metric: &str) -> Option<f64> {
        self.fixed.metric(site, metric)
    }

    fn zone(&self, name: &str) -> Option<&Zone> {
        self.fixed.zone(name)
    }

    fn known(&self, what: Known) -> Vec<&str> {
        self.fixed.known(what)
    }
}
