//! Two sites with an identity service each, and a service that is shown tokens.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use link::Authority;
use mesh::{Accept, Audit, Fixed, Login, Mesh, Named, Replication, Service, Settings, Sites, Tokens};
use profile::Profile;
use scope::{Atlas, Dialect};
use serde_json::Value;
use tempfile::TempDir;

use super::keystone::Keystone;
use crate::harness::{ANY_PORT, Conn, Message, Upstream, link_of, plain, settings, site};

pub const NAMES: [&str; 2] = ["A", "B"];

/// Images that clients give their ids, by a PUT; and keys, each its user's.
const KINDS: &str = "
    description = 'x'
    [[kinds]]
    name = 'image'
    path = '/**/images'
    named_by = 'client'
    [[kinds]]
    name = 'key'
    path = '/**/keys'
    id = '/key/name'
    named_by = 'body'
    needs = { '/key/public' = 'it cannot be made here' }
    owner = { member = '/key/user', parameter = 'user', at_least = { x-version = 'keys 2.10' } }
";

pub struct World {
    authority: Authority,
    pub keystones: [Keystone; 2],
    pub images: [Upstream; 2],
    meshes: [Option<Mesh>; 2],
    kept: [TempDir; 2],
    accept: Option<Accept>,
    replicates: bool,
    pub audit: Arc<Mutex<Vec<u8>>>,
}

