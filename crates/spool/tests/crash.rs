//! Killed at any moment, a spool opens with every body that was said to be stored, none that was said to be erased,
//! and nothing half done. A disk that fails or is full is said to be so.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod common;
#[path = "common/disk.rs"]
#[allow(unreachable_pub)]
mod disk;

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use common::{PLENTY, SEGMENT, block_on, content, files, key, open, read, store};
use disk::{Loss, Platter};
use spool::{BodyFile, Disk, Error, Id, Spool, Stored};

/// What was promised.
#[derive(Default)]
struct Promises {
    stored: BTreeMap<Id, Vec<u8>>,
    erased: Vec<Id>,
    /// Neither was said of these.
    unsure: Vec<Id>,
}

/// Stores bodies, gives one up half-way, erases one, until something fails.
async fn work(spool: &Spool, promises: &mut Promises) -> Result<(), Error> {
    for (seed, len) in [(1, 10), (2, SEGMENT + 4), (3, 0), (4, 2 * SEGMENT)] {
        let body = content(seed, len);
        let stored = store(spool, &body, 50_000).await?;
        promises.stored.insert(stored.id, body);
    }
    let mut given_up = spool.writer(None)?;
    given_up.push(Bytes::from(vec![0; 2 * SEGMENT])).await?;
    drop(given_up);
    let ids: Vec<Id> = promises.stored.keys().copied().take(2).collect();
    for id in ids {
        promises.stored.remove(&id);
        promises.unsure.push(id);
        spool.erase(id).await?;
        promises.erased.push(id);
    }
    Ok(())
}

/// Everything promised, and everything there is whole.
async fn invariant_whole(spool: &Spool, promises: &Promises) {
    let listed: Vec<Id> = spool.list().iter().map(|body| body.id).collect();
    for (id, body) in &promises.stored {
        assert!(listed.contains(id), "{id} was stored");
        assert!(&read(spool.reader(*id, 0).unwrap()).await.unwrap() == body);
    }
    for id in listed {
        assert!(!promises.erased.contains(&id), "{id} was erased");
        read(spool.reader(id, 0).unwrap()).await.unwrap();
    }
}

#[test]
fn cut_off_at_every_step_nothing_stored_is_lost_nothing_erased_comes_back_and_nothing_is_half_done() {
    block_on(async {
        let whole = Platter::default();
        let spool = Spool::open_on(whole.disk(), PLENTY, key()).await.unwrap();
        work(&spool, &mut Promises::default()).await.unwrap();
        spool.close().await.unwrap();
        let steps = whole.steps();
        assert!(steps > 25, "{steps}");
        for cut in 1..=steps {
            let platter = Platter::default();
            platter.fail_after(cut);
            let spool = Spool::open_on(platter.disk(), PLENTY, key()).await.unwrap();
            let mut promises = Promises::default();
            let outcome = work(&spool, &mut promises).await;
            assert!(matches!(outcome, Ok(()) | Err(Error::Io(_))), "{outcome:?}");
            spool.close().await.unwrap();
            for loss in [Loss::All, Loss::Nothing, Loss::Some(cut), Loss::Some(cut + steps)] {
                let after = platter.after(loss);
                let spool = Spool::open_on(after.disk(), PLENTY, key()).await.unwrap();
                invariant_whole(&spool, &promises).await;
                let (names, bytes) = after.names();
                assert_eq!(names.len(), spool.list().len(), "cut off at {cut}, {loss:?}: {names:?}");
                assert_eq!(spool.usage().bytes, bytes);
                // Only what was stored and not said to be is there without being known.
                assert!(names.len() <= promises.stored.len() + 1, "{names:?}");
                let mut more = Promises::default();
                work(&spool, &mut more).await.unwrap();
                invariant_whole(&spool, &more).await;
                invariant_whole(&spool, &promises).await;
            }
        }
    });
}

#[test]
fn a_fault_at_any_step_is_said_and_leaves_nothing_behind() {
    block_on(async {
        for fault in 1..=40 {
            let platter = Platter::default();
            platter.fail_once_at(fault);
            let spool = Spool::open_on(platter.disk(), PLENTY, key()).await.unwrap();
            let mut promises = Promises::default();
            let outcome = work(&spool, &mut promises).await;
            assert!(matches!(outcome, Ok(()) | Err(Error::Io(_))), "{outcome:?}");
            for id in promises.unsure.iter().filter(|id| !promises.erased.contains(id)) {
                // What could not be erased can be tried again.
                assert_eq!(spool.erase(*id).await, Ok(true));
            }
            promises.erased.append(&mut promises.unsure.clone());
            invariant_whole(&spool, &promises).await;
            spool.close().await.unwrap();
            let cut = Spool::open_on(platter.after(Loss::All).disk(), PLENTY, key()).await.unwrap();
            invariant_whole(&cut, &promises).await;
            let (names, bytes) = platter.names();
            // What could not even be removed is still counted, until the next start removes it.
            assert!(spool.usage().bytes >= bytes, "{fault}: {names:?}");
            let spool = Spool::open_on(platter.disk(), PLENTY, key()).await.unwrap();
            assert_eq!(spool.list().len(), promises.stored.len(), "{fault}: {names:?}");
            assert_eq!(platter.names().0.len(), promises.stored.len());
        }
    });
}

