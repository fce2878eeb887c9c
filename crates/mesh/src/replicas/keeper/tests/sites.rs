//! Sites that run in this process, each with an image service of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request};
use link::Authority;
use profile::Profile;
use replica::{Body, Class, Doubt, Level, Meta, Naming, Reply, Subject, Who, Write};
use sample::image::{Image, Settings as ImageSettings};
use scope::{Atlas, Dialect, Site};
use serde_json::Value;
use store::engine::Engine;
use tempfile::TempDir;

use crate::replicas::keeper::Opening;
use crate::replicas::write_name::WriteName;
use crate::replicas::{Answered, Content, Kept, Replicas, Wanted, references};
use crate::settings::{Limits, Link, Replication, Service, Settings, Timeouts};
use crate::upstream::Target;
use crate::{Audit, Fixed, Mesh, Sites};

pub(super) const NAMES: [&str; 3] = ["A", "B", "C"];
const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Longer than anything here takes on a busy machine: a test that waits so long is stuck.
const STUCK: Duration = Duration::from_secs(30);

/// What the client of each write shows, and each site's own credential.
pub(super) const TOKEN: &str = "token-of-the-client-4711";
pub(super) const CREDENTIAL: &str = "credential-of-the-site-0815";

const PROFILE: &str = "description = 'images'\n[propagation]\ntracestate = true\n\
    [[kinds]]\nname = 'image'\nservice = 'image'\npath = '/**/images'\nparts = ['/file']\n\
    generated = ['/created_at', '/size', '/digest', '/status']\n";

/// The same, but clients choose ids, in the body.
pub(super) const NAMED_IN_BODY: &str = "description = 'images'\n[propagation]\ntracestate = true\n\
    [[kinds]]\nname = 'image'\nservice = 'image'\npath = '/**/images'\nparts = ['/file']\nnamed_by = 'body'\n\
    create_doubt = 'probe'\ngenerated = ['/created_at', '/size', '/digest', '/status']\n";

pub(super) fn site(name: &str) -> Site {
    Site::new(name).unwrap()
}

/// Waits until it is so; a test that waits too long is stuck.
pub(super) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < STUCK, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(super) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(STUCK, test).await.expect("the test is stuck") })
}

/// One site: its service outlives its mesh.
pub(super) struct Isle {
    pub(super) name: &'static str,
    pub(super) image: Image,
    pub(super) service: sample::Handle,
    pub(super) directory: TempDir,
    mesh: Option<Mesh>,
    profile: &'static str,
    engine: Option<Arc<dyn Engine>>,
    /// Of its policy, from its next start on.
    pub(super) accept_from: Option<BTreeSet<Site>>,
    /// The versions that it speaks, from its next start on.
    pub(super) speaks: link::Speaks,
    /// How long its service may take, from its next start on.
    pub(super) response: Duration,
    address: String,
}

/// Three sites.
pub(super) struct Isles {
    pub(super) isles: Vec<Isle>,
    pub(super) authority: Authority,
}

impl Isles {
    pub(super) fn new() -> Isles {
        Isles::with_first_on(None)
    }

    /// With another profile.
    pub(super) fn under(profile: &'static str) -> Isles {
        Isles::begun(None, profile)
    }

    /// The first site keeps its records on this engine.
    pub(super) fn with_first_on(engine: Option<Arc<dyn Engine>>) -> Isles {
        Isles::begun(engine, PROFILE)
    }

    fn begun(engine: Option<Arc<dyn Engine>>, profile: &'static str) -> Isles {
        let authority = Authority::create("Test").unwrap();
        let isle = |name| {
            let image = Image::new(&ImageSettings::default());
            let service = sample::Handle::spawn_thread(image.clone(), ANY_PORT).unwrap();
            let directory = tempfile::tempdir().unwrap();
            let (engine, accept_from, address) = (None, None, String::new());
            let speaks = link::Speaks::NOW;
            Isle {
                name,
                image,
                service,
                directory,
                mesh: None,
                profile,
                engine,
                accept_from,
                speaks,
                response: STUCK,
                address,
            }
        };
        let mut isles = Isles { isles: NAMES.map(isle).into_iter().collect(), authority };
        isles.isles[0].engine = engine;
        for index in 0..NAMES.len() {
            isles.start(index);
        }
        isles
    }

