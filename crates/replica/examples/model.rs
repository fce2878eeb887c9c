//! Explores models of replication that are larger than those of the tests:
//! `cargo run --release -p replica --example model [seconds for each]`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "it is a check, and fails as one"
)]

#[path = "../tests/app/mod.rs"]
mod app;
#[path = "../tests/model/configurations.rs"]
mod configurations;
#[path = "../tests/model/explore.rs"]
mod explore;
#[path = "../tests/convergence/rule.rs"]
mod rule;
#[path = "../tests/model/steps.rs"]
mod steps;
#[path = "../tests/model/world.rs"]
mod world;

use std::time::Duration;

fn main() {
    let limit = std::env::args().nth(1).map(|seconds| Duration::from_secs(seconds.parse().unwrap()));
    for (name, sites) in configurations::small().into_iter().chain(configurations::large()) {
        let explored = explore::explore(name, sites, limit);
        println!("{name}: {explored:?}");
    }
}
