//! Copies that a service has to make, and to name: without an answer, none is made again by guess.

use replica::{Change, Meta};
use sample::Fault;

use super::sites::{self, Isles, create, site, until, upload};
use crate::replicas::{Name, Seen, Stand};
use crate::replication::{Condition, Handle, Pending, Refused};

/// An image with a file, at A and B, of which C's service, which is so, is asked to make a copy.
fn copying(fault: Fault) -> (Isles, Meta) {
    let isles = Isles::new();
    let meta = isles.write(0, create("one", &["A", "B"])).meta.unwrap();
    isles.until_quiet();
    isles.write(0, upload(&meta, b"CONTENT"));
    isles.until_quiet();
    isles.isles[2].service.faults().set(fault);
    let handle = isles.mesh(0).replication().unwrap();
    sites::run(handle.change(&meta.0, Change::Extend(site("C")))).unwrap();
    (isles, meta)
}

fn doubted(isles: &Isles) -> (Handle, Pending) {
    let handle = isles.mesh(2).replication().unwrap();
    until("it is shown", || sites::run(handle.in_doubt()).unwrap().len() == 1);
    let doubted = sites::run(handle.in_doubt()).unwrap().remove(0);
    (handle, doubted)
}

fn until_whole(isles: &Isles, meta: &Meta) {
    until(
        "C can read it",
        || matches!(isles.replicas(2).known.look_up(&Name::from(meta)), Seen::Replicated(place) if place.readable),
    );
    isles.until_all_have(&["one"]);
    let id = isles.images(2).into_keys().next().unwrap();
    assert_eq!(sites::get(isles.isles[2].service.address(), &format!("/images/{id}/file")), b"CONTENT");
}

#[test]
fn a_copy_in_doubt_is_shown_until_an_operator_says_what_was_made() {
    let (mut isles, meta) = copying(Fault::Mute);
    // C's mesh ends before the service has said what it did, and starts again.
    sites::run(isles.isles[2].service.faults().until_held(1));
    isles.stop(2);
    isles.isles[2].service.faults().set(Fault::None);
    isles.start(2);
    let (handle, doubted) = doubted(&isles);
    assert_eq!((doubted.class, &*doubted.resource), ("copy", &*meta.0));
    assert_eq!(sites::run(handle.resource(&meta.0)).unwrap().condition, Condition::InDoubt);
    let fate = sites::run(handle.fate(doubted.op.clone())).unwrap();
    assert_eq!(fate.sites, [(site("C"), Stand::InDoubt)]);
    let made = isles.images(2).into_keys().next().unwrap();
    let settle = |id| sites::run(handle.settle(doubted.op.clone(), true, id));
    assert_eq!(settle(None), Err(Refused::Nameless));
    assert_eq!(settle(Some("no id")), Err(Refused::BadId));
    settle(Some(&made)).unwrap();
    until_whole(&isles, &meta);
    assert_eq!(isles.counted(sample::Write::Create, "one"), [1, 1, 1]);
    assert_eq!(settle(None), Err(Refused::Unknown));
}

#[test]
fn a_copy_that_was_not_made_is_made_when_an_operator_says_so() {
    let (isles, meta) = copying(Fault::Unavailable);
    let (handle, doubted) = doubted(&isles);
    isles.isles[2].service.faults().set(Fault::None);
    assert_eq!(isles.counted(sample::Write::Create, "one"), [1, 1, 0]);
    sites::run(handle.settle(doubted.op, false, None)).unwrap();
    until_whole(&isles, &meta);
    assert_eq!(isles.counted(sample::Write::Create, "one"), [1, 1, 1]);
}

#[test]
fn a_copy_whose_parts_cannot_be_given_is_not_made_anew() {
    let (isles, meta) = copying(Fault::Mute);
    sites::run(isles.isles[2].service.faults().until_held(1));
    // The service says what it made, and takes nothing more.
    isles.isles[2].service.faults().set(Fault::Unavailable);
    let handle = isles.mesh(2).replication().unwrap();
    until("C knows what was made", || {
        let replicas = sites::run(handle.resource(&meta.0)).unwrap().replicas;
        replicas.iter().any(|replica| replica.site == site("C") && replica.local.is_some())
    });
    isles.isles[2].service.faults().set(Fault::None);
    until_whole(&isles, &meta);
    assert_eq!(isles.counted(sample::Write::Create, "one"), [1, 1, 1]);
}

#[test]
fn a_copy_in_doubt_that_is_not_to_be_there_any_more_is_removed_once_it_is_known() {
    let (mut isles, meta) = copying(Fault::Mute);
    sites::run(isles.isles[2].service.faults().until_held(1));
    isles.stop(2);
    isles.isles[2].service.faults().set(Fault::None);
    isles.start(2);
    let (own, doubted) = doubted(&isles);
    let handle = isles.mesh(0).replication().unwrap();
    sites::run(handle.change(&meta.0, Change::Shrink(site("C")))).unwrap();
    until("C has heard of it", || {
        let replicas = sites::run(own.resource(&meta.0)).unwrap().replicas;
        replicas.iter().all(|replica| replica.site != site("C"))
    });
    let made = isles.images(2).into_keys().next().unwrap();
    sites::run(own.settle(doubted.op, true, Some(&made))).unwrap();
    until("C has it no more", || isles.images(2).is_empty());
    assert_eq!(isles.names(0), ["one"]);
}
