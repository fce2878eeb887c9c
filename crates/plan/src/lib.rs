//! Running a plan: which sites are asked now, which answer wins, what is cancelled.
//!
//! A [`Run`] carries out one [`scope::Plan`] for one request. It is pure: [`Event`]s in, [`Effect`]s out,
//! with no socket, clock, task or randomness. The mesh drives it:
//!
//! ```text
//! Run::new(plan, request, rules, knowledge)   or Refused: nothing was asked of any site
//! run.start(&mut effects)
//! loop { carry out the effects; run.on(what happened next, &mut effects) }
//! until Effect::Answer, Effect::Merge or Effect::Fail, which is the last effect
//! ```
//!
//! **A leg** is one request to one site, or one write to a set of replicas. It ends by [`Event::Failed`], [`Effect::Cancel`],
//! [`Effect::Answer`] or [`Effect::Merge`]; a probe also by [`Event::Answered`], since only its status
//! counts.
//!
//! **A write never runs twice.** It is at one site at a time, and goes to another only where the one
//! before provably did not execute. Whether a leg was sent is known to the driver alone, so a write that
//! ran out of time is cancelled and then *waited for*: the driver follows each [`Effect::Cancel`] with an
//! [`Event::Failed`] for that leg, which says whether any of it may have been sent.
//!
//! **A list of several sites** is asked for at all of them at once. The run says whose answers are merged
//! and whether one is missing; the driver reads the bodies, and merges them as the profile says.
//!
//! **A write to several sites** (`&`) is one leg too: the driver hands it to the nearest of them, and replication
//! does the rest. So it is tried, given up and answered for as a leg to one site is.
//!
//! **What cannot be reached is not asked.** It has failed before its turn costs any time, and is in the
//! report all the same.
//!
//! In the order in which a request meets them: `request` (what is asked, what is refused), `build` and
//! `tree` (the plan as nodes, nearest first), `event`, `run` (events to nodes), `operators` (what each
//! node does), `merge` (the same for lists of several sites), `replicas` (for writes to several), `answer`, `verdict` (what a status means),
//! `leg`, `report`. Beside them, for the driver: `pace` and `budget`, which say when a read is hedged and
//! how often.

mod answer;
mod budget;
mod build;
mod event;
mod leg;
mod merge;
mod operators;
mod pace;
mod replicas;
mod report;
mod request;
mod run;
mod tree;
mod verdict;

pub use answer::Answer;
pub use budget::Budget;
pub use event::{Effect, Event, Failure, Finding, Leg, Sent, Timer, Why};
pub use pace::Pace;
pub use replicas::{confirms, is_in as replicates};
pub use report::{Asked, Said};
pub use request::{Knowledge, Reach, Refused, Request, Rules};
pub use run::Run;
