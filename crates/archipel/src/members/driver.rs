//! The thread that drives the machine: datagrams, exchanges of states, orders, and what is published.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full, Limited};
use link::datagram::{self, Opener, Sealer};
use link::{ClientTls, Identity, Lane, Pool, Revocation, Revoked};
use mesh::{Mesh, Sites};
use scope::Site;
use sites::{Effect, Event, Machine, Metrics, Notice, Own, Says};
use tokio::net::UdpSocket;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{interval, sleep_until, timeout};

use super::kept::Kept;
use super::resolve::{Known, Resolver};
use super::{Command, Inbox, Order, SYNC, View, metrics, outward};
use crate::config::Config;

/// Files of metrics are read, and what is known is kept, this often.
const TICK: Duration = Duration::from_secs(5);
/// The link is asked what it knows of the peers this often.
const GLANCE: Duration = Duration::from_secs(1);
/// Time for an exchange of states.
const EXCHANGE: Duration = Duration::from_secs(10);
/// A site that leaves goes on for so long, so that it is heard.
const GOODBYE: Duration = Duration::from_millis(700);
/// The state of ten thousand sites is a few megabytes.
const LONGEST: usize = 16 << 20;

/// What came of an exchange of states.
struct Synced {
    from: Site,
    bytes: Bytes,
}

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
    /// Tells whoever runs this what happens.
    pub say: Box<dyn Fn(&str) + Send>,
}

impl Inbox {
    /// Starts the membership, in a thread of its own.
    pub fn start(self, start: Start) -> io::Result<()> {
        let socket = std::net::UdpSocket::bind(start.address)?;
        socket.set_nonblocking(true)?;
        let (kept, restored) = Kept::open(&start.config.state)?;
        let (ready, started) = std::sync::mpsc::channel();
        std::thread::Builder::new().name("members".to_owned()).spawn(move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error))),
            };
            LocalSet::new().block_on(&runtime, async move {
                match Driver::new(self, start, socket, kept) {
                    Ok(mut driver) => {
                        driver.begin(&restored);
                        let _ = ready.send(Ok(()));
                        driver.run().await;
                    }
                    Err(why) => drop(ready.send(Err(io::Error::other(why)))),
                }
            });
        })?;
        started.recv().unwrap_or_else(|_| Err(io::Error::other("its thread ended")))
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
    /// Who is at an address, so that a datagram is for that site only.
    names: BTreeMap<Box<str>, Site>,
    mesh: Weak<Mesh>,
    kept: Kept,
    /// Why that could not be kept: said once.
    unkept: Option<String>,
    wake: Option<Instant>,
    /// What the link measured last.
    measured: BTreeMap<Site, Duration>,
    /// Metrics that were pushed; those of the file come on top.
    pushed: Metrics,
    /// What is wrong with the file of metrics: said once.
    fault: Option<String>,
    synced: (UnboundedSender<Synced>, UnboundedReceiver<Synced>),
}

impl Driver {
    fn new(inbox: Inbox, start: Start, socket: std::net::UdpSocket, kept: Kept) -> Result<Driver, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let wall_ms = since_1970().as_millis().try_into().unwrap_or(u64::MAX);
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
        let seed = getrandom::u64().map_err(|error| text(&error))?;
        let machine = Machine::new(own, settings, seed, Duration::ZERO).map_err(|error| text(&error))?;
        let (sealer, opener) =
            datagram::pair(&start.identity, start.revoked.clone()).map_err(|error| text(&error))?;
        let pool = pool(&start.config, &start.identity, &start.revoked)?;
        Ok(Driver {
            machine,
            started: Instant::now(),
            inbox,
            socket: Rc::new(UdpSocket::from_std(socket).map_err(|error| text(&error))?),
            sealer,
            opener,
            pool,
            resolver: Rc::default(),
            names: BTreeMap::new(),
            mesh: Weak::new(),
            kept,
            unkept: None,
            wake: None,
            measured: BTreeMap::new(),
            pushed: Metrics::new(),
            fault: None,
            synced: unbounded_channel(),
            start,
        })
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// What was known before, then what the file says.
    fn begin(&mut self, restored: &[u8]) {
        let mut effects = Vec::new();
        self.machine.restore(restored, self.now(), &mut effects);
        self.carry_out(effects);
        self.define_zones();
        self.read_metrics();
        let config = &self.start.config;
        let join = config.link.iter().flat_map(|link| &link.join);
        let addresses = join.chain(config.peers.values().map(|peer| &peer.address));
        let addresses = addresses.map(|address| address.to_string().into()).collect();
        self.on(Event::Join { addresses });
    }

