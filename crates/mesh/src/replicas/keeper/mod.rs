//! The keeper drives the machine of replicated resources: its thread, its loop, its records.
//!
//! Everything that happens comes to one loop: orders of other threads, and news of the keeper's own tasks, which
//! execute, send and fetch. What the machine wants recorded goes to the `vault`; what it wants done waits in the
//! `journal` until that is durable (`durable`), and is then done (`deeds`). While the disk takes nothing, the journal is tried
//! again and again, new writes are refused, and nothing that was decided is lost: an outcome that a service gave is
//! worth more than a fresh start from the records, which would leave it in doubt.
//!
//! In the order in which a write meets them: `clients` (who waits), `book` and `logs` (what is remembered), `journal`,
//! `durable`, `vault`, `place` and `seal` (the disk), `deeds`, `execute`, `credentials`, `awaited` and `replay` (the service), `peers`, `inbound` and `vouch` (other
//! sites), `copy`, `fetch` and `install` (states), `bodies` and `pull` (long bodies), `show` and `webhook` (what is told). `reads`:
//! reads that wait for all that.

pub(in crate::replicas) mod allocate;
mod awaited;
mod bodies;
mod book;
mod clients;
mod contents;
mod copy;
mod credentials;
mod deeds;
mod durable;
pub(in crate::replicas) mod execute;
mod fetch;
mod forwards;
mod inbound;
mod install;
mod journal;
mod logs;
mod naming;
mod peers;
mod place;
mod presence;
mod probe;
mod pull;
mod reads;
mod replay;
mod reservations;
mod reserve;
mod seal;
mod shapes;
mod show;
mod vault;
mod vouch;
mod webhook;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use profile::MetaRange;
use replica::{
    Doubt, Effect, Event, Execution, LocalId, Machine, Message, Meta, OpId, Outcome, Record, ReplicaMap,
    Reply, Restoring, Snapshot, Timer,
};
use scope::Site;
use serde_json::json;
use spool::{Id, Spool, Stored};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{AbortHandle, LocalSet};
use tokio::time::Instant;

pub(in crate::replicas) use self::execute::is_storable;

use self::allocate::Allocations;
use self::awaited::Waits;
use self::bodies::Bodies;
use self::book::{Book, Finished, With};
use self::clients::Clients;
use self::copy::Copied;
use self::execute::Said;
use self::forwards::{Forwards, Silent};
use self::journal::{Call, Journal};
use self::peers::Outboxes;
use self::place::Place;
use self::reservations::Reservations;
use self::reserve::Inquiries;
use self::shapes::Shape;
use self::vault::{Change, Vault};
use super::admin::Refused;
use super::wire::Told;
use super::{Held, Order, Replicas};
use crate::core::{Core, Shared};
use crate::metrics;
use crate::replicas::request::Kept;
use crate::reservations::Holder;

/// How often the keeper looks which sites can be reached.
const GLANCE: Duration = Duration::from_secs(1);
/// So many executions at a time: more wait, and no service drowns in what comes after a long cut.
const AT_ONCE: usize = 64;
/// Orders that are taken together, before the disk is asked.
const TOGETHER: usize = 256;

/// Tells an administrator what a probe found; none: it cannot be told.
type ProbeReply = oneshot::Sender<Result<Option<bool>, Refused>>;

/// What is done once what came before it is durable.
enum Deed {
    /// What the machine wants.
    Effect(Box<Effect>),
    /// Another site is told.
    Tell(oneshot::Sender<Told>, Told),
    /// An administrator is told.
    Done(oneshot::Sender<bool>, bool),
    /// The same, of what was in doubt.
    Settled(oneshot::Sender<Result<(), Refused>>),
    /// Whoever waits for a reserved name is told.
    Begun(oneshot::Sender<bool>),
    /// The numbers of this range up to here can be given.
    Allocated(MetaRange, u64),
    /// No record names this body any more.
    Erase(Id),
    /// Every replica has executed it: whoever wants to know is told.
    Completed(Box<Finished>),
    /// What is suspect where the store is a copy is recorded: it is none any more.
    Place(Place),
}

