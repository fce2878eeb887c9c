//! A disk in memory: it takes its time, is full, and forgets at a crash what it had not said was durable.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use store::Error;
use store::engine::memory::Memory;
use store::engine::{Answer, Commit, Direction, Engine, Outcome, Pair, Range, Snapshot};
use tokio::time::sleep;

use crate::chance::Chance;

/// How a disk does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// It takes what it is given.
    Good,
    /// It takes long.
    Slow,
    /// It takes nothing.
    Full,
}

/// A disk. It survives whoever uses it; cheap to clone.
#[derive(Clone)]
pub struct Disk(Arc<Mutex<State>>);

struct State {
    memory: Memory,
    chance: Chance,
    mood: Mood,
    /// Which run of its site uses it. Those before are gone.
    run: u64,
    /// What was asked for, and is not durable yet.
    pending: BTreeMap<u64, Commit>,
    asked: u64,
}

/// All that was durable at some time.
#[derive(Clone)]
pub struct Copy(Vec<Pair>);

/// What the answer of an engine in memory is, which is there at once.
fn now<T>(answer: Answer<T>) -> Result<T, Error> {
    let mut answer = pin!(answer);
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(Error::Closed),
    }
}

impl Disk {
    /// An empty one.
    #[must_use]
    pub fn new(chance: Chance) -> Disk {
        Disk(Arc::new(Mutex::new(State {
            memory: Memory::new(),
            chance,
            mood: Mood::Good,
            run: 0,
            pending: BTreeMap::new(),
            asked: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on it does so.
    pub fn set(&self, mood: Mood) {
        self.state().mood = mood;
    }

    /// For a site that starts.
    #[must_use]
    pub fn open(&self) -> Arc<dyn Engine> {
        Arc::new(Drive { disk: self.clone(), run: self.state().run })
    }

    /// The site crashed. Of what was on its way to the disk, some is there: the first so many, each as a whole.
    #[must_use]
    pub fn crash(&self) -> (usize, usize) {
        let mut state = self.state();
        state.run += 1;
        let pending = std::mem::take(&mut state.pending);
        let (all, mut kept) = (pending.len(), 0);
        for commit in pending.into_values() {
            if state.mood == Mood::Full || !state.chance.percent(50) {
                break;
            }
            if !matches!(now(state.memory.commit(commit)), Ok(Outcome::Committed(_))) {
                break;
            }
            kept += 1;
        }
        (kept, all - kept)
    }

    /// What is durable now.
    #[must_use]
    pub fn copy(&self) -> Copy {
        let all = Range { start: Vec::new(), end: vec![u8::MAX; 64] };
        let snapshot = now(self.state().memory.snapshot());
        let pairs = snapshot.and_then(|snapshot| now(snapshot.scan(all, Direction::Forward, usize::MAX)));
        Copy(pairs.unwrap_or_default())
    }

    /// Puts back what was durable at some time.
    pub fn restore(&self, copy: &Copy) {
        let memory = Memory::new();
        let writes = copy.0.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
        let _ = now(memory.commit(Commit { writes, ..Commit::default() }));
        self.state().memory = memory;
    }
}

/// A disk as one run of a site has it.
struct Drive {
    disk: Disk,
    run: u64,
}

impl Engine for Drive {
    fn snapshot(&self) -> Answer<Arc<dyn Snapshot>> {
        let state = self.disk.state();
        if state.run != self.run {
            return Box::pin(std::future::ready(Err(Error::Closed)));
        }
        state.memory.snapshot()
    }

    fn commit(&self, commit: Commit) -> Answer<Outcome> {
        let (disk, run) = (self.disk.clone(), self.run);
        let (number, takes) = {
            let mut state = disk.state();
            if state.run != run {
                return Box::pin(std::future::ready(Err(Error::Closed)));
            }
            state.asked += 1;
            let number = state.asked;
            state.pending.insert(number, commit);
            let takes = match state.mood {
                Mood::Slow => state.chance.between(100, 2_000),
                Mood::Good | Mood::Full => state.chance.between(0, 8),
            };
            (number, Duration::from_millis(takes))
        };
        Box::pin(async move {
            sleep(takes).await;
            let mut state = disk.state();
            let commit = state.pending.remove(&number).filter(|_| state.run == run);
            let Some(commit) = commit else { return Err(Error::Closed) };
            let full = state.mood == Mood::Full;
            // A disk that fails may have taken it nevertheless.
            if full && !state.chance.percent(20) {
                return Err(Error::Io("no space left on the simulated disk".to_owned()));
            }
            let committed = now(state.memory.commit(commit));
            if full { Err(Error::Io("the simulated disk did not answer".to_owned())) } else { committed }
        })
    }

    fn syncs(&self) -> u64 {
        0
    }

    fn close(&self) -> Answer<()> {
        Box::pin(std::future::ready(Ok(())))
    }
}
