//! What one core holds: its view of the current settings, its pools, and its cache of scopes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use http::request::Parts;
use link::{ClientTls, Pool, Revoked};
use plan::{Budget, Knowledge, Pace, Reach};
use scope::{Diagnostic, Dialect, Known, Plan, Scope, Site, View, Zone};

use crate::alarm::Alarms;
use crate::audit::Audit;
use crate::body::LegBody;
use crate::carry::{self, Carry, Marks, Record};
use crate::identity::Identities;
use crate::idle::Busy;
use crate::metrics::Counts;
use crate::observe::Observer;
use crate::problem::Problem;
use crate::replicas::Replicas;
use crate::settings::Settings;
use crate::sites::{Sites, Standing};
use crate::streams::Streams;
use crate::thin::{Buffers, Ways};
use crate::ticket::{Admitted, PeerTicket, Ticket, admit};
use crate::upstream::{self, Health, Upstreams};

/// How many scopes a core remembers. Past it the cache starts anew: a flood of scopes costs memory once.
const SCOPES_REMEMBERED: usize = 1024;

/// Random bytes that a core asks the system for at once: those of sixteen scoped requests.
const RANDOM_BYTES: usize = 512;

/// How many keys a core remembers, to use them again. Past it they are minted anew.
const KEYS_REMEMBERED: usize = 1024;

/// A key that was put on a request. When this is dropped, what became of the request is known, as far as it
/// ever will be.
pub(crate) struct HandedOn<'c> {
    core: &'c Core,
    /// Nothing if it was minted for an earlier one.
    minted: Option<Box<Minted>>,
}

struct Minted {
    record: Record,
    marks: Marks,
    at: Duration,
    shared: bool,
}

impl HandedOn<'_> {
    /// It was minted for an earlier request, and stands for more like it.
    pub(crate) fn is_shared(&self) -> bool {
        self.minted.is_none()
    }

    /// A service did not see the request, or did not let it in: it causes no call, and its sender does not
    /// pay for it.
    pub(crate) fn causes_no_calls(mut self) {
        if let Some(minted) = self.minted.take() {
            self.core.shared.carry.records().forget(minted.marks.key());
        }
    }
}

impl Drop for HandedOn<'_> {
    fn drop(&mut self) {
        let Some(minted) = self.minted.take().filter(|minted| minted.shared) else { return };
        let Minted { record, marks, at, .. } = *minted;
        let mut keys = self.core.keys.borrow_mut();
        if keys.len() >= KEYS_REMEMBERED {
            keys.clear();
        }
        keys.insert(record, (marks, at));
    }
}

/// What the link knows of a peer that it is connected to, or tries to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSeen {
    /// The site.
    pub site: Site,
    /// Whether requests can be sent there.
    pub works: bool,
    /// The round trip, as it was of late.
    pub rtt: Option<Duration>,
    /// The version that it is spoken to in.
    pub version: Option<u16>,
    /// Why it is not spoken to, where that is because of the versions that both speak.
    pub misfit: Option<link::Misfit>,
}

/// What all cores share.
pub(crate) struct Shared {
    pub(crate) carry: Carry,
    pub(crate) audit: Audit,
    pub(crate) observer: Observer,
    /// Whom this site believes no more.
    pub(crate) revoked: Revoked,
    /// Forward everything, as if there were no scopes.
    pub(crate) bypass: AtomicBool,
    pub(crate) in_flight: AtomicUsize,
    /// Of these, the ones to this site's own services, and the ones that may need other sites.
    pub(crate) local: AtomicUsize,
    pub(crate) away: AtomicUsize,
    /// Answers that are kept open.
    pub(crate) streams: Arc<Streams>,
    /// As the first core sees them.
    pub(crate) peers: Mutex<Vec<PeerSeen>>,
    pub(crate) started: tokio::time::Instant,
    /// Replicated resources, where there can be any.
    pub(crate) replicas: Option<Replicas>,
    /// Which site issued which token, where the application has tokens.
    pub(crate) identities: Option<Identities>,
}

impl Shared {
    /// Counts a request from here to the end of its answer.
    pub(crate) fn enter(self: &Arc<Shared>, busy: Option<Busy>) -> Ticket {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Ticket::new(Arc::clone(self), busy)
    }
}

/// Settings as all cores got them.
pub(crate) struct Snapshot {
    pub(crate) settings: Settings,
    pub(crate) health: BTreeMap<String, Arc<Health>>,
    pub(crate) client_tls: Option<ClientTls>,
    pub(crate) notary: Option<link::Notary>,
}

