//! Who is believed: zones and quarantine of every administrator, revocations of the authority, and nothing of
//! an outsider.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::net::UdpSocket;
use std::time::{Duration, Instant, SystemTime};

use archipel::demo::World;
use link::datagram::{self, Sealer};
use link::{Authority, Revoked};
use sample::wan::Cut;
use serde_json::json;
use support::members::{
    archipel, configured, counted, lasting, list, ordered, refused, seen, tell_admin, until, until_seen,
    until_status,
};

const REFUSED: &str = "archipel_datagrams_refused_total";

fn zones(world: &World, site: usize) -> String {
    ordered(world, site, &["zone", "list"])
}

#[test]
fn zones_are_defined_everywhere_the_later_wins_and_circles_are_refused() {
    let world = World::start().unwrap();
    ordered(&world, 0, &["zone", "set", "west=Site1 & Site2"]);
    for by in 0..3 {
        until("the zone is known", || zones(&world, by) == "west = Site1 & Site2\n");
    }
    until("it is used", || list(&world, 2, "first(west)").header("x-served-by").ends_with("Site1"));
    ordered(&world, 2, &["zone", "set", "west=Site3"]);
    ordered(&world, 1, &["zone", "set", "east=west ; Site1"]);
    for by in 0..3 {
        until("the later wins", || zones(&world, by) == "east = west ; Site1\nwest = Site3\n");
    }
    let circle = archipel(&world, 0, &["zone", "set", "west=Site1 & east"]);
    assert_eq!(circle.status.code(), Some(1), "{circle:?}");
    let why = String::from_utf8(circle.stderr).unwrap();
    assert!(why.contains("`west` would be defined by itself"), "{why}");
    for (definition, expected) in
        [("west=Site1 &", "west"), ("Site1=Site2", "no zone"), ("west", "NAME=LOCATION")]
    {
        let why = refused(&world, 0, &["zone", "set", definition]);
        assert!(why.contains(expected), "{definition}: {why}");
    }
    assert_eq!(zones(&world, 0), "east = west ; Site1\nwest = Site3\n", "what is refused changes nothing");
    ordered(&world, 0, &["zone", "remove", "east"]);
    for gone in ["east", "nosuch"] {
        assert!(
            refused(&world, 0, &["zone", "remove", gone]).contains(&format!("there is no zone `{gone}`"))
        );
    }
    for by in 0..3 {
        until("it is forgotten", || zones(&world, by) == "west = Site3\n");
        until("a scope cannot use it", || list(&world, by, "east").status() == 400);
    }
}

#[test]
fn a_quarantined_site_is_seen_and_not_asked_until_that_is_lifted() {
    let world = World::start().unwrap();
    assert!(ordered(&world, 0, &["quarantine", "Site3"]).contains("in quarantine"));
    until_seen(&world, &[0, 1, 2], 2, &[("quarantined", json!(true)), ("status", json!("alive"))]);
    for by in [0, 1] {
        until("no request is sent there", || {
            let away = list(&world, by, "Site3");
            away.status() == 503 && away.header("scope-sites").contains("\"Site3\";error=quarantined")
        });
        assert_eq!(list(&world, by, "Site3 ; here").status(), 200);
        assert!(ordered(&world, by, &["sites"]).contains("Site3  alive  quarantined"));
    }
    assert_eq!(list(&world, 2, "here").status(), 200, "its own clients are served");
    ordered(&world, 1, &["quarantine", "Site3", "--lift"]);
    for by in [0, 1] {
        until("it is asked again", || list(&world, by, "Site3").status() == 200);
    }
    assert!(refused(&world, 0, &["quarantine", "Site9"]).contains("there is no site `Site9`"));
    assert!(refused(&world, 0, &["quarantine", "Site1"]).contains("archipel leave"));
}