/// What the keeper's own tasks tell it.
enum News {
    Committed(Result<(), store::Error>),
    /// A disk that failed may be tried again.
    TryAgain,
    Executed {
        resource: Meta,
        execution: Execution,
        said: Box<Said>,
    },
    Probed {
        resource: Meta,
        op: OpId,
        executed: Option<bool>,
        local: Option<LocalId>,
    },
    Fired(Timer),
    /// Messages to a site are on their way no more.
    Sent(Site, peers::Ended),
    /// Messages of a site, with the writes that they name. Whether some could not be had.
    Arrived {
        from: Site,
        messages: Vec<(Message, Vec<Kept>)>,
        lacking: bool,
        reply: oneshot::Sender<Told>,
    },
    /// A long body of another site, or none.
    Pulled {
        id: Id,
        stored: Option<Stored>,
    },
    /// The state here, for another site.
    Read {
        before: Box<(ReplicaMap, Snapshot)>,
        copied: Option<Box<Copied>>,
        reply: oneshot::Sender<Told>,
    },
    /// The state of another site.
    Fetched {
        resource: Meta,
        copied: Option<Box<Copied>>,
    },
    Installed {
        resource: Meta,
        installed: Option<(Option<LocalId>, Box<Copied>)>,
    },
    /// The service here has to make what it is given, and to name it.
    ToMake {
        resource: Meta,
        local: Option<LocalId>,
        doubt: Doubt,
        shape: Shape,
    },
    Made {
        resource: Meta,
        op: OpId,
        outcome: Outcome,
    },
    Released {
        resource: Meta,
        gone: bool,
    },
    /// What sites said of a claim that is over.
    OfClaim {
        number: u128,
        said: Vec<(Site, Option<crate::reservations::Reply>)>,
    },
    /// What an entry site said of claims that names are reserved for here.
    OpenClaims {
        entry: Site,
        asked: Vec<u128>,
        open: Vec<u128>,
    },
    /// The highest number of this site's that sites know.
    KnownGiven {
        range: MetaRange,
        highest: u64,
    },
    /// What is reserved was found at this site's service.
    FoundNamed {
        name: String,
        holder: Holder,
    },
    /// What the service here has of a resource.
    Digested {
        resource: Meta,
        content: replica::Content,
    },
}

/// What a keeper is made of, beside the mesh.
pub(crate) struct Making {
    pub(crate) shared: Arc<Shared>,
    pub(crate) counts: Arc<metrics::Counts>,
    pub(crate) first: Arc<crate::core::Snapshot>,
    pub(crate) replicas: Replicas,
    pub(crate) orders: UnboundedReceiver<Order>,
    pub(crate) machine: replica::Settings,
    pub(crate) opening: Opening,
}

/// Where the keeper's records are.
pub(crate) enum Opening {
    /// In this directory.
    Directory(std::path::PathBuf),
    /// On this engine, with keys and long bodies in that directory; of a simulated site, bodies on a disk that is simulated too.
    #[cfg(any(test, feature = "sim"))]
    Engine(Arc<dyn store::engine::Engine>, std::path::PathBuf, Option<Arc<dyn spool::Disk>>),
}

impl Opening {
    fn directory(&self) -> &Path {
        match self {
            Opening::Directory(directory) => directory,
            #[cfg(any(test, feature = "sim"))]
            Opening::Engine(_, directory, _) => directory,
        }
    }

    /// A simulated site has one thread, which waits for no other.
    async fn spool(&self, directory: &Path, quota: u64, key: spool::Key) -> Result<Spool, spool::Error> {
        match self {
            #[cfg(any(test, feature = "sim"))]
            Opening::Engine(_, _, Some(disk)) => Spool::open_here(Arc::clone(disk), quota, key).await,
            _ => Spool::open(directory, quota, key).await,
        }
    }
}

/// Runs a keeper on this thread until it is drained. Says first whether it could be opened.
pub(crate) fn run(making: Making, opened: std::sync::mpsc::SyncSender<Result<(), String>>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(opened.send(Err(error.to_string()))),
    };
    LocalSet::new().block_on(&runtime, async move {
        match begin(making).await {
            Ok(keeping) => {
                let _ = opened.send(Ok(()));
                keeping.await;
            }
            Err(why) => drop(opened.send(Err(why))),
        }
    });
}