    pub(super) fn start(&mut self, index: usize) {
        let mesh = self.try_start(index).unwrap();
        let isle = &mut self.isles[index];
        isle.address = mesh.link_address().unwrap().to_string();
        isle.mesh = Some(mesh);
        self.introduce();
    }

    pub(super) fn try_start(&self, index: usize) -> Result<Mesh, crate::StartError> {
        let isle = &self.isles[index];
        let settings = settings(isle, &self.authority);
        let machine = replica::Settings { retry_ms: 50, max_retry_ms: 200, ..replica::Settings::default() };
        let directory: PathBuf = isle.directory.path().to_owned();
        let opening = match &isle.engine {
            Some(engine) => Opening::Engine(Arc::clone(engine), directory, None),
            None => Opening::Directory(directory),
        };
        let kept = Some((opening, machine));
        Mesh::keeping(settings, NonZeroUsize::MIN, Audit::none(), [7; 16], kept)
    }

    /// Ends a site's mesh. Its service stays.
    pub(super) fn stop(&mut self, index: usize) {
        if let Some(mesh) = self.isles[index].mesh.take() {
            mesh.drain(Duration::from_millis(1));
        }
    }

    fn introduce(&self) {
        self.introduce_but(None);
    }

    /// The identity of a site, which is the last one, is void from now on, and it is no site any more.
    pub(super) fn revoke(&self, index: usize) {
        let revocation = self.authority.revoke(NAMES[index], std::time::SystemTime::now()).unwrap();
        for isle in &self.isles {
            if let Some(mesh) = &isle.mesh {
                mesh.revoked().add(revocation.clone());
            }
        }
        self.introduce_but(Some(NAMES[index]));
    }

    fn introduce_but(&self, gone: Option<&str>) {
        let there = |name: &str| gone != Some(name);
        for (index, isle) in self.isles.iter().enumerate() {
            let Some(mesh) = &isle.mesh else { continue };
            let peers = self
                .isles
                .iter()
                .filter(|other| other.name != isle.name && !other.address.is_empty() && there(other.name));
            let peers = peers.map(|other| (site(other.name), other.address.clone())).collect();
            let mut atlas = Atlas::new(NAMES.into_iter().filter(|name| there(name)).map(site)).unwrap();
            atlas.set_here(index);
            let sites: Arc<dyn Sites> = Arc::new(Fixed { atlas, peers });
            mesh.set_sites(&sites);
        }
    }

    pub(super) fn mesh(&self, index: usize) -> &Mesh {
        self.isles[index].mesh.as_ref().unwrap()
    }

    pub(super) fn replicas(&self, index: usize) -> Replicas {
        self.mesh(index).replicas().unwrap()
    }

    /// One write, at one site.
    pub(super) fn write(&self, index: usize, mut wanted: Wanted) -> Answered {
        wanted.write.on_behalf_of.site = site(NAMES[index]);
        let replicas = self.replicas(index);
        wanted.kept.names = references::of(&replicas.known, &wanted.kept, false);
        run(async move { replicas.write(Box::new(wanted)).await.unwrap() })
    }

    /// Makes an image at all sites, and gives its name for clients.
    pub(super) fn make(&self, index: usize, name: &str) -> Meta {
        let answered = self.write(index, create(name, &NAMES));
        assert_eq!(answered.reply, Reply::Executed { status: 201 });
        answered.meta.unwrap()
    }

    /// The images that a site's service has: name by id.
    pub(super) fn images(&self, index: usize) -> BTreeMap<String, String> {
        let listed = get(self.isles[index].service.address(), "/images");
        let listed: Value = serde_json::from_slice(&listed).unwrap();
        let text = |image: &Value, member: &str| image[member].as_str().unwrap().to_owned();
        listed["images"]
            .as_array()
            .unwrap()
            .iter()
            .map(|image| (text(image, "id"), text(image, "name")))
            .collect()
    }

    pub(super) fn names(&self, index: usize) -> Vec<String> {
        self.images(index).into_values().collect()
    }