#[test]
fn a_revoked_site_is_out_everywhere_also_where_that_is_heard_late() {
    let world = World::start().unwrap();
    let fourth = world.add_site().unwrap();
    world.until_met().unwrap();
    world.authority().save(&world.home("authority")).unwrap();
    let authority = world.home("authority").display().to_string();
    Authority::create("demo").unwrap().save(&world.home("foreign")).unwrap();
    let foreign = world.home("foreign").display().to_string();
    let why = refused(&world, 0, &["revoke", "Site4", "--authority", &foreign]);
    assert!(why.contains("not by the authority of this site"), "{why}");
    assert!(!archipel(&world, 0, &["revoke", "Site4", "--authority", "nowhere"]).status.success());
    for mistaken in ["Site1", "Site44"] {
        assert!(refused(&world, 0, &["revoke", mistaken, "--authority", &authority]).contains("--force"));
    }
    ordered(&world, 0, &["revoke", "Site44", "--authority", &authority, "--force"]);
    assert_eq!(seen(&world, 0, fourth)["status"], "alive");

    // Site3 is away when it happens; the stolen box still reaches it.
    for other in [0, 1] {
        world.cut_between(2, other, Some(Cut::Reset)).unwrap();
        world.cut_between(other, 2, Some(Cut::Reset)).unwrap();
    }
    ordered(&world, 0, &["revoke", "Site4", "--authority", &authority]);
    until_status(&world, &[0, 1], fourth, "revoked");
    for by in [0, 1] {
        until("it is no site any more", || list(&world, by, "Site4").status() == 400);
    }
    for to in ["Site1", "Site2"] {
        until("its own requests are refused", || list(&world, fourth, to).status() == 503);
    }
    assert_eq!(list(&world, 2, "Site4").status(), 200, "Site3 cannot know");
    for other in [0, 1] {
        world.cut_between(2, other, None).unwrap();
        world.cut_between(other, 2, None).unwrap();
    }
    until_status(&world, &[2], fourth, "revoked");
    until("it is no site any more", || list(&world, 2, "Site4").status() == 400);
    until("its own requests are refused", || list(&world, fourth, "Site3").status() == 503);

    // A new box of the same name, with what the authority issues now.
    world.stop_mesh(fourth, Duration::ZERO).unwrap();
    world.renew_identity(fourth).unwrap();
    world.start_mesh(fourth).unwrap();
    until_status(&world, &[0, 1, 2], fourth, "alive");
    for by in 0..3 {
        until("it is asked", || list(&world, by, "Site4").header("x-served-by") == "image@Site4");
        until("it may ask", || list(&world, fourth, &format!("Site{}", by + 1)).status() == 200);
    }
}

/// What an outsider can send to a site: garbage, what it signed itself, and what others signed, again and again,
/// changed, or cut short.
fn hostile(to: &str, foreign: &Sealer, captured: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let garbage = [&b""[..], b"x", &[0; 1200], &[255; 1472], b"GET / HTTP/1.1\r\n\r\n"];
    let mut hostile: Vec<Vec<u8>> = garbage.map(Vec::from).into();
    for bytes in captured {
        let payload = &bytes[..bytes.len().min(900)];
        let sealed = foreign.seal(Some(to), payload, SystemTime::now()).unwrap();
        hostile.extend(sealed.introduction.into_iter().chain([sealed.datagram]));
        hostile.extend(std::iter::repeat_n(bytes.clone(), 20));
        let (mut flipped, middle) = (bytes.clone(), bytes.len() / 2);
        flipped[middle] ^= 1;
        hostile.extend([flipped, bytes[..middle].to_vec()]);
    }
    hostile
}

#[test]
fn an_outsider_changes_nothing() {
    let world = World::start().unwrap();
    ordered(&world, 0, &["zone", "set", "west=Site1 & Site2"]);
    for by in 0..3 {
        until("the zone is known", || zones(&world, by) == "west = Site1 & Site2\n");
    }
    // Genuine datagrams of Site1, for whoever is at this address.
    let outsider = UdpSocket::bind("127.0.0.1:0").unwrap();
    outsider.set_read_timeout(Some(support::PATIENCE)).unwrap();
    let address = outsider.local_addr().unwrap().to_string();
    for _ in 0..2 {
        assert!(refused(&world, 0, &["join", &address]).contains("nobody answered"));
    }
    let (mut captured, mut buffer) = (Vec::new(), [0; 2048]);
    while captured.len() < 2 {
        let length = outsider.recv(&mut buffer).unwrap();
        captured.push(buffer[..length].to_vec());
    }
    let before = [0, 1, 2].map(|site| lasting(&world, site));
    let refusals = [0, 1, 2].map(|site| counted(&world, site, REFUSED));

    // Another operator with the same name, and a site of the same name: what it signs is well-formed.
    let identity = Authority::create("demo").unwrap().issue("Site2").unwrap();
    let (foreign, _) = datagram::pair(&identity, Revoked::default()).unwrap();
    for (site, refusals) in refusals.into_iter().enumerate() {
        let hostile = hostile(&format!("Site{}", site + 1), &foreign, &captured);
        for bytes in &hostile {
            outsider.send_to(bytes, configured(&world, site, "listen")).unwrap();
        }
        // Site1 refuses its own; the others take what was said to nobody else once.
        let least = refusals + (hostile.len() - captured.len()) as u64;
        until("they are refused", || counted(&world, site, REFUSED) >= least);
    }
    assert_eq!([0, 1, 2].map(|site| lasting(&world, site)), before);
    for by in 0..3 {
        assert_eq!(list(&world, by, "*").status(), 200);
    }
}

