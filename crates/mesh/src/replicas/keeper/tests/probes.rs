//! What a crash left in doubt is looked for in the service, as the profile says.

use std::time::Duration;

use replica::{Change, Doubt, Meta, OpId, Reply};
use sample::Fault;

use super::sites::{self, Isles, NAMES, create, site, until, upload};
use crate::replicas::{Name, Seen, Wanted};

/// Images say how far their files are, and are named after the operation that made them.
const PROBED: &str = "description = 'images'\n[propagation]\ntracestate = true\n\
    [[kinds]]\nname = 'image'\nservice = 'image'\npath = '/**/images'\nparts = ['/file']\n\
    generated = ['/created_at', '/size', '/digest', '/status', '/name']\n\
    probe = { marker = '/name', member = '/name', query = 'op={operation}', items = '/images' }\n\
    operations = [{ method = 'PUT', below = '/file', class = 'patch', probe = { status = '/status', \
    executed = ['active'], not_executed = ['queued'], size = '/size', checksum = '/digest', algorithm = 'sha256' } }]\n";

/// A service that takes longer has not executed it, as far as these tests are concerned.
const SOON: Duration = Duration::from_millis(300);

fn probed(mut wanted: Wanted) -> Wanted {
    wanted.write.doubt = Doubt::Probe;
    wanted
}

/// A site's mesh ends when its service has executed a write and has not said so, and starts again.
fn crash_after(isles: &mut Isles, index: usize, wanted: Wanted) {
    isles.isles[index].service.faults().set(Fault::Mute);
    let replicas = isles.replicas(index);
    let writing =
        std::thread::spawn(move || sites::run(async move { replicas.write(Box::new(wanted)).await }));
    sites::run(isles.isles[index].service.faults().until_held(1));
    isles.stop(index);
    assert!(writing.join().unwrap().is_none(), "the client is told nothing: the process ends");
    isles.isles[index].service.faults().set(Fault::None);
    isles.start(index);
}

/// A site whose service says neither that it executed a write nor that it did not, and did not.
fn fail(isles: &mut Isles, index: usize, wanted: Wanted) {
    isles.stop(index);
    isles.isles[index].response = SOON;
    isles.start(index);
    isles.isles[index].service.faults().set(Fault::Unavailable);
    assert_eq!(isles.write(index, wanted).reply, Reply::Unknown);
    isles.isles[index].service.faults().set(Fault::None);
}

/// How many images each site's service made, and how many files it took.
fn counts(isles: &Isles, write: sample::Write) -> Vec<u64> {
    let names = |index: usize| isles.names(index);
    let of = |index: usize| {
        let counts = isles.isles[index].image.counts();
        names(index).iter().map(|name| counts.writes(write, name)).sum()
    };
    (0..NAMES.len()).map(of).collect()
}

fn until_all_have_one(isles: &Isles) {
    for index in 0..NAMES.len() {
        until("it is at each site", || isles.names(index).len() == 1);
    }
    isles.until_quiet();
    assert!(isles.isles.iter().enumerate().all(|(index, _)| doubted(isles, index).is_none()));
}

fn doubted(isles: &Isles, index: usize) -> Option<OpId> {
    let handle = isles.mesh(index).replication().unwrap();
    sites::run(handle.in_doubt()).unwrap().pop().map(|pending| pending.op)
}

#[test]
fn an_upload_without_an_answer_is_found_by_its_checksum_or_sent_again() {
    for lose in [crash_after, fail] {
        let mut isles = Isles::under(PROBED);
        let meta = isles.make(0, "one");
        until_all_have_one(&isles);
        lose(&mut isles, 0, probed(upload(&meta, b"CONTENT")));
        until("each has it once", || counts(&isles, sample::Write::Upload) == [1, 1, 1]);
        isles.until_quiet();
        assert_eq!((counts(&isles, sample::Write::Upload), doubted(&isles, 0)), (vec![1, 1, 1], None));
    }
}

#[test]
fn a_file_that_is_another_is_not_taken_for_the_one_that_was_sent() {
    let mut isles = Isles::under(PROBED);
    let meta = isles.make(0, "one");
    until_all_have_one(&isles);
    isles.write(0, upload(&meta, b"ANOTHER"));
    isles.until_quiet();
    fail(&mut isles, 0, probed(upload(&meta, b"CONTENT")));
    until("it is shown", || doubted(&isles, 0).is_some());
}

#[test]
fn a_creation_without_an_answer_is_found_by_the_name_of_its_operation_or_made_again() {
    for lose in [crash_after, fail] {
        let mut isles = Isles::under(PROBED);
        lose(&mut isles, 0, probed(create("one", &NAMES)));
        until_all_have_one(&isles);
        assert_eq!(counts(&isles, sample::Write::Create), [1, 1, 1]);
    }
}

#[test]
fn an_image_that_merely_looks_alike_is_not_adopted() {
    let mut isles = Isles::under(PROBED);
    sites::send_with(isles.isles[0].service.address(), "POST /images", "{\"name\": \"one\"}");
    fail(&mut isles, 0, probed(create("one", &NAMES)));
    // The service ignores the query, and shows one that has not the name of the operation.
    until("it is shown", || doubted(&isles, 0).is_some());
    assert_eq!(isles.names(0), ["one"]);
}

#[test]
fn an_operator_has_it_looked_for_again() {
    let mut isles = Isles::under(PROBED);
    crash_after(&mut isles, 0, create("one", &NAMES));
    until("it is shown", || doubted(&isles, 0).is_some());
    let (handle, op) = (isles.mesh(0).replication().unwrap(), doubted(&isles, 0).unwrap());
    assert_eq!(sites::run(handle.probe(op.clone())), Ok(Some(true)));
    until_all_have_one(&isles);
    assert_eq!(sites::run(handle.probe(op)), Err(crate::replication::Refused::Unknown));
}

#[test]
fn a_copy_without_an_answer_is_found_and_not_made_again() {
    let mut isles = Isles::under(PROBED);
    let meta: Meta = isles.write(0, create("one", &["A", "B"])).meta.unwrap();
    isles.until_quiet();
    isles.isles[2].service.faults().set(Fault::Mute);
    let handle = isles.mesh(0).replication().unwrap();
    sites::run(handle.change(&meta.0, Change::Extend(site("C")))).unwrap();
    sites::run(isles.isles[2].service.faults().until_held(1));
    isles.stop(2);
    isles.isles[2].service.faults().set(Fault::None);
    isles.start(2);
    until(
        "C can read it",
        || matches!(isles.replicas(2).known.look_up(&Name::from(&meta)), Seen::Replicated(place) if place.readable),
    );
    until_all_have_one(&isles);
    assert_eq!(counts(&isles, sample::Write::Create), [1, 1, 1]);
}