/// One core.
pub(crate) struct Core {
    pub(crate) shared: Arc<Shared>,
    pub(crate) counts: Arc<Counts>,
    /// How many reads may be hedged.
    pub(crate) budget: RefCell<Budget>,
    /// Keys that stand for more requests like the one they were minted for.
    keys: RefCell<HashMap<Record, (Marks, Duration)>>,
    /// Requests of each peer in flight at this core.
    peers: RefCell<Admitted>,
    /// Their questions among them.
    questions: RefCell<Admitted>,
    /// What their keepers say among them.
    replicas: RefCell<Admitted>,
    streams: RefCell<Admitted>,
    state: RefCell<Rc<State>>,
    /// Not used yet.
    random: RefCell<Vec<u8>>,
    pub(crate) alarms: Alarms,
    pub(crate) buffers: Rc<Buffers>,
}

impl Core {
    pub(crate) fn new(shared: Arc<Shared>, counts: Arc<Counts>, snapshot: Arc<Snapshot>) -> Core {
        let state = RefCell::new(Rc::new(State::new(snapshot, None)));
        Core {
            shared,
            counts,
            budget: RefCell::default(),
            keys: RefCell::default(),
            peers: RefCell::default(),
            questions: RefCell::default(),
            replicas: RefCell::default(),
            streams: RefCell::default(),
            state,
            random: RefCell::default(),
            alarms: Alarms::default(),
            buffers: Rc::default(),
        }
    }

    /// The settings of now. A request keeps the ones it began with.
    pub(crate) fn state(&self) -> Rc<State> {
        Rc::clone(&self.state.borrow())
    }

    /// The time by which records are counted.
    pub(crate) fn now(&self) -> Duration {
        self.shared.started.elapsed()
    }

    /// An application answered a client's scoped request. A token that it did not refuse is that client's:
    /// made-up ones are not worth remembering.
    pub(crate) fn let_in(&self, token: Option<carry::Sender>, status: StatusCode) {
        if let Some(token) = token.filter(|_| status != StatusCode::UNAUTHORIZED) {
            self.shared.carry.is_of_a_client(token, self.now());
        }
    }

    /// Random bytes, each given once. The system is not asked for each request: that is a system call.
    pub(crate) fn random(&self, bytes: &mut [u8]) {
        let mut fresh = self.random.borrow_mut();
        if fresh.len() < bytes.len() {
            fresh.resize(RANDOM_BYTES.max(bytes.len()), 0);
            // The system always has randomness once it has started.
            let _ = outside::random(&mut fresh);
        }
        let rest = fresh.len() - bytes.len();
        if let Some(last) = fresh.get(rest..) {
            bytes.copy_from_slice(last);
        }
        fresh.truncate(rest);
    }

    /// Puts a key on a request that goes to a service of this site.
    ///
    /// A key says which scope a call has, not which request caused it: requests of one sender with one scope
    /// can share it, and one record is enough for all of them. Not where the key is an id that people look
    /// for in logs.
    pub(crate) fn hand_on(
        &self,
        head: &mut Parts,
        record: Record,
        shared: bool,
    ) -> Result<HandedOn<'_>, carry::Error> {
        let now = self.now();
        let random = &mut |bytes: &mut [u8]| self.random(bytes);
        let carry = &self.shared.carry;
        if shared
            && let Some((marks, minted)) = self.keys.borrow().get(&record)
            // For at least as long again, the calls of this request are recognised.
            && now.saturating_sub(*minted) < carry.records().lifetime() / 2
        {
            carry.hand_on_again(head, marks, random)?;
            return Ok(HandedOn { core: self, minted: None });
        }
        let marks = carry.hand_on(head, record.clone(), now, random)?;
        Ok(HandedOn { core: self, minted: Some(Box::new(Minted { record, marks, at: now, shared })) })
    }

    /// Tells the other threads what this core's connections to peers are like.
    pub(crate) fn show_peers(&self) {
        let state = self.state();
        let Some(pool) = &state.pool else { return };
        let seen = state.sites.members().iter().filter_map(|site| {
            let peer = pool.state(site.name())?;
            let works = if peer.connected { Some(true) } else { peer.failing.then_some(false) };
            let link::PeerState { rtt, version, misfit, .. } = peer;
            works.map(|works| PeerSeen { site: site.clone(), works, rtt, version, misfit })
        });
        let seen = seen.collect();
        *self.shared.peers.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }

    /// Takes a place among the requests of one peer: a busy one takes nothing from the others.
    pub(crate) fn admit_peer(&self, site: &Rc<str>, most: usize) -> Option<PeerTicket> {
        admit(&self.peers, site, most)
    }

    /// Takes a place among the questions of one peer, whose bodies are read as a whole.
    pub(crate) fn admit_question(&self, site: &Rc<str>, most: usize) -> Option<PeerTicket> {
        admit(&self.questions, site, most)
    }

    /// Takes a place among what one peer's keeper says, which is read as a whole.
    pub(crate) fn admit_keeper(&self, site: &Rc<str>, most: usize) -> Option<PeerTicket> {
        admit(&self.replicas, site, most)
    }

    /// Takes a place among the long bodies that one peer's keeper reads.
    pub(crate) fn admit_stream(&self, site: &Rc<str>, most: usize) -> Option<PeerTicket> {
        admit(&self.streams, site, most)
    }

    /// Sees the sites like this from now on.
    pub(crate) fn see(&self, sites: Arc<dyn Sites>) {
        let next = self.state().with(sites);
        self.state.replace(Rc::new(next));
    }

    pub(crate) fn apply(&self, snapshot: Arc<Snapshot>) {
        let next = State::new(snapshot, Some(&self.state()));
        self.state.replace(Rc::new(next));
    }
}

