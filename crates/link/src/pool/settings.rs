//! What a pool may use.

use std::time::Duration;

/// What a pool may use, per core and per peer.
#[derive(Clone, Debug)]
pub struct Settings {
    /// HTTP/2 connections kept open to each peer. Two: a lost packet holds up one of them only.
    pub warm: usize,
    /// Requests in flight, of both lanes, until the end of their answers.
    pub in_flight: usize,
    /// Requests in flight on the long lane, each on a connection of its own.
    pub long: usize,
    /// Connections of the long lane kept open without a request; one of them is made beforehand.
    pub long_idle: usize,
    /// How long they are kept; shorter than the peer keeps them, or requests meet a closing connection.
    pub long_idle_timeout: Duration,
    /// What the peer may send before it is read, on one HTTP/2 connection.
    pub window_bytes: u32,
    /// Size of an answer's headers.
    pub header_bytes: u32,
    /// Time to find a peer's address and connect to it.
    pub connect_timeout: Duration,
    /// Time for the handshake, until the peer has accepted this site.
    pub handshake_timeout: Duration,
    /// How often a peer is asked whether it is there.
    pub ping_interval: Duration,
    /// Time for its answer.
    pub ping_timeout: Duration,
    /// The wait after a first failure to connect; doubled after each further one.
    pub backoff_min: Duration,
    /// The longest wait between two attempts.
    pub backoff_max: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            warm: 2,
            in_flight: 1024,
            long: 64,
            long_idle: 4,
            long_idle_timeout: Duration::from_secs(45),
            // 16 MiB are 300 ms at 450 Mbit/s.
            window_bytes: 16 << 20,
            header_bytes: 64 << 10,
            connect_timeout: Duration::from_secs(3),
            handshake_timeout: Duration::from_secs(5),
            ping_interval: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(5),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(10),
        }
    }
}

impl Settings {
    /// The wait after this many failures in a row: between half and all of it, by chance, so that sites
    /// which lost a peer together do not come back together.
    pub(super) fn backoff(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        let wait = self.backoff_min.saturating_mul(1 << doublings).min(self.backoff_max);
        // Without randomness the wait is only less spread.
        let chance = getrandom::u32().unwrap_or(0);
        wait.mul_f64(0.5 + 0.5 * f64::from(chance) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_grows_and_stays_below_its_cap() {
        let settings = Settings::default();
        for failures in 1..100 {
            let full =
                settings.backoff_min.saturating_mul(1 << (failures - 1).min(16)).min(settings.backoff_max);
            let wait = settings.backoff(failures);
            assert!(wait >= full / 2 && wait <= full, "{failures}: {wait:?}");
        }
    }
}
