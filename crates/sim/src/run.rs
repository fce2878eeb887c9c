//! One run: a schedule in one thread, under a clock that moves on when nothing else can.

mod asking;
mod claims;
mod deleting;
mod evidence;
mod extending;
mod members;
mod numbers;
mod reasons;
mod showing;
mod shutting_out;
mod suspects;
mod truth;
mod unnamed;
mod walking;

pub use evidence::Evidence;
use extending::Extended;
use reasons::Watch;
pub use walking::Walked;
use walking::Walks;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use archipel::members::{Members, Order};
use mesh::replication::{Change, Handle, Refused};
use serde_json::Value;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{Instant, sleep, sleep_until};

use crate::app;
use crate::chance::Chance;
use crate::client::{self, Asked, Sent, Told, Verdict};
use crate::disk;
use crate::invariants::{self, Violation};
use crate::isle::{Application, Beginning, Identities, Isle, NAMES, site};
use crate::membership::{self, Outline, Sight, Watched, ZONE, zone_text};
use crate::network::{Network, Path, Stop};
use crate::revocation::{self, LetIn, Shut};
use crate::schedule::{Act, Ask, Dues, Fault, Hurries, Level, Schedule, Step, What};
use crate::trace::Trace;
use crate::versions::{Heard, NEXT, TOO_NEW};

/// After the last fault was mended: what is still under way by then is late, not lost.
const CALM: Duration = Duration::from_secs(20);
/// How long sites may take to agree once everything works, and how long they must then stay so.
const CONVERGENCE: Duration = Duration::from_mins(12);
const STEADY: u32 = 5;
/// How long after that a site may keep what others could have needed.
const FORGETTING: Duration = Duration::from_mins(5);

/// What a client asked for, and was told.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "what was so of a request, each or not")]
pub struct Record {
    /// What it was.
    pub ask: Ask,
    /// Where what it made is, or is to be.
    pub members: Vec<usize>,
    /// Its level.
    pub level: Level,
    /// What it was told.
    pub told: Told,
    /// The site's mesh and its service were well all the time.
    pub well: bool,
    /// The site's mesh ran all the time.
    pub ran: bool,
    /// The site knew that what it is about is deleted, and its service may not have been.
    pub doomed: bool,
    /// What this site acknowledged may be lost: it was given an old copy of its disk later, or is shut out.
    pub lost: bool,
    /// The sites of which the one that was asked knew all the time that they are not to be asked.
    pub out: Vec<usize>,
    /// It was made by the name of a zone, which stood for something else before it was answered.
    pub unsure: bool,
    /// Its client waited for so many milliseconds only.
    pub hurry: Option<u64>,
    /// Whether the site that named its operation could say what became of it at once. None: it was not asked.
    pub traced: Option<bool>,
}

impl Record {
    /// True where the client was told that this site executed it, or gave it its name.
    fn was_taken_by(&self, site: usize) -> bool {
        let (name, told) = (NAMES[site], &self.told);
        let is_named =
            told.operation.as_ref().is_some_and(|operation| operation.starts_with(&format!("{name}/")));
        is_named || told.sites.contains(&format!("\"{name}\";status=2"))
    }
}

/// What came of a run.
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What was violated.
    pub violations: Vec<Violation>,
    /// Line by line.
    pub trace: Vec<String>,
    /// How long it took, in simulated time.
    pub simulated: Duration,
    /// Faults, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Requests of clients, by what they were told.
    pub requests: BTreeMap<&'static str, u64>,
}

/// Runs a schedule.
#[must_use]
pub fn run(schedule: &Schedule, identities: &Identities) -> Report {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async {
        let mut sea = Sea::new(schedule, identities);
        sea.follow(schedule).await;
        sea.end().await
    })
}

