//! Long uploads to replicated images, with processes that are killed and links that are cut meanwhile.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use sample::image::{Image, Settings};
use sample::wan::Cut;
use serde_json::Value;
use support::fleet::{Common, Fleet, until};
use support::{Message, ask, get};

const SITES: usize = 3;
const MIB: usize = 1 << 20;

struct Stage {
    fleet: Fleet,
    images: Vec<Image>,
    services: Vec<sample::Handle>,
    id: String,
}

impl Stage {
    /// Three sites, and an image that is replicated at all of them.
    fn start() -> Stage {
        Stage::at("image: Site1 & Site2 & Site3")
    }

    /// The same, with this scope.
    fn at(scope: &str) -> Stage {
        let images: Vec<_> = (0..SITES).map(|_| Image::new(&Settings::default())).collect();
        let any = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let services: Vec<_> =
            images.iter().map(|image| sample::Handle::spawn_thread(image.clone(), any).unwrap()).collect();
        let addresses: Vec<_> = services.iter().map(sample::Handle::address).collect();
        let tables = "[timeouts]\nconnect = \"300ms\"\n[replication]\nquota_mib = 64\ninline_bytes = 1024\n";
        let common = Common { service: "image", head: "profile = \"sample\"\n", tables };
        let fleet = Fleet::start(&common, &addresses);
        let scope = [("x-scope", scope), ("content-type", "application/json")];
        let made = ask(fleet.address(0), "POST", "/images", &scope, "{\"name\": \"one\"}").unwrap();
        assert_eq!(made.status(), 201, "{made:?}");
        let stage = Stage { fleet, images, services, id: made.field("id") };
        until("every site knows it", || {
            (0..SITES).all(|site| get(stage.fleet.address(site), &stage.path(), &[]).status() == 200)
        });
        stage
    }

    fn path(&self) -> String {
        format!("/images/{}", self.id)
    }

    /// A client that has sent the head of an upload.
    fn begin(&self, site: usize, length: usize) -> TcpStream {
        let mut client = TcpStream::connect(self.fleet.address(site)).unwrap();
        let head = format!("PUT {}/file HTTP/1.1\r\nhost: test\r\n", self.path());
        write!(client, "{head}content-length: {length}\r\n\r\n").unwrap();
        client
    }

    fn upload(&self, site: usize, body: &[u8]) {
        let answer = self.try_upload(site, body);
        assert_eq!(answer.status(), 200, "{answer:?}");
    }

    fn try_upload(&self, site: usize, body: &[u8]) -> Message {
        let mut client = self.begin(site, body.len());
        client.write_all(body).unwrap();
        Message::read(&mut BufReader::new(client)).unwrap()
    }

    /// How often each service was given a file.
    fn uploads(&self) -> Vec<u64> {
        self.images.iter().map(|image| image.counts().writes(sample::Write::Upload, "one")).collect()
    }

    /// The files of bodies at a site: all, and those that are not finished.
    fn bodies(&self, site: usize) -> (usize, usize) {
        let Ok(files) = std::fs::read_dir(self.fleet.state(site).join("bodies")) else { return (0, 0) };
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let names: Vec<_> = names.filter(|name| name.len() >= 32).collect();
        (names.len(), names.iter().filter(|name| name.len() > 32).count())
    }

    fn until_no_bodies(&self) {
        until("no site has a body any more", || (0..SITES).all(|site| self.bodies(site) == (0, 0)));
    }

    /// What a site's own service has of the image.
    fn content(&self, site: usize) -> Vec<u8> {
        self.file(site).unwrap_or_default()
    }

    /// The same; nothing where it has no file.
    fn file(&self, site: usize) -> Option<Vec<u8>> {
        let listed: Value =
            serde_json::from_slice(&get(self.services[site].address(), "/images", &[]).body).unwrap();
        let id = listed["images"][0]["id"].as_str().unwrap();
        let answer = get(self.services[site].address(), &format!("/images/{id}/file"), &[]);
        (answer.status() == 200).then_some(answer.body)
    }

    /// What becomes of an operation, taken by Site1 or Site2, that nobody knew the outcome of: whether both execute it.
    fn is_executed(&self, operation: &str) -> bool {
        let (own, other, index) =
            if operation.starts_with("Site1/") { ("Site1", "Site2", 0) } else { ("Site2", "Site1", 1) };
        let mut executed = None;
        until("it is decided", || {
            let fate = get(self.fleet.address(index), &format!("/_scope/operations/{operation}"), &[]);
            let fate: Value = serde_json::from_slice(&fate.body).unwrap();
            // What nobody executes is pending nowhere; once all is over, nothing is known of it.
            let at = |site: &str| {
                let mut sites = fate["sites"].as_array().into_iter().flatten();
                sites.find(|known| known["site"] == site).map(|known| known["state"] == "done")
            };
            executed = match (at(own), at(other)) {
                (Some(true), Some(true)) => Some(true),
                (_, None) => Some(false),
                (_, Some(_)) => None,
            };
            executed.is_some()
        });
        executed.unwrap()
    }
}

