//! One site: a mesh that can crash, and what survives it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use archipel::members::{Members, Order, Start, View};
use http::{HeaderName, HeaderValue};
use link::{Authority, Identity, Revoked};
use mesh::upstream::Target;
use mesh::{Audit, Backstage, Limits, Link, Mesh, Replication, Service, Settings, Timeouts};
use outside::world::{self, World};
use profile::Profile;
use scope::{Dialect, Site};
use tempfile::TempDir;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::Instant;

use crate::app::{App, Images};
use crate::chance::Chance;
use crate::client::CREDENTIAL;
use crate::disk::{Copy, Disk, Mood};
use crate::membership::{File, Outline, config};
use crate::network::{Network, Stop};
use crate::platter::{self, Platter};
use crate::revocation::{LetIn, Porter};
use crate::trace::Trace;
use crate::versions::{Ears, Heard, NOW, chat, speaks};
use crate::world::{Outside, app_host, beginning, mesh_host};

/// What clients, services and sites are at.
pub const PUBLIC: u16 = 80;
/// See there.
pub const SERVICE: u16 = 9292;
const LINK: u16 = 7000;

/// How long a site waits for its service.
pub const RESPONSE: Duration = Duration::from_secs(10);

/// How long it waits for another site.
pub const PEER_RESPONSE: Duration = Duration::from_secs(15);

/// The usual length of a revocation, without the site's name.
const STATEMENT: usize = 10 + 71;

/// The sites of a run are the first of these.
pub const NAMES: [&str; 5] = ["A", "B", "C", "D", "E"];

const PROFILE: &str = "description = 'images'\n[propagation]\ntracestate = true\n[lists]\nid = 'id'\ntag = 'scope_site'\n\
    [lists.paging]\nnext = [{ member = 'next' }]\n\
    [[kinds]]\nname = 'image'\nservice = 'image'\npath = '/images'\n\
    elements = [{ below = '/labels', member = '/tags' }, { below = '/specs', member = '/specs', map = '/specs' }]\n";

/// What it says of writes, and where services keep the names of operations: of the one that made an image, and of each addition.
const USUAL: &str = "operations = [{ method = 'POST', below = '/add', class = 'add' },\n\
    { method = 'POST', below = '/specs', class = 'patch', members = '/specs' }]\n";
const PROBING: &str = "operations = [{ method = 'POST', below = '/add', class = 'add', probe = { marker = '/ops' } },\n\
    { method = 'POST', below = '/specs', class = 'patch', members = '/specs' }]\n\
    probe = { marker = '/op', query = 'op={operation}', items = '/images' }\n";

/// What it says besides, in runs with long bodies: images have a file, of which the document says which it is.
const WITH_FILES: &str = "parts = ['/file']\napart = ['/file']\n";
/// What it says besides, in runs in which services hold what they were told to delete.
const WITH_HOLDS: &str = "deletion = 'absent'\n";
/// What it says of requests that change nothing.
const DRY_RUNS: &str = "[[dry_runs]]\nparameter = 'dryRun'\nvalues = ['All']\n";
/// There, what is longer is spooled.
const INLINE: usize = 2 << 10;

/// The name of a site.
#[must_use]
pub fn site(index: usize) -> Site {
    Site::new(NAMES[index]).unwrap()
}

/// Who each site is. Made once: it takes long, and no run depends on it.
pub struct Identities {
    of_sites: Vec<Arc<Identity>>,
    /// The authority's word that each is void.
    voided: Vec<Vec<u8>>,
}

