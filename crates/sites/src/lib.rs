//! Which sites there are: membership by gossip, distances, and what each site says of itself.
//!
//! A [`Machine`] is one site's part in it. It is pure: [`Event`]s in, [`Effect`]s out, with the time and a
//! seed passed in, so that a planet of sites runs in one test. The driver carries datagrams, each signed by
//! its sender's identity, and exchanges of whole states over the link:
//!
//! ```text
//! Machine::new(own, config, seed, now)
//! loop { machine.on(what happened, now, &mut effects); carry out the effects }
//! machine.answer(…)     when another site asks to exchange states
//! machine.snapshot()    after Effect::Changed: what plans and people see
//! ```
//!
//! It is SWIM with Lifeguard's suspicion: each site probes the others in turn, asks some to probe for it
//! before it suspects one, and a suspected site has some seconds to object. What is new is passed on at once.
//! What got lost is mended by exchanges of whole states, of which only differences travel.
//!
//! **What is said of a site carries its version**: `epoch` is the start of its process, and counts up with
//! it. Within an epoch, `version` counts its records, `refuted` the times it objected, `tick` its vitals.
//! An old or repeated message says nothing new, and has no effect.
//!
//! In the order in which a datagram meets them: `event`, `wire` (bytes), `machine` (what comes in), `merge`
//! (what others say), `members` (the table), `probe`, `suspicion`, `gossip` (what goes out), `sync`,
//! `registers` (zones, quarantine, revocations), `zones`, `coordinate`, `snapshot`.

mod config;
mod coordinate;
mod event;
mod gossip;
mod kept;
mod machine;
mod members;
mod merge;
mod probe;
mod record;
mod registers;
mod rng;
mod snapshot;
mod suspicion;
mod sync;
mod timers;
mod wire;
mod zones;

pub use config::Config;
pub use coordinate::Coordinate;
pub use event::{Effect, Event, Notice, Time};
pub use kept::kept_statements;
pub use machine::Machine;
pub use record::{Fingerprint, Identity, Metrics, Own, Record, Says, TooLarge};
pub use registers::Stamp;
pub use snapshot::{Reach, Seen, Snapshot, Status};
pub use wire::DATAGRAM_BYTES;
