//! Sites that end leave nothing behind: a file of its own, so that no other test's threads are counted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use archipel::demo::World;
use support::members::until;

fn entries(directory: &str) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn threads_and_files_of_a_world_end_with_it() {
    // What a process makes once, it keeps.
    drop(World::start().unwrap());
    let before = || (entries("/proc/self/task"), entries("/proc/self/fd"));
    let mut least = before();
    until("the first world has ended", || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        let now = before();
        std::mem::replace(&mut least, now) == now
    });
    let world = World::start().unwrap();
    world.add_site().unwrap();
    world.until_met().unwrap();
    assert!(entries("/proc/self/task") > least.0, "this tests nothing");
    drop(world);
    until("threads and files are as before", || {
        let (threads, files) = before();
        threads <= least.0 && files <= least.1
    });
}
