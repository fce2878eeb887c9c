//! Three keepers over real links, each with a real application behind it. Cores' part is played by the tests:
//! they hand in the writes.

mod allocated;
mod copies;
mod large;
mod probes;
mod references;
mod sites;
mod vouched;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use replica::{Change, LocalId, Message, ReplicaMap, Reply, Unchangeable};
use sample::Fault;

use self::sites::{
    Isles, NAMED_IN_BODY, NAMES, create, create_as, create_in_body, delete, patch, replace, site, until,
    upload,
};
use crate::replicas::wire::{Asked, Envelope};
use crate::replicas::{Name, Order, Seen, Stand};
use crate::replication::Refused;

#[test]
fn replicas_of_a_copied_state_directory_are_compared_before_they_are_used() {
    use crate::replication::Condition;
    let mut isles = Isles::new();
    let meta = isles.make(0, "one");
    isles.until_quiet();
    isles.stop(1);
    let directory = isles.isles[1].directory.path().to_owned();
    let (store, copy) = (directory.join("replicas.redb"), directory.join("copy"));
    std::fs::copy(&store, &copy).unwrap();
    std::fs::rename(&copy, &store).unwrap();
    isles.stop(0);
    isles.stop(2);
    isles.start(1);
    let handle = isles.mesh(1).replication().unwrap();
    let condition = || sites::run(handle.resource(&meta.0)).unwrap().condition;
    assert_eq!(condition(), Condition::Suspect, "nobody is there that it could be compared with");
    isles.start(0);
    isles.start(2);
    until("it is as the others are", || condition() == Condition::Good);
}

#[test]
fn one_resource_is_made_at_each_site_under_one_name() {
    let isles = Isles::new();
    let answered = isles.write(0, create("one", &NAMES));
    assert_eq!(answered.reply, Reply::Executed { status: 201 });
    let response = answered.response.unwrap();
    let meta = answered.meta.unwrap();
    let location = response.headers().get("location").unwrap().to_str().unwrap();
    assert_eq!(*meta.0, *format!("image:{location}"));
    assert!(answered.sites.contains(&(site("A"), Stand::Done(Some(201)))));
    isles.until_all_have(&["one"]);
    isles.until_quiet();
    let name = Name::from(&meta);
    let mut ids = Vec::new();
    for index in 0..NAMES.len() {
        let Seen::Replicated(place) = isles.replicas(index).known.look_up(&name) else { panic!("{index}") };
        assert!(place.readable);
        let local = place.local.unwrap();
        assert!(isles.images(index).contains_key(local.id()), "the service knows it so");
        if index > 0 {
            assert_eq!(isles.replicas(index).known.look_up(&local), Seen::Hidden);
        }
        ids.push(LocalId::from(&local));
    }
    ids.dedup();
    assert_eq!(ids.len(), 3, "each service chose its own");
}

#[test]
fn writes_at_any_site_reach_all_and_run_once_at_each() {
    let isles = Isles::new();
    let meta = isles.make(0, "one");
    isles.until_quiet();
    isles.until_all_have(&["one"]);
    assert_eq!(isles.write(1, replace(&meta, "two")).reply, Reply::Executed { status: 200 });
    isles.until_quiet();
    isles.until_all_have(&["two"]);
    assert_eq!(isles.write(2, patch(&meta, "three")).reply, Reply::Executed { status: 200 });
    isles.until_quiet();
    isles.until_all_have(&["three"]);
    assert_eq!(isles.write(1, upload(&meta, b"content")).reply, Reply::Executed { status: 200 });
    until("all have the file", || isles.counted(sample::Write::Upload, "three") == [1, 1, 1]);
    let removed = isles.write(0, delete(&meta));
    assert_eq!(removed.reply, Reply::Executed { status: 204 });
    isles.until_all_have(&[]);
    for (write, name) in [
        (sample::Write::Create, "one"),
        (sample::Write::Update, "two"),
        (sample::Write::Update, "three"),
        (sample::Write::Delete, "three"),
    ] {
        assert_eq!(isles.counted(write, name), [1, 1, 1], "{write:?} {name}");
    }
    isles.until_quiet();
    assert_eq!(isles.replicas(1).known.look_up(&Name::from(&meta)), Seen::Ordinary);
    let fate = sites::run(isles.replicas(0).fate(removed.op.unwrap())).unwrap();
    assert!(fate.sites.iter().all(|(_, stand)| matches!(stand, Stand::Done(_))), "{fate:?}");
}

