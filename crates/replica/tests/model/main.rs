//! Every state that a few sites can get into: the real machines, with any order of messages, lost and doubled
//! ones, a crash after any effect, cuts, and services that refuse or do not answer. `examples/model.rs`
//! explores more.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "the helpers of a test fail the test, as the test itself does"
)]

#[path = "../app/mod.rs"]
mod app;
mod configurations;
mod explore;
#[path = "../convergence/rule.rs"]
mod rule;
mod steps;
mod world;

#[test]
fn small_models_hold_in_every_state() {
    for (name, sites) in configurations::small() {
        let explored = explore::explore(name, sites, None);
        println!("{name}: {explored:?}");
        assert!(explored.complete && explored.states > 1_000, "{name}: {explored:?}");
    }
}