    /// Waits until every site's service has images of these names and no others.
    pub(super) fn until_all_have(&self, names: &[&str]) {
        for (index, isle) in NAMES.into_iter().enumerate() {
            let mut names = names.to_vec();
            names.sort_unstable();
            until(&format!("{names:?} at {isle}"), || {
                let mut found = self.names(index);
                found.sort_unstable();
                found == names
            });
        }
    }

    /// How often each site's service did this to an image of that name.
    pub(super) fn counted(&self, write: sample::Write, name: &str) -> Vec<u64> {
        self.isles.iter().map(|isle| isle.image.counts().writes(write, name)).collect()
    }

    /// Waits until no site waits for another, nor for its service.
    pub(super) fn until_quiet(&self) {
        for (index, isle) in self.isles.iter().enumerate() {
            if isle.mesh.is_none() {
                continue;
            }
            let handle = self.mesh(index).replication().unwrap();
            until(&format!("nothing is pending at {}", isle.name), || {
                let resources = run(handle.resources()).unwrap();
                resources.iter().flat_map(|resource| &resource.replicas).all(|replica| replica.pending == 0)
            });
        }
    }
}

impl Drop for Isles {
    fn drop(&mut self) {
        for index in 0..NAMES.len() {
            self.stop(index);
        }
    }
}

/// The files in a directory, and below it.
pub(super) fn files(directory: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The body that a GET gives, on a connection of its own.
pub(super) fn get(address: SocketAddr, path: &str) -> Vec<u8> {
    send(address, &format!("GET {path}"))
}

/// The body of the answer to a request, on a connection of its own.
pub(super) fn send(address: SocketAddr, line: &str) -> Vec<u8> {
    send_with(address, line, "")
}

/// The same, of one with a JSON body.
pub(super) fn send_with(address: SocketAddr, line: &str, body: &str) -> Vec<u8> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    write!(stream, "{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n{body}").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n").unwrap();
    answer.split_off(end + 4)
}

fn settings(isle: &Isle, authority: &Authority) -> Settings {
    let profile = Profile::read(isle.profile).unwrap();
    let address = isle.service.address();
    let target = Target { host: address.ip().to_string(), port: address.port(), tls: None };
    let service = Service {
        public: vec![ANY_PORT],
        internal: Vec::new(),
        upstreams: vec![target],
        tls: None,
        scope: None,
        strict: false,
        settle: false,
        health: None,
    };
    let credential = (HeaderName::from_static("x-auth-token"), HeaderValue::from_static(CREDENTIAL));
    Settings {
        site: site(isle.name),
        dialect: Dialect { services: profile.services(), ..Dialect::default() },
        sites: Arc::new(Fixed { atlas: Atlas::new([site(isle.name)]).unwrap(), peers: BTreeMap::new() }),
        profile,
        observe: false,
        tokens: None,
        thin: true,
        services: BTreeMap::from([("image".to_owned(), service)]),
        link: Some(Link {
            listen: ANY_PORT,
            identity: Arc::new(authority.issue(isle.name).unwrap()),
            source: None,
            revoked: link::Revoked::default(),
            speaks: isle.speaks,
            backstage: None,
        }),
        replication: Some(Replication {
            directory: isle.directory.path().to_owned(),
            quota: 64 << 20,
            inline: 1 << 20,
            credentials: BTreeMap::from([("image".to_owned(), vec![credential])]),
            accept_from: isle.accept_from.clone(),
            webhook: None,
        }),
        limits: Limits {
            header_bytes: 32 << 10,
            headers: 100,
            connections: 1000,
            requests: 1000,
            requests_per_peer: 1000,
            records_per_sender: 100_000,
            record_lifetime: Duration::from_mins(1),
            replay_bytes: 64 << 10,
            streams: 16,
        },
        timeouts: Timeouts {
            header: STUCK,
            idle: STUCK,
            connect: STUCK,
            response: isle.response,
            peer_response: STUCK,
            body_idle: STUCK,
            hedge: STUCK,
        },
    }
}

static LAST: AtomicU64 = AtomicU64::new(0);