/// What one core makes of one snapshot.
pub(crate) struct State {
    snapshot: Arc<Snapshot>,
    pub(crate) sites: Arc<dyn Sites>,
    services: Rc<BTreeMap<String, Rc<ServiceState>>>,
    pub(crate) pool: Option<Pool>,
    scopes: RefCell<HashMap<Box<str>, Rc<Parsed>>>,
    pub(crate) ways: Ways,
    /// The language of who writes a scope here; others may know more services.
    spoken: Dialect,
    here: usize,
}

pub(crate) struct ServiceState {
    pub(crate) name: String,
    pub(crate) upstreams: Upstreams<LegBody>,
    /// How long each site took of late.
    paces: RefCell<BTreeMap<Site, Pace>>,
}

impl ServiceState {
    /// A site took so long to begin an answer.
    pub(crate) fn took(&self, site: Option<&Site>, took: Duration) {
        let Some(site) = site else { return };
        let mut paces = self.paces.borrow_mut();
        match paces.get_mut(site) {
            Some(pace) => pace.add(took),
            None => paces.entry(site.clone()).or_default().add(took),
        }
    }

    /// After which time an answer of a site is unusually late, once that is known.
    pub(crate) fn patience(&self, site: &Site) -> Option<Duration> {
        self.paces.borrow().get(site).and_then(Pace::p95)
    }
}

/// A scope that was read, and the plans that were made of it.
pub(crate) struct Parsed {
    pub(crate) scope: Scope,
    /// Its canonical text, which is what travels.
    pub(crate) text: Arc<str>,
    plans: RefCell<Vec<PlannedFor>>,
    /// Every service that it names has a plan, for a request that enters here.
    makes_sense: Cell<bool>,
    /// Every service that it names is one that is known here.
    is_spoken: Cell<bool>,
    /// It places no services apart that must be at one site.
    is_together: Cell<bool>,
}

struct PlannedFor {
    service: String,
    entered: usize,
    plan: Option<Rc<Plan>>,
}

impl State {
    fn new(snapshot: Arc<Snapshot>, before: Option<&State>) -> State {
        let settings = &snapshot.settings;
        let upstream = upstream::Settings {
            connect_timeout: settings.timeouts.connect,
            max_headers: settings.limits.headers,
            ..upstream::Settings::default()
        };
        let services = settings.services.iter().map(|(name, service)| {
            let health = snapshot.health.get(name).cloned();
            let health = health.unwrap_or_else(|| Arc::new(Health::new(service.upstreams.len())));
            let upstreams = Upstreams::new(service.upstreams.clone(), upstream.clone(), health);
            (name.clone(), Rc::new(ServiceState { name: name.clone(), upstreams, paces: RefCell::default() }))
        });
        let services = Rc::new(services.collect());
        let sites = Arc::clone(&settings.sites);
        let here = sites.find(settings.site.name()).unwrap_or_default();
        let pool = State::pool(&snapshot, before);
        set_peers(pool.as_ref(), &*sites);
        let spoken = settings.dialect.offered(&*sites);
        let (scopes, ways) = (RefCell::default(), Ways::default());
        State { snapshot, sites, services, pool, scopes, ways, spoken, here }
    }