#[test]
fn a_site_that_was_away_catches_up() {
    let mut isles = Isles::new();
    let meta = isles.make(0, "one");
    isles.until_all_have(&["one"]);
    // It has not only made it, it also knows.
    isles.until_quiet();
    isles.stop(2);
    assert_eq!(isles.write(0, patch(&meta, "two")).reply, Reply::Executed { status: 200 });
    assert_eq!(isles.write(1, patch(&meta, "three")).reply, Reply::Executed { status: 200 });
    let other = isles.make(1, "other");
    until("the others have it", || isles.names(0).len() == 2 && isles.names(1).len() == 2);
    assert_eq!(isles.names(2), ["one"]);
    isles.start(2);
    isles.until_all_have(&["other", "three"]);
    isles.until_quiet();
    assert_eq!(isles.counted(sample::Write::Create, "other"), [1, 1, 1]);
    assert!(matches!(isles.replicas(2).known.look_up(&Name::from(&other)), Seen::Replicated(_)));
}

#[test]
fn what_is_for_a_site_of_a_version_that_is_not_understood_waits_for_its_upgrade_or_theirs() {
    let mut isles = Isles::new();
    let meta = isles.make(0, "one");
    isles.until_all_have(&["one"]);
    isles.until_quiet();
    let now = link::Speaks::NOW.newest();
    isles.stop(2);
    isles.isles[2].speaks = link::Speaks::new(now + 2, now + 3).unwrap();
    isles.start(2);
    assert_eq!(isles.write(0, patch(&meta, "two")).reply, Reply::Executed { status: 200 });
    assert_eq!(isles.write(2, patch(&meta, "three")).reply, Reply::Executed { status: 200 });
    until("the other has it", || isles.names(1) == ["two"]);
    // Each has tried, and says why it waits.
    for (index, other) in [(0, "C"), (2, "A")] {
        let misfit = |peer: &crate::PeerSeen| peer.site.name() == other && peer.misfit.is_some();
        until("they have found out", || isles.mesh(index).peers().iter().any(misfit));
    }
    assert_eq!((isles.names(0), isles.names(2)), (vec!["two".to_owned()], vec!["three".to_owned()]));
    // One after the other, as sites are upgraded: the version between is understood by both.
    for index in [2, 0, 1] {
        isles.stop(index);
        isles.isles[index].speaks = link::Speaks::new(now, now + 1).unwrap();
        isles.start(index);
    }
    isles.until_quiet();
    until("they agree", || isles.names(0) == isles.names(1) && isles.names(1) == isles.names(2));
    assert_eq!(isles.counted(sample::Write::Create, "one"), [1, 1, 1]);
}

#[test]
fn a_refusal_of_the_first_replica_is_the_answer_and_no_other_executes() {
    let isles = Isles::new();
    let mut nameless = create("", &NAMES);
    nameless.kept.content = crate::replicas::Content::Inline(b"{}".to_vec());
    let answered = isles.write(0, nameless);
    assert_eq!(answered.reply, Reply::Refused { status: 400 });
    assert_eq!(answered.response.unwrap().status(), 400);
    let meta = isles.make(0, "one");
    isles.until_quiet();
    let empty = isles.write(1, patch(&meta, ""));
    assert_eq!(empty.reply, Reply::Refused { status: 400 });
    assert_eq!(isles.write(1, patch(&meta, "two")).reply, Reply::Executed { status: 200 });
    isles.until_all_have(&["two"]);
    isles.until_quiet();
    // Nothing stands between the one that was refused and the next.
    assert_eq!(isles.counted(sample::Write::Update, "two"), [1, 1, 1]);
    let refused = isles.isles.iter().map(|isle| isle.image.counts().writes(sample::Write::Update, ""));
    assert_eq!(refused.sum::<u64>(), 0);
}