    async fn run(mut self) {
        let mut buffer = vec![0; 2048];
        let (mut tick, mut glance) = (interval(TICK), interval(GLANCE));
        loop {
            let wake = self.wake.unwrap_or_else(|| Instant::now() + TICK);
            let socket = Rc::clone(&self.socket);
            tokio::select! {
                received = socket.recv_from(&mut buffer) => {
                    // What the system says of a datagram that could not be delivered is of no use here.
                    if let Ok((length, from)) = received {
                        self.received(buffer.get(..length).unwrap_or_default(), from);
                    }
                }
                command = self.inbox.commands.recv() => match command {
                    Some(Command::Stop(done)) => return self.stop(done).await,
                    Some(command) => self.obey(command),
                    None => return,
                },
                Some(Synced { from, bytes }) = self.synced.1.recv() => self.exchanged(from, &bytes),
                () = sleep_until(wake.into()) => self.on(Event::Tick),
                _ = tick.tick() => {
                    self.read_metrics();
                    self.keep();
                }
                _ = glance.tick() => self.look_at_link(),
            }
        }
    }

    fn on(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.machine.on(event, self.now(), &mut effects);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        let mut changed = false;
        for effect in effects {
            match effect {
                Effect::Send { to, bytes } => self.send(&to, &bytes),
                Effect::Sync { with, address, bytes } => self.exchange(with, &address, bytes),
                Effect::WakeAt(time) => self.wake = Some(self.started + time),
                Effect::Changed => changed = true,
                Effect::CheckRevocation { statement } => {
                    // A statement that is not the operator's is a lie of another site's: nothing happens.
                    let _ = self.revoke(&statement);
                }
                Effect::Notice(notice) => self.notice(&notice),
            }
        }
        if changed {
            self.publish();
        }
    }

    fn publish(&mut self) {
        let snapshot = self.machine.snapshot();
        let others = snapshot.all().filter(|seen| seen.record.site != self.start.config.site);
        let places = others.map(|seen| (seen.record.says.address.clone(), seen.record.site.clone()));
        self.names = places.collect();
        self.pool.set_peers(
            self.names.iter().map(|(address, site)| (site.name().to_owned(), address.to_string())),
        );
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

    fn notice(&self, notice: &Notice) {
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
        let line = match notice {
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
        };
        (self.start.say)(&line);
    }
}

/// Datagrams and exchanges.
impl Driver {
    fn send(&self, to: &str, payload: &[u8]) {
        let site = self.names.get(to).map(Site::name);
        let Ok(sealed) = self.sealer.seal(site, payload, SystemTime::now()) else { return };
        let datagrams = sealed.introduction.into_iter().chain([sealed.datagram]);
        self.send_sealed(to, datagrams.collect());
    }

    fn send_sealed(&self, to: &str, datagrams: Vec<Vec<u8>>) {
        let (socket, traffic) = (Rc::clone(&self.socket), Arc::clone(&self.inbox.traffic));
        let put = move |address: SocketAddr, datagrams: &[Vec<u8>]| {
            for datagram in datagrams {
                // One that does not leave is one that was lost on the way.
                if socket.try_send_to(datagram, address).is_ok() {
                    traffic.sent(datagram.len());
                }
            }
        };
        match self.resolver.borrow().find(to, Instant::now()) {
            Known::Yes(Some(address)) => return put(address, &datagrams),
            Known::Yes(None) => return,
            Known::No => {}
        }
        let (name, resolver) = (to.to_owned(), Rc::clone(&self.resolver));
        spawn_local(async move {
            let address = tokio::net::lookup_host(&name).await.ok().and_then(|mut found| found.next());
            resolver.borrow_mut().learn(&name, address, Instant::now());
            if let Some(address) = address {
                put(address, &datagrams);
            }
        });
    }

    fn received(&mut self, bytes: &[u8], from: SocketAddr) {
        self.inbox.traffic.received(bytes.len());
        let now = SystemTime::now();
        match self.opener.open(bytes, now) {
            Ok(opened) => {
                if opened.asks
                    && let Ok(introduction) = self.sealer.introduce(&opened.from, now)
                {
                    self.send_sealed(&from.to_string(), vec![introduction]);
                }
                let Some(site) = Site::new(&opened.from).filter(|_| !opened.payload.is_empty()) else {
                    return;
                };
                let identity = sites::Identity {
                    fingerprint: *opened.fingerprint.as_bytes(),
                    issued: micros(opened.issued),
                };
                self.on(Event::Datagram { from: site, identity, bytes: opened.payload });
            }
            Err(refusal) => {
                self.inbox.traffic.refused();
                if let Some(question) = refusal.ask().and_then(|site| self.sealer.ask(site, now)) {
                    self.send_sealed(&from.to_string(), vec![question]);
                }
            }
        }
    }