#[test]
fn a_full_disk_is_said_and_when_there_is_room_it_goes_on() {
    block_on(async {
        let platter = Platter::default();
        let spool = Spool::open_on(platter.disk(), PLENTY, key()).await.unwrap();
        let mut promises = Promises::default();
        let body = content(1, 3 * SEGMENT);
        for room in (0..10 * SEGMENT).step_by(SEGMENT / 3) {
            platter.set_room(Some(room));
            match store(&spool, &body, 30_000).await {
                Ok(stored) => drop(promises.stored.insert(stored.id, body.clone())),
                Err(error) => assert_eq!(error, Error::Full),
            }
            invariant_whole(&spool, &promises).await;
        }
        assert!((2..=3).contains(&promises.stored.len()));
        assert!(spool.metrics().disk_faults > 0);
        platter.set_room(None);
        store(&spool, &body, 30_000).await.unwrap();
        spool.close().await.unwrap();
        assert_eq!(platter.names().1, spool.usage().bytes);
    });
}

/// A directory on which every new file is full: the kernel says so.
#[derive(Debug)]
struct FullDevice;

impl Disk for FullDevice {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        Ok(Vec::new())
    }
    fn create(&self, _: &str) -> io::Result<Arc<dyn BodyFile>> {
        Ok(Arc::new(std::fs::OpenOptions::new().read(true).write(true).open("/dev/full")?))
    }
    fn open(&self, _: &str) -> io::Result<Arc<dyn BodyFile>> {
        Err(io::ErrorKind::NotFound.into())
    }
    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_the_kernel_says_of_a_full_device_is_understood() {
    block_on(async {
        let spool = Spool::open_on(|| Ok(Arc::new(FullDevice)), PLENTY, key()).await.unwrap();
        for len in [0, 1, 5 * SEGMENT] {
            assert_eq!(store(&spool, &content(1, len), 1000).await, Err(Error::Full));
        }
        spool.close().await.unwrap();
        assert_eq!(spool.usage().bytes, 0);
    });
}

const CHILD: &str = "SPOOL_CRASH_CHILD";

/// Not a test of its own: what the test below starts, and kills.
#[test]
fn child_that_stores() {
    let Ok(directory) = std::env::var(CHILD) else { return };
    let say = |what: &str, stored: Stored, seed: u64| {
        let mut out = io::stdout().lock();
        writeln!(out, "\n{what} {} {seed} {}", stored.id, stored.len).unwrap();
        out.flush().unwrap();
    };
    block_on(async {
        let spool = open(Path::new(&directory), PLENTY).await;
        for seed in 0.. {
            let len = usize::try_from(seed).unwrap() * 7919 % (3 * SEGMENT);
            let stored = store(&spool, &content(seed, len), 10_000).await.unwrap();
            say("stored", stored, seed);
            if seed % 3 == 0 {
                say("erasing", stored, seed);
                spool.erase(stored.id).await.unwrap();
                say("erased", stored, seed);
            }
        }
    });
}

/// Starts the child, kills it after so many lines, and notes what it said.
fn kill_after(lines: usize, directory: &Path, promises: &mut Promises) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_stores", "--nocapture"])
        .env(CHILD, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines_seen = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let [what, id, seed, len] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        let Ok(id) = id.parse::<Id>() else { continue };
        match what {
            "stored" => {
                drop(promises.stored.insert(id, content(seed.parse().unwrap(), len.parse().unwrap())));
            }
            "erasing" => drop(promises.stored.remove(&id)),
            _ => promises.erased.push(id),
        }
        lines_seen += 1;
        if lines_seen == lines {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(lines_seen >= lines);
}

#[test]
fn a_killed_process_loses_nothing_it_stored_and_keeps_nothing_it_erased() {
    let directory = tempfile::tempdir().unwrap();
    let mut promises = Promises::default();
    for round in 0..8 {
        kill_after(1 + round * 3, directory.path(), &mut promises);
        block_on(async {
            let spool = open(directory.path(), PLENTY).await;
            invariant_whole(&spool, &promises).await;
            let (names, bytes) = files(directory.path());
            assert_eq!((names.len(), bytes), (spool.list().len(), spool.usage().bytes));
            spool.retain(|id| promises.stored.contains_key(&id)).await.unwrap();
            spool.close().await.unwrap();
        });
    }
}
