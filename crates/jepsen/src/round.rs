//! One round: sites start, clients and faults run, faults end, the operator settles, and everything is checked.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::sleep;

use crate::checks::{self, Evidence};
use crate::client::{self, Call, Outcome};
use crate::history::Request;
use crate::linear::{self, Judgement};
use crate::namespace::{self, Networks, SITES};
use crate::nemesis::{Fault, Injected, Nemesis};
use crate::operator::{self, Quiet, array, text};
use crate::random::Random;
use crate::site::{Setup, Site, name};
use crate::workload::{CLIENT_LIMIT, Clients};

/// Longer than sites take to meet on a busy machine.
const MEET_LIMIT: Duration = Duration::from_mins(1);

/// More pages than any list of a round has.
const MAX_PAGES: usize = 500;

/// What every round of a run has in common.
pub(crate) struct Setting<'s> {
    pub(crate) archipel: &'s Path,
    pub(crate) networks: &'s Networks,
    /// The directory of each round's files.
    pub(crate) logs: &'s Path,
    /// How long clients and faults run.
    pub(crate) lasts: Duration,
    /// Old copies of state directories are put back.
    pub(crate) restores: bool,
    /// The service can be asked whether it executed a write.
    pub(crate) probes: bool,
}

/// The result of a round.
pub(crate) struct Outcomes {
    pub(crate) requests: usize,
    pub(crate) acknowledged: usize,
    pub(crate) faults: BTreeMap<&'static str, usize>,
    /// Operations that were in doubt, by their class.
    pub(crate) in_doubt: BTreeMap<String, usize>,
    /// Histories of ordered registers, and how many of them took too long to judge.
    pub(crate) histories: usize,
    pub(crate) undecided: usize,
    pub(crate) slowest: Option<String>,
    pub(crate) violations: BTreeMap<&'static str, Vec<String>>,
    pub(crate) directory: PathBuf,
}

