//! The thread that drives the machine: datagrams, exchanges of states, orders, and what is published.

mod files;
mod orders;
mod wire;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use link::datagram::{self, Opener, Sealer};
use link::{ClientTls, Identity, Pool, Revoked, Speaks};
use mesh::{Mesh, Sites};
use outside::net::UdpSocket;
use scope::Site;
use sites::{Effect, Event, Machine, Metrics, Notice, Own, Says};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tokio::time::{Instant, interval, sleep_until};

use super::kept::Kept;
use super::resolve::Resolver;
use super::{Command, Inbox, View, outward};
use crate::config::Config;

/// Files of metrics are read, and what is known is kept, this often.
const TICK: Duration = Duration::from_secs(5);
/// The link is asked what it knows of the peers this often.
const GLANCE: Duration = Duration::from_secs(1);

/// What the driver did not wait for, and has come to its end.
enum Done {
    /// An exchange of states.
    Synced { from: Site, bytes: Bytes },
    /// The file of metrics was read.
    Read { path: PathBuf, metrics: Result<BTreeMap<String, f64>, String> },
    /// What is known was kept, as the orders that wait for it asked.
    Kept { kept: Kept, outcome: io::Result<()>, replies: Vec<Replying> },
}

/// An order that is answered once what it changed is kept.
type Replying = (oneshot::Sender<Result<(), String>>, Result<(), String>);

/// What the membership starts with.
pub struct Start {
    /// The configuration.
    pub config: Config,
    /// Where the link listens: datagrams come to the same port.
    pub address: SocketAddr,
    /// Who this site is.
    pub identity: Arc<Identity>,
    /// Whom the link believes no more.
    pub revoked: Revoked,
    /// The versions that it speaks to the others.
    pub speaks: Speaks,
    /// Tells whoever runs this what happens.
    pub say: Box<dyn Fn(&str) + Send>,
}

impl Inbox {
    /// Starts the membership, in a thread of its own.
    pub fn start(self, start: Start) -> io::Result<()> {
        let (ready, started) = std::sync::mpsc::channel();
        std::thread::Builder::new().name("members".to_owned()).spawn(move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error))),
            };
            LocalSet::new().block_on(&runtime, async move {
                match Driver::start(self, start).await {
                    Ok(driver) => {
                        let _ = ready.send(Ok(()));
                        driver.run().await;
                    }
                    Err(error) => drop(ready.send(Err(error))),
                }
            });
        })?;
        started.recv().unwrap_or_else(|_| Err(io::Error::other("its thread ended")))
    }

    /// Starts the membership on the current `LocalSet`.
    #[cfg(feature = "sim")]
    pub async fn start_here(self, start: Start) -> io::Result<()> {
        let driver = Driver::start(self, start).await?;
        tokio::task::spawn_local(driver.run());
        Ok(())
    }
}

struct Driver {
    machine: Machine,
    /// What the machine's time counts from.
    started: Instant,
    inbox: Inbox,
    start: Start,
    socket: Rc<UdpSocket>,
    sealer: Sealer,
    opener: Opener,
    pool: Pool,
    resolver: Rc<RefCell<Resolver>>,
    /// Where the members are: two names may have had one address, one after the other.
    peers: BTreeMap<Site, Box<str>>,
    mesh: Weak<Mesh>,
    /// Nothing, while something is being written.
    kept: Option<Kept>,
    /// Orders that wait for it.
    replies: Vec<Replying>,
    /// Who waits for a site at one of these addresses.
    meeting: Vec<(Vec<SocketAddr>, oneshot::Sender<Site>)>,
    /// Why that could not be kept: said once.
    unkept: Option<String>,
    wake: Option<Instant>,
    /// Those that the link could not reach when it was last asked.
    failing: BTreeSet<Site>,
    /// What the link measured last.
    measured: BTreeMap<Site, Duration>,
    /// Metrics that were pushed; those of the file come on top.
    pushed: Metrics,
    /// What the file of metrics said last.
    of_file: Metrics,
    /// It is being read.
    reading: bool,
    /// What is wrong with the file of metrics: said once.
    fault: Option<String>,
    done: (UnboundedSender<Done>, UnboundedReceiver<Done>),
}

impl Driver {
    /// One that has said its first hellos.
    async fn start(inbox: Inbox, start: Start) -> io::Result<Driver> {
        let socket = outside::net::datagrams(start.address)?;
        let (kept, restored) = Kept::open(&start.config.state)?;
        let mut driver = Driver::new(inbox, start, socket, kept).map_err(io::Error::other)?;
        // What is sent before the socket is known to be writable is lost: the first hello, say.
        let _ = driver.socket.writable().await;
        driver.begin(&restored);
        Ok(driver)
    }