/// Opens a keeper on the current `LocalSet`. What is returned is its work, until it is drained.
pub(crate) async fn begin(making: Making) -> Result<impl Future<Output = ()>, String> {
    let (keeper, orders, news) = Keeper::open(making).await?;
    Ok(keeper.follow(orders, news))
}

struct Keeper {
    core: Rc<Core>,
    here: Site,
    replicas: Replicas,
    vault: Vault,
    machine: Machine,
    book: Book,
    bodies: Bodies,
    reservations: Reservations,
    allocations: Allocations,
    inquiries: Inquiries,
    journal: Journal<Deed>,
    clients: Clients,
    timers: BTreeMap<Timer, AbortHandle>,
    outboxes: Outboxes,
    /// What other sites last said that their replicas refused. Not durable: they say it again.
    refusals: BTreeMap<Site, BTreeMap<Meta, u16>>,
    /// Why the service here has not executed what waits for it. Not durable: it is tried again.
    held: BTreeMap<Meta, (OpId, Held)>,
    /// Sites that are known not to be reachable.
    down: BTreeSet<Site>,
    /// Revoked, and no site any more.
    out: BTreeSet<Site>,
    news: UnboundedSender<News>,
    places: Rc<Semaphore>,
    waits: Rc<Waits>,
    /// For the webhook.
    telling: Rc<Semaphore>,
    /// Executions and installations in flight. Probes change nothing, and are begun anew by the next start.
    busy: usize,
    /// When this process began, and when the last attempt at what is in doubt here was over.
    opened: Instant,
    doubted: BTreeMap<Meta, Instant>,
    /// Administrators who had a service asked about what is in doubt.
    probing: BTreeMap<OpId, Vec<ProbeReply>>,
    /// What the disk said, and how long to wait before it is tried again.
    fault: Option<(String, Duration)>,
    /// Until when to finish.
    ending: Option<Instant>,
    glances: u32,
    forwards: Forwards,
}

impl Keeper {
    async fn open(
        making: Making,
    ) -> Result<(Keeper, UnboundedReceiver<Order>, UnboundedReceiver<News>), String> {
        let (vault, place) = open_vault(&making.opening).await?;
        let here = making.first.settings.site.clone();
        let mut restoring = Restoring::new(here.clone(), making.machine);
        let read = Book::read(&vault, &here, &mut restoring).await;
        let (mut book, named) = read.map_err(|error| error.to_string())?;
        let reservations = Reservations::read(&vault).await.map_err(|error| error.to_string())?;
        let allocations = Allocations::read(&vault).await.map_err(|error| error.to_string())?;
        let mut orphaned = Vec::new();
        book.erase_orphans(&named, &mut orphaned);
        let quota = making.first.settings.replication.as_ref().map_or(0, |own| own.quota);
        let bodies = bodies::open(&making.opening, quota, &vault, &book).await?;
        let _ = making.replicas.spool.set(bodies.spool.clone());
        // Of a start that ended before anything was recorded, nothing needs to be told.
        let copied = place.as_ref().is_some_and(Place::is_a_copy) && !restoring.is_empty();
        let machine = restoring.done();
        let (news, told) = unbounded_channel();
        let core = Rc::new(Core::new(making.shared, making.counts, making.first));
        let mut keeper = Keeper {
            core,
            here,
            replicas: making.replicas,
            vault,
            machine,
            book,
            bodies,
            reservations,
            allocations,
            inquiries: Inquiries::default(),
            journal: Journal::default(),
            clients: Clients::default(),
            timers: BTreeMap::new(),
            outboxes: Outboxes::default(),
            refusals: BTreeMap::new(),
            held: BTreeMap::new(),
            down: BTreeSet::new(),
            out: BTreeSet::new(),
            news,
            places: Rc::new(Semaphore::new(AT_ONCE)),
            waits: Rc::default(),
            telling: Rc::new(Semaphore::new(webhook::AT_ONCE)),
            busy: 0,
            opened: Instant::now(),
            doubted: BTreeMap::new(),
            probing: BTreeMap::new(),
            fault: None,
            ending: None,
            glances: 0,
            forwards: Forwards::default(),
        };
        for meta in keeper.machine.resources().cloned().collect::<Vec<_>>() {
            keeper.show(&meta);
        }
        if copied {
            keeper.note(&json!({ "replicas": "the state directory is a copy: its replicas are compared before they are used" }));
            keeper.machine.distrust();
        }
        let mut effects = Vec::new();
        let mut draw = [0; 8];
        keeper.core.random(&mut draw);
        keeper.machine.start(now_ms(), u64::from_le_bytes(draw), &mut effects);
        keeper.take(effects, &[], &BTreeSet::new(), orphaned);
        for meta in keeper.book.all_released() {
            keeper.released(&meta, false);
        }
        match place {
            // What is suspect is recorded first.
            Some(place) if copied => keeper.afterwards(Deed::Place(place)),
            Some(place) => keeper.carry_out(vec![Deed::Place(place)]),
            None => {}
        }
        keeper.commit();
        Ok((keeper, making.orders, told))
    }

