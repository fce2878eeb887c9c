//! Clients: what they ask of which site, and the record of it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::client::{self, Call, Outcome, now};
use crate::document;
use crate::history::{Act, Level, Register, Request, Role, Verdict};
use crate::namespace::{self, SITES};
use crate::random::Random;
use crate::site::{CREDENTIAL, RESPONSE_LIMIT, name};

/// Beside what a mesh may wait for: a machine that is busy.
pub(crate) const MARGIN: Duration = Duration::from_secs(3);

/// The longest that a client waits: while a site waits for its own service, for another site, and for that one's service.
pub(crate) const CLIENT_LIMIT: Duration = RESPONSE_LIMIT.saturating_mul(3).saturating_add(MARGIN);

/// Clients of each site.
const CLIENTS: usize = 3;

/// Between two names that every site is asked at once to put at one of them.
const RACE_INTERVAL: Duration = Duration::from_secs(3);

/// Requests of a round, and the registers that they are for. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Clients {
    requests: Rc<RefCell<Vec<Request>>>,
    registers: Rc<RefCell<Vec<Register>>>,
    tags: Rc<Cell<usize>>,
    credentials: bool,
}

/// A request that is about to be sent.
struct Draft {
    act: Act,
    call: Call,
    register: Option<Register>,
}

impl Clients {
    pub(crate) fn new(credentials: bool) -> Clients {
        Clients { credentials, ..Clients::default() }
    }

