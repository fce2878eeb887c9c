//! A real application that knows nothing of sites: Kinto, one unmodified instance for each, through cuts and
//! crashes. `./test kinto` installs it, and says where it is; `cargo test` alone leaves this out.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

use sample::wan::Cut;
use serde_json::{Value, json};
use support::fleet::{Common, Fleet, name, until};
use support::{Header, Message, ask};
use tempfile::TempDir;

/// user:password, and Archipel's own.
const USER: Header<'_> = ("authorization", "Basic dXNlcjpwYXNzd29yZA==");
const ARCHIPEL: &str = "Basic YXJjaGlwZWw6c2VjcmV0";
const JSON: Header<'_> = ("content-type", "application/json");
const RECORDS: &str = "/v1/buckets/shop/collections/carts/records";

/// One Kinto. It ends with the test.
struct Kinto {
    address: SocketAddr,
    child: Child,
    _directory: TempDir,
}

impl Kinto {
    /// Starts it with a bucket and a collection that every user may write to.
    fn start(pserve: &str) -> Kinto {
        let directory = tempfile::tempdir().unwrap();
        // Kinto takes no port 0 and says none: one is found for it.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let file = directory.path().join("kinto.ini");
        std::fs::write(&file, settings(address)).unwrap();
        let mut command = Command::new(pserve);
        command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        // Read on, so that it never waits for a reader.
        std::thread::spawn(move || while log.read_line(&mut String::new()).is_ok_and(|read| read > 0) {});
        let kinto = Kinto { address, child, _directory: directory };
        until("Kinto answers", || ask(address, "GET", "/v1/", &[], "").is_ok());
        let everybody = json!({ "permissions": { "write": ["system.Authenticated"] } }).to_string();
        for path in ["/v1/buckets/shop", "/v1/buckets/shop/collections/carts"] {
            let made = kinto.ask("PUT", path, &everybody);
            assert_eq!(made.status(), 201, "{made:?}");
        }
        kinto
    }

    /// Asks it itself, past Archipel.
    fn ask(&self, method: &str, path: &str, body: &str) -> Message {
        ask(self.address, method, path, &[USER, JSON], body).unwrap()
    }

    /// All its records, without what is each site's own.
    fn records(&self) -> Vec<Value> {
        let answer = self.ask("GET", &format!("{RECORDS}?_sort=id"), "");
        let mut document: Value = serde_json::from_slice(&answer.body).unwrap();
        let mut records = std::mem::take(document["data"].as_array_mut().unwrap());
        for record in &mut records {
            record.as_object_mut().unwrap().remove("last_modified");
        }
        records
    }
}

impl Drop for Kinto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn settings(address: SocketAddr) -> String {
    format!(
        "[app:main]\nuse = egg:kinto\nkinto.storage_backend = kinto.core.storage.memory\n\
         kinto.permission_backend = kinto.core.permission.memory\nkinto.cache_backend = kinto.core.cache.memory\n\
         kinto.userid_hmac_secret = test\nkinto.bucket_create_principals = system.Everyone\n\
         multiauth.policies = basicauth\n\
         multiauth.policy.basicauth.use = kinto.core.authentication.BasicAuthAuthenticationPolicy\n\
         [server:main]\nuse = egg:waitress#main\nhost = {}\nport = {}\n",
        address.ip(),
        address.port()
    )
}

/// Kinto at each of two sites, with Archipel in front.
struct World {
    kintos: Vec<Kinto>,
    fleet: Fleet,
    _secret: TempDir,
}

impl World {
    fn start() -> World {
        let pserve = std::env::var("KINTO_PSERVE").expect("KINTO_PSERVE, which `./test kinto` sets");
        let kintos: Vec<Kinto> = (0..2).map(|_| Kinto::start(&pserve)).collect();
        let secret = tempfile::tempdir().unwrap();
        let file = secret.path().join("archipel");
        std::fs::write(&file, ARCHIPEL).unwrap();
        let head = "profile = \"kinto\"\n";
        let tables =
            format!("[replication.credentials.kinto]\nAuthorization = {:?}\n", file.display().to_string());
        let common = Common { service: "kinto", head, tables: &tables };
        let services: Vec<SocketAddr> = kintos.iter().map(|kinto| kinto.address).collect();
        let fleet = Fleet::start(&common, &services);
        World { kintos, fleet, _secret: secret }
    }