    async fn follow(mut self, mut orders: UnboundedReceiver<Order>, mut news: UnboundedReceiver<News>) {
        let mut glance = tokio::time::interval(GLANCE);
        loop {
            let (end, overdue) =
                (self.ending.unwrap_or_else(far), self.clients.overdue().unwrap_or_else(far));
            tokio::select! {
                // What is seldom comes first: those that are often ready must not keep it waiting.
                biased;
                () = tokio::time::sleep_until(end) => break,
                () = tokio::time::sleep_until(overdue) => self.expire(),
                _ = glance.tick() => self.look(),
                // The keeper has a sender itself.
                Some(told) = news.recv() => self.hear(told),
                order = orders.recv() => match order {
                    Some(order) => self.order(order),
                    None => self.ending = self.ending.or(Some(Instant::now())),
                },
            }
            for _ in 0..TOGETHER {
                match (news.try_recv(), orders.try_recv()) {
                    (Err(_), Err(_)) => break,
                    (told, order) => {
                        if let Ok(told) = told {
                            self.hear(told);
                        }
                        if let Ok(order) = order {
                            self.order(order);
                        }
                    }
                }
            }
            self.commit();
            if self.ending.is_some() && self.busy == 0 && self.journal.is_empty() {
                break;
            }
        }
        orders.close();
        self.vault.close().await;
        let _ = self.bodies.spool.close().await;
    }

