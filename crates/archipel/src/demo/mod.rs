//! `archipel demo`: three sites on this machine, a sample application at each, and a network between them
//! that can be slow and can break.

mod client;
mod scenarios;
mod world;

pub use client::{Answer, Client};
pub use scenarios::{SCENARIOS, Scenario, Story};
pub use world::{SITES, World};
