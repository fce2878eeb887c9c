//! Three sites, each with its own Archipel and its own instance of the application.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use link::Authority;
use mesh::Mesh;
use sample::compute::{self, Compute};
use sample::image::{self, Image};
use sample::wan::{Cut, Shape, Wan};
use sample::{Faults, Handle};
use tempfile::TempDir;

use crate::assemble;
use crate::config::Config;

/// The sites.
pub const SITES: [&str; 3] = ["Site1", "Site2", "Site3"];

/// The round trips between two sites, in milliseconds.
const RTTS_MS: [(usize, usize, u64); 3] = [(0, 1, 20), (0, 2, 60), (1, 2, 40)];

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// All of it. It ends when this is dropped.
pub struct World {
    sites: Vec<Site>,
    /// From one site to another: a request that Site1 sends to Site2 takes the link from 0 to 1.
    links: Vec<(usize, usize, Wan)>,
    /// Where each site's files are.
    directory: TempDir,
}

struct Site {
    mesh: Option<Mesh>,
    image: Image,
    compute: Compute,
    image_handle: Handle,
    compute_handle: Handle,
}

impl World {
    /// Starts three sites. Nothing listens anywhere but on this machine.
    pub fn start() -> Result<World, String> {
        let failed = |error: &dyn std::fmt::Display| error.to_string();
        let directory = tempfile::tempdir().map_err(|error| failed(&error))?;
        let authority = Authority::create("demo").map_err(|error| failed(&error))?;
        let mut sites = Vec::new();
        for name in SITES {
            let home = directory.path().join(name);
            let identity = authority.issue(name).map_err(|error| failed(&error))?;
            identity.save(&home.join("identity")).map_err(|error| failed(&error))?;
            sites.push(Site::start(name, &home)?);
        }
        let mut world = World { sites, links: Vec::new(), directory };
        world.connect()?;
        Ok(world)
    }

    /// Each site learns where the others are: at the near end of an emulated link.
    fn connect(&mut self) -> Result<(), String> {
        for (from, to, rtt_ms) in RTTS_MS.iter().flat_map(|(a, b, rtt)| [(*a, *b, *rtt), (*b, *a, *rtt)]) {
            let target = self.site(to)?.mesh()?.link_address().ok_or("a site has no link")?;
            let shape = Shape::with_rtt(Duration::from_millis(rtt_ms));
            let wan = Wan::listen_thread(ANY_PORT, target, shape, 1).map_err(|error| error.to_string())?;
            self.links.push((from, to, wan));
        }
        for (index, name) in SITES.iter().enumerate() {
            let peers = self.links.iter().filter(|(from, ..)| *from == index);
            let peers: Vec<(&str, SocketAddr)> =
                peers.filter_map(|(_, to, wan)| Some((*SITES.get(*to)?, wan.address()))).collect();
            let site = self.site(index)?;
            let text = site.configuration(name, &peers);
            let home = self.home(name);
            // A person may look at it, change it, and learn from it.
            std::fs::write(home.join("archipel.toml"), &text).map_err(|error| error.to_string())?;
            site.mesh()?.reload(settings(&text, &home)?).map_err(|error| error.to_string())?;
        }
        Ok(())
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
        let addresses = self.site(site)?.mesh()?.addresses(service, false);
        addresses.first().copied().ok_or_else(|| format!("{service} does not listen"))
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

    /// Sets the round trip between two sites.
    pub fn set_rtt(&self, one: usize, other: usize, rtt: Duration) {
        let both = |from: usize, to: usize| (from, to) == (one, other) || (from, to) == (other, one);
        for (_, _, wan) in self.links.iter().filter(|(from, to, _)| both(*from, *to)) {
            wan.set_shape(Shape { delay: rtt / 2, ..wan.shape() });
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for site in &mut self.sites {
            if let Some(mesh) = site.mesh.take() {
                mesh.drain(Duration::from_millis(100));
            }
        }
    }
}

impl Site {
    /// Starts the image service, then a mesh before it, then the compute service behind that mesh.
    fn start(name: &str, home: &Path) -> Result<Site, String> {
        let failed = |error: &dyn std::fmt::Display| error.to_string();
        let settings = image::Settings { label: Some(format!("image@{name}")), ..image::Settings::default() };
        let image = Image::new(&settings);
        let image_handle = Handle::spawn_thread(image.clone(), ANY_PORT).map_err(|error| failed(&error))?;
        let first = configuration(name, image_handle.address(), None, &[]);
        let mesh = Mesh::start(
            self::settings(&first, home)?,
            std::num::NonZeroUsize::MIN,
            mesh::Audit::none(),
            assemble::secret(&home.join("state"))?,
        );
        let mesh = mesh.map_err(|error| failed(&error))?;
        let through = mesh.addresses("image", true).first().copied().ok_or("image does not listen")?;
        let mut settings =
            compute::Settings::new(&format!("http://{through}")).map_err(|error| failed(&error))?;
        settings.label = Some(format!("compute@{name}"));
        let compute = Compute::new(settings);
        let compute_handle =
            Handle::spawn_thread(compute.clone(), ANY_PORT).map_err(|error| failed(&error))?;
        Ok(Site { mesh: Some(mesh), image, compute, image_handle, compute_handle })
    }

    fn mesh(&self) -> Result<&Mesh, String> {
        self.mesh.as_ref().ok_or_else(|| "this site has stopped".to_owned())
    }

    fn configuration(&self, name: &str, peers: &[(&str, SocketAddr)]) -> String {
        configuration(name, self.image_handle.address(), Some(self.compute_handle.address()), peers)
    }
}

fn settings(text: &str, home: &Path) -> Result<mesh::Settings, String> {
    let config = Config::read("archipel.toml", text, home).map_err(|faults| faults.to_string())?;
    assemble::settings(&config)
}

fn configuration(
    name: &str,
    image: SocketAddr,
    compute: Option<SocketAddr>,
    peers: &[(&str, SocketAddr)],
) -> String {
    let mut text = format!(
        "site = \"{name}\"\nprofile = \"rest\"\nidentity = \"identity\"\nstate = \"state\"\n\n\
         [link]\nlisten = \"127.0.0.1:0\"\n\n\
         [services.image]\npublic = [\"127.0.0.1:0\"]\ninternal = [\"127.0.0.1:0\"]\nupstreams = [\"http://{image}\"]\n\n\
         [timeouts]\npeer_response = \"5s\"\nhedge = \"50ms\"\n"
    );
    if let Some(compute) = compute {
        text.push_str(&format!(
            "\n[services.compute]\npublic = [\"127.0.0.1:0\"]\nupstreams = [\"http://{compute}\"]\n"
        ));
    }
    for (peer, address) in peers {
        text.push_str(&format!("\n[peers.{peer}]\naddress = \"{address}\"\n"));
    }
    text
}
