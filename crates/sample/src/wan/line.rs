//! Bytes under way in one direction of one connection: a queue in the order of arrival.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

/// What a parcel counts for besides its bytes, so that many small ones are bounded too.
const PARCEL_BYTES: usize = 64;

/// What crosses a link.
#[derive(Debug)]
pub(super) enum Load {
    Bytes(Box<[u8]>),
    /// The sender has no more to say.
    End,
    /// The sender's connection broke.
    Broken,
}

#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) arrival: Instant,
    pub(super) load: Load,
}

/// The queue. One task fills it and one empties it.
#[derive(Debug, Default)]
pub(super) struct Line {
    state: Mutex<State>,
    filled: Notify,
    emptied: Notify,
}

#[derive(Debug, Default)]
struct State {
    parcels: VecDeque<Parcel>,
    /// Of the parcels, and of the one that was taken and is not delivered yet.
    bytes: usize,
}

impl Line {
    /// Waits until less than the window is under way. The window is asked for again each time, because
    /// the link may change.
    pub(super) async fn room(&self, window_bytes: impl Fn() -> usize) {
        while self.lock().bytes >= window_bytes() {
            self.emptied.notified().await;
        }
    }

    pub(super) fn push(&self, parcel: Parcel) {
        let mut state = self.lock();
        state.bytes += cost(&parcel.load);
        state.parcels.push_back(parcel);
        drop(state);
        self.filled.notify_one();
    }

    /// Takes the next parcel, when there is one.
    pub(super) async fn take(&self) -> Parcel {
        loop {
            if let Some(parcel) = self.lock().parcels.pop_front() {
                return parcel;
            }
            self.filled.notified().await;
        }
    }

    /// Says that a parcel that was taken arrived, and counts no more.
    pub(super) fn delivered(&self, load: &Load) {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(cost(load));
        drop(state);
        self.emptied.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cost(load: &Load) -> usize {
    let bytes = match load {
        Load::Bytes(bytes) => bytes.len(),
        Load::End | Load::Broken => 0,
    };
    PARCEL_BYTES + bytes
}