    fn order(&mut self, order: Order) {
        match order {
            Order::Write(wanted, answer) => {
                self.replicas.counts.queued.fetch_sub(1, Ordering::Relaxed);
                self.write(*wanted, answer);
            }
            Order::Read(resource, confirm, begin) => self.read(resource, confirm, begin),
            Order::HasRead(ticket) => self.has_read(ticket),
            Order::Coming(coming) => self.coming(coming),
            Order::LetGo(id) => self.let_go(id),
            Order::Fate(op, answer) => drop(answer.send(self.fate(&op))),
            Order::IsDeleted(meta, answer) => {
                let deleted = self.machine.status(&meta).is_some_and(|status| status.deleted);
                let _ = answer.send(deleted);
            }
            Order::Allocate(range, reply) => self.allocate(range, reply),
            Order::Reserve(answer) => drop(answer.send(self.machine.reserve_op())),
            Order::Lost(op, meta, site) => self.lose(op, meta, Silent::Site(site)),
            Order::LostClaim(op, meta, number) => self.lose_claim(op, meta, number),
            Order::Watch(meta, site, tell) => self.watch(meta, site, tell),
            Order::ConfirmedBy(meta, answer) => drop(answer.send(self.machine.confirmed_by(&meta))),
            Order::Asked(from, asked, reply) => self.asked(from, asked, reply),
            Order::Claim { number, name, sites, sender, reply } => {
                self.claim(number, &name, sites, sender, reply);
            }
            Order::EndClaim { number, known, reply } => self.end_claim(number, known, reply),
            Order::BeginWriting { name, holder, reply } => self.begin_writing(&name, &holder, reply),
            Order::EndWriting { name, holder, known } => self.end_writing(&name, &holder, known),
            Order::Admin(admin) => self.administer(admin),
            Order::Apply(snapshot) => self.core.apply(snapshot),
            Order::Sites(sites) => {
                self.core.see(sites);
                self.look_at_sites();
            }
            Order::Hurry(site) => {
                if let Some(pool) = &self.core.state().pool {
                    pool.hurry(site.name());
                }
            }
            Order::Drain(patience) => self.ending = Some(Instant::now() + patience),
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Committed(result) => self.committed(result),
            News::TryAgain => self.start_commit(self.journal.again()),
            News::Executed { resource, execution, said } => {
                self.busy = self.busy.saturating_sub(1);
                self.executed(&resource, execution, *said);
            }
            News::Probed { resource, op, executed, local } => self.probed(&resource, op, executed, local),
            News::Fired(timer) => {
                self.timers.remove(&timer);
                let ticks = timer == Timer::Order;
                self.event(Event::Fired(timer));
                if ticks {
                    self.tell_watchers();
                }
            }
            News::Sent(to, ended) => {
                self.outboxes.over(&to, ended.arrived);
                let refusals = self.refusals.entry(to.clone()).or_default();
                for (meta, refused) in ended.refused {
                    let _before = match refused {
                        Some(status) => refusals.insert(meta, status),
                        None => refusals.remove(&meta),
                    };
                }
                self.send_next(&to);
            }
            News::Arrived { from, messages, lacking, reply } => self.arrived(&from, messages, lacking, reply),
            News::Pulled { id, stored } => self.pulled(id, stored),
            News::Read { before, copied, reply } => self.give_state(&before, copied, reply),
            News::Fetched { resource, copied } => self.fetched(resource, copied),
            News::Installed { resource, installed } => {
                self.busy = self.busy.saturating_sub(1);
                self.installed(resource, installed);
            }
            News::ToMake { resource, local, doubt, shape } => {
                self.busy = self.busy.saturating_sub(1);
                self.has_to_make(resource, local, doubt, shape);
            }
            News::Made { resource, op, outcome } => {
                self.busy = self.busy.saturating_sub(1);
                if outcome == Outcome::Unknown {
                    self.doubted.insert(resource.clone(), Instant::now());
                }
                self.event(Event::Made { resource, op, outcome });
            }
            News::Released { resource, gone } => self.released(&resource, gone),
            News::OfClaim { number, said } => self.heard_of_claim(number, said),
            News::OpenClaims { entry, asked, open } => self.heard_open_claims(&entry, &asked, &open),
            News::KnownGiven { range, highest } => self.known_given(range, highest),
            News::FoundNamed { name, holder } => self.found_named(&name, &holder),
            News::Digested { resource, content } => self.event(Event::Digested { resource, content }),
        }
    }

    /// Something happened: the machine says what follows.
    fn event(&mut self, event: Event) {
        self.event_with(event, &[], Vec::new());
    }

    /// The same, with writes that came along, and changes that have to be durable with what the machine records.
    fn event_with(&mut self, event: Event, staged: &[Kept], changes: Vec<Change>) {
        let mut withdrawn = BTreeSet::new();
        if let Event::Executed {
            execution, outcome: Outcome::Refused { .. } | Outcome::NotExecuted, ..
        } = &event
        {
            withdrawn.insert(execution.op.clone());
        }
        let mut effects = Vec::new();
        self.machine.on(now_ms(), event, &mut effects);
        self.take(effects, staged, &withdrawn, changes);
    }

