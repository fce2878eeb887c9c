//! Waiting before a session is run again, without a runtime's timers: a thread of its own, started when needed.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// The longest wait, in units of the first.
const LONGEST: u32 = 100;

type Alarm = (Instant, oneshot::Sender<()>);

/// A clock that wakes sessions.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    thread: Mutex<Option<Sender<Alarm>>>,
}

impl Backoff {
    /// Waits before attempt number `attempt`. The second begins at once.
    pub(crate) async fn before(&self, attempt: u32, base: Duration) {
        if attempt <= 2 || base.is_zero() {
            return;
        }
        let doubled = 1u32.checked_shl(attempt - 2).unwrap_or(LONGEST).min(LONGEST);
        self.pause(base.saturating_mul(doubled).mul_f64(random_fraction())).await;
    }

    async fn pause(&self, wait: Duration) {
        let (alarm, wake) = oneshot::channel();
        let sent = {
            let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
            thread.get_or_insert_with(start).send((Instant::now() + wait, alarm))
        };
        // Without a thread there is no wait: the session runs again at once, which is right, only less polite.
        if sent.is_ok() {
            drop(wake.await);
        }
    }
}

fn start() -> Sender<Alarm> {
    let (alarms, queue) = mpsc::channel::<Alarm>();
    let run = move || {
        let mut waiting: BTreeMap<(Instant, u64), oneshot::Sender<()>> = BTreeMap::new();
        let mut count = 0;
        loop {
            let next = match waiting.first_key_value() {
                Some(((at, _), _)) => queue.recv_timeout(at.saturating_duration_since(Instant::now())),
                None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match next {
                Ok((at, alarm)) => {
                    count += 1;
                    waiting.insert((at, count), alarm);
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some((_, alarm)) = waiting.pop_first() {
                        let _ = alarm.send(());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    };
    drop(std::thread::Builder::new().name("store-backoff".to_owned()).spawn(run));
    alarms
}

/// Between 0 and 1: two sessions that met must not meet again.
fn random_fraction() -> f64 {
    let bits = u32::try_from(RandomState::new().hash_one(0u8) >> 32).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX)
}