impl Identities {
    /// One of each.
    #[must_use]
    pub fn make() -> Identities {
        let authority = Authority::create("Simulation").unwrap();
        // Connections go by the real clock, and datagrams by those of the run.
        let (now, begin, month) = (SystemTime::now(), beginning(), Duration::from_hours(30 * 24));
        let (from, until) = (now.min(begin) - month, now.max(begin) + month);
        // All certificates of one length, in every process: whether one fits into a datagram depends on it.
        let usual = |identity: &Identity| {
            let signature = identity.certificate().last_chunk::<74>();
            signature.is_some_and(|signature| signature.starts_with(&[3, 0x48, 0, 0x30, 0x45]))
        };
        let issue = |name: &&str| {
            let mut some = std::iter::repeat_with(|| authority.issue_between(name, from, until).unwrap());
            Arc::new(some.find(usual).unwrap())
        };
        let of_sites = NAMES.iter().map(issue).collect();
        // So are these, which travel in datagrams.
        let void = |name: &&str| {
            let now = SystemTime::now();
            let mut some = std::iter::repeat_with(|| authority.revoke(name, now).unwrap().to_bytes());
            some.find(|statement| statement.len() == name.len() + STATEMENT).unwrap()
        };
        Identities { of_sites, voided: NAMES.iter().map(void).collect() }
    }

    /// The operator's word that no identity of a site is to be believed any more.
    #[must_use]
    pub fn voided(&self, site: usize) -> Vec<u8> {
        self.voided[site].clone()
    }
}

/// One site.
pub struct Isle {
    /// Which.
    pub index: usize,
    /// Its service.
    pub app: App,
    /// Its disk, as its records have it.
    pub disk: Disk,
    /// The same, as its spool has it.
    pub platter: Platter,
    /// How wrong its clock is, in milliseconds.
    pub clock: Rc<Cell<i64>>,
    network: Network,
    identity: Arc<Identity>,
    directory: TempDir,
    seed: u64,
    starts: u64,
    begin: Instant,
    trace: Trace,
    running: Option<Running>,
    backup: Option<Backup>,
    /// What others may look at.
    pub outline: Outline,
    file: File,
    sites: usize,
    /// Which version of Archipel it is, from its next start on.
    pub version: u16,
    /// What it is asked about versions, in runs with several.
    heard: Option<Heard>,
    profile: String,
    long: bool,
    let_in: LetIn,
    keys: bool,
    /// It has no credential of its own, from its next start on.
    pub key_lost: bool,
}

/// The application of a run.
#[derive(Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "what an application does, each or not")]
pub struct Application {
    /// Whether images have files, which go through the spool.
    pub long: bool,
    /// Whether services hold what they were told to delete.
    pub holds: bool,
    /// Whether services keep the names of operations.
    pub probes: bool,
    /// Services name what they make by counting.
    pub counts: bool,
}

/// What all sites of a run begin with.
pub struct Beginning<'r> {
    /// Its seed.
    pub seed: u64,
    /// What each site's file says of the others.
    pub files: &'r [File],
    /// Where it is written down what sites of several versions ask, if there are any.
    pub heard: Option<&'r Heard>,
    /// The application.
    pub application: Application,
    /// Where it is written down if somebody is let in who is shut out.
    pub let_in: &'r LetIn,
    /// Services ask for a credential, and every site has one.
    pub keys: bool,
}

/// What a site had at some time.
struct Backup {
    records: Copy,
    bodies: platter::Copy,
    images: Images,
    known: Option<Vec<u8>>,
}

struct Running {
    tasks: Rc<RefCell<Option<LocalSet>>>,
    world: Rc<dyn World>,
    mesh: Started,
}

/// A mesh, once it runs, or why it does not.
type Started = Rc<RefCell<Option<Result<Arc<Mesh>, String>>>>;

