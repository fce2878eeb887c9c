//! Sites on this machine, each with its own Archipel and its own instance of the application, and the emulated
//! network between them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use http::Method;
use link::Authority;
use mesh::Mesh;
use sample::compute::{self, Compute};
use sample::image::{self, Image};
use sample::wan::{Cut, Network, Shape, Traffic};
use sample::{Faults, Handle};
use scope::View as _;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::LocalSet;

use crate::admin::{self, Admin, Serving};
use crate::assemble;
use crate::config::Config;
use crate::members::{Members, View};

use super::ports::{ANY_PORT, Ports};

/// The sites that there are from the beginning.
const SITES: [&str; 3] = ["Site1", "Site2", "Site3"];

/// The round trips between two sites, in milliseconds; those of a site that joins later too.
const RTTS_MS: [(usize, usize, u64); 6] =
    [(0, 1, 20), (0, 2, 60), (1, 2, 40), (0, 3, 30), (1, 3, 50), (2, 3, 70)];

/// What a demonstration waits for, and no longer.
const DEMO_SETTINGS: &str = "[timeouts]\npeer_response = \"5s\"\nhedge = \"50ms\"\n";

/// Sites that run find each other sooner than that, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// All of it. It ends when this is dropped.
pub struct World {
    sites: RwLock<Vec<Arc<Site>>>,
    network: Network,
    authority: Authority,
    /// More tables in the configuration of each site.
    settings: String,
    /// Where each site's files are.
    directory: TempDir,
    /// Nothing starts any more.
    ended: AtomicBool,
}

struct Site {
    name: String,
    /// Where the other sites reach it: at the near end of the emulated network.
    advertised: SocketAddr,
    /// Nothing while it is down.
    node: Mutex<Option<Node>>,
    ports: Ports,
    image: Image,
    compute: Compute,
    image_handle: Handle,
    compute_handle: Handle,
}

/// One running Archipel.
struct Node {
    mesh: Arc<Mesh>,
    members: Members,
    admin: Serving,
}

/// The address that a site sends from: the network tells sites apart by it.
fn ip(site: usize) -> IpAddr {
    Ipv4Addr::new(127, 1, 0, u8::try_from(site + 1).unwrap_or(u8::MAX)).into()
}

impl World {
    /// Starts three sites. Nothing listens anywhere but on this machine.
    pub fn start() -> Result<World, String> {
        World::start_with(DEMO_SETTINGS)
    }

    /// Starts three sites, with more tables in the configuration of each.
    pub fn start_with(settings: &str) -> Result<World, String> {
        let world = World {
            sites: RwLock::default(),
            network: Network::start(Shape::default(), 1).map_err(|error| error.to_string())?,
            authority: Authority::create("demo").map_err(|error| error.to_string())?,
            settings: settings.to_owned(),
            directory: tempfile::tempdir().map_err(|error| error.to_string())?,
            ended: AtomicBool::new(false),
        };
        for _ in SITES {
            world.add_site()?;
        }
        world.until_met()?;
        Ok(world)
    }