    fn new(inbox: Inbox, start: Start, socket: UdpSocket, kept: Kept) -> Result<Driver, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let wall_ms = wall_ms();
        let sites::Identity { fingerprint, issued } = proven(&start.identity);
        let own = Own {
            site: start.config.site.clone(),
            fingerprint,
            issued,
            epoch: wall_ms,
            wall_ms,
            says: says(&start.config, start.address),
            metrics: Metrics::new(),
            known: Vec::new(),
        };
        let settings = sites::Config { dialect: start.config.dialect(), ..sites::Config::default() };
        let mut seed = [0; 8];
        outside::random(&mut seed).map_err(|error| text(&error))?;
        let machine = Machine::new(own, settings, u64::from_le_bytes(seed), Duration::ZERO)
            .map_err(|error| text(&error))?;
        let (sealer, opener) =
            datagram::pair(&start.identity, start.revoked.clone()).map_err(|error| text(&error))?;
        let pool = pool(&start, &start.identity)?;
        Ok(Driver {
            machine,
            started: Instant::now(),
            inbox,
            socket: Rc::new(socket),
            sealer,
            opener,
            pool,
            resolver: Rc::default(),
            peers: BTreeMap::new(),
            mesh: Weak::new(),
            kept: Some(kept),
            replies: Vec::new(),
            meeting: Vec::new(),
            unkept: None,
            wake: None,
            failing: BTreeSet::new(),
            measured: BTreeMap::new(),
            pushed: Metrics::new(),
            of_file: Metrics::new(),
            reading: false,
            fault: None,
            done: unbounded_channel(),
            start,
        })
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// What was known before, then what the file says.
    fn begin(&mut self, restored: &[u8]) {
        let mut effects = Vec::new();
        if !self.machine.restore(restored, self.now(), &mut effects) {
            (self.start.say)(
                "what was kept of the sites cannot be read: it is damaged, and the damaged part is left out",
            );
        }
        self.carry_out(effects);
        self.define_zones();
        self.read_metrics();
        self.on(Event::Join { addresses: seeds(&self.start.config) });
    }

    async fn run(mut self) {
        let mut buffer = vec![0; 2048];
        let (mut tick, mut glance) = (interval(TICK), interval(GLANCE));
        loop {
            let wake = self.wake.unwrap_or_else(|| Instant::now() + TICK);
            let socket = Rc::clone(&self.socket);
            tokio::select! {
                // What is seldom comes first.
                biased;
                command = self.inbox.commands.recv() => match command {
                    Some(Command::Stop(done)) => return self.stop(done).await,
                    Some(command) => self.obey(command),
                    None => return,
                },
                Some(done) = self.done.1.recv() => self.done(done),
                _ = tick.tick() => {
                    self.machine.set_wall(wall_ms(), self.now());
                    self.read_metrics();
                    self.keep();
                }
                _ = glance.tick() => self.look_at_link(),
                () = sleep_until(wake) => self.on(Event::Tick),
                received = socket.recv_from(&mut buffer) => {
                    // What the system says of a datagram that could not be delivered is of no use here.
                    if let Ok((length, from)) = received {
                        self.received(buffer.get(..length).unwrap_or_default(), from);
                    }
                }
            }
        }
    }

    fn on(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.machine.on(event, self.now(), &mut effects);
        self.carry_out(effects);
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Synced { from, bytes } => self.exchanged(from, &bytes),
            Done::Read { path, metrics } => self.metrics_read(&path, metrics),
            Done::Kept { kept, outcome, replies } => {
                self.was_kept(kept, outcome, replies);
                // What was ordered meanwhile.
                if !self.replies.is_empty() {
                    self.keep();
                }
            }
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        let (mut changed, mut lines) = (false, Vec::new());
        for effect in effects {
            match effect {
                Effect::Send { to, site, bytes } => self.send(&to, site.as_ref(), &bytes),
                Effect::Sync { with, address, bytes } => self.exchange(with, &address, bytes),
                Effect::WakeAt(time) => self.wake = Some(self.started + time),
                Effect::Changed => changed = true,
                Effect::CheckRevocation { statement } => {
                    // A statement that is not the operator's is a lie of another site's: nothing happens.
                    let _ = self.revoke(&statement);
                }
                Effect::Notice(notice) => {
                    self.hurry_link(&notice);
                    lines.push(notice_line(&notice));
                }
            }
        }
        if changed {
            self.publish();
        }
        // After the snapshot: a reader of a line finds what it says in `archipel sites`.
        for line in lines {
            (self.start.say)(&line);
        }
    }