    fn ask(&self, site: usize, method: &str, path: &str, more: &[Header<'_>], body: &Value) -> Message {
        let headers = [&[USER, JSON][..], more].concat();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        ask(self.fleet.address(site), method, path, &headers, &body).unwrap()
    }

    /// Both instances have these records, and nothing waits any more.
    fn until_equal(&self, records: &[Value]) {
        until("both sites are equal", || self.kintos.iter().all(|kinto| kinto.records() == records));
    }
}

const BOTH: Header<'_> = ("x-scope", "kinto: Site1 & Site2");

fn id_of(answer: &Message) -> String {
    let document: Value = serde_json::from_slice(&answer.body).unwrap();
    document["data"]["id"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

#[test]
fn records_made_on_two_sites_end_identical_through_cuts_and_crashes() {
    let mut world = World::start();
    let made = world.ask(0, "POST", RECORDS, &[BOTH], &json!({ "data": { "item": "tea", "count": 1 } }));
    assert_eq!(made.status(), 201, "{made:?}");
    let tea = id_of(&made);
    let path = format!("{RECORDS}/{tea}");
    world.until_equal(&[json!({ "id": tea, "item": "tea", "count": 1 })]);

    // Apart, each side goes on; what each sets is there afterwards.
    world.fleet.isolate(1, Some(Cut::Stall));
    let here = world.ask(0, "PATCH", &path, &[], &json!({ "data": { "count": 2 } }));
    assert_eq!(here.status(), 200, "{here:?}");
    let there = world.ask(1, "PATCH", &path, &[], &json!({ "data": { "note": "green" } }));
    assert_eq!(there.status(), 200, "{there:?}");
    let chosen =
        world.ask(0, "PUT", &format!("{RECORDS}/chosen"), &[BOTH], &json!({ "data": { "item": "milk" } }));
    assert_eq!(chosen.status(), 201, "{chosen:?}");
    assert!(chosen.header("scope-sites").contains("pending"), "{chosen:?}");
    world.fleet.isolate(1, None);
    let mut both = vec![
        json!({ "id": "chosen", "item": "milk" }),
        json!({ "id": tea, "item": "tea", "count": 2, "note": "green" }),
    ];
    both.sort_by_key(|record| record["id"].as_str().unwrap().to_owned());
    world.until_equal(&both);

    // Killed while the other goes on, and started again.
    world.fleet.kill(1);
    let gone = world.ask(0, "DELETE", &path, &[], &Value::Null);
    assert_eq!(gone.status(), 200, "{gone:?}");
    let more = world.ask(0, "PUT", &format!("{RECORDS}/chosen"), &[], &json!({ "data": { "item": "oats" } }));
    assert_eq!(more.status(), 200, "{more:?}");
    world.fleet.revive(1);
    world.until_equal(&[json!({ "id": "chosen", "item": "oats" })]);
    // A tombstone, as Kinto itself tells it, at both.
    for kinto in &world.kintos {
        let since = kinto.ask("GET", &format!("{RECORDS}?_since=0"), "").text();
        assert!(since.contains(&tea) && since.contains("\"deleted\""), "{since}");
    }
    let lost = world.ask(1, "GET", &path, &[], &Value::Null);
    assert_eq!(lost.status(), 404, "{lost:?}");
}

#[test]
fn a_conditional_write_is_decided_once_and_a_stale_one_changes_nothing_anywhere() {
    let world = World::start();
    let path = format!("{RECORDS}/cart");
    let made = world.ask(0, "PUT", &path, &[BOTH, ("if-none-match", "*")], &json!({ "data": { "n": 1 } }));
    assert_eq!(made.status(), 201, "{made:?}");
    world.until_equal(&[json!({ "id": "cart", "n": 1 })]);
    let again = world.ask(1, "PUT", &path, &[("if-none-match", "*")], &json!({ "data": { "n": 9 } }));
    assert_eq!(again.status(), 412, "{again:?}");
    for site in 0..2 {
        let seen = world.ask(site, "GET", &path, &[], &Value::Null);
        let etag = seen.header("etag").to_owned();
        assert!(!etag.is_empty(), "{seen:?}");
        let n = json!({ "data": { "n": 2 + site } });
        let fresh = world.ask(site, "PUT", &path, &[("if-match", &etag)], &n);
        assert_eq!(fresh.status(), 200, "at {}: {fresh:?}", name(site));
        let stale = world.ask(site, "PUT", &path, &[("if-match", &etag)], &json!({ "data": { "n": 99 } }));
        assert_eq!(stale.status(), 412, "at {}: {stale:?}", name(site));
        world.until_equal(&[json!({ "id": "cart", "n": 2 + site })]);
    }
    let unchanged = world.ask(0, "GET", &path, &[], &Value::Null);
    let etag = unchanged.header("etag").to_owned();
    let same = world.ask(0, "GET", &path, &[("if-none-match", &etag)], &Value::Null);
    assert_eq!(same.status(), 304, "{same:?}");
}