impl Isle {
    /// A site that does not run yet.
    #[must_use]
    pub fn new(
        index: usize,
        &Beginning { seed, files, heard, application, let_in, keys }: &Beginning<'_>,
        network: &Network,
        identities: &Identities,
        trace: &Trace,
    ) -> Isle {
        let (name, Application { long, holds, probes, counts }) = (NAMES[index], application);
        let app = App::new(name, Chance::new(seed, &format!("app {name}")), trace, application, keys);
        spawn_local(app.clone().serve(network.clone(), SocketAddr::new(app_host(index), SERVICE)));
        let directory = tempfile::Builder::new().tempdir_in(scratch()).unwrap();
        // A key that is there needs not to be made, and made durable.
        for file in ["replicas.key", "spool.key"] {
            let path = directory.path().join(file);
            std::fs::write(&path, [7; 32]).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        let generated = match (long, probes) {
            (false, false) => "",
            (true, false) => "generated = ['/file']\n",
            (false, true) => "generated = ['/op', '/ops']\n",
            (true, true) => "generated = ['/file', '/op', '/ops']\n",
        };
        let (writes, parts) = (if probes { PROBING } else { USUAL }, if long { WITH_FILES } else { "" });
        let holds = if holds { WITH_HOLDS } else { "" };
        let ids = if counts { "ids = 'integer'\n" } else { "ids = 'uuid'\n" };
        let profile = format!("{PROFILE}{ids}{writes}{parts}{holds}{generated}{DRY_RUNS}");
        std::fs::write(directory.path().join("images.toml"), &profile).unwrap();
        identities.of_sites[index].save(directory.path()).unwrap();
        Isle {
            index,
            app,
            disk: Disk::new(Chance::new(seed, &format!("disk {name}"))),
            platter: Platter::new(Chance::new(seed, &format!("bodies {name}"))),
            clock: Rc::default(),
            network: network.clone(),
            identity: Arc::clone(&identities.of_sites[index]),
            directory,
            seed,
            starts: 0,
            begin: Instant::now(),
            trace: trace.clone(),
            running: None,
            backup: None,
            outline: Outline::default(),
            file: files[index].clone(),
            sites: files.len(),
            version: NOW,
            heard: heard.cloned(),
            profile,
            long,
            let_in: let_in.clone(),
            keys,
            key_lost: false,
        }
    }

    /// Starts its mesh and its membership. Both run when this returns.
    pub async fn start(&mut self) {
        if self.fault().is_some() {
            // Its disk was full, say, and it had none of its files yet: somebody starts it again.
            self.crash(Stop::Process);
        }
        if self.running.is_some() {
            return;
        }
        self.starts += 1;
        let host = mesh_host(self.index);
        self.network.start(host);
        let chance = Chance::new(self.seed, &format!("mesh {} {}", self.index, self.starts));
        let outside = Outside::new(host, &self.network, chance, self.begin, &self.clock);
        let world: Rc<dyn World> = Rc::new(outside);
        let tasks = Rc::new(RefCell::new(Some(LocalSet::new())));
        let mesh = Started::default();
        let config = config(self.index, self.directory.path(), &self.file, self.sites);
        let revoked = archipel::members::revoked(&config.state, &self.identity).unwrap();
        self.outline.revoked.replace(revoked.clone());
        let (members, inbox) = Members::new(&config);
        let (settings, made) = (self.settings(&members, &revoked), Rc::clone(&mesh));
        let disks = (self.disk.open(), self.platter.open());
        let start = self.membership(config, &revoked);
        let speaks = speaks(self.version);
        let chat = self
            .heard
            .is_some()
            .then(|| chat(self.index, self.sites, Arc::clone(&self.identity), revoked.clone(), speaks));
        self.outline.speaks.set(speaks);
        self.outline.members.replace(Some(members.clone()));
        self.outline.left.set(None);
        if let Some(tasks) = &*tasks.borrow() {
            tasks.spawn_local(async move {
                let started = Mesh::start_here(settings, Audit::none(), [7; 16], disks, machine()).await;
                let mut started = started.map(Arc::new).map_err(|error| error.to_string());
                if let Ok(mesh) = &started {
                    match inbox.start_here(start).await {
                        Ok(()) => members.attach(mesh),
                        Err(error) => started = Err(format!("its membership: {error}")),
                    }
                }
                made.replace(Some(started));
            });
            if let Some(chat) = chat {
                tasks.spawn_local(chat);
            }
        }
        spawn_local(Driven { tasks: Rc::clone(&tasks), world: Rc::clone(&world) });
        self.running = Some(Running { tasks, world, mesh: Rc::clone(&mesh) });
        while mesh.borrow().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let fault = mesh.borrow().as_ref().and_then(|made| made.as_ref().err().cloned());
        self.outline.up.set(fault.is_none().then(Instant::now));
        let how = fault.map_or("runs".to_owned(), |fault| format!("does not start: {fault}"));
        self.trace.say(format!("{}: {how}", NAMES[self.index]));
    }

    /// Ends its mesh at this moment.
    pub fn crash(&mut self, how: Stop) {
        let Some(running) = self.running.take() else { return };
        self.outline.up.set(None);
        self.outline.members.replace(None);
        // A service never executes what its mesh asked for before it crashed: it is at the same site.
        self.network.part(mesh_host(self.index), app_host(self.index));
        self.network.stop(mesh_host(self.index), how);
        let (kept, lost) = self.disk.crash();
        self.platter.crash(how == Stop::Power);
        self.trace.say(format!(
            "{}: crashes ({how:?}); on its way to the disk: {kept} kept, {lost} lost",
            NAMES[self.index]
        ));
        let tasks = running.tasks.borrow_mut().take();
        world::within(Some(running.world), || {
            drop(running.mesh.take());
            drop(tasks);
        });
    }

    /// Remembers what is durable here, and in its service, now.
    pub fn back_up(&mut self) {
        self.backup = Some(Backup {
            records: self.disk.copy(),
            bodies: self.platter.copy(),
            images: self.app.images(),
            known: std::fs::read(self.known()).ok(),
        });
    }

    /// Puts both back, where something was remembered, or the records only. Its mesh must not run.
    pub fn restore(&mut self, service: bool) -> bool {
        let Some(backup) = self.backup.take().filter(|_| self.running.is_none()) else { return false };
        self.disk.restore(&backup.records);
        self.platter.restore(&backup.bodies);
        if service {
            self.app.restore(backup.images);
        }
        match backup.known {
            Some(known) => std::fs::write(self.known(), known).unwrap(),
            None => drop(std::fs::remove_file(self.known())),
        }
        true
    }

    /// How its disk does from now on.
    pub fn set_disk(&self, mood: Mood) {
        self.disk.set(mood);
        self.platter.set_full(mood == Mood::Full);
    }

    /// Where its membership keeps whom it knows.
    fn known(&self) -> std::path::PathBuf {
        self.directory.path().join("state").join("members")
    }

    /// The sites as it sees them now, if it runs.
    #[must_use]
    pub fn view(&self) -> Option<Arc<View>> {
        Some(self.outline.members.borrow().as_ref()?.snapshot())
    }

    /// Orders something of its membership, if it runs, as an operator there does.
    pub async fn order(&self, order: Order) {
        let shown = format!("{order:?}");
        if let Some(done) = self.obey(order).await {
            let said = done.map_or_else(|why| why, |()| "so it is".to_owned());
            self.trace.say(format!("{}: {shown}: {said}", NAMES[self.index]));
        }
    }

    /// The same, in silence, and what came of it.
    pub async fn obey(&self, order: Order) -> Option<Result<(), String>> {
        let members = self.outline.members.borrow().clone();
        Some(members?.order(order).await)
    }

    /// Asks something of its mesh, if it runs.
    pub fn with_mesh<T>(&self, ask: impl FnOnce(&Mesh) -> T) -> Option<T> {
        let running = self.running.as_ref()?;
        let mesh = running.mesh.borrow();
        mesh.as_ref()?.as_ref().ok().map(|mesh| ask(mesh))
    }

    /// What its mesh said when it did not start.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.running.as_ref()?.mesh.borrow().as_ref()?.as_ref().err().cloned()
    }