    fn publish(&mut self) {
        let snapshot = self.machine.snapshot();
        let members = (0..scope::View::members(&snapshot).len()).filter_map(|site| snapshot.seen(site));
        let others = members.filter(|seen| seen.record.site != self.start.config.site);
        let places = others.map(|seen| (seen.record.site.clone(), seen.record.says.address.clone()));
        self.peers = places.collect();
        self.pool.set_peers(named(&self.peers));
        let view = Arc::new(View::new(Some(snapshot), &self.start.config));
        if let Some(mesh) = self.mesh.upgrade() {
            let sites: Arc<dyn Sites> = Arc::clone(&view) as Arc<dyn Sites>;
            mesh.set_sites(&sites);
            // After the news itself: it may have a new address.
            for site in view.usable_since(&self.inbox.view.borrow()) {
                mesh.hurry(site);
            }
        }
        self.inbox.view.send_replace(view);
    }

    /// A site has answered, from this address or, where that is not known, for the first time.
    fn has_met(&mut self, site: &Site, from: Option<SocketAddr>) {
        let here = |addresses: &[SocketAddr]| from.is_none_or(|from| addresses.contains(&from));
        for (_, reply) in self.meeting.extract_if(.., |(addresses, _)| here(addresses)) {
            let _ = reply.send(site.clone());
        }
    }

    /// Has the link look at once at a site of which there is news.
    fn hurry_link(&mut self, notice: &Notice) {
        if let Notice::Joined(site) | Notice::Back(site) = notice {
            self.has_met(site, None);
        }
        if let Notice::Back(site)
        | Notice::Reachable(site)
        | Notice::Suspected(site)
        | Notice::Dead(site)
        | Notice::Unreachable(site) = notice
            && let Some(mesh) = self.mesh.upgrade()
        {
            // The link finds out at once, not at its next probe.
            mesh.hurry(site);
        }
    }
}

/// The line of the log that tells `notice`.
fn notice_line(notice: &Notice) -> String {
    match notice {
        Notice::Joined(site) => format!("{site} has joined"),
        Notice::Left(site) => format!("{site} has left"),
        Notice::Suspected(site) => format!("{site} does not answer; it has some seconds to object"),
        Notice::Dead(site) => format!("{site} is dead: it did not object"),
        Notice::Back(site) => format!("{site} is back"),
        Notice::Unreachable(site) => format!("{site} is alive, but cannot be reached from here"),
        Notice::Reachable(site) => format!("{site} can be reached again"),
        Notice::Revoked(site) => format!("the identity of {site} is revoked"),
        Notice::NameTaken(site) => format!("another identity claims to be {site}, and was refused"),
        Notice::Full(name) => format!("there is no room for {name:?}: too many sites or zones"),
        Notice::FromTheFuture(name) => {
            format!("a change of {name:?} has a time in the future, and was refused: check the clocks")
        }
        Notice::Objected => "other sites believed this one dead: it objected".to_owned(),
    }
}

/// Where the file says that other sites are.
fn seeds(config: &Config) -> Vec<Box<str>> {
    let join = config.link.iter().flat_map(|link| &link.join);
    let addresses = join.chain(config.peers.values().map(|peer| &peer.address));
    addresses.map(|address| address.to_string().into()).collect()
}

/// Peers as the link names them.
fn named(peers: &BTreeMap<Site, Box<str>>) -> impl Iterator<Item = (String, String)> {
    peers.iter().map(|(site, address)| (site.name().to_owned(), address.to_string()))
}

/// What this site says of itself.
fn says(config: &Config, address: SocketAddr) -> Says {
    let advertised = config.link.as_ref().and_then(|link| link.advertise.as_ref());
    let advertised = advertised.map_or_else(|| outward::address(address).to_string(), ToString::to_string);
    Says {
        address: advertised.into(),
        services: Some(config.services.keys().map(|name| name.as_str().into()).collect()),
        kind: config.profile_name.as_str().into(),
        kind_version: config.version.as_deref().unwrap_or_default().into(),
        version: env!("CARGO_PKG_VERSION").into(),
        labels: config
            .labels
            .iter()
            .map(|(name, value)| (name.as_str().into(), value.as_str().into()))
            .collect(),
    }
}

/// Connections for exchanges of states: made when they are needed, none kept warm.
fn pool(start: &Start, identity: &Identity) -> Result<Pool, String> {
    let tls = ClientTls::new(identity, &start.revoked).map_err(|error| error.to_string())?;
    let tls = tls.speaking(start.speaks);
    let source = start.config.link.as_ref().and_then(|link| link.source);
    Ok(Pool::new(tls, link::Settings { warm: 1, warm_peers: 0, source, ..link::Settings::default() }))
}

/// What an identity proves beside the name, as the machine counts it.
fn proven(identity: &Identity) -> sites::Identity {
    sites::Identity { fingerprint: *identity.fingerprint().as_bytes(), issued: micros(identity.issued()) }
}

/// What the wall clock shows: a box may start in 1970, and learn better later.
fn wall_ms() -> u64 {
    let since = outside::time_of_day().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn micros(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}
