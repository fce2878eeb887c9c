//! What is outside of a process: sockets, the time of day, chance.
//!
//! All of them are the system's. With the feature `sim`, a thread may have a world of its own instead (`world`), in
//! which a whole mesh runs as it is: `docs/decisions/0010-simulation.md`. Without the feature nothing is added:
//! the types are tokio's own.

pub mod net;
#[cfg(feature = "sim")]
pub mod world;

use std::time::SystemTime;

/// The time of day. It can be wrong, and it can jump.
#[must_use]
pub fn time_of_day() -> SystemTime {
    #[cfg(feature = "sim")]
    if let Some(world) = world::current() {
        return world.time_of_day();
    }
    SystemTime::now()
}

/// Fills bytes by chance. Once it has started, the system always has randomness: an error is not expected.
pub fn random(bytes: &mut [u8]) -> Result<(), getrandom::Error> {
    #[cfg(feature = "sim")]
    if let Some(world) = world::current() {
        world.random(bytes);
        return Ok(());
    }
    getrandom::fill(bytes)
}

/// Does what may wait for a disk on a thread for such things. In a world of its own it is done at once: what comes of it
/// must not depend on which thread is faster. Nothing, if it did not come to its end.
pub async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    #[cfg(feature = "sim")]
    if world::current().is_some() {
        return Some(work());
    }
    tokio::task::spawn_blocking(work).await.ok()
}