    /// The same, with other sites: what was planned is planned anew.
    fn with(&self, sites: Arc<dyn Sites>) -> State {
        set_peers(self.pool.as_ref(), &*sites);
        State {
            snapshot: Arc::clone(&self.snapshot),
            services: Rc::clone(&self.services),
            pool: self.pool.clone(),
            scopes: RefCell::default(),
            ways: Ways::default(),
            spoken: self.settings().dialect.offered(&*sites),
            here: sites.find(self.settings().site.name()).unwrap_or_default(),
            sites,
        }
    }

    /// Connections to peers live on through a reload, unless they would be made in another way now.
    fn pool(snapshot: &Snapshot, before: Option<&State>) -> Option<Pool> {
        let settings = &snapshot.settings;
        let link = settings.link.as_ref()?;
        let kept = before.filter(|state| {
            let old = state.settings();
            old.link
                .as_ref()
                .is_some_and(|old| old.identity.is_same_as(&link.identity) && old.source == link.source)
                && old.timeouts.connect == settings.timeouts.connect
                && old.limits.requests_per_peer == settings.limits.requests_per_peer
        });
        let pool = match kept.and_then(|state| state.pool.clone()) {
            Some(pool) => pool,
            None => Pool::new(
                snapshot.client_tls.clone()?,
                link::Settings {
                    connect_timeout: settings.timeouts.connect,
                    in_flight: settings.limits.requests_per_peer,
                    source: link.source,
                    ..link::Settings::default()
                },
            ),
        };
        Some(pool)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.snapshot.settings
    }

    /// The same, for what outlives this view.
    pub(crate) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// What signs for this site, where it has others.
    pub(crate) fn notary(&self) -> Option<&link::Notary> {
        self.snapshot.notary.as_ref()
    }

    /// Closes connections to services that nobody used for too long.
    pub(crate) fn sweep(&self) {
        // They are looked for anew.
        self.ways.clear();
        for service in self.services.values() {
            service.upstreams.sweep();
        }
    }

    pub(crate) fn service(&self, name: &str) -> Option<Rc<ServiceState>> {
        self.services.get(name).cloned()
    }

    /// Reads a scope, or remembers it.
    pub(crate) fn scope(&self, text: &str) -> Result<Rc<Parsed>, Diagnostic> {
        if let Some(parsed) = self.scopes.borrow().get(text) {
            return Ok(Rc::clone(parsed));
        }
        let scope = self.settings().dialect.scope(text)?;
        let canonical = scope.to_string().into();
        let parsed = Rc::new(Parsed {
            scope,
            text: canonical,
            plans: RefCell::default(),
            makes_sense: Cell::new(false),
            is_spoken: Cell::new(false),
            is_together: Cell::new(false),
        });
        let mut scopes = self.scopes.borrow_mut();
        if scopes.len() >= SCOPES_REMEMBERED {
            scopes.clear();
        }
        scopes.insert(text.into(), Rc::clone(&parsed));
        Ok(parsed)
    }

    /// Whether every service that a scope names has a plan. A mistake is refused where the client is,
    /// before the first service has done anything.
    pub(crate) fn check(&self, parsed: &Parsed) -> Result<(), Diagnostic> {
        if !parsed.makes_sense.get() {
            for service in parsed.scope.services() {
                self.plan(parsed, service, &self.settings().site)?;
            }
            parsed.makes_sense.set(true);
        }
        Ok(())
    }

    /// Whether every service that a scope names is known here, for who wrote it here: a slip would bind
    /// nothing, without a word.
    pub(crate) fn check_names(&self, parsed: &Parsed) -> Result<(), Diagnostic> {
        if !parsed.is_spoken.get() {
            self.spoken.scope(parsed.scope.text())?;
            parsed.is_spoken.set(true);
        }
        Ok(())
    }

    /// Whether the services that must be at one site are, as far as a scope that is written here places them. What it
    /// does not place is where its caller is: with a write, the service that it came to is here.
    pub(crate) fn check_together(&self, parsed: &Parsed, written_to: Option<&str>) -> Result<(), Problem> {
        let (here, known) = (&self.settings().site, parsed.is_together.get());
        for rule in &self.settings().profile.together {
            if known && !rule.services.iter().any(|own| written_to == Some(own)) {
                continue;
            }
            // Of `*` alone nothing is meant of any two services.
            if !rule.services.iter().any(|own| parsed.scope.services().any(|named| named == own)) {
                continue;
            }
            let mut placed: Option<(&str, Rc<Plan>)> = None;
            for service in &rule.services {
                let plan = self.plan(parsed, service, here).map_err(|wrong| Problem::bad_scope(&wrong))?;
                let own = || (written_to == Some(service)).then(|| Rc::new(Plan::Site(here.clone())));
                let Some(plan) = plan.or_else(own) else { continue };
                match &placed {
                    Some((first, other)) if !is_same_place(other, &plan) => {
                        return Err(Problem::apart(&rule.because, [(first, other), (service, &plan)]));
                    }
                    Some(_) => {}
                    None => placed = Some((service, plan)),
                }
            }
        }
        parsed.is_together.set(true);
        Ok(())
    }