#[test]
fn what_was_under_way_at_a_crash_goes_on_and_runs_once() {
    let mut isles = Isles::new();
    isles.stop(2);
    // The service executes it and does not say so: nobody knows when the site goes down.
    isles.isles[0].service.faults().set(Fault::Mute);
    let (replicas, id) = (isles.replicas(0), "0c5a8b3e-1f2d-4e6a-9b7c-1d2e3f4a5b6c");
    let writing = std::thread::spawn(move || {
        sites::run(async move { replicas.write(Box::new(create_as(id, "one"))).await })
    });
    sites::run(isles.isles[0].service.faults().until_held(1));
    isles.stop(0);
    assert!(writing.join().unwrap().is_none(), "the client is told nothing: the process ends");
    isles.isles[0].service.faults().set(Fault::None);
    assert_eq!(isles.names(1).len(), 0, "nobody hears of what is not decided");
    isles.start(0);
    until("it is found to be executed", || isles.names(1) == ["one"]);
    // Its neighbour, which has it to pass on, ends too; and the last one comes back.
    isles.stop(1);
    isles.start(1);
    isles.start(2);
    isles.until_all_have(&["one"]);
    isles.until_quiet();
    assert_eq!(isles.counted(sample::Write::Create, "one"), [1, 1, 1]);
    assert_eq!(isles.counted(sample::Write::Update, "one"), [0, 0, 0]);
}

#[test]
fn a_name_that_a_client_chose_takes_nothing_from_a_site_that_has_it() {
    let isles = Isles::new();
    let id = "0c5a8b3e-1f2d-4e6a-9b7c-1d2e3f4a5b6d";
    sites::send_with(isles.isles[1].service.address(), &format!("PUT /images/{id}"), "{\"name\": \"mine\"}");
    let conditions = |index: usize| {
        let resources = sites::run(isles.mesh(index).replication().unwrap().resources()).unwrap();
        resources.into_iter().map(|resource| resource.condition).collect::<Vec<_>>()
    };
    let answered = isles.write(0, create_as(id, "one"));
    assert_eq!(answered.reply, Reply::Executed { status: 201 });
    // Its service has it before the site has written down that it has.
    until("the third has it", || conditions(2) == [crate::replication::Condition::Good]);
    until("it is shown", || conditions(1) == [crate::replication::Condition::Diverged(409)]);
    let meta = answered.meta.unwrap();
    let name = crate::replicas::request::Name::from(&meta);
    let seen = |index: usize| isles.replicas(index).known.look_up(&name);
    until("clients there find what they had", || seen(1) == crate::replicas::known::Seen::Ordinary);
    // What comes later leaves it alone, too: writes, the copies that repair, and in the end a deletion.
    assert_eq!(isles.write(2, replace(&meta, "two")).reply, Reply::Executed { status: 200 });
    until("the first has it", || isles.names(0) == ["two"]);
    assert_eq!(isles.names(1), ["mine"]);
    assert_eq!(isles.write(0, delete(&meta)).reply, Reply::Executed { status: 204 });
    until("it is gone", || isles.names(2).is_empty());
    until("nothing is left of it", || !conditions(1).contains(&crate::replication::Condition::Diverged(409)));
    assert_eq!(isles.names(1), ["mine"]);
    assert_eq!(
        isles.counted(sample::Write::Update, "mine")[1] + isles.counted(sample::Write::Delete, "mine")[1],
        0
    );
}

