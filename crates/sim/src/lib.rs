//! Many sites of Archipel in one thread: the real data plane, keepers, links and stores, over a network, a disk, a clock
//! and services that are simulated, and that fail as a seed says. One number replays a run to the byte.
//!
//! In the order in which a run meets them: `schedule` (what clients do and what breaks, made of the seed), `run` (the
//! scheduler of a run), `isle` (one site), `membership` (what it knows of the others), `revocation` (one that is shut out), `versions` (which it speaks to them), `world`, `network`, `disk`, `platter` and `app` (what is outside of it), `client`, `content`,
//! `invariants` and `linear` (what must hold), `minimise` (the shortest schedule that still fails), `trace`.
//! `docs/decisions/0010-simulation.md` says why it is so.
#![cfg(feature = "simulation")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "what cannot be is a fault of the simulator: the run ends there, and its seed is known"
)]

pub mod app;
pub mod chance;
pub mod client;
pub mod content;
pub mod disk;
pub mod invariants;
pub mod isle;
pub mod linear;
pub mod membership;
pub mod minimise;
pub mod network;
pub mod platter;
pub mod revocation;
pub mod run;
pub mod schedule;
pub mod trace;
pub mod versions;
pub mod world;
