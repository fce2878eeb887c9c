//! `archipel demo`: three sites on this machine, a sample application at each, and a network between them
//! that can be slow and can break; a fourth site joins them.

mod client;
mod ports;
mod replicas;
mod scenarios;
mod story;
mod together;
mod world;

pub use client::{Answer, Client};
pub use scenarios::{SCENARIOS, Scenario};
pub use story::Story;
pub use world::World;