    /// Asks another site to exchange states. What comes of it comes as an event.
    fn exchange(&self, with: Site, address: &str, bytes: Vec<u8>) {
        if !self.names.contains_key(address) {
            let known =
                self.names.iter().map(|(address, site)| (site.name().to_owned(), address.to_string()));
            self.pool.set_peers(known.chain([(with.name().to_owned(), address.to_owned())]));
        }
        let (pool, done) = (self.pool.clone(), self.synced.0.clone());
        spawn_local(async move {
            let exchange = async {
                let request = Request::post(SYNC).body(Full::new(Bytes::from(bytes))).ok()?;
                let answer = pool.send(with.name(), request, Lane::Small).await.ok()?;
                let success = answer.status().is_success();
                let body = Limited::new(answer.into_body(), LONGEST).collect().await.ok()?.to_bytes();
                success.then_some(body)
            };
            if let Ok(Some(bytes)) = timeout(EXCHANGE, exchange).await {
                let _ = done.send(Synced { from: with, bytes });
            }
        });
    }

    fn exchanged(&mut self, from: Site, bytes: &[u8]) {
        // The link proved the name; the identity is the one that we know under it. What it says of a newer one
        // is then hearsay, and it is greeted for it.
        let view = Arc::clone(&self.inbox.view.borrow());
        let seen = view.heard().and_then(|known| known.site(from.name()));
        if let Some(record) = seen.map(|seen| &seen.record) {
            let identity = sites::Identity { fingerprint: record.fingerprint, issued: record.issued };
            self.on(Event::Synced { from, identity, bytes: bytes.to_vec() });
        }
    }

    /// What the link knows of the peers that it is connected to, or would be.
    fn look_at_link(&mut self) {
        let Some(mesh) = self.mesh.upgrade() else { return };
        let peers = mesh.peers();
        self.measured.retain(|site, _| peers.iter().any(|peer| peer.site == *site));
        for peer in peers {
            // What it measured once counts once.
            if let Some(rtt) = peer.rtt.filter(|_| peer.works)
                && self.measured.insert(peer.site.clone(), rtt) != Some(rtt)
            {
                self.on(Event::Measured { site: peer.site.clone(), rtt });
            }
            self.on(Event::Reached { site: peer.site, works: peer.works });
        }
    }
}

/// Orders.
impl Driver {
    fn obey(&mut self, command: Command) {
        match command {
            Command::Order(order, reply) => {
                let outcome = self.order(order);
                self.keep();
                let _ = reply.send(outcome);
            }
            Command::Sync { question, reply } => {
                let mut effects = Vec::new();
                let answer = Site::new(&question.from).and_then(|from| {
                    let identity = sites::Identity {
                        fingerprint: *question.fingerprint.as_bytes(),
                        issued: micros(question.issued),
                    };
                    self.machine.answer(&from, &identity, &question.body, self.now(), &mut effects)
                });
                self.carry_out(effects);
                let _ = reply.send(answer);
            }
            Command::Reload(config, identity) => self.reload(*config, identity),
            Command::Attach(mesh) => {
                self.mesh = mesh;
                self.publish();
            }
            Command::Stop(_) => {}
        }
    }

    fn order(&mut self, order: Order) -> Result<(), String> {
        match order {
            Order::Join(addresses) => {
                for address in &addresses {
                    crate::config::endpoint(address).map_err(|why| format!("`{address}`: {why}"))?;
                }
                let addresses = addresses.into_iter().map(String::into_boxed_str).collect();
                self.on(Event::Join { addresses });
            }
            Order::Leave => self.on(Event::Leave),
            Order::Zone { name, text } => self.define_zone(&name, text.as_deref())?,
            Order::Quarantine { site, on } => {
                let known = self.inbox.view.borrow().heard().is_some_and(|known| known.site(&site).is_some());
                let site =
                    Site::new(&site).filter(|_| known).ok_or_else(|| format!("there is no site `{site}`"))?;
                if site == self.start.config.site {
                    return Err(
                        "a site cannot put itself in quarantine: `archipel leave` is what you want".into()
                    );
                }
                self.on(Event::Quarantine { site, on });
            }
            Order::Revoke(statement) => self.revoke(&statement)?,
            Order::Metrics(metrics) => {
                let mut pushed = self.pushed.clone();
                for (name, value) in metrics {
                    match value {
                        Some(value) => pushed.insert(name.into(), value),
                        None => pushed.remove(&*name),
                    };
                }
                let before = std::mem::replace(&mut self.pushed, pushed);
                if let Err(why) = self.set_metrics() {
                    self.pushed = before;
                    return Err(why);
                }
                self.publish();
            }
        }
        Ok(())
    }

    fn define_zone(&mut self, name: &str, text: Option<&str>) -> Result<(), String> {
        let mut effects = Vec::new();
        let outcome = self.machine.set_zone(name, text, self.now(), &mut effects);
        self.carry_out(effects);
        outcome.map_err(|diagnostic| diagnostic.render(scope::Style::Plain))
    }

