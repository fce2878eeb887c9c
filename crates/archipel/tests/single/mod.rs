//! One site in the test's own process, whose services the test plays. Its only peer is down.

#![allow(unreachable_pub, reason = "a module of a test")]

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use archipel::assemble;
use archipel::config::Config;
use archipel::members::Members;
use mesh::{Audit, Mesh};
use tempfile::TempDir;

pub struct Single {
    mesh: Option<Mesh>,
    home: TempDir,
    text: String,
}

impl Single {
    /// With these services, and more tables in its configuration.
    pub fn start(services: &[(&str, SocketAddr)], more: &str) -> Single {
        Single::start_in("route", services, more)
    }

    /// The same, in a mode.
    pub fn start_in(mode: &str, services: &[(&str, SocketAddr)], tables: &str) -> Single {
        let home = tempfile::tempdir().unwrap();
        let authority = link::Authority::create("test").unwrap();
        authority.issue("Site1").unwrap().save(&home.path().join("identity")).unwrap();
        let mut text = format!(
            "site = \"Site1\"\nprofile = \"rest\"\nmode = \"{mode}\"\nidentity = \"identity\"\nstate = \"state\"\n\
             [link]\nlisten = \"127.0.0.1:0\"\n[peers.Site2]\naddress = \"127.0.0.1:1\"\n",
        );
        for (name, upstream) in services {
            text.push_str(&format!(
                "[services.{name}]\npublic = [\"127.0.0.1:0\"]\ninternal = [\"127.0.0.1:0\"]\n\
                 upstreams = [\"http://{upstream}\"]\n"
            ));
        }
        text.push_str(tables);
        Single { mesh: None, home, text }.restarted()
    }

    /// Stopped, and started again with what was kept on disk.
    pub fn restarted(mut self) -> Single {
        self.stop();
        let config = Config::read("archipel.toml", &self.text, self.home.path()).unwrap();
        let settings = assemble::settings(&config, &Members::new(&config).0).unwrap();
        let secret = assemble::secret(&config.state).unwrap();
        self.mesh = Some(Mesh::start(settings, NonZeroUsize::MIN, Audit::none(), secret).unwrap());
        self
    }

    pub fn public(&self, service: &str) -> SocketAddr {
        self.mesh.as_ref().unwrap().addresses(service, false)[0]
    }

    pub fn internal(&self, service: &str) -> SocketAddr {
        self.mesh.as_ref().unwrap().addresses(service, true)[0]
    }

    /// In observe mode: the calls with a known cause, and those without.
    pub fn observed(&self) -> (u64, u64) {
        self.mesh.as_ref().unwrap().observed()
    }

    fn stop(&mut self) {
        if let Some(mesh) = self.mesh.take() {
            mesh.drain(Duration::ZERO);
        }
    }
}

impl Drop for Single {
    fn drop(&mut self) {
        self.stop();
    }
}