    /// Takes down what has to be recorded; the rest waits for that.
    fn take(
        &mut self,
        effects: Vec<Effect>,
        staged: &[Kept],
        withdrawn: &BTreeSet<OpId>,
        mut changes: Vec<Change>,
    ) {
        let mut withdrawn = withdrawn.clone();
        for effect in &effects {
            match effect {
                Effect::Answer { op: Some(op), reply: Reply::Beaten | Reply::Unavailable, .. } => {
                    withdrawn.insert(op.clone());
                }
                Effect::Persist { put, .. } => {
                    withdrawn.extend(put.iter().filter_map(|record| match record {
                        Record::Refusal(refusal) => Some(refusal.operation.id.clone()),
                        _ => None,
                    }));
                }
                _ => {}
            }
        }
        let (mut touched, mut deeds) = (Vec::new(), Vec::new());
        for effect in effects {
            let members = |meta: &Meta| members(&self.machine, meta);
            match effect {
                Effect::Persist { put, remove } => {
                    let with = With { here: &self.here, staged, withdrawn: &withdrawn, members: &members };
                    touched = self.book.record(put, remove, &with, &mut changes);
                }
                Effect::Erase(body) => self.book.complete(&body, &self.here, members, &mut changes),
                Effect::Finished { resource, op, place, executed } => {
                    let sites = if executed { members(&resource) } else { Vec::new() };
                    let own = op.site == self.here;
                    self.book.finish((&op, own), &resource, place, sites, &mut changes);
                }
                effect => {
                    // Before the record of it goes: what to remove has to be known after a restart too.
                    self.note_release(&effect, &mut changes);
                    deeds.push(Deed::Effect(Box::new(effect)));
                }
            }
        }
        for meta in &touched {
            self.show(meta);
        }
        deeds.extend(self.book.unneeded().into_iter().map(Deed::Erase));
        let completed = self.book.completed().into_iter();
        deeds.extend(completed.map(|finished| Deed::Completed(Box::new(finished))));
        let now = self.journal.add(Call { changes, deeds });
        self.carry_out(now);
    }

    /// Which sites can be reached, and what there is to count.
    fn look(&mut self) {
        self.look_at_sites();
        self.settle_claims();
        let machine = &self.machine;
        let completed = self.book.completed_in_turn(|own, place| {
            own.sites.iter().all(|site| machine.has_finished(&own.meta, site, place))
        });
        for finished in &completed {
            self.tell_completed(finished);
        }
        self.glances = self.glances.wrapping_add(1);
        if self.glances % 5 == 1 {
            self.core.state().sweep();
            self.forget_senders();
            self.forget_held();
            self.sweep_bodies();
            self.ask_for_open_claims();
            let mut changes = Vec::new();
            self.book.erase_displaced(&mut changes);
            if !changes.is_empty() {
                self.take(Vec::new(), &[], &BTreeSet::new(), changes);
            }
            self.count();
        }
    }

    fn look_at_sites(&mut self) {
        let state = self.core.state();
        for site in state.sites.members() {
            if *site == self.here {
                continue;
            }
            let up = peers::is_up(&state, site);
            let changed = if up { self.down.remove(site) } else { self.down.insert(site.clone()) };
            if changed {
                self.event(Event::Reach { site: site.clone(), up });
            }
        }
        // One that was given a new identity since is a member again.
        let revoked = self.core.shared.revoked.all();
        let out = revoked.iter().filter_map(|revocation| Site::new(revocation.site()));
        let out: BTreeSet<Site> = out.filter(|site| !state.sites.members().contains(site)).collect();
        let before = std::mem::replace(&mut self.out, out.clone());
        for site in before.symmetric_difference(&out) {
            self.event(Event::ShutOut { site: site.clone(), out: out.contains(site) });
        }
    }

    /// Writes a line for the operator.
    fn note(&self, line: &serde_json::Value) {
        self.core.shared.audit.write(line);
    }
}

/// The store, and whether it is where it was. A simulated one is nowhere.
async fn open_vault(opening: &Opening) -> Result<(Vault, Option<Place>), String> {
    let at = |directory: &Path, why: String| format!("replicated resources, {}: {why}", directory.display());
    match opening {
        Opening::Directory(directory) => {
            let existed = Place::existed(directory);
            let vault = Vault::open(directory).await.map_err(|why| at(directory, why))?;
            let place = Place::look(directory, existed).map_err(|error| at(directory, error.to_string()))?;
            Ok((vault, Some(place)))
        }
        #[cfg(any(test, feature = "sim"))]
        Opening::Engine(engine, directory, _) => {
            let seal = seal::Seal::open(directory, true)?;
            let vault = Vault::on(Arc::clone(engine), seal).await;
            Ok((vault.map_err(|error| at(directory, error.to_string()))?, None))
        }
    }
}

/// The sites with a replica of a resource.
fn members(machine: &Machine, meta: &Meta) -> Vec<Site> {
    machine.map(meta).map(|map| map.members().into_iter().cloned().collect()).unwrap_or_default()
}

fn far() -> Instant {
    Instant::now() + Duration::from_hours(24)
}

fn now_ms() -> u64 {
    let now = outside::time_of_day().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