/// Runs a round. Its directory is kept; the caller deletes it where nothing was found.
pub(crate) async fn run(setting: &Setting<'_>, seed: u64) -> io::Result<Outcomes> {
    let directory = setting.logs.join(format!("seed-{seed}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory)?;
    // Half of the rounds have credentials for the service, half have none.
    let credentials = Random::new(seed, 2).percent(50);
    let setup = Setup { credentials, probes: setting.probes };
    let mut sites = Vec::new();
    for number in 0..SITES {
        sites.push(Site::make(number, &directory, setting.archipel, seed, setup)?);
    }
    for site in &mut sites {
        site.start_service(setting.networks).await?;
        site.start_mesh(setting.networks).await?;
    }
    until_met(&sites).await?;
    let clients = Clients::new(credentials);
    clients.make_registers().await.map_err(io::Error::other)?;
    let ready = operator::until_quiet(&mut sites).await?;
    if let Some(why) = ready.unquiet {
        return Err(io::Error::other(format!("nothing fails yet, and the sites do not become quiet: {why}")));
    }
    if setting.restores {
        for site in &mut sites {
            site.kill_mesh()?;
            site.back_up()?;
            site.start_mesh(setting.networks).await?;
        }
        until_met(&sites).await?;
    }
    let until = Instant::now() + setting.lasts;
    let nemesis = Nemesis::new(seed, setting.networks, setting.restores);
    let (faults, ()) = tokio::join!(nemesis.run(&mut sites, until), clients.run(seed, until));
    let faults = faults?;
    until_met(&sites).await?;
    let quiet = operator::until_quiet(&mut sites).await?;
    let evidence = gather(&sites, clients.requests(), faults, &quiet).await?;
    let violations = checks::run(&evidence);
    write_down(&directory, &evidence, &violations)?;
    Ok(count(&evidence, &quiet, violations, directory))
}

/// Waits until every site sees every other alive, and reaches it: a list says of one that it does not reach that it is missing.
async fn until_met(sites: &[Site]) -> io::Result<()> {
    let start = Instant::now();
    loop {
        let mut missing = Vec::new();
        for (number, site) in sites.iter().enumerate() {
            let known = match site.shown(&["sites"]) {
                Ok(known) => known,
                Err(why) => {
                    missing.push(why.to_string());
                    continue;
                }
            };
            let is_seen = |other: &usize| {
                let is_well =
                    |site: &Value| text(site, "status") == "alive" && text(site, "reach") == "reachable";
                array(&known, "sites").any(|site| text(site, "site") == name(*other) && is_well(site))
            };
            let others = (0..SITES).filter(|other| *other != number && !is_seen(other));
            missing.extend(others.map(|other| format!("{} does not see {}", name(number), name(other))));
        }
        if missing.is_empty() {
            return Ok(());
        }
        if start.elapsed() > MEET_LIMIT {
            return Err(io::Error::other(missing.join("; ")));
        }
        sleep(Duration::from_millis(200)).await;
    }
}

async fn gather(
    sites: &[Site],
    mut requests: Vec<Request>,
    faults: Vec<Injected>,
    quiet: &Quiet,
) -> io::Result<Evidence> {
    let (mut executions, mut documents, mut shown, mut lists) = (vec![], vec![], vec![], vec![]);
    for (number, site) in sites.iter().enumerate() {
        lists.push([list(number, "").await, list(number, "?limit=7").await]);
        shown.push(site.shown(&["replicas", "list"])?);
        documents.push(site.documents().await?);
        executions.push(site.executions()?);
    }
    for request in &mut requests {
        request.forgotten = faults.iter().any(|injected| is_forgotten(request, injected));
    }
    let unquiet = quiet.unquiet.clone();
    Ok(Evidence { requests, executions, documents, shown, lists, faults, unquiet })
}

/// Whether a fault put back a copy of a site's state from before that site alone may have recorded a request.
fn is_forgotten(request: &Request, injected: &Injected) -> bool {
    let Fault::Restore(site) = injected.fault else { return false };
    let ordered = request.register.as_ref().is_none_or(|register| register.level.is_ordered());
    !ordered && request.may_be_taken_at(site) && request.from <= injected.from
}

/// The registers of all sites as a site lists them, by the requests that made them, over all pages.
async fn list(site: usize, query: &str) -> Result<Vec<String>, String> {
    let mut made = Vec::new();
    let mut path = format!("/registers{query}");
    for _ in 0..MAX_PAGES {
        let scope = [0, 1, 2].map(name).join(" & ");
        let call = Call { method: "GET", path: path.clone(), scope, ..Call::default() };
        let answer = match client::send(namespace::mesh(site), &call, CLIENT_LIMIT).await {
            Outcome::Answered(answer) if answer.status == 200 => answer,
            other => return Err(format!("{other:?}")),
        };
        made.extend(array(&answer.body, "registers").map(|item| text(item, "made").to_owned()));
        match answer.body.get("next").and_then(Value::as_str) {
            // It may be a whole address.
            Some(next) => {
                next.find("/registers").and_then(|at| next.get(at..)).unwrap_or(next).clone_into(&mut path);
            }
            None => return Ok(made),
        }
    }
    Err(format!("more than {MAX_PAGES} pages"))
}

/// Keeps what a violation is explained by.
fn write_down(
    directory: &Path,
    evidence: &Evidence,
    violations: &BTreeMap<&'static str, Vec<String>>,
) -> io::Result<()> {
    let lines = |lines: Vec<String>| lines.join("\n") + "\n";
    fs::write(directory.join("history.jsonl"), lines(evidence.requests.iter().map(Request::line).collect()))?;
    let fault = |injected: &Injected| format!("{} {} {}", injected.from, injected.to, injected.fault);
    fs::write(directory.join("faults.txt"), lines(evidence.faults.iter().map(fault).collect()))?;
    let found =
        violations.iter().flat_map(|(check, found)| found.iter().map(move |what| format!("{check}: {what}")));
    fs::write(directory.join("violations.txt"), lines(found.collect()))?;
    let mut end = serde_json::Map::new();
    for (site, (documents, shown)) in evidence.documents.iter().zip(&evidence.shown).enumerate() {
        end.insert(name(site), serde_json::json!({ "documents": documents, "replicas": shown }));
    }
    fs::write(directory.join("end.json"), format!("{:#}", Value::Object(end)))
}

fn count(
    evidence: &Evidence,
    quiet: &Quiet,
    violations: BTreeMap<&'static str, Vec<String>>,
    directory: PathBuf,
) -> Outcomes {
    let mut faults = BTreeMap::new();
    for injected in &evidence.faults {
        *faults.entry(injected.fault.kind()).or_default() += 1;
    }
    let mut in_doubt = BTreeMap::new();
    for class in quiet.in_doubt.values() {
        *in_doubt.entry(class.clone()).or_default() += 1;
    }
    let acknowledged = |request: &&Request| (200..300).contains(&request.status());
    let histories: Vec<Judgement> = checks::ordered_histories(evidence)
        .iter()
        .map(|(_, initial, history)| linear::judge(initial, history))
        .collect();
    let undecided = |judgement: &&Judgement| **judgement == Judgement::Undecided;
    let slowest = evidence.requests.iter().max_by_key(|request| request.to.saturating_sub(request.from));
    Outcomes {
        requests: evidence.requests.len(),
        acknowledged: evidence.requests.iter().filter(acknowledged).count(),
        faults,
        in_doubt,
        histories: histories.len(),
        undecided: histories.iter().filter(undecided).count(),
        slowest: slowest.map(Request::brief),
        violations,
        directory,
    }
}