/// The sites of a run.
struct Sea {
    seed: u64,
    begin: Instant,
    network: Network,
    isles: Vec<Isle>,
    trace: Trace,
    records: Rc<RefCell<Vec<Record>>>,
    ids: Rc<RefCell<BTreeMap<usize, String>>>,
    /// What was made, by its number: where, and at which level.
    made: BTreeMap<usize, (Vec<usize>, Level)>,
    /// What was given one more site, and copies that only an operator could end.
    extended: Extended,
    doubtful_copies: Cell<u64>,
    /// Operations that only an operator could end.
    doubts: Cell<u64>,
    asking: Vec<JoinHandle<()>>,
    /// What clients saw of lists in pages.
    walks: Walks,
    late: Option<usize>,
    watched: Rc<RefCell<Watched>>,
    /// What sites of several versions asked each other.
    heard: Option<Heard>,
    backups: BTreeMap<usize, Instant>,
    /// What was given back: the site, since when its records were lost, until when.
    restored: Vec<(usize, Instant, Instant)>,
    /// What a service does not have any more that it did, for the same reason.
    unexecuted: Vec<(usize, Instant, Instant)>,
    /// Sites whose records alone were given back.
    forgot: Vec<usize>,
    /// What such a site had made and had no name of in its records: the site, and its id there.
    unnamed: BTreeSet<(usize, String)>,
    faults: BTreeMap<&'static str, u64>,
    /// What a site showed as deleted, and its service still had.
    hasty: RefCell<Option<String>>,
    /// What a site showed as good, and was not.
    misled: RefCell<Option<String>>,
    /// The same, at the end.
    ghosts: RefCell<Option<String>>,
    /// A site that is shut out, and the operator's word for each that it is.
    shut: Rc<RefCell<Shut>>,
    let_in: LetIn,
    voided: Vec<Vec<u8>>,
    /// What the operator has mended since, and how much it lacked.
    given_up: RefCell<BTreeMap<String, usize>>,
    /// Requests that have to be answered in time, once all was mended before them.
    dues: Dues,
    /// Requests whose clients wait for some time only.
    hurries: Hurries,
    /// Every client has a credential, and every site.
    keys: bool,
    /// Services name what they make by counting.
    counts: bool,
    /// The requests that make images with replicas.
    replicated: Vec<String>,
    /// Images that an operator looks at.
    watch: Watch,
    /// What waited, and did not say why.
    unexplained: Vec<String>,
    /// Replicas that are suspect, and how often the operator has seen that.
    suspects: RefCell<BTreeMap<(usize, String), u32>>,
    /// Those that all others lacked: where they were, and their ids.
    kept: RefCell<BTreeSet<(usize, String)>>,
}

