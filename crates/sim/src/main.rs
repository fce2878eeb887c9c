//! `archipel-sim`: runs of simulated sites, by their seeds.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use clap::Parser;
use sim::isle::Identities;
use sim::minimise::minimise;
use sim::run::{Report, run};
use sim::schedule::Schedule;

/// Runs whole sites of Archipel over a simulated network, disk and clock, and checks what it promises.
#[derive(Parser)]
#[command(name = "archipel-sim")]
#[allow(clippy::struct_excessive_bools, reason = "options, each given or not")]
struct Options {
    /// Run this seed alone, and print what happened.
    #[arg(long)]
    seed: Option<u64>,
    /// Run so many seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Begin no other seed after so many minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// Begin with this one.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run so many at a time.
    #[arg(long)]
    jobs: Option<usize>,
    /// Twice as much to do in each, and more that breaks.
    #[arg(long)]
    busy: bool,
    /// Services keep the names of operations, and the profile says how to look for them.
    #[arg(long)]
    probes: bool,
    /// Services name what they make by counting, and clients of each site have images of that site alone.
    #[arg(long)]
    counting: bool,
    /// End with the first that fails.
    #[arg(long)]
    stop: bool,
    /// A seed of a fault that is known, and not mended yet: it is an error if it keeps every promise.
    #[arg(long = "known", value_name = "SEED")]
    known: Vec<u64>,
    /// A seed that takes so many seconds of a processor does not end.
    #[arg(long, default_value_t = 600)]
    patience: u64,
    /// Look for the shortest schedule of a seed that fails, with at most so many runs.
    #[arg(long, default_value_t = 200)]
    minimise: usize,
}

/// One seed of a campaign.
struct Ran {
    seed: u64,
    took: Duration,
    report: Report,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match options.seed {
        Some(seed) => replay(&schedule(seed, &options)),
        None => campaign(&options),
    }
}

fn schedule(seed: u64, options: &Options) -> Schedule {
    let schedule = if options.busy { Schedule::busy(seed) } else { Schedule::of(seed) };
    let schedule = Schedule { probes: options.probes, ..schedule };
    if options.counting { schedule.counting() } else { schedule }
}

fn replay(schedule: &Schedule) -> ExitCode {
    let report = run(schedule, &Identities::make());
    for line in &report.trace {
        println!("{line}");
    }
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn campaign(options: &Options) -> ExitCode {
    let jobs =
        options.jobs.or_else(|| std::thread::available_parallelism().ok().map(Into::into)).unwrap_or(1);
    let (next, end) = (AtomicU64::new(options.from), options.from.saturating_add(options.seeds));
    let (ran, stop) = (Mutex::new(Vec::new()), AtomicU64::new(0));
    let begin = Instant::now();
    let late = |minutes: u64| begin.elapsed() > Duration::from_secs(minutes.saturating_mul(60));
    let identities = Identities::make();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while stop.load(Ordering::Relaxed) == 0 && !options.minutes.is_some_and(late) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let begin = Instant::now();
                    let _watched = watch(seed, Duration::from_secs(options.patience));
                    let mut report = run(&schedule(seed, options), &identities);
                    let failed = !report.violations.is_empty();
                    if !failed {
                        report.trace = Vec::new();
                    } else if options.stop && !options.known.contains(&seed) {
                        stop.store(1, Ordering::Relaxed);
                    }
                    for violation in &report.violations {
                        let known = if options.known.contains(&seed) { " (known)" } else { "" };
                        println!("seed {seed}{known} violates {}: {}", violation.invariant, violation.what);
                    }
                    let took = begin.elapsed();
                    ran.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(Ran {
                        seed,
                        took,
                        report,
                    });
                }
            });
        }
    });
    let mut ran = ran.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    ran.sort_by_key(|ran| ran.seed);
    summary(&ran, begin.elapsed());
    let is_known = |ran: &&Ran| options.known.contains(&ran.seed);
    let kept = |ran: &&Ran| ran.report.violations.is_empty();
    if let Some(mended) = ran.iter().filter(is_known).find(kept) {
        println!("seed {} is known to fail, and did not: if it is mended, it is known no more", mended.seed);
        return ExitCode::FAILURE;
    }
    let failed = ran.iter().filter(|ran| !is_known(ran)).find(|ran| !kept(ran));
    let Some(failed) = failed else { return ExitCode::SUCCESS };
    shortest(&schedule(failed.seed, options), &identities, options.minimise);
    ExitCode::FAILURE
}

/// Ends the campaign where a seed does not end: simulated time stands still while something runs in circles. What counts is
/// the time of a processor, where the system tells it: on a busy machine a seed may wait for long.
fn watch(seed: u64, patience: Duration) -> Sender<()> {
    let (over, ended) = channel();
    let (thread, begin) = (std::fs::read_link("/proc/thread-self").ok(), Instant::now());
    let used = move || {
        let told = thread.as_ref().map(|thread| Path::new("/proc").join(thread).join("schedstat"));
        let told = told.and_then(|path| std::fs::read_to_string(path).ok());
        let nanoseconds = told.and_then(|told| told.split_whitespace().next()?.parse().ok());
        nanoseconds.map_or_else(|| begin.elapsed(), Duration::from_nanos)
    };
    let before = used();
    std::thread::spawn(move || {
        while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
            if used().saturating_sub(before) > patience {
                println!("seed {seed} violates it_ends: it has run for {} s", patience.as_secs());
                std::process::exit(1);
            }
        }
    });
    over
}

fn summary(ran: &[Ran], took: Duration) {
    let simulated: Duration = ran.iter().map(|ran| ran.report.simulated).sum();
    println!("{} schedules, {} s of simulated time, in {} s", ran.len(), simulated.as_secs(), took.as_secs());
    let mut counts = BTreeMap::<(&str, &str), u64>::new();
    for ran in ran {
        let faults = ran.report.faults.iter().map(|(kind, count)| (("fault", *kind), count));
        let requests = ran.report.requests.iter().map(|(kind, count)| (("request", *kind), count));
        for (kind, count) in faults.chain(requests) {
            *counts.entry(kind).or_default() += count;
        }
    }
    for ((what, kind), count) in counts {
        println!("  {what:<8} {kind:<16} {count}");
    }
    let mut slowest: Vec<&Ran> = ran.iter().collect();
    slowest.sort_by_key(|ran| std::cmp::Reverse(ran.took));
    for ran in slowest.iter().take(3) {
        println!("  slowest: seed {} took {} ms", ran.seed, ran.took.as_millis());
    }
}

fn shortest(schedule: &Schedule, identities: &Identities, runs: usize) {
    let seed = schedule.seed;
    let (least, report) = minimise(schedule, identities, runs);
    println!("\nseed {seed}, with {} of its {} steps:", least.steps.len(), schedule.steps.len());
    for line in &report.trace {
        println!("{line}");
    }
    println!("\narchipel-sim --seed {seed} runs it as a whole");
}