    /// The history so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.borrow().clone()
    }

    /// Makes the registers that all clients use, while nothing fails.
    pub(crate) async fn make_registers(&self) -> Result<(), String> {
        let (all, two) = ((0..SITES).collect::<Vec<_>>(), vec![0, 1]);
        let wanted = [
            (Level::Eventual, Role::Counter, &all),
            (Level::Eventual, Role::Counter, &all),
            (Level::Eventual, Role::Counter, &two),
            (Level::Eventual, Role::Replaced, &all),
            (Level::Eventual, Role::Patched, &all),
            (Level::Weak, Role::Counter, &all),
            (Level::Quorum, Role::Counter, &all),
            (Level::Quorum, Role::Replaced, &all),
            (Level::Strong, Role::Counter, &all),
            (Level::Strong, Role::Patched, &all),
        ];
        for (number, (level, role, sites)) in wanted.into_iter().enumerate() {
            let site = sites.get(number % sites.len()).copied().unwrap_or(0);
            self.make_register(site, level, role, sites).await?;
        }
        Ok(())
    }

    /// Makes one. The first write of a set of sites may have to wait for their leader.
    async fn make_register(
        &self,
        site: usize,
        level: Level,
        role: Role,
        sites: &[usize],
    ) -> Result<(), String> {
        let start = Instant::now();
        loop {
            let request = self.create(site, level, role, sites, false).await;
            if request.verdict() == Verdict::Acknowledged {
                return Ok(());
            }
            if request.verdict() != Verdict::Refused || start.elapsed() > CLIENT_LIMIT {
                return Err(format!("nothing fails, and a register is not made: {}", request.brief()));
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Clients of every site, until a moment, and each race for a name.
    pub(crate) async fn run(&self, seed: u64, until: Instant) {
        let mut tasks = Vec::new();
        for client in 0..SITES * CLIENTS {
            let (clients, stream) = (self.clone(), u64::try_from(client).unwrap_or(0));
            let random = Random::new(seed, 100 + stream);
            tasks.push(tokio::task::spawn_local(async move {
                clients.run_client(client % SITES, random, until).await;
            }));
        }
        let clients = self.clone();
        tasks.push(tokio::task::spawn_local(async move { clients.race_for_names(until).await }));
        for task in tasks {
            let _ = task.await;
        }
    }

    async fn run_client(&self, site: usize, mut random: Random, until: Instant) {
        while Instant::now() < until {
            match random.between(0..=99) {
                0..=9 => {
                    let level = random.pick(&Level::ALL).copied().unwrap_or(Level::Eventual);
                    let sites =
                        if random.percent(70) { vec![0, 1, 2] } else { vec![site, (site + 1) % SITES] };
                    let named = random.percent(30);
                    self.create(site, level, Role::Brief, &sites, named).await;
                }
                10..=19 => self.forward(site, &mut random).await,
                20..=23 => self.ask(site, local()).await,
                24..=27 => self.ask(site, list()).await,
                _ => self.use_register(site, &mut random).await,
            }
            sleep(Duration::from_millis(random.between(20..=220))).await;
        }
    }

    /// Makes a replicated register; clients know it once it is acknowledged.
    async fn create(&self, site: usize, level: Level, role: Role, sites: &[usize], named: bool) -> Request {
        let tag = self.tag();
        let group: Vec<String> = sites.iter().map(|site| name(*site)).collect();
        let scope = format!("({}) {level}", group.join(" & "));
        let (method, collection) =
            if named { ("PUT", format!("/names/{tag}")) } else { ("POST", "/registers".to_owned()) };
        let body = json!({ "made": tag, "value": tag });
        let call = Call { method, path: format!("{collection}?by={tag}"), scope, body, ..Call::default() };
        let mut register =
            Register { made: tag.clone(), path: collection, level, sites: sites.to_vec(), role };
        let draft = Draft { act: Act::Create, call, register: Some(register.clone()) };
        let request = self.send(site, tag, draft).await;
        let id = request.body().get("id").and_then(Value::as_str);
        if request.verdict() == Verdict::Acknowledged {
            // At `@weak` the answer has no id: nobody can name it yet.
            let path =
                if named { Some(register.path.clone()) } else { id.map(|id| format!("/registers/{id}")) };
            if let Some(path) = path {
                register.path = path;
                self.registers.borrow_mut().push(register);
            }
        }
        request
    }

    /// Makes an ordinary register at one of several sites.
    async fn forward(&self, site: usize, random: &mut Random) {
        let operator = if random.percent(50) { " ; " } else { " | " };
        let first = usize::try_from(random.between(0..=2)).unwrap_or(0);
        let scope = [first, (first + 1) % SITES].map(name).join(operator);
        let tag = self.tag();
        let body = json!({ "made": tag, "value": tag });
        let call =
            Call { method: "POST", path: format!("/registers?by={tag}"), scope, body, ..Call::default() };
        self.send(site, tag, Draft { act: Act::Forward, call, register: None }).await;
    }

    /// Writes to a register that has a replica here, or reads it.
    async fn use_register(&self, site: usize, random: &mut Random) {
        let here: Vec<Register> =
            self.registers.borrow().iter().filter(|own| own.sites.contains(&site)).cloned().collect();
        // Those that clients made on the way are many: seldom one of them.
        let brief = random.percent(15);
        let fitting: Vec<Register> =
            here.into_iter().filter(|own| (own.role == Role::Brief) == brief).collect();
        let Some(register) = random.pick(&fitting).cloned() else { return };
        let act = match (register.role, random.between(0..=99)) {
            (Role::Counter, 0..=44) | (Role::Brief, 0..=39) => Act::Add,
            (Role::Counter, 45..=69) => Act::Mark,
            (Role::Replaced, 0..=49) => Act::Put,
            (Role::Patched, 0..=49) => Act::Patch,
            (Role::Brief, 40..=79) => Act::Delete,
            _ => Act::Read,
        };
        if act == Act::Delete {
            self.registers.borrow_mut().retain(|own| own.made != register.made);
        }
        self.ask(site, (act, register)).await;
    }

    /// Sends what a client wants of a site, under a new tag.
    async fn ask(&self, site: usize, wanted: impl Into<Wanted>) {
        let tag = self.tag();
        let draft = wanted.into().draft(&tag);
        self.send(site, tag, draft).await;
    }

    /// Asks every site at the same time to put one name at one of them.
    async fn race_for_names(&self, until: Instant) {
        for race in 0.. {
            if Instant::now() >= until {
                return;
            }
            let racers = (0..SITES).map(|site| {
                let (clients, tag) = (self.clone(), self.tag());
                let scope = [0, 1, 2].map(name).join(" ^ ");
                let body = json!({ "made": tag, "value": tag });
                let path = format!("/names/race{race}?by={tag}");
                let call = Call { method: "PUT", path, scope, body, ..Call::default() };
                tokio::task::spawn_local(async move {
                    clients.send(site, tag, Draft { act: Act::Exclude, call, register: None }).await;
                })
            });
            for racer in racers.collect::<Vec<_>>() {
                let _ = racer.await;
            }
            sleep(RACE_INTERVAL).await;
        }
    }

    async fn send(&self, site: usize, tag: String, mut draft: Draft) -> Request {
        draft.call.credential = self.credentials.then_some(CREDENTIAL);
        let from = now();
        let outcome = client::send(namespace::mesh(site), &draft.call, CLIENT_LIMIT).await;
        let path = draft.call.path.split('?').next().unwrap_or("").to_owned();
        let (act, register, scope) = (draft.act, draft.register, draft.call.scope);
        let (to, forgotten) = (now(), false);
        let request = Request { tag, site, act, path, scope, register, from, to, outcome, forgotten };
        self.requests.borrow_mut().push(request.clone());
        request
    }

    fn tag(&self) -> String {
        self.tags.set(self.tags.get() + 1);
        format!("w{}", self.tags.get())
    }
}

/// What a client wants.
enum Wanted {
    Whole(Draft),
    Of(Act, Register),
}

impl From<Draft> for Wanted {
    fn from(draft: Draft) -> Wanted {
        Wanted::Whole(draft)
    }
}

impl From<(Act, Register)> for Wanted {
    fn from((act, register): (Act, Register)) -> Wanted {
        Wanted::Of(act, register)
    }
}

impl Wanted {
    fn draft(self, tag: &str) -> Draft {
        let (act, register) = match self {
            Wanted::Whole(draft) => return draft,
            Wanted::Of(act, register) => (act, register),
        };
        let made = &register.made;
        let (method, below, body) = match act {
            Act::Add => ("POST", "/add", json!({ "tag": tag })),
            Act::Mark => ("PATCH", "", json!({ document::mark(tag): true })),
            Act::Patch => ("PATCH", "", json!({ "value": tag })),
            Act::Put => ("PUT", "", json!({ "made": made, "value": tag })),
            Act::Delete => ("DELETE", "", Value::Null),
            _ => ("GET", "", Value::Null),
        };
        let by = if act.writes() { format!("?by={tag}") } else { String::new() };
        // A read that has to be current says so.
        let confirmed = act == Act::Read && register.level == Level::Quorum;
        let group: Vec<String> = register.sites.iter().map(|site| name(*site)).collect();
        let scope = if confirmed { format!("({}) @quorum", group.join(" & ")) } else { String::new() };
        let path = format!("{}{below}{by}", register.path);
        let call = Call { method, path, scope, body, ..Call::default() };
        Draft { act, call, register: Some(register) }
    }
}

fn local() -> Draft {
    let call = Call { method: "GET", path: "/health".to_owned(), ..Call::default() };
    Draft { act: Act::Local, call, register: None }
}

fn list() -> Draft {
    let scope = [0, 1, 2].map(name).join(" & ");
    let call = Call { method: "GET", path: "/registers".to_owned(), scope, ..Call::default() };
    Draft { act: Act::List, call, register: None }
}

/// The outcome of a request is silence.
pub(crate) fn is_silent(request: &Request) -> bool {
    matches!(request.outcome, Outcome::Silent)
}