impl Sea {
    fn new(schedule: &Schedule, identities: &Identities) -> Sea {
        let trace = Trace::begin();
        let astray = Chance::new(schedule.seed, "datagrams");
        let network = Network::new(Chance::new(schedule.seed, "network"), astray);
        let mut chance = Chance::new(schedule.seed, "distances");
        for (from, to) in pairs(schedule.sites) {
            let least = chance.between(1, 40);
            let takes = (least, least + chance.between(0, 20));
            network.change(from, to, |path| path.takes = takes);
        }
        let files = membership::files(schedule);
        let of_versions = |step: &Step| matches!(step.what, What::Break(Fault::Version(..)));
        let heard = schedule.steps.iter().any(of_versions).then(Heard::default);
        let of_files = |step: &Step| matches!(&step.what, What::Ask(Ask { act: Act::Upload { .. }, .. }));
        let long = schedule.steps.iter().any(of_files);
        let of_holds = |step: &Step| matches!(&step.what, What::Ask(Ask { act: Act::Hold { .. }, .. }));
        let holds = schedule.steps.iter().any(of_holds);
        let let_in = LetIn::default();
        let keys = schedule.steps.iter().any(|step| matches!(step.what, What::Break(Fault::Keys)));
        let start = Beginning {
            seed: schedule.seed,
            files: &files,
            heard: heard.as_ref(),
            application: Application { long, holds, probes: schedule.probes, counts: schedule.counts },
            let_in: &let_in,
            keys,
        };
        let isles: Vec<Isle> =
            (0..schedule.sites).map(|index| Isle::new(index, &start, &network, identities, &trace)).collect();
        let outlines: Vec<Outline> = isles.iter().map(|isle| isle.outline.clone()).collect();
        let (watched, shut) = (Rc::default(), Rc::default());
        if schedule.steps.iter().any(|step| matches!(step.what, What::Break(Fault::Revoke { .. }))) {
            spawn_local(revocation::watch(network.clone(), outlines.clone(), Rc::clone(&shut)));
        }
        spawn_local(membership::watch(network.clone(), outlines, Rc::clone(&watched)));
        Sea {
            seed: schedule.seed,
            begin: Instant::now(),
            network,
            isles,
            trace,
            records: Rc::default(),
            ids: Rc::default(),
            made: BTreeMap::new(),
            extended: Extended::default(),
            doubtful_copies: Cell::default(),
            doubts: Cell::default(),
            asking: Vec::new(),
            walks: Walks::default(),
            late: schedule.late,
            watched,
            heard,
            backups: BTreeMap::new(),
            restored: Vec::new(),
            unexecuted: Vec::new(),
            forgot: Vec::new(),
            unnamed: BTreeSet::new(),
            faults: BTreeMap::new(),
            hasty: RefCell::default(),
            misled: RefCell::default(),
            ghosts: RefCell::default(),
            shut,
            let_in,
            voided: (0..schedule.sites).map(|site| identities.voided(site)).collect(),
            given_up: RefCell::default(),
            dues: Dues::new(),
            hurries: schedule.hurries.clone(),
            keys,
            counts: schedule.counts,
            replicated: numbers::replicated(schedule),
            watch: Watch::of(schedule),
            unexplained: Vec::new(),
            suspects: RefCell::default(),
            kept: RefCell::default(),
        }
    }

    async fn follow(&mut self, schedule: &Schedule) {
        for index in (0..self.isles.len()).filter(|index| Some(*index) != self.late) {
            self.isles[index].start().await;
        }
        for step in &schedule.steps {
            sleep_until(self.begin + Duration::from_millis(step.at)).await;
            match &step.what {
                What::Ask(ask) => self.ask(ask.clone()),
                What::Break(Fault::Calm) => {
                    self.mend().await;
                    self.dues.clone_from(&schedule.dues);
                }
                What::Break(fault) => self.fail(fault).await,
                What::Walk(walk) => self.walk(walk.clone()),
            }
        }
    }

