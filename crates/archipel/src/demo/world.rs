//! Three sites, each with its own Archipel and its own instance of the application.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::Authority;
use mesh::Mesh;
use sample::compute::{self, Compute};
use sample::image::{self, Image};
use sample::wan::{Carried, Cut, Shape, Wan};
use sample::{Faults, Handle};
use tempfile::TempDir;
use tokio::net::TcpSocket;

use crate::assemble;
use crate::config::Config;

/// The sites.
pub const SITES: [&str; 3] = ["Site1", "Site2", "Site3"];

/// The round trips between two sites, in milliseconds.
const RTTS_MS: [(usize, usize, u64); 3] = [(0, 1, 20), (0, 2, 60), (1, 2, 40)];

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// What a demonstration waits for, and no longer.
const DEMO_SETTINGS: &str = "[timeouts]\npeer_response = \"5s\"\nhedge = \"50ms\"\n";

/// All of it. It ends when this is dropped.
pub struct World {
    sites: Vec<Site>,
    /// From one site to another: a request that Site1 sends to Site2 takes the link from 0 to 1.
    links: Vec<(usize, usize, Wan)>,
    /// Where each site's files are.
    directory: TempDir,
}

struct Site {
    /// Nothing while it is down.
    mesh: Mutex<Option<Mesh>>,
    ports: Ports,
    image: Image,
    compute: Compute,
    image_handle: Handle,
    compute_handle: Handle,
}

/// A site's own ports, the same each time its mesh starts.
struct Ports {
    link: Port,
    image_public: Port,
    image_internal: Port,
    compute_public: Port,
}

impl World {
    /// Starts three sites. Nothing listens anywhere but on this machine.
    pub fn start() -> Result<World, String> {
        World::start_with(DEMO_SETTINGS)
    }