struct Sink(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub fn named(name: &str) -> Named {
    Named { domain: "Default".to_owned(), name: name.to_owned() }
}

/// One request on a connection of its own.
pub fn ask(to: SocketAddr, line: &str, fields: &str, body: &str) -> Message {
    let mut client = Conn::to(to);
    let length = body.len();
    client.send(format!("{line} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n{fields}\r\n{body}"));
    client.answer_to(line)
}

/// Logs in, for a token.
pub fn login(to: SocketAddr, user: &str, project: &str, fields: &str) -> String {
    let domain = r#""domain":{"name":"Default"}"#;
    let body = format!(
        r#"{{"auth":{{"identity":{{"methods":["password"],"password":{{"user":{{"name":"{user}",{domain},"password":"{user}"}}}}}},"scope":{{"project":{{"name":"{project}",{domain}}}}}}}}}"#
    );
    let answer = ask(to, "POST /v3/auth/tokens", fields, &body);
    assert_eq!(answer.status(), 201, "{}", answer.text());
    answer.field("x-subject-token").unwrap()
}

impl World {
    /// B accepts tokens of A like this.
    pub fn new(accept: Option<Accept>) -> World {
        World::serving(accept, [Upstream::fine(), Upstream::fine()], false)
    }

    /// With these image services, whose images can be replicated.
    pub fn replicating(accept: Option<Accept>, images: [Upstream; 2]) -> World {
        World::serving(accept, images, true)
    }

    fn serving(accept: Option<Accept>, images: [Upstream; 2], replicates: bool) -> World {
        let keystones = NAMES.map(Keystone::new);
        for keystone in &keystones {
            keystone.has("archipel", "service", "admin");
            keystone.has("glance", "service", "service");
        }
        let mut world = World {
            authority: Authority::create("Test").unwrap(),
            keystones,
            images,
            meshes: [None, None],
            kept: [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()],
            accept,
            replicates,
            audit: Arc::default(),
        };
        world.start(0);
        world.start(1);
        world
    }

    fn start(&mut self, index: usize) {
        let mesh = Mesh::start(
            self.settings(index),
            NonZeroUsize::MIN,
            Audit::to(Box::new(Sink(Arc::clone(&self.audit)))).unwrap(),
            [7; 16],
        );
        self.meshes[index] = Some(mesh.unwrap());
        self.acquaint();
    }

    /// Every site is told where the others are.
    fn acquaint(&self) {
        for (here, mesh) in self.meshes.iter().enumerate() {
            let mut atlas = Atlas::new(NAMES.map(site)).unwrap();
            atlas.set_here(here);
            let other = 1 - here;
            let address = self.meshes[other].as_ref().map(|mesh| mesh.link_address().unwrap().to_string());
            let peers = address.map(|address| (site(NAMES[other]), address)).into_iter().collect();
            let chart: Arc<dyn Sites> = Arc::new(Fixed { atlas, peers });
            if let Some(mesh) = mesh {
                mesh.set_sites(&chart);
            }
        }
    }

    fn settings(&self, index: usize) -> Settings {
        let mut profile = Profile::named("openstack").unwrap();
        if self.replicates {
            profile.kinds = Profile::read(KINDS).unwrap().kinds;
        }
        let mut own = settings(NAMES[index], vec![plain(self.images[index].address())]);
        own.dialect = Dialect { services: profile.services(), ..Dialect::default() };
        own.profile = profile;
        let mut atlas = Atlas::new(NAMES.map(site)).unwrap();
        atlas.set_here(index);
        own.sites = Arc::new(Fixed { atlas, peers: BTreeMap::new() });
        own.link = Some(link_of(&self.authority, NAMES[index]));
        let image = own.services.get_mut("image").unwrap();
        image.internal = vec![ANY_PORT];
        let upstreams = vec![plain(self.keystones[index].upstream.address())];
        let identity = Service { upstreams, ..image.clone() };
        own.services.insert("identity".to_owned(), identity);
        if self.replicates {
            own.replication = Some(Replication {
                accept_from: None,
                directory: self.kept[index].path().to_owned(),
                quota: 1 << 20,
                inline: 1 << 16,
                credentials: BTreeMap::new(),
                webhook: None,
            });
        }
        let accept = self.accept.clone().filter(|_| index == 1);
        own.tokens = Some(Tokens {
            directory: Some(self.kept[index].path().to_owned()),
            prefix: String::new(),
            login: Some(Login {
                user: named("archipel"),
                project: named("service"),
                password: "archipel".to_owned(),
            }),
            accept: accept.map(|accept| (site("A"), accept)).into_iter().collect(),
        });
        own
    }

    pub fn restart(&mut self, index: usize) {
        self.stop(index);
        self.start(index);
    }

    /// Ends a site.
    pub fn stop(&mut self, index: usize) {
        self.meshes[index].take().unwrap().drain(Duration::from_millis(1));
        self.acquaint();
    }

    pub fn address(&self, index: usize, service: &str, internal: bool) -> SocketAddr {
        self.meshes[index].as_ref().unwrap().addresses(service, internal)[0]
    }

    /// A client of A, with a token that A issued, asks for images at B: from then on B knows who issued it.
    pub fn visits(&self, user: &str, project: &str) -> String {
        let token = login(self.address(0, "identity", false), user, project, "");
        self.shows(&token);
        token
    }

    pub fn shows(&self, token: &str) {
        let fields = format!("X-Scope: image: B\r\nX-Auth-Token: {token}\r\n");
        assert_eq!(ask(self.address(0, "image", false), "GET /v2/images", &fields, "").status(), 200);
    }

    /// B's image service, which has a token of its own, asks whether a token is valid.
    pub fn validate(&self, token: &str) -> Message {
        self.validate_by("GET /v3/auth/tokens", token)
    }

    pub fn validate_by(&self, line: &str, token: &str) -> Message {
        let to = self.address(1, "identity", true);
        let own = login(to, "glance", "service", "");
        ask(to, line, &format!("X-Auth-Token: {own}\r\nX-Subject-Token: {token}\r\n"), "")
    }

    /// The files that a site keeps.
    pub fn kept(&self, index: usize) -> Vec<Vec<u8>> {
        let files = std::fs::read_dir(self.kept[index].path()).unwrap();
        let paths = files.map(|file| file.unwrap().path()).filter(|path| path.is_file());
        paths.map(|path| std::fs::read(path).unwrap()).collect()
    }

    /// What the audit has of other sites' tokens.
    pub fn audited(&self) -> Vec<Value> {
        let text = String::from_utf8(self.audit.lock().unwrap().clone()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line.get("token_of").is_some()).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for mesh in &mut self.meshes {
            if let Some(mesh) = mesh.take() {
                mesh.drain(Duration::from_millis(1));
            }
        }
    }
}