#[test]
fn nonsense_on_the_admin_socket_is_refused_and_harms_nobody() {
    let world = World::start().unwrap();
    let before = lasting(&world, 0);
    let request = |line: &str, body: &str| {
        let head = format!("{line} HTTP/1.1\r\nhost: admin\r\ncontent-length: {}\r\n\r\n", body.len());
        tell_admin(&world, 0, format!("{head}{body}").as_bytes())
    };
    for (line, body, status, says) in [
        ("PUT /v1/zones/west", "{\"location\": ", 400, "not JSON"),
        ("PUT /v1/zones/west", "", 400, "location"),
        ("PUT /v1/zones/west", "{\"location\": 7}", 400, "location"),
        ("PUT /v1/zones/w%zzst", "{\"location\": \"Site1\"}", 400, "escaped"),
        ("PUT /v1/zones/%ff", "{\"location\": \"Site1\"}", 400, "escaped"),
        ("PUT /v1/zones/", "{\"location\": \"Site1\"}", 422, ""),
        ("PUT /v1/zones/a%20b%00", "{\"location\": \"Site1\"}", 422, ""),
        ("POST /v1/join", "{\"addresses\": []}", 400, "addresses"),
        ("POST /v1/join", "{\"addresses\": [7]}", 400, "addresses"),
        ("POST /v1/join", "{\"addresses\": [\"not an address\"]}", 422, "not an address"),
        ("POST /v1/join", "[[[[[[[[", 400, "not JSON"),
        ("PUT /v1/sites/Site9/quarantine", "{\"on\": true}", 422, "Site9"),
        ("PUT /v1/sites/Site2/quarantine", "{\"on\": 1}", 400, "on"),
        ("POST /v1/revocations", "{\"statement\": \"xyz\"}", 400, "hexadecimal"),
        ("POST /v1/revocations", "{\"statement\": \"00ff\"}", 422, "no revocation"),
        ("POST /v1/revocations", "{\"statement\": \"\"}", 422, "no revocation"),
        ("PUT /v1/metrics", "{\"load\": \"high\"}", 400, "load"),
        ("PUT /v1/metrics", "{\"load\": 1e999}", 400, ""),
        ("PUT /v1/metrics", "7", 400, "load"),
        ("PUT /v1/bypass", "{}", 400, "on"),
        ("GET /v1/nothing", "", 404, "nothing"),
        ("GET /v2/sites", "", 404, "v2"),
        ("DELETE /v1/sites", "", 404, "sites"),
        ("GET /", "", 404, ""),
    ] {
        let answer = request(line, body);
        assert_eq!(answer.status(), status, "{line} {body}: {answer:?}");
        assert!(answer.field("title").contains(says), "{line} {body}: {answer:?}");
    }
    let deep = request("PUT /v1/metrics", &"[".repeat(60_000));
    assert_eq!(deep.status(), 400, "{deep:?}");
    let many: serde_json::Map<_, _> = (0..500).map(|number| (format!("m{number}"), json!(1))).collect();
    let many = request("PUT /v1/metrics", &json!(many).to_string());
    assert_eq!(many.status(), 422, "{many:?}");
    let huge = tell_admin(
        &world,
        0,
        format!(
            "PUT /v1/zones/west HTTP/1.1\r\nhost: admin\r\ncontent-length: 1000000\r\n\r\n{}",
            "x".repeat(200_000)
        )
        .as_bytes(),
    );
    assert_eq!(huge.status(), 400, "{huge:?}");
    let malformed = tell_admin(&world, 0, b"\x00\xff nonsense\r\n\r\n");
    assert_eq!(malformed.status(), 400, "{malformed:?}");
    assert_eq!(lasting(&world, 0), before);
    assert_eq!(request("GET /v1/sites", "").status(), 200);
}

/// Who is told to go, goes: threads and sockets of a world end with it.
#[test]
fn a_stopped_site_leaves_its_port_at_once() {
    let world = World::start().unwrap();
    let listen = configured(&world, 2, "listen");
    assert!(UdpSocket::bind(listen).is_err(), "this tests nothing");
    let start = Instant::now();
    world.stop_mesh(2, Duration::ZERO).unwrap();
    until("the port is free", || UdpSocket::bind(listen).is_ok());
    assert!(start.elapsed() < support::PATIENCE);
    world.start_mesh(2).unwrap();
    world.until_met().unwrap();
}