#[test]
fn a_site_takes_writes_from_those_that_its_policy_names_and_says_so_to_others() {
    let mut isles = Isles::new();
    isles.stop(1);
    isles.isles[1].accept_from = Some([site("C")].into());
    isles.start(1);
    let answered = isles.write(0, create("one", &NAMES));
    assert_eq!(answered.reply, Reply::Executed { status: 201 });
    until("the third has it", || isles.names(2) == ["one"]);
    let op = answered.op.unwrap();
    until("the refusal is known", || {
        let fate = sites::run(isles.replicas(0).fate(op.clone())).unwrap();
        fate.sites.contains(&(site("B"), Stand::Diverged(403)))
    });
    let shown = sites::run(isles.mesh(0).replication().unwrap().resources()).unwrap();
    let refused: Vec<_> = shown.iter().flat_map(|own| &own.replicas).map(|own| own.refused).collect();
    assert_eq!(refused, [None, Some(403), None]);
    // Of the third it takes what that accepted, not what it passes on.
    isles.make(2, "other");
    until("it has what it may", || isles.names(1) == ["other"]);
    assert_eq!(isles.counted(sample::Write::Create, "one"), [1, 0, 1]);
    // It may make something at all sites itself, and hears of what becomes of it.
    isles.make(1, "own");
    until("the first has it", || isles.names(0).contains(&"own".to_owned()));
    let handle = isles.mesh(1).replication().unwrap();
    until("nothing is pending", || {
        let own = sites::run(handle.resources()).unwrap();
        own.iter().flat_map(|resource| &resource.replicas).all(|replica| replica.pending == 0)
    });
}

#[test]
fn an_operation_in_doubt_is_shown_until_an_operator_settles_it() {
    let mut isles = Isles::new();
    isles.isles[0].service.faults().set(Fault::Mute);
    let replicas = isles.replicas(0);
    let writing = std::thread::spawn(move || {
        sites::run(async move { replicas.write(Box::new(create("one", &NAMES))).await })
    });
    sites::run(isles.isles[0].service.faults().until_held(1));
    isles.stop(0);
    writing.join().unwrap();
    isles.isles[0].service.faults().set(Fault::None);
    isles.start(0);
    let handle = isles.mesh(0).replication().unwrap();
    until("it is shown", || sites::run(handle.in_doubt()).unwrap().len() == 1);
    let doubted = sites::run(handle.in_doubt()).unwrap().remove(0);
    assert_eq!((doubted.class, doubted.user.as_str()), ("create", "ada"));
    let made = isles.images(0).into_keys().next().unwrap();
    let settle = |id| sites::run(handle.settle(doubted.op.clone(), true, id));
    assert_eq!(settle(None), Err(Refused::Nameless));
    assert_eq!(settle(Some("no id")), Err(Refused::BadId));
    settle(Some(&made)).unwrap();
    isles.until_all_have(&["one"]);
    assert_eq!(isles.counted(sample::Write::Create, "one"), [1, 1, 1]);
    assert_eq!(settle(None), Err(Refused::Unknown));
}

#[test]
fn what_is_deleted_is_replicated_for_as_long_as_a_service_still_has_it() {
    let isles = Isles::new();
    let meta = isles.make(0, "one");
    isles.until_all_have(&["one"]);
    isles.until_quiet();
    let (known, name) = (&isles.replicas(2).known, Name::from(&meta));
    let Seen::Replicated(place) = known.look_up(&name) else { panic!("it is there") };
    isles.isles[2].service.faults().set(Fault::Mute);
    assert_eq!(isles.write(0, delete(&meta)).reply, Reply::Executed { status: 204 });
    sites::run(isles.isles[2].service.faults().until_held(1));
    // An ordinary resource would be the service's own to answer for, and a write to it would reach nobody else.
    assert!(matches!(known.look_up(&name), Seen::Replicated(_)));
    assert_eq!(known.look_up(&place.local.unwrap()), Seen::Hidden);
    isles.isles[2].service.faults().set(Fault::None);
    until("it is forgotten", || known.look_up(&name) == Seen::Ordinary);
    isles.until_all_have(&[]);
}

#[test]
fn neither_credentials_nor_bodies_lie_on_the_disk_in_clear() {
    let mut isles = Isles::new();
    isles.stop(2);
    let secret = "a name that only the client knows";
    let meta = isles.make(0, secret);
    assert_eq!(isles.write(0, upload(&meta, b"CONTENT-OF-THE-FILE")).reply, Reply::Executed { status: 200 });
    until("B has the file", || isles.counted(sample::Write::Upload, secret)[1] == 1);
    isles.stop(0);
    isles.stop(1);
    for index in [0, 1] {
        let directory = isles.isles[index].directory.path().to_owned();
        let mut looked_at = 0;
        for file in sites::files(&directory) {
            let content = std::fs::read(file).unwrap();
            for what in [secret, "CONTENT-OF-THE-FILE", sites::TOKEN, sites::CREDENTIAL] {
                let found = content.windows(what.len()).any(|part| part == what.as_bytes());
                assert!(!found, "{what:?} is there in clear");
            }
            looked_at += content.len();
        }
        assert!(looked_at > 1000, "there is something to look at");
    }
    // It is there all the same.
    for index in 0..NAMES.len() {
        isles.start(index);
    }
    isles.until_all_have(&[secret]);
    until("C has the file", || isles.counted(sample::Write::Upload, secret)[2] == 1);
}