    async fn fail(&mut self, fault: &Fault) {
        self.trace.say(format!("fault: {fault:?}"));
        *self.faults.entry(kind(fault)).or_default() += 1;
        match *fault {
            Fault::Cut { from, to, cut } => self.network.change(from, to, |path| path.cut = cut),
            Fault::Reset(one, other) => self.network.reset(one, other),
            Fault::Slow { from, to, slow } => self.network.change(from, to, |path| path.slow = slow),
            Fault::Loss { from, to, percent } => self.network.change(from, to, |path| path.loss = percent),
            Fault::Crash { site, power } => {
                self.isles[site].crash(if power { Stop::Power } else { Stop::Process });
            }
            Fault::Start(site) => self.isles[site].start().await,
            Fault::BackUp(site) => {
                self.isles[site].back_up();
                self.backups.insert(site, Instant::now());
            }
            Fault::Restore(site) | Fault::RestoreRecords(site) => {
                let Some(since) = self.backups.remove(&site) else { return };
                self.isles[site].crash(Stop::Process);
                let service = matches!(fault, Fault::Restore(_));
                if self.isles[site].restore(service) {
                    if service {
                        self.unexecuted.push((site, since, Instant::now()));
                    } else {
                        self.forgot.push(site);
                    }
                    self.restored.push((site, since, Instant::now()));
                }
                self.isles[site].start().await;
                self.note_what_has_no_name(site).await;
            }
            Fault::Disk(site, mood) => self.isles[site].set_disk(mood),
            Fault::App(site, mood) => self.isles[site].app.set(mood),
            Fault::Clock(site, by) => self.isles[site].clock.set(self.isles[site].clock.get() + by),
            Fault::Zone(site, zone) => {
                let text = Some(zone_text(zone, self.isles.len()));
                self.isles[site].order(Order::Zone { name: ZONE.to_owned(), text }).await;
            }
            Fault::Leave(site) => {
                self.isles[site].outline.left.set(self.isles[site].view().map(|_| Instant::now()));
                self.isles[site].order(Order::Leave).await;
            }
            Fault::Return(site) => self.bring_back(site).await,
            Fault::Version(site, version) => self.upgrade(site, version).await,
            Fault::Revoke { by, site } => self.revoke(by, site).await,
            Fault::Calm => self.mend().await,
            Fault::Extend { by, of, to } => self.extend(by, of, to),
            Fault::LookForDeleted(of) => self.look_whether_deleted(of).await,
            Fault::Shrink { by, of, from } => self.change_replicas(by, of, Change::Shrink(site(from))),
            Fault::GiveBack { by, of, to } => self.change_replicas(by, of, Change::Extend(site(to))),
            Fault::LookForGood(of) => self.look_for_good(of).await,
            Fault::LookForDiffering(of) => self.look_for_differing(of).await,
            Fault::Tamper { site, of } => self.tamper(site, of),
            Fault::Diff { by, of } => self.diff(by, of),
            Fault::Repair { by, of, from } => self.repair(by, of, from),
            Fault::Keys => {}
            Fault::Key { site, lost } => self.change_key(site, lost).await,
            Fault::Look { site, of } => self.look(site, of).await,
            Fault::Quarantine { by, site, on } => {
                self.isles[site].outline.shunned.set(true);
                self.isles[by].order(Order::Quarantine { site: NAMES[site].to_owned(), on }).await;
            }
        }
    }

    fn ask(&mut self, ask: Ask) {
        let (members, level) = self.whereabouts(&ask);
        if let Act::Create { .. } = ask.act {
            self.made.insert(ask.number, (members.clone(), level));
        }
        let Some(asked) = self.request(&ask, &members, level) else {
            self.trace.say(format!("w{}: skipped, there is no such image yet", ask.number));
            return;
        };
        let isle = &self.isles[ask.site];
        let (network, trace, app, up) =
            (self.network.clone(), self.trace.clone(), isle.app.clone(), Rc::clone(&isle.outline.up));
        let (known, sites) = (isle.outline.members.borrow().clone(), self.isles.len());
        let (records, ids) = (Rc::clone(&self.records), Rc::clone(&self.ids));
        let watched = ask.act.of().and_then(|of| self.watched_at(of, ask.site));
        let hurry = self.hurries.get(&ask.number).filter(|_| asked.scope.starts_with("within("));
        let hurry = hurry.copied();
        let keeper = isle.with_mesh(mesh::Mesh::replication).flatten();
        self.asking.push(spawn_local(async move {
            trace.say(format!("w{} at {}: {}", ask.number, NAMES[ask.site], line(&asked)));
            let since = up.get();
            let sight = |known: &Members| Sight::of(&known.snapshot(), sites);
            let before = known.as_ref().map(sight).unwrap_or_default();
            let doomed = match watched {
                Some((handle, name)) => handle.resource(&name).await.is_ok_and(|resource| resource.deleted),
                None => false,
            };
            let told = client::ask(&network, &asked).await;
            let ran = since.is_some() && up.get() == since;
            let well = since.is_some() && up.get() == since;
            let well = well && app.well_since().is_some_and(|well| well <= told.from);
            let problem = told.problem.as_deref().unwrap_or_default();
            trace.say(format!(
                "w{}: {} {:?} {problem} [{}]",
                ask.number, told.status, told.verdict, told.sites
            ));
            if let (Act::Create { .. } | Act::Make, Verdict::Done, Some(id)) =
                (&ask.act, told.verdict, told.body.get("id"))
            {
                ids.borrow_mut().insert(ask.number, id_text(id));
            }
            let after = known.as_ref().filter(|_| up.get() == since).map(sight).unwrap_or_default();
            let by_zone = matches!(ask.act, Act::Create { zone: Some(_), .. });
            let (out, unsure) = (before.still_out(&after), by_zone && !before.has_zone_of(&after));
            let traced = trace_of(&told, keeper).await;
            let lost = false;
            records.borrow_mut().push(Record {
                ask,
                members,
                level,
                told,
                well,
                ran,
                doomed,
                lost,
                out,
                unsure,
                hurry,
                traced,
            });
        }));
    }

