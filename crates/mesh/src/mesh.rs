//! A running data plane: threads, listeners, reloads, and a clean end.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use http1guard::{Aside, Guarded};
use link::{ClientTls, Drain, IdentityError, Presented, Revoked, Server, ServerTls};
use outside::net::Bound;
use scope::Site;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{JoinHandle as Task, JoinSet, LocalSet, spawn_local};
use tokio::time::Instant;

use crate::audit::Audit;
use crate::carry::{self, Carry, Listener, Secret};
use crate::core::{Core, PeerSeen, Shared, Snapshot};
use crate::front;
use crate::handle::{self, Entry};
use crate::identity::Identities;
use crate::idle::Seldom;
use crate::metrics::{self, Counts};
use crate::observe::Observer;
use crate::replicas::keeper::{self, Making, Opening};
use crate::replicas::{Order, Replicas};
use crate::replication;
use crate::settings::Settings;
use crate::sites::Sites;
use crate::upstream::Health;
use crate::upstream::health::watch;

/// How often a core closes what nobody uses.
const TICK: Duration = Duration::from_secs(5);

/// How often the first core tells what it knows of the peers.
const GLANCE: Duration = Duration::from_secs(1);

/// What listens at an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Service(Entry),
    Link,
}

/// One address as configured: port 0 stands for one that was chosen.
type Configured = (Place, SocketAddr);

/// A running data plane.
pub struct Mesh {
    shared: Arc<Shared>,
    cores: Vec<CoreHandle>,
    /// The thread that keeps replicated resources, where there can be any.
    keeper: Option<KeeperHandle>,
    /// What listens now: the configured address and the real one.
    bound: Mutex<BTreeMap<Configured, SocketAddr>>,
}

struct CoreHandle {
    counts: Arc<Counts>,
    commands: UnboundedSender<Command>,
    /// Nothing where it runs on a thread that is not its own.
    thread: Option<JoinHandle<()>>,
}

/// The keeper ends with this: nothing else closes its inbox, which all cores share.
struct KeeperHandle {
    orders: UnboundedSender<Order>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for KeeperHandle {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::Drain(Duration::ZERO));
    }
}

enum Command {
    Apply(Arc<Snapshot>, Option<ServerTls>, Vec<(Configured, Bound)>),
    Sites(Arc<dyn Sites>),
    Hurry(Site),
    Drain(Duration),
}