    fn membership(&self, config: archipel::config::Config, revoked: &Revoked) -> Start {
        let (trace, name) = (self.trace.clone(), NAMES[self.index]);
        Start {
            config,
            address: SocketAddr::new(mesh_host(self.index), LINK),
            identity: Arc::clone(&self.identity),
            revoked: revoked.clone(),
            speaks: speaks(self.version),
            say: Box::new(move |line| trace.say(format!("{name}: {line}"))),
        }
    }

    fn backstage(&self, members: &Members, revoked: &Revoked) -> Arc<dyn Backstage> {
        let (members, site, revoked) = (Arc::new(members.clone()), self.index, revoked.clone());
        let members = Arc::new(Porter { members, site, revoked, let_in: self.let_in.clone() });
        let Some(heard) = self.heard.clone() else { return members };
        Arc::new(Ears { members, site: self.index, speaks: speaks(self.version), heard })
    }

    /// What its mesh shows its service: in most of the runs in which nobody has a credential, it is not said that none is needed.
    fn credentials(&self) -> BTreeMap<String, Vec<(HeaderName, HeaderValue)>> {
        let own = (HeaderName::from_static(CREDENTIAL), HeaderValue::from_static("site"));
        let unsaid = Chance::new(self.seed, "credentials").percent(60);
        let headers = match (self.keys, self.key_lost) {
            (true, false) => Some(vec![own]),
            (true, true) => None,
            (false, _) => (!unsaid).then(Vec::new),
        };
        headers.into_iter().map(|headers| ("image".to_owned(), headers)).collect()
    }