#[test]
fn a_disk_that_takes_nothing_stops_replicated_writes_only_and_loses_nothing() {
    let disk = Arc::new(Flaky::default());
    let isles = Isles::with_first_on(Some(Arc::clone(&disk) as Arc<dyn store::engine::Engine>));
    let meta = isles.make(0, "one");
    isles.until_all_have(&["one"]);
    isles.until_quiet();
    disk.full.store(true, Ordering::Relaxed);
    let unknown = isles.write(0, patch(&meta, "two"));
    assert_eq!(unknown.reply, Reply::Unknown);
    assert!(unknown.op.is_some(), "it can be asked for");
    assert_eq!(isles.write(0, patch(&meta, "three")).reply, Reply::Unavailable, "not recorded, not executed");
    assert_eq!(isles.counted(sample::Write::Update, "two"), [0, 0, 0], "nothing runs that is not recorded");
    let front = isles.mesh(0).addresses("image", false)[0];
    assert!(!sites::get(front, "/images").is_empty(), "local requests go on");
    let handle = isles.mesh(0).replication().unwrap();
    let fault = sites::run(handle.counts()).unwrap().fault.unwrap();
    assert!(fault.contains("full"), "{fault}");
    disk.full.store(false, Ordering::Relaxed);
    isles.until_all_have(&["two"]);
    isles.until_quiet();
    assert_eq!(isles.counted(sample::Write::Update, "two"), [1, 1, 1]);
    assert_eq!(isles.counted(sample::Write::Update, "three"), [0, 0, 0]);
    assert_eq!(isles.write(0, patch(&meta, "four")).reply, Reply::Executed { status: 200 });
    let metrics = isles.mesh(0).metrics();
    assert!(!metrics.contains("commit_failures_total 0\n"), "{metrics}");
}

#[test]
fn a_store_of_another_key_or_without_one_is_refused_with_the_reason() {
    let mut isles = Isles::new();
    isles.make(0, "one");
    isles.stop(0);
    let directory = isles.isles[0].directory.path().to_owned();
    std::fs::remove_file(directory.join("replicas.key")).unwrap();
    let error = isles.try_start(0).err().unwrap().to_string();
    assert!(error.contains("replicas.key: is missing"), "{error}");
    std::fs::write(directory.join("replicas.key"), [7; 32]).unwrap();
    let only_us = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(directory.join("replicas.key"), only_us).unwrap();
    let error = isles.try_start(0).err().unwrap().to_string();
    assert!(error.contains("sealed with another key"), "{error}");
}

#[test]
fn a_replica_is_added_with_all_that_it_has_and_removed_again() {
    let isles = Isles::new();
    let answered = isles.write(0, create("one", &["A", "B"]));
    let meta = answered.meta.unwrap();
    assert_eq!(isles.write(0, upload(&meta, b"CONTENT")).reply, Reply::Executed { status: 200 });
    isles.until_quiet();
    assert_eq!(isles.names(2).len(), 0);
    let handle = isles.mesh(0).replication().unwrap();
    sites::run(handle.change(&meta.0, Change::Extend(site("C")))).unwrap();
    until("C has it", || isles.names(2) == ["one"]);
    until(
        "C can read it",
        || matches!(isles.replicas(2).known.look_up(&Name::from(&meta)), Seen::Replicated(place) if place.readable),
    );
    let id = isles.images(2).into_keys().next().unwrap();
    assert_eq!(sites::get(isles.isles[2].service.address(), &format!("/images/{id}/file")), b"CONTENT");
    isles.until_quiet();
    assert_eq!(isles.write(2, patch(&meta, "two")).reply, Reply::Executed { status: 200 });
    isles.until_all_have(&["two"]);
    isles.until_quiet();
    sites::run(handle.change(&meta.0, Change::Shrink(site("B")))).unwrap();
    until("B has it no more", || isles.names(1).is_empty());
    until("B knows it no more", || isles.replicas(1).known.look_up(&Name::from(&meta)) == Seen::Ordinary);
    assert_eq!((isles.names(0), isles.names(2)), (vec!["two".to_owned()], vec!["two".to_owned()]));
    let again = sites::run(handle.change(&meta.0, Change::Shrink(site("B"))));
    assert_eq!(again, Err(Refused::Unchangeable(Unchangeable::NotThere)));
}