/// Why a data plane did not start, or did not change.
#[derive(Debug)]
pub enum StartError {
    /// A port cannot be bound.
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The identity cannot be used.
    Identity(IdentityError),
    /// The application's profile cannot be used.
    Profile(String),
    /// What is kept of replicated resources cannot be opened.
    Replicas(String),
    /// What is kept of tokens cannot be opened.
    Tokens(String),
    /// A thread cannot be started.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Bind { address, source } => write!(f, "cannot listen at {address}: {source}"),
            StartError::Identity(error) => error.fmt(f),
            StartError::Profile(why) | StartError::Replicas(why) | StartError::Tokens(why) => {
                f.write_str(why)
            }
            StartError::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl Mesh {
    /// Starts it: every port is bound before anything is served.
    pub fn start(
        settings: Settings,
        threads: NonZeroUsize,
        audit: Audit,
        secret: [u8; 16],
    ) -> Result<Mesh, StartError> {
        let opening = settings.replication.as_ref().map(|own| Opening::Directory(own.directory.clone()));
        Mesh::keeping(
            settings,
            threads,
            audit,
            secret,
            opening.map(|own| (own, replica::Settings::default())),
        )
    }

    /// The same, with replicated resources kept there.
    pub(crate) fn keeping(
        settings: Settings,
        threads: NonZeroUsize,
        audit: Audit,
        secret: [u8; 16],
        kept: Option<(Opening, replica::Settings)>,
    ) -> Result<Mesh, StartError> {
        let (mut mesh, mut parts) = Mesh::prepare(settings, threads, audit, secret, kept.is_some())?;
        // Before anything is served: what is replicated must be known then.
        if let Some(making) = kept.and_then(|kept| parts.making(&mesh.shared, kept)) {
            mesh.keeper = Some(keep(making)?);
        }
        for (index, listeners) in parts.listeners.drain(..).enumerate() {
            let (mut handle, beginning) =
                begin_core(index, &mesh.shared, &parts.snapshot, parts.tls.as_ref(), listeners);
            let thread = std::thread::Builder::new()
                .name(format!("core-{index}"))
                .spawn(move || run_core(beginning))
                .map_err(StartError::Thread)?;
            handle.thread = Some(thread);
            mesh.cores.push(handle);
        }
        Ok(mesh)
    }

    /// The same on the current `LocalSet`, with one core: it is gone, without a word, when that is dropped. Records
    /// are kept on this engine, long bodies on that disk, keys in the directory of the settings.
    #[cfg(feature = "sim")]
    pub async fn start_here(
        settings: Settings,
        audit: Audit,
        secret: [u8; 16],
        (engine, bodies): (Arc<dyn store::engine::Engine>, Arc<dyn spool::Disk>),
        machine: replica::Settings,
    ) -> Result<Mesh, StartError> {
        let directory = settings.replication.as_ref().map(|own| own.directory.clone());
        let kept = directory.map(|directory| (Opening::Engine(engine, directory, Some(bodies)), machine));
        let (mut mesh, mut parts) =
            Mesh::prepare(settings, NonZeroUsize::MIN, audit, secret, kept.is_some())?;
        if let Some(making) = kept.and_then(|kept| parts.making(&mesh.shared, kept)) {
            let orders = making.replicas.orders.clone();
            spawn_local(keeper::begin(making).await.map_err(StartError::Replicas)?);
            mesh.keeper = Some(KeeperHandle { orders, thread: None });
        }
        for (index, listeners) in parts.listeners.drain(..).enumerate() {
            let (handle, beginning) =
                begin_core(index, &mesh.shared, &parts.snapshot, parts.tls.as_ref(), listeners);
            spawn_local(core(beginning));
            mesh.cores.push(handle);
        }
        Ok(mesh)
    }

    /// All of a mesh that is not running yet: every port is bound.
    fn prepare(
        settings: Settings,
        threads: NonZeroUsize,
        audit: Audit,
        secret: [u8; 16],
        keeps: bool,
    ) -> Result<(Mesh, Parts), StartError> {
        let limits = carry::Limits {
            per_sender: settings.limits.records_per_sender,
            lifetime: settings.limits.record_lifetime,
            ..carry::Limits::default()
        };
        let carry = Carry::new(&settings.profile.propagation, Secret::new(secret), limits);
        let kept_at = settings.tokens.as_ref().and_then(|own| own.directory.as_deref());
        let identities = settings.profile.identity.as_deref();
        let identities = identities.map(|profile| Identities::open(profile, &secret, kept_at)).transpose();
        let identities = identities.map_err(StartError::Tokens)?;
        let (orders, ordered) = unbounded_channel();
        let replicas = keeps.then(|| Replicas {
            known: Arc::default(),
            orders,
            counts: Arc::default(),
            spool: Arc::default(),
        });
        let shared = Arc::new(Shared {
            carry: carry.map_err(|error| StartError::Profile(error.to_string()))?,
            audit,
            observer: Observer::default(),
            revoked: settings.link.as_ref().map(|link| link.revoked.clone()).unwrap_or_default(),
            bypass: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            local: AtomicUsize::new(0),
            away: AtomicUsize::new(0),
            streams: Arc::default(),
            peers: Mutex::default(),
            started: Instant::now(),
            replicas,
            identities,
        });
        let mesh = Mesh { shared, cores: Vec::new(), keeper: None, bound: Mutex::default() };
        let (snapshot, tls) = snapshot(settings, &mesh.shared.revoked)?;
        let listeners = mesh.bind(&snapshot.settings, threads.get())?;
        Ok((mesh, Parts { snapshot, tls, listeners, ordered: Some(ordered) }))
    }

    /// Takes on new settings. Requests in flight end under the old ones; on an error nothing changes.
    pub fn reload(&self, settings: Settings) -> Result<(), StartError> {
        let (snapshot, tls) = snapshot(settings, &self.shared.revoked)?;
        let listeners = self.bind(&snapshot.settings, self.cores.len())?;
        for (core, listeners) in self.cores.iter().zip(listeners) {
            let _ = core.commands.send(Command::Apply(Arc::clone(&snapshot), tls.clone(), listeners));
        }
        self.tell_keeper(Order::Apply(snapshot));
        Ok(())
    }

    /// Sees the sites like this from now on. Requests in flight end as they were planned.
    pub fn set_sites(&self, sites: &Arc<dyn Sites>) {
        for core in &self.cores {
            let _ = core.commands.send(Command::Sites(Arc::clone(sites)));
        }
        self.tell_keeper(Order::Sites(Arc::clone(sites)));
    }

    /// Something says that a site is back, or gone: connections to it are tried now.
    pub fn hurry(&self, site: &Site) {
        for core in &self.cores {
            let _ = core.commands.send(Command::Hurry(site.clone()));
        }
        self.tell_keeper(Order::Hurry(site.clone()));
    }

    /// Forwards everything to this site's own services from now on, or no longer.
    pub fn set_bypass(&self, on: bool) {
        self.shared.bypass.store(on, Ordering::Relaxed);
    }

    /// Whether everything is forwarded to this site's own services.
    #[must_use]
    pub fn bypass(&self) -> bool {
        self.shared.bypass.load(Ordering::Relaxed)
    }

    /// Whom this site believes no more; what is added here takes effect at once.
    #[must_use]
    pub fn revoked(&self) -> &Revoked {
        &self.shared.revoked
    }

    /// What the link knows of the peers that it is connected to, or tries to be: as of the last second.
    #[must_use]
    pub fn peers(&self) -> Vec<PeerSeen> {
        self.shared.peers.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// In observe mode: how many calls of services could be told to belong to a request, and how many not.
    #[must_use]
    pub fn observed(&self) -> (u64, u64) {
        self.shared.observer.counts()
    }

    /// What was counted, in the text format of Prometheus.
    #[must_use]
    pub fn metrics(&self) -> String {
        let counts: Vec<_> = self.cores.iter().map(|core| Arc::clone(&core.counts)).collect();
        let mut text = String::new();
        // A string takes what it is given.
        let _ = metrics::render(&counts, &mut text);
        let in_flight = self.in_flight();
        text.push_str("# HELP archipel_requests_in_flight Requests in flight.\n");
        text.push_str("# TYPE archipel_requests_in_flight gauge\n");
        text.push_str(&format!("archipel_requests_in_flight {in_flight}\n"));
        self.shared.streams.render(&mut text);
        if let Some(replicas) = &self.shared.replicas {
            let _ = replicas.counts.render(&mut text);
        }
        text
    }

    /// Replicated resources, where there can be any.
    #[must_use]
    pub fn replication(&self) -> Option<replication::Handle> {
        let replicas = self.shared.replicas.as_ref()?;
        Some(replication::Handle::new(replicas.orders.clone()))
    }

    #[cfg(test)]
    pub(crate) fn replicas(&self) -> Option<Replicas> {
        self.shared.replicas.clone()
    }

    fn tell_keeper(&self, order: Order) {
        if let Some(replicas) = &self.shared.replicas {
            let _ = replicas.orders.send(order);
        }
    }

    /// Requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::Relaxed)
    }

    /// Where a service listens for clients, or for the site's own services.
    #[must_use]
    pub fn addresses(&self, service: &str, internal: bool) -> Vec<SocketAddr> {
        let wanted = if internal { Listener::Internal } else { Listener::Public };
        let bound = self.bound.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let here = |place: &Place| matches!(place, Place::Service(e) if e.service == service && e.listener == wanted);
        bound.iter().filter(|((place, _), _)| here(place)).map(|(_, address)| *address).collect()
    }

    /// Where the link listens.
    #[must_use]
    pub fn link_address(&self) -> Option<SocketAddr> {
        let bound = self.bound.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        bound.iter().find(|((place, _), _)| *place == Place::Link).map(|(_, address)| *address)
    }

    /// Stops to accept, and returns when the requests in flight are answered, or after `patience`.
    pub fn drain(self, patience: Duration) {
        for core in &self.cores {
            let _ = core.commands.send(Command::Drain(patience));
        }
        self.tell_keeper(Order::Drain(patience));
        for core in self.cores {
            let _ = core.thread.map(JoinHandle::join);
        }
        if let Some(thread) = self.keeper.and_then(|mut keeper| keeper.thread.take()) {
            let _ = thread.join();
        }
    }

    /// Binds what is new, once for each core, and forgets what is gone.
    fn bind(&self, settings: &Settings, cores: usize) -> Result<Vec<Vec<(Configured, Bound)>>, StartError> {
        let mut bound = self.bound.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let wanted = wanted(settings);
        let mut new = BTreeMap::new();
        let mut listeners: Vec<Vec<_>> = (0..cores).map(|_| Vec::new()).collect();
        for place in wanted.iter().filter(|place| !bound.contains_key(*place)) {
            let mut address = place.1;
            if !bound.values().any(|ours| *ours == address) {
                outside::net::probe(address).map_err(|source| StartError::Bind { address, source })?;
            }
            for listeners in &mut listeners {
                let listener = outside::net::bind(address)
                    .map_err(|source| StartError::Bind { address: place.1, source })?;
                // With port 0 the first one chooses, and the others share its choice.
                address =
                    listener.local_addr().map_err(|source| StartError::Bind { address: place.1, source })?;
                listeners.push((place.clone(), listener));
            }
            new.insert(place.clone(), address);
        }
        bound.retain(|place, _| wanted.contains(place));
        bound.extend(new);
        Ok(listeners)
    }
}

/// What the parts of a mesh begin with.
struct Parts {
    snapshot: Arc<Snapshot>,
    tls: Option<ServerTls>,
    listeners: Vec<Vec<(Configured, Bound)>>,
    ordered: Option<UnboundedReceiver<Order>>,
}

impl Parts {
    fn making(
        &mut self,
        shared: &Arc<Shared>,
        (opening, machine): (Opening, replica::Settings),
    ) -> Option<Making> {
        let (replicas, orders) = (shared.replicas.clone()?, self.ordered.take()?);
        let (shared, first) = (Arc::clone(shared), Arc::clone(&self.snapshot));
        Some(Making { shared, counts: Arc::default(), first, replicas, orders, machine, opening })
    }
}

/// Starts the keeper, and waits until it has opened what it kept.
fn keep(making: Making) -> Result<KeeperHandle, StartError> {
    let orders = making.replicas.orders.clone();
    let (opened, waiting) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new()
        .name("keeper".to_owned())
        .spawn(move || keeper::run(making, opened))
        .map_err(StartError::Thread)?;
    let ended = || "the keeper of replicated resources ended".to_owned();
    waiting.recv().unwrap_or_else(|_| Err(ended())).map_err(StartError::Replicas)?;
    Ok(KeeperHandle { orders, thread: Some(thread) })
}

fn wanted(settings: &Settings) -> Vec<Configured> {
    let mut wanted: Vec<Configured> = settings.link.iter().map(|link| (Place::Link, link.listen)).collect();
    for (name, service) in &settings.services {
        for (listener, addresses) in
            [(Listener::Public, &service.public), (Listener::Internal, &service.internal)]
        {
            let entry = Entry { service: name.clone(), listener };
            wanted.extend(addresses.iter().map(|address| (Place::Service(entry.clone()), *address)));
        }
    }
    wanted
}

fn snapshot(settings: Settings, revoked: &Revoked) -> Result<(Arc<Snapshot>, Option<ServerTls>), StartError> {
    let identity = settings.link.as_ref().map(|link| Arc::clone(&link.identity));
    let speaks = settings.link.as_ref().map_or(link::Speaks::NOW, |link| link.speaks);
    let client_tls = identity.as_deref().map(|identity| ClientTls::new(identity, revoked));
    let client_tls = client_tls.transpose().map_err(StartError::Identity)?.map(|tls| tls.speaking(speaks));
    let notary = identity.as_deref().map(|identity| link::Notary::new(identity, revoked));
    let notary = notary.transpose().map_err(StartError::Identity)?;
    let server_tls = identity.as_deref().map(|identity| ServerTls::new(identity, revoked));
    let server_tls = server_tls.transpose().map_err(StartError::Identity)?.map(|tls| tls.speaking(speaks));
    let health = settings
        .services
        .iter()
        .map(|(name, service)| (name.clone(), Arc::new(Health::new(service.upstreams.len()))))
        .collect();
    Ok((Arc::new(Snapshot { settings, health, client_tls, notary }), server_tls))
}

/// What a core begins with.
struct Beginning {
    index: usize,
    shared: Arc<Shared>,
    counts: Arc<Counts>,
    first: Arc<Snapshot>,
    commands: UnboundedReceiver<Command>,
}

fn begin_core(
    index: usize,
    shared: &Arc<Shared>,
    snapshot: &Arc<Snapshot>,
    tls: Option<&ServerTls>,
    listeners: Vec<(Configured, Bound)>,
) -> (CoreHandle, Beginning) {
    let (commands, received) = unbounded_channel();
    let _ = commands.send(Command::Apply(Arc::clone(snapshot), tls.cloned(), listeners));
    let counts = Arc::<Counts>::default();
    let (shared, first) = (Arc::clone(shared), Arc::clone(snapshot));
    let beginning = Beginning { index, shared, counts: Arc::clone(&counts), first, commands: received };
    (CoreHandle { counts, commands, thread: None }, beginning)
}

fn run_core(beginning: Beginning) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    // What is waited for here is asked with each wake-up of any task, and before them: a command counts for what comes
    // after it.
    LocalSet::new().block_on(&runtime, Seldom::new(core(beginning)));
}