    /// Starts three sites, with more tables in the configuration of each.
    pub fn start_with(settings: &str) -> Result<World, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let authority = Authority::create("demo").map_err(|error| error.to_string())?;
        let mut sites = Vec::new();
        for name in SITES {
            let identity = authority.issue(name).map_err(|error| error.to_string())?;
            let home = directory.path().join(name);
            identity.save(&home.join("identity")).map_err(|error| error.to_string())?;
            sites.push(Site::start(name)?);
        }
        let mut world = World { sites, links: Vec::new(), directory };
        world.join()?;
        for (index, name) in SITES.iter().enumerate() {
            let text = world.configuration(index, name, settings)?;
            // A person may look at it, change it, and learn from it.
            let file = world.home(name).join("archipel.toml");
            std::fs::write(file, &text).map_err(|error| error.to_string())?;
            world.start_mesh(index)?;
        }
        Ok(world)
    }

    /// Puts an emulated link between any two sites.
    fn join(&mut self) -> Result<(), String> {
        for (from, to, rtt_ms) in RTTS_MS.iter().flat_map(|(a, b, rtt)| [(*a, *b, *rtt), (*b, *a, *rtt)]) {
            let target = self.site(to)?.ports.link.address;
            let shape = Shape::with_rtt(Duration::from_millis(rtt_ms));
            let wan = Wan::listen_thread(ANY_PORT, target, shape, 1).map_err(|error| error.to_string())?;
            self.links.push((from, to, wan));
        }
        Ok(())
    }

    /// Each site knows where the others are: at the near end of an emulated link.
    fn configuration(&self, index: usize, name: &str, more: &str) -> Result<String, String> {
        let site = self.site(index)?;
        let Ports { link, image_public, image_internal, compute_public } = &site.ports;
        let (image, compute) = (site.image_handle.address(), site.compute_handle.address());
        let mut text = format!(
            "site = \"{name}\"\nprofile = \"rest\"\nidentity = \"identity\"\nstate = \"state\"\n\n\
             [link]\nlisten = \"{link}\"\n\n\
             [services.image]\npublic = [\"{image_public}\"]\ninternal = [\"{image_internal}\"]\n\
             upstreams = [\"http://{image}\"]\n\n\
             [services.compute]\npublic = [\"{compute_public}\"]\nupstreams = [\"http://{compute}\"]\n\n\
             {more}"
        );
        for (_, to, wan) in self.links.iter().filter(|(from, ..)| *from == index) {
            let peer = SITES.get(*to).ok_or("a link goes nowhere")?;
            text.push_str(&format!("\n[peers.{peer}]\naddress = \"{}\"\n", wan.address()));
        }
        Ok(text)
    }

    /// Starts the mesh of a site, at the ports that it has had before.
    pub fn start_mesh(&self, site: usize) -> Result<(), String> {
        let home = self.home(SITES.get(site).ok_or("there is no such site")?);
        let config = Config::load(&home.join("archipel.toml")).map_err(|error| error.to_string())?;
        let secret = assemble::secret(&config.state)?;
        let settings = assemble::settings(&config)?;
        let mesh = Mesh::start(settings, std::num::NonZeroUsize::MIN, mesh::Audit::none(), secret);
        *self.site(site)?.mesh() = Some(mesh.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Stops the mesh of a site once what is in flight is answered, or after so long: with no patience,
    /// as if it were killed. Its applications go on.
    pub fn stop_mesh(&self, site: usize, patience: Duration) -> Result<(), String> {
        let mesh = self.site(site)?.mesh().take();
        if let Some(mesh) = mesh {
            mesh.drain(patience);
        }
        Ok(())
    }

    /// Has the mesh of a site read its configuration again.
    pub fn reload_mesh(&self, site: usize) -> Result<(), String> {
        let home = self.home(SITES.get(site).ok_or("there is no such site")?);
        let config = Config::load(&home.join("archipel.toml")).map_err(|error| error.to_string())?;
        let settings = assemble::settings(&config)?;
        match &*self.site(site)?.mesh() {
            Some(mesh) => mesh.reload(settings).map_err(|error| error.to_string()),
            None => Err("this site has stopped".to_owned()),
        }
    }

    /// What the link from one site to another carried.
    pub fn carried(&self, from: usize, to: usize) -> Result<Carried, String> {
        let link = self.links.iter().find(|(start, end, _)| (*start, *end) == (from, to));
        link.map(|(_, _, wan)| wan.carried()).ok_or_else(|| format!("no link goes from {from} to {to}"))
    }

    /// Requests in flight at a site.
    pub fn in_flight(&self, site: usize) -> Result<usize, String> {
        Ok(self.site(site)?.mesh().as_ref().map_or(0, Mesh::in_flight))
    }

    fn site(&self, index: usize) -> Result<&Site, String> {
        self.sites.get(index).ok_or_else(|| format!("there is no site {index}"))
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
    pub fn faults(&self, site: usize, service: &str) -> Result<&Faults, String> {
        let site = self.site(site)?;
        Ok(if service == "image" { site.image_handle.faults() } else { site.compute_handle.faults() })
    }

    /// Cuts a site off from all others, or joins it to them again.
    pub fn cut(&self, site: usize, cut: Option<Cut>) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        runtime.block_on(async {
            for (_, _, wan) in self.links.iter().filter(|(from, to, _)| *from == site || *to == site) {
                match cut {
                    Some(cut) => wan.cut(cut).await,
                    None => wan.heal().await,
                }
            }
        });
        Ok(())
    }

    /// Changes the network between two sites, both ways.
    pub fn shape(&self, one: usize, other: usize, change: impl Fn(&mut Shape)) {
        let both = |from: usize, to: usize| (from, to) == (one, other) || (from, to) == (other, one);
        for (_, _, wan) in self.links.iter().filter(|(from, to, _)| both(*from, *to)) {
            let mut shape = wan.shape();
            change(&mut shape);
            wan.set_shape(shape);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for site in &self.sites {
            if let Some(mesh) = site.mesh().take() {
                mesh.drain(Duration::from_millis(100));
            }
        }
    }
}

impl Site {
    /// Starts the application of a site. Its compute service finds images through the mesh, which is not
    /// there yet.
    fn start(name: &str) -> Result<Site, String> {
        let failed = |error: &dyn std::fmt::Display| error.to_string();
        let ports = Ports::take().map_err(|error| failed(&error))?;
        let settings = image::Settings { label: Some(format!("image@{name}")), ..image::Settings::default() };
        let image = Image::new(&settings);
        let image_handle = Handle::spawn_thread(image.clone(), ANY_PORT).map_err(|error| failed(&error))?;
        let through = format!("http://{}", ports.image_internal);
        let mut settings = compute::Settings::new(&through).map_err(|error| failed(&error))?;
        settings.label = Some(format!("compute@{name}"));
        let compute = Compute::new(settings);
        let compute_handle =
            Handle::spawn_thread(compute.clone(), ANY_PORT).map_err(|error| failed(&error))?;
        Ok(Site { mesh: Mutex::default(), ports, image, compute, image_handle, compute_handle })
    }

    fn mesh(&self) -> MutexGuard<'_, Option<Mesh>> {
        self.mesh.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ports {
    fn take() -> io::Result<Ports> {
        Ok(Ports {
            link: Port::take()?,
            image_public: Port::take()?,
            image_internal: Port::take()?,
            compute_public: Port::take()?,
        })
    }
}

/// A port that stays ours while the mesh is down: a second socket is bound to it, and never listens.
struct Port {
    address: SocketAddr,
    _holder: TcpSocket,
}

impl Port {
    fn take() -> io::Result<Port> {
        let holder = TcpSocket::new_v4()?;
        holder.set_reuseaddr(true)?;
        holder.set_reuseport(true)?;
        holder.bind(ANY_PORT)?;
        Ok(Port { address: holder.local_addr()?, _holder: holder })
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.address.fmt(f)
    }
}
