//! One order of entries for each set of sites, agreed on by a majority of them.
//!
//! [`Orders`] is one site, with all the groups that it is in. It is pure: [`Event`]s in, [`Effect`]s out,
//! with no socket, clock, task or randomness. What agrees is a library, `OmniPaxos` (`group`); this crate
//! gives it what it asks for:
//!
//! - **durable logs** (`log`, `record`): one call gives at most one [`Effect::Persist`], first, and what
//!   follows it is carried out once that is durable;
//! - **links** on which messages come once and in order, or are known to be lost (`link`);
//! - **an end to waiting**: where no majority is heard, a proposal is refused after
//!   [`Settings::patience`] ticks, and nothing was ordered.
//!
//! # The walk of one entry
//!
//! 1. [`Event::Propose`]. The site leads the group, and hears a majority: the entry has a place in its log.
//!    Another leads: refused, with its name; whoever proposes goes there. An election is under way: it
//!    waits.
//! 2. `Persist`, then the entry goes to the others; each makes it durable, and says so.
//! 3. A majority has it: [`Effect::Committed`] here, with its ticket, and soon at every other site, in one
//!    order. Each site is given each entry once; what it makes of it is to be durable with the `Persist` of
//!    the same call.
//! 4. The leader changed meanwhile, and another entry was committed at its place: [`Refusal::Overtaken`].
//!    It never had an effect, and never will.
//! 5. Every member was given it: it leaves the log.
//!
//! A site whose records were put back takes part in nothing until it is readmitted (`readmission`).
//!
//! A read that must not be stale ([`Event::Confirm`]) is a mark in the same order: what was committed before
//! it was asked for is before the mark.

mod agreement;
mod group;
mod id;
mod link;
mod log;
mod message;
mod orders;
mod readmission;
mod record;

pub use id::GroupId;
pub use message::Message;
pub use orders::{Effect, Event, Needs, Orders, Refusal, Settings, Ticket};
pub use readmission::Testimony;
pub use record::{Key, Record, Unreadable};