    fn settings(&self, members: &Members, revoked: &Revoked) -> Settings {
        let profile = Profile::read(&self.profile).unwrap();
        let upstream = Target { host: app_host(self.index).to_string(), port: SERVICE, tls: None };
        let service = Service {
            public: vec![SocketAddr::new(mesh_host(self.index), PUBLIC)],
            internal: Vec::new(),
            upstreams: vec![upstream],
            tls: None,
            scope: None,
            strict: false,
            settle: false,
            health: None,
        };
        Settings {
            site: site(self.index),
            dialect: Dialect { services: profile.services(), ..Dialect::default() },
            sites: members.snapshot(),
            profile,
            observe: false,
            tokens: None,
            thin: false,
            services: BTreeMap::from([("image".to_owned(), service)]),
            link: Some(Link {
                listen: SocketAddr::new(mesh_host(self.index), LINK),
                identity: Arc::clone(&self.identity),
                source: None,
                revoked: revoked.clone(),
                speaks: speaks(self.version),
                backstage: Some(self.backstage(members, revoked)),
            }),
            replication: Some(Replication {
                directory: self.directory.path().to_owned(),
                quota: 64 << 20,
                inline: if self.long { INLINE } else { 1 << 20 },
                credentials: self.credentials(),
                accept_from: None,
                webhook: None,
            }),
            limits: Limits {
                header_bytes: 32 << 10,
                headers: 100,
                connections: 1000,
                requests: 200,
                requests_per_peer: 200,
                records_per_sender: 10_000,
                record_lifetime: Duration::from_mins(5),
                replay_bytes: 64 << 10,
                streams: 16,
            },
            timeouts: Timeouts {
                header: Duration::from_secs(10),
                idle: Duration::from_mins(1),
                connect: Duration::from_secs(3),
                response: RESPONSE,
                peer_response: PEER_RESPONSE,
                body_idle: Duration::from_secs(10),
                hedge: Duration::from_millis(200),
            },
        }
    }
}

/// The address of a site's link.
#[must_use]
pub fn link_address(index: usize) -> String {
    SocketAddr::new(mesh_host(index), LINK).to_string()
}

/// Retries and comparisons come sooner than an operator would want them: a run has minutes, not days.
fn machine() -> replica::Settings {
    replica::Settings {
        retry_ms: 500,
        max_retry_ms: 4_000,
        survey_ms: 15_000,
        sweep_ms: 12_000,
        ..replica::Settings::default()
    }
}

/// Where files are in memory, if there is such a place: nothing here has to survive.
fn scratch() -> std::path::PathBuf {
    let memory = std::path::PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

/// The tasks of a site, in its world, until they are taken away.
struct Driven {
    tasks: Rc<RefCell<Option<LocalSet>>>,
    world: Rc<dyn World>,
}

impl Future for Driven {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut tasks = self.tasks.borrow_mut();
        let Some(tasks) = tasks.as_mut() else { return Poll::Ready(()) };
        let _ = world::within(Some(Rc::clone(&self.world)), || Pin::new(tasks).poll(context));
        Poll::Pending
    }
}
