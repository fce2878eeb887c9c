//! Sessions that come while the disk is busy are made durable together.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod common;
#[path = "common/disk.rs"]
#[allow(dead_code, unreachable_pub, missing_docs)]
mod disk;

use std::future::ready;
use std::io;
use std::sync::{Arc, Condvar, Mutex};

use disk::Platter;
use store::embedded::{Disk, Embedded};
use store::engine::{Commit, Engine, Outcome};

/// A disk whose syncs wait while it is held.
#[derive(Clone, Debug, Default)]
struct Slow {
    platter: Platter,
    held: Arc<(Mutex<bool>, Condvar)>,
}

impl Slow {
    fn hold(&self, hold: bool) {
        *self.held.0.lock().unwrap() = hold;
        self.held.1.notify_all();
    }
}

impl Disk for Slow {
    fn len(&self) -> io::Result<u64> {
        self.platter.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.platter.read(offset, out)
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.platter.write(offset, data)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.platter.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        let held = self.held.0.lock().unwrap();
        drop(self.held.1.wait_while(held, |held| *held).unwrap());
        self.platter.sync()
    }
}

fn write(number: u8) -> Commit {
    Commit { writes: vec![(vec![number], Some(vec![number]))], ..Commit::default() }
}

#[test]
fn what_queues_up_behind_a_slow_disk_shares_its_next_sync() {
    common::block_on(async {
        let slow = Slow::default();
        let disks = slow.clone();
        let engine = Embedded::open_on(move || Ok(Box::new(disks.clone()) as Box<dyn Disk>)).await.unwrap();
        let before = engine.syncs();
        engine.commit(write(0)).await.unwrap();
        let alone = engine.syncs() - before;

        slow.hold(true);
        let mut waiting = Vec::new();
        for number in 1..=100 {
            let mut commit = engine.commit(write(number));
            tokio::select! {
                biased;
                done = &mut commit => panic!("{done:?} before it can be durable"),
                () = ready(()) => waiting.push(commit),
            }
        }
        slow.hold(false);
        let mut last = 0;
        for commit in waiting {
            let Outcome::Committed(revision) = commit.await.unwrap() else { panic!("nothing was read") };
            assert!(revision > last, "in the order in which they came");
            last = revision;
        }
        let together = engine.syncs() - before - alone;
        assert!(together <= 2 * alone, "{together} syncs for 100 sessions, {alone} for one");
    });
}