/// As Glance has it: a POST, and no PUT of a new one.
#[test]
fn what_is_named_in_its_body_has_that_id_at_every_site_also_at_one_that_comes_later() {
    let isles = Isles::under(NAMED_IN_BODY);
    let id = "5c0f6f2e-8f0b-4b52-9d5e-0c4b7d0f6a11";
    let answered = isles.write(0, create_in_body(id, "one", &["A", "B"]));
    assert_eq!(answered.reply, Reply::Executed { status: 201 });
    let meta = answered.meta.unwrap();
    assert_eq!(*meta.0, *format!("image:/images/{id}"));
    isles.until_quiet();
    assert_eq!(isles.write(1, upload(&meta, b"CONTENT")).reply, Reply::Executed { status: 200 });
    isles.until_quiet();
    let has = |index: usize, name: &str| isles.images(index).get(id).is_some_and(|own| own == name);
    assert!(has(0, "one") && has(1, "one"));
    assert_eq!(isles.counted(sample::Write::Create, "one"), [1, 1, 0]);
    assert_eq!(isles.counted(sample::Write::Upload, "one"), [1, 1, 0], "one upload makes both active");
    let handle = isles.mesh(0).replication().unwrap();
    sites::run(handle.change(&meta.0, Change::Extend(site("C")))).unwrap();
    until("C has it under the same id", || has(2, "one"));
    isles.until_quiet();
    assert_eq!(sites::get(isles.isles[2].service.address(), &format!("/images/{id}/file")), b"CONTENT");
    assert_eq!(isles.write(2, patch(&meta, "two")).reply, Reply::Executed { status: 200 });
    isles.until_all_have(&["two"]);
    isles.until_quiet();
    assert_eq!(isles.write(1, delete(&meta)).reply, Reply::Executed { status: 204 });
    isles.until_all_have(&[]);
}

#[test]
fn a_creation_by_post_that_was_under_way_at_a_crash_is_looked_for_and_not_made_twice() {
    let mut isles = Isles::under(NAMED_IN_BODY);
    let id = "5c0f6f2e-8f0b-4b52-9d5e-0c4b7d0f6a11";
    isles.isles[0].service.faults().set(Fault::Mute);
    let replicas = isles.replicas(0);
    let writing = std::thread::spawn(move || {
        sites::run(async move { replicas.write(Box::new(create_in_body(id, "one", &NAMES))).await })
    });
    sites::run(isles.isles[0].service.faults().until_held(1));
    isles.stop(0);
    assert!(writing.join().unwrap().is_none(), "the client is told nothing: the process ends");
    isles.isles[0].service.faults().set(Fault::None);
    isles.start(0);
    isles.until_all_have(&["one"]);
    isles.until_quiet();
    assert!((0..NAMES.len()).all(|index| isles.images(index).contains_key(id)));
    assert_eq!(isles.counted(sample::Write::Create, "one"), [1, 1, 1]);
}

