//! Bodies that are too long for memory: from one upload to every replica.

use std::io::{Read, Write};
use std::net::TcpStream;

use replica::{Change, Meta};
use ring::digest::{SHA256, digest};
use serde_json::Value;

use super::sites::{self, Isles, NAMES, create, get, patch, site, until};

const MIB: usize = 1 << 20;

/// Bytes that repeat nowhere near each other.
fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state ^ (state >> 29)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A client that sends a file as the test says.
struct Client(TcpStream);

impl Client {
    fn begin(isles: &Isles, index: usize, meta: &Meta, more: &str) -> Client {
        let path = meta.0.strip_prefix("image:").unwrap();
        let address = isles.mesh(index).addresses("image", false)[0];
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "PUT {path}/file HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{more}\r\n").unwrap();
        Client(stream)
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// All that is still answered.
    fn answer(mut self) -> String {
        let mut answer = Vec::new();
        self.0.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

fn upload(isles: &Isles, index: usize, meta: &Meta, body: &[u8]) -> String {
    let mut client = Client::begin(isles, index, meta, &format!("Content-Length: {}\r\n", body.len()));
    client.send(body);
    client.answer()
}

/// What a site's service has: the digest of its only image's file.
fn has(isles: &Isles, index: usize) -> Option<String> {
    let listed: Value =
        serde_json::from_slice(&get(isles.isles[index].service.address(), "/images")).unwrap();
    listed["images"][0]["digest"].as_str().map(str::to_owned)
}

fn until_has(isles: &Isles, index: usize, body: &[u8]) {
    let bytes = digest(&SHA256, body);
    let hex = bytes.as_ref().iter().fold("sha256:".to_owned(), |hex, byte| format!("{hex}{byte:02x}"));
    until(&format!("{} has it", NAMES[index]), || has(isles, index).as_ref() == Some(&hex));
}

fn usage(isles: &Isles, index: usize) -> spool::Usage {
    isles.replicas(index).spool.get().unwrap().usage()
}

/// Nothing is left of any body.
fn until_erased(isles: &Isles, indices: &[usize]) {
    for index in indices {
        until(&format!("no body is left at {}", NAMES[*index]), || {
            let usage = usage(isles, *index);
            (usage.bytes, usage.stored, usage.unfinished) == (0, 0, 0)
        });
    }
}

fn uploads(isles: &Isles) -> Vec<u64> {
    isles.counted(sample::Write::Upload, "one")
}

#[test]
fn one_long_upload_reaches_every_site_and_is_then_forgotten() {
    let isles = Isles::new();
    let meta = isles.make(0, "one");
    isles.until_quiet();
    let body = content(1, 8 * MIB + 5);
    assert!(upload(&isles, 1, &meta, &body).starts_with("HTTP/1.1 200"));
    for index in 0..NAMES.len() {
        until_has(&isles, index, &body);
    }
    isles.until_quiet();
    assert_eq!(uploads(&isles), [1, 1, 1]);
    until_erased(&isles, &[0, 1, 2]);
    // As many bytes as there are, once from the client and once to each other site.
    let pulled = isles.mesh(0).metrics();
    assert!(pulled.contains("archipel_replicas_pulled_total 1"), "{pulled}");
}

#[test]
fn the_others_have_a_body_while_it_still_comes_and_a_client_is_told_to_go_on() {
    let isles = Isles::new();
    let meta = isles.make(0, "one");
    isles.until_quiet();
    let body = content(2, 8 * MIB);
    let head = format!("Content-Length: {}\r\nExpect: 100-continue\r\n", body.len());
    let mut client = Client::begin(&isles, 0, &meta, &head);
    let mut word = [0; 25];
    client.0.read_exact(&mut word).unwrap();
    assert!(word.starts_with(b"HTTP/1.1 100 Continue"));
    client.send(&body[..6 * MIB]);
    for index in [1, 2] {
        let spool = isles.replicas(index).spool.get().unwrap().clone();
        until("most of it is there", || spool.metrics().written_bytes >= 5 * MIB as u64);
        let handle = isles.mesh(index).replication().unwrap();
        let resource = sites::run(handle.resources()).unwrap().remove(0);
        let transfer = &resource.transfers[0];
        assert_eq!((transfer.from.clone(), transfer.of), (site("A"), Some(8 * MIB as u64)));
        assert!(transfer.bytes >= 5 * MIB as u64, "{transfer:?}");
    }
    assert_eq!(uploads(&isles), [0, 0, 0], "nobody executes what is not recorded");
    client.send(&body[6 * MIB..]);
    assert!(client.answer().starts_with("HTTP/1.1 200"));
    for index in 0..NAMES.len() {
        until_has(&isles, index, &body);
    }
}

#[test]
fn a_body_of_unknown_length_is_taken_as_well() {
    let isles = Isles::new();
    let meta = isles.make(0, "one");
    isles.until_quiet();
    let body = content(3, 3 * MIB);
    let mut client = Client::begin(&isles, 0, &meta, "Transfer-Encoding: chunked\r\n");
    for piece in body.chunks(100_000) {
        client.send(format!("{:x}\r\n", piece.len()).as_bytes());
        client.send(piece);
        client.send(b"\r\n");
    }
    client.send(b"0\r\n\r\n");
    assert!(client.answer().starts_with("HTTP/1.1 200"));
    for index in 0..NAMES.len() {
        until_has(&isles, index, &body);
    }
    until_erased(&isles, &[0, 1, 2]);
}

#[test]
fn an_upload_that_breaks_off_leaves_nothing_behind() {
    let isles = Isles::new();
    let meta = isles.make(0, "one");
    isles.until_quiet();
    let mut client = Client::begin(&isles, 0, &meta, &format!("Content-Length: {}\r\n", 8 * MIB));
    client.send(&content(4, 4 * MIB));
    for index in [1, 2] {
        until("it is on its way", || usage(&isles, index).unfinished == 1);
    }
    drop(client);
    until_erased(&isles, &[0, 1, 2]);
    assert_eq!(uploads(&isles), [0, 0, 0]);
    // All goes on.
    let body = content(5, 2 * MIB);
    assert!(upload(&isles, 0, &meta, &body).starts_with("HTTP/1.1 200"));
    until_has(&isles, 2, &body);
}

#[test]
fn what_the_first_replica_refuses_is_executed_nowhere_and_goes_everywhere() {
    let isles = Isles::new();
    let meta = isles.make(0, "one");
    isles.until_quiet();
    // The service has another opinion of it than the keeper: it is gone there.
    let id = isles.images(0).into_keys().next().unwrap();
    sites::send(isles.isles[0].service.address(), &format!("DELETE /images/{id}"));
    // A client that waits to be told to go on has its service asked so too: it refuses before it is sent anything.
    let head = format!("Content-Length: {}\r\nExpect: 100-continue\r\n", 4 * MIB);
    let mut client = Client::begin(&isles, 0, &meta, &head);
    client.send(&content(6, 4 * MIB));
    let answer = client.answer();
    assert!(answer.contains("HTTP/1.1 404"), "{answer}");
    until_erased(&isles, &[0, 1, 2]);
    assert_eq!(uploads(&isles), [0, 0, 0]);
}

#[test]
fn a_site_that_was_away_gets_a_body_from_another_replica_also_after_a_restart() {
    let mut isles = Isles::new();
    let meta = isles.make(0, "one");
    isles.until_quiet();
    isles.stop(2);
    let body = content(7, 8 * MIB);
    assert!(upload(&isles, 0, &meta, &body).starts_with("HTTP/1.1 200"));
    until_has(&isles, 1, &body);
    // Whoever took it in is gone; who passes it on was away itself meanwhile.
    isles.stop(0);
    isles.stop(1);
    for file in sites::files(isles.isles[1].directory.path()) {
        let stored = std::fs::read(file).unwrap();
        assert!(!stored.windows(64).any(|part| part == &body[MIB..MIB + 64]), "it is there in clear");
    }
    isles.start(1);
    assert_eq!(usage(&isles, 1).stored, 1);
    isles.start(2);
    until_has(&isles, 2, &body);
    isles.start(0);
    isles.until_quiet();
    assert_eq!(uploads(&isles), [1, 1, 1]);
    until_erased(&isles, &[0, 1, 2]);
}

#[test]
fn a_site_that_ends_during_an_upload_has_nothing_of_it_afterwards() {
    let mut isles = Isles::new();
    let meta = isles.make(0, "one");
    isles.until_quiet();
    let mut client = Client::begin(&isles, 0, &meta, &format!("Content-Length: {}\r\n", 8 * MIB));
    client.send(&content(8, 4 * MIB));
    for index in [0, 1, 2] {
        until("it is on its way", || usage(&isles, index).unfinished == 1);
    }
    isles.stop(0);
    until_erased(&isles, &[1, 2]);
    isles.start(0);
    until_erased(&isles, &[0]);
    assert_eq!(uploads(&isles), [0, 0, 0]);
}

#[test]
fn a_body_for_which_there_is_no_room_is_refused_before_it_is_sent() {
    let isles = Isles::new();
    let meta = isles.make(0, "one");
    isles.until_quiet();
    let head = format!("Content-Length: {}\r\nExpect: 100-continue\r\n", 65 * MIB);
    let answer = Client::begin(&isles, 0, &meta, &head).answer();
    assert!(answer.starts_with("HTTP/1.1 507"), "{answer}");
    assert!(answer.contains("no-room") && answer.contains("nothing was executed"), "{answer}");
    assert_eq!(uploads(&isles), [0, 0, 0]);
    until_erased(&isles, &[0, 1, 2]);
}

#[test]
fn a_site_without_room_stays_behind_until_it_has_some_and_holds_nobody_up() {
    let isles = Isles::new();
    let meta = isles.make(0, "one");
    let other = isles.make(0, "other");
    isles.until_quiet();
    // All but a little of its quota is taken.
    let spool = isles.replicas(2).spool.get().unwrap().clone();
    let taken = spool.writer(Some(60 * MIB as u64)).unwrap();
    let body = content(9, 8 * MIB);
    assert!(upload(&isles, 0, &meta, &body).starts_with("HTTP/1.1 200"));
    until("B has it", || uploads(&isles)[1] == 1);
    // What concerns another resource passes.
    isles.write(0, patch(&other, "another"));
    until("C has the other", || isles.names(2).contains(&"another".to_owned()));
    assert_eq!(uploads(&isles), [1, 1, 0]);
    drop(taken);
    until("C has it too", || uploads(&isles) == [1, 1, 1]);
    isles.until_quiet();
    until_erased(&isles, &[0, 1, 2]);
}

#[test]
fn a_new_replica_gets_long_parts_through_the_spool() {
    let isles = Isles::new();
    let meta = isles.write(0, create("one", &["A", "B"])).meta.unwrap();
    isles.until_quiet();
    let body = content(10, 8 * MIB);
    assert!(upload(&isles, 0, &meta, &body).starts_with("HTTP/1.1 200"));
    until_has(&isles, 1, &body);
    isles.until_quiet();
    assert_eq!(usage(&isles, 2).stored, 0, "a site without a replica gets nothing");
    let handle = isles.mesh(0).replication().unwrap();
    sites::run(handle.change(&meta.0, Change::Extend(site("C")))).unwrap();
    until_has(&isles, 2, &body);
    isles.until_quiet();
    until_erased(&isles, &[0, 1, 2]);
    let compared = sites::run(handle.compare(&meta.0)).unwrap();
    assert_eq!(compared.len(), 3);
    assert!(compared.iter().all(|site| site.content == compared[0].content), "{compared:?}");
    assert!(matches!(compared[0].content, Some(crate::replication::Has::Digest(_))), "{compared:?}");
}

#[test]
fn a_site_without_a_replica_gets_no_body() {
    let isles = Isles::new();
    let meta = isles.write(0, create("one", &["A", "B"])).meta.unwrap();
    isles.until_quiet();
    let mut client = Client::begin(&isles, 0, &meta, &format!("Content-Length: {}\r\n", 4 * MIB));
    client.send(&content(11, 2 * MIB));
    until("B is pulling it", || usage(&isles, 1).unfinished == 1);
    let name = |index: usize| {
        let directory = isles.isles[index].directory.path().join("bodies");
        let mut files = sites::files(&directory).into_iter();
        files.find_map(|file| Some(file.file_stem()?.to_str()?.to_owned()).filter(|name| name.len() == 32))
    };
    until("it has a name", || name(0).is_some());
    let id = name(0).unwrap();
    let ask = |from: &str| {
        let (reply, told) = tokio::sync::oneshot::channel();
        let asked = crate::replicas::wire::Asked::Body(id.clone());
        let order = crate::replicas::Order::Asked(site(from), asked, reply);
        assert!(isles.replicas(0).orders.send(order).is_ok());
        sites::run(told).unwrap().0
    };
    assert_eq!(ask("B"), 200);
    assert_eq!(ask("C"), 404);
}

#[test]
fn a_body_that_the_disk_lost_is_had_from_another_replica() {
    let mut isles = Isles::new();
    let meta = isles.make(0, "one");
    isles.until_quiet();
    isles.isles[1].service.faults().set(sample::Fault::Unavailable);
    let body = content(12, 4 * MIB);
    assert!(upload(&isles, 0, &meta, &body).starts_with("HTTP/1.1 200"));
    until_has(&isles, 2, &body);
    let handle = isles.mesh(1).replication().unwrap();
    until("B has recorded it", || sites::run(handle.waiting()).unwrap().contains_key(&site("B")));
    isles.stop(1);
    let lost = sites::files(&isles.isles[1].directory.path().join("bodies"));
    let lost: Vec<_> = lost.iter().filter(|file| file.file_name().unwrap().len() == 32).collect();
    assert_eq!(lost.len(), 1);
    std::fs::remove_file(lost[0]).unwrap();
    isles.isles[1].service.faults().set(sample::Fault::None);
    isles.start(1);
    until_has(&isles, 1, &body);
    isles.until_quiet();
    assert_eq!(uploads(&isles), [1, 1, 1]);
    until_erased(&isles, &[0, 1, 2]);
}

#[test]
fn a_replica_that_is_given_a_state_keeps_no_part_that_the_state_has_not() {
    let isles = Isles::new();
    let meta = isles.make(0, "one");
    isles.until_all_have(&["one"]);
    isles.until_quiet();
    let service = isles.isles[1].service.address();
    let id = || isles.images(1).into_keys().next();
    let file = || id().map(|id| get(service, &format!("/images/{id}/file")));
    // Behind the mesh's back. This service takes no file away: the image has to be made anew.
    sites::send_with(service, &format!("PUT /images/{}/file", id().unwrap()), "other");
    assert_eq!(file().unwrap(), b"other");
    let handle = isles.mesh(1).replication().unwrap();
    sites::run(handle.repair(&meta.0, site("A"))).unwrap();
    until("B has no file", || file().is_some_and(|file| file != b"other"));
    isles.until_quiet();
    isles.write(0, patch(&meta, "two"));
    isles.until_all_have(&["two"]);
}
