//! Faults of a round, drawn from its seed, and their end.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::client::now;
use crate::namespace::{Networks, SITES};
use crate::random::Random;
use crate::service::Mood;
use crate::site::{Site, name};

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The mesh is killed, and starts again at the end.
    KillMesh(usize),
    /// The mesh is killed, and starts again at the end with an old copy of its state.
    Restore(usize),
    /// The mesh is stopped, and goes on at the end.
    Pause(usize),
    /// Packets from the first to the second site are dropped.
    CutOneWay(usize, usize),
    /// Packets between two sites are dropped.
    Cut(usize, usize),
    /// Packets between a site and all others are dropped.
    Blackhole(usize),
    /// The service is killed, and starts again at the end.
    KillService(usize),
    /// The service fails.
    Ill(usize, Mood),
}

impl Fault {
    /// A word to count it by.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Fault::KillMesh(_) => "kill",
            Fault::Restore(_) => "restore",
            Fault::Pause(_) => "pause",
            Fault::CutOneWay(..) => "one-way cut",
            Fault::Cut(..) => "cut",
            Fault::Blackhole(_) => "blackhole",
            Fault::KillService(_) => "service down",
            Fault::Ill(..) => "service ill",
        }
    }

    /// The pairs of sites between which it drops packets, sender first.
    fn cuts(&self) -> Vec<(usize, usize)> {
        match *self {
            Fault::CutOneWay(from, to) => vec![(from, to)],
            Fault::Cut(one, other) => vec![(one, other), (other, one)],
            Fault::Blackhole(site) => {
                let others = (0..SITES).filter(|other| *other != site);
                others.flat_map(|other| [(site, other), (other, site)]).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The site whose own processes it concerns.
    pub(crate) fn site(&self) -> Option<usize> {
        match *self {
            Fault::KillMesh(site)
            | Fault::Restore(site)
            | Fault::Pause(site)
            | Fault::KillService(site)
            | Fault::Ill(site, _) => Some(site),
            Fault::CutOneWay(..) | Fault::Cut(..) | Fault::Blackhole(_) => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        match self {
            Fault::CutOneWay(from, to) => write!(f, "{kind} {} > {}", name(*from), name(*to)),
            Fault::Cut(one, other) => write!(f, "{kind} {} - {}", name(*one), name(*other)),
            Fault::Ill(site, mood) => write!(f, "{kind} {} {mood:?}", name(*site)),
            Fault::KillMesh(site)
            | Fault::Restore(site)
            | Fault::Pause(site)
            | Fault::Blackhole(site)
            | Fault::KillService(site) => write!(f, "{kind} {}", name(*site)),
        }
    }
}

/// A fault that was.
#[derive(Clone, Debug)]
pub(crate) struct Injected {
    pub(crate) fault: Fault,
    /// Microseconds of the wall clock.
    pub(crate) from: u64,
    /// When it was over, and what it had stopped ran again.
    pub(crate) to: u64,
}

/// The faults of a round.
pub(crate) struct Nemesis<'n> {
    random: Random,
    networks: &'n Networks,
    restores: bool,
    active: Vec<(Injected, Instant)>,
    over: Vec<Injected>,
}

impl<'n> Nemesis<'n> {
    pub(crate) fn new(seed: u64, networks: &'n Networks, restores: bool) -> Nemesis<'n> {
        Nemesis { random: Random::new(seed, 1), networks, restores, active: Vec::new(), over: Vec::new() }
    }

    /// Injects faults until a moment, at most two at once, then ends them all.
    pub(crate) async fn run(mut self, sites: &mut [Site], until: Instant) -> io::Result<Vec<Injected>> {
        let mut next = Instant::now() + Duration::from_millis(self.random.between(200..=800));
        while Instant::now() < until {
            let now = Instant::now();
            let (ended, lasting) = self.active.drain(..).partition(|(_, end)| *end <= now);
            self.active = lasting;
            for (injected, _) in ended {
                self.end(injected, sites).await?;
            }
            if now >= next && self.active.len() < 2 {
                let fault = self.draw();
                // One at a time at each place.
                if self
                    .active
                    .iter()
                    .all(|(other, _)| other.fault.site() != fault.site() || fault.site().is_none())
                {
                    self.begin(fault, sites).await?;
                }
                next = now + Duration::from_millis(self.random.between(600..=2_500));
            }
            sleep(Duration::from_millis(20)).await;
        }
        for (injected, _) in std::mem::take(&mut self.active) {
            self.end(injected, sites).await?;
        }
        self.cut()?;
        Ok(self.over)
    }

    fn draw(&mut self) -> Fault {
        let site = usize::try_from(self.random.between(0..=2)).unwrap_or(0);
        let other = (site + 1 + usize::from(self.random.percent(50))) % SITES;
        match self.random.between(0..=99) {
            0..=9 if self.restores => Fault::Restore(site),
            0..=21 => Fault::KillMesh(site),
            22..=33 => Fault::Pause(site),
            34..=45 => Fault::CutOneWay(site, other),
            46..=53 => Fault::Cut(site, other),
            54..=65 => Fault::Blackhole(site),
            66..=77 => Fault::KillService(site),
            _ => Fault::Ill(site, self.draw_mood()),
        }
    }

    /// One or two failures of a service.
    fn draw_mood(&mut self) -> Mood {
        let mut mood = Mood::default();
        for _ in 0..self.random.between(1..=2) {
            let often = self.random.between(15..=50);
            match self.random.between(0..=5) {
                0 => mood.fails = often,
                1 => mood.fails_after = often,
                2 => mood.slow = often,
                3 => mood.mute = often,
                4 => mood.mute_after = often,
                _ => mood.loses_answer = often,
            }
        }
        mood
    }

    async fn begin(&mut self, fault: Fault, sites: &mut [Site]) -> io::Result<()> {
        let lasts = Duration::from_millis(self.random.between(500..=5_000));
        let from = now();
        if let Some(site) = fault.site().and_then(|site| sites.get_mut(site)) {
            match &fault {
                Fault::KillMesh(_) => site.kill_mesh()?,
                Fault::Restore(_) => {
                    site.kill_mesh()?;
                    site.restore()?;
                }
                Fault::Pause(_) => site.pause_mesh(true)?,
                Fault::KillService(_) => site.kill_service()?,
                Fault::Ill(_, mood) => site.set_mood(*mood).await?,
                Fault::CutOneWay(..) | Fault::Cut(..) | Fault::Blackhole(_) => {}
            }
        }
        let cuts = !fault.cuts().is_empty();
        self.active.push((Injected { fault, from, to: from }, Instant::now() + lasts));
        if cuts { self.cut() } else { Ok(()) }
    }

    async fn end(&mut self, mut injected: Injected, sites: &mut [Site]) -> io::Result<()> {
        if let Some(site) = injected.fault.site().and_then(|site| sites.get_mut(site)) {
            match injected.fault {
                Fault::KillMesh(_) | Fault::Restore(_) => site.start_mesh(self.networks).await?,
                Fault::Pause(_) => site.pause_mesh(false)?,
                Fault::KillService(_) => site.start_service(self.networks).await?,
                Fault::Ill(..) => site.set_mood(Mood::default()).await?,
                Fault::CutOneWay(..) | Fault::Cut(..) | Fault::Blackhole(_) => {}
            }
        }
        if !injected.fault.cuts().is_empty() {
            self.cut()?;
        }
        injected.to = now();
        self.over.push(injected);
        Ok(())
    }

    fn cut(&self) -> io::Result<()> {
        let pairs: BTreeSet<_> = self.active.iter().flat_map(|(injected, _)| injected.fault.cuts()).collect();
        self.networks.cut(&pairs)
    }
}