    /// A site has lost its credential, or has it again: it starts anew.
    async fn change_key(&mut self, site: usize, lost: bool) {
        self.isles[site].key_lost = lost;
        self.isles[site].crash(Stop::Process);
        self.isles[site].start().await;
    }

    /// Mends all that is broken.
    async fn mend(&mut self) {
        self.trace.say("everything is mended");
        for (from, to) in pairs(self.isles.len()) {
            self.network.change(from, to, |path| *path = Path { takes: path.takes, ..Path::default() });
        }
        for index in 0..self.isles.len() {
            self.isles[index].set_disk(disk::Mood::Good);
            self.isles[index].app.set(app::Mood::default());
            if self.isles[index].key_lost {
                self.change_key(index, false).await;
            }
            if self.isles[index].version > NEXT {
                self.upgrade(index, NEXT).await;
            }
            self.isles[index].start().await;
        }
    }

    /// Mends everything, waits until the sites are done, and says what came of it all.
    async fn end(mut self) -> Report {
        for isle in &self.isles {
            isle.app.let_go();
        }
        self.mend().await;
        for index in (0..self.isles.len()).filter(|index| self.isles[*index].outline.left.get().is_some()) {
            self.bring_back(index).await;
        }
        for asking in std::mem::take(&mut self.asking) {
            let _ = asking.await;
        }
        sleep(CALM).await;
        self.end_quarantines().await;
        let mut unquiet = self.until_quiet().await;
        let kept = std::mem::take(&mut *self.kept.borrow_mut());
        self.unnamed.extend(kept);
        if unquiet.is_none() && self.repair_what_had_no_name().await {
            unquiet = self.until_quiet().await;
        }
        self.read_at_last().await;
        self.walk_at_last().await;
        let kept_bytes = self.forget().await;
        let evidence = self.evidence(unquiet, kept_bytes).await;
        let violations = invariants::check(&evidence);
        for violation in &violations {
            self.trace.say(format!("VIOLATED {}: {}", violation.invariant, violation.what));
        }
        if let Some(talk) = &evidence.talk {
            self.trace.say(format!("asked in every version: {}, in the next: {}", talk.old, talk.new));
        }
        let (segments, datagrams) = (self.network.segments(), self.network.datagrams_sent());
        self.trace.say(format!("the end, after {segments} segments and {datagrams} datagrams"));
        for (kind, count) in [("copy in doubt", &self.doubtful_copies), ("in doubt", &self.doubts)] {
            if count.get() > 0 {
                self.faults.insert(kind, count.get());
            }
        }
        let mut requests = BTreeMap::new();
        for record in &evidence.records {
            let told = match record.told.verdict {
                Verdict::Done => "done",
                Verdict::Refused => "refused",
                Verdict::Unknown => "unknown",
            };
            *requests.entry(told).or_default() += 1;
        }
        let report = Report {
            seed: self.seed,
            violations,
            trace: self.trace.lines(),
            simulated: self.begin.elapsed(),
            faults: std::mem::take(&mut self.faults),
            requests,
        };
        for isle in &mut self.isles {
            isle.crash(Stop::Process);
        }
        report
    }

