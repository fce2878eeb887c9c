//! Replicated resources: what a site records of them, and what it executes so that all sites end equal.
//!
//! A [`Machine`] is one site. It is pure: [`Event`]s in, [`Effect`]s out, with no socket, clock, task or
//! randomness. The mesh drives it:
//!
//! ```text
//! Machine::restore(here, settings, every record that was persisted)
//! machine.start(now, a random number, &mut effects)
//! loop { carry out the effects, in order; machine.on(now, what happened next, &mut effects) }
//! ```
//!
//! **What follows an [`Effect::Persist`] is carried out once that is durable**, and not before: so an
//! operation is recorded before it is executed, an execution before its outcome counts, and what came from
//! a peer before it is confirmed. A crash loses nothing but effects that were not carried out, and
//! [`Machine::start`] takes up from the records alone.
//!
//! # The walk of one operation
//!
//! A client adds 13 to a register at Site1; its replicas are at Site1 and Site2.
//!
//! 1. [`Event::Accept`] at Site1 (`accept`): the level is one that is served, the resource exists. The
//!    operation gets its identity, its stamp (`clock`), and what it has seen (`version`): what was executed
//!    at Site1 by now.
//! 2. `Persist` (`record`): the operation, and that it is about to be executed. At `@weak` the client is
//!    answered now.
//! 3. [`Effect::Execute`] (`execute`), with the sender's token: the first execution decides. A 4xx is the
//!    client's answer, the operation is withdrawn, and no other site hears of it. A 5xx or no answer leaves
//!    it in doubt: repeated, probed, or shown to the operator, as its kind says.
//! 4. It was executed: `Persist`, then the client's [`Effect::Answer`], then [`Effect::Send`] to Site2
//!    (`deliver`), again and again until Site2 confirms.
//! 5. [`Event::Received`] at Site2: known already, or before one that it has seen: dropped, it comes again.
//!    Else `Persist`, then the confirmation that it is recorded.
//! 6. `resource` at Site2 takes one operation at a time and compares what the service has with what the rule
//!    gives (`converge`): nothing to execute, this operation, or a replace and every add that counts again.
//!    `Persist`, [`Effect::Execute`] with Site2's own credential, `Persist`, and the confirmation that it is
//!    executed. A refusal here is a divergence: the replica is not read until it was copied anew (`moving`).
//! 7. Every replica has confirmed that it executed it, and whatever is still under way has seen it: it is
//!    forgotten, and its body erased.
//!
//! # What looks after that
//!
//! `runs`: each start is a new run, so that nothing is called the same twice. `restored`: a site whose records were put back
//! finds that out by what the others have of it, and compares its replicas before it uses them. `survey` finds in the background
//! what two sites do not know alike, and has a few services read at a time; `compare` and `standing` say which
//! replica is good, and repair the one that is not.
//!
//! A resource about which nothing goes on is kept packed (`shelf`, `pack`), and opened by what happens to it.
//!
//! # The walk of one ordered operation
//!
//! A client sets a register at `@quorum` at Site1; its replicas are at Site1, Site2 and Site3; Site2 leads.
//!
//! 1. [`Event::Accept`] at Site1 (`ordered/write`): [`Reply::Elsewhere`]; the mesh hands the request to Site2.
//! 2. There it gets a place in the log of the three sites (the crate `order`, inside this machine): `Persist`,
//!    then [`Message::Order`] to the others, with the body ([`Machine::bodies`]). [`Timer::Order`] is the log's
//!    clock.
//! 3. A majority has it: it is committed, and stands in the resource's queue at each site. At `@strong`
//!    Site2 waits until all three have it in theirs.
//! 4. Site2 executes it (`ordered/take`), with the sender's token. What its service said is the verdict, and
//!    gets a place in the log as well. A 4xx: nobody executes it.
//! 5. The verdict is committed: the others execute it, with their own credentials, and say so
//!    ([`Message::Done`]). Two of three have: the client's [`Effect::Answer`]; at `@strong`, all.
//! 6. A client reads (`ordered/read`): [`Event::Read`], [`Effect::Read`] when the replica here may be read,
//!    [`Event::HasRead`], and [`Reply::Current`] when what was read may be told.

mod accept;
mod clock;
mod compare;
pub mod converge;
mod deliver;
mod entry;
mod epoch;
mod event;
mod execute;
mod few;
mod machine;
mod making;
mod map;
mod moving;
mod operation;
pub mod order;
mod ordered;
mod pack;
mod record;
mod resource;
mod restore;
mod restored;
mod runs;
mod shelf;
mod standing;
mod status;
mod survey;
mod version;

pub use clock::{Clock, Skew, Stamp};
pub use epoch::Epoch;
pub use event::{Authority, Effect, Event, Line, Message, Outcome, Reply, Subject, Ticket, Timer, Write};
pub use machine::{Machine, Settings};
pub use making::Making;
pub use map::{Change, Naming, ReplicaMap, Unchangeable};
pub use operation::{Body, Class, Doubt, Field, Level, LocalId, Meta, NoOperation, OpId, Operation, Who};
pub use ordered::{Copied, Listed, Queue, Recollection, Ruling, Tried, Turn};
pub use record::{Condition, Key, Record, Refusal, Running, Stage, Unreadable};
pub use resource::{Execution, How, Progress, Pruned, Resource, Snapshot, Step};
pub use restore::Restoring;
pub use restored::{Lineage, Mark};
pub use standing::{Content, Digest, Standing, Verdict, verdict};
pub use status::{Fulfilment, Status, Waiting};
pub use version::Version;
