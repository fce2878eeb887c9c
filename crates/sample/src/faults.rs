//! Faults on demand: a service that is slow, broken or silent, for as long as a test wants it so.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// What is wrong with a service.
///
/// Where the fault strikes decides what the client may conclude, so there is one on each side of the
/// execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// Requests are executed, and answered this much later.
    Slow(Duration),
    /// Requests are answered with 503, and not executed.
    Unavailable,
    /// Requests are held, and not executed until the fault is changed.
    Hang,
    /// Requests are executed, and the answer is held until the fault is changed: the client cannot know.
    Mute,
}

/// The faults of one running service, settable while it runs. Clones set the same service.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    fault: watch::Sender<Fault>,
    held: watch::Sender<usize>,
}

impl Faults {
    /// Sets the fault, also for requests that are held by the one before.
    pub fn set(&self, fault: Fault) {
        self.0.fault.send_replace(fault);
    }

    /// The fault now.
    #[must_use]
    pub fn get(&self) -> Fault {
        *self.0.fault.borrow()
    }

    /// Waits until at least `count` requests are held, by [`Fault::Hang`] or [`Fault::Mute`]: so that a
    /// test acts when the request is where it wants it.
    pub async fn until_held(&self, count: usize) {
        // It ends with the channel at the latest, which `self` keeps open.
        let _ = self.0.held.subscribe().wait_for(|held| *held >= count).await;
    }

    /// Holds a request while the fault is this one.
    pub(crate) async fn hold(&self, while_fault: Fault) {
        if self.get() != while_fault {
            return;
        }
        let _held = Held::new(&self.0.held);
        let _ = self.0.fault.subscribe().wait_for(|fault| *fault != while_fault).await;
    }
}

/// Counts a held request, also one whose client goes away.
struct Held<'a>(&'a watch::Sender<usize>);

impl Held<'_> {
    fn new(held: &watch::Sender<usize>) -> Held<'_> {
        held.send_modify(|count| *count += 1);
        Held(held)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}
