//! The black-box tier, `./test jepsen`: real Archipel processes in network namespaces, in front of a service that logs every
//! execution, with faults from a seed. At the end everything that clients were told is compared with the logs.
//!
//! In the order in which a round meets them: `namespace` (networks, and packets that are dropped), `site` (processes and
//! their files), `service`, `workload` and `client` (requests), `nemesis` (faults), `operator` (what is settled), `history`,
//! `checks` and `linear` (what must hold). `docs/jepsen.md` says how to run it and how to read what it finds.

mod checks;
mod client;
mod document;
mod history;
mod linear;
mod namespace;
mod nemesis;
mod operator;
mod random;
mod round;
mod service;
mod site;
mod workload;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use namespace::Networks;
use round::{Outcomes, Setting};
use tokio::task::LocalSet;

/// Runs real sites through faults, and checks all that their clients were told.
#[derive(Parser)]
#[command(name = "jepsen", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    run: Run,
}

#[derive(Subcommand)]
enum Part {
    /// Serve as the application of a site. The tier starts it itself.
    #[command(hide = true)]
    Service {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        log: PathBuf,
        #[arg(long)]
        seed: u64,
    },
}

#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
struct Run {
    /// The program under test.
    #[arg(required = true)]
    archipel: Option<PathBuf>,
    /// Rounds, each with the seed after the one before.
    #[arg(long, default_value_t = 5)]
    rounds: u64,
    /// The seed of the first round.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds for which clients and faults run, in each round.
    #[arg(long, default_value_t = 12)]
    seconds: u64,
    /// A directory for the files of rounds; those of a violation are kept.
    #[arg(long, default_value = "target/jepsen")]
    logs: PathBuf,
    /// Keep the files of every round.
    #[arg(long)]
    keep: bool,
    /// Put old copies of state directories back, too.
    #[arg(long)]
    restores: bool,
    /// Leave what has no answer to the operator: the profile does not say how to ask the service.
    #[arg(long)]
    without_probes: bool,
    /// Go on after a violation.
    #[arg(long)]
    go_on: bool,
    /// This process is within its own namespaces already.
    #[arg(long, hide = true)]
    inside: bool,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse() {
        Arguments { part: Some(Part::Service { listen, log, seed }), .. } => {
            block_on(async { service::serve(listen, &log, seed).await }).map(|()| ExitCode::SUCCESS)
        }
        Arguments { run, .. } if run.inside => block_on(run.rounds()),
        Arguments { .. } => namespace::enter("--inside"),
    };
    outcome.unwrap_or_else(|why| {
        let _ = writeln!(io::stderr(), "error: {why}");
        ExitCode::FAILURE
    })
}

fn block_on<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, work)
}

fn say(line: &str) {
    // Whoever stopped reading has the exit status.
    let _ = writeln!(io::stdout(), "{line}");
}

/// Sums over all rounds.
#[derive(Default)]
struct Totals {
    rounds: usize,
    requests: usize,
    acknowledged: usize,
    faults: BTreeMap<&'static str, usize>,
    in_doubt: BTreeMap<String, usize>,
    histories: usize,
    undecided: usize,
    /// For each check, the seeds whose rounds violated it.
    violated: BTreeMap<&'static str, Vec<u64>>,
}

impl Run {
    async fn rounds(self) -> io::Result<ExitCode> {
        std::fs::create_dir_all(&self.logs)?;
        let logs = self.logs.canonicalize()?;
        let archipel = self.archipel.clone().unwrap_or_default().canonicalize()?;
        let networks = Networks::make()?;
        let setting = Setting {
            archipel: &archipel,
            networks: &networks,
            logs: &logs,
            lasts: Duration::from_secs(self.seconds),
            restores: self.restores,
            probes: !self.without_probes,
        };
        let mut totals = Totals::default();
        for seed in (self.seed..).take(usize::try_from(self.rounds).unwrap_or(usize::MAX)) {
            let start = Instant::now();
            let outcomes = round::run(&setting, seed).await.inspect_err(|_| {
                say(&format!("seed {seed}: the round broke off; its files are in {}", logs.display()));
            })?;
            let kept = outcomes.directory.clone();
            let failed = !outcomes.violations.is_empty();
            report(seed, &outcomes, start.elapsed());
            totals.add(seed, outcomes);
            if !failed && !self.keep {
                std::fs::remove_dir_all(&kept)?;
            }
            if failed && !self.go_on {
                break;
            }
        }
        totals.report();
        Ok(if totals.violated.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// `2 kill, 1 pause`
fn counted<K: std::fmt::Display>(counts: &BTreeMap<K, usize>) -> String {
    let counted: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
    if counted.is_empty() { "none".to_owned() } else { counted.join(", ") }
}

/// Violations of one check that are printed; all are in the files.
const MAX_PRINTED: usize = 3;

fn report(seed: u64, outcomes: &Outcomes, took: Duration) {
    let word = if outcomes.violations.is_empty() { "ok" } else { "VIOLATED" };
    say(&format!(
        "seed {seed}: {word}; {} requests, {} acknowledged; faults: {}; in doubt: {}; {} s",
        outcomes.requests,
        outcomes.acknowledged,
        counted(&outcomes.faults),
        counted(&outcomes.in_doubt),
        took.as_secs(),
    ));
    if let Some(slowest) = &outcomes.slowest {
        say(&format!("  slowest: {slowest}"));
    }
    for (check, found) in &outcomes.violations {
        for what in found.iter().take(MAX_PRINTED) {
            say(&format!("  {check}: {what}"));
        }
        if found.len() > MAX_PRINTED {
            say(&format!("  {check}: {} more", found.len() - MAX_PRINTED));
        }
    }
    if !outcomes.violations.is_empty() {
        say(&format!("  its files are in {}", outcomes.directory.display()));
    }
}

impl Totals {
    fn add(&mut self, seed: u64, outcomes: Outcomes) {
        self.rounds += 1;
        self.requests += outcomes.requests;
        self.acknowledged += outcomes.acknowledged;
        self.histories += outcomes.histories;
        self.undecided += outcomes.undecided;
        for (kind, count) in outcomes.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        for (class, count) in outcomes.in_doubt {
            *self.in_doubt.entry(class).or_default() += count;
        }
        for check in outcomes.violations.into_keys() {
            self.violated.entry(check).or_default().push(seed);
        }
    }

    fn report(&self) {
        let (faults, in_doubt): (usize, usize) = (self.faults.values().sum(), self.in_doubt.values().sum());
        say(&format!(
            "{} rounds: {} requests, {} acknowledged; {faults} faults ({}); {} histories of ordered registers ({} \
             undecided)",
            self.rounds,
            self.requests,
            self.acknowledged,
            counted(&self.faults),
            self.histories,
            self.undecided,
        ));
        say(&format!("{in_doubt} operations reached the operator ({})", counted(&self.in_doubt)));
        for (check, seeds) in &self.violated {
            let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
            say(&format!("{check} was violated by seeds {}", seeds.join(", ")));
        }
    }
}
