//! hyper's tasks stay on the core that they were made on.

use std::future::Future;

use hyper::rt::Executor;

/// Spawns on the current `LocalSet`.
#[derive(Clone, Copy, Debug)]
pub struct Local;

impl<F> Executor<F> for Local
where
    F: Future + 'static,
    F::Output: 'static,
{
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}
