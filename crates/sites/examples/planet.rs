//! Sites on a modelled planet: `cargo run --release -p sites --example planet -- --sites 1000 --minutes 10`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints a table")]

#[path = "../tests/planet/mod.rs"]
mod planet;

use std::time::Duration;

use planet::Planet;
use planet::figures::{Spread, ms, percentile};

fn argument(name: &str, default: u32) -> u32 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name).skip(1);
    arguments.next().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn line(what: &str, mut spreads: Vec<Spread>) {
    spreads.sort_by_key(|spread| spread.all);
    let mut most: Vec<_> = spreads.iter().map(|spread| spread.most).collect();
    most.sort();
    let all: Vec<_> = spreads.iter().map(|spread| spread.all).collect();
    let show = |times: &[Duration], share| percentile(times, share).map_or(String::new(), ms);
    println!(
        "| a {what} known at all sites | {} (median), {} (99th percentile) of {} |",
        show(&all, 0.5),
        show(&all, 0.99),
        all.len()
    );
    println!(
        "| a {what} known at 99 % of sites | {} (median), {} (99th percentile) |",
        show(&most, 0.5),
        show(&most, 0.99)
    );
}

fn main() {
    let count = argument("--sites", 1000);
    let minutes = argument("--minutes", 10);
    let churn = argument("--churn", 100);
    let seed = u64::from(argument("--seed", 1));
    let mut planet = Planet::acquainted(count + churn, count, seed);
    eprintln!("{count} sites started");
    planet.run_for(Duration::from_mins(u64::from(argument("--settle", 5))));
    eprintln!("settled");

    let since = planet.reset_counts();
    planet.false_deaths = 0;
    planet.suspicions = 0;
    planet.run_for(Duration::from_mins(u64::from(minutes)));
    println!("| {count} sites, 1 % loss, {minutes} min | |\n| --- | --- |");
    println!("| bytes sent per site and second | {:.0} |", planet.bytes_per_second(since));
    let synced = planet.synced_bytes / u64::from(count) / planet.now.saturating_sub(since).as_secs().max(1);
    println!("| of which exchanges of states | {synced} |");
    println!("| false deaths | {} |", planet.false_deaths);
    println!("| sites that suspected one falsely | {} |", planet.suspicions);
    let errors = planet.distance_errors(20_000);
    let percent = |share| percentile(&errors, share).unwrap_or(1.0) * 100.0;
    println!(
        "| error of distances | {:.1} % (median), {:.1} % (90th percentile) |",
        percent(0.5),
        percent(0.9)
    );

    let since = planet.reset_counts();
    let (mut joins, mut leaves, mut crashes) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..churn {
        planet.join(count + round);
        planet.run_for(Duration::from_secs(5));
        joins.push(planet.spread(count + round));
        let gone = planet.random_up();
        planet.leave(gone);
        planet.run_for(Duration::from_secs(1));
        planet.crash(gone);
        planet.run_for(Duration::from_secs(4));
        leaves.push(planet.spread(gone));
        if round % 4 == 0 {
            let victim = planet.random_up();
            planet.watch(victim);
            planet.crash(victim);
            planet.run_for(Duration::from_secs(20));
            crashes.push(planet.spread(victim));
        }
    }
    line("join", joins);
    line("leave", leaves);
    line("crash", crashes);
    println!("| bytes sent per site and second, meanwhile | {:.0} |", planet.bytes_per_second(since));
    println!("| false deaths, in all | {} |", planet.false_deaths);
    println!("| largest datagram, unsigned | {} |", planet.largest_datagram);
}