fn content(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| seed ^ (at >> 16).to_le_bytes()[0] ^ at.to_le_bytes()[0]).collect()
}

#[test]
fn a_site_that_is_cut_off_during_an_upload_gets_it_from_a_replica_when_the_first_is_gone() {
    let mut stage = Stage::start();
    let body = content(1, 8 * MIB);
    let mut client = stage.begin(0, body.len());
    client.write_all(&body[..4 * MIB]).unwrap();
    until("the others pull it", || stage.bodies(1).1 == 1 && stage.bodies(2).1 == 1);
    stage.fleet.isolate(2, Some(Cut::Reset));
    client.write_all(&body[4 * MIB..]).unwrap();
    let answer = Message::read(&mut BufReader::new(client)).unwrap();
    assert_eq!(answer.status(), 200, "{answer:?}");
    until("Site2 has it", || stage.uploads()[1] == 1);
    assert_eq!(stage.uploads(), [1, 1, 0]);
    stage.fleet.kill(0);
    stage.fleet.isolate(2, None);
    until("Site3 has it", || stage.uploads()[2] == 1);
    assert!(stage.content(2) == body);
    stage.fleet.revive(0);
    stage.until_no_bodies();
    assert_eq!(stage.uploads(), [1, 1, 1]);
}

#[test]
fn a_site_that_is_killed_during_an_upload_leaves_nothing_behind() {
    let mut stage = Stage::start();
    let mut client = stage.begin(0, 8 * MIB);
    client.write_all(&content(2, 4 * MIB)).unwrap();
    until("all have some of it", || (0..SITES).all(|site| stage.bodies(site).1 == 1));
    stage.fleet.kill(0);
    assert_eq!(stage.bodies(0).1, 1, "it had no time to tidy up");
    stage.fleet.revive(0);
    stage.until_no_bodies();
    assert_eq!(stage.uploads(), [0, 0, 0]);
    stage.fleet.until_met();
    let body = content(3, 2 * MIB);
    stage.upload(0, &body);
    until("all have the next", || stage.uploads() == [1, 1, 1]);
    for site in 0..SITES {
        assert!(stage.content(site) == body);
    }
    stage.until_no_bodies();
}

#[test]
fn a_long_upload_at_an_ordered_level_reaches_every_site_once() {
    for level in ["quorum", "strong"] {
        let stage = Stage::at(&format!("image: (Site1 & Site2 & Site3)@{level}"));
        let (first, second) = (content(4, 6 * MIB + 1), content(5, 2 * MIB));
        stage.upload(1, &first);
        until("every site has it", || stage.uploads() == [1, 1, 1]);
        for site in 0..SITES {
            assert!(stage.content(site) == first, "{level}");
        }
        stage.upload(2, &second);
        until("every site has the next", || stage.uploads() == [2, 2, 2]);
        for site in 0..SITES {
            assert!(stage.content(site) == second, "{level}");
        }
        stage.until_no_bodies();
    }
}

#[test]
fn a_minority_gets_a_long_upload_at_a_quorum_once_it_is_back() {
    let stage = Stage::at("image: (Site1 & Site2 & Site3)@quorum");
    let body = content(6, 4 * MIB);
    stage.fleet.isolate(2, Some(Cut::Reset));
    let mut before = stage.uploads();
    // If it was Site3 that had the lead, another has to take it first.
    until("it is taken without Site3", || match stage.try_upload(0, &body) {
        answer if answer.status() == 200 => true,
        // The lead changed in the middle. Who had it may have executed what another decides that nobody does: it is then given
        // the state of the other.
        answer if answer.status() == 504 => {
            let executed = stage.is_executed(answer.header("scope-operation"));
            until("Site1 and Site2 are equal", || stage.file(0) == stage.file(1));
            if !executed {
                assert_eq!(stage.file(0), None);
                before = stage.uploads();
            }
            executed
        }
        answer => {
            assert!(answer.status() == 503 && answer.text().contains("nothing was executed"), "{answer:?}");
            false
        }
    });
    let once_more = |sites: [u64; SITES]| before.iter().zip(sites).map(|(was, more)| was + more).collect();
    let (at_two, at_three): (Vec<u64>, Vec<u64>) = (once_more([1, 1, 0]), once_more([1, 1, 1]));
    until("those that are there have it", || stage.uploads() == at_two);
    stage.fleet.isolate(2, None);
    until("Site3 has it too", || stage.uploads() == at_three);
    assert!(stage.content(2) == body);
    stage.until_no_bodies();
}