    /// The zones of the file, but those that were defined while it ran.
    fn define_zones(&mut self) {
        let known = self.machine.snapshot();
        for (name, text) in self.start.config.zones.clone() {
            if scope::View::zone(&known, &name).is_some() {
                continue;
            }
            if let Err(why) = self.define_zone(&name, Some(&text)) {
                (self.start.say)(&format!("the zone `{name}` of the file is not defined:\n{why}"));
            }
        }
    }

    /// Shuts a site's identities out, if the statement is the operator's.
    fn revoke(&mut self, statement: &[u8]) -> Result<(), String> {
        let revocation =
            Revocation::from_bytes(statement, &self.start.identity).map_err(|error| error.to_string())?;
        let (site, before) = (revocation.site().to_owned(), micros(revocation.at()).saturating_add(1));
        self.start.revoked.add(revocation);
        let site = Site::new(&site).ok_or("no site can have that name")?;
        self.on(Event::Revoked { statement: statement.to_vec(), site, before });
        Ok(())
    }

    fn read_metrics(&mut self) {
        if let Err(why) = self.set_metrics() {
            if self.fault.as_ref() != Some(&why) {
                (self.start.say)(&format!("the metrics stay as they were: {why}"));
            }
            self.fault = Some(why);
        } else {
            self.fault = None;
        }
    }

    fn set_metrics(&mut self) -> Result<(), String> {
        let mut all = self.pushed.clone();
        if let Some(path) = &self.start.config.metrics {
            all.extend(metrics::read(path)?.into_iter().map(|(name, value)| (name.into(), value)));
        }
        self.machine.set_metrics(all).map_err(|error| error.to_string())
    }

    /// The file was read again: what it says of this site is told to the others.
    fn reload(&mut self, config: Config, identity: Option<Arc<Identity>>) {
        let source = |config: &Config| config.link.as_ref().and_then(|link| link.source);
        let moved = source(&config) != source(&self.start.config);
        let renewed = identity.filter(|identity| !identity.is_same_as(&self.start.identity));
        self.start.config = config;
        if (moved || renewed.is_some())
            && let Err(why) = self.renew(renewed)
        {
            (self.start.say)(&format!("the membership keeps the old identity: {why}"));
        }
        let mut effects = Vec::new();
        let says = says(&self.start.config, self.start.address);
        if let Err(why) = self.machine.set_own(says, self.now(), &mut effects) {
            (self.start.say)(&format!("the other sites are not told: {why}"));
        }
        self.carry_out(effects);
        self.define_zones();
        self.read_metrics();
        self.publish();
    }

    /// Takes on a new identity, if there is one, and makes connections anew.
    fn renew(&mut self, identity: Option<Arc<Identity>>) -> Result<(), String> {
        let identity = identity.unwrap_or_else(|| Arc::clone(&self.start.identity));
        let pool = pool(&self.start.config, &identity, &self.start.revoked)?;
        if identity.is_same_as(&self.start.identity) {
            self.pool = pool;
            return Ok(());
        }
        let pair = datagram::pair(&identity, self.start.revoked.clone());
        (self.sealer, self.opener) = pair.map_err(|error| error.to_string())?;
        (self.pool, self.start.identity) = (pool, identity);
        let mut effects = Vec::new();
        self.machine.set_identity(proven(&self.start.identity), self.now(), &mut effects);
        self.carry_out(effects);
        Ok(())
    }

    fn keep(&mut self) {
        let outcome = self.kept.keep(self.machine.save()).map_err(|error| error.to_string());
        let unkept = outcome.err();
        if let Some(why) = unkept.as_ref().filter(|_| unkept != self.unkept) {
            (self.start.say)(&format!("what is known of the sites cannot be kept: {why}"));
        }
        self.unkept = unkept;
    }

    async fn stop(mut self, done: oneshot::Sender<()>) {
        // What was said last still has to go out, and again where it got lost.
        let until = Instant::now() + GOODBYE;
        while self.machine.is_leaving() && !self.names.is_empty() && Instant::now() < until {
            let wake = self.wake.unwrap_or(until).min(until);
            sleep_until(wake.into()).await;
            self.on(Event::Tick);
        }
        self.keep();
        let _ = done.send(());
    }
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
fn pool(config: &Config, identity: &Identity, revoked: &Revoked) -> Result<Pool, String> {
    let tls = ClientTls::new(identity, revoked).map_err(|error| error.to_string())?;
    let source = config.link.as_ref().and_then(|link| link.source);
    Ok(Pool::new(tls, link::Settings { warm: 1, warm_peers: 0, source, ..link::Settings::default() }))
}

/// What an identity proves beside the name, as the machine counts it.
fn proven(identity: &Identity) -> sites::Identity {
    sites::Identity { fingerprint: *identity.fingerprint().as_bytes(), issued: micros(identity.issued()) }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn micros(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}