/// A core, on the current `LocalSet`.
async fn core(beginning: Beginning) {
    let Beginning { index, shared, counts, first, commands } = beginning;
    // Peers and upstreams are connected to by tasks of this core: it is made here.
    let core = Rc::new(Core::new(shared, counts, first));
    let timed = Rc::clone(&core);
    spawn_local(async move { timed.alarms.ring().await });
    let running = Running {
        core,
        index,
        presented: None,
        listening: BTreeMap::new(),
        leaving: JoinSet::new(),
        checks: Vec::new(),
    };
    running.follow(commands).await;
}

/// One core at work.
struct Running {
    core: Rc<Core>,
    index: usize,
    /// What the link's listener shows to sites that connect.
    presented: Option<Presented>,
    listening: BTreeMap<Configured, (Drain, Task<()>)>,
    /// Listeners that a reload closed, each until its last request is answered.
    leaving: JoinSet<()>,
    checks: Vec<Task<()>>,
}

impl Running {
    async fn follow(mut self, mut commands: UnboundedReceiver<Command>) {
        let mut first = true;
        let (mut tick, mut glance) = (tokio::time::interval(TICK), tokio::time::interval(GLANCE));
        loop {
            let command = tokio::select! {
                biased;
                command = commands.recv() => command,
                _ = tick.tick() => {
                    self.core.state().sweep();
                    continue;
                }
                _ = glance.tick(), if self.index == 0 => {
                    self.core.show_peers();
                    continue;
                }
            };
            let Some(command) = command else { return };
            match command {
                Command::Apply(snapshot, tls, listeners) => {
                    if !std::mem::take(&mut first) {
                        self.core.apply(Arc::clone(&snapshot));
                    }
                    if let Some(tls) = tls {
                        match &self.presented {
                            Some(presented) => presented.replace(tls),
                            None => self.presented = Some(Presented::new(tls)),
                        }
                    }
                    self.listen(&snapshot, listeners);
                    self.check_health(&snapshot);
                }
                Command::Sites(sites) => self.core.see(sites),
                Command::Hurry(site) => {
                    if let Some(pool) = &self.core.state().pool {
                        pool.hurry(site.name());
                    }
                }
                Command::Drain(patience) => {
                    self.drain(patience).await;
                    return;
                }
            }
        }
    }

