//! Replicated resources: what a site records of them, and what it executes so that all sites end equal.
//!
//! Pure: no socket, clock, task or randomness. A [`Resource`] is one resource at one site; [`converge`] is
//! the rule of `@eventual` that it follows.

mod clock;
pub mod converge;
mod operation;
mod resource;
mod version;

pub use clock::{Clock, Skew, Stamp};
pub use operation::{Body, Class, Doubt, Field, Level, LocalId, Meta, OpId, Operation, Who};
pub use resource::{Execution, How, Progress, Pruned, Resource, Snapshot, Step};
pub use version::Version;
