//! What is measured on the planet.

use std::time::Duration;

use scope::{Site, View};
use sites::{Event, Time};

use super::{Planet, Watch, name, own};

/// How long it took until a share of the sites knew, and until all did.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub most: Time,
    pub all: Time,
    /// Sites that never heard.
    pub missing: usize,
}

impl Planet {
    pub fn watch(&mut self, site: u32) {
        self.watch.insert(site, Watch { since: self.now, ..Watch::default() });
    }

    /// What became of a watched site's news; those that do not run do not count.
    pub fn spread(&mut self, site: u32) -> Spread {
        let watch = self.watch.remove(&site).unwrap();
        let up: Vec<u32> = self.up().filter(|one| *one != site).collect();
        let mut times: Vec<Time> = up
            .iter()
            .filter_map(|one| watch.heard.get(one))
            .map(|at| at.saturating_sub(watch.since))
            .collect();
        times.sort();
        let missing = up.len() - times.len();
        let most = times.get(times.len() * 99 / 100).copied().unwrap_or(Time::MAX);
        let all = if missing > 0 { Time::MAX } else { times.last().copied().unwrap_or(Time::MAX) };
        Spread { most, all, missing }
    }

    /// A new site joins through one that runs.
    pub fn join(&mut self, site: u32) {
        let seed = self.random_up();
        self.start(site, own(site));
        self.watch(site);
        self.on(site, Event::Join { addresses: vec![format!("s{seed}:7400").into()] });
    }

    pub fn leave(&mut self, site: u32) {
        self.watch(site);
        self.on(site, Event::Leave);
    }

    /// How far distances are off that one site estimates between others, as sorted fractions.
    pub fn distance_errors(&self, pairs: usize) -> Vec<f64> {
        let mut rng = super::Rng(7);
        let up: Vec<u32> = self.up().collect();
        let observers: Vec<_> = (0..8).map(|_| self.machine(up[rng.below(up.len())]).snapshot()).collect();
        let mut errors = Vec::new();
        while errors.len() < pairs {
            let (a, b) = (up[rng.below(up.len())], up[rng.below(up.len())]);
            if a == b {
                continue;
            }
            let view = &observers[rng.below(observers.len())];
            let find = |site: u32| view.find(&name(site));
            let estimate = find(a).zip(find(b)).and_then(|(a, b)| view.rtt(a, b));
            let truth = self.rtt_ms(a, b);
            let off = estimate.map_or(1.0, |rtt| (rtt.as_secs_f64() * 1e3 - truth).abs() / truth);
            errors.push(off);
        }
        errors.sort_by(f64::total_cmp);
        errors
    }

    /// Whether every site that runs believes exactly those that run to be alive.
    pub fn agree(&self) -> bool {
        let up: Vec<Site> = self.up().map(|site| Site::new(&name(site)).unwrap()).collect();
        self.up().all(|site| {
            let view = self.machine(site).snapshot();
            let alive = view.all().filter(|seen| seen.status == sites::Status::Alive);
            alive.map(|seen| seen.record.site.clone()).eq(up.iter().cloned())
        })
    }

    /// Bytes that a site sent in a second, on average, since counting began.
    pub fn bytes_per_second(&self, since: Time) -> f64 {
        let seconds = self.now.saturating_sub(since).as_secs_f64();
        (self.sent_bytes + self.synced_bytes) as f64 / seconds / self.up().count() as f64
    }

    pub fn reset_counts(&mut self) -> Time {
        (self.sent_bytes, self.synced_bytes, self.datagrams) = (0, 0, 0);
        self.now
    }
}

/// The value that this share of them is at most.
pub fn percentile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let at = ((sorted.len() as f64 * share).ceil() as usize).saturating_sub(1);
    sorted.get(at).copied()
}

pub fn ms(time: Duration) -> String {
    if time == Time::MAX { "never".into() } else { format!("{} ms", time.as_millis()) }
}