    fn listen(&mut self, snapshot: &Snapshot, listeners: Vec<(Configured, Bound)>) {
        let wanted = wanted(&snapshot.settings);
        // Those that have left by now need no remembering.
        while self.leaving.try_join_next().is_some() {}
        let (stay, leave) = std::mem::take(&mut self.listening)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(place, _)| wanted.contains(place));
        self.listening = stay;
        for (_, (drain, task)) in leave {
            drain.start();
            self.leaving.spawn_local(async { drop(task.await) });
        }
        for (place, listener) in listeners {
            let Ok(listener) = listener.listen() else { continue };
            let (drain, draining) = Drain::new();
            let core = Rc::clone(&self.core);
            let task = match (&place.0, &self.presented) {
                (Place::Service(entry), _) => {
                    spawn_local(front::accept(core, Rc::new(entry.clone()), listener, draining))
                }
                (Place::Link, Some(presented)) => {
                    let limits = link::Limits::default();
                    // What another site took from its client, it may send here with what legs add.
                    let guard = http1guard::Limits {
                        head_bytes: usize::try_from(limits.header_bytes).unwrap_or(usize::MAX),
                        fields: limits.headers,
                        ..http1guard::Limits::default()
                    };
                    let server = Server::new(presented.clone(), limits).wrapping(move |stream, beside| {
                        let aside = Aside::new();
                        beside.insert(aside.clone());
                        Guarded::new(stream, guard).with_aside(aside)
                    });
                    spawn_local(server.serve(listener, draining, move |request, peer| {
                        handle::leg(Rc::clone(&core), peer, request)
                    }))
                }
                (Place::Link, None) => continue,
            };
            self.listening.insert(place, (drain, task));
        }
    }

    /// The first core asks the upstreams for their health, for all.
    fn check_health(&mut self, snapshot: &Snapshot) {
        for check in self.checks.drain(..) {
            check.abort();
        }
        if self.index > 0 {
            return;
        }
        for (name, service) in &snapshot.settings.services {
            if let (Some(check), Some(health)) = (&service.health, snapshot.health.get(name)) {
                let watching = watch(service.upstreams.clone(), check.clone(), Arc::clone(health));
                self.checks.push(spawn_local(watching));
            }
        }
    }

    async fn drain(mut self, patience: Duration) {
        for (drain, _) in self.listening.values() {
            drain.start();
        }
        let ended = async {
            for (_, (_, task)) in self.listening {
                let _ = task.await;
            }
            while self.leaving.join_next().await.is_some() {}
        };
        let _ = tokio::time::timeout(patience, ended).await;
    }
}
