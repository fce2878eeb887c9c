//! What a pool may use.

use std::net::IpAddr;
use std::time::Duration;

/// What a pool may use, per core and per peer.
#[derive(Clone, Debug)]
pub struct Settings {
    /// HTTP/2 connections kept open to a peer. Two: a lost packet holds up one of them only.
    pub warm: usize,
    /// With more peers than this, each is connected to when it is first used only.
    pub warm_peers: usize,
    /// How long such a peer's connections are kept without a request.
    pub warm_timeout: Duration,
    /// The address that connections come from, where a machine has several; else the system chooses.
    pub source: Option<IpAddr>,
    /// Requests in flight, of both lanes, until the end of their answers.
    pub in_flight: usize,
    /// Requests in flight on the long lane, each on a connection of its own.
    pub long: usize,
    /// Connections of the long lane kept open without a request; one of them is made beforehand.
    pub long_idle: usize,
    /// How long they are kept; shorter than the peer keeps them, or requests meet a closing connection.
    pub long_idle_timeout: Duration,
    /// What the peer may send before it is read, of one answer.
    pub stream_window_bytes: u32,
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
    /// How often a peer is sent a tiny request, to measure it and to see that it answers.
    pub probe_interval: Duration,
    /// Time for its answer; after that requests fail at once, until it comes.
    pub probe_timeout: Duration,
    /// The longest wait after a first failure to connect.
    pub backoff_min: Duration,
    /// The longest wait between two attempts.
    pub backoff_max: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            warm: 2,
            warm_peers: 32,
            warm_timeout: Duration::from_mins(5),
            source: None,
            in_flight: 1024,
            long: 64,
            long_idle: 4,
            long_idle_timeout: Duration::from_secs(45),
            // A reader that stops holds up its own answer, and not the connection's fifteen others.
            // 4 MiB are 50 ms at 670 Mbit/s.
            stream_window_bytes: 4 << 20,
            window_bytes: 64 << 20,
            header_bytes: 64 << 10,
            connect_timeout: Duration::from_secs(3),
            handshake_timeout: Duration::from_secs(5),
            ping_interval: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(5),
            probe_interval: Duration::from_secs(5),
            probe_timeout: Duration::from_secs(3),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(10),
        }
    }
}

/// Between the attempts of many that were told at once that a peer is back.
const HURRY_JITTER: Duration = Duration::from_millis(50);

impl Settings {
    /// The wait after a failure, when the one before it was so long. By chance, between the shortest and
    /// three times the one before: cores and sites that lost a peer together soon come back at times that
    /// have nothing to do with each other, however long it was away.
    pub(super) fn wait_after(&self, before: Duration) -> Duration {
        let (min, max) = (self.backoff_min.min(self.backoff_max), self.backoff_max);
        if before.is_zero() { between(min / 2, min) } else { between(min, before.saturating_mul(3).min(max)) }
    }

    /// What to wait although there is hurry.
    pub(super) fn hurry_jitter(&self) -> Duration {
        between(Duration::ZERO, HURRY_JITTER.min(self.backoff_max))
    }

    /// The wait before the next probe: not in step with those of other cores.
    pub(super) fn probe_wait(&self) -> Duration {
        between(self.probe_interval.mul_f64(0.75), self.probe_interval)
    }
}

/// A wait between these two, by chance. Without randomness it is only less spread.
fn between(least: Duration, most: Duration) -> Duration {
    let mut chance = [0; 4];
    let _ = outside::random(&mut chance);
    let chance = f64::from(u32::from_le_bytes(chance)) / f64::from(u32::MAX);
    least + most.saturating_sub(least).mul_f64(chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wait_is_short_and_the_longest_are_spread_below_their_cap() {
        let settings = Settings::default();
        let mut late = Vec::new();
        for _ in 0..200 {
            let mut wait = settings.wait_after(Duration::ZERO);
            assert!(wait >= settings.backoff_min / 2 && wait <= settings.backoff_min, "{wait:?}");
            for _ in 0..30 {
                let next = settings.wait_after(wait);
                assert!(next >= settings.backoff_min && next <= settings.backoff_max, "{next:?}");
                assert!(next <= wait * 3, "{wait:?} {next:?}");
                wait = next;
            }
            late.push(wait);
        }
        let (least, most) = (late.iter().min().unwrap(), late.iter().max().unwrap());
        assert!(*most > settings.backoff_max / 2 && *least * 2 < *most, "{least:?} to {most:?}");
    }
}