    /// Where a service runs, for a request that entered at `entered`; nothing if the scope does not say.
    pub(crate) fn plan(
        &self,
        parsed: &Parsed,
        service: &str,
        entered: &Site,
    ) -> Result<Option<Rc<Plan>>, Diagnostic> {
        let entered = self.sites.find(entered.name()).unwrap_or(self.here);
        let known = |planned: &&PlannedFor| planned.entered == entered && planned.service == service;
        if let Some(planned) = parsed.plans.borrow().iter().find(known) {
            return Ok(planned.plan.clone());
        }
        let view = Entered { sites: &*self.sites, here: entered };
        let plan = self.settings().dialect.plan(&parsed.scope, service, &view)?.map(Rc::new);
        parsed.plans.borrow_mut().push(PlannedFor {
            service: service.to_owned(),
            entered,
            plan: plan.clone(),
        });
        Ok(plan)
    }
}

/// Whether two plans lead to the same sites, however long each may take. Each is carried out by itself, so that of two that
/// choose among sites, each may choose another.
fn is_same_place(one: &Plan, other: &Plan) -> bool {
    match (one, other) {
        (Plan::Within(_, one), other) | (other, Plan::Within(_, one)) => is_same_place(one, other),
        (Plan::Site(one), Plan::Site(other)) => one == other,
        (Plan::All(_, one), Plan::All(_, other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same_place(one, other))
        }
        _ => false,
    }
}

fn set_peers(pool: Option<&Pool>, sites: &dyn Sites) {
    let Some(pool) = pool else { return };
    let peers = sites.members().iter().enumerate();
    pool.set_peers(
        peers.filter_map(|(position, site)| {
            Some((site.name().to_owned(), sites.address(position)?.to_owned()))
        }),
    );
}

/// The sites as seen by a request that entered somewhere else.
struct Entered<'s> {
    sites: &'s dyn Sites,
    here: usize,
}

impl View for Entered<'_> {
    fn here(&self) -> usize {
        self.here
    }

    fn members(&self) -> &[Site] {
        self.sites.members()
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.sites.find(name)
    }

    fn offers(&self, site: usize, service: &str) -> bool {
        self.sites.offers(site, service)
    }

    fn services(&self) -> Option<BTreeSet<&str>> {
        self.sites.services()
    }

    fn rtt(&self, from: usize, to: usize) -> Option<Duration> {
        self.sites.rtt(from, to)
    }

    fn label(&self, site: usize, label: &str) -> Option<&str> {
        self.sites.label(site, label)
    }

    fn metric(&self, site: usize, metric: &str) -> Option<f64> {
        self.sites.metric(site, metric)
    }

    fn zone(&self, name: &str) -> Option<&Zone> {
        self.sites.zone(name)
    }

    fn known(&self, what: Known) -> Vec<&str> {
        self.sites.known(what)
    }
}

/// What is known of the sites when a plan is run: measured, else as configured.
impl Knowledge for State {
    fn rtt(&self, site: &Site) -> Option<Duration> {
        if *site == self.settings().site {
            return Some(Duration::ZERO);
        }
        let measured =
            self.pool.as_ref().and_then(|pool| pool.state(site.name())).and_then(|state| state.rtt);
        measured.or_else(|| self.sites.rtt(self.here, self.sites.find(site.name())?))
    }

    fn reach(&self, site: &Site) -> Reach {
        if *site == self.settings().site {
            return Reach::Yes;
        }
        let standing = self.sites.find(site.name()).map(|site| self.sites.standing(site));
        if standing == Some(Standing::Quarantined) {
            return Reach::Quarantined;
        }
        let state = self.pool.as_ref().and_then(|pool| pool.state(site.name()));
        match standing {
            // A connection that works says more than what sites tell each other.
            _ if state.as_ref().is_some_and(|state| state.connected) => Reach::Yes,
            Some(Standing::Unreachable) => Reach::Unreachable,
            _ if state.is_some_and(|state| state.usable()) => Reach::Yes,
            // A connection that is down may come back with the next request.
            _ => Reach::Unknown,
        }
    }
}
