//! Numbers that replicated resources have for clients: none is given twice, whatever becomes of a site's records.

use std::collections::BTreeSet;
use std::path::Path;

use profile::MetaRange;
use replica::{Meta, Naming, Reply, Subject};

use super::sites::{self, Isles, NAMES, create, until};
use crate::replicas::keeper::allocate::Unallocated;

const UUIDS: &str = "description = 'images'\n[propagation]\ntracestate = true\n\
    [[kinds]]\nname = 'image'\nservice = 'image'\npath = '/**/images'\nids = 'uuid'\n\
    generated = ['/created_at', '/size', '/digest', '/status']\n";

fn allocate(isles: &Isles, index: usize, range: MetaRange) -> u64 {
    let replicas = isles.replicas(index);
    sites::run(async move { replicas.allocate(range).await }).unwrap()
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to);
        } else {
            let _bytes = std::fs::copy(&path, &to).unwrap();
        }
    }
}

#[test]
fn no_two_sites_and_no_two_runs_of_a_site_give_the_same_number() {
    let mut isles = Isles::under(UUIDS);
    let mut given = BTreeSet::new();
    for round in 0..3 {
        for range in [MetaRange::WIDE, MetaRange::NARROW] {
            for index in 0..NAMES.len() {
                // More than a block.
                for _ in 0..if range == MetaRange::WIDE { 300 } else { 40 } {
                    let number = allocate(&isles, index, range);
                    assert!(range.has(number) && given.insert(number), "{number} in round {round}");
                }
            }
        }
        // One that ends without a word, and one that ends alone.
        isles.stop(0);
        isles.start(0);
        isles.stop(1);
        isles.start(1);
    }
}

#[test]
fn a_site_with_old_records_gives_no_number_that_another_site_knows() {
    let mut isles = Isles::under(UUIDS);
    isles.stop(0);
    let (directory, backup) = (isles.isles[0].directory.path().to_owned(), tempfile::tempdir().unwrap());
    copy(&directory, backup.path());
    isles.start(0);
    // Many more than the time of day allows for.
    let last = (0..4000).map(|_| allocate(&isles, 0, MetaRange::WIDE)).max().unwrap();
    let meta = Meta(format!("image:/images/{last}").into());
    let mut wanted = create("one", &NAMES);
    let Subject::New { naming, .. } = &mut wanted.write.subject else { panic!("it is new") };
    *naming = Naming::Allocated(meta.clone());
    let answered = isles.write(0, wanted);
    assert_eq!((answered.reply, answered.meta), (Reply::Executed { status: 201 }, Some(meta)));
    isles.until_all_have(&["one"]);
    isles.until_quiet();
    isles.stop(0);
    copy(backup.path(), &directory);
    isles.start(0);
    let next = allocate(&isles, 0, MetaRange::WIDE);
    assert!(next > last, "{next} was given before {last}");
}

#[test]
fn a_disk_that_takes_nothing_gives_no_number() {
    let disk = std::sync::Arc::new(super::Flaky::default());
    let isles =
        Isles::with_first_on(Some(std::sync::Arc::clone(&disk) as std::sync::Arc<dyn store::engine::Engine>));
    disk.full.store(true, std::sync::atomic::Ordering::Relaxed);
    let replicas = isles.replicas(0);
    let refused = sites::run(async move { replicas.allocate(MetaRange::WIDE).await });
    assert_eq!(refused, Err(Unallocated::Unavailable));
    disk.full.store(false, std::sync::atomic::Ordering::Relaxed);
    until("it takes something", || {
        let replicas = isles.replicas(0);
        sites::run(async move { replicas.allocate(MetaRange::WIDE).await }).is_ok()
    });
}
