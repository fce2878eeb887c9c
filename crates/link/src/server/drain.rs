//! Letting requests in flight finish before a stop.

use tokio::sync::watch;

/// Starts a drain. Dropping it starts nothing.
#[derive(Debug)]
pub struct Drain(watch::Sender<bool>);

/// Waits for a drain; give a copy to every server that should take part.
#[derive(Clone, Debug)]
pub struct Draining(watch::Receiver<bool>);

impl Drain {
    /// A handle to start a drain, and what waits for it.
    #[must_use]
    pub fn new() -> (Drain, Draining) {
        let (sender, receiver) = watch::channel(false);
        (Drain(sender), Draining(receiver))
    }

    /// Accept nothing more, finish what is in flight.
    pub fn start(&self) {
        self.0.send_replace(true);
    }
}

impl Draining {
    /// Whether it has.
    #[must_use]
    pub fn has_started(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns once the drain has started.
    pub async fn started(&mut self) {
        if self.0.wait_for(|started| *started).await.is_err() {
            // The handle is gone: nobody can start it any more.
            std::future::pending::<()>().await;
        }
    }
}