#[test]
fn a_replica_that_refuses_what_another_executed_is_repaired_from_it() {
    let isles = Isles::new();
    let meta = isles.make(0, "one");
    isles.until_quiet();
    // Somebody deletes it behind the mesh's back.
    let id = isles.images(1).into_keys().next().unwrap();
    sites::send(isles.isles[1].service.address(), &format!("DELETE /images/{id}"));
    assert_eq!(isles.write(0, patch(&meta, "two")).reply, Reply::Executed { status: 200 });
    isles.until_all_have(&["two"]);
    isles.until_quiet();
    assert!(isles.mesh(1).metrics().contains("archipel_replicas_diverged_total 1\n"));
    assert_eq!(isles.write(1, patch(&meta, "three")).reply, Reply::Executed { status: 200 });
    isles.until_all_have(&["three"]);
}

#[test]
fn a_site_that_lacks_long_writes_asks_for_them() {
    let mut isles = Isles::new();
    let meta = isles.make(0, "one");
    isles.until_quiet();
    isles.stop(2);
    // More than comes along with messages.
    for byte in [1, 2, 3] {
        let answered = isles.write(0, upload(&meta, &vec![byte; 3 << 20]));
        assert_eq!(answered.reply, Reply::Executed { status: 200 });
    }
    isles.start(2);
    isles.until_quiet();
    let id = isles.images(2).into_keys().next().unwrap();
    let file = sites::get(isles.isles[2].service.address(), &format!("/images/{id}/file"));
    assert_eq!((file.len(), file.first()), (3 << 20, Some(&3)));
    let handle = isles.mesh(0).replication().unwrap();
    until("bodies are erased once all have them", || sites::run(handle.counts()).unwrap().kept_bytes == 0);
}

#[test]
fn a_site_without_a_replica_is_told_nothing_and_changes_nothing() {
    let isles = Isles::new();
    let meta = isles.write(0, create("one", &["A", "B"])).meta.unwrap();
    isles.until_quiet();
    let replicas = isles.replicas(0);
    let ask = |asked| {
        let (reply, told) = tokio::sync::oneshot::channel();
        assert!(replicas.orders.send(Order::Asked(site("C"), asked, reply)).is_ok());
        sites::run(told).unwrap().0
    };
    assert_eq!(ask(Asked::State(meta.0.to_string())), 409);
    let before = isles.mesh(0).replication().unwrap();
    let map = sites::run(before.resources()).unwrap();
    let confirmation = |names: &[&str]| {
        let sites = names.iter().map(|name| site(name)).collect();
        let stamp = replica::Stamp { wall_ms: u64::MAX, logical: 0 };
        let map = ReplicaMap::new(meta.clone(), replica::Level::Eventual, false, &sites, stamp, &site("C"));
        let (known, done) = (replica::Version::default(), replica::Version::default());
        (
            Message::Confirm { epoch: replica::Epoch::default(), number: 0, map, known, done }.bytes(),
            Vec::new(),
        )
    };
    // Nor one that names itself, or has the one here removed.
    for names in [&["A", "B"][..], &["A", "B", "C"], &["C"]] {
        let envelope = Envelope { messages: vec![confirmation(names)] };
        let bytes = postcard::to_allocvec(&envelope).unwrap();
        assert_eq!(ask(Asked::Messages(bytes.into())), 403, "{names:?}");
    }
    assert_eq!(ask(Asked::Messages(bytes::Bytes::from_static(b"?"))), 400);
    assert_eq!(ask(Asked::Write("0".to_owned())), 404);
    assert_eq!(sites::run(before.resources()).unwrap(), map);
}

/// An engine whose disk can be full.
struct Flaky {
    engine: store::memory::Memory,
    full: AtomicBool,
}

impl Default for Flaky {
    fn default() -> Flaky {
        Flaky { engine: store::memory::Memory::new(), full: AtomicBool::new(false) }
    }
}

impl store::engine::Engine for Flaky {
    fn snapshot(&self) -> store::engine::Answer<Arc<dyn store::engine::Snapshot>> {
        self.engine.snapshot()
    }

    fn commit(&self, commit: store::engine::Commit) -> store::engine::Answer<store::engine::Outcome> {
        if self.full.load(Ordering::Relaxed) {
            return Box::pin(std::future::ready(Err(store::Error::Full)));
        }
        self.engine.commit(commit)
    }

    fn syncs(&self) -> u64 {
        self.engine.syncs()
    }

    fn close(&self) -> store::engine::Answer<()> {
        self.engine.close()
    }
}