/// A write as a core would understand it.
pub(super) fn wanted(
    subject: Subject,
    class: Class,
    doubt: Doubt,
    (method, path, below): (&str, &str, &str),
    body: &[u8],
) -> Wanted {
    let id: Arc<str> = format!("{:032x}", LAST.fetch_add(1, Ordering::Relaxed)).into();
    let who = Who { site: site("A"), user: "ada".into(), project: None, roles: Vec::new(), time_ms: 1 };
    let kind = if below == "/file" { "application/octet-stream" } else { "application/json" };
    let request = Request::builder()
        .method(Method::try_from(method).unwrap())
        .uri(format!("{path}{below}"))
        .header("x-auth-token", TOKEN)
        .header("content-type", kind);
    let (head, ()) = request.body(()).unwrap().into_parts();
    let kept = Kept {
        id: Arc::clone(&id),
        service: "image".to_owned(),
        kind: "image".to_owned(),
        method: method.to_owned(),
        path: path.to_owned(),
        below: below.to_owned(),
        query: None,
        headers: vec![("content-type".to_owned(), kind.into())],
        content: Content::Inline(body.to_vec()),
        names: Vec::new(),
        signed: None,
    };
    let write = Write { subject, class, doubt, on_behalf_of: who, body: Body(id), long: false };
    Wanted { write, kept, head: Box::new(head), scoped: None, named: WriteName::default() }
}

fn named(name: &str) -> Bytes {
    Bytes::from(serde_json::json!({ "name": name }).to_string())
}

/// Makes an image whose id the services choose.
pub(super) fn create(name: &str, sites: &[&str]) -> Wanted {
    let sites: BTreeSet<Site> = sites.iter().map(|name| site(name)).collect();
    let subject = Subject::New { naming: Naming::FirstReplica, level: Level::Eventual, sites };
    wanted(subject, Class::Create, Doubt::Ask, ("POST", "/images", ""), &named(name))
}

/// Makes an image under this id.
pub(super) fn create_as(id: &str, name: &str) -> Wanted {
    let (path, meta) = (format!("/images/{id}"), Meta(format!("image:/images/{id}").into()));
    let sites: BTreeSet<Site> = NAMES.iter().map(|name| site(name)).collect();
    let subject = Subject::New { naming: Naming::Chosen(meta), level: Level::Eventual, sites };
    wanted(subject, Class::Create, Doubt::Probe, ("PUT", &path, ""), &named(name))
}

/// Makes an image under an id that stands in its body.
pub(super) fn create_in_body(id: &str, name: &str, sites: &[&str]) -> Wanted {
    let meta = Meta(format!("image:/images/{id}").into());
    let sites: BTreeSet<Site> = sites.iter().map(|name| site(name)).collect();
    let subject = Subject::New { naming: Naming::Chosen(meta), level: Level::Eventual, sites };
    let body = serde_json::json!({ "name": name, "id": id }).to_string();
    wanted(subject, Class::Create, Doubt::Probe, ("POST", "/images", ""), body.as_bytes())
}

fn path_of(meta: &Meta) -> String {
    meta.0.strip_prefix("image:").unwrap().to_owned()
}

pub(super) fn replace(meta: &Meta, name: &str) -> Wanted {
    let subject = Subject::Existing(meta.clone());
    wanted(subject, Class::Replace, Doubt::Repeat, ("PUT", &path_of(meta), ""), &named(name))
}

pub(super) fn patch(meta: &Meta, name: &str) -> Wanted {
    let class = Class::Patch(BTreeSet::from(["name".into()]));
    let subject = Subject::Existing(meta.clone());
    wanted(subject, class, Doubt::Repeat, ("PATCH", &path_of(meta), ""), &named(name))
}

pub(super) fn upload(meta: &Meta, bytes: &[u8]) -> Wanted {
    let class = Class::Patch(BTreeSet::from(["/file".into()]));
    let subject = Subject::Existing(meta.clone());
    wanted(subject, class, Doubt::Repeat, ("PUT", &path_of(meta), "/file"), bytes)
}

pub(super) fn delete(meta: &Meta) -> Wanted {
    let subject = Subject::Existing(meta.clone());
    wanted(subject, Class::Delete, Doubt::Repeat, ("DELETE", &path_of(meta), ""), b"")
}