    /// Stops every site and removes all files, while somebody else may be in the middle of something.
    pub fn end(&self) -> Result<(), String> {
        /// Whatever was being made when this began is made by then.
        const TRIES: usize = 100;
        self.ended.store(true, Ordering::Relaxed);
        self.stop_all();
        let mut outcome = Ok(());
        for _ in 0..TRIES {
            outcome = std::fs::remove_dir_all(self.directory.path());
            match &outcome {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {}
                _ => return Ok(()),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        outcome.map_err(|error| format!("`{}` is left behind: {error}", self.directory.path().display()))
    }

    fn stop_all(&self) {
        for site in self.sites() {
            let node = site.node().take();
            if let Some(node) = node {
                let _ = node.stop(Duration::from_millis(100));
            }
        }
    }

    /// Whether anything may be started still.
    fn check_going(&self) -> Result<(), String> {
        if self.ended.load(Ordering::Relaxed) { Err("the demo has ended".to_owned()) } else { Ok(()) }
    }

    /// Starts one more site, which knows the first one's address and nothing else. Its number.
    pub fn add_site(&self) -> Result<usize, String> {
        self.check_going()?;
        let index = self.sites().len();
        let name = format!("Site{}", index + 1);
        let identity = self.authority.issue(&name).map_err(|error| error.to_string())?;
        identity.save(&self.home(&name).join("identity")).map_err(|error| error.to_string())?;
        let site = Site::start(&name, ip(index), &self.network)?;
        let text = self.configuration(index, &site);
        self.sites.write().unwrap_or_else(PoisonError::into_inner).push(Arc::new(site));
        for (one, other, rtt_ms) in RTTS_MS.iter().filter(|(one, other, _)| *one.max(other) == index) {
            let shape = Shape::with_rtt(Duration::from_millis(*rtt_ms));
            self.shape(*one, *other, |this| *this = shape);
        }
        // A person may look at it, change it, and learn from it.
        let file = self.home(&name).join("archipel.toml");
        std::fs::write(file, &text).map_err(|error| error.to_string())?;
        self.start_mesh(index)?;
        Ok(index)
    }

    fn configuration(&self, index: usize, site: &Site) -> String {
        let Ports { link, image_public, image_internal, compute_public } = &site.ports;
        let (image, compute) = (site.image_handle.address(), site.compute_handle.address());
        let join = self.sites().first().map(|first| format!("join = [\"{}\"]\n", first.advertised));
        format!(
            "site = \"{}\"\nprofile = \"sample\"\nidentity = \"identity\"\nstate = \"state\"\nthreads = 1\n\n\
             [link]\nlisten = \"{link}\"\nadvertise = \"{}\"\nsource = \"{}\"\n{}\n\
             [services.image]\npublic = [\"{image_public}\"]\ninternal = [\"{image_internal}\"]\n\
             upstreams = [\"http://{image}\"]\n\n\
             [services.compute]\npublic = [\"{compute_public}\"]\nupstreams = [\"http://{compute}\"]\n\n\
             {}",
            site.name,
            site.advertised,
            ip(index),
            join.unwrap_or_default(),
            self.settings
        )
    }

    /// Starts the mesh of a site, at the ports that it has had before.
    pub fn start_mesh(&self, site: usize) -> Result<(), String> {
        self.check_going()?;
        let site = self.site(site)?;
        let config = self.config(&site.name)?;
        let (mesh, members) = assemble::start(&config, mesh::Audit::none(), |_| ())?;
        let admin =
            Admin { site: config.site.clone(), mesh: Arc::downgrade(&mesh), members: members.clone() };
        let admin = Serving::start(&config.state, admin).map_err(|error| error.to_string())?;
        *site.node() = Some(Node { mesh, members, admin });
        Ok(())
    }

    /// Stops the mesh of a site once what is in flight is answered, or after so long: with no patience,
    /// as if it were killed. Its applications go on.
    pub fn stop_mesh(&self, site: usize, patience: Duration) -> Result<(), String> {
        let node = self.site(site)?.node().take();
        node.map_or(Ok(()), |node| node.stop(patience))
    }

    /// Has the mesh of a site read its configuration again.
    pub fn reload_mesh(&self, site: usize) -> Result<(), String> {
        let site = self.site(site)?;
        let config = self.config(&site.name)?;
        match &*site.node() {
            Some(node) => assemble::reload(&config, &config, &node.mesh, &node.members),
            None => Err("this site has stopped".to_owned()),
        }
    }

    /// Who says who the sites are.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Issues a site's identity anew. It counts once the site reads it.
    pub fn renew_identity(&self, site: usize) -> Result<(), String> {
        let name = &self.site(site)?.name;
        let directory = self.home(name).join("identity");
        std::fs::remove_dir_all(&directory).map_err(|error| error.to_string())?;
        let identity = self.authority.issue(name).map_err(|error| error.to_string())?;
        identity.save(&directory).map_err(|error| error.to_string())
    }

    fn config(&self, name: &str) -> Result<Config, String> {
        Config::load(&self.home(name).join("archipel.toml")).map_err(|error| error.to_string())
    }

    /// The sites as one of them sees them.
    pub fn seen_by(&self, site: usize) -> Result<Arc<View>, String> {
        match &*self.site(site)?.node() {
            Some(node) => Ok(node.members.snapshot()),
            None => Err("this site has stopped".to_owned()),
        }
    }

    /// Waits until every site that runs can send requests to every other.
    pub fn until_met(&self) -> Result<(), String> {
        let sites = self.sites();
        let names: Vec<&str> =
            sites.iter().filter(|site| site.node().is_some()).map(|site| site.name.as_str()).collect();
        let deadline = Instant::now() + PATIENCE;
        for site in &sites {
            while !site.reaches(&names) {
                if Instant::now() > deadline {
                    return Err(format!("{} does not find the other sites", site.name));
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }

    /// What went from one site to another.
    pub fn carried(&self, from: usize, to: usize) -> Result<Traffic, String> {
        self.network.traffic(ip(from), ip(to)).map_err(|error| error.to_string())
    }

    /// Requests in flight at a site.
    pub fn in_flight(&self, site: usize) -> Result<usize, String> {
        Ok(self.site(site)?.node().as_ref().map_or(0, |node| node.mesh.in_flight()))
    }

    fn sites(&self) -> Vec<Arc<Site>> {
        self.sites.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The names of all sites.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.sites().iter().map(|site| site.name.clone()).collect()
    }

    fn site(&self, index: usize) -> Result<Arc<Site>, String> {
        self.sites().get(index).cloned().ok_or_else(|| format!("there is no site {index}"))
    }

    /// A site's configuration.
    pub fn file(&self, site: usize) -> Result<PathBuf, String> {
        Ok(self.home(&self.site(site)?.name).join("archipel.toml"))
    }

    /// Orders something of a site's Archipel, over its admin socket, as `archipel`'s commands do.
    pub fn order(
        &self,
        site: usize,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, String> {
        let state = &self.config(&self.site(site)?.name)?.state;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        LocalSet::new().block_on(&runtime, admin::ask(state, method, path, body))
    }

    /// The round trip between two sites that the network is set to; to itself a site has none.
    pub fn rtt(&self, one: usize, other: usize) -> Result<Duration, String> {
        if one == other {
            return Ok(Duration::ZERO);
        }
        let one_way = |from, to| self.network.shape(ip(from), ip(to)).map(|shape| shape.delay);
        let there_and_back = one_way(one, other).and_then(|there| Ok(there + one_way(other, one)?));
        there_and_back.map_err(|error| error.to_string())
    }

    /// A site's directory.
    #[must_use]
    pub fn home(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Where clients reach a service of a site.
    pub fn address(&self, site: usize, service: &str) -> Result<SocketAddr, String> {
        let ports = &self.site(site)?.ports;
        match service {
            "image" => Ok(ports.image_public.address),
            "compute" => Ok(ports.compute_public.address),
            _ => Err(format!("there is no service {service}")),
        }
    }

    /// How often a site's image service created something of this name.
    pub fn images_created(&self, site: usize, name: &str) -> Result<u64, String> {
        Ok(self.site(site)?.image.counts().writes(sample::Write::Create, name))
    }

    /// How often a site's compute service created something of this name.
    pub fn servers_created(&self, site: usize, name: &str) -> Result<u64, String> {
        Ok(self.site(site)?.compute.counts().writes(sample::Write::Create, name))
    }

    /// What is wrong with a site's service, settable while it runs.
    pub fn faults(&self, site: usize, service: &str) -> Result<Faults, String> {
        let site = self.site(site)?;
        let handle = if service == "image" { &site.image_handle } else { &site.compute_handle };
        Ok(handle.faults().clone())
    }

    /// Cuts a site off from all others, or joins it to them again.
    pub fn cut(&self, site: usize, cut: Option<Cut>) -> Result<(), String> {
        for other in (0..self.sites().len()).filter(|other| *other != site) {
            self.cut_between(site, other, cut)?;
            self.cut_between(other, site, cut)?;
        }
        Ok(())
    }

    /// Cuts what one site sends to another, and nothing else; or lets it pass again.
    pub fn cut_between(&self, from: usize, to: usize, cut: Option<Cut>) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let (from, to) = (ip(from), ip(to));
        let outcome = match cut {
            Some(cut) => runtime.block_on(self.network.cut(from, to, cut)),
            None => self.network.heal(from, to),
        };
        outcome.map_err(|error| error.to_string())
    }

    /// The network between the sites.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Changes the network between two sites, both ways.
    pub fn shape(&self, one: usize, other: usize, change: impl Fn(&mut Shape)) {
        for (from, to) in [(one, other), (other, one)] {
            let (from, to) = (ip(from), ip(to));
            if let Ok(mut shape) = self.network.shape(from, to) {
                change(&mut shape);
                // Both were known a moment ago, and places do not go away.
                let _ = self.network.set_shape(from, to, shape);
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop_all();
    }
}

impl Node {
    fn stop(self, patience: Duration) -> Result<(), String> {
        self.admin.stop();
        self.members.stop();
        let mesh = Arc::into_inner(self.mesh).ok_or("the mesh is in use")?;
        mesh.drain(patience);
        Ok(())
    }
}

impl Site {
    /// Starts the application of a site. Its compute service finds images through the mesh, which is not
    /// there yet.
    fn start(name: &str, ip: IpAddr, network: &Network) -> Result<Site, String> {
        let failed = |error: &dyn std::fmt::Display| error.to_string();
        let ports = Ports::take(ip).map_err(|error| failed(&error))?;
        let advertised = network.add(ip, ANY_PORT, ports.link.address).map_err(|error| failed(&error))?;
        let settings = image::Settings { label: Some(format!("image@{name}")), ..image::Settings::default() };
        let image = Image::new(&settings);
        let image_handle = Handle::spawn_thread(image.clone(), ANY_PORT).map_err(|error| failed(&error))?;
        let through = format!("http://{}", ports.image_internal);
        let mut settings = compute::Settings::new(&through).map_err(|error| failed(&error))?;
        settings.label = Some(format!("compute@{name}"));
        let compute = Compute::new(settings);
        let compute_handle =
            Handle::spawn_thread(compute.clone(), ANY_PORT).map_err(|error| failed(&error))?;
        let (name, node) = (name.to_owned(), Mutex::default());
        Ok(Site { name, advertised, node, ports, image, compute, image_handle, compute_handle })
    }

    fn node(&self) -> MutexGuard<'_, Option<Node>> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it can send requests to all of these. One that is down need not.
    fn reaches(&self, names: &[&str]) -> bool {
        let node = self.node();
        let Some(node) = &*node else { return true };
        let (view, peers) = (node.members.snapshot(), node.mesh.peers());
        let usable = |name: &str| {
            view.heard().is_some_and(|heard| heard.usable(name))
                && peers.iter().any(|peer| peer.site.name() == name && peer.works)
        };
        names.iter().all(|name| *name == self.name || (view.find(name).is_some() && usable(name)))
    }
}