    /// Waits until no site waits for another, as the operator of all of them: what is in doubt is looked up in the log
    /// of the service, and settled.
    async fn until_quiet(&self) -> Option<String> {
        let (until, mut steady) = (Instant::now() + CONVERGENCE, 0);
        loop {
            let unquiet = self.unquiet().await;
            steady = if unquiet.is_none() { steady + 1 } else { 0 };
            if steady == STEADY {
                return None;
            }
            if Instant::now() > until {
                return unquiet;
            }
            sleep(Duration::from_secs(4)).await;
        }
    }

    /// Why somebody still waits, if so.
    async fn unquiet(&self) -> Option<String> {
        let mut why = Vec::new();
        for isle in self.isles.iter().filter(|isle| Some(isle.index) != self.void()) {
            let name = NAMES[isle.index];
            if let Some(fault) = isle.fault() {
                return Some(format!("{name} does not start: {fault}"));
            }
            let Some(handle) = isle.with_mesh(mesh::Mesh::replication).flatten() else {
                return Some(format!("{name} does not run"));
            };
            for pending in handle.in_doubt().await.unwrap_or_default() {
                why.push(format!("{} is in doubt at {name}", pending.op));
                let (executed, id) = self.executed(isle, &pending.op);
                let copy = if pending.class == "copy" { "the copy " } else { "" };
                self.trace.say(format!("the operator settles {copy}{} at {name}: {executed}", pending.op));
                let count = if copy.is_empty() { &self.doubts } else { &self.doubtful_copies };
                count.set(count.get() + 1);
                if let Err(error) = handle.settle(pending.op, executed, id.as_deref()).await {
                    why.push(format!("cannot be settled at {name}: {error}"));
                }
            }
            why.extend(self.clear_reservations(isle, &handle).await);
            for resource in handle.resources().await.unwrap_or_default() {
                use mesh::replication::Condition;
                let is_member = resource.replicas.iter().any(|replica| replica.site == site(isle.index));
                let good = resource.condition == Condition::Good || resource.deleted || !is_member;
                let waits = resource.replicas.iter().find(|replica| replica.pending > 0);
                if !good || waits.is_some() {
                    why.push(format!("at {name}: {resource:?}"));
                }
                why.extend(self.shrink(isle.index, &handle, &resource).await);
                self.end_suspicion(isle.index, &handle, &resource).await;
            }
        }
        (!why.is_empty()).then(|| why.join("; "))
    }

    /// Reads every image whose writes have one order once more: what is told then counts too.
    async fn read_at_last(&mut self) {
        let ordered = self.made.iter().filter(|(_, (_, level))| level.is_ordered());
        let numbers: Vec<(usize, Vec<usize>)> =
            ordered.map(|(of, (members, _))| (*of, members.clone())).collect();
        for (of, members) in numbers {
            for site in members {
                self.ask(Ask { number: 1_000 + of, site, act: Act::Read { of } });
            }
        }
        for asking in std::mem::take(&mut self.asking) {
            let _ = asking.await;
        }
        sleep(Duration::from_secs(2)).await;
    }

    /// The bytes of writes that each site keeps for others.
    async fn kept_bytes(&self) -> Vec<u64> {
        let mut kept = Vec::new();
        for isle in &self.isles {
            let handle = isle.with_mesh(mesh::Mesh::replication).flatten();
            let counts = match handle {
                // One that is shut out keeps what it has for the others.
                Some(handle) if Some(isle.index) != self.void() => handle.counts().await.unwrap_or_default(),
                _ => mesh::replication::Counts::default(),
            };
            kept.push(counts.kept_bytes);
        }
        kept
    }

