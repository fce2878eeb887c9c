//! An ordinary application, and a link to run it over: what demonstrations, whole-system tests and
//! benchmarks put a mesh in front of.
//!
//! Two services, in the manner of OpenStack: [`image`] stores blobs, and [`compute`] makes servers from
//! them by asking `image`. A third, [`records`], stores documents, under ids as applications make them. [`wan`] is a TCP link with delay, jitter and bandwidth that can be cut.
//!
//! Invariant: the application knows nothing of sites, scopes or meshes. It is configured with the
//! address of the service that it calls, and passes trace context on as any traced application does.
//!
//! In the order in which a request meets them: `server` (connections, and [`Fault`]s on demand), `http`
//! (what the services share), [`image`] and [`compute`], `counts` (what was executed, for tests).

mod clock;
pub mod compute;
mod counts;
mod faults;
mod http;
mod id;
pub mod image;
pub mod records;
mod server;
mod trace;
pub mod wan;

pub use counts::{Counts, Write};
pub use faults::{Fault, Faults};
pub use http::Body;
pub use image::Blob;
pub use server::{App, Common, Handle, serve};
