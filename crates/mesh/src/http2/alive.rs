//! Whether a client is still there: one that sends nothing for long is asked.

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::time::Duration;

use h2::{Ping, PingPong};
use tokio::time::{Instant, sleep_until, timeout};

/// When something was last heard of a client.
pub(super) struct Alive(Cell<Instant>);

impl Alive {
    pub(super) fn new() -> Alive {
        Alive(Cell::new(Instant::now()))
    }

    /// Something came.
    pub(super) fn heard(&self) {
        self.0.set(Instant::now());
    }

    /// Returns when a client has sent nothing for `idle`, was asked, and then sent nothing for `patience`.
    pub(super) async fn silence(&self, pings: Option<PingPong>, idle: Duration, patience: Duration) {
        let Some(mut pings) = pings else { return pending().await };
        loop {
            let last = self.0.get();
            sleep_until(last + idle).await;
            if self.0.get() > last {
                continue;
            }
            if pings.send_ping(Ping::opaque()).is_err() {
                // The connection is at its end, and says so itself.
                return pending().await;
            }
            let mut last = self.0.get();
            while timeout(patience, poll_fn(|context| pings.poll_pong(context))).await.is_err() {
                if self.0.get() == last {
                    return;
                }
                // What it sends may be long; the answer comes behind it.
                last = self.0.get();
            }
            self.heard();
        }
    }
}