    /// What each site keeps for others, when it had time to forget it.
    async fn forget(&mut self) -> Vec<u64> {
        // What is kept goes when the others have said that they need it no more, which they do now and then.
        let until = Instant::now() + FORGETTING;
        let mut kept_bytes = self.kept_bytes().await;
        while kept_bytes.iter().any(|bytes| *bytes > 0) && Instant::now() < until {
            sleep(Duration::from_secs(5)).await;
            kept_bytes = self.kept_bytes().await;
        }
        // What a site pulled of an upload that came to nothing, and was not told so, goes after an hour, or with a restart; what
        // a write names does not.
        for isle in self.isles.iter_mut().filter(|isle| !isle.platter.names().is_empty()) {
            isle.crash(Stop::Process);
            isle.start().await;
        }
        kept_bytes
    }
}

/// Whether a keeper knows the operation that a client was told where nobody could say what became of its write. None: the client
/// was told something else, or this keeper runs no more.
async fn trace_of(told: &Told, keeper: Option<Handle>) -> Option<bool> {
    let operation = told.operation.as_deref().filter(|_| told.status == 504)?;
    let operation = operation.strip_prefix("/_scope/operations/").unwrap_or(operation).parse().ok()?;
    match keeper?.fate(operation).await {
        Ok(_) => Some(true),
        Err(Refused::Unknown) => Some(false),
        Err(_) => None,
    }
}

/// An id that is a text, or a number.
fn id_text(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// The name that an image has for operators.
fn named(id: &str) -> String {
    format!("image:/images/{id}")
}

fn pairs(sites: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..sites).flat_map(move |from| (0..sites).map(move |to| (from, to))).filter(|(from, to)| from != to)
}

fn line(asked: &Asked) -> String {
    let scope = if asked.scope.is_empty() { String::new() } else { format!(" [{}]", asked.scope) };
    let body = match &asked.body {
        Sent::Nothing => String::new(),
        Sent::Document(document) => document.to_string(),
        Sent::File { bytes, breaks_off: None } => format!("({} bytes)", bytes.len()),
        Sent::File { bytes, breaks_off: Some(end) } => format!("({end} of {} bytes)", bytes.len()),
    };
    format!("{} {}{scope} {body}", asked.method, asked.path)
}

/// The name of a kind of fault.
fn kind(fault: &Fault) -> &'static str {
    match fault {
        Fault::Cut { cut: true, .. } => "cut",
        Fault::Reset(..) => "reset",
        Fault::Slow { slow: true, .. } => "slow link",
        Fault::Loss { percent: 1.., .. } => "loss",
        Fault::Crash { power: true, .. } => "power loss",
        Fault::Crash { .. } => "crash",
        Fault::Restore(_) => "old backup",
        Fault::RestoreRecords(_) => "old records",
        Fault::Disk(_, disk::Mood::Full) => "full disk",
        Fault::Disk(_, disk::Mood::Slow) => "slow disk",
        Fault::App(_, mood) if *mood != app::Mood::default() => "ill service",
        Fault::Clock(..) => "clock jump",
        Fault::Zone(..) => "zone change",
        Fault::Leave(_) => "goodbye",
        Fault::Quarantine { on: true, .. } => "quarantine",
        Fault::Version(_, TOO_NEW) => "too new",
        Fault::Version(..) => "upgrade",
        Fault::Revoke { .. } => "revocation",
        Fault::Extend { .. } => "extension",
        Fault::Shrink { .. } => "replica taken away",
        Fault::Tamper { .. } => "changed by hand",
        Fault::Key { lost: true, .. } => "lost credential",
        Fault::Cut { .. }
        | Fault::Slow { .. }
        | Fault::Loss { .. }
        | Fault::Start(_)
        | Fault::Calm
        | Fault::BackUp(_)
        | Fault::Disk(..)
        | Fault::App(..)
        | Fault::Return(_)
        | Fault::LookForDeleted(_)
        | Fault::LookForGood(_)
        | Fault::LookForDiffering(_)
        | Fault::GiveBack { .. }
        | Fault::Diff { .. }
        | Fault::Repair { .. }
        | Fault::Keys
        | Fault::Key { .. }
        | Fault::Look { .. }
        | Fault::Quarantine { .. } => "mended",
    }
}
